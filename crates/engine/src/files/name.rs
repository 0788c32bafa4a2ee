//! A name in an open directory. Calls on it, and on the names beside it, are relative to that handle, so changes of the path have no
//! effect.
//!
//! Not here: opening the directory, and what must be true of the file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use seekless_sys::{Access, Directory, Opening, name_open_file};

use super::{StatFacts, StepKind, Watch};

/// A name in an open directory.
#[derive(Clone, Debug)]
pub struct NameInDirectory {
    /// Its path, for messages.
    pub path: PathBuf,
    /// The directory.
    pub directory: Arc<Directory>,
    /// The name.
    pub name: OsString,
}

impl NameInDirectory {
    /// Stats a name in the directory; `None` if nothing has that name, or it is too long for any.
    ///
    /// # Errors
    /// The system's.
    pub fn facts_of(&self, name: &OsStr) -> io::Result<Option<StatFacts>> {
        match StatFacts::at(self.directory.as_fd(), name) {
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Stats what a name leads to, through links; `None` if it leads to nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn facts_behind(&self, name: &OsStr) -> io::Result<Option<StatFacts>> {
        match StatFacts::behind(self.directory.as_fd(), name) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Stats the file.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> io::Result<Option<StatFacts>> {
        self.facts_of(&self.name)
    }

    /// Opens the file for reading, which does not change its time of access. It may be of another kind by now.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self) -> io::Result<File> {
        self.open_of(&self.name)
    }

    /// The same with a name in the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn open_of(&self, name: &OsStr) -> io::Result<File> {
        let how = Opening {
            keeps_atime: true,
            ..Opening::plain(Access::Read)
        };
        self.directory.open_file(name, how)?.required()
    }

    /// Gives what has one name in the directory another, here or elsewhere, that leads to nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &OsStr, there: &Self, to: &OsStr, watch: &dyn Watch) -> io::Result<()> {
        watch.announce(StepKind::Rename, &self.beside(from))?;
        self.directory.rename_new(from, &there.directory, to)?.required()
    }

    /// Gives an open file, or one without a name, another name in the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn link(&self, file: &File, called: &OsStr) -> io::Result<()> {
        name_open_file(file, &self.directory, called)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, called: &OsStr, watch: &dyn Watch) -> io::Result<()> {
        watch.announce(StepKind::Remove, &self.beside(called))?;
        self.directory.remove_file(called)
    }

    /// The path of another name in the directory.
    #[must_use]
    pub fn beside(&self, name: &OsStr) -> PathBuf {
        self.path.with_file_name(name)
    }
}
