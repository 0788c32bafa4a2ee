//! `write/io_uring,depth=N`: N writes in flight through one ring, from registered buffers.

use seekless_sys::Ring;

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Flight, Side};

pub(super) const PREPARE: PrepareWrite = |setup| {
    Ok(Box::new(IoUring {
        ring: setup.ring()?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
}

impl WriteTarget for IoUring {
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
