//! A file that no other process has open while it is changed, and which keeps its times and privileges.
//!
//! A lease does not notice changes of mode, owner, times or capabilities by name. So no mode or capability is ever set
//! here, and a file that would lose privileges is refused. Times are restored only if no other process changed
//! anything.

use std::fs::{File, FileTimes, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use seekless::error::NotAlone;
use seekless::files::{self, FileState, Lease, kind_of, with_article};
use seekless_sys::{self as sys, FileSystem, Support};

use super::Result;
use super::error::{Error, OPENING};
use super::holders::holders;
use crate::walk::{FileAt, StatFacts};

/// A file under a write lease.
pub(super) struct Held<'a> {
    pub file: Arc<File>,
    /// `None` if the user takes the risk.
    lease: Option<Lease>,
    pub path: &'a Path,
    /// Its metadata before any change.
    pub metadata: Metadata,
    /// Its state after our last call; `None` once another process changed it.
    left: Mutex<Option<FileState>>,
}

/// From this size on, `/proc/locks` is read first to see whether another process works on the file. For smaller files that would
/// take longer than the job.
const ASKED_FROM_BYTES: u64 = 64 << 20;

impl<'a> Held<'a> {
    /// Opens a regular file for writing, locks it as updates do, and takes the lease. With `is_unsafe`, works without one where none
    /// can be had.
    pub fn open(file: &'a FileAt, is_unsafe: bool) -> Result<Self> {
        let path = file.path();
        // Check first, because opening a device may have effects.
        let found = require_regular(file)?;
        // Opening it would end the lease of another job.
        if found.bytes >= ASKED_FROM_BYTES && sys::is_locked(found.device, found.inode) {
            return Err(in_use(path, (found.device, found.inode)));
        }
        let failed = |action| move |error| Error::system(path, action, error);
        let file = match file.open(OFlags::RDWR) {
            Ok(file) => Arc::new(file),
            // Another process has a lease, but no lock.
            Err((_, error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(in_use(path, (found.device, found.inode)));
            }
            Err((_, error)) => return Err(unopened(path, error)),
        };
        if !files::lock(&file, Duration::ZERO).map_err(failed("lock"))? {
            drop(file);
            return Err(in_use(path, (found.device, found.inode)));
        }
        let lease = match Lease::exclusive(&file) {
            Ok(lease) => Some(lease),
            Err(_) if is_unsafe => None,
            Err(why) => {
                drop(file);
                return Err(not_alone(path, why, (found.device, found.inode)));
            }
        };
        let metadata = file.metadata().map_err(failed("stat"))?;
        Ok(Self {
            left: Mutex::new(Some(FileState::of(&metadata))),
            file,
            lease,
            path,
            metadata,
        })
    }

    /// Whether other processes are kept out.
    pub fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether no other process has tried to open the file.
    pub fn is_alone(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::stands)
    }

    pub fn require_alone(&self) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        Err(Error::Wanted {
            path: self.path.to_owned(),
        })
    }

    /// The allocation unit of the file system.
    pub fn block_bytes(&self) -> Result<u64> {
        block_bytes(&self.file, self.path)
    }

    /// The space that the file took before, in bytes.
    pub fn allocated_before_bytes(&self) -> u64 {
        files::allocated_bytes(&self.metadata)
    }

    /// Whether the whole file is on its device, so that `st_blocks` is final; some file systems allocate late. False if
    /// unknown.
    pub fn is_written_back(&self) -> bool {
        matches!(sys::unwritten_bytes(&self.file), Ok(Support::Available(0)))
    }

    /// Writes the changes to the device.
    pub fn sync(&self) -> Result<()> {
        sys::sync(&self.file).map_err(|error| self.failed("fsync", error))
    }

    /// The space that the file takes now.
    pub fn allocated_bytes(&self) -> Result<u64> {
        let metadata = self.metadata_now()?;
        if metadata.len() != self.metadata.len() {
            return Err(Error::Differs {
                path: self.path.to_owned(),
                what: format!(
                    "its size changed from {} B to {} B",
                    self.metadata.len(),
                    metadata.len()
                ),
            });
        }
        Ok(files::allocated_bytes(&metadata))
    }

    /// Makes a hole of whole blocks.
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        match self.change(|file| sys::punch_hole(file, offset, length))? {
            Ok(Support::Available(())) => Ok(()),
            Ok(Support::Unavailable(reason)) => Err(unavailable(self.path, reason)),
            Err(error) => Err(self.failed("punch a hole", error)),
        }
    }

    /// Makes a call that changes the file, and checks whether another process changed it since the last such call.
    pub fn change<T>(&self, call: impl FnOnce(&File) -> T) -> Result<T> {
        self.require_alone()?;
        let found = self.metadata_now()?;
        if let Some(privilege) = Privilege::of(&self.file, &found) {
            return Err(Error::Privileged {
                path: self.path.to_owned(),
                privilege,
            });
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = *left == Some(FileState::of(&found));
        let done = call(&self.file);
        let now = self.metadata_now()?;
        let access = |metadata: &Metadata| (metadata.mode(), metadata.uid(), metadata.gid(), metadata.nlink());
        *left = (is_ours && access(&now) == access(&found)).then(|| FileState::of(&now));
        Ok(done)
    }

    fn metadata_now(&self) -> Result<Metadata> {
        let found = self.file.metadata();
        found.map_err(|error| self.failed("stat", error))
    }

    /// Restores the times, unless another process changed the file meanwhile, even if only its times.
    ///
    /// No system call sets times conditionally. If another process calls utimes(2) between the check and the restore, two
    /// consecutive calls, its times are lost. So they are between such a check and a call that changes the file, which overwrites
    /// the times anyway. A setxattr(2) there is not noticed, but its attribute is kept.
    pub fn restore_times(&self) -> Result<()> {
        let left = *self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(modified), Ok(accessed)) = (self.metadata.modified(), self.metadata.accessed())
            && left == Some(FileState::of(&self.metadata_now()?))
        {
            let times = FileTimes::new().set_modified(modified).set_accessed(accessed);
            let set = self.file.set_times(times);
            set.map_err(|error| self.failed("restore its times", error))?;
        }
        Ok(())
    }

    pub fn failed(&self, action: &'static str, error: std::io::Error) -> Error {
        Error::system(self.path, action, error)
    }
}

