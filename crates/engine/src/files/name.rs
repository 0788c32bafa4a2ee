//! A name in an open directory. Calls on it, and on the names beside it, are relative to that handle, so changes of the path have no
//! effect.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use seekless_sys::{self as sys, Access, Directory, Opening, PathWalk, Support, name_open_file};

use super::{FileId, StatFacts, StepKind, Watch, stat_regular};
use crate::error::{Error, Result, SidecarKind, UpdateErrorKind};

/// How long to wait for a lease to end. Requests in the ring of a killed process hold its file and lease for a moment
/// after its death, longer on a busy machine.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

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

    /// Finds the regular file that a path names, through no link that another user planted in a directory open to all.
    ///
    /// # Errors
    /// The system's; [`Error::NotRegular`]; [`UpdateErrorKind::Replaced`] if it was replaced meanwhile.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let found = stat_regular(path)?;
        let walk = PathWalk::protected(path).map_err(|error| Error::system(path, "find", error))?;
        let place = Self {
            path: walk.path,
            directory: walk.directory.into(),
            name: walk.name.unwrap_or_default(),
        };
        place.require_is(FileId::of(&found))?;
        Ok(place)
    }

    /// Fails if the name belongs to another file by now.
    pub(crate) fn require_is(&self, file: FileId) -> Result<()> {
        match self.facts_of(&self.name) {
            Ok(Some(entry)) if entry.id() == file => Ok(()),
            _ => Err(self.failed(UpdateErrorKind::Replaced)),
        }
    }

    pub(crate) fn open_with(&self, access: Access) -> io::Result<File> {
        self.open_as(Opening::plain(access))?.required()
    }

    /// Opens the file. Opening for writing waits for leases of other processes, but not as long as the kernel would.
    pub(crate) fn open_as(&self, how: Opening) -> io::Result<Support<File>> {
        let started = Instant::now();
        loop {
            let opened = self.directory.open_file(&self.name, how);
            let is_leased = matches!(&opened, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if !is_leased || how.access == Access::Read || started.elapsed() > LEASE_PATIENCE {
                return opened;
            }
            std::thread::sleep(LEASE_PATIENCE / 500);
        }
    }

    /// Fails if the file is a mount point: what is beside it is not beside its name in its own directory.
    pub(crate) fn require_findable(&self, file: &File, beside: SidecarKind) -> Result<()> {
        if sys::is_mount_root(file) {
            return Err(self.failed(UpdateErrorKind::MountPoint(beside)));
        }
        Ok(())
    }

    /// Opens the file for writing, without a method.
    pub(crate) fn open_for_writing(&self) -> Result<File> {
        let opened = self.open_with(Access::Overwrite);
        opened.map_err(|error| with_protection(self, self.system("open for writing", error)))
    }

    /// Stats the open file.
    pub(crate) fn metadata(&self, file: &File) -> Result<Metadata> {
        file.metadata().map_err(|error| self.system("stat", error))
    }

    /// Syncs the directory.
    pub(crate) fn sync_directory(&self, told: &Path, watch: &dyn Watch) -> Result<()> {
        watch.step(StepKind::Sync, told, "fsync its directory", || self.directory.sync())
    }

    /// The error of a system call on the file.
    pub(crate) fn system(&self, action: &'static str, error: io::Error) -> Error {
        Error::system(&self.path, action, error)
    }

    /// Another error of the file.
    pub(crate) fn failed(&self, kind: UpdateErrorKind) -> Error {
        kind.at(&self.path)
    }
}

/// The error of opening a file for writing; names the flag that protects the file, if there is one.
pub(crate) fn with_protection(place: &NameInDirectory, error: Error) -> Error {
    match (sys::protection(&place.path), error) {
        (Ok(Support::Available(Some(protection))), Error::System { path, source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            let protection = protection.about;
            UpdateErrorKind::Protected { protection, source }.at(&path)
        }
        (_, error) => error,
    }
}
