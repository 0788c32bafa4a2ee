//! `read/io_uring,depth=N`: N reads in flight through one ring, into registered buffers, consumed in order.

use seekless_sys::{Ring, RingFlags, Support};

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::method::{Accepts, CachePolicy, Mechanism, Operation, Platform, Prepare};
use crate::setup::Setup;
use crate::transfer::{MEMORY_ALIGNMENT, Side};
use crate::{Chunk, Consumer};

const PREPARE: PrepareRead = |setup| {
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        setup,
    }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Read,
    name: "io_uring",
    about: "N reads in flight through one ring, into registered buffers",
    accepts: Accepts {
        block: Some(Some(256 << 10)),
        depth: Some(8),
        cache: &[CachePolicy::Direct, CachePolicy::DontCache],
        ..super::sync::ACCEPTS
    },
    overlapping: true,
    platforms: &[Platform::Linux],
    simplicity_rank: 7,
    prepare: Prepare::Read(PREPARE),
};

/// A ring with a registered buffer for each request in flight.
pub(crate) fn ring(setup: &Setup) -> Result<Ring> {
    let depth = setup.method.options().depth.unwrap_or(1);
    match Ring::new(depth, setup.block_bytes, MEMORY_ALIGNMENT) {
        Ok(Support::Available(ring)) => Ok(ring),
        Ok(Support::Unavailable(reason)) => Err(setup.unavailable(reason)),
        // The buffers of this method are more than the user may lock: a limit, not a failure.
        Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => Err(setup.unavailable(&error.to_string())),
        Err(error) => Err(setup.failed("making a ring", error)),
    }
}

/// The flags of a request that the method's cache policy asks for.
pub(crate) fn flags(side: &Side<'_>) -> RingFlags {
    RingFlags {
        dontcache: side.method.options().cache == CachePolicy::DontCache,
    }
}

struct IoUring {
    setup: Setup,
    ring: Ring,
}

impl InFlight for IoUring {
    fn drain(&mut self) {
        drain_ring(&mut self.ring);
    }
}

impl ReadSource for IoUring {
    fn read(&mut self, source: &Side<'_>, consumer: &dyn Consumer) -> Result<Stopped> {
        let calls = self.ring.calls();
        let mut this = Draining(self);
        let result = Reading::new(&mut this, source).and_then(|mut reading| reading.run(consumer));
        drop(this);
        source.count_calls(self.ring.calls() - calls);
        result
    }
}

/// One read through the ring: block n is in slot n modulo depth.
struct Reading<'a> {
    ring: &'a mut Ring,
    source: &'a Side<'a>,
    ahead: Ahead<'a>,
    block_bytes: usize,
    /// Bytes that have arrived in each slot.
    arrived: Vec<usize>,
}

impl<'a> Reading<'a> {
    fn new(mechanism: &'a mut IoUring, source: &'a Side<'a>) -> Result<Self> {
        let arrived = vec![0; mechanism.ring.depth() as usize];
        let block_bytes = mechanism.setup.block_bytes;
        Ok(Self {
            ring: &mut mechanism.ring,
            source,
            ahead: Ahead::new(source)?,
            block_bytes,
            arrived,
        })
    }

    fn run(&mut self, consumer: &dyn Consumer) -> Result<Stopped> {
        let blocks = self.source.bytes.div_ceil(self.block_bytes as u64);
        for block in 0..blocks.min(self.arrived.len() as u64) {
            self.submit(block)?;
        }
        for block in 0..blocks {
            self.wait_for(block)?;
            let (slot, offset, length) = self.place(block);
            let bytes = &self.ring.buffer(slot)[..length];
            if consumer.data(offset, Chunk::Memory(bytes)).is_break() {
                return Ok(true);
            }
            let next = block + self.arrived.len() as u64;
            if next < blocks {
                self.submit(next)?;
                // On its way at once: left in the queue until there is something to wait for, it would not be in flight.
                self.ring
                    .submit()
                    .map_err(|error| self.source.failed("submitting to the ring", error))?;
            }
        }
        Ok(false)
    }

    /// The slot, offset and length of a block.
    fn place(&self, block: u64) -> (u32, u64, usize) {
        let offset = block * self.block_bytes as u64;
        (
            (block % self.arrived.len() as u64) as u32,
            offset,
            self.source.length_at(offset, self.block_bytes),
        )
    }

    fn submit(&mut self, block: u64) -> Result<()> {
        let (slot, offset, _) = self.place(block);
        self.ahead.reading_at(offset)?;
        self.arrived[slot as usize] = 0;
        self.request(block)
    }

    /// Asks for what is still missing of a block.
    fn request(&mut self, block: u64) -> Result<()> {
        let (slot, offset, length) = self.place(block);
        let start = self.arrived[slot as usize];
        let asked = self.source.request_bytes(length) - start;
        let (source, at) = (self.source, offset + start as u64);
        source.check_can_continue(at)?;
        let submitted = self
            .ring
            .submit_read(slot, &source.file, at, start, asked, flags(source));
        submitted.map_err(|error| source.failed_at("starting to read", at, error))
    }

    /// Waits until a block is whole; others that arrive meanwhile are noted.
    fn wait_for(&mut self, block: u64) -> Result<()> {
        let source = self.source;
        let slots = self.arrived.len() as u64;
        loop {
            let (wanted, _, length) = self.place(block);
            if self.arrived[wanted as usize] >= length {
                return Ok(());
            }
            let completed = self
                .ring
                .wait()
                .map_err(|error| source.failed("waiting for the ring", error))?;
            // Slots are consumed in order, so slot s holds the first block from here on that belongs there.
            let of = block + (u64::from(completed.slot) + slots - u64::from(wanted)) % slots;
            let (_, offset, length) = self.place(of);
            let at = offset + self.arrived[completed.slot as usize] as u64;
            match completed.result {
                Ok(0) => return Err(source.shrank(at)),
                Ok(read) => self.arrived[completed.slot as usize] += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(source.request_failed("reading", at, error)),
            }
            if self.arrived[completed.slot as usize] < length {
                self.request(of)?;
            }
        }
    }
}
