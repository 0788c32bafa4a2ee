//! `copy/io_uring,depth=N`: N blocks on their way through one ring, each read and then written from its registered buffer.

use std::ops::Range;

use seekless_sys::{Completed, Ring};

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::read::{ring, ring_flags};
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |setup| {
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
}

/// Which way a block is moving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// A block on its way.
#[derive(Clone, Copy)]
struct Block {
    way: Way,
    offset: u64,
    length: usize,
    done: usize,
}

impl InFlight for IoUring {
    fn drain(&mut self) {
        drain_ring(&mut self.ring);
    }
}

impl CopyBytes for IoUring {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let calls = self.ring.calls();
        let block_bytes = self.setup.block_bytes;
        let this = Draining(self);
        let result = Ahead::within(source, range.clone()).and_then(|ahead| {
            let blocks = vec![None; this.0.ring.depth() as usize];
            let ring = &mut this.0.ring;
            Copying {
                ring,
                source,
                target,
                ahead,
                block_bytes,
                blocks,
                left: range,
            }
            .run()
        });
        drop(this);
        source.count_calls(self.ring.calls() - calls);
        result
    }
}

/// One copy through the ring: each slot has a block of its own, and takes the next when that is written.
struct Copying<'a> {
    ring: &'a mut Ring,
    source: &'a Side<'a>,
    target: &'a Side<'a>,
    ahead: Ahead<'a>,
    block_bytes: usize,
    blocks: Vec<Option<Block>>,
    /// What no slot has taken yet.
    left: Range<u64>,
}

impl Copying<'_> {
    fn run(&mut self) -> Result<()> {
        for slot in 0..self.ring.depth() {
            self.take_next(slot)?;
        }
        while self.ring.in_flight() > 0 {
            let completed = self
                .ring
                .wait()
                .map_err(|error| self.source.failed("waiting for the ring", error))?;
            self.advance(completed)?;
        }
        Ok(())
    }

    /// Starts to read the next block, if there is one, into a slot.
    fn take_next(&mut self, slot: u32) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let offset = self.left.start;
        let length = (self.block_bytes as u64).min(self.left.end - offset) as usize;
        self.ahead.reading_at(offset)?;
        let block = Block {
            way: Way::In,
            offset,
            length,
            done: 0,
        };
        self.left.start += length as u64;
        self.request(slot, block)
    }

    /// Asks for what is still missing of a block's way.
    fn request(&mut self, slot: u32, block: Block) -> Result<()> {
        self.blocks[slot as usize] = Some(block);
        let at = block.offset + block.done as u64;
        let side = if block.way == Way::In { self.source } else { self.target };
        let rest = side.request_bytes(block.length) - block.done;
        side.check_can_continue(at)?;
        let flags = ring_flags(side);
        let submitted = match block.way {
            Way::In => self.ring.submit_read(slot, &side.file, at, block.done, rest, flags),
            Way::Out => self.ring.submit_write(slot, &side.file, at, block.done, rest, flags),
        };
        submitted.map_err(|error| side.failed_at("starting to copy", at, error))
    }

    fn advance(&mut self, completed: Completed) -> Result<()> {
        let Some(mut block) = self.blocks[completed.slot as usize].take() else {
            return Ok(());
        };
        let at = block.offset + block.done as u64;
        let (side, doing) = if block.way == Way::In {
            (self.source, "reading")
        } else {
            (self.target, "writing")
        };
        match completed.result {
            Ok(0) if block.way == Way::In => return Err(side.resized(at)),
            Ok(0) => return Err(side.failed_at(doing, at, std::io::ErrorKind::WriteZero.into())),
            Ok(moved) => block.done += moved,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(side.request_failed(doing, at, error)),
        }
        match block.way {
            Way::In if block.done >= block.length => self.request(
                completed.slot,
                Block {
                    way: Way::Out,
                    done: 0,
                    ..block
                },
            ),
            Way::Out if block.done >= side.request_bytes(block.length) => self.take_next(completed.slot),
            _ => self.request(completed.slot, block),
        }
    }
}
