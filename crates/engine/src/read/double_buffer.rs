//! `read/double-buffer`: a second thread reads block n + 1 while the consumer has block n.
//!
//! The two buffers go round through std's bounded channels, which hand over by atomics and sleep only when there is
//! nothing to do.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::method::{Mechanism, Operation, Platform, Prepare};
use crate::pool::pool;
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

const PREPARE: PrepareRead = |setup| {
    let buffers = vec![setup.buffer()?, setup.buffer()?];
    Ok(Box::new(DoubleBuffer {
        setup,
        pool: pool(&setup, 1)?,
        buffers,
    }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Read,
    name: "double-buffer",
    about: "a second thread reads the next block while this one is consumed",
    accepts: super::sync::ACCEPTS,
    overlapping: true,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 4,
    prepare: Prepare::Read(PREPARE),
};

struct DoubleBuffer {
    setup: Setup,
    pool: ThreadPool,
    buffers: Vec<Buffer>,
}

impl ReadSource for DoubleBuffer {
    fn read(&mut self, source: &Side<'_>, consumer: &dyn Consumer) -> Result<Stopped> {
        // A read that ended early left its buffers behind.
        while self.buffers.len() < 2 {
            self.buffers.push(self.setup.buffer()?);
        }
        let ahead = Ahead::new(source)?;
        let (give_back, empty) = sync_channel(2);
        let (hand_over, filled) = sync_channel(2);
        let (setup, buffers) = (&self.setup, &mut self.buffers);
        self.pool.in_place_scope(move |scope| {
            scope.spawn(move |_| fill(setup, source, ahead, &empty, &hand_over));
            consume(setup, source, consumer, buffers, &filled, &give_back)
        })
    }
}

/// The reading side: fills empty buffers in order until the end, an error, or nobody listens any more.
fn fill(
    setup: &Setup,
    source: &Side<'_>,
    mut ahead: Ahead<'_>,
    empty: &Receiver<Buffer>,
    hand_over: &SyncSender<Result<Buffer>>,
) {
    for offset in (0..source.bytes).step_by(setup.block_bytes) {
        let Ok(mut buffer) = empty.recv() else { return };
        let length = source.length_at(offset, setup.block_bytes);
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
    source: &Side<'_>,
    consumer: &dyn Consumer,
    buffers: &mut Vec<Buffer>,
    filled: &Receiver<Result<Buffer>>,
    give_back: &SyncSender<Buffer>,
) -> Result<Stopped> {
    let blocks = source.bytes.div_ceil(setup.block_bytes as u64);
    let mut given = blocks.min(2);
    for buffer in buffers.drain(..given as usize) {
        // The reading side ends only after its last block or an error, which is found below.
        let _ = give_back.send(buffer);
    }
    for offset in (0..source.bytes).step_by(setup.block_bytes) {
        let Ok(block) = filled.recv() else { break };
        let buffer = block?;
        let length = source.length_at(offset, setup.block_bytes);
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
