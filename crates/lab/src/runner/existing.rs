//! Existing files of the user, which trials read as they are: finding them, and the directories that commands read.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use seekless::cache::CachedFile;
use seekless::files::{FileId, FileState};
use seekless::walk::{Directory, StatFacts, Walk, WalkRules};
use seekless::{StorageFacts, full_text};
use seekless_results::files;

use super::storage::MeasuredStorage;
use crate::experiment::MOST_FILES;
use crate::testfile::TestFile;
use crate::trial::LaunchStop;

/// A file of the user, as it was when it was found.
#[derive(Clone, Debug)]
pub(super) struct UserFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub state: FileState,
}

impl UserFile {
    pub fn new(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            state: FileState::of(metadata),
        }
    }

    /// The same for a trial; its answer is unknown until it is read again.
    pub fn test_file(&self) -> TestFile {
        TestFile::existing(&self.path, self.bytes)
    }

    /// Whether it is the same file with the same content, as far as the system tells.
    pub fn is_unchanged(&self) -> bool {
        let now = fs::symlink_metadata(&self.path);
        now.is_ok_and(|now| FileState::of(&now) == self.state)
    }
}

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

seekless_record::words! {
    /// Why a file is left out.
    Unfit {
        /// It is resident.
        InMemory = "in memory",
        /// Its residency is unknown.
        Unknown = "with unknown residency",
        /// It has holes.
        WithHoles = "with holes",
        /// It shares blocks with another file, which may have been read.
        Shared = "with shared blocks",
        /// It cannot be opened.
        Unreadable = "not readable",
    }
}

/// How many files are left out, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Unfit, u32>);

impl LeftOut {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(why, files)| format!("{files} {why}")).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

/// Finds files below a directory that have data and fit, each by one name, until there are enough. Links are not followed,
/// and other file systems are not entered.
pub(super) fn find(
    directory: &Path,
    is_enough: impl Fn(usize) -> bool,
    fits: impl Fn(&Path, &CachedFile) -> Result<(), Unfit>,
) -> (Vec<UserFile>, LeftOut) {
    let (mut files, mut left_out) = (Vec::new(), LeftOut::default());
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
        let found = found.map_err(|_| Unfit::Unreadable);
        match found.and_then(|file| user_file(file.path(), &mut linked, &fits)) {
            Ok(file) => files.extend(file),
            Err(why) => *left_out.0.entry(why).or_default() += 1,
        }
    }
    (files, left_out)
}

/// Enters the directories of the file system with this number.
struct OneFileSystem<'a> {
    device: u64,
    is_stopped: &'a dyn Fn() -> bool,
}

impl WalkRules for OneFileSystem<'_> {
    fn enters(&mut self, _directory: &Directory<1>, _at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        facts.device == self.device
    }

    fn is_stopped(&self) -> bool {
        (self.is_stopped)()
    }
}

/// A file, if it fits; `None` for an empty file, and for an additional hard link.
fn user_file(
    path: &Path,
    linked: &mut HashSet<FileId>,
    fits: impl Fn(&Path, &CachedFile) -> Result<(), Unfit>,
) -> Result<Option<UserFile>, Unfit> {
    let file = CachedFile::open(path).map_err(|_| Unfit::Unreadable)?;
    let metadata = file.metadata();
    let is_first_name = metadata.nlink() < 2 || linked.insert(FileId::of(metadata));
    if metadata.len() == 0 || !is_first_name {
        return Ok(None);
    }
    fits(path, &file).map(|()| Some(UserFile::new(path, metadata)))
}

/// The files of a directory with data, each by one name. Nothing in it is written.
pub(super) struct Tree {
    /// The absolute path.
    pub path: String,
    pub files: Vec<TestFile>,
    pub left_out: LeftOut,
}

impl Tree {
    /// How many files there are, and their mean size.
    pub fn size(&self) -> (u32, u64) {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        (self.files.len() as u32, bytes / self.files.len() as u64)
    }
}

impl MeasuredStorage {
    /// A directory that an experiment names, relative to the one that is measured, and its files; or why it cannot be
    /// measured. It is walked once.
    pub fn tree(&mut self, named: &str, stop: &LaunchStop) -> Result<&Tree, &str> {
        if !self.trees.contains_key(named) {
            let found = Rc::new(self.find_tree(named, stop));
            if let Ok(tree) = &*found {
                // Contests name it by its path.
                self.trees.insert(tree.path.clone(), Rc::clone(&found));
            }
            self.trees.insert(named.to_owned(), found);
        }
        Result::as_ref(&self.trees[named]).map_err(String::as_str)
    }

    /// The same, if it was looked for.
    pub fn known_tree(&self, named: &str) -> Option<Result<&Tree, &String>> {
        self.trees.get(named).map(|tree| Result::as_ref(tree))
    }

    fn find_tree(&self, named: &str, stop: &LaunchStop) -> Result<Tree, String> {
        let absolute = |path: &Path| fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()));
        let path = absolute(&self.directory.join(named))?;
        let because = |why: &str| Err(format!("{}: {why}", path.display()));
        if !path.is_dir() {
            return because("not a directory");
        }
        let Some(shown) = path.to_str() else {
            return because("its path is not UTF-8");
        };
        let own = absolute(&self.directory)?;
        if own.starts_with(&path) {
            return because(&format!("test files are created in {}, inside it", own.display()));
        }
        let facts = StorageFacts::of(&path).map_err(|error| full_text(&error))?;
        // Links of udev, by which a file system is identified, come and go with other devices.
        let is_same_device = facts.device_number == self.facts.device_number;
        if !is_same_device && seekless::identity(&path, &facts) != seekless::identity(&own, &self.facts) {
            return because(&format!("not on the storage of {}", own.display()));
        }
        let is_enough = |found| stop.is_requested() || found > MOST_FILES as usize;
        let (found, left_out) = find(&path, is_enough, |_, _| Ok(()));
        match found.len() {
            _ if stop.is_requested() => Err("stopped".to_owned()),
            0 => because("no readable file in it has data"),
            count if count > MOST_FILES as usize => {
                because(&format!("more than {}, the most of a trial", files(MOST_FILES.into())))
            }
            _ => Ok(Tree {
                path: shown.to_owned(),
                files: found.iter().map(UserFile::test_file).collect(),
                left_out,
            }),
        }
    }
}
