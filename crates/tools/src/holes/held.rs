//! A file that nobody else has open while it is changed, and which keeps its times, mode and capabilities.

use std::fs::{self, File, FileTimes, Metadata, Permissions, TryLockError};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use seekless_sys::{self as sys, Access, Opening, Support};

use super::error::{Error, OPENING};
use super::holders::holders;
use super::{Result, SECTOR_BYTES};

/// A file under a write lease.
pub(super) struct Held<'a> {
    pub file: File,
    pub path: &'a Path,
    /// As it was before anything was done.
    pub metadata: Metadata,
    capability: Option<Vec<u8>>,
}

/// From this size on it is asked first who is at a file: asking takes milliseconds, in which a small file is done.
const ASKED_FROM_BYTES: u64 = 64 << 20;

impl<'a> Held<'a> {
    /// Opens a regular file for writing, locks it as updates do, and takes the lease.
    pub fn open(path: &'a Path) -> Result<Self> {
        // Before it is opened: opening some devices does something.
        let found = require_regular(path)?;
        // And opening it ends the lease of another who is at it.
        if found.len() >= ASKED_FROM_BYTES && sys::is_locked(&found) {
            return Err(in_use(path));
        }
        let how = Opening {
            access: Access::Overwrite,
            direct: false,
            write_through: false,
        };
        let failed = |action| move |error| Error::system(path, action, error);
        let file = match sys::open(path, how) {
            Ok(Support::Available(file)) => file,
            Ok(Support::Unavailable(reason)) => return Err(unavailable(path, reason)),
            // A lease of another who keeps no lock.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(in_use(path)),
            Err(error) => return Err(unopened(path, error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                drop(file);
                return Err(in_use(path));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking it")(error)),
        }
        match sys::take_write_lease(&file) {
            Ok(Support::Available(())) => {}
            Ok(Support::Unavailable(reason)) => return Err(unavailable(path, reason)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                drop(file);
                return Err(in_use(path));
            }
            Err(error) => return Err(failed("taking a lease of it, which its owner and root may,")(error)),
        }
        if !sys::leases_bind_all_writers(&file).map_err(failed("asking for its file system"))? {
            return Err(unavailable(
                path,
                "a lease here does not keep out those who write on another machine or behind the mount",
            ));
        }
        let metadata = file.metadata().map_err(failed("looking at it"))?;
        let capability = sys::capabilities(&file);
        if let Some(value) = &capability {
            // Who may not set it again must not lose it.
            sys::set_capabilities(&file, value)
                .map_err(|error| failed("keeping its capabilities, which root can,")(error))?;
        }
        Ok(Self {
            file,
            path,
            metadata,
            capability,
        })
    }

    /// Whether nobody wants to open the file.
    pub fn is_alone(&self) -> bool {
        sys::holds_write_lease(&self.file)
    }

    pub fn require_alone(&self) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        Err(Error::Wanted {
            path: self.path.to_owned(),
        })
    }

    /// The unit in which the file system allocates.
    pub fn block_bytes(&self) -> Result<u64> {
        block_bytes(self.path)
    }

    /// What the file takes before anything was done.
    pub fn allocated_before_bytes(&self) -> u64 {
        self.metadata.blocks() * SECTOR_BYTES
    }

    /// Whether all of the file is on its device, so that the file system knows what it takes: blocks are found late by
    /// some. Not where the system does not tell.
    pub fn is_written_back(&self) -> bool {
        matches!(sys::unwritten_bytes(&self.file), Ok(Support::Available(0)))
    }

    /// Brings what was done to the device.
    pub fn sync(&self) -> Result<()> {
        sys::sync(&self.file).map_err(|error| self.failed("fsync", error))
    }

    /// What the file takes now.
    pub fn allocated_bytes(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| self.failed("looking at it", error))?;
        if metadata.len() != self.metadata.len() {
            return Err(Error::Differs {
                path: self.path.to_owned(),
                what: format!("its size was {} bytes and is {}", self.metadata.len(), metadata.len()),
            });
        }
        Ok(metadata.blocks() * SECTOR_BYTES)
    }

    /// Gives the file what changing it took away: mode and capabilities, and its times where its bytes are the same.
    pub fn restore(&self, with_times: bool) -> Result<()> {
        let now = self.file.metadata();
        let now = now.map_err(|error| self.failed("looking at it", error))?;
        if now.mode() != self.metadata.mode() {
            let mode = Permissions::from_mode(self.metadata.mode());
            let set = self.file.set_permissions(mode);
            set.map_err(|error| self.failed("setting its mode again", error))?;
        }
        if let Some(value) = &self.capability
            && sys::capabilities(&self.file).as_ref() != Some(value)
        {
            sys::set_capabilities(&self.file, value)
                .map_err(|error| self.failed("setting its capabilities again", error))?;
        }
        let times = [self.metadata.modified(), self.metadata.accessed()];
        if let [Ok(modified), Ok(accessed)] = times
            && with_times
        {
            let times = FileTimes::new().set_modified(modified).set_accessed(accessed);
            let set = self.file.set_times(times);
            set.map_err(|error| self.failed("setting its times again", error))?;
        }
        Ok(())
    }

    pub fn failed(&self, action: &'static str, error: std::io::Error) -> Error {
        Error::system(self.path, action, error)
    }
}

/// The unit in which a path's file system allocates.
pub(super) fn block_bytes(path: &Path) -> Result<u64> {
    let found = sys::file_system(path).map_err(|error| Error::system(path, "asking for its file system", error))?;
    // A file system of a program may say anything.
    Ok(found.block_bytes.clamp(512, 64 << 20).next_power_of_two())
}

/// What a path names, if that is a regular file.
pub(super) fn require_regular(path: &Path) -> Result<Metadata> {
    let metadata = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_file() => return Ok(metadata),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(Error::Kind {
        path: path.to_owned(),
        kind,
    })
}

/// With the flag that keeps the file from being changed, where there is one.
fn unopened(path: &Path, error: std::io::Error) -> Error {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Error::Protected {
                path: path.to_owned(),
                protection,
            }
        }
        _ => Error::system(path, OPENING, error),
    }
}

fn in_use(path: &Path) -> Error {
    Error::InUse {
        path: path.to_owned(),
        holders: fs::metadata(path).map_or_else(|_| Vec::new(), |metadata| holders(&metadata)),
    }
}

pub(super) fn unavailable(path: &Path, reason: &str) -> Error {
    Error::Unavailable {
        path: path.to_owned(),
        reason: reason.to_owned(),
        advice: "nothing was changed. `seekless storage` shows what works there; on a local ext4, XFS, btrfs or tmpfs this does",
    }
}
