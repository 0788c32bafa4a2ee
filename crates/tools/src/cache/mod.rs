//! What of files and directories is in the page cache, dropping them from it and warming them.
//!
//! Each file is looked at once, however many names it has and however often it is named. Symbolic links are followed
//! where they are named, and never inside a directory. Memory does not grow with the number of files, but for one entry for
//! each file with several names. What was done is always read back.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::path::Path;
//! use seekless_tools::Stop;
//! use seekless_tools::cache::{self, FileState, Watch};
//! use seekless_tools::walk::Selection;
//! struct Silent;
//! impl Watch for Silent {
//!     fn file(&mut self, _: &FileState) -> ControlFlow<()> {
//!         ControlFlow::Continue(())
//!     }
//!     fn failed(&mut self, path: &Path, reason: &str) {
//!         eprintln!("{}: {reason}", path.display());
//!     }
//! }
//! # let directory = tempfile::tempdir()?;
//! # std::fs::write(directory.path().join("file"), b"bytes")?;
//! let selection = Selection::new([directory.path()], false);
//! for total in cache::show(&selection, &Stop::default(), &mut Silent) {
//!     println!("{} of {} bytes resident", total.resident_bytes, total.cacheable_bytes);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seekless::cache::{CachedFile, Resident};
use serde::Serialize;

use crate::Stop;
use crate::walk::{Left, Selection};
use batch::run;

/// A file and what of it is in the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its path, below the one that was named.
    pub path: PathBuf,
    /// Whether it was named itself, rather than found in a directory.
    pub is_named: bool,
    /// Its size.
    pub bytes: u64,
    /// What was resident before it was dropped or warmed.
    pub before: Option<Resident>,
    /// What is resident now.
    pub resident: Resident,
}

/// What was found below a path that was named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// The path.
    #[serde(skip)]
    pub path: PathBuf,
    /// Whether it is a directory.
    #[serde(skip)]
    pub is_directory: bool,
    /// Files that were looked at; those that failed are not among them.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// What they take in the page cache at most: their sizes in whole pages, where residency is known.
    pub cacheable_bytes: u64,
    /// What of it was resident before anything was done.
    #[serde(rename = "resident_before_bytes")]
    pub before_bytes: u64,
    /// What of it is resident.
    pub resident_bytes: u64,
    /// Files of which something is resident.
    pub resident_files: u64,
    /// Files of which not all is resident.
    pub partial_files: u64,
    /// Files of which it cannot be known.
    pub unknown_files: u64,
    /// Files and directories that could not be opened, read or listed.
    pub failed: u64,
    /// What was met beside them.
    #[serde(flatten)]
    pub left: Left,
}

impl Total {
    /// Adds another path's figures.
    pub fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.cacheable_bytes += other.cacheable_bytes;
        self.before_bytes += other.before_bytes;
        self.resident_bytes += other.resident_bytes;
        self.resident_files += other.resident_files;
        self.partial_files += other.partial_files;
        self.unknown_files += other.unknown_files;
        self.failed += other.failed;
        self.left.add(&other.left);
    }

    fn count(&mut self, file: &FileState) {
        self.files += 1;
        self.bytes += file.bytes;
        match file.resident {
            Resident::Known {
                resident_bytes,
                total_bytes,
            } => {
                self.cacheable_bytes += total_bytes;
                self.resident_bytes += resident_bytes;
                self.resident_files += u64::from(resident_bytes > 0);
                self.partial_files += u64::from(resident_bytes < total_bytes);
            }
            Resident::Unknown(_) => self.unknown_files += 1,
        }
        if let Some(Resident::Known { resident_bytes, .. }) = file.before {
            self.before_bytes += resident_bytes;
        }
    }
}

/// Who is told what happens, in the order of the walk.
pub trait Watch {
    /// A file was looked at, or done. May end the job.
    fn file(&mut self, file: &FileState) -> ControlFlow<()>;
    /// A file or directory could not be opened, read or listed, and why; the rest goes on.
    fn failed(&mut self, path: &Path, reason: &str);
}

/// Tells what is resident, without changing anything. A total for each path that was named.
pub fn show(selection: &Selection, stop: &Stop, watch: &mut dyn Watch) -> Vec<Total> {
    run(selection, &|file| Ok((None, file.resident()?)), stop, watch)
}

/// Drops files from the page cache, dirty ones after writing them back, and reads back what stays.
pub fn drop(selection: &Selection, stop: &Stop, watch: &mut dyn Watch) -> Vec<Total> {
    let drop = |file: &CachedFile| Ok((Some(file.resident()?), file.drop_pages()?));
    run(selection, &drop, stop, watch)
}

/// Reads files into the page cache and reads back what is there; `moved` is told of the bytes of each piece that was read, from
/// several threads. Whoever calls this has asked [`show`] first whether there is memory for all of it: what does not fit
/// drives out what was read before.
pub fn warm(selection: &Selection, stop: &Stop, moved: &(dyn Fn(u64) + Sync), watch: &mut dyn Watch) -> Vec<Total> {
    let go_on = || {
        if stop.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let warm = |file: &CachedFile| {
        let before = file.resident()?;
        let mut resident = file.warm(&mut |bytes| {
            moved(bytes);
            go_on()
        })?;
        // The system may page out the beginning of a large file while its end is read, with memory to spare.
        for _ in 0..REPEATS {
            if resident.part().is_none_or(|part| part >= 1.0) || stop.is_stopped() || !fits_in_memory(file) {
                break;
            }
            resident = file.warm(&mut |_| go_on())?;
        }
        Ok((Some(before), resident))
    };
    run(selection, &warm, stop, watch)
}

/// How often a file is read again of which something has left the cache meanwhile.
const REPEATS: u32 = 3;

fn fits_in_memory(file: &CachedFile) -> bool {
    let available = seekless::cache::memory().map(|memory| memory.available_bytes);
    available.is_none_or(|available| available > file.metadata().len())
}

#[cfg(test)]
mod tests;
