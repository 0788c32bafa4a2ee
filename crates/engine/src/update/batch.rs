//! Collecting a batch of updates: in memory, and in unnamed files if they do not fit.

use std::path::Path;

use super::resolved::Updates;
use super::spill::Spill;
use super::window::Unsorted;
use crate::error::BatchError;

/// The largest end of an update: files end at 2^63 - 1.
const END_MAX: u64 = i64::MAX as u64;

/// A batch of updates: bytes and their offsets. If two overlap, the later one wins.
#[derive(Debug, Default)]
pub struct Batch {
    unsorted: Unsorted,
    given: u64,
    spill: Option<Spill>,
}

impl Batch {
    /// An empty batch that takes up to 4 GiB of memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch that takes at most this many bytes of memory, for its updates (16 bytes each) and their data.
    /// Beyond that, updates are sorted and moved to unnamed files in a directory. That needs at least 16 MiB, and 40
    /// bytes of memory for every 64 KiB in the directory.
    #[must_use]
    pub fn within(memory_bytes: u64, directory: impl AsRef<Path>) -> Self {
        Self {
            spill: Some(Spill::new(memory_bytes, directory.as_ref())),
            ..Self::default()
        }
    }

    /// Adds an update: bytes at an offset. An empty one changes nothing.
    ///
    /// # Errors
    /// [`BatchError`] if the end exceeds the largest file size, the batch is full, or updates cannot be written to the
    /// directory.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BatchError> {
        let length = bytes.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > END_MAX) {
            return Err(BatchError::TooFar { offset, bytes: length });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let room = self.spill.as_ref().map_or(u64::MAX, Spill::memory_bytes);
        if self.unsorted.has_room(bytes.len(), room) {
            self.unsorted.push(offset, bytes);
        } else {
            let spill = self.spill.as_mut().ok_or(BatchError::Full)?;
            // An update larger than the memory is split.
            for (at, part) in (offset..)
                .step_by(spill.part_bytes())
                .zip(bytes.chunks(spill.part_bytes()))
            {
                if !self.unsorted.has_room(part.len(), room) {
                    spill.add(std::mem::take(&mut self.unsorted))?;
                }
                self.unsorted.push(at, part);
            }
        }
        self.given += 1;
        Ok(())
    }

    /// Sorts the updates and removes bytes that later ones overwrite.
    ///
    /// # Errors
    /// [`BatchError::Spill`], only if updates were moved to a directory.
    pub fn resolve(self) -> crate::error::Result<Updates> {
        match self.spill {
            Some(mut spill) if spill.is_used() => {
                spill.add(self.unsorted)?;
                Updates::spilled(self.given, spill)
            }
            _ => Ok(Updates::in_memory(self.given, self.unsorted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_file_can_hold_is_refused_and_a_directory_that_takes_no_file_named() {
        let mut batch = Batch::new();
        assert!(matches!(batch.push(u64::MAX, b"x"), Err(BatchError::TooFar { .. })));
        assert!(matches!(batch.push(END_MAX, b"x"), Err(BatchError::TooFar { .. })));
        batch.push(END_MAX - 1, b"x").unwrap();
        batch.push(7, b"").unwrap();
        assert_eq!(batch.resolve().unwrap().given(), 1);
        let mut batch = Batch::within(16, Path::new("/nowhere"));
        let refused = batch.push(0, b"1234").and_then(|()| batch.push(0, b"1234"));
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("/nowhere"), "{refused}");
    }

    #[test]
    fn what_does_not_fit_goes_to_the_directory_and_what_fits_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut batch = Batch::within(3 * (16 + 4), directory.path());
        for offset in [0, 7, 3] {
            batch.push(offset, b"1234").unwrap();
        }
        assert!(!batch.spill.as_ref().unwrap().is_used());
        batch.push(0, b"").unwrap();
        assert!(!batch.spill.as_ref().unwrap().is_used(), "nothing takes nothing");
        batch.push(0, b"1").unwrap();
        let updates = batch.resolve().unwrap();
        assert_eq!((updates.given(), updates.requested_bytes(), updates.end()), (4, 11, 11));
        assert!(updates.spilled_bytes().is_some());
    }

    #[test]
    fn windows_take_no_more_memory_than_is_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let mut batch = Batch::within(4000, directory.path());
        for n in 0..2000_u64 {
            batch.push(n * 7919 % 20_000, b"1234").unwrap();
        }
        let updates = batch.resolve().unwrap();
        let (mut windows, mut largest) = (0, 0);
        let counted = updates.each_window(|window| {
            windows += 1;
            largest = largest.max(window.pieces.len() * 16 + window.bytes.len());
            Ok(())
        });
        counted.unwrap();
        // 40,000 bytes; half of the memory, and a chunk of each of the runs that were merged.
        assert!(windows >= 10 && largest <= 4000, "{windows} {largest}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if crate::is_long() { 256 } else { 64 }))]

        #[test]
        fn the_last_given_wins_in_every_byte_however_small_the_memory(
            given in proptest::collection::vec((0u64..400, proptest::collection::vec(any::<u8>(), 0..100)), 0..150),
            memory_bytes in prop_oneof![Just(None), (20u64..2000).prop_map(Some)],
        ) {
            let directory = tempfile::tempdir()?;
            let mut naive = vec![None; 500];
            let mut batch = match memory_bytes {
                Some(memory_bytes) => Batch::within(memory_bytes, directory.path()),
                None => Batch::new(),
            };
            for (offset, bytes) in &given {
                batch.push(*offset, bytes).unwrap();
                for (at, byte) in (*offset..).zip(bytes) {
                    naive[at as usize] = Some(*byte);
                }
            }
            let updates = batch.resolve().unwrap();
            let (mut found, mut reached, mut windows_end, mut pieces) = (vec![None; 500], 0, 0, 0);
            updates.each_window(|window| {
                assert!(window.range.start == windows_end && window.range.start.is_multiple_of(16));
                assert!(!window.pieces.is_empty() || updates.is_empty());
                windows_end = window.range.end;
                for (offset, bytes) in window.iter() {
                    let end = offset + bytes.len() as u64;
                    assert!(offset >= reached && offset >= window.range.start && end <= window.range.end);
                    assert!(!bytes.is_empty());
                    (reached, pieces) = (end, pieces + 1);
                    for (at, byte) in (offset..).zip(bytes) {
                        found[at as usize] = Some(*byte);
                    }
                }
                Ok(())
            }).unwrap();
            prop_assert_eq!(windows_end, u64::MAX);
            prop_assert_eq!(updates.given(), given.iter().filter(|one| !one.1.is_empty()).count() as u64);
            prop_assert_eq!(updates.requested_bytes(), naive.iter().flatten().count() as u64);
            prop_assert_eq!((updates.end(), updates.gaps.pieces), (reached, pieces));
            prop_assert_eq!(found, naive);
        }
    }
}
