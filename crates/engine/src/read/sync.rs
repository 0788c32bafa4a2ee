//! `read/sync`: pread(2) in a loop, one block after the other.

use super::{PreparedRead, deliver};
use crate::setup::Setup;
use crate::transfer::Ahead;

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |source, range, consumer| {
        let mut ahead = Ahead::within(source, range.clone())?;
        for (offset, length) in source.blocks(setup.block_bytes, range) {
            ahead.reading_at(offset)?;
            if deliver(source, consumer, &mut buffer, offset, length)? {
                return Ok(true);
            }
        }
        Ok(false)
    }))
}
