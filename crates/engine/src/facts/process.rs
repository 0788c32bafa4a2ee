//! What this process may have.

use seekless_sys::{self as sys, Ring, Support};

/// What this process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Threads that run at once.
    pub processors: usize,
    /// Files that it may have open.
    pub open_files_max: usize,
    /// Whether `io_uring` is to be had.
    pub has_rings: bool,
    /// Whether files may be mapped.
    pub can_map: bool,
}

impl ProcessFacts {
    /// What the system tells.
    #[must_use]
    pub fn here() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            open_files_max: sys::open_files_max(),
            has_rings: matches!(Ring::new(1, 1, 1), Ok(Support::Available(_))),
            can_map: sys::guard_installed(),
        }
    }
}
