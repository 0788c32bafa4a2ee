//! `write/io_uring,depth=N`: N writes in flight through one ring, from registered buffers.

use std::time::Instant;

use seekless_sys::Ring;

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::read::{ring, ring_flags};
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareWrite = |setup| {
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
}

impl InFlight for IoUring {
    fn drain(&mut self) {
        drain_ring(&mut self.ring);
    }
}

impl WriteTarget for IoUring {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let calls = self.ring.calls();
        let result = Draining(self).write_all(target, producer);
        target.count_calls(self.ring.calls() - calls);
        result
    }
}

/// A block on its way: its offset, what is asked for, what is done of it.
#[derive(Clone, Copy, Default)]
struct Block {
    offset: u64,
    asked: usize,
    done: usize,
    started: Option<Instant>,
}

impl IoUring {
    fn write_all(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        let mut slots = vec![Block::default(); self.ring.depth() as usize];
        let mut free: Vec<u32> = (0..self.ring.depth()).rev().collect();
        let mut left = target.blocks(self.setup.block_bytes, 0..target.bytes);
        loop {
            if let Some(&slot) = free.last()
                && let Some((offset, length)) = left.next()
            {
                free.pop();
                target.produce(producer, offset, &mut self.ring.buffer_mut(slot)[..length])?;
                slots[slot as usize] = Block {
                    offset,
                    asked: target.request_bytes(length),
                    done: 0,
                    started: target.request_start(),
                };
                self.request(target, slot, slots[slot as usize])?;
                // On its way at once, so that it moves while the next is produced.
                self.ring
                    .submit()
                    .map_err(|error| target.failed("submitting to the ring", error))?;
                continue;
            }
            if self.ring.in_flight() == 0 {
                return Ok(());
            }
            let completed = self
                .ring
                .wait()
                .map_err(|error| target.failed("waiting for the ring", error))?;
            let block = &mut slots[completed.slot as usize];
            let at = block.offset + block.done as u64;
            match completed.result {
                Ok(0) => return Err(target.failed_at("writing", at, std::io::ErrorKind::WriteZero.into())),
                Ok(written) => block.done += written,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(target.request_failed("writing", at, error)),
            }
            if block.done < block.asked {
                let block = *block;
                self.request(target, completed.slot, block)?;
            } else {
                target.request_done(block.started);
                free.push(completed.slot);
            }
        }
    }

    fn request(&mut self, target: &Side<'_>, slot: u32, block: Block) -> Result<()> {
        let at = block.offset + block.done as u64;
        let rest = block.asked - block.done;
        let submitted = self
            .ring
            .submit_write(slot, &target.file, at, block.done, rest, ring_flags(target));
        submitted.map_err(|error| target.failed_at("starting to write", at, error))
    }
}
