//! `copy/copy_file_range`: `copy_file_range(2)` lets the file system copy; XFS and btrfs then share the blocks.

use std::ops::Range;

use seekless_sys::{self as sys};

use super::sendfile::copy_by_call;
use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |_| Ok(Box::new(CopyFileRange));

struct CopyFileRange;

impl CopyBytes for CopyFileRange {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        copy_by_call(source, target, range, "copy_file_range", |offset, length| {
            sys::copy_file_range(&source.file, offset, &target.file, offset, length)
        })
    }
}
