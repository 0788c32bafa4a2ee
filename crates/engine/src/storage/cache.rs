//! What of a file is in the page cache, and bringing it there or away.
//!
//! The kernel may refuse or half-do each of these; every answer is read back, never assumed.
//!
//! ```
//! use seekless::cache;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("file");
//! # std::fs::write(&path, vec![1; 100_000])?;
//! let warm = cache::warm_file(&path)?;
//! let cold = cache::drop_file(&path)?;
//! println!("{:?} resident, then {:?}", warm.part(), cold.part());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::path::Path;

use seekless_sys::{self as sys, Support};

use crate::error::{Error, Result};
use crate::transfer::require_regular;

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

/// How much of a file is in the page cache, by cachestat(2), or mincore(2) where that has no answer.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and asking.
pub fn resident(path: &Path) -> Result<Resident> {
    ask(path, &open(path)?)
}

/// Writes back what is dirty and asks the kernel to forget the file's pages; tells what is still there.
///
/// Needs no privilege. The kernel keeps pages that somebody maps, and tmpfs keeps everything.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and syncing.
pub fn drop_file(path: &Path) -> Result<Resident> {
    let file = open(path)?;
    sys::sync(&file).map_err(|error| Error::system(path, "writing back its dirty pages", error))?;
    let dropped =
        sys::drop_from_cache(&file).map_err(|error| Error::system(path, "dropping it from the page cache", error))?;
    match dropped {
        Support::Available(()) => ask(path, &file),
        Support::Unavailable(reason) => Ok(Resident::Unknown(reason)),
    }
}

/// Reads the file, so that it is in the page cache; tells what is there.
///
/// # Errors
/// [`Error::NotRegular`], and the system's errors of opening and reading.
pub fn warm_file(path: &Path) -> Result<Resident> {
    let file = open(path)?;
    let before = ask(path, &file)?;
    if before.part() != Some(1.0) {
        let mut buffer = vec![0; 1 << 20];
        let mut rest = &file;
        loop {
            match std::io::Read::read(&mut rest, &mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::system(path, "reading it into the page cache", error)),
            }
        }
    }
    ask(path, &file)
}

/// Drops the clean pages of all files: `/proc/sys/vm/drop_caches`. Needs root.
///
/// # Errors
/// The system's; where the platform has no such thing, a sentence that says what to do instead.
pub fn drop_system() -> Result<()> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    match sys::drop_system_caches() {
        Ok(Support::Available(())) => Ok(()),
        Ok(Support::Unavailable(reason)) => Err(Error::system(
            path,
            "dropping the system's caches",
            std::io::Error::other(reason),
        )),
        Err(error) => Err(Error::system(path, "dropping the system's caches", error)),
    }
}

fn open(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    require_regular(path, &metadata)?;
    File::open(path).map_err(|error| Error::system(path, "opening it", error))
}

fn ask(path: &Path, file: &File) -> Result<Resident> {
    let asked = sys::residency(file).map_err(|error| Error::system(path, "asking for its residency", error))?;
    Ok(match asked {
        Support::Available(found) => Resident::Known {
            resident_bytes: found.resident_bytes,
            total_bytes: found.total_bytes,
        },
        Support::Unavailable(reason) => Resident::Unknown(reason),
    })
}

/// Waits until all that was written to the storage of `folder` is on its device. Where the system cannot do that for
/// one storage, or fails, later measurements show it as noise.
pub fn sync_storage(folder: &Path) {
    match File::open(folder).and_then(|folder| sys::sync_file_system(&folder)) {
        Ok(Support::Available(())) => {}
        Ok(Support::Unavailable(reason)) => tracing::debug!(folder = %folder.display(), reason, "not synced"),
        Err(error) => tracing::debug!(folder = %folder.display(), %error, "not synced"),
    }
}
