//! `copy/io_uring,depth=N`: N blocks in flight through one ring, each read and then written from its registered buffer.

use super::PreparedCopy;
use crate::setup::Setup;
use crate::transfer::{Ahead, Flight};

pub(super) fn prepare(setup: Setup) -> PreparedCopy {
    let mut ring = setup.ring()?;
    Ok(Box::new(move |source, target, range| {
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut left = setup.blocks(range);
        let mut flight = Flight::new(&mut ring, source);
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
                flight.write(slot, target, target.place(block.offset), block.length)?;
            }
        }
    }))
}
