//! `compare/double-buffer`: other threads read the next block of each while this one compares; one thread for both files
//! in turn, or one for each.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::pair::Pair;
use super::sync::preload_blocks;
use super::{CompareBytes, PrepareCompare};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::pool::pool;
use crate::setup::Setup;
use seekless_method::Order;

/// Buffers of each file: one is filled while one is compared.
const BUFFERS: usize = 2;

pub(super) const PREPARE: PrepareCompare = |setup| {
    let is_parallel = setup.method.options().order() == Order::Parallel;
    let mut prepared = DoubleBuffer {
        setup,
        pool: pool(&setup, if is_parallel { 2 } else { 1 })?,
        buffers: [Vec::new(), Vec::new()],
    };
    prepared.fill_up()?;
    Ok(Box::new(prepared))
};

struct DoubleBuffer {
    setup: Setup,
    pool: ThreadPool,
    buffers: [Vec<Buffer>; 2],
}

/// The reading side of one file: empty buffers come in, full ones or an error go out.
struct Reading<'a> {
    file: usize,
    ahead: Ahead<'a>,
    empty: Receiver<Buffer>,
    full: SyncSender<Result<Buffer>>,
}

/// The comparing side of one file: the other ends of the same.
struct Comparing {
    empty: SyncSender<Buffer>,
    full: Receiver<Result<Buffer>>,
    /// Buffers that are wanted no more.
    left: Vec<Buffer>,
}

impl DoubleBuffer {
    /// Makes the buffers that are missing: a comparison that ended early left some behind.
    fn fill_up(&mut self) -> Result<()> {
        for buffers in &mut self.buffers {
            while buffers.len() < BUFFERS {
                buffers.push(self.setup.buffer()?);
            }
        }
        Ok(())
    }

    /// The two sides of one file, with as many empty buffers on their way as there are blocks for.
    fn sides<'a>(&mut self, pair: &'a Pair<'a>, file: usize, range: &Range<u64>) -> Result<(Reading<'a>, Comparing)> {
        let ahead = Ahead::within(&pair.sides[file], pair.place(file, range))?;
        let (give_back, empty) = sync_channel(BUFFERS);
        let (hand_over, full) = sync_channel(BUFFERS);
        let mut left = std::mem::take(&mut self.buffers[file]);
        let blocks = (range.end - range.start).div_ceil(self.setup.block_bytes as u64);
        for buffer in left.drain(..(blocks as usize).min(BUFFERS)) {
            // The channel has room for all, and its other end is here.
            let _ = give_back.send(buffer);
        }
        let reading = Reading {
            file,
            ahead,
            empty,
            full: hand_over,
        };
        let comparing = Comparing {
            empty: give_back,
            full,
            left,
        };
        Ok((reading, comparing))
    }
}

impl CompareBytes for DoubleBuffer {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        self.fill_up()?;
        preload_blocks(pair, file, range, &mut self.buffers[0][0])
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        self.fill_up()?;
        let block_bytes = self.setup.block_bytes;
        let (first, one) = self.sides(pair, 0, &range)?;
        let (second, other) = self.sides(pair, 1, &range)?;
        let mut comparing = [one, other];
        let is_parallel = self.setup.method.options().order() == Order::Parallel;
        let blocks = &Blocks { range, block_bytes };
        self.pool.in_place_scope(|scope| {
            if is_parallel {
                scope.spawn(move |_| fill(pair, blocks, &mut [first]));
                scope.spawn(move |_| fill(pair, blocks, &mut [second]));
            } else {
                scope.spawn(move |_| fill(pair, blocks, &mut [first, second]));
            }
            let found = consume(pair, blocks, &mut comparing, newlines);
            // A reading side that is still at work finds nobody listening, and ends.
            self.buffers = comparing.map(|side| side.left);
            found
        })
    }
}

/// A stretch cut into blocks.
struct Blocks {
    range: Range<u64>,
    block_bytes: usize,
}

impl Blocks {
    /// Where each block begins, and its length.
    fn each(&self) -> impl Iterator<Item = (u64, usize)> {
        let Range { start, end } = self.range;
        let starts = (start..end).step_by(self.block_bytes);
        starts.map(move |at| (at, (self.block_bytes as u64).min(end - at) as usize))
    }
}

/// Fills empty buffers of the files in turn until the end, an error, or nobody listens any more.
fn fill(pair: &Pair<'_>, blocks: &Blocks, files: &mut [Reading<'_>]) {
    for (at, length) in blocks.each() {
        for reading in &mut *files {
            let Ok(mut buffer) = reading.empty.recv() else { return };
            let hinted = reading.ahead.reading_at(pair.starts[reading.file] + at);
            let read = hinted.and_then(|()| pair.read(reading.file, &mut buffer, at, length));
            let failed = read.is_err();
            if reading.full.send(read.map(|()| buffer)).is_err() || failed {
                return;
            }
        }
    }
}

/// Compares full buffers and gives them back while there are blocks left to fill.
fn consume(pair: &Pair<'_>, blocks: &Blocks, files: &mut [Comparing; 2], newlines: &mut u64) -> Result<Option<u64>> {
    let mut to_fill = blocks.each().skip(BUFFERS);
    for (at, length) in blocks.each() {
        // The reading side goes away before the end only after an error, which comes first.
        let next = |file: usize| {
            files[file]
                .full
                .recv()
                .unwrap_or_else(|_| Err(pair.sides[file].resized(at)))
        };
        let (one, other) = (next(0)?, next(1)?);
        let found = pair.difference(&one[..length], &other[..length], newlines);
        let is_wanted = to_fill.next().is_some();
        for (side, buffer) in files.iter_mut().zip([one, other]) {
            if is_wanted {
                let _ = side.empty.send(buffer);
            } else {
                side.left.push(buffer);
            }
        }
        if let Some(found) = found {
            return Ok(Some(at + found));
        }
    }
    Ok(None)
}
