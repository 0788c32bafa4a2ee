//! `read/io_uring,depth=N`: N reads in flight through one ring, into registered buffers.

use std::collections::VecDeque;

use super::PreparedRead;
use crate::Chunk;
use crate::setup::Setup;
use crate::transfer::{Ahead, Flight};

/// A slot is filled again as soon as its block was handed over: at once if the consumer takes blocks in any order, so
/// that a late request delays no other; else in its turn.
pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let mut ring = setup.ring()?;
    Ok(Box::new(move |source, range, consumer| {
        let in_order = consumer.needs_order();
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut left = source.blocks(setup.block_bytes, range);
        // Slots in the order of their blocks, if the consumer needs order.
        let mut turns = VecDeque::with_capacity(ring.depth() as usize);
        let mut flight = Flight::new(&mut ring, source);
        loop {
            while let Some(slot) = flight.free_slot()
                && let Some((offset, length)) = left.next()
            {
                ahead.reading_at(offset)?;
                flight.read(slot, source, offset, length)?;
                if in_order {
                    turns.push_back(slot);
                }
            }
            flight.submit()?;
            let Some(whole) = flight.wait_whole()? else {
                return Ok(false);
            };
            let mut next = if in_order { turns.front().copied() } else { Some(whole) };
            while let Some(slot) = next.filter(|&slot| flight.request(slot).is_whole()) {
                let (offset, length) = (flight.request(slot).offset, flight.request(slot).length);
                let taken = match consumer.spare(setup.block_bytes) {
                    Some(spare) => consumer.filled(offset, flight.exchange(slot, spare), length),
                    None => consumer.data(offset, Chunk::Memory(flight.bytes(slot))),
                };
                if taken.is_break() {
                    return Ok(true);
                }
                flight.free(slot);
                turns.pop_front();
                next = turns.front().copied();
            }
        }
    }))
}
