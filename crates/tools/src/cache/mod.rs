//! The residency of files and directories in the page cache; dropping and warming them.
//!
//! Each file counts once, even if it has several hard links or is named several times. Symbolic links are followed if
//! they are named, but not inside directories. Memory does not grow with the number of files, except for an entry per
//! file with several hard links. The result is always read back.
//!
//! ```
//! use seekless_tools::{Stop, cache};
//! use seekless_tools::walk::Selection;
//! # let directory = tempfile::tempdir()?;
//! # std::fs::write(directory.path().join("file"), b"bytes")?;
//! let selection = Selection::new([directory.path()], false);
//! for total in cache::show(&selection, &Stop::default()) {
//!     println!("{} of {} bytes resident", total.resident_bytes, total.cacheable_bytes);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;

use std::path::PathBuf;
use std::sync::Mutex;

use seekless_engine::cache::{CachedFile, Resident};
use seekless_sys::{LockedFile, into_unlocked, lock_mutex};
use serde::Serialize;

use crate::walk::{Left, Selection};
use crate::watch::{JobCounters, JobWatch, PathFailure};
use batch::run;

/// A file and its residency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFileState {
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

/// The sum over the files at or below a path that was named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// The path.
    #[serde(skip)]
    pub path: PathBuf,
    /// Whether it is a directory.
    #[serde(skip)]
    pub is_directory: bool,
    /// The number of files, without those that failed.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// The sum of their sizes in whole pages, for files of known residency.
    pub cacheable_bytes: u64,
    /// Bytes of it that were resident before.
    #[serde(rename = "resident_before_bytes")]
    pub before_bytes: u64,
    /// Bytes of it that are resident.
    pub resident_bytes: u64,
    /// Files with resident bytes.
    pub resident_files: u64,
    /// Files that are not completely resident.
    pub partial_files: u64,
    /// Files of unknown residency.
    pub unknown_files: u64,
    /// Files and directories that could not be opened, read or listed.
    pub failed: u64,
    /// What was left out.
    #[serde(flatten)]
    pub left: Left,
}

impl Total {
    /// Adds another path's figures.
    pub fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.cacheable_bytes = self.cacheable_bytes.saturating_add(other.cacheable_bytes);
        self.before_bytes = self.before_bytes.saturating_add(other.before_bytes);
        self.resident_bytes = self.resident_bytes.saturating_add(other.resident_bytes);
        self.resident_files += other.resident_files;
        self.partial_files += other.partial_files;
        self.unknown_files += other.unknown_files;
        self.failed += other.failed;
        self.left.add(&other.left);
    }

    fn count(&mut self, file: &CacheFileState) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(file.bytes);
        match file.resident {
            Resident::Known {
                resident_bytes,
                total_bytes,
            } => {
                self.cacheable_bytes = self.cacheable_bytes.saturating_add(total_bytes);
                self.resident_bytes = self.resident_bytes.saturating_add(resident_bytes);
                self.resident_files += u64::from(resident_bytes > 0);
                self.partial_files += u64::from(resident_bytes < total_bytes);
            }
            Resident::Unknown(_) => self.unknown_files += 1,
        }
        if let Some(Resident::Known { resident_bytes, .. }) = file.before {
            self.before_bytes = self.before_bytes.saturating_add(resident_bytes);
        }
    }
}

/// An event of a job. Events come in the order of the walk, by the thread that called the job.
#[derive(Clone, Copy, Debug)]
pub enum CacheEvent<'a> {
    /// A file was processed.
    File(&'a CacheFileState),
    /// A file or directory could not be opened, read or listed.
    Failed(PathFailure<'a>),
}

/// Receives the events of these jobs.
type Watch<'a> = &'a dyn for<'e> JobWatch<CacheEvent<'e>>;

/// Returns the residency, as a total for each path that was named. Changes nothing.
pub fn show(selection: &Selection, watch: Watch<'_>) -> Vec<Total> {
    run(
        selection,
        &|file| Ok((None, file.resident()?)),
        watch,
        &JobCounters::default(),
    )
}

/// Drops files from the page cache, after writing back dirty pages, and reads back what stays.
pub fn drop(selection: &Selection, watch: Watch<'_>) -> Vec<Total> {
    let stop = watch.stop();
    let drop = |file: &CachedFile| Ok((Some(file.resident()?), file.drop_pages(|_| stop.go_on())?));
    run(selection, &drop, watch, &JobCounters::default())
}

/// Reads files into the page cache, and reads back what is there. The progress counts bytes
/// that were read. Call [`show`] first to check that there is enough memory, because files that do not fit evict
/// those read before.
pub fn warm(selection: &Selection, watch: Watch<'_>) -> Vec<Total> {
    let (stop, counters) = (watch.stop(), JobCounters::default());
    let warm = |file: &CachedFile| {
        let before = file.resident()?;
        let mut resident = file.warm(&mut |bytes| {
            watch.progress(&counters.add(0, bytes));
            stop.go_on()
        })?;
        // The system may evict the start of a large file while its end is read, even if memory is free.
        for _ in 0..REPEATS {
            if resident.part().is_none_or(|part| part >= 1.0) || stop.is_stopped() || !fits_in_memory(file) {
                break;
            }
            resident = file.warm(&mut |_| stop.go_on())?;
        }
        Ok((Some(before), resident))
    };
    run(selection, &warm, watch, &counters)
}

/// Locks files in memory until the result is dropped, and reads back what is there. The progress counts bytes
/// that are locked.
pub fn lock(selection: &Selection, watch: Watch<'_>) -> (Vec<Total>, Vec<LockedFile>) {
    let (stop, counters) = (watch.stop(), JobCounters::default());
    let advance = |bytes| watch.progress(&counters.add(0, bytes));
    let locked = Mutex::new(Vec::new());
    let lock = |file: &CachedFile| {
        let (before, bytes) = (file.resident()?, file.metadata().len());
        let mut last = 0;
        let goes_on = |at: usize| {
            advance((at - std::mem::replace(&mut last, at)) as u64);
            !stop.is_stopped()
        };
        if bytes > 0 {
            let held = LockedFile::new(file.file(), bytes as usize, goes_on);
            let held = held.map_err(|source| seekless_engine::Error::System {
                path: PathBuf::new(),
                action: "lock it in memory".into(),
                method: None,
                source,
            })?;
            lock_mutex(&locked).push(held);
            advance(bytes - last as u64);
        }
        Ok((Some(before), file.resident()?))
    };
    let totals = run(selection, &lock, watch, &counters);
    (totals, into_unlocked(locked))
}

/// How often a file is read again if a part of it was evicted meanwhile.
const REPEATS: u32 = 3;

fn fits_in_memory(file: &CachedFile) -> bool {
    let available = seekless_engine::cache::memory().map(|memory| memory.available_bytes);
    available.is_none_or(|available| available > file.metadata().len())
}

#[cfg(test)]
mod tests;
