//! What is lost when the power goes: the writes that are only in the drive's write cache.
//!
//! The medium always holds the newest bytes, so that reads are simple. For each write since the last flush, [`WriteCache`] keeps
//! the bytes that it replaced; [`WriteCache::cut`] says which of them must be written back to get what a real medium would hold.
//!
//! Not here: when the power goes ([`faults`](crate::faults)).

use std::collections::VecDeque;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::ranges::ByteRanges;

/// What becomes of the writes in the drive's cache when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerLoss {
    /// None of them is on the medium.
    Lost,
    /// All of them are.
    Kept,
    /// The oldest are, and of the next some sectors.
    Torn,
    /// Any of them are, in any order, and of others some sectors.
    Reordered,
}

impl PowerLoss {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Kept, Self::Torn, Self::Reordered];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Kept => "kept",
            Self::Torn => "torn",
            Self::Reordered => "reordered",
        }
    }
}

/// The unit that devices write as a whole. File systems need it: btrfs cannot be mounted where a write of its superblock is torn.
pub const TORN_BYTES: u32 = 4096;

/// Bytes to write to the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Where.
    pub offset_bytes: u64,
    /// What.
    pub bytes: Vec<u8>,
}

impl WriteBack {
    fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.bytes.len() as u64
    }
}

/// The writes that a drive has in its cache, from the oldest to the newest, each as the bytes that it replaced.
#[derive(Debug)]
pub struct WriteCache {
    replaced: VecDeque<WriteBack>,
    replaced_bytes: u64,
    most_bytes: u64,
    sector_bytes: u64,
}

impl WriteCache {
    /// A cache of `most_bytes`, 0 for none, of a drive that writes sectors of `sector_bytes` as a whole.
    #[must_use]
    pub fn new(most_bytes: u64, sector_bytes: u32) -> Self {
        Self {
            replaced: VecDeque::new(),
            replaced_bytes: 0,
            most_bytes,
            sector_bytes: sector_bytes.into(),
        }
    }

    /// A write or discard is about to happen; `read` reads the bytes of its range from the medium. Where the cache is full, its
    /// oldest writes go to the medium, and so does one that is larger than the cache.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn record<E>(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.replaced_bytes + length_bytes > self.most_bytes {
            let Some(oldest) = self.replaced.pop_front() else {
                return Ok(());
            };
            self.replaced_bytes -= oldest.bytes.len() as u64;
        }
        let mut bytes = vec![0; length_bytes as usize];
        read(&mut bytes)?;
        self.replaced_bytes += length_bytes;
        self.replaced.push_back(WriteBack { offset_bytes, bytes });
        Ok(())
    }

    /// All writes are on the medium.
    pub fn flush(&mut self) {
        self.replaced.clear();
        self.replaced_bytes = 0;
    }

    /// How many bytes of writes are in it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.replaced_bytes
    }

    /// The power goes: what must be written to the medium, in this order. What is random follows from `seed`, and so
    /// does the loss where none is given.
    #[must_use]
    pub fn cut(&self, loss: Option<PowerLoss>, seed: u64) -> Vec<WriteBack> {
        let rng = &mut Rng::with_seed(seed);
        let drawn = PowerLoss::ALL[rng.usize(..PowerLoss::ALL.len())];
        let writes = self.replaced.len();
        let kept: Vec<KeptSectors> = match loss.unwrap_or(drawn) {
            PowerLoss::Lost => vec![KeptSectors::None; writes],
            PowerLoss::Kept => vec![KeptSectors::All; writes],
            PowerLoss::Torn => {
                let whole = rng.usize(..=writes);
                let kept = |write: usize| match write.cmp(&whole) {
                    std::cmp::Ordering::Less => KeptSectors::All,
                    std::cmp::Ordering::Equal => KeptSectors::Drawn,
                    std::cmp::Ordering::Greater => KeptSectors::None,
                };
                (0..writes).map(kept).collect()
            }
            PowerLoss::Reordered => {
                // Few, half, or most of them.
                let chance = rng.f64();
                let kept = |_| match (rng.f64() < chance, rng.u8(..4)) {
                    (_, 0) => KeptSectors::Drawn,
                    (true, _) => KeptSectors::All,
                    (false, _) => KeptSectors::None,
                };
                (0..writes).map(kept).collect()
            }
        };
        self.undo(|write, _| match kept[write] {
            KeptSectors::All => true,
            KeptSectors::None => false,
            KeptSectors::Drawn => rng.bool(),
        })
    }

    /// What must be written to the medium, in this order, where it has only those sectors of writes for which
    /// `is_kept(write, sector)`, where sectors count from the write's first.
    ///
    /// From the newest write to the oldest: what one replaced comes back, unless a newer one that is kept lies over it. Writes need
    /// not begin where sectors do, and one may hold parts of several.
    fn undo(&self, mut is_kept: impl FnMut(usize, usize) -> bool) -> Vec<WriteBack> {
        let mut open = ByteRanges::default();
        open.insert(0, u64::MAX);
        let mut backs: Vec<WriteBack> = Vec::new();
        for (write, replaced) in self.replaced.iter().enumerate().rev() {
            let (start, end) = (replaced.offset_bytes, replaced.end_bytes());
            let first = start / self.sector_bytes;
            for sector in first..end.div_ceil(self.sector_bytes) {
                let (from, to) = (sector * self.sector_bytes, (sector + 1) * self.sector_bytes);
                let (from, to) = (from.max(start), to.min(end));
                if is_kept(write, (sector - first) as usize) {
                    open.remove(from, to);
                    continue;
                }
                for (from, to) in open.within(from, to) {
                    let bytes = &replaced.bytes[(from - start) as usize..(to - start) as usize];
                    match backs.last_mut().filter(|last| last.end_bytes() == from) {
                        Some(last) => last.bytes.extend_from_slice(bytes),
                        None => backs.push(WriteBack {
                            offset_bytes: from,
                            bytes: bytes.to_vec(),
                        }),
                    }
                }
            }
        }
        backs
    }
}

