//! `copy/sync`: pread(2) and pwrite(2) in a loop.

use std::ops::Range;

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

struct Sync {
    setup: Setup,
    buffer: seekless_sys::Buffer,
}

impl CopyBytes for Sync {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let mut ahead = Ahead::within(source, range.clone())?;
        for (offset, length) in self.setup.blocks(range) {
            ahead.reading_at(offset)?;
            source.read_block(&mut self.buffer, offset, length)?;
            target.write_block(&self.buffer, offset, length)?;
        }
        Ok(())
    }
}
