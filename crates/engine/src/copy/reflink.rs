//! `copy/reflink`: `ioctl_ficlone(2)` makes the target share all blocks with the source.

use std::ops::Range;

use seekless_sys::{self as sys};

use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |_| Ok(Box::new(Reflink));

struct Reflink;

impl CopyBytes for Reflink {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, _range: Range<u64>) -> Result<()> {
        target.count_call();
        target.support("cloning", sys::clone_file(&source.file, &target.file))?;
        source.check_not_shrunk()
    }
}