/// Which sectors of a write are on the medium after the power went.
#[derive(Clone, Copy)]
enum KeptSectors {
    All,
    None,
    Drawn,
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = 64;
    const SECTOR: usize = 4;

    /// All that was written, one after another, and where the last flush was.
    #[derive(Debug)]
    struct Written {
        medium: Vec<u8>,
        cache: WriteCache,
        writes: Vec<(usize, usize, u8)>,
        flushed: usize,
    }

    impl Written {
        fn new(most_bytes: u64) -> Self {
            Self {
                medium: vec![0; BYTES],
                cache: WriteCache::new(most_bytes, SECTOR as u32),
                writes: Vec::new(),
                flushed: 0,
            }
        }

        fn write(&mut self, start: usize, length: usize, value: u8) {
            let range = start..start + length;
            let read = |bytes: &mut [u8]| {
                bytes.copy_from_slice(&self.medium[range.clone()]);
                Ok::<_, Infallible>(())
            };
            self.cache.record(start as u64, length as u64, read).unwrap();
            self.medium[range].fill(value);
            self.writes.push((start, length, value));
        }

        fn flush(&mut self) {
            self.cache.flush();
            self.flushed = self.writes.len();
        }

        fn after(&self, backs: &[WriteBack]) -> Vec<u8> {
            let mut medium = self.medium.clone();
            for back in backs {
                medium[back.offset_bytes as usize..back.end_bytes() as usize].copy_from_slice(&back.bytes);
            }
            medium
        }

        /// The oracle: all writes again, in order, but for the sectors that are not kept. What a full cache forgot is kept.
        fn expected(&self, is_kept: impl Fn(usize, usize) -> bool) -> Vec<u8> {
            let durable = self.writes.len() - self.cache.replaced.len();
            assert!(durable >= self.flushed);
            let mut medium = vec![0; BYTES];
            for (number, (start, length, value)) in self.writes.iter().enumerate() {
                for (at, byte) in medium.iter_mut().enumerate().skip(*start).take(*length) {
                    if number < durable || is_kept(number - durable, at / SECTOR - start / SECTOR) {
                        *byte = *value;
                    }
                }
            }
            medium
        }
    }

