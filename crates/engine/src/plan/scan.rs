//! How much of a file is looked at, or brought into the page cache, at a time, where no method is chosen for it.

/// How files are gone through by threads that share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// What a thread takes at a time, in bytes; a file no longer than this is one thread's.
    pub piece_bytes: u64,
    /// What it reads at a time.
    pub buffer_bytes: usize,
    /// What is scanned, at most, before the caller hears of it.
    pub batch_bytes: u64,
    /// The same in pieces.
    pub batch_pieces: usize,
}

/// The plan, whatever the file: what a thread reads at a time is a huge page. Copying into it is cheaper than mapping, which
/// several threads of a process wait for each other to do; with 256K it took 1.15 times as long as with 1M, with 2M 0.95. So
/// many pieces between two words to the caller keep a list of runs short whatever the file.
pub const SCAN: ScanPlan = ScanPlan {
    piece_bytes: 8 << 20,
    buffer_bytes: 2 << 20,
    batch_bytes: 256 << 20,
    batch_pieces: 4096,
};
