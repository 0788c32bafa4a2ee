//! `write/null`: touches nothing, not even the file. What it costs is what the measuring costs.

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::method::{Accepts, Mechanism, Operation, Platform, Prepare};
use crate::transfer::Side;

const PREPARE: PrepareWrite = |_| Ok(Box::new(Null));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Write,
    name: "null",
    about: "does nothing, so that the cost of measuring is known",
    accepts: Accepts::NOTHING,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 0,
    prepare: Prepare::Write(PREPARE),
};

struct Null;

impl WriteTarget for Null {
    fn write(&mut self, _target: &Side<'_>, _producer: &dyn Producer) -> Result<()> {
        Ok(())
    }
}
