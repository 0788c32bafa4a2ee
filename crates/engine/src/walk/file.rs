//! A file to open: by the path that the user named, or by its name in a directory of a walk.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::retry_on_intr;
use seekless_sys::PathWalk;

use super::{StatFacts, WalkDirectory, is_sure};
use crate::files::IoFailure;

/// A file of a job.
pub struct FileAt {
    path: PathBuf,
    /// The directory in which it was found, unless it was named itself.
    directory: Option<Arc<WalkDirectory<1>>>,
}

/// The flags for opening files. A file that was regular when it was listed may be something else by now, so opening
/// must not block on a FIFO or take a controlling terminal.
pub const NAMED_FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// The flags for reading a file that a walk found: links are not followed.
pub const FOUND_FILE: OFlags = NAMED_FILE.union(OFlags::NOFOLLOW);

impl FileAt {
    /// A file that the user named. A symbolic link is followed.
    #[must_use]
    pub fn named(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { path, directory: None }
    }

    /// A file in a directory.
    pub(super) fn found(name: &[u8], directory: &Arc<WalkDirectory<1>>) -> Self {
        directory.keep(1);
        Self {
            path: directory.path_of(name),
            directory: Some(Arc::clone(directory)),
        }
    }

    /// Its path, which may be longer than system calls accept.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was named, not found in a directory.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.directory.is_none()
    }

    /// Its facts, before it is opened.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> Result<StatFacts, IoFailure> {
        self.with_place(|directory, name, is_found| {
            let facts = if is_found {
                StatFacts::at(directory, name)
            } else {
                StatFacts::behind(directory, name)
            };
            facts.map_err(|error| ("stat", error.into()))
        })
    }

    /// Whether its identity is unique: see [`is_sure`].
    #[must_use]
    pub fn is_sure(&self, facts: &StatFacts) -> bool {
        let is_sure = self.with_place(|directory, _, _| {
            let is_of_one = StatFacts::of(directory).is_ok_and(|directory| directory.device == facts.device);
            Ok(is_of_one && is_sure(directory))
        });
        is_sure.unwrap_or(false)
    }

    /// Opens it, for reading or writing. It may be another kind of file by now. One that was named is not written to through a link
    /// that another user planted in a directory open to all.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, access: OFlags) -> Result<File, IoFailure> {
        let open = |directory: BorrowedFd<'_>, name: &[u8], flags: OFlags| {
            let opened = retry_on_intr(|| openat(directory, name, access | flags, Mode::empty()));
            opened.map(File::from).map_err(|error| ("open", error.into()))
        };
        if self.is_named() && access.contains(OFlags::RDWR) {
            let walk = PathWalk::protected(&self.path).map_err(|error| ("open", error))?;
            let name = walk.name.unwrap_or_default();
            return open(walk.directory.as_fd(), name.as_bytes(), FOUND_FILE);
        }
        self.with_place(|directory, name, is_found| {
            open(directory, name, if is_found { FOUND_FILE } else { NAMED_FILE })
        })
    }

    /// Calls `act` with an open directory, the name in it, and whether it was found there.
    ///
    /// # Errors
    /// The system's, and those of `act`.
    pub fn with_place<T>(
        &self,
        act: impl FnOnce(BorrowedFd<'_>, &[u8], bool) -> Result<T, IoFailure>,
    ) -> Result<T, IoFailure> {
        let path = self.path.as_os_str().as_bytes();
        let Some(directory) = &self.directory else {
            return act(CWD, path, false);
        };
        let handles = directory.handles();
        let handles = handles.map_err(|(_, error)| ("open its directory again", error))?;
        let [handle] = handles.borrowed();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        act(handle, name, true)
    }
}

impl Drop for FileAt {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            directory.release(1);
        }
    }
}
