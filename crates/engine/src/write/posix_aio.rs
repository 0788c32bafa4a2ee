//! `write/posix-aio`: `aio_write(3)` from one buffer while the producer fills the other.

use std::time::Instant;

use seekless_sys::Aio;

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::read::{AioInFlight, aio_slot};
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareWrite = |setup| {
    Ok(Box::new(PosixAio {
        slots: [aio_slot(&setup)?, aio_slot(&setup)?],
        setup,
    }))
};

struct PosixAio {
    setup: Setup,
    slots: [Aio; 2],
}

/// A block on its way.
#[derive(Clone, Copy)]
struct Block {
    slot: usize,
    offset: u64,
    length: usize,
    started: Option<Instant>,
}

impl WriteTarget for PosixAio {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let slots = AioInFlight(&mut self.slots);
        let mut in_flight: Option<Block> = None;
        let mut slot = 0;
        for (offset, length) in target.blocks(self.setup.block_bytes, 0..target.bytes) {
            target.produce(producer, offset, &mut slots.0[slot].buffer_mut()[..length])?;
            // One request at a time, so that blocks arrive in order and a growing file has no holes.
            if let Some(block) = in_flight.take() {
                finish(&mut slots.0[block.slot], target, block)?;
            }
            target.count_call();
            in_flight = Some(Block {
                slot,
                offset,
                length,
                started: target.request_start(),
            });
            let started = slots.0[slot].start_write(&target.file, offset, target.request_bytes(length));
            started.map_err(|error| target.failed_at("starting to write", offset, error))?;
            slot = 1 - slot;
        }
        in_flight.map_or(Ok(()), |block| finish(&mut slots.0[block.slot], target, block))
    }
}

/// Waits for a block; what a short answer left out is written at once.
fn finish(slot: &mut Aio, target: &Side<'_>, block: Block) -> Result<()> {
    target.count_call();
    let written = slot
        .wait()
        .map_err(|error| target.failed_at("writing", block.offset, error))?;
    target.write_rest(slot.buffer(), block.offset, written, block.length)?;
    target.request_done(block.started);
    Ok(())
}
