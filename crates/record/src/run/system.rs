//! What the whole system did, in the columns of vmstat(8), and what the bytes of a file were.

use serde::{Deserialize, Serialize};

/// What the whole system did while a trial's clock ran, everybody's work included: the columns of vmstat(8). A column that
/// was not told, or not published, is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemUse {
    /// Part of all processors' time in programs, 0 to 1; `None` for a trial too short for the system's clock, as are the
    /// other parts and rates.
    pub user: Option<f64>,
    /// Part in the kernel, interrupts included.
    pub system: Option<f64>,
    /// Part in which they had nothing to do.
    pub idle: Option<f64>,
    /// Part in which they had nothing to do but wait for a device.
    pub wait: Option<f64>,
    /// Part that the host took away.
    pub stolen: Option<f64>,
    /// Context switches per second.
    pub switches_per_second: Option<f64>,
    /// Interrupts per second.
    pub interrupts_per_second: Option<f64>,
    /// KiB that came in from block devices per second.
    pub blocks_in_kib_per_second: Option<f64>,
    /// By how much the page cache and the buffers grew, in bytes; less than 0 where they shrank.
    pub cache_growth_bytes: Option<i64>,
}

/// The byte that occurs most often in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// The byte; the smallest of those that occur as often.
    pub byte: u8,
    /// How often it occurs.
    pub count: u64,
}
