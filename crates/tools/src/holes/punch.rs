//! Punching: a range of a file becomes a hole, whatever was there. This is the one job here that changes bytes.

use std::path::PathBuf;

use serde::Serialize;

use super::Result;
use super::error::{HoleErrorKind, Worked};
use super::held::HeldFile;
use crate::walk::FileAt;

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
    /// How long it is; ends with the file.
    pub length: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now.
    pub allocated_bytes: u64,
}

/// Makes a hole of `length` bytes from `offset`, at most to the end of the file. Parts of blocks are written as zeros, and
/// take their space as before.
///
/// # Errors
/// Where the range does not begin in the file, no lease is granted (unless `is_unsafe`), or the file system cannot punch holes.
pub fn punch(file: &FileAt, offset: u64, length: u64, is_unsafe: bool) -> Result<Punched> {
    punch_file(file, offset, length, is_unsafe).map_err(|kind| kind.at(file.path()))
}

fn punch_file(file: &FileAt, offset: u64, length: u64, is_unsafe: bool) -> Worked<Punched> {
    let held = HeldFile::open(file, is_unsafe)?;
    let bytes = held.metadata.len();
    if offset >= bytes || length == 0 {
        return Err(HoleErrorKind::Range { offset, length, bytes });
    }
    let end = offset.saturating_add(length).min(bytes);
    // A partial last block is freed only if the range covers the whole block.
    let asked_end = if end == bytes {
        end.next_multiple_of(held.block_bytes()?)
    } else {
        end
    };
    held.punch(offset, asked_end - offset)?;
    held.sync()?;
    Ok(Punched {
        path: file.path().to_owned(),
        bytes,
        offset,
        length: end - offset,
        allocated_before_bytes: held.allocated_before_bytes(),
        allocated_bytes: held.allocated_bytes()?,
    })
}
