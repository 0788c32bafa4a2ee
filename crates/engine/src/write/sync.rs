//! `write/sync`: pwrite(2) in a loop, one block after the other.

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareWrite = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

struct Sync {
    setup: Setup,
    buffer: seekless_sys::Buffer,
}

impl WriteTarget for Sync {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        for (offset, length) in target.blocks(self.setup.block_bytes, 0..target.bytes) {
            target.produce(producer, offset, &mut self.buffer[..length])?;
            let started = target.request_start();
            target.write_block(&self.buffer, offset, length)?;
            target.request_done(started);
        }
        Ok(())
    }
}
