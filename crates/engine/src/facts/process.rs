//! What this process may have.

use seekless_sys::{self as sys, Ring, Support};

/// What this process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Files that it may have open.
    pub open_files_max: usize,
    /// Whether `io_uring` is to be had.
    pub has_rings: bool,
}

impl ProcessFacts {
    /// What the system tells.
    #[must_use]
    pub fn here() -> Self {
        Self {
            open_files_max: sys::open_files_max(),
            has_rings: matches!(Ring::new(1, 1, 1), Ok(Support::Available(_))),
        }
    }
}
