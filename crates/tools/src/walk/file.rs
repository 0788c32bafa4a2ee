//! A file to be opened: by the path that somebody named, or by its name in a directory that was walked to.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::retry_on_intr;

use super::{Directory, Facts, is_sure};

/// A file that a job is about.
pub struct FileAt {
    path: PathBuf,
    /// What it was found in, where it was not named itself.
    directory: Option<Arc<Directory<1>>>,
}

/// What was tried, and why it failed.
pub(crate) type Failure = (&'static str, io::Error);

/// How files are opened: what was a regular file when it was listed may be something else by now, and then opening must not
/// wait for a writer, or take a terminal.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// The same below a directory that was walked to, for reading.
pub(crate) const FOUND_FILE: OFlags = FILE.union(OFlags::NOFOLLOW);

impl FileAt {
    /// A file that somebody named: a symbolic link is followed.
    #[must_use]
    pub fn named(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { path, directory: None }
    }

    /// A file in a directory, by the path that ends with its name.
    pub(super) fn found(path: PathBuf, directory: &Arc<Directory<1>>) -> Self {
        directory.keep(1);
        let directory = Some(Arc::clone(directory));
        Self { path, directory }
    }

    /// What it is called; this may be longer than a path that systems take.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was named itself, and not found in a directory.
    pub(crate) fn is_named(&self) -> bool {
        self.directory.is_none()
    }

    /// What it is, before it is opened.
    pub(crate) fn facts(&self) -> Result<Facts, Failure> {
        self.with_place(|directory, name, is_found| {
            let flags = if is_found {
                AtFlags::SYMLINK_NOFOLLOW
            } else {
                AtFlags::empty()
            };
            let stat = statat(directory, name, flags).map_err(|error| ("stat", error.into()))?;
            Ok(Facts::new(&stat))
        })
    }

    /// Whether no other file has its identity: see [`is_sure`].
    pub(crate) fn is_sure(&self, facts: &Facts) -> bool {
        let is_sure = self.with_place(|directory, _, _| {
            let is_of_one = Facts::of(directory).is_ok_and(|directory| directory.device == facts.device);
            Ok(is_of_one && is_sure(directory))
        });
        is_sure.unwrap_or(false)
    }

    /// Opens it, as for reading or writing. It may be anything by now.
    pub(crate) fn open(&self, access: OFlags) -> Result<File, Failure> {
        self.with_place(|directory, name, is_found| {
            let flags = access | if is_found { FOUND_FILE } else { FILE };
            let opened = retry_on_intr(|| openat(directory, name, flags, Mode::empty()));
            opened.map(File::from).map_err(|error| ("open", error.into()))
        })
    }

    /// Gives `act` an open directory, the name in it, and whether it was found there.
    fn with_place<T>(&self, act: impl FnOnce(BorrowedFd<'_>, &[u8], bool) -> Result<T, Failure>) -> Result<T, Failure> {
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
