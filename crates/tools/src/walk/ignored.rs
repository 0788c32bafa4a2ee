//! What the files `.gitignore` and `.ignore` of the directories of a walk leave out.

use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, openat};
use seekless_engine::walk::{FOUND_FILE, Listing};
use seekless_sys::without_atime;

use super::filter::Named;

/// The rules of a directory, which take precedence over those of the directories above it.
pub(super) struct Ignored {
    rules: Gitignore,
    above: Option<Arc<Self>>,
}

/// If both match, the later one decides.
const NAMES: [&[u8]; 2] = [b".gitignore", b".ignore"];

/// At most this much of an ignore file is read.
const LIMIT_BYTES: u64 = 1 << 20;

impl Ignored {
    /// Adds the rules of a directory, which has these entries, to those above. Invalid lines are skipped, as in git.
    pub fn read(
        directory: BorrowedFd<'_>,
        entries: &Listing,
        below_root: &Path,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let mut builder = GitignoreBuilder::new(below_root);
        for name in NAMES {
            if entries.entries().iter().any(|entry| entries.name(entry) == name)
                && let Ok(file) = without_atime(|more| openat(directory, name, FOUND_FILE | more, Mode::empty()))
            {
                let mut text = Vec::new();
                let _ = std::fs::File::from(file).take(LIMIT_BYTES).read_to_end(&mut text);
                for line in String::from_utf8_lossy(&text).lines() {
                    let _ = builder.add_line(None, line);
                }
            }
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => Some(Arc::new(Self { rules, above })),
            _ => above,
        }
    }

    pub fn matches(&self, entry: &Named<'_>, is_directory: bool) -> bool {
        let path = (entry.path)();
        let mut at = Some(self);
        while let Some(ignored) = at {
            match ignored.rules.matched(&path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => at = ignored.above.as_deref(),
            }
        }
        false
    }
}
