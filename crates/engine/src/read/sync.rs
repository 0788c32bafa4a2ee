//! `read/sync`: pread(2) in a loop, one block after the other.

use std::ops::Range;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::method::{Accepts, CachePolicy, Hint, Mechanism, Operation, Platform, Preallocate, Prepare};
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

/// The hints for calls that read a descriptor.
pub(crate) const HINTS: &[Hint] = &[
    Hint::Sequential,
    Hint::SequentialNoReuse,
    Hint::WillNeed,
    Hint::ReadAhead,
    Hint::RdAhead,
    Hint::RdAdvise,
];

/// What calls that read blocks of a descriptor accept.
pub(crate) const ACCEPTS: Accepts = Accepts {
    block: Some(Some(128 << 10)),
    depth: None,
    threads: None,
    cache: &[CachePolicy::Direct, CachePolicy::DontCache],
    hints: HINTS,
    preallocate: &[Preallocate::None],
    durability: &[],
    orders: &[],
    comparing: &[],
    update_orders: &[],
    skips_holes: true,
};

const PREPARE: PrepareRead = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Read,
    name: "sync",
    about: "pread(2) in a loop",
    accepts: ACCEPTS,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 1,
    prepare: Prepare::Read(PREPARE),
};

struct Sync {
    setup: Setup,
    buffer: seekless_sys::Buffer,
}

impl ReadSource for Sync {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        let mut ahead = Ahead::within(source, range.clone())?;
        for (offset, length) in self.setup.blocks(range) {
            ahead.reading_at(offset)?;
            source.read_block(&mut self.buffer, offset, length)?;
            if consumer.data(offset, Chunk::Memory(&self.buffer[..length])).is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
