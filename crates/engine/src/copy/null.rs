//! `copy/null`: touches nothing, not even the files. What it costs is what the measuring costs.

use std::ops::Range;

use super::{CopyBytes, PrepareCopy};
use crate::error::Result;
use crate::method::{Accepts, Mechanism, Operation, Platform, Prepare};
use crate::transfer::Side;

const PREPARE: PrepareCopy = |_| Ok(Box::new(Null));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Copy,
    name: "null",
    about: "does nothing, so that the cost of measuring is known",
    accepts: Accepts::NOTHING,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 0,
    prepare: Prepare::Copy(PREPARE),
};

struct Null;

impl CopyBytes for Null {
    fn copy(&mut self, _source: &Side<'_>, _target: &Side<'_>, _range: Range<u64>) -> Result<()> {
        Ok(())
    }
}
