//! `write/sync`: pwrite(2) in a loop, one block after the other.

use super::PreparedWrite;
use crate::setup::Setup;

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |target, producer| {
        for (offset, length) in target.blocks(setup.block_bytes, target.range()) {
            target.produce(producer, offset, &mut buffer[..length])?;
            let started = target.request_start();
            target.write_block(&buffer, offset, length)?;
            target.request_done(started);
        }
        Ok(())
    }))
}
