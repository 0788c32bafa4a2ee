//! A file by the open directory that it is in: what stands beside it is made and removed there, whatever happens to the
//! path.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Directory, Opening, Support};

use super::watch::{Step, StepKind, Watch};
use crate::error::{Error, Result, UpdateErrorKind};
use crate::files::{Identity, stat_regular};

pub(super) struct Place {
    /// Without links, to tell.
    pub path: PathBuf,
    pub directory: Directory,
    pub name: OsString,
}

/// How long to wait for a lease. The requests that a killed process had in a ring hold its file and lease for a moment after
/// its death; on a busy machine, for longer.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

impl Place {
    /// Finds the regular file that a path leads to.
    ///
    /// # Errors
    /// The system's; [`Error::NotRegular`]; [`UpdateErrorKind::Replaced`] where it was replaced meanwhile.
    pub fn of(path: &Path) -> Result<Self> {
        let failed = |error| Error::system(path, "looking at it", error);
        // First by the kernel: it does not follow a link that another user planted in a directory open to all
        // (/proc/sys/fs/protected_symlinks).
        let found = stat_regular(path)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let directory = Directory::open(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        let place = Self { path, directory, name };
        place.require_is(&found)?;
        Ok(place)
    }

    /// Fails where the name is another file's by now.
    pub fn require_is(&self, file: &Metadata) -> Result<()> {
        match self.directory.entry(&self.name) {
            Ok(entry) if entry.is(file) => Ok(()),
            _ => Err(self.failed(UpdateErrorKind::Replaced)),
        }
    }

    pub fn open(&self, access: Access) -> io::Result<File> {
        self.open_as(Opening::plain(access))?.required()
    }

    /// Opens the file. Opening it for writing waits for others' leases, but not as long as the kernel would.
    pub fn open_as(&self, how: Opening) -> io::Result<Support<File>> {
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

    /// The path of what stands beside the file.
    pub fn beside(&self, name: &OsStr) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Makes an empty file beside it, under a name that no file has.
    pub fn make_beside(&self) -> io::Result<(File, OsString)> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".seekless-{}-{number}", std::process::id()));
            match self.directory.create_file(&name, 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let file = made?;
                    // Until it has a better name: whoever recovers leaves alone what is locked.
                    let locked = file.try_lock().map_err(io::Error::from);
                    return match locked {
                        Ok(()) => Ok((file, name)),
                        Err(error) => {
                            let _ = self.directory.remove_file(&name);
                            Err(error)
                        }
                    };
                }
            }
        }
    }

    /// Makes an empty file beside it that is gone when it is closed, and opens it once more.
    pub fn make_for_a_moment(&self, how: Opening) -> io::Result<(File, File)> {
        if let Support::Available((file, path)) = sys::unnamed_file(&self.directory)? {
            return Ok((file, sys::open(&path, how)?.required()?));
        }
        let (file, name) = self.make_beside()?;
        let again = self.directory.open_file(&name, how);
        self.directory.remove_file(&name)?;
        let again = again?.required()?;
        if Identity::of(&file.metadata()?) != Identity::of(&again.metadata()?) {
            return Err(io::Error::other("another process replaced the temporary file"));
        }
        Ok((file, again))
    }

    /// Brings the names in the directory to the device.
    pub fn sync_directory(&self, told: &Path, watch: &dyn Watch) -> Result<()> {
        watch
            .before(&Step::of(StepKind::Sync, told))
            .and_then(|()| self.directory.sync())
            .map_err(|error| Error::system(told, "fsync of its directory", error))
    }

    /// A failed system call at the file.
    pub fn system(&self, action: &'static str, error: io::Error) -> Error {
        Error::system(&self.path, action, error)
    }

    /// What else went wrong with the file.
    pub fn failed(&self, kind: UpdateErrorKind) -> Error {
        kind.at(&self.path)
    }
}

/// Whether a name is one by [`Place::make_beside`].
pub(super) fn is_name_of_empty(name: &OsStr) -> bool {
    let numbers = name
        .to_str()
        .and_then(|name| name.strip_prefix(".seekless-")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// The error of opening a file for writing, with the flag that keeps it from being changed where there is one.
pub(super) fn with_protection(place: &Place, error: Error) -> Error {
    match (sys::protection(&place.path), error) {
        (Ok(Support::Available(Some(protection))), Error::System { path, source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            UpdateErrorKind::Protected { protection, source }.at(&path)
        }
        (_, error) => error,
    }
}
