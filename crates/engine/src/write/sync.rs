//! `write/sync`: pwrite(2) in a loop, one block after the other.

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::method::{Accepts, CachePolicy, Durability, Mechanism, Operation, Platform, Preallocate, Prepare};
use crate::setup::Setup;
use crate::transfer::Side;

/// What calls that write blocks to a descriptor accept.
pub(crate) const ACCEPTS: Accepts = Accepts {
    block: Some(Some(1 << 20)),
    depth: None,
    threads: None,
    cache: &[CachePolicy::Direct, CachePolicy::DontCache],
    hints: &[],
    preallocate: Preallocate::ALL,
    durability: &[Durability::Fsync, Durability::WriteThrough],
    orders: &[],
    comparing: &[],
    update_orders: &[],
    skips_holes: false,
};

const PREPARE: PrepareWrite = |setup| {
    Ok(Box::new(Sync {
        buffer: setup.buffer()?,
        setup,
    }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Write,
    name: "sync",
    about: "pwrite(2) in a loop",
    accepts: ACCEPTS,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 1,
    prepare: Prepare::Write(PREPARE),
};

struct Sync {
    setup: Setup,
    buffer: seekless_sys::Buffer,
}

impl WriteTarget for Sync {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let mut offset = 0;
        while offset < target.bytes {
            let length = target.length_at(offset, self.setup.block_bytes);
            target.produce(producer, offset, &mut self.buffer[..length])?;
            target.write_block(&self.buffer, offset, length)?;
            offset += length as u64;
        }
        Ok(())
    }
}
