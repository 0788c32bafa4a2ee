//! What a host asks of a block device.

use serde::{Deserialize, Serialize};

/// What kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// Read a range of bytes.
    Read,
    /// Write a range of bytes; it may stay in the write cache.
    Write,
    /// All writes that completed before it are on the medium when it completes. Has no range.
    Flush,
    /// A range of bytes is no longer needed.
    Discard,
}

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRequest {
    /// What kind of request.
    pub kind: RequestKind,
    /// Its first byte; a multiple of the sector.
    pub offset_bytes: u64,
    /// How many bytes; a multiple of the sector, 0 for a flush.
    pub length_bytes: u64,
}

impl BlockRequest {
    /// Returns a request for a range of bytes.
    #[must_use]
    pub fn new(kind: RequestKind, offset_bytes: u64, length_bytes: u64) -> Self {
        Self {
            kind,
            offset_bytes,
            length_bytes,
        }
    }

    /// The first byte after it.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }
}
