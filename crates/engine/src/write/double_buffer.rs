//! `write/double-buffer`: a second thread writes block n while the producer makes block n + 1.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::pool::pool;
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareWrite = |setup| {
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

impl WriteTarget for DoubleBuffer {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        // A write that failed left its buffers behind.
        while self.buffers.len() < 2 {
            self.buffers.push(self.setup.buffer()?);
        }
        let (give_back, empty) = sync_channel(2);
        let (hand_over, filled) = sync_channel(2);
        for buffer in self.buffers.drain(..) {
            // The other end is in this function.
            let _ = give_back.send(buffer);
        }
        let block_bytes = self.setup.block_bytes;
        let mut written = Ok(());
        let filled_all = self.pool.in_place_scope(|scope| {
            let written = &mut written;
            scope.spawn(move |_| *written = write_filled(target, block_bytes, &filled, &give_back));
            produce(target, block_bytes, producer, &empty, hand_over)
        });
        self.buffers.extend(empty.try_iter());
        filled_all.and(written)
    }
}

/// The producing side: fills empty buffers in order until the end, or until the writing side has failed.
fn produce(
    target: &Side<'_>,
    block_bytes: usize,
    producer: &dyn Producer,
    empty: &Receiver<Buffer>,
    hand_over: SyncSender<Buffer>,
) -> Result<()> {
    for offset in (0..target.bytes).step_by(block_bytes) {
        let Ok(mut buffer) = empty.recv() else { break };
        target.produce(producer, offset, &mut buffer[..target.length_at(offset, block_bytes)])?;
        if hand_over.send(buffer).is_err() {
            break;
        }
    }
    // The writing side ends when nothing can come any more.
    drop(hand_over);
    Ok(())
}

/// The writing side.
fn write_filled(
    target: &Side<'_>,
    block_bytes: usize,
    filled: &Receiver<Buffer>,
    give_back: &SyncSender<Buffer>,
) -> Result<()> {
    for (offset, buffer) in (0..target.bytes).step_by(block_bytes).zip(filled) {
        target.write_block(&buffer, offset, target.length_at(offset, block_bytes))?;
        // Never full: there are two places for two buffers.
        let _ = give_back.send(buffer);
    }
    Ok(())
}
