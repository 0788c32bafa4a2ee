//! How far an update in place got before it ended early.

use seekless_method::{CachePolicy, Method};

/// How far an update in place got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HowFar {
    /// Writes that are completely in the file.
    pub done: u64,
    /// The writes after these, which may be partly in the file.
    pub unsure: u64,
    /// All writes.
    pub planned: u64,
    /// The offset of the first of the unsure writes.
    pub next_offset: u64,
}

impl HowFar {
    /// The sentence for a person. `unsynced` is the method, if its fsync failed.
    pub(super) fn told(&self, unsynced: Option<&Method>) -> String {
        let Self {
            done,
            unsure,
            planned,
            next_offset,
        } = *self;
        let was = if done == 1 { "was" } else { "were" };
        let those = match (done, planned) {
            (1, 1) => "the only write".to_owned(),
            _ if done == planned => format!("all {planned} writes"),
            (1, _) => format!("the first of {planned} writes"),
            _ => format!("the first {done} of {planned} writes"),
        };
        if let Some(method) = unsynced {
            let place = match method.options().cache() {
                CachePolicy::Direct => "completed",
                _ => "reached the page cache",
            };
            return format!("{those} {place}, but may be missing from the device, even if a later fsync succeeds");
        }
        let (some, at) = match unsure {
            1 => (String::new(), format!("(at byte {next_offset})")),
            _ => (format!("{unsure} "), format!("(from byte {next_offset})")),
        };
        let what = match (done, unsure, planned) {
            (0, 1, 1) => format!("the only write {at} may be applied in part"),
            (0, ..) => format!("the first {some}of {planned} writes {at} may be applied in part"),
            (_, 0, _) => format!("{those} {was} applied"),
            _ => format!("{those} {was} applied, the next {some}{at} may be applied in part"),
        };
        let rest = if done + unsure < planned {
            ", the rest not at all"
        } else {
            ""
        };
        format!("{what}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(done: u64, unsure: u64, planned: u64, unsynced: Option<&'static str>) -> String {
        let far = HowFar {
            done,
            unsure,
            planned,
            next_offset: 4096,
        };
        far.told(unsynced.map(Method::known).as_ref())
    }

    #[test]
    fn the_numbers_of_applied_writes_are_right() {
        let (at, from, rest) = ("(at byte 4096)", "(from byte 4096)", "the rest not at all");
        let (part, first) = ("may be applied in part", "the first of 9 writes was applied");
        let several = |count| format!("the first {count} of 9 writes were applied");
        for ((done, unsure, planned), expected) in [
            ((0, 1, 1), format!("the only write {at} {part}")),
            ((0, 1, 9), format!("the first of 9 writes {at} {part}, {rest}")),
            ((0, 8, 9), format!("the first 8 of 9 writes {from} {part}, {rest}")),
            ((1, 1, 9), format!("{first}, the next {at} {part}, {rest}")),
            ((2, 3, 9), several(2) + &format!(", the next 3 {from} {part}, {rest}")),
            ((8, 1, 9), several(8) + &format!(", the next {at} {part}")),
            ((9, 0, 9), "all 9 writes were applied".to_owned()),
            ((1, 0, 1), "the only write was applied".to_owned()),
        ] {
            assert_eq!(told(done, unsure, planned, None), expected);
        }
    }

    #[test]
    fn after_a_failed_fsync_no_write_is_called_applied() {
        for (done, planned, expected) in [
            (1, 1, "the only write reached the page cache, but "),
            (9, 9, "all 9 writes reached the page cache, but "),
            (3, 9, "the first 3 of 9 writes reached the page cache, but "),
        ] {
            let sentence = told(done, 0, planned, Some("update/sync,fsync"));
            assert!(sentence.starts_with(expected), "{sentence}");
            assert!(!sentence.contains("applied"), "{sentence}");
        }
        let past = told(9, 0, 9, Some("update/sync,direct,fsync"));
        assert!(!past.contains("page cache"), "{past}");
    }
}
