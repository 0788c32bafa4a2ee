//! What is lost when the power goes: the writes that are only in the drive's write cache.
//!
//! The medium always holds the newest bytes, so that reads are simple. For each write since the last flush, [`WriteCache`] keeps
//! the bytes that it replaced; [`WriteCache::cut`] says which of them must be written back to get what a real medium would hold.
//!
//! Not here: when the power goes ([`faults`](crate::faults)).

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use serde::{Deserialize, Serialize};

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

/// The writes that a drive has in its cache, from the oldest to the newest, each as the bytes that it replaced.
#[derive(Debug)]
pub struct WriteCache {
    replaced: VecDeque<WriteBack>,
    replaced_bytes: u64,
    most_bytes: u64,
    sector_bytes: usize,
}

impl WriteCache {
    /// A cache of `most_bytes`, 0 for none, of a drive that writes sectors of `sector_bytes` as a whole.
    #[must_use]
    pub fn new(most_bytes: u64, sector_bytes: u32) -> Self {
        Self {
            replaced: VecDeque::new(),
            replaced_bytes: 0,
            most_bytes,
            sector_bytes: sector_bytes as usize,
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

    /// The power goes: what must be written to the medium, in the order of addresses. What is random follows from `seed`, and so
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

    /// What must be written to the medium where it has only those sectors of writes for which `is_kept(write, sector)`, where
    /// sectors count from the write's first.
    ///
    /// The newest write that is kept decides about a sector: what older ones replaced there is of no account.
    fn undo(&self, mut is_kept: impl FnMut(usize, usize) -> bool) -> Vec<WriteBack> {
        // `None` where what is there now, or what a newer write replaced, stays.
        let mut sectors: BTreeMap<u64, SectorFate<'_>> = BTreeMap::new();
        for (write, replaced) in self.replaced.iter().enumerate().rev() {
            for (sector, bytes) in replaced.bytes.chunks(self.sector_bytes).enumerate() {
                let address = replaced.offset_bytes + (sector * self.sector_bytes) as u64;
                let fate = sectors.entry(address).or_default();
                if fate.is_settled {
                    continue;
                }
                if is_kept(write, sector) {
                    fate.is_settled = true;
                } else {
                    fate.back = Some(bytes);
                }
            }
        }
        let mut backs: Vec<WriteBack> = Vec::new();
        for (offset_bytes, fate) in sectors {
            let Some(bytes) = fate.back else { continue };
            match backs.last_mut() {
                Some(last) if last.offset_bytes + last.bytes.len() as u64 == offset_bytes => {
                    last.bytes.extend_from_slice(bytes);
                }
                _ => backs.push(WriteBack {
                    offset_bytes,
                    bytes: bytes.to_vec(),
                }),
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

/// What becomes of a sector.
#[derive(Default)]
struct SectorFate<'a> {
    /// A write that is kept is found: older ones change nothing.
    is_settled: bool,
    /// What the oldest of the newer writes replaced.
    back: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const SECTORS: usize = 16;
    const SECTOR: usize = 4;

    /// A medium that keeps all versions of each sector, with the number of the write that made it.
    #[derive(Debug)]
    struct Versions {
        medium: Vec<u8>,
        cache: WriteCache,
        /// Since the last flush; the first one is durable.
        sectors: Vec<Vec<(Option<usize>, u8)>>,
        writes: Vec<(usize, usize)>,
    }

    impl Versions {
        fn new(most_bytes: u64) -> Self {
            Self {
                medium: vec![0; SECTORS * SECTOR],
                cache: WriteCache::new(most_bytes, SECTOR as u32),
                sectors: vec![vec![(None, 0)]; SECTORS],
                writes: Vec::new(),
            }
        }

        fn write(&mut self, first: usize, count: usize, value: u8) {
            let range = first * SECTOR..(first + count) * SECTOR;
            let read = |bytes: &mut [u8]| {
                bytes.copy_from_slice(&self.medium[range.clone()]);
                Ok::<_, Infallible>(())
            };
            let (offset, length) = (range.start as u64, range.len() as u64);
            self.cache.record(offset, length, read).unwrap();
            self.medium[range].fill(value);
            let number = self.writes.len();
            self.writes.push((first, count));
            for sector in first..first + count {
                self.sectors[sector].push((Some(number), value));
            }
        }

        fn flush(&mut self) {
            self.cache.flush();
            for versions in &mut self.sectors {
                versions.drain(..versions.len() - 1);
                versions[0].0 = None;
            }
            self.writes.clear();
        }

        /// The writes that the cache forgot, because it was full.
        fn durable(&self) -> usize {
            self.writes.len() - self.cache.replaced.len()
        }

        fn after(&self, backs: &[WriteBack]) -> Vec<u8> {
            let mut medium = self.medium.clone();
            for back in backs {
                let start = back.offset_bytes as usize;
                medium[start..start + back.bytes.len()].copy_from_slice(&back.bytes);
            }
            medium
                .chunks(SECTOR)
                .map(|sector| {
                    assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
                    sector[0]
                })
                .collect()
        }

        /// The value of each sector where only some sectors of some writes are kept.
        fn expected(&self, is_kept: impl Fn(usize, usize) -> bool) -> Vec<u8> {
            let value = |(sector, versions): (usize, &Vec<(Option<usize>, u8)>)| {
                let is_there = |write: &Option<usize>| {
                    write.is_none_or(|write| {
                        write < self.durable() || is_kept(write - self.durable(), sector - self.writes[write].0)
                    })
                };
                versions.iter().rev().find(|(write, _)| is_there(write)).unwrap().1
            };
            self.sectors.iter().enumerate().map(value).collect()
        }
    }

    fn versions() -> impl Strategy<Value = Versions> {
        let write = (0..SECTORS, 1..=6_usize, 0..=20_u8);
        (prop::collection::vec(write, 0..24), 0..200_u64).prop_map(|(writes, most_bytes)| {
            let mut versions = Versions::new(most_bytes);
            for (value, (first, count, flush)) in (1..).zip(writes) {
                versions.write(first, count.min(SECTORS - first), value);
                if flush == 0 {
                    versions.flush();
                }
            }
            versions
        })
    }

    proptest! {
        #[test]
        fn a_sector_holds_the_newest_write_of_it_that_is_kept(versions in versions(), kept in any::<u64>()) {
            let is_kept = |write: usize, sector: usize| kept.rotate_right((7 * write + sector) as u32) & 1 == 1;
            prop_assert_eq!(versions.after(&versions.cache.undo(is_kept)), versions.expected(is_kept));
        }

        #[test]
        fn what_was_flushed_is_kept_and_nothing_comes_from_nowhere(versions in versions(), seed in any::<u64>(), loss in 0..5_usize) {
            let loss = PowerLoss::ALL.get(loss).copied();
            let backs = versions.cache.cut(loss, seed);
            prop_assert_eq!(&backs, &versions.cache.cut(loss, seed));
            let after = versions.after(&backs);
            for (value, known) in after.iter().zip(&versions.sectors) {
                prop_assert!(known.iter().any(|(_, known)| known == value));
            }
            match loss {
                Some(PowerLoss::Lost) => prop_assert_eq!(after, versions.expected(|_, _| false)),
                Some(PowerLoss::Kept) => prop_assert_eq!(after, versions.expected(|_, _| true)),
                Some(PowerLoss::Torn) => {
                    let count = versions.cache.replaced.len();
                    // Between the states before and after one of the writes.
                    let is_between = |whole: usize| {
                        let before = versions.expected(|write, _| write < whole);
                        let behind = versions.expected(|write, _| write <= whole);
                        after.iter().zip(before.iter().zip(&behind)).all(|(value, (before, behind))| value == before || value == behind)
                    };
                    prop_assert!((0..=count).any(is_between));
                }
                _ => {}
            }
        }

        #[test]
        fn the_cache_holds_no_more_than_it_can(versions in versions()) {
            prop_assert!(versions.cache.bytes() <= versions.cache.most_bytes);
        }
    }

    #[test]
    fn seeds_draw_every_loss_and_tear_writes() {
        let mut versions = Versions::new(1000);
        versions.write(0, 4, 1);
        versions.write(2, 4, 2);
        let seen: std::collections::BTreeSet<_> = (0..1000)
            .map(|seed| versions.after(&versions.cache.cut(None, seed))[..6].to_vec())
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
        let mut versions = Versions::new(0);
        versions.write(0, 4, 1);
        assert!(versions.cache.cut(Some(PowerLoss::Lost), 0).is_empty());
    }
}
