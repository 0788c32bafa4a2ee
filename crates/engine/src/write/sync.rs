//! `write/sync`: pwrite(2) in a loop, one block after the other.

use super::PreparedWrite;
use crate::setup::Setup;

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |target, producer| {
        for (offset, length) in target.blocks(setup.block_bytes, target.range()) {
            if !target.is_read(offset) {
                target.produce(producer, offset, &mut buffer[..length])?;
            }
            target.visit_block(&mut buffer, offset, length)?;
        }
        Ok(())
    }))
}
