//! How many threads, files and folders at once.

use std::time::Duration;

use rustix::process::Resource;

use super::batch::BATCH;

/// Threads where `io_uring` reads for them, and where it does not.
const THREADS: usize = 16;
const THREADS_WITHOUT_RINGS: usize = 32;
/// How trees are compared here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Threads that list folders and compare files.
    pub threads: usize,
    /// Whether cold files are read many in one call of `io_uring`.
    pub has_rings: bool,
    /// Pairs of files in a batch.
    pub batch: usize,
    /// Folders on each side that are open at a time, beside those at work.
    pub open_folders: usize,
    /// Entries of folders that were listed and not told yet, before only the next to be told is listed.
    pub entries_ahead: u64,
    /// A pair that takes longer was not in memory: 10 microseconds are enough for one that is.
    pub patience: Duration,
}

impl Scheme {
    /// What this process may have.
    #[must_use]
    pub fn here() -> Self {
        let ring = seekless_sys::Ring::new(1, 1, 1);
        let has_rings = matches!(ring, Ok(seekless_sys::Support::Available(_)));
        let threads = if has_rings { THREADS } else { THREADS_WITHOUT_RINGS };
        let limit = rustix::process::getrlimit(Resource::Nofile).current;
        let limit = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        // Some are the program's own.
        let spare = limit.saturating_sub(64);
        let batch = (spare / 2 / (2 * threads)).clamp(1, BATCH);
        let open_folders = (spare.saturating_sub(2 * threads * (batch + 1)) / 4).clamp(1, 1024);
        Self {
            threads,
            has_rings,
            batch,
            open_folders,
            entries_ahead: 1 << 18,
            patience: Duration::from_micros(100),
        }
    }
}
