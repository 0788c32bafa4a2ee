//! The limits of this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seekless_sys::{self as sys, Ring, Support};

/// The limits of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The largest number of open files.
    pub open_files_max: usize,
    /// Whether `io_uring` is available.
    pub has_rings: bool,
    /// Whether files may be mapped: [`crate::allow_mapping`].
    pub can_map: bool,
    /// Processors that it may use.
    pub processors: usize,
    /// For how many files of the planned size a method is prepared once: one, unless [`prepares_for`] said otherwise.
    pub files_of_a_plan: u64,
}

static FILES_OF_A_PLAN: AtomicU64 = AtomicU64::new(1);

/// Each plan of this process for one file is used for this many of its size, so they share the time of asking and of preparing.
pub fn prepares_for(files: u64) {
    FILES_OF_A_PLAN.store(files.max(1), Relaxed);
}

impl ProcessFacts {
    /// What the system reports.
    #[must_use]
    pub fn here() -> Self {
        Self {
            has_rings: matches!(Ring::new(1, 1, 1), Ok(Support::Available(_))),
            ..Self::without_rings()
        }
    }

    /// The same without testing for `io_uring`, which takes longer than the rest.
    #[must_use]
    pub fn without_rings() -> Self {
        Self {
            open_files_max: sys::open_files_max(),
            has_rings: false,
            can_map: sys::guard_installed(),
            processors: sys::processors(),
            files_of_a_plan: FILES_OF_A_PLAN.load(Relaxed),
        }
    }
}
