//! `copy/sync`: pread(2) and pwrite(2) in a loop.

use std::ops::Range;

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::method::{Accepts, Mechanism, Operation, Platform, Prepare};
use crate::read::DESCRIPTOR_HINTS;
use crate::setup::Setup;
use crate::transfer::Side;
use crate::write::BLOCKS;

/// What calls that copy through a buffer accept.
pub(super) const ACCEPTS: Accepts = Accepts {
    hints: DESCRIPTOR_HINTS,
    skips_holes: true,
    ..BLOCKS
};

const PREPARE: PrepareCopy = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Copy,
    name: "sync",
    about: "pread(2) and pwrite(2) in a loop",
    accepts: ACCEPTS,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 2,
    prepare: Prepare::Copy(PREPARE),
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
