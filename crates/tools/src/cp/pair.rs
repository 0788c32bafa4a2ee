//! A directory of the source with its copy, and a name in both.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use seekless::walk::{Directory, StatFacts};
use seekless_sys as sys;

use super::given::SourceFacts;
use super::queue::lock;
use super::staged::Staged;

/// A directory of the source and its copy.
pub(super) type Pair = Directory<2, PairState>;

/// What a copy knows of a directory.
pub(super) struct PairState {
    /// The path of the root's copy.
    to: Arc<Path>,
    /// Its entries that are not finished, and one while it is listed.
    pub unfinished: AtomicUsize,
    /// The source, for its copy to be like it at the end.
    pub origin: OnceLock<SourceFacts>,
    /// Whether the copy was made, so that nothing else has a name in it.
    pub is_new: AtomicBool,
    /// What new files in the copy have.
    new_files: OnceLock<NewFiles>,
    /// Of the copy of a named directory that has not got its name.
    pub staged: Mutex<Option<Staged>>,
    /// Whether nobody sees the copy before the tree that it is in is complete.
    pub is_staged: bool,
}

/// What new files in a directory have.
#[derive(Clone, Copy)]
pub(super) struct NewFiles {
    pub device: u64,
    pub owner: u32,
    pub group: u32,
    /// Whether they may inherit an access control list from the directory.
    pub inherit: bool,
}

impl PairState {
    /// Of a directory that has named files, or gets them.
    pub fn of_root(to: &Path) -> Self {
        Self::new(Arc::from(to), false)
    }

    /// Of a named directory.
    pub fn of_new_root(to: &Path, is_new: bool, staged: Option<Staged>) -> Self {
        let own = Self::new(Arc::from(to), staged.is_some());
        own.is_new.store(is_new, Ordering::Relaxed);
        *lock(&own.staged) = staged;
        own
    }

    /// Of a directory in this one.
    pub fn below(&self) -> Self {
        Self::new(Arc::clone(&self.to), self.is_staged)
    }

    fn new(to: Arc<Path>, is_staged: bool) -> Self {
        Self {
            to,
            unfinished: AtomicUsize::new(1),
            origin: OnceLock::new(),
            is_new: AtomicBool::new(false),
            new_files: OnceLock::new(),
            staged: Mutex::default(),
            is_staged,
        }
    }
}

/// A name in a directory of the source, and what its copy is called.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub directory: &'a Arc<Pair>,
    /// The open directories of the source and of the copy.
    pub handles: [BorrowedFd<'a>; 2],
    pub from: &'a CStr,
    pub to: &'a CStr,
    /// Whether the source was not in memory before this copy fetched it.
    pub was_fetched: bool,
}

impl At<'_> {
    /// The path of the source.
    pub fn source_path(&self) -> PathBuf {
        self.directory.path_of(self.from.to_bytes())
    }

    /// The path of the copy.
    pub fn copy_path(&self) -> PathBuf {
        self.directory
            .own
            .to
            .join(self.directory.path_below_root(self.to.to_bytes()))
    }

    /// What new files in the copy's directory have; `new` is one.
    pub fn new_files(&self, new: &File) -> io::Result<NewFiles> {
        if let Some(known) = self.directory.own.new_files.get() {
            return Ok(*known);
        }
        let found = StatFacts::of(new)?;
        let has_any = |file: BorrowedFd<'_>| match sys::extended_attributes(file) {
            Ok(found) => found.available().is_some_and(|found| !found.is_empty()),
            // The handle of a target that was named stands for its place only.
            Err(_) => true,
        };
        let known = NewFiles {
            device: found.device,
            owner: found.owner,
            group: found.group,
            inherit: has_any(self.handles[1]) || has_any(new.as_fd()),
        };
        Ok(*self.directory.own.new_files.get_or_init(|| known))
    }

    /// Whether nothing else gave names in the copy's directory.
    pub fn is_in_new(&self) -> bool {
        self.directory.own.is_new.load(Ordering::Relaxed)
    }
}

/// The path of a directory of the source.
pub(super) fn source_path(directory: &Pair) -> PathBuf {
    directory.path_of(b"")
}

/// The path of its copy.
pub(super) fn copy_path(directory: &Pair) -> PathBuf {
    let (to, below) = (&directory.own.to, directory.path_below_root(b""));
    // Joining an empty path would add a slash.
    if below.as_os_str().is_empty() {
        to.to_path_buf()
    } else {
        to.join(below)
    }
}
