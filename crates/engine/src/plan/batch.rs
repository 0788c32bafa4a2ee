//! How many small files are handled together, and how: opening and reading cold ones is waiting for the device.

use std::time::Duration;

use crate::facts::ProcessFacts;

/// How batches of small files are worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Threads that list directories and read files.
    pub threads: usize,
    /// Whether cold files are read many in one call of `io_uring`.
    pub has_rings: bool,
    /// Files, or pairs of files, in a batch.
    pub batch: usize,
    /// Directories on each side that are open at a time, beside those at work.
    pub open_directories: usize,
    /// Entries of directories that were listed and not told yet, before only the next to be told is listed.
    pub entries_ahead: u64,
    /// Whether reads are asked not to wait (`RWF_NOWAIT`), where the file system has such: they say that a file is not in
    /// memory.
    pub asks_not_to_wait: bool,
    /// Elsewhere a read that takes longer found the file not in memory.
    pub patience: Duration,
}

/// Files in a batch, at most.
pub const BATCH: usize = 32;
/// Bytes that are read of each file of a batch in one call. Most files are not longer; of those that are, reading so much makes
/// the system read ahead.
pub(crate) const HEAD_BYTES: usize = 16 << 10;
/// Bytes that are read of a file by itself: few files are longer, and two such buffers stay in a processor's second cache.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// A ring does not pay for fewer files, or pairs of files.
pub(crate) const FEWEST_FOR_RING: usize = 3;
/// Files that [`crate::batch::Threads`] are given at a time: enough to keep all busy, few enough that memory lasts, and the
/// patience of whoever watches.
pub const FILES_AHEAD: usize = 2048;
/// Threads that read a file each. Warming 10,000 small files on a virtual disk took 1.3 to 1.9 s with one thread, 0.9 with 4,
/// 0.5 to 0.6 with 16, 0.5 to 0.9 with 64.
pub const THREADS_OF_FILES: usize = 16;
/// Threads where `io_uring` reads for them, and where it does not.
const THREADS: usize = 16;
const THREADS_WITHOUT_RINGS: usize = 32;
/// From this size on what preparing a method costs is small beside reading. Below, the threads that read small files read these
/// too.
pub const LARGE_BYTES: u64 = 8 << 20;
/// A file in memory takes 10 microseconds.
const PATIENCE: Duration = Duration::from_micros(100);
/// Descriptors that are the program's own.
const OWN_FILES: usize = 64;
/// What a thread may need at once where few files may be open: a pair, their directories and those above, and a ring.
const FILES_OF_A_THREAD: usize = 16;

/// The plan for pairs of small files.
#[must_use]
pub fn batch(facts: &ProcessFacts) -> BatchPlan {
    let threads = if facts.has_rings {
        THREADS
    } else {
        THREADS_WITHOUT_RINGS
    };
    let threads = threads.min(facts.open_files_max / FILES_OF_A_THREAD).max(1);
    let spare = facts.open_files_max.saturating_sub(OWN_FILES);
    let batch = (spare / 2 / (2 * threads)).clamp(1, BATCH);
    let open_directories = (spare.saturating_sub(2 * threads * (batch + 1)) / 4).clamp(1, 1024);
    BatchPlan {
        threads,
        has_rings: facts.has_rings,
        batch,
        open_directories,
        entries_ahead: 1 << 18,
        asks_not_to_wait: true,
        patience: PATIENCE,
    }
}
