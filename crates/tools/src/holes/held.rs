//! A file that no other process has open while it is changed, and which keeps its times and privileges.
//!
//! A lease does not notice changes of mode, owner, times or capabilities by name. So no mode or capability is ever set
//! here, and a file that would lose privileges is refused. Times are restored only if no other process changed
//! anything.

use std::fs::{File, FileTimes, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use seekless_engine::error::NotAlone;
use seekless_engine::files::{self, Held, StepKind, Unwatched, Watch, kind_of, with_article};
use seekless_sys::{self as sys, FileSystem, LeaseKind, Support};

use super::error::{HoleErrorKind, OPENING, Privilege, Worked, cannot};
use super::holders::holders;
use crate::walk::{FileAt, StatFacts};

/// A file that is held while it is changed.
pub(super) struct HeldFile<'w> {
    pub path: PathBuf,
    pub held: Held,
    /// Its metadata before any change.
    pub metadata: Metadata,
    /// Is called before each change.
    pub watch: &'w dyn Watch,
}

/// From this size on, `/proc/locks` is read first to see whether another process works on the file. For smaller files that would
/// take longer than the job.
const ASKED_FROM_BYTES: u64 = 64 << 20;

impl HeldFile<'_> {
    /// Opens a regular file for writing, locks it as updates do, and takes the lease. With `is_unsafe`, works without one where none
    /// can be had.
    pub fn open(file: &FileAt, is_unsafe: bool) -> Worked<Self> {
        // Check first, because opening a device may have effects.
        let found = require_regular(file)?;
        let in_use = || HoleErrorKind::InUse(holders(found.device, found.inode));
        // Opening it would end the lease of another job.
        if found.bytes >= ASKED_FROM_BYTES && sys::is_locked(found.device, found.inode) {
            return Err(in_use());
        }
        let opened = match file.open(OFlags::RDWR) {
            Ok(opened) => Arc::new(opened),
            // Another process has a lease, but no lock.
            Err((_, error)) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(in_use()),
            Err((_, error)) => return Err(unopened(file.path(), error)),
        };
        let held = Held::lock(opened, Duration::ZERO).map_err(cannot("lock"))?;
        let mut held = held.ok_or_else(in_use)?;
        match held.keep_out(LeaseKind::Exclusive, None) {
            Ok(()) => {}
            Err(_) if is_unsafe => {}
            Err(why @ (NotAlone::Unavailable(_) | NotAlone::Elsewhere | NotAlone::Mapped | NotAlone::Unseen(_))) => {
                return Err(HoleErrorKind::Shared(why));
            }
            Err(NotAlone::System(error)) => return Err(cannot("take a lease (owner or root only)")(error)),
            Err(_) => {
                drop(held);
                return Err(in_use());
            }
        }
        let metadata = held.file.metadata().map_err(cannot("stat"))?;
        Ok(Self {
            path: file.path().to_owned(),
            held,
            metadata,
            watch: &Unwatched,
        })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.held.file
    }

    pub fn require_alone(&self) -> Worked<()> {
        self.held.is_alone().then_some(()).ok_or(HoleErrorKind::Wanted)
    }

    /// The allocation unit of the file system.
    pub fn block_bytes(&self) -> Worked<u64> {
        block_bytes(self.file())
    }

    /// The space that the file took before, in bytes.
    pub fn allocated_before_bytes(&self) -> u64 {
        files::allocated_bytes(&self.metadata)
    }

    /// Whether the whole file is on its device, so that `st_blocks` is final; some file systems allocate late. False if
    /// unknown.
    pub fn is_written_back(&self) -> bool {
        matches!(sys::unwritten_bytes(self.file()), Ok(Support::Available(0)))
    }

    /// Writes the changes to the device.
    pub fn sync(&self) -> Worked<()> {
        let told = self.watch.announce(StepKind::Sync, &self.path);
        told.and_then(|()| sys::sync(self.file())).map_err(cannot("fsync"))
    }

    /// The space that the file takes now.
    pub fn allocated_bytes(&self) -> Worked<u64> {
        let now = self.file().metadata().map_err(cannot("stat"))?;
        let (before, bytes) = (self.metadata.len(), now.len());
        if bytes != before {
            let what = format!("its size changed from {before} B to {bytes} B");
            return Err(HoleErrorKind::Differs(what));
        }
        Ok(files::allocated_bytes(&now))
    }

    /// Makes a hole of whole blocks.
    pub fn punch(&self, offset: u64, length: u64) -> Worked<()> {
        match self.change(|file| sys::punch_hole(file, offset, length))? {
            Ok(Support::Available(())) => Ok(()),
            Ok(Support::Unavailable(reason)) => Err(HoleErrorKind::Unavailable(reason)),
            Err(error) => Err(cannot("punch a hole")(error)),
        }
    }

    /// Makes a call that changes the file, if no other process has opened it.
    pub fn change<T>(&self, call: impl FnOnce(&File) -> T) -> Worked<T> {
        let told = self.watch.announce(StepKind::Write, &self.path);
        told.map_err(cannot("change it"))?;
        self.require_alone()?;
        let changed = self.held.change(|now| self.require_no_privilege(now), call);
        changed.map_err(cannot("stat"))?
    }

    /// Fails if the file would lose a privilege.
    fn require_no_privilege(&self, now: &StatFacts) -> Worked<()> {
        if sys::has_capabilities(self.file()) {
            return Err(HoleErrorKind::Privileged(Privilege::Capabilities));
        }
        if now.mode & 0o6000 != 0 && sys::effective_user() != 0 {
            return Err(HoleErrorKind::Privileged(Privilege::SetId));
        }
        Ok(())
    }

    /// Restores the times, unless another process changed the file meanwhile, even if only its times.
    ///
    /// No system call sets times conditionally. If another process calls utimes(2) between the check and the restore, two
    /// consecutive calls, its times are lost. So they are between such a check and a call that changes the file, which overwrites
    /// the times anyway. A setxattr(2) there is not noticed, but its attribute is kept.
    pub fn restore_times(&self) -> Worked<()> {
        let failed = cannot("restore its times");
        self.watch.announce(StepKind::Write, &self.path).map_err(&failed)?;
        if let (Ok(modified), Ok(accessed)) = (self.metadata.modified(), self.metadata.accessed())
            && self.held.is_unchanged().map_err(cannot("stat"))?
        {
            let times = FileTimes::new().set_modified(modified).set_accessed(accessed);
            self.file().set_times(times).map_err(failed)?;
        }
        Ok(())
    }
}

