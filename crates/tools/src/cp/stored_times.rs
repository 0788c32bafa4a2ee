//! Times as the file system of a target stores them: some round them, and some have a first or last
//! year.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Mutex;

use seekless::files::{FileRef, Time};

use super::queue::lock;
use super::{ROUNDED_TIMES, UNSTORED_TIMES};

/// No file system rounds more: FAT stores every second second.
const ROUNDED_MAX_NS: i128 = 2_000_000_000;

/// What a copy lacks that was to have a time and has another one.
pub(super) fn lost(wanted: Time, stored: Time) -> Option<&'static str> {
    let [wanted, stored] =
        [wanted, stored].map(|(seconds, more)| i128::from(seconds) * 1_000_000_000 + i128::from(more));
    let is_rounded = wanted.abs_diff(stored) < ROUNDED_MAX_NS.unsigned_abs();
    (wanted != stored).then_some(if is_rounded { ROUNDED_TIMES } else { UNSTORED_TIMES })
}

/// For each file system of targets, a file without a name that shows what becomes of times there.
#[derive(Default)]
pub(super) struct StoredTimes(Mutex<HashMap<u64, Option<File>>>);

impl StoredTimes {
    /// Returns what the file system of a device, on which `make` makes a file, makes of a time of
    /// modification; the time itself if that cannot be found out.
    pub fn of(&self, time: Time, device: u64, make: impl FnOnce() -> Option<File>) -> Time {
        let mut files = lock(&self.0);
        let file = files.entry(device).or_insert_with(make);
        let stored = file.as_ref().and_then(|file| {
            let file = FileRef::Open(file.as_fd());
            // FUSE may ignore a time of modification alone.
            file.set_times(Some(time), time).ok()?;
            Some(file.facts().ok()?.modified)
        });
        stored.unwrap_or(time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_time_that_is_rounded_is_told_from_one_that_cannot_be_stored(
            seconds in prop_oneof![any::<i64>(), -10..10_i64, 9_223_372_030..9_223_372_040_i64],
            more in prop_oneof![Just(0), Just(999_999_999), 0..1_000_000_000_u32],
            unit in prop_oneof![Just(1), Just(100), Just(10_000_000), Just(1_000_000_000)],
            away in 3..i64::MAX,
        ) {
            let rounded = (seconds, more - more % unit);
            prop_assert_eq!(lost((seconds, more), rounded), (rounded.1 != more).then_some(ROUNDED_TIMES));
            let even = (seconds & !1, 0);
            prop_assert_eq!(lost((seconds, more), even), (even != (seconds, more)).then_some(ROUNDED_TIMES));
            let last = (seconds.saturating_sub(away), 0);
            prop_assert_eq!(lost((seconds, more), last).is_some(), last != (seconds, more));
            if last.0 < seconds.saturating_sub(2) {
                prop_assert_eq!(lost((seconds, more), last), Some(UNSTORED_TIMES));
            }
        }
    }
}