    /// Writes that begin and end anywhere, and flushes.
    fn written() -> impl Strategy<Value = Written> {
        let write = (0..BYTES, 1..=24_usize, 0..=20_u8);
        (prop::collection::vec(write, 0..24), 0..200_u64).prop_map(|(writes, most_bytes)| {
            let mut written = Written::new(most_bytes);
            for (value, (start, length, flush)) in (1..).zip(writes) {
                written.write(start, length.min(BYTES - start), value);
                if flush == 0 {
                    written.flush();
                }
            }
            written
        })
    }

    proptest! {
        #[test]
        fn a_byte_holds_the_newest_write_of_it_that_is_kept(written in written(), kept in any::<u64>()) {
            let is_kept = |write: usize, sector: usize| kept.rotate_right((7 * write + sector) as u32) & 1 == 1;
            prop_assert_eq!(written.after(&written.cache.undo(is_kept)), written.expected(is_kept));
        }

        #[test]
        fn what_was_flushed_is_kept_and_a_loss_is_what_its_name_says(written in written(), seed in any::<u64>(), loss in 0..5_usize) {
            let loss = PowerLoss::ALL.get(loss).copied();
            let backs = written.cache.cut(loss, seed);
            prop_assert_eq!(&backs, &written.cache.cut(loss, seed));
            let after = written.after(&backs);
            let is_between = |before: &[u8], behind: &[u8]| {
                after.iter().zip(before.iter().zip(behind)).all(|(value, (before, behind))| value == before || value == behind)
            };
            match loss {
                Some(PowerLoss::Lost) => prop_assert_eq!(after, written.expected(|_, _| false)),
                Some(PowerLoss::Kept) => prop_assert_eq!(after, written.medium),
                Some(PowerLoss::Torn) => {
                    let is_torn = |whole: usize| is_between(&written.expected(|write, _| write < whole), &written.expected(|write, _| write <= whole));
                    prop_assert!((0..=written.cache.replaced.len()).any(is_torn));
                }
                _ => for (at, value) in after.iter().enumerate() {
                    // Nothing comes from nowhere.
                    let holds = |write: &(usize, usize, u8)| (write.0..write.0 + write.1).contains(&at) && write.2 == *value;
                    prop_assert!(written.expected(|_, _| false)[at] == *value || written.writes[written.flushed..].iter().any(holds));
                },
            }
        }

        #[test]
        fn the_cache_holds_no_more_than_it_can(written in written()) {
            prop_assert!(written.cache.bytes() <= written.cache.most_bytes);
        }
    }

    #[test]
    fn power_cut_leaves_a_written_unit_whole() {
        let mut written = Written::new(1000);
        written.write(1, 1, 1);
        written.write(0, 4, 2);
        for (seed, loss) in (0..400).zip(PowerLoss::ALL.into_iter().cycle()) {
            let after = written.after(&written.cache.cut(Some(loss), seed));
            let known = [[0; 4], [0, 1, 0, 0], [2; 4]];
            assert!(known.iter().any(|known| after[..4] == *known), "{after:?}");
        }
    }

    #[test]
    fn seeds_draw_every_loss_and_tear_writes() {
        let mut written = Written::new(1000);
        written.write(0, 16, 1);
        written.write(8, 16, 2);
        let seen: std::collections::BTreeSet<_> = (0..1000)
            .map(|seed| written.after(&written.cache.cut(None, seed)))
            .map(|medium| medium[..24].iter().copied().step_by(SECTOR).collect::<Vec<_>>())
            .collect();
        for medium in [
            [0, 0, 0, 0, 0, 0],
            [1, 1, 2, 2, 2, 2],
            [1, 1, 1, 1, 0, 0],
            [0, 0, 2, 2, 2, 2],
            [0, 1, 0, 1, 0, 0],
        ] {
            assert!(seen.contains(&medium[..]), "{medium:?}");
        }
    }

    #[test]
    fn a_drive_without_a_cache_loses_nothing_that_it_answered() {
        let mut written = Written::new(0);
        written.write(0, 4, 1);
        assert!(written.cache.cut(Some(PowerLoss::Lost), 0).is_empty());
    }
}
