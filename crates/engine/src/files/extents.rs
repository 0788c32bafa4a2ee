//! The placement of a file on its device, as reported by the file system.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seekless_sys::{self as sys, Support};

use crate::error::{Error, Result};

/// A summary of a file's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentSummary {
    /// Runs of blocks.
    pub count: u64,
    /// Bytes that have blocks; the rest of the size is holes.
    pub allocated_bytes: u64,
    /// Bytes in blocks that are shared with another file.
    pub shared_bytes: u64,
}

/// The extents of a file; `None` if the file system does not report them.
///
/// # Errors
/// The system's errors of opening and asking.
pub fn extents(path: impl AsRef<Path>) -> Result<Option<ExtentSummary>> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| Error::system(path, "open", error))?;
    let found = sys::extents(&file).map_err(|error| Error::system(path, "list its extents", error))?;
    let Support::Available(found) = found else {
        return Ok(None);
    };
    let shared = found
        .iter()
        .filter(|extent| extent.flags.is_shared())
        .map(|extent| extent.length);
    Ok(Some(ExtentSummary {
        count: found.len() as u64,
        allocated_bytes: found.iter().map(|extent| extent.length).sum(),
        shared_bytes: shared.sum(),
    }))
}

/// The space that a file takes: `st_blocks`, which counts units of 512 bytes (stat(2)).
#[must_use]
pub fn allocated_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}
