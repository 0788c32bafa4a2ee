//! `holes=skip`: the mechanism copies the data ranges. For holes of the source, nothing is written to the target, and
//! old data there is removed.

use std::ops::Range;

use seekless_sys::{self as sys, Support};

use super::{CopyBytes, copy_range};
use crate::consumer::ZEROS;
use crate::error::Result;
use crate::files::Stretch;
use crate::transfer::{OpenFile, pieces};
use seekless_method::{CopyMechanism, MechanismId};

/// What was not copied.
#[derive(Default)]
pub(super) struct Skipped {
    pub hole_bytes: u64,
    /// Whether blocks of the target were freed, which `write-through` does not make durable.
    pub freed: bool,
}

/// Copies the data of a source to a target that already has `old_bytes`.
pub(super) fn copy_data(
    mechanism: &mut CopyBytes,
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    old_bytes: u64,
) -> Result<Skipped> {
    // XFS preallocates blocks past the end of a file that grows, and these would fill the holes.
    target.reach_size()?;
    let mut skipped = Skipped::default();
    let alignment = source.alignment.max(target.alignment);
    for stretch in source.stretches(source.range(), alignment) {
        match stretch? {
            Stretch::Data(range) => copy_range(mechanism, source, target, range)?,
            Stretch::Hole(range) => {
                skipped.hole_bytes += range.end - range.start;
                skipped.freed |= clear(target, old_bytes, &target.place_of(&range))?;
            }
        }
    }
    // A write through a map makes a whole folio dirty, and ext4 then allocates all its blocks.
    if source.method.mechanism().id == MechanismId::Copy(CopyMechanism::Mmap) {
        for stretch in source.stretches(source.range(), alignment) {
            if let Stretch::Hole(range) = stretch? {
                skipped.freed |= free(target, &target.place_of(&range))?;
            }
        }
    }
    // If the source shrank within a hole, no read has noticed it.
    source.check_not_shrunk()?;
    Ok(skipped)
}

/// Makes a range of a target that already has `old_bytes` read as zeros, without blocks if the file system can punch
/// holes. Returns whether blocks were freed.
fn clear(target: &OpenFile<'_>, old_bytes: u64, range: &Range<u64>) -> Result<bool> {
    if range.start >= old_bytes {
        return Ok(false);
    }
    let is_freed = free(target, range)?;
    if !is_freed {
        // Past its old end, the target has no data to remove.
        let end = range.end.min(old_bytes.next_multiple_of(target.alignment));
        for piece in pieces(range.start..end, ZEROS.0.len() as u64) {
            target.write_block(&ZEROS.0, piece.start, (piece.end - piece.start) as usize)?;
        }
    }
    Ok(is_freed)
}

/// Frees the blocks of a range of a target, and returns whether the file system can do that.
fn free(target: &OpenFile<'_>, range: &Range<u64>) -> Result<bool> {
    if range.end >= target.bytes && target.part.is_none() {
        // Setting the final size makes a hole of the rest, on any file system.
        return target.resize(range.start).map(|()| true);
    }
    target.count_call();
    match sys::punch_hole(&target.file, range.start, range.end - range.start) {
        Ok(support) => Ok(support == Support::Available(())),
        Err(error) => Err(target.failed(("punch a hole", range.start), error)),
    }
}
