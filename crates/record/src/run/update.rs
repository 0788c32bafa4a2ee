//! What a contest of updating changes, and what a trial of it wrote.

use serde::{Deserialize, Serialize};

use crate::Draw;

/// The updates that every trial of a contest makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdatePattern {
    /// Bytes of an update.
    pub bytes: u64,
    /// Bytes from the beginning of one place to that of the next.
    pub every_bytes: u64,
    /// Which of the places come, and in which order.
    pub draw: Draw,
}

/// What a trial of updating wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateAccount {
    /// Writes to the files.
    pub writes: u64,
    /// Bytes that updates name, each once.
    pub requested_bytes: u64,
    /// Bytes written to the files.
    pub written_bytes: u64,
}
