//! Existing files of the user, which trials read as they are: finding them, and the directories that commands read.

use std::collections::HashSet;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seekless_engine::cache::CachedFile;
use seekless_engine::files::FileId;
use seekless_engine::walk::{StatFacts, Walk, WalkDirectory, WalkRules};
use seekless_engine::{StorageFacts, full_text};
use seekless_results::files;

use crate::experiment::MOST_FILES;
use crate::testfile::TestFile;
use crate::trial::LaunchStop;

/// What became of a file of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileChange {
    /// It has no name any more.
    #[error("it was removed")]
    Removed,
    /// Its name leads to something else.
    #[error("it was replaced by {0}")]
    Replaced(&'static str),
    /// It has another size, in bytes.
    #[error("it {} from {from} B to {to} B", if to < from { "shrank" } else { "grew" })]
    Size {
        /// When the run began.
        from: u64,
        /// Now.
        to: u64,
    },
}

/// Finds files below a directory that have data, each by one name, until there are enough; returns also how many are not
/// readable. Links are not followed, and other file systems are not entered.
fn find(directory: &Path, is_enough: impl Fn(usize) -> bool) -> (Vec<TestFile>, u32) {
    let (mut files, mut unreadable) = (Vec::new(), 0);
    let mut linked = HashSet::new();
    // A tree may have many directories and no file.
    let rules = OneFileSystem {
        device: fs::metadata(directory).map_or(0, |found| found.dev()),
        is_stopped: &|| is_enough(0),
    };
    for found in Walk::below(directory, rules) {
        if is_enough(files.len()) {
            break;
        }
        let opened = found
            .ok()
            .and_then(|file| Some((CachedFile::open(file.path()).ok()?, file)));
        let Some((opened, file)) = opened else {
            unreadable += 1;
            continue;
        };
        let metadata = opened.metadata();
        let is_first_name = metadata.nlink() < 2 || linked.insert(FileId::of(metadata));
        if metadata.len() > 0 && is_first_name {
            files.push(TestFile::existing(file.path(), metadata.len()));
        }
    }
    (files, unreadable)
}

/// Enters the directories of the file system with this number.
struct OneFileSystem<'a> {
    device: u64,
    is_stopped: &'a dyn Fn() -> bool,
}

impl WalkRules for OneFileSystem<'_> {
    fn enters(&mut self, _directory: &WalkDirectory<1>, _at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        facts.device == self.device
    }

    fn is_stopped(&self) -> bool {
        (self.is_stopped)()
    }
}

/// The files of a directory with data, each by one name. Nothing in it is written.
pub(super) struct Tree {
    /// The absolute path.
    pub path: String,
    pub files: Vec<TestFile>,
    /// How many files cannot be opened.
    pub unreadable: u32,
}

impl Tree {
    /// How many files there are, and their mean size.
    pub fn size(&self) -> (u32, u64) {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        (self.files.len() as u32, bytes / self.files.len() as u64)
    }
}

/// A directory with this name, relative to a measured one, and its files; or why it cannot be measured.
pub(super) fn find_tree(
    named: &str,
    measured: &Path,
    measured_facts: &StorageFacts,
    stop: &LaunchStop,
) -> Result<Tree, String> {
    let absolute = |path: &Path| fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()));
    let path = absolute(&measured.join(named))?;
    let because = |why: &str| Err(format!("{}: {why}", path.display()));
    if !path.is_dir() {
        return because("not a directory");
    }
    let Some(shown) = path.to_str() else {
        return because("its path is not UTF-8");
    };
    let own = absolute(measured)?;
    if own.starts_with(&path) {
        return because(&format!("test files are created in {}, inside it", own.display()));
    }
    let facts = StorageFacts::of(&path).map_err(|error| full_text(&error))?;
    // Links of udev, by which a file system is identified, come and go with other devices.
    let is_same_device = facts.device_number == measured_facts.device_number;
    if !is_same_device && seekless_engine::identity(&path, &facts) != seekless_engine::identity(&own, measured_facts) {
        return because(&format!("not on the storage of {}", own.display()));
    }
    let is_enough = |found| stop.is_requested() || found > MOST_FILES as usize;
    let (found, unreadable) = find(&path, is_enough);
    match found.len() {
        _ if stop.is_requested() => Err("stopped".to_owned()),
        0 => because("no readable file in it has data"),
        count if count > MOST_FILES as usize => {
            because(&format!("more than {}, the most of a trial", files(MOST_FILES.into())))
        }
        _ => Ok(Tree {
            path: shown.to_owned(),
            files: found,
            unreadable,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_have_one_name_each_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("below")).unwrap();
        for name in ["one", "below/two"] {
            fs::write(path(name), name).unwrap();
        }
        fs::hard_link(path("one"), path("linked")).unwrap();
        std::os::unix::fs::symlink("one", path("symbolic")).unwrap();
        fs::write(path("empty"), "").unwrap();
        let (files, unreadable) = find(directory.path(), |_| false);
        let mut bytes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
        bytes.sort_unstable();
        assert_eq!((bytes, unreadable), (vec![3, 9], 0));
    }
}
