//! `compare/sync`: pread(2) of a block of each, and memcmp(3); in one thread, or in several that take blocks in turn.

use std::ops::Range;

use seekless_sys::Buffer;

use super::pair::Pair;
use super::windows::first_difference;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::setup::Setup;
use crate::threads::ThreadPool;
use crate::transfer::{Ahead, pieces};
use seekless_method::Order;

pub(super) const PREPARE: PrepareCompare = |setup| {
    let options = setup.method.options();
    let threads = options.threads() as usize;
    let helpers = match options.order() {
        Order::Parallel => Some(1),
        _ if threads > 1 => Some(threads),
        _ => None,
    };
    let buffers = || Ok([setup.buffer()?, setup.buffer()?]);
    Ok(Box::new(Sync {
        setup,
        pool: helpers.map(|threads| setup.pool(threads)).transpose()?,
        buffers: (0..threads).map(|_| buffers()).collect::<Result<_>>()?,
    }))
};

struct Sync {
    setup: Setup,
    /// Present if there is more than one thread, or a helper reads the second file while the first is read.
    pool: Option<ThreadPool>,
    /// A block of each file, for each thread.
    buffers: Vec<[Buffer; 2]>,
}

impl CompareBytes for Sync {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        preload_blocks(pair, file, range, &mut self.buffers[0][0])
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        let step = self.setup.block_bytes as u64;
        match &self.pool {
            // For a single block, one thread suffices.
            Some(pool) if self.buffers.len() > 1 && range.end - range.start > step => {
                for file in 0..2 {
                    Ahead::within(&pair.sides[file], pair.place(file, &range))?;
                }
                first_difference(pool, range, step, &mut self.buffers, |buffers, block| {
                    let length = (block.end - block.start) as usize;
                    let [one, other] = buffers;
                    pair.read(0, one, block.start, length)?;
                    pair.read(1, other, block.start, length)?;
                    let found = pair.difference(&one[..length], &other[..length], &mut 0);
                    Ok(found.map(|at| block.start + at))
                })
            }
            pool => {
                let helper = pool.as_ref().filter(|_| self.buffers.len() == 1);
                one_thread(pair, range, &mut self.buffers[0], helper, newlines)
            }
        }
    }
}

/// Reads a block of each, one after the other, or with a helper both at once.
fn one_thread(
    pair: &Pair<'_>,
    range: Range<u64>,
    [one, other]: &mut [Buffer; 2],
    helper: Option<&ThreadPool>,
    newlines: &mut u64,
) -> Result<Option<u64>> {
    let ahead = |file: usize| Ahead::within(&pair.sides[file], pair.place(file, &range));
    let mut aheads = [ahead(0)?, ahead(1)?];
    for block in pieces(range, one.len() as u64) {
        let (at, length) = (block.start, (block.end - block.start) as usize);
        for (ahead, start) in aheads.iter_mut().zip(pair.starts) {
            ahead.reading_at(start + at)?;
        }
        match helper {
            None => {
                pair.read(0, one, at, length)?;
                pair.read(1, other, at, length)?;
            }
            Some(helper) => {
                let mut second = Ok(());
                let first = helper.in_place_scope(|scope| {
                    scope.spawn(|_| second = pair.read(1, other, at, length));
                    pair.read(0, one, at, length)
                });
                first.and(second)?;
            }
        }
        if let Some(found) = pair.difference(&one[..length], &other[..length], newlines) {
            return Ok(Some(at + found));
        }
    }
    Ok(None)
}

/// Reads a range of one file block by block, only to load it into the page cache.
pub(super) fn preload_blocks(pair: &Pair<'_>, file: usize, range: Range<u64>, buffer: &mut Buffer) -> Result<()> {
    let mut ahead = Ahead::within(&pair.sides[file], pair.place(file, &range))?;
    for block in pieces(range, buffer.len() as u64) {
        ahead.reading_at(pair.starts[file] + block.start)?;
        pair.read(file, buffer, block.start, (block.end - block.start) as usize)?;
    }
    Ok(())
}
