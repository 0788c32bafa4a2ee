//! `write/posix-aio`: `aio_write(3)` from one buffer while the producer fills the other.

use std::time::Instant;

use seekless_sys::Aio;

use super::PreparedWrite;
use crate::error::Result;
use crate::read::{AioInFlight, aio_slots};
use crate::setup::Setup;
use crate::transfer::OpenFile;

/// A block in flight: its offset, its length, and the time of the request, if requests are timed.
type Block = (u64, usize, Option<Instant>);

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let mut slots = aio_slots(&setup)?;
    Ok(Box::new(move |target, producer| {
        let slots = AioInFlight(&mut slots);
        let [mut this, mut other] = slots.0.each_mut();
        let mut in_flight: Option<Block> = None;
        for (offset, length) in target.blocks(setup.block_bytes, target.range()) {
            target.produce(producer, offset, &mut this.buffer_mut()[..length])?;
            // One request at a time, so that blocks arrive in order and a growing file has no holes.
            if let Some(block) = in_flight.take() {
                finish(other, target, block)?;
            }
            target.count_call();
            in_flight = Some((offset, length, target.request_start()));
            let started = this.start_write(&target.file, offset, target.request_bytes(length));
            started.map_err(|error| target.failed(("start a write", offset), error))?;
            std::mem::swap(&mut this, &mut other);
        }
        in_flight.map_or(Ok(()), |block| finish(other, target, block))
    }))
}

/// Waits for a block; after a short answer, the rest is written synchronously.
fn finish(slot: &mut Aio, target: &OpenFile<'_>, (offset, length, started): Block) -> Result<()> {
    target.count_call();
    let written = slot.wait();
    let written = written.map_err(|error| target.failed(("write", offset), error))?;
    target.write_rest(slot.buffer(), offset, written, length)?;
    target.request_done(offset, started);
    Ok(())
}
