//! What of a file is in the page cache, and bringing it there or away.
//!
//! The kernel may refuse or half-do each of these; every answer is read back, never assumed.
//!
//! ```
//! use seekless::cache;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, vec![1; 100_000])?;
//! let warm = cache::warm_file(&path)?;
//! let cold = cache::drop_file(&path)?;
//! println!("{:?} resident, then {:?}", warm.part(), cold.part());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Support};

use crate::error::{Error, Result};
use crate::files::{open_regular, stat_open_regular};
use crate::log;
use crate::plan::WARMED_BYTES;

/// How much of a file is in the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resident {
    /// Known: bytes resident, of the file's bytes in whole pages.
    Known {
        /// Bytes resident.
        resident_bytes: u64,
        /// All bytes of the file, in whole pages.
        total_bytes: u64,
    },
    /// It cannot be known here, and why.
    Unknown(&'static str),
}

impl Resident {
    /// The part resident, 0 to 1; `None` where it is unknown. An empty file is not resident.
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

/// A regular file, open for reading, whose pages can be asked about, dropped and fetched. It can move to another thread.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
}

impl CachedFile {
    /// Opens a file. Never waits: what is no regular file is refused, even if it became a FIFO a moment ago.
    ///
    /// # Errors
    /// [`Error::NotRegular`], and the system's errors of opening.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let (file, metadata) = open_regular(&path)?;
        Ok(Self { path, file, metadata })
    }

    /// Takes a file that is open for reading; errors call it `path`.
    ///
    /// # Errors
    /// [`Error::NotRegular`], and the system's errors of looking at it.
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

    /// What the system told about the file when it was opened.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How much of it is in the page cache, by cachestat(2), or mincore(2) where that has no answer.
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

    /// Asks the kernel to forget the file's pages, and tells what is still there. Only where something is, dirty pages
    /// are written back first and it is asked again: most files are clean, and syncing each costs a flush of the device.
    ///
    /// # Errors
    /// The system's errors of syncing and asking.
    pub fn drop_pages(&self) -> Result<Resident> {
        if let Some(reason) = self.forget()? {
            return Ok(Resident::Unknown(reason));
        }
        let left = self.resident()?;
        if left.part() == Some(0.0) {
            return Ok(left);
        }
        self.sync()?;
        self.forget()?;
        self.resident()
    }

    /// Reads the file in pieces, so that it is in the page cache, and tells what is there. `watch` is told of each piece's
    /// bytes, and may break it off.
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
        let mut rest = &self.file;
        loop {
            match rest.read(&mut buffer) {
                Ok(count) if count == 0 || watch(count as u64).is_break() => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::system(&self.path, "read it into the page cache", error)),
            }
        }
        self.resident()
    }

    fn sync(&self) -> Result<()> {
        sys::sync(&self.file).map_err(|error| Error::system(&self.path, "write back its dirty pages", error))
    }

    /// The reason where the platform cannot.
    fn forget(&self) -> Result<Option<&'static str>> {
        let dropped = sys::drop_from_cache(&self.file);
        match dropped.map_err(|error| Error::system(&self.path, "drop it from the page cache", error))? {
            Support::Available(()) => Ok(None),
            Support::Unavailable(reason) => Ok(Some(reason)),
        }
    }
}

/// How much of a file is in the page cache, by cachestat(2), or mincore(2) where that has no answer.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and asking.
pub fn resident(path: impl AsRef<Path>) -> Result<Resident> {
    CachedFile::open(path)?.resident()
}

/// Writes back what is dirty and asks the kernel to forget the file's pages; tells what is still there.
///
/// Needs no privilege. The kernel keeps pages that somebody maps, and tmpfs keeps everything.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and syncing.
pub fn drop_file(path: impl AsRef<Path>) -> Result<Resident> {
    let file = CachedFile::open(path)?;
    file.sync()?;
    file.drop_pages()
}

/// Reads the file, so that it is in the page cache; tells what is there.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and reading.
pub fn warm_file(path: impl AsRef<Path>) -> Result<Resident> {
    CachedFile::open(path)?.warm(|_| ControlFlow::Continue(()))
}

/// Drops the clean pages of all files: `/proc/sys/vm/drop_caches`. Needs root.
///
/// # Errors
/// The system's; where the platform has no such thing, a sentence that says what to do instead.
pub fn drop_system() -> Result<()> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    let dropped = sys::drop_system_caches().and_then(Support::required);
    dropped.map_err(|error| Error::system(path, "drop the system's caches", error))
}

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// All that the system can use.
    pub total_bytes: u64,
    /// What programs can get without swapping, by the system's estimate.
    pub available_bytes: u64,
    /// What the page cache holds, without memory that programs share (tmpfs); `None` where the system does not tell.
    pub cached_bytes: Option<u64>,
}

/// The machine's memory; `None` where the system does not tell.
#[must_use]
pub fn memory() -> Option<Memory> {
    let found = sys::memory().ok()?.available()?;
    Some(Memory {
        total_bytes: found.total_bytes,
        available_bytes: found.available_bytes,
        cached_bytes: found.cached_bytes,
    })
}

/// Waits until all that was written to the storage of `directory` is on its device. Where the system cannot do that for
/// one storage, or fails, later measurements show it as noise.
#[doc(hidden)]
pub fn sync_storage(directory: impl AsRef<Path>) {
    let directory = directory.as_ref();
    let synced = File::open(directory).and_then(|directory| sys::sync_file_system(&directory)?.required());
    if let Err(error) = synced {
        log::debug!(directory = %directory.display(), %error, "not synced");
    }
}
