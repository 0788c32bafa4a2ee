//! `copy/fcopyfile`: fcopyfile(3) of macOS copies the data.

use std::ops::Range;

use seekless_sys::{self as sys};

use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |_| Ok(Box::new(Fcopyfile));

struct Fcopyfile;

impl CopyBytes for Fcopyfile {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, _range: Range<u64>) -> Result<()> {
        target.count_call();
        target.support("copying", sys::copy_path_data(&source.file, &target.file))?;
        source.check_not_shrunk()
    }
}
