//! `write/io_uring,depth=N`: N writes in flight through one ring, from registered buffers.

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::transfer::{Flight, OnRing, Side};

pub(super) const PREPARE: PrepareWrite = |setup| Ok(Box::new(OnRing::new(setup)?));

impl WriteTarget for OnRing {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let mut left = target.blocks(self.setup.block_bytes, 0..target.bytes);
        let mut flight = Flight::new(&mut self.ring, target);
        loop {
            while let Some(slot) = flight.free_slot()
                && let Some((offset, length)) = left.next()
            {
                target.produce(producer, offset, &mut flight.buffer_mut(slot)[..length])?;
                flight.write(slot, target, offset, length)?;
                // It moves while the next is produced.
                flight.submit()?;
            }
            if flight.wait_whole()?.is_none() {
                return Ok(());
            }
        }
    }
}
