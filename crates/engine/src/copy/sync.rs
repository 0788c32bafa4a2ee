//! `copy/sync`: pread(2) and pwrite(2) in a loop.

use super::PreparedCopy;
use crate::setup::Setup;
use crate::transfer::Ahead;

pub(super) fn prepare(setup: Setup) -> PreparedCopy {
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |source, target, range| {
        let mut ahead = Ahead::within(source, range.clone())?;
        for (offset, length) in setup.blocks(range) {
            ahead.reading_at(offset)?;
            source.read_block(&mut buffer, offset, length)?;
            target.write_block(&buffer, target.place(offset), length)?;
        }
        Ok(())
    }))
}
