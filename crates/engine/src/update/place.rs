//! A file in its open directory. Files beside it are created and removed relative to that handle, so changes of the
//! path have no effect.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Directory, Opening, Support};

use crate::error::{Beside, Error, Result, UpdateErrorKind};
use crate::files::{FileId, NameInDirectory, StepKind, Watch, stat_regular};

/// How long to wait for a lease to end. Requests in the ring of a killed process hold its file and lease for a moment
/// after its death, longer on a busy machine.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

impl NameInDirectory {
    /// Finds the regular file that a path names.
    ///
    /// # Errors
    /// The system's; [`Error::NotRegular`]; [`UpdateErrorKind::Replaced`] if it was replaced meanwhile.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let failed = |error| Error::system(path, "stat", error);
        // First by the kernel, which does not follow links that another user planted in a directory open to all
        // (/proc/sys/fs/protected_symlinks).
        let found = stat_regular(path)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let directory = Directory::open(path.parent().unwrap_or(Path::new("/")))
            .map_err(failed)?
            .into();
        let place = Self { path, directory, name };
        place.require_is(FileId::of(&found))?;
        Ok(place)
    }

    /// Fails if the name belongs to another file by now.
    pub(super) fn require_is(&self, file: FileId) -> Result<()> {
        match self.facts_of(&self.name) {
            Ok(Some(entry)) if entry.id() == file => Ok(()),
            _ => Err(self.failed(UpdateErrorKind::Replaced)),
        }
    }

    pub(super) fn open_with(&self, access: Access) -> io::Result<File> {
        self.open_as(Opening::plain(access))?.required()
    }

    /// Opens the file. Opening for writing waits for leases of other processes, but not as long as the kernel would.
    pub(super) fn open_as(&self, how: Opening) -> io::Result<Support<File>> {
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
    pub(super) fn require_findable(&self, file: &File, beside: Beside) -> Result<()> {
        if sys::is_mount_root(file) {
            return Err(self.failed(UpdateErrorKind::MountPoint(beside)));
        }
        Ok(())
    }

    /// Opens the file for writing, without a method.
    pub(super) fn open_for_writing(&self) -> Result<File> {
        let opened = self.open_with(Access::Overwrite);
        opened.map_err(|error| with_protection(self, self.system("open for writing", error)))
    }

    /// Stats the open file.
    pub(super) fn metadata(&self, file: &File) -> Result<Metadata> {
        file.metadata().map_err(|error| self.system("stat", error))
    }

    /// Syncs the directory.
    pub(super) fn sync_directory(&self, told: &Path, watch: &dyn Watch) -> Result<()> {
        watch.step(StepKind::Sync, told, "fsync its directory", || self.directory.sync())
    }

    /// The error of a system call on the file.
    pub(super) fn system(&self, action: &'static str, error: io::Error) -> Error {
        Error::system(&self.path, action, error)
    }

    /// Another error of the file.
    pub(super) fn failed(&self, kind: UpdateErrorKind) -> Error {
        kind.at(&self.path)
    }
}

/// The error of opening a file for writing; names the flag that protects the file, if there is one.
pub(super) fn with_protection(place: &NameInDirectory, error: Error) -> Error {
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
