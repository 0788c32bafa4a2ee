//! `read/sync`: pread(2) in a loop, one block after the other.

use super::{PreparedRead, deliver, has_places, place};
use crate::setup::Setup;
use crate::transfer::Ahead;

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |source, range, consumer| {
        let mut ahead = Ahead::within(source, range.clone())?;
        let has_places = has_places(source, consumer);
        for (offset, length) in source.blocks(setup.block_bytes, range) {
            ahead.reading_at(offset)?;
            if has_places && place(source, consumer, offset, length)? {
                continue;
            }
            let started = source.request_start();
            source.read_block(&mut buffer, offset, length)?;
            source.request_done(offset, started);
            if deliver(consumer, offset, &mut buffer, length).is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }))
}
