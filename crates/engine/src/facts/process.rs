//! The limits of this process.

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
        }
    }
}
