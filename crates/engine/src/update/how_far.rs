//! How far an update in place came that ended early, and what that means, in words.

use std::path::Path;

use crate::error::Error;
use seekless_method::CachePolicy;

/// How far an update in place came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// It in words, and what to do.
    pub(crate) fn told(&self, path: &Path, cause: &Error) -> String {
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
            (1, _) => format!("of {planned} writes the first"),
            _ => format!("of {planned} writes the first {done}"),
        };
        if let Error::NotSynced { method, .. } = cause {
            let cache = match method.options().cache() {
                CachePolicy::Direct => "",
                _ => " into the page cache",
            };
            return format!(
                "{those} {was} made{cache}, but nothing of it may be taken to be on the device, even if another fsync succeeds: \
                 give all updates again when the reason is gone"
            );
        }
        let path = path.display();
        let (some, at) = match unsure {
            1 => (String::new(), format!("(at byte {next_offset})")),
            _ => (format!("{unsure} "), format!("(from byte {next_offset})")),
        };
        let what = match (done, unsure, planned) {
            (0, 1, 1) => format!("its only write {at} may be in {path}, in part"),
            (0, ..) => format!("of {planned} writes the first {some}{at} may be in {path}, in part"),
            (_, 0, _) => format!("{those} {is} in {path}"),
            _ => format!("{those} {is} in {path}, the next {some}{at} may be, in part"),
        };
        let rest = if done + unsure < planned {
            ", and the rest is not"
        } else {
            ""
        };
        format!("{what}{rest}: give the updates again when the reason is gone")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use seekless_method::Method;

    fn told(done: u64, unsure: u64, planned: u64, cause: &Error) -> String {
        let far = HowFar {
            done,
            unsure,
            planned,
            next_offset: 4096,
        };
        far.told(Path::new("f"), cause)
    }

    #[test]
    fn what_is_in_the_file_is_told_in_numbers_that_are_right() {
        let full = Error::system(Path::new("f"), "writing", io::ErrorKind::StorageFull.into());
        let table = [
            ((0, 1, 1), "its only write (at byte 4096) may be in f, in part: "),
            (
                (0, 1, 9),
                "of 9 writes the first (at byte 4096) may be in f, in part, and the rest is not: ",
            ),
            (
                (0, 8, 9),
                "of 9 writes the first 8 (from byte 4096) may be in f, in part, and the rest is not: ",
            ),
            (
                (1, 1, 9),
                "of 9 writes the first is in f, the next (at byte 4096) may be, in part, and the rest is not: ",
            ),
            (
                (2, 3, 9),
                "of 9 writes the first 2 are in f, the next 3 (from byte 4096) may be, in part, and the rest is not: ",
            ),
            (
                (8, 1, 9),
                "of 9 writes the first 8 are in f, the next (at byte 4096) may be, in part: ",
            ),
            ((9, 0, 9), "all 9 writes are in f: "),
            ((1, 0, 1), "its only write is in f: "),
        ];
        for ((done, unsure, planned), expected) in table {
            let sentence = told(done, unsure, planned, &full);
            assert_eq!(
                sentence,
                format!("{expected}give the updates again when the reason is gone")
            );
        }
    }

    #[test]
    fn after_a_failed_fsync_nothing_is_said_to_be_in_the_file() {
        let failed = |text: &'static str| Error::NotSynced {
            path: "f".into(),
            method: Method::known(text),
            source: io::ErrorKind::Other.into(),
        };
        let cached = failed("update/sync,fsync");
        for (done, planned, expected) in [
            (1, 1, "its only write was made into the page cache, but "),
            (9, 9, "all 9 writes were made into the page cache, but "),
            (3, 9, "of 9 writes the first 3 were made into the page cache, but "),
        ] {
            let sentence = told(done, 0, planned, &cached);
            assert!(sentence.starts_with(expected), "{sentence}");
            assert!(!sentence.contains(" in f"), "{sentence}");
        }
        let past = told(9, 0, 9, &failed("update/sync,direct,fsync"));
        assert!(!past.contains("page cache"), "{past}");
    }
}
