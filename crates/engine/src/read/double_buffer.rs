//! `read/double-buffer`: a second thread reads block n + 1 while the consumer has block n.
//!
//! The two buffers go round through std's bounded channels, which hand over by atomics and sleep only when there is
//! nothing to do.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::pool::pool;
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

pub(super) const PREPARE: PrepareRead = |setup| {
    let buffers = vec![setup.buffer()?, setup.buffer()?];
    Ok(Box::new(DoubleBuffer {
        setup,
        pool: pool(&setup, 1)?,
        buffers,
    }))
};

struct DoubleBuffer {
    setup: Setup,
    pool: ThreadPool,
    buffers: Vec<Buffer>,
}

impl ReadSource for DoubleBuffer {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        // A read that ended early left its buffers behind.
        while self.buffers.len() < 2 {
            self.buffers.push(self.setup.buffer()?);
        }
        let ahead = Ahead::within(source, range.clone())?;
        let (give_back, empty) = sync_channel(2);
        let (hand_over, filled) = sync_channel(2);
        let (setup, buffers) = (&self.setup, &mut self.buffers);
        self.pool.in_place_scope(move |scope| {
            let blocks = setup.blocks(range.clone());
            scope.spawn(move |_| fill(source, blocks, ahead, &empty, &hand_over));
            consume(setup, range, consumer, buffers, &filled, &give_back)
        })
    }
}

/// The reading side: fills empty buffers in order until the end, an error, or nobody listens any more.
fn fill(
    source: &Side<'_>,
    blocks: impl Iterator<Item = (u64, usize)>,
    mut ahead: Ahead<'_>,
    empty: &Receiver<Buffer>,
    hand_over: &SyncSender<Result<Buffer>>,
) {
    for (offset, length) in blocks {
        let Ok(mut buffer) = empty.recv() else { return };
        let read = ahead
            .reading_at(offset)
            .and_then(|()| source.read_block(&mut buffer, offset, length));
        let failed = read.is_err();
        if hand_over.send(read.map(|()| buffer)).is_err() || failed {
            return;
        }
    }
}

/// The consuming side: gives back each buffer while there are blocks left to fill, and keeps it afterwards.
fn consume(
    setup: &Setup,
    range: Range<u64>,
    consumer: &dyn Consumer,
    buffers: &mut Vec<Buffer>,
    filled: &Receiver<Result<Buffer>>,
    give_back: &SyncSender<Buffer>,
) -> Result<Stopped> {
    let blocks = (range.end - range.start).div_ceil(setup.block_bytes as u64);
    let mut given = blocks.min(2);
    for buffer in buffers.drain(..given as usize) {
        // The reading side ends only after its last block or an error, which is found below.
        let _ = give_back.send(buffer);
    }
    for (offset, length) in setup.blocks(range) {
        let Ok(block) = filled.recv() else { break };
        let buffer = block?;
        let flow = consumer.data(offset, Chunk::Memory(&buffer[..length]));
        if given < blocks {
            given += 1;
            let _ = give_back.send(buffer);
        } else {
            buffers.push(buffer);
        }
        if flow.is_break() {
            return Ok(true);
        }
    }
    Ok(false)
}
