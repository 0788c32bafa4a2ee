//! How far an update in place came that ended early.

use super::{Error, UpdateErrorKind};
use seekless_method::CachePolicy;

/// How far an update in place came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HowFar {
    /// Writes that are in the file whole.
    pub done: u64,
    /// Writes behind them that may be in it in part.
    pub unsure: u64,
    /// All writes.
    pub planned: u64,
    /// Where the first of those that may be in it begins.
    pub next_offset: u64,
}

impl HowFar {
    /// It in words.
    pub(super) fn told(&self, cause: &Error) -> String {
        let Self {
            done,
            unsure,
            planned,
            next_offset,
        } = *self;
        let (is, was) = if done == 1 { ("is", "was") } else { ("are", "were") };
        let those = match (done, planned) {
            (1, 1) => "its only write".to_owned(),
            _ if done == planned => format!("all {planned} writes"),
            (1, _) => format!("the first of {planned} writes"),
            _ => format!("the first {done} of {planned} writes"),
        };
        if let Some(UpdateErrorKind::NotSynced { method, .. }) = cause.update_kind() {
            let cache = match method.options().cache() {
                CachePolicy::Direct => "",
                _ => " into the page cache",
            };
            return format!(
                "{those} {was} made{cache}, but nothing of it may be taken to be on the device, even if another fsync succeeds"
            );
        }
        let (some, at) = match unsure {
            1 => (String::new(), format!("(at byte {next_offset})")),
            _ => (format!("{unsure} "), format!("(from byte {next_offset})")),
        };
        let what = match (done, unsure, planned) {
            (0, 1, 1) => format!("its only write {at} may be in it, in part"),
            (0, ..) => format!("the first {some}of {planned} writes {at} may be in it, in part"),
            (_, 0, _) => format!("{those} {is} in it"),
            _ => format!("{those} {is} in it, the next {some}{at} may be, in part"),
        };
        let rest = if done + unsure < planned {
            ", and the rest is not"
        } else {
            ""
        };
        format!("{what}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use seekless_method::Method;

    fn told(done: u64, unsure: u64, planned: u64, cause: &Error) -> String {
        let far = HowFar {
            done,
            unsure,
            planned,
            next_offset: 4096,
        };
        far.told(cause)
    }

    #[test]
    fn what_is_in_the_file_is_told_in_numbers_that_are_right() {
        let full = Error::system(Path::new("f"), "writing", io::ErrorKind::StorageFull.into());
        let table = [
            ((0, 1, 1), "its only write (at byte 4096) may be in it, in part"),
            (
                (0, 1, 9),
                "the first of 9 writes (at byte 4096) may be in it, in part, and the rest is not",
            ),
            (
                (0, 8, 9),
                "the first 8 of 9 writes (from byte 4096) may be in it, in part, and the rest is not",
            ),
            (
                (1, 1, 9),
                "the first of 9 writes is in it, the next (at byte 4096) may be, in part, and the rest is not",
            ),
            (
                (2, 3, 9),
                "the first 2 of 9 writes are in it, the next 3 (from byte 4096) may be, in part, and the rest is not",
            ),
            (
                (8, 1, 9),
                "the first 8 of 9 writes are in it, the next (at byte 4096) may be, in part",
            ),
            ((9, 0, 9), "all 9 writes are in it"),
            ((1, 0, 1), "its only write is in it"),
        ];
        for ((done, unsure, planned), expected) in table {
            assert_eq!(told(done, unsure, planned, &full), expected);
        }
    }

    #[test]
    fn after_a_failed_fsync_nothing_is_said_to_be_in_the_file() {
        let failed = |text: &'static str| {
            let (method, source) = (Method::known(text), io::ErrorKind::Other.into());
            UpdateErrorKind::NotSynced { method, source }.at(Path::new("f"))
        };
        let cached = failed("update/sync,fsync");
        for (done, planned, expected) in [
            (1, 1, "its only write was made into the page cache, but "),
            (9, 9, "all 9 writes were made into the page cache, but "),
            (3, 9, "the first 3 of 9 writes were made into the page cache, but "),
        ] {
            let sentence = told(done, 0, planned, &cached);
            assert!(sentence.starts_with(expected), "{sentence}");
            assert!(!sentence.contains(" in it"), "{sentence}");
        }
        let past = told(9, 0, 9, &failed("update/sync,direct,fsync"));
        assert!(!past.contains("page cache"), "{past}");
    }
}
