//! `copy/copy_file_range`: `copy_file_range(2)` lets the file system copy; XFS and btrfs then share the blocks.

use std::ops::Range;

use seekless_sys::{self as sys};

use super::sendfile::{ACCEPTS, copy_by_call};
use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::method::{Mechanism, Operation, Platform, Prepare};
use crate::transfer::Side;

const PREPARE: PrepareCopy = |_| Ok(Box::new(CopyFileRange));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Copy,
    name: "copy_file_range",
    about: "copy_file_range(2): the file system copies, or shares the blocks",
    accepts: ACCEPTS,
    overlapping: false,
    platforms: &[Platform::Linux],
    simplicity_rank: 1,
    prepare: Prepare::Copy(PREPARE),
};

struct CopyFileRange;

impl CopyBytes for CopyFileRange {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        copy_by_call(source, target, range, "copy_file_range", |offset, length| {
            sys::copy_file_range(&source.file, offset, &target.file, offset, length)
        })
    }
}
