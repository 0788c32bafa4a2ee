//! `copy/double-buffer`: a second thread reads block n + 1 while this one writes block n.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::pool::pool;
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |setup| {
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

impl CopyBytes for DoubleBuffer {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        // A copy that failed left its buffers behind.
        while self.buffers.len() < 2 {
            self.buffers.push(self.setup.buffer()?);
        }
        let ahead = Ahead::within(source, range.clone())?;
        let (to_read, to_write) = (self.setup.blocks(range.clone()), self.setup.blocks(range));
        let (give_back, empty) = sync_channel(2);
        let (hand_over, filled) = sync_channel(2);
        for buffer in self.buffers.drain(..) {
            // The other end is in this function.
            let _ = give_back.send(buffer);
        }
        let mut kept = Vec::new();
        let result = self.pool.in_place_scope(|scope| {
            let kept = &mut kept;
            scope.spawn(move |_| {
                fill(source, to_read, ahead, &empty, &hand_over);
                drop(hand_over);
                // What comes back afterwards is for the next file.
                kept.extend(empty);
            });
            write_filled(target, to_write, filled, give_back)
        });
        self.buffers = kept;
        result
    }
}

/// The reading side: fills empty buffers in order until the end, an error, or nobody writes any more.
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

/// The writing side. It owns its ends, so that whichever side fails, the other one ends too.
fn write_filled(
    target: &Side<'_>,
    blocks: impl Iterator<Item = (u64, usize)>,
    filled: Receiver<Result<Buffer>>,
    give_back: SyncSender<Buffer>,
) -> Result<()> {
    for ((offset, length), block) in blocks.zip(filled) {
        let buffer = block?;
        target.write_block(&buffer, offset, length)?;
        // Never full: there are two places for two buffers.
        let _ = give_back.send(buffer);
    }
    drop(give_back);
    Ok(())
}
