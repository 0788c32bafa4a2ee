//! `read/sync`: pread(2) in a loop, one block after the other.

use std::ops::Range;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

pub(super) const PREPARE: PrepareRead = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

struct Sync {
    setup: Setup,
    buffer: seekless_sys::Buffer,
}

impl ReadSource for Sync {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        let mut ahead = Ahead::within(source, range.clone())?;
        for (offset, length) in source.blocks(self.setup.block_bytes, range) {
            ahead.reading_at(offset)?;
            let started = source.request_start();
            source.read_block(&mut self.buffer, offset, length)?;
            source.request_done(started);
            if consumer.data(offset, Chunk::Memory(&self.buffer[..length])).is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
