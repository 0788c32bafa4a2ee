//! Plans for many small files: how many are processed together, and how. For cold files, most of the time is waiting
//! for the device.

use std::time::Duration;

use crate::facts::ProcessFacts;

/// How batches of small files are processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// Threads that list directories and read files.
    pub threads: usize,
    /// Whether one call of `io_uring` reads many cold files.
    pub has_rings: bool,
    /// Files, or pairs of files, in a batch.
    pub batch: usize,
    /// Bytes that are read of a file that is in memory, and of each file of a batch.
    pub head_bytes: [usize; 2],
    /// Directories of each side that stay open, besides those in use.
    pub open_directories: usize,
    /// Entries that may be listed before they are reported. Beyond that, only the directory that is reported next is
    /// listed.
    pub entries_ahead: u64,
    /// Whether to read with `RWF_NOWAIT` if the file system supports it: it shows that a file is not in memory.
    pub asks_not_to_wait: bool,
    /// Without `RWF_NOWAIT`, a read that takes longer means that the file was not in memory.
    pub patience: Duration,
}

/// Files in a batch, at most.
pub const BATCH: usize = 32;
/// Bytes to read of each file of a batch in one call. Most files are not longer; for longer ones, this starts the
/// kernel's read-ahead.
pub(crate) const HEAD_BYTES: usize = 16 << 10;
/// Bytes to read of a single file: few files are longer, and two buffers of this size fit into the second-level cache.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// The fewest files, or pairs of files, for which a ring pays off.
pub(crate) const FEWEST_FOR_RING: usize = 3;
/// Files given to [`crate::batch::Threads`] at a time: enough to keep all threads busy, and few enough for memory and
/// for steady progress.
pub const FILES_AHEAD: usize = 2048;
/// Threads that read a file each. Warming 10,000 small files on a virtual disk took 1.3 to 1.9 s with one thread, 0.9 with 4,
/// 0.5 to 0.6 with 16, 0.5 to 0.9 with 64.
pub const THREADS_OF_FILES: usize = 16;
/// Threads where `io_uring` reads for them, and where it does not.
const THREADS: usize = 16;
const THREADS_WITHOUT_RINGS: usize = 32;
/// From this size on, preparing a method costs little compared with reading. Smaller files are read by the threads for
/// small files.
pub const LARGE_BYTES: u64 = 8 << 20;
/// Reading a file in memory takes 10 microseconds.
const PATIENCE: Duration = Duration::from_micros(100);
/// Descriptors reserved for the program.
const OWN_FILES: usize = 64;
/// Descriptors that a thread may need at once: a pair of files, their directories and those above, and a ring.
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
        head_bytes: [READ_BYTES, HEAD_BYTES],
        open_directories,
        entries_ahead: 1 << 18,
        asks_not_to_wait: true,
        patience: PATIENCE,
    }
}
