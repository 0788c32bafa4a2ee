//! Figures of the whole system, in the columns of vmstat(8), and the most frequent byte of a file.

use crate::Bounds;

documents! {
    /// Figures of the whole system during a trial, with the work of all processes: the columns of vmstat(8). A column
    /// that is unknown, or was not published, is `None`.
    #[derive(Copy, Default)]
    pub struct SystemUse {
        /// Part of all processors' time in programs, 0 to 1; `None` for a trial too short for the system's clock, as
        /// are the other parts and rates.
        pub user: Option<f64> => Bounds::PART,
        /// Part in the kernel, interrupts included.
        pub system: Option<f64> => Bounds::PART,
        /// Part in which they had nothing to do.
        pub idle: Option<f64> => Bounds::PART,
        /// Part in which they had nothing to do but wait for a device.
        pub wait: Option<f64> => Bounds::PART,
        /// Part that the host took away.
        pub stolen: Option<f64> => Bounds::PART,
        /// Context switches per second.
        pub switches_per_second: Option<f64> => Bounds::RATIO,
        /// Interrupts per second.
        pub interrupts_per_second: Option<f64> => Bounds::RATIO,
        /// KiB that came in from block devices per second.
        pub blocks_in_kib_per_second: Option<f64> => Bounds::RATIO,
        /// By how much the page cache and the buffers grew, in bytes; less than 0 where they shrank.
        pub cache_growth_bytes: Option<i64> => Bounds::COUNT_DIFFERENCE,
    }

    /// The byte that occurs most often in a file.
    #[derive(Copy, Eq)]
    pub struct Mode {
        /// The byte; the smallest of those that occur as often.
        pub byte: u8,
        /// How often it occurs.
        pub count: u64 => Bounds::COUNT,
    }
}
