//! `copy/io_uring,depth=N`: N blocks on their way through one ring, each read and then written from its registered buffer.

use std::ops::Range;

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::transfer::{Flight, OnRing, Side};

pub(super) const PREPARE: PrepareCopy = |setup| Ok(Box::new(OnRing::new(setup)?));

impl CopyBytes for OnRing {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut left = self.setup.blocks(range);
        let mut flight = Flight::new(&mut self.ring, source);
        loop {
            while let Some(slot) = flight.free_slot()
                && let Some((offset, length)) = left.next()
            {
                ahead.reading_at(offset)?;
                flight.read(slot, source, offset, length)?;
            }
            let Some(slot) = flight.wait_whole()? else {
                return Ok(());
            };
            let block = *flight.request(slot);
            if block.is_read {
                flight.write(slot, target, block.offset, block.length)?;
            }
        }
    }
}
