//! `copy/fcopyfile`: fcopyfile(3) of macOS copies the data.

use std::ops::Range;

use seekless_sys::{self as sys};

use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::method::{Accepts, Durability, Mechanism, Operation, Platform, Prepare};
use crate::transfer::Side;

const PREPARE: PrepareCopy = |_| Ok(Box::new(Fcopyfile));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Copy,
    name: "fcopyfile",
    about: "fcopyfile(3), the system's own copy",
    accepts: Accepts {
        durability: &[Durability::Fsync],
        ..Accepts::NOTHING
    },
    overlapping: false,
    platforms: &[Platform::MacOs],
    simplicity_rank: 1,
    prepare: Prepare::Copy(PREPARE),
};

struct Fcopyfile;

impl CopyBytes for Fcopyfile {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, _range: Range<u64>) -> Result<()> {
        target.count_call();
        target.support("copying", sys::copy_path_data(&source.file, &target.file))?;
        source.check_not_shrunk()
    }
}
