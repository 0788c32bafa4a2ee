//! The residency of files in the page cache, and changing it.
//!
//! The kernel may do these only in part, so the result is always read back.
//!
//! ```
//! use seekless_engine::cache;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, vec![1; 100_000])?;
//! let warm = cache::warm_file(&path)?;
//! let cold = cache::drop_file(&path)?;
//! println!("{:?} resident, then {:?}", warm.part(), cold.part());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::{File, Metadata};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use seekless_sys::{self as sys, Advice, Support};

use super::memory_groups;
use crate::error::{Error, Result};
use crate::files::{open_regular, read_some, stat_open_regular};
use crate::log;
use crate::transfer::PIECE_BYTES;

/// Bytes per call for warming a file: enough that calls are few, and few enough to stop soon.
const WARMED_BYTES: u64 = 1 << 20;
/// Bytes per call for dropping a file. A call drops no folio that lies across its end; on no architecture is a folio longer than
/// this (`MAX_PAGECACHE_ORDER`, with pages of 64 KiB), and each begins at a multiple of its length.
const DROPPED_BYTES: u64 = 128 << 20;

/// How much of a file is in the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resident {
    /// Known, in whole pages.
    Known {
        /// Bytes resident.
        resident_bytes: u64,
        /// All bytes of the file, in whole pages.
        total_bytes: u64,
    },
    /// Unknown, and why.
    Unknown(&'static str),
}

impl Resident {
    /// The resident part, 0 to 1; `None` if unknown. An empty file is not resident.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        match *self {
            Self::Known { total_bytes: 0, .. } => Some(0.0),
            Self::Known {
                resident_bytes,
                total_bytes,
            } => Some(resident_bytes as f64 / total_bytes as f64),
            Self::Unknown(_) => None,
        }
    }
}

/// A regular file, open for reading, whose pages can be counted, dropped and loaded.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
}

impl CachedFile {
    /// Opens a file. Never blocks: anything but a regular file is refused, even if it only just became a FIFO.
    ///
    /// # Errors
    /// [`Error::NotRegular`], and the system's errors of opening.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let (file, metadata) = open_regular(&path)?;
        Ok(Self { path, file, metadata })
    }

    /// Opens a block device to read its residency, and does not wait for a medium.
    ///
    /// # Errors
    /// The system's.
    pub fn open_device(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(&path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| Error::system(&path, "open", error))?;
        Ok(Self { path, file, metadata })
    }

    /// Takes a file that is open for reading; errors name it `path`.
    ///
    /// # Errors
    /// [`Error::NotRegular`], and the system's.
    pub fn of(file: File, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let metadata = stat_open_regular(&path, &file)?;
        Ok(Self { path, file, metadata })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The metadata at opening.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How much of it is in the page cache, by cachestat(2), or mincore(2) if cachestat gives no true answer.
    ///
    /// # Errors
    /// The system's.
    pub fn resident(&self) -> Result<Resident> {
        let asked =
            sys::residency(&self.file).map_err(|error| Error::system(&self.path, "read its residency", error))?;
        Ok(match asked {
            Support::Available(found) => Resident::Known {
                resident_bytes: found.resident_bytes,
                total_bytes: found.total_bytes,
            },
            Support::Unavailable(reason) => Resident::Unknown(reason),
        })
    }

    /// Drops the file's pages, and returns what is still resident. If something is, it writes back dirty pages and
    /// tries again. It does not sync first, because most files are clean, and each sync flushes the device. `watch` gets the bytes of
    /// each piece of a large file, and can end it.
    ///
    /// # Errors
    /// The system's errors of syncing and asking.
    pub fn drop_pages(&self, mut watch: impl FnMut(u64) -> ControlFlow<()>) -> Result<Resident> {
        if let ControlFlow::Break(left) = self.forget(&mut watch)? {
            return Ok(left);
        }
        let left = self.resident()?;
        if left.part() == Some(0.0) {
            return Ok(left);
        }
        self.sync()?;
        match self.forget(&mut watch)? {
            ControlFlow::Break(left) => Ok(left),
            ControlFlow::Continue(()) => self.resident(),
        }
    }

    /// Reads the file in pieces into the page cache, and returns what is resident. `watch` gets the bytes of each
    /// piece, and can end it.
    ///
    /// # Errors
    /// The system's errors of reading and asking.
    pub fn warm(&self, mut watch: impl FnMut(u64) -> ControlFlow<()>) -> Result<Resident> {
        let size = self.metadata.len();
        let before = self.resident()?;
        if before.part() == Some(1.0) {
            let _ = watch(size);
            return Ok(before);
        }
        let mut buffer = vec![0; size.clamp(1, WARMED_BYTES) as usize];
        let mut at = 0;
        loop {
            match read_some(&self.file, &mut buffer, at) {
                Ok(count) if count == 0 || watch(count as u64).is_break() => break,
                Ok(count) => at += count as u64,
                Err(error) => return Err(Error::system(&self.path, "read it into the page cache", error)),
            }
        }
        self.resident()
    }

    fn sync(&self) -> Result<()> {
        sys::sync(&self.file).map_err(|error| Error::system(&self.path, "write back its dirty pages", error))
    }

    /// Drops clean pages. Returns what is resident if `watch` ended it or the platform cannot do it.
    fn forget(&self, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<ControlFlow<Resident>> {
        let failed = |error| Error::system(&self.path, "drop it from the page cache", error);
        let mut at = 0;
        while at + DROPPED_BYTES < self.metadata.len() {
            match sys::advise(&self.file, Advice::DontNeed, at, DROPPED_BYTES).map_err(failed)? {
                Support::Available(()) => at += DROPPED_BYTES,
                // Such a system has another call, for the whole file.
                Support::Unavailable(_) => break,
            }
            if watch(DROPPED_BYTES).is_break() {
                return self.resident().map(ControlFlow::Break);
            }
        }
        Ok(match sys::drop_from_cache(&self.file).map_err(failed)? {
            Support::Available(()) => ControlFlow::Continue(()),
            Support::Unavailable(reason) => ControlFlow::Break(Resident::Unknown(reason)),
        })
    }
}

/// How much of a file is in the page cache, by cachestat(2), or mincore(2) if cachestat gives no true answer.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and asking.
pub fn resident(path: impl AsRef<Path>) -> Result<Resident> {
    CachedFile::open(path)?.resident()
}

/// Lets the system read a range of an open file into the page cache, and does not wait for it. What is there already is not read.
///
/// # Errors
/// The system's.
pub fn fetch(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let bytes = PIECE_BYTES.min(range.end - at);
        // One of them exists on each system.
        if let Support::Unavailable(_) = sys::advise(file, Advice::WillNeed, at, bytes)? {
            sys::read_advice(file, at, bytes)?;
        }
        at += bytes;
    }
    Ok(())
}

