//! The placement of a file on its device, as reported by the file system.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seekless_sys::{self as sys, ExtentFlags, Support};

use crate::error::{Error, Result};
use crate::files::open_regular;

/// A summary of a file's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentSummary {
    /// Runs of blocks.
    pub count: u64,
    /// Bytes that have blocks; the rest of the size is holes.
    pub allocated_bytes: u64,
    /// Bytes of these that were never written: they read as zeros, without the device.
    pub reserved_bytes: u64,
    /// Bytes of these that are stored in another form (compressed, for example) or with the metadata.
    pub encoded_bytes: u64,
    /// Bytes in blocks that are shared with another file.
    pub shared_bytes: u64,
}

/// The extents of a file; `None` if the file system does not report them.
///
/// # Errors
/// The system's errors of opening and asking.
pub fn extents(path: impl AsRef<Path>) -> Result<Option<ExtentSummary>> {
    let path = path.as_ref();
    let (file, metadata) = open_regular(path)?;
    let found = sys::extents(&file, sys::WHOLE_FILE).map_err(|error| Error::system(path, "list its extents", error))?;
    let Support::Available(found) = found else {
        return Ok(None);
    };
    // Blocks past the end of the file do not count.
    let bytes = |is_counted: fn(ExtentFlags) -> bool| {
        let counted = found.iter().filter(|extent| is_counted(extent.flags));
        let length = |extent: &sys::Extent| extent.length.min(metadata.len().saturating_sub(extent.logical));
        counted.map(length).sum()
    };
    Ok(Some(ExtentSummary {
        count: found.len() as u64,
        allocated_bytes: bytes(|_| true),
        reserved_bytes: bytes(|flags| flags.contains(ExtentFlags::UNWRITTEN)),
        encoded_bytes: bytes(|flags| flags.contains(ExtentFlags::ENCODED) || flags.is_inline()),
        shared_bytes: shared(&found),
    }))
}

/// Bytes of an open file in blocks that are shared with another file, or a snapshot; `None` where the file system does not
/// tell.
///
/// # Errors
/// The system's.
pub fn shared_bytes(file: &File) -> io::Result<Option<u64>> {
    Ok(sys::extents(file, sys::WHOLE_FILE)?
        .available()
        .map(|found| shared(&found)))
}

/// Bytes in blocks of an open file that are its own: those of its data up to its end that are not shared, and not stored with
/// the metadata. What follows its end does not count. `None` where the file system does not tell.
///
/// # Errors
/// The system's.
pub fn own_bytes(file: &File) -> io::Result<Option<u64>> {
    let metadata = file.metadata()?;
    let end = metadata.len().next_multiple_of(metadata.blksize().max(1));
    let own = |extent: &&sys::Extent| extent.logical < end && !extent.flags.is_shared() && !extent.flags.is_inline();
    let found = sys::extents(file, sys::WHOLE_FILE)?.available();
    let length = |extent: &sys::Extent| extent.length.min(end - extent.logical);
    Ok(found.map(|found| found.iter().filter(own).map(length).sum()))
}

/// Where a run of blocks begins in a file and on its device, and its bytes.
pub type Run = [u64; 3];

/// Where all blocks of an open file lie, if it shares each of them with another file or a snapshot. Files of one `st_dev` and
/// one size for which this is equal have equal bytes. `None` where it would prove nothing.
///
/// # Errors
/// The system's.
pub fn shared_layout(file: &File) -> io::Result<Option<Vec<Run>>> {
    let end = file.metadata()?.len();
    // First without writing back what is dirty, which takes time and is in vain where nothing is shared.
    let Some(known) = sys::extents_as_known(file, sys::WHOLE_FILE)?.available() else {
        return Ok(None);
    };
    if layout(&known, end).is_none() || !sys::is_one_address_space(file)? {
        return Ok(None);
    }
    Ok(sys::extents(file, sys::WHOLE_FILE)?
        .available()
        .and_then(|extents| layout(&extents, end)))
}

/// Of the extents before the end of a file.
fn layout(extents: &[sys::Extent], end: u64) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for extent in extents.iter().filter(|extent| extent.logical < end) {
        if !extent.flags.is_shared() || extent.flags.is_doubtful() {
            return None;
        }
        match runs.last_mut() {
            // The same run may be told in other pieces of another file.
            Some([logical, physical, length])
                if *logical + *length == extent.logical && *physical + *length == extent.physical =>
            {
                *length += extent.length;
            }
            _ => runs.push([extent.logical, extent.physical, extent.length]),
        }
    }
    (!runs.is_empty()).then_some(runs)
}

/// Where the first byte of an open file lies on its device, in bytes; `None` where the file system does not tell. What is dirty
/// is not written back.
///
/// # Errors
/// The system's.
pub fn place(file: &File) -> io::Result<Option<u64>> {
    let extents = sys::extents_as_known(file, sys::WHOLE_FILE)?.available();
    let first = extents.and_then(|extents| extents.first().copied());
    Ok(first
        .filter(|first| !first.flags.is_doubtful())
        .map(|first| first.physical))
}

/// Where the runs of blocks within a range of an open file lie, in their order in the file; `None` where the file system does not tell.
/// What is dirty is not written back.
///
/// # Errors
/// The system's.
pub fn places(file: &File, range: Range<u64>) -> io::Result<Option<Vec<Run>>> {
    let found = sys::extents_as_known(file, range.clone())?.available();
    let part = |extent: &sys::Extent| {
        let start = extent.logical.max(range.start);
        let end = extent.logical.saturating_add(extent.length).min(range.end);
        (start < end).then(|| [start, extent.physical + (start - extent.logical), end - start])
    };
    Ok(found.map(|found| found.iter().filter_map(part).collect()))
}

fn shared(extents: &[sys::Extent]) -> u64 {
    let shared = extents.iter().filter(|extent| extent.flags.is_shared());
    shared.map(|extent| extent.length).sum()
}

/// The space that a file takes: `st_blocks`, which counts units of 512 bytes (stat(2)).
#[must_use]
pub fn allocated_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}