/// A privilege that a file loses when its bytes are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It is set-user-ID or set-group-ID, which changes by root keep.
    SetId,
    /// It has capabilities (capabilities(7)).
    Capabilities,
}

impl Privilege {
    fn of(file: &File, metadata: &Metadata) -> Option<Self> {
        if sys::has_capabilities(file) {
            Some(Self::Capabilities)
        } else if metadata.mode() & 0o6000 != 0 && sys::effective_user() != 0 {
            Some(Self::SetId)
        } else {
            None
        }
    }
}

/// The file system of an open file.
pub(super) fn file_system(file: &File, path: &Path) -> Result<FileSystem> {
    sys::file_system_of(file).map_err(|error| Error::system(path, "stat its file system", error))
}

/// The unit in which a file's file system allocates.
pub(super) fn block_bytes(file: &File, path: &Path) -> Result<u64> {
    // A FUSE program may report anything.
    Ok(file_system(file, path)?
        .block_bytes
        .clamp(512, 64 << 20)
        .next_power_of_two())
}

/// What a regular file is, before it is opened.
fn require_regular(file: &FileAt) -> Result<StatFacts> {
    let facts = file
        .facts()
        .map_err(|(action, error)| Error::system(file.path(), action, error))?;
    if facts.kind == FileType::RegularFile {
        return Ok(facts);
    }
    Err(Error::Kind {
        path: file.path().to_owned(),
        kind: with_article(facts.kind),
    })
}

/// Opens a regular file for reading.
pub(super) fn open_regular(file: &FileAt) -> Result<(File, Metadata)> {
    let path = file.path();
    // Opening a device may have effects. A file found in a directory was regular when it was listed.
    if file.is_named() {
        require_regular(file)?;
    }
    let opened = file
        .open(OFlags::RDONLY)
        .map_err(|(action, error)| Error::system(path, action, error))?;
    let metadata = opened.metadata().map_err(|error| Error::system(path, "stat", error))?;
    if metadata.is_file() {
        return Ok((opened, metadata));
    }
    Err(Error::Kind {
        path: path.to_owned(),
        kind: with_article(kind_of(&metadata)),
    })
}

/// The error of opening; names the flag that protects the file, if there is one.
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

/// The error if other processes cannot be kept out.
fn not_alone(path: &Path, why: NotAlone, id: (u64, u64)) -> Error {
    match why {
        NotAlone::Unavailable(_) | NotAlone::Elsewhere | NotAlone::Mapped | NotAlone::Unseen(_) => Error::Shared {
            path: path.to_owned(),
            source: why,
        },
        NotAlone::System(error) => Error::system(path, "take a lease (owner or root only)", error),
        _ => in_use(path, id),
    }
}

fn in_use(path: &Path, id: (u64, u64)) -> Error {
    Error::InUse {
        path: path.to_owned(),
        holders: holders(id.0, id.1),
    }
}

pub(super) fn unavailable(path: &Path, reason: &str) -> Error {
    Error::Unavailable {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}