/// Writes back dirty pages and drops the file's pages; returns what is still resident.
///
/// Needs no privilege. Mapped pages stay, and so do all pages of a tmpfs.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and syncing.
pub fn drop_file(path: impl AsRef<Path>) -> Result<Resident> {
    let file = CachedFile::open(path)?;
    file.sync()?;
    file.drop_pages(|_| ControlFlow::Continue(()))
}

/// Reads the file into the page cache; returns what is resident.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and reading.
pub fn warm_file(path: impl AsRef<Path>) -> Result<Resident> {
    CachedFile::open(path)?.warm(|_| ControlFlow::Continue(()))
}

/// Drops the clean pages of all files: `/proc/sys/vm/drop_caches`. Needs root.
///
/// # Errors
/// The system's. If the platform cannot do it, the error says what to do instead.
pub fn drop_system() -> Result<()> {
    of_system(sys::drop_system_caches())
}

/// Whether [`drop_system`] is allowed; drops nothing.
///
/// # Errors
/// Those of [`drop_system`].
pub fn may_drop_system() -> Result<()> {
    of_system(sys::may_drop_system_caches())
}

fn of_system(answer: io::Result<Support<()>>) -> Result<()> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    let answer = answer.and_then(Support::required);
    answer.map_err(|error| Error::system(path, "drop the system's caches", error))
}

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AvailableMemory {
    /// All that the system can use.
    pub total_bytes: u64,
    /// The system's estimate of the memory available without swapping, or what the control groups of this process leave it, if that is
    /// less.
    pub available_bytes: u64,
    /// The size of the page cache, without shared memory (tmpfs); `None` if the system does not report it.
    pub cached_bytes: Option<u64>,
}

/// The machine's memory; `None` if the system does not report it.
#[must_use]
pub fn memory() -> Option<AvailableMemory> {
    let found = sys::memory().ok()?.available()?;
    let of_groups = memory_groups::available_bytes(found.total_bytes).unwrap_or(u64::MAX);
    Some(AvailableMemory {
        total_bytes: found.total_bytes,
        available_bytes: found.available_bytes.min(of_groups),
        cached_bytes: found.cached_bytes,
    })
}

/// Waits until everything written to the storage of `directory` is on its device. Errors are ignored: data that is
/// written back later only adds noise to measurements.
pub fn sync_storage(directory: impl AsRef<Path>) {
    let directory = directory.as_ref();
    let synced = File::open(directory).and_then(|directory| sys::sync_file_system(&directory)?.required());
    if let Err(error) = synced {
        log::debug!(directory = %directory.display(), %error, "not synced");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_large_file_is_dropped_in_pieces_and_no_further_than_it_is_watched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        File::create(&path).unwrap().set_len(3 * DROPPED_BYTES + 1).unwrap();
        let file = CachedFile::open(&path).unwrap();
        let bytes = |resident: Resident| match resident {
            Resident::Known { resident_bytes, .. } => Some(resident_bytes),
            Resident::Unknown(_) => None,
        };
        // The pages of holes are kept in the cache, too.
        let read = || {
            for piece in 0..4 {
                file.file.read_at(&mut [0; 10], piece * DROPPED_BYTES).unwrap();
            }
            bytes(file.resident().unwrap())
        };
        let (mut pieces, before) = (0, read());
        let dropped = file.drop_pages(|_| {
            pieces += 1;
            ControlFlow::Continue(())
        });
        let none = bytes(dropped.unwrap());
        if none.is_none_or(|bytes| bytes > 0) {
            return println!("skipped: this file system keeps its pages, or does not tell");
        }
        assert_eq!(pieces, 3);
        assert_eq!(read(), before);
        let left = bytes(file.drop_pages(|_| ControlFlow::Break(())).unwrap());
        assert!(left > Some(0) && left < before, "{left:?} of {before:?}");
    }
}
