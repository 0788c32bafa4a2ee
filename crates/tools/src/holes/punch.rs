//! Punching: a range of a file becomes a hole, whatever was there. This is the one job here that changes bytes.

use std::path::PathBuf;

use seekless_engine::files::{FileState, data_ranges};
use serde::Serialize;

use super::Result;
use super::error::{HoleErrorKind, Worked, cannot};
use super::held::HeldFile;
use crate::walk::FileAt;

/// A range that may be punched, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PunchRange {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; it ends in the file.
    pub length: u64,
    /// Bytes of data in it (not in holes), which punching destroys.
    pub data_bytes: u64,
    /// The file when this was found out.
    state: FileState,
}

/// What was punched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Punched {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its size, which stays.
    pub bytes: u64,
    /// Where the hole begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// Bytes of data that were in it.
    pub data_bytes: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now.
    pub allocated_bytes: u64,
}

/// Finds out what punching a hole of `length` bytes from `offset` would destroy. Nothing is changed.
///
/// # Errors
/// Where the range is not in the file or empty, or no lease is granted (unless `is_unsafe`).
pub fn punch_range(file: &FileAt, offset: u64, length: u64, is_unsafe: bool) -> Result<PunchRange> {
    range_of_file(file, offset, length, is_unsafe).map_err(|kind| kind.at(file.path()))
}

fn range_of_file(file: &FileAt, offset: u64, length: u64, is_unsafe: bool) -> Worked<PunchRange> {
    let held = HeldFile::open(file, is_unsafe)?;
    let bytes = held.metadata.len();
    let end = offset.checked_add(length).filter(|end| *end <= bytes && length > 0);
    let end = end.ok_or(HoleErrorKind::Range { offset, length, bytes })?;
    let data = data_ranges(held.file(), offset..end).map(|range| range.map(|range| range.end - range.start));
    Ok(PunchRange {
        offset,
        length,
        data_bytes: data.sum::<std::io::Result<u64>>().map_err(cannot("find holes"))?,
        state: FileState::of(&held.metadata),
    })
}

/// Makes a hole of a range. Parts of blocks are written as zeros, and take their space as before.
///
/// # Errors
/// Where the file has changed since the range was examined, no lease is granted (unless `is_unsafe`), or the file system
/// cannot punch holes.
pub fn punch(file: &FileAt, range: &PunchRange, is_unsafe: bool) -> Result<Punched> {
    let punched = HeldFile::open(file, is_unsafe).and_then(|held| punch_held(&held, range));
    let path = file.path().to_owned();
    punched
        .map(|punched| Punched { path, ..punched })
        .map_err(|kind| kind.at(file.path()))
}

pub(super) fn punch_held(held: &HeldFile<'_>, range: &PunchRange) -> Worked<Punched> {
    let &PunchRange { offset, length, .. } = range;
    if FileState::of(&held.metadata) != range.state {
        return Err(HoleErrorKind::Changed);
    }
    let (bytes, end) = (held.metadata.len(), offset + length);
    // A partial last block is freed only if the range covers the whole block.
    let asked_end = if end == bytes {
        end.next_multiple_of(held.block_bytes()?)
    } else {
        end
    };
    held.punch(offset, asked_end - offset)?;
    held.sync()?;
    Ok(Punched {
        path: PathBuf::new(),
        bytes,
        offset,
        length,
        data_bytes: range.data_bytes,
        allocated_before_bytes: held.allocated_before_bytes(),
        allocated_bytes: held.allocated_bytes()?,
    })
}
