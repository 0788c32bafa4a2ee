//! Reading the beginnings of files that are in memory, many at a time.
//!
//! These files are neither closed nor checked one by one: only those that begin like another are checked for changes since
//! they were listed. What is not in memory is left to [`seekless_engine::batch::HeadReader`].

use std::fs::File;
use std::sync::atomic::Ordering;

use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{FIRST_BYTES, WHOLE_BYTES};
use seekless_sys::HeadRing;

use super::heads_part::{Digest, HeadsPart};

/// Files read at a time, in one thread.
pub(super) struct LeftResident {
    ring: HeadRing,
    batch: usize,
    /// How much is read of each: all of a small file if most files before it began like another.
    bytes: usize,
}

/// Files to be read in another way.
#[derive(Default)]
pub(super) struct Rest {
    /// They are not in memory, and the system may have begun to read them.
    pub missed: Vec<u32>,
    pub untried: Vec<u32>,
    /// Whether most were missed.
    pub is_cold: bool,
}

impl LeftResident {
    /// `None` if the system does not support it.
    pub fn new(batch: usize, process: &ProcessFacts) -> Option<Self> {
        let made = process
            .has_rings
            .then(|| HeadRing::new(batch as u32, WHOLE_BYTES as usize));
        Some(Self {
            ring: made?.available()?,
            batch,
            bytes: FIRST_BYTES,
        })
    }

    /// Reads files, and returns those to be read in another way. If most of a batch are not in memory, later ones are not tried,
    /// because a read that would wait starts a request of its own.
    pub fn read(&mut self, numbers: &[u32], part: &mut HeadsPart<'_>) -> Rest {
        let mut rest = Rest::default();
        let mut batches = numbers.chunks(self.batch);
        while let Some(batch) = batches.next() {
            let before = rest.missed.len();
            self.read_batch(batch, &mut rest, part);
            if rest.missed.len() - before > batch.len() / 2 {
                rest.is_cold = true;
                rest.untried.extend(batches.flatten());
                break;
            }
        }
        rest
    }

    fn read_batch(&mut self, batch: &[u32], rest: &mut Rest, part: &mut HeadsPart<'_>) {
        let files = part.search.files;
        let mut entries = Vec::with_capacity(batch.len());
        for number in batch {
            match files.entry(*number) {
                Ok(entry) if !(part.search.stop.is_stopped() || files.is_read_without_device(*number)) => {
                    entries.push((*number, entry));
                }
                _ => rest.untried.push(*number),
            }
        }
        let named = entries.iter().map(|(_, (handles, name, flags))| {
            let [directory] = handles.borrowed();
            (directory, *name, *flags)
        });
        // After an error, there are no heads.
        let _ = self.ring.read(&named.collect::<Vec<_>>(), self.bytes);
        let numbers = entries.iter().map(|(number, _)| *number);
        let small = self.digest_heads(numbers, rest, part);
        self.compare_small(&small, rest, part);
    }

    /// Digests the heads that were read. Returns those of small files, which are whole, with their slots, sorted.
    fn digest_heads(
        &self,
        numbers: impl Iterator<Item = u32>,
        rest: &mut Rest,
        part: &mut HeadsPart<'_>,
    ) -> Vec<(Digest, usize)> {
        let mut small = Vec::new();
        let mut read_bytes = 0;
        for (slot, number) in numbers.enumerate() {
            let bytes = part.search.files.get(number).bytes;
            let expected = bytes.min(FIRST_BYTES as u64) as usize;
            let read = self.ring.head(slot);
            read_bytes += read.map_or(0, <[u8]>::len) as u64;
            match read.and_then(|head| head.get(..expected)) {
                Some(head) if bytes <= WHOLE_BYTES => small.push((part.digest(number, head), slot)),
                Some(head) => {
                    let digest = part.digest(number, head);
                    part.digests.push(digest);
                }
                None if self.ring.is_missed(slot) => rest.missed.push(number),
                None => rest.untried.push(number),
            }
        }
        part.search.read_bytes.fetch_add(read_bytes, Ordering::Relaxed);
        small.sort_unstable();
        small
    }

    /// Compares small files that have the same digest, and chooses how much of each file the next batch reads.
    fn compare_small(&mut self, small: &[(Digest, usize)], rest: &mut Rest, part: &mut HeadsPart<'_>) {
        let files = part.search.files;
        let is_alike = |one: &(Digest, usize), other: &(Digest, usize)| one.0.0 == other.0.0;
        let several = small.chunk_by(is_alike).filter(|alike| alike.len() > 1).flatten();
        let several: Vec<(Digest, usize)> = several.copied().collect();
        let descriptors = self
            .ring
            .descriptors(several.iter().map(|(_, slot)| *slot))
            .unwrap_or_default();
        let mut files_open = descriptors.into_iter().map(|descriptor| descriptor.map(File::from));
        for alike in small.chunk_by(is_alike) {
            if let [(digest, _)] = alike {
                part.digests.push(*digest);
                continue;
            }
            let mut open = Vec::with_capacity(alike.len());
            for (digest, slot) in alike {
                // Files of two sizes may have one digest.
                let bytes = files.get(digest.1).bytes as usize;
                let content = self.ring.head(*slot).and_then(|head| head.get(..bytes));
                match files_open.next().flatten() {
                    Some(file) => open.push((*digest, file, content)),
                    None => rest.untried.push(digest.1),
                }
            }
            part.compare_alike(open.iter().map(|(digest, file, content)| (*digest, file, *content)));
        }
        self.bytes = if several.len() > small.len() / 2 {
            WHOLE_BYTES as usize
        } else {
            FIRST_BYTES
        };
    }
}
