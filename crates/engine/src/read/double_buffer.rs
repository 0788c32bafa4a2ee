//! `read/double-buffer`: a second thread reads block n + 1 while the consumer has block n.

use std::ops::Range;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::transfer::{DoubleBuffer, Helper, Side};
use crate::{Chunk, Consumer};

pub(super) const PREPARE: PrepareRead = |setup| Ok(Box::new(DoubleBuffer::new(setup)?));

impl ReadSource for DoubleBuffer {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        let mut ahead = Ahead::within(source, range.clone())?;
        let flow = self.run(
            Helper::Fills,
            range,
            |buffer, offset, length| {
                ahead.reading_at(offset)?;
                source.read_block(buffer, offset, length)
            },
            |buffer, offset, length| Ok(consumer.data(offset, Chunk::Memory(&buffer[..length]))),
        );
        flow.map(|flow| flow.is_break())
    }
}
