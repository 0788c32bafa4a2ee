//! `read/io_uring,depth=N`: N reads in flight through one ring, into registered buffers.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use seekless_sys::{Ring, RingFlags, Support};

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::setup::Setup;
use crate::transfer::{Blocks, MEMORY_ALIGNMENT, Side};
use crate::{Chunk, Consumer};
use seekless_method::CachePolicy;

pub(super) const PREPARE: PrepareRead = |setup| {
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        setup,
    }))
};

/// A ring with a registered buffer for each request in flight.
pub(crate) fn ring(setup: &Setup) -> Result<Ring> {
    let depth = setup.method.options().depth().unwrap_or(1);
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
        dontcache: side.method.options().cache() == CachePolicy::DontCache,
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
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        let calls = self.ring.calls();
        let mut this = Draining(self);
        let result = Reading::new(&mut this, source, range).and_then(|mut reading| reading.run(consumer));
        drop(this);
        source.count_calls(self.ring.calls() - calls);
        result
    }
}

/// A block on its way into the buffer of its slot.
#[derive(Clone, Copy, Default)]
struct Block {
    offset: u64,
    length: usize,
    arrived: usize,
    started: Option<Instant>,
}

/// One read through the ring. A slot is filled again as soon as its block was handed over: at once where the consumer takes
/// blocks in any order, so that a request that is late holds up no other; else when its turn has come.
struct Reading<'a> {
    ring: &'a mut Ring,
    source: &'a Side<'a>,
    ahead: Ahead<'a>,
    /// What no slot has taken yet.
    left: Blocks<'a>,
    slots: Vec<Block>,
    free: Vec<u32>,
    /// Slots in the order of their blocks, where the consumer needs order.
    turns: VecDeque<u32>,
}

impl<'a> Reading<'a> {
    fn new(mechanism: &'a mut IoUring, source: &'a Side<'a>, range: Range<u64>) -> Result<Self> {
        let depth = mechanism.ring.depth();
        Ok(Self {
            source,
            ahead: Ahead::within(source, range.clone())?,
            left: source.blocks(mechanism.setup.block_bytes, range),
            slots: vec![Block::default(); depth as usize],
            free: (0..depth).rev().collect(),
            turns: VecDeque::with_capacity(depth as usize),
            ring: &mut mechanism.ring,
        })
    }

    fn run(&mut self, consumer: &dyn Consumer) -> Result<Stopped> {
        let in_order = consumer.needs_order();
        loop {
            self.fill(in_order)?;
            if self.ring.in_flight() == 0 {
                return Ok(false);
            }
            let Some(whole) = self.wait()? else { continue };
            if !in_order {
                if self.hand_over(whole, consumer).is_break() {
                    return Ok(true);
                }
                continue;
            }
            while let Some(&turn) = self.turns.front()
                && self.is_whole(turn)
            {
                self.turns.pop_front();
                if self.hand_over(turn, consumer).is_break() {
                    return Ok(true);
                }
            }
        }
    }

    /// Asks for blocks into all slots that are free, and sends the requests on their way.
    fn fill(&mut self, in_order: bool) -> Result<()> {
        while let Some(&slot) = self.free.last()
            && let Some((offset, length)) = self.left.next()
        {
            self.free.pop();
            self.ahead.reading_at(offset)?;
            self.slots[slot as usize] = Block {
                offset,
                length,
                arrived: 0,
                started: self.source.request_start(),
            };
            self.request(slot)?;
            if in_order {
                self.turns.push_back(slot);
            }
        }
        // On their way at once: left in the queue until there is something to wait for, they would not be in flight.
        let submitted = self.ring.submit();
        submitted.map_err(|error| self.source.failed("submitting to the ring", error))
    }

    /// Asks for what is still missing of a block.
    fn request(&mut self, slot: u32) -> Result<()> {
        let block = self.slots[slot as usize];
        let (source, at) = (self.source, block.offset + block.arrived as u64);
        let asked = source.request_bytes(block.length) - block.arrived;
        source.check_can_continue(at)?;
        let submitted = self
            .ring
            .submit_read(slot, &source.file, at, block.arrived, asked, flags(source));
        submitted.map_err(|error| source.failed_at("starting to read", at, error))
    }

    /// Waits for a request: the slot whose block is whole by it, or `None` where some of it is still missing.
    fn wait(&mut self) -> Result<Option<u32>> {
        let source = self.source;
        let completed = self.ring.wait();
        let completed = completed.map_err(|error| source.failed("waiting for the ring", error))?;
        let slot = completed.slot;
        let block = &mut self.slots[slot as usize];
        let at = block.offset + block.arrived as u64;
        match completed.result {
            Ok(0) => return Err(source.resized(at)),
            Ok(read) => block.arrived += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.request_failed("reading", at, error)),
        }
        if self.is_whole(slot) {
            source.request_done(self.slots[slot as usize].started);
            return Ok(Some(slot));
        }
        self.request(slot)?;
        Ok(None)
    }

    fn is_whole(&self, slot: u32) -> bool {
        let block = self.slots[slot as usize];
        block.arrived >= block.length
    }

    fn hand_over(&mut self, slot: u32, consumer: &dyn Consumer) -> ControlFlow<()> {
        let block = self.slots[slot as usize];
        let bytes = &self.ring.buffer(slot)[..block.length];
        self.free.push(slot);
        consumer.data(block.offset, Chunk::Memory(bytes))
    }
}
