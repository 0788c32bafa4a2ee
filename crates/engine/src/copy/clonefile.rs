//! `copy/clonefile`: clonefile(2) of macOS makes a new file that shares all blocks with the source.

use std::ops::Range;
use std::path::Path;

use seekless_sys::{self as sys};

use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::transfer::{Destination, Side, Transfer};

pub(super) const PREPARE: PrepareCopy = |_| Ok(Box::new(Clonefile));

struct Clonefile;

/// Clones by path: the call makes the target itself, so there is none to open.
pub(super) fn clone(source: &Side<'_>, target: &Path, destination: Destination) -> Result<Transfer> {
    if destination == Destination::Overwrite {
        return Err(source.unavailable("clonefile(2) makes new files only"));
    }
    source.count_call();
    source.support("cloning", sys::clone_path(source.path, target))?;
    Ok(Transfer {
        bytes: source.bytes,
        calls: source.calls(),
        ..Transfer::default()
    })
}

impl CopyBytes for Clonefile {
    fn copy(&mut self, source: &Side<'_>, _target: &Side<'_>, _range: Range<u64>) -> Result<()> {
        Err(source.unavailable("clonefile(2) makes new files only"))
    }
}
