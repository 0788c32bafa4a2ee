//! `copy/double-buffer`: a second thread reads block n + 1 while this one writes block n.

use std::ops::{ControlFlow, Range};

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::transfer::{DoubleBuffer, Helper, Side};

pub(super) const PREPARE: PrepareCopy = |setup| Ok(Box::new(DoubleBuffer::new(setup)?));

impl CopyBytes for DoubleBuffer {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let mut ahead = Ahead::within(source, range.clone())?;
        let copied = self.run(
            Helper::Fills,
            range,
            |buffer, offset, length| {
                ahead.reading_at(offset)?;
                source.read_block(buffer, offset, length)
            },
            |buffer, offset, length| target.write_block(buffer, offset, length).map(ControlFlow::Continue),
        );
        copied.map(drop)
    }
}
