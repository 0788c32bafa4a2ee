//! `read/null`: touches nothing, not even the file. What it costs is what the measuring costs.

use std::ops::Range;

use super::{PrepareRead, ReadSource, Stopped};
use crate::Consumer;
use crate::error::Result;
use crate::method::{Accepts, Mechanism, Operation, Platform, Prepare};
use crate::transfer::Side;

const PREPARE: PrepareRead = |_| Ok(Box::new(Null));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Read,
    name: "null",
    about: "does nothing, so that the cost of measuring is known",
    accepts: Accepts::NOTHING,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 0,
    prepare: Prepare::Read(PREPARE),
};

struct Null;

impl ReadSource for Null {
    fn read(&mut self, _source: &Side<'_>, _range: Range<u64>, _consumer: &dyn Consumer) -> Result<Stopped> {
        Ok(false)
    }
}
