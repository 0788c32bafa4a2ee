//! `write/io_uring,depth=N`: N writes in flight through one ring, from registered buffers.

use super::PreparedWrite;
use crate::setup::Setup;
use crate::transfer::Flight;

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let mut ring = setup.ring()?;
    Ok(Box::new(move |target, producer| {
        let mut left = target.blocks(setup.block_bytes, target.range());
        let mut flight = Flight::new(&mut ring, target);
        loop {
            while let Some(slot) = flight.free_slot()
                && let Some((offset, length)) = left.next()
            {
                if target.is_read(offset) {
                    flight.read(slot, target, offset, length)?;
                } else {
                    target.produce(producer, offset, &mut flight.buffer_mut(slot)[..length])?;
                    flight.write(slot, target, offset, length)?;
                }
                // It moves while the next is produced.
                flight.submit()?;
            }
            match flight.wait_whole()? {
                None => return Ok(()),
                Some(slot) if flight.request(slot).is_read => flight.free(slot),
                Some(_) => {}
            }
        }
    }))
}