/// The file system of an open file.
pub(super) fn file_system(file: &File) -> Worked<FileSystem> {
    sys::file_system_of(file).map_err(cannot("stat its file system"))
}

/// The unit in which a file's file system allocates.
pub(super) fn block_bytes(file: &File) -> Worked<u64> {
    // A FUSE program may report anything.
    let block_bytes = file_system(file)?.block_bytes;
    Ok(block_bytes.clamp(512, 64 << 20).next_power_of_two())
}

/// What a regular file is, before it is opened.
fn require_regular(file: &FileAt) -> Worked<StatFacts> {
    let facts = file.facts().map_err(|(action, error)| cannot(action)(error))?;
    if facts.kind == FileType::RegularFile {
        return Ok(facts);
    }
    Err(HoleErrorKind::NotRegular(with_article(facts.kind)))
}

/// Opens a regular file for reading.
pub(super) fn open_regular(file: &FileAt) -> Worked<(File, Metadata)> {
    // Opening a device may have effects. A file found in a directory was regular when it was listed.
    if file.is_named() {
        require_regular(file)?;
    }
    let opened = file.open(OFlags::RDONLY);
    let opened = opened.map_err(|(action, error)| cannot(action)(error))?;
    let metadata = opened.metadata().map_err(cannot("stat"))?;
    if metadata.is_file() {
        return Ok((opened, metadata));
    }
    Err(HoleErrorKind::NotRegular(with_article(kind_of(&metadata))))
}

/// The error of opening; names the flag that protects the file, if there is one.
fn unopened(path: &Path, error: std::io::Error) -> HoleErrorKind {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            HoleErrorKind::Protected(protection.about)
        }
        _ => cannot(OPENING)(error),
    }
}
