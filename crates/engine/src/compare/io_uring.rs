//! `compare/io_uring,depth=N`: N reads of both files in flight through one ring; blocks are compared in order, as soon as
//! they are there of both.

use std::ops::Range;

use seekless_sys::{Buffer, Ring};

use super::pair::Pair;
use super::sync::preload_blocks;
use super::{CompareBytes, PrepareCompare};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::read::{ring, ring_flags};
use crate::setup::Setup;

pub(super) const PREPARE: PrepareCompare = |setup| {
    let preloads = setup.method.options().order().preloads();
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        preloading: preloads.then(|| setup.buffer()).transpose()?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
    preloading: Option<Buffer>,
}

impl InFlight for IoUring {
    fn drain(&mut self) {
        drain_ring(&mut self.ring);
    }
}

impl CompareBytes for IoUring {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        match &mut self.preloading {
            Some(buffer) => preload_blocks(pair, file, range, buffer),
            None => Ok(()),
        }
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        if self.ring.depth() < 2 {
            return Err(self.setup.unavailable("two files need a depth of 2 at least"));
        }
        let calls = self.ring.calls();
        let mut this = Draining(self);
        let found = Flight::new(&mut this, pair, range).and_then(|mut flight| flight.run(newlines));
        drop(this);
        pair.sides[0].count_calls(self.ring.calls() - calls);
        found
    }
}

/// One stretch on its way through the ring. Block n of file f is in slot `2 * (n % pairs) + f`.
struct Flight<'a> {
    ring: &'a mut Ring,
    pair: &'a Pair<'a>,
    range: Range<u64>,
    block_bytes: u64,
    aheads: [Ahead<'a>; 2],
    /// Blocks of each file that can be on their way.
    pairs: u64,
    /// Bytes of the slot's block that have arrived.
    arrived: Vec<usize>,
    blocks: u64,
}

impl<'a> Flight<'a> {
    fn new(mechanism: &'a mut IoUring, pair: &'a Pair<'a>, range: Range<u64>) -> Result<Self> {
        let ahead = |file: usize| Ahead::within(&pair.sides[file], pair.place(file, &range));
        let block_bytes = mechanism.setup.block_bytes as u64;
        Ok(Self {
            pair,
            aheads: [ahead(0)?, ahead(1)?],
            pairs: u64::from(mechanism.ring.depth() / 2),
            arrived: vec![0; mechanism.ring.depth() as usize],
            blocks: (range.end - range.start).div_ceil(block_bytes),
            block_bytes,
            range,
            ring: &mut mechanism.ring,
        })
    }

    fn run(&mut self, newlines: &mut u64) -> Result<Option<u64>> {
        for block in 0..self.blocks.min(self.pairs) {
            self.ask_for(block)?;
        }
        for block in 0..self.blocks {
            let slots = [0, 1].map(|file| self.slot(block, file));
            let (at, length) = self.place(block);
            while slots.iter().any(|&slot| self.arrived[slot as usize] < length) {
                self.wait(block)?;
            }
            let [one, other] = slots.map(|slot| &self.ring.buffer(slot)[..length]);
            if let Some(found) = self.pair.difference(one, other, newlines) {
                return Ok(Some(at + found));
            }
            if block + self.pairs < self.blocks {
                self.ask_for(block + self.pairs)?;
            }
        }
        Ok(None)
    }

    fn slot(&self, block: u64, file: u32) -> u32 {
        (block % self.pairs) as u32 * 2 + file
    }

    fn place(&self, block: u64) -> (u64, usize) {
        let at = self.range.start + block * self.block_bytes;
        (at, self.block_bytes.min(self.range.end - at) as usize)
    }

    /// Sends the requests for a block of both files on their way.
    fn ask_for(&mut self, block: u64) -> Result<()> {
        for file in 0..2 {
            let slot = self.slot(block, file);
            self.arrived[slot as usize] = 0;
            let at = self.pair.starts[file as usize] + self.place(block).0;
            self.aheads[file as usize].reading_at(at)?;
            self.request(block, file)?;
        }
        // On their way at once: left in the queue until there is something to wait for, they would not be in flight.
        let submitted = self.ring.submit();
        submitted.map_err(|error| self.pair.sides[0].failed("submitting to the ring", error))
    }

    /// Asks for what is still missing of a block of one file.
    fn request(&mut self, block: u64, file: u32) -> Result<()> {
        let slot = self.slot(block, file);
        let arrived = self.arrived[slot as usize];
        let (offset, length) = self.place(block);
        let side = &self.pair.sides[file as usize];
        let at = self.pair.starts[file as usize] + offset + arrived as u64;
        side.check_can_continue(at)?;
        let asked = side.request_bytes(length) - arrived;
        let submitted = self
            .ring
            .submit_read(slot, &side.file, at, arrived, asked, ring_flags(side));
        submitted.map_err(|error| side.failed_at("starting to read", at, error))
    }

    /// Waits for a request; `current` is the block that is waited for, the first of those on their way.
    fn wait(&mut self, current: u64) -> Result<()> {
        let waited = self.ring.wait();
        let completed = waited.map_err(|error| self.pair.sides[0].failed("waiting for the ring", error))?;
        let (turn, file) = (u64::from(completed.slot / 2), completed.slot % 2);
        let block = current + (turn + self.pairs - current % self.pairs) % self.pairs;
        let (offset, length) = self.place(block);
        let side = &self.pair.sides[file as usize];
        let arrived = &mut self.arrived[completed.slot as usize];
        let at = self.pair.starts[file as usize] + offset + *arrived as u64;
        match completed.result {
            Ok(0) => return Err(side.resized(at)),
            Ok(read) => *arrived += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(side.request_failed("reading", at, error)),
        }
        if *arrived < length {
            self.request(block, file)
        } else {
            Ok(())
        }
    }
}
