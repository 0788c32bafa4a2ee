//! `write/double-buffer`: a second thread writes block n while the producer makes block n + 1.

use std::ops::ControlFlow;

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::transfer::{DoubleBuffer, Helper, Side};

pub(super) const PREPARE: PrepareWrite = |setup| Ok(Box::new(DoubleBuffer::new(setup)?));

impl WriteTarget for DoubleBuffer {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let written = self.run(
            Helper::Takes,
            0..target.bytes,
            |buffer, offset, length| target.produce(producer, offset, &mut buffer[..length]),
            |buffer, offset, length| target.write_block(buffer, offset, length).map(ControlFlow::Continue),
        );
        written.map(drop)
    }
}
