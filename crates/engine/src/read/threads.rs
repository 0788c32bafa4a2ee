//! `read/threads=N`: the file is cut into N ranges, each read by a thread of its own. At random, each thread reads the next
//! block that none has taken.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use seekless_sys::{Buffer, into_unlocked, lock_mutex};

use super::{PreparedRead, has_places, place};
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Ahead, OpenFile, pieces};
use crate::{Chunk, Consumer};
use seekless_method::AccessPattern;

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let threads = setup.method.options().threads() as usize;
    let mut buffers = (0..threads).map(|_| setup.buffer()).collect::<Result<Vec<_>>>()?;
    let pool = setup.pool(threads)?;
    Ok(Box::new(move |source, range, consumer| {
        if consumer.needs_order() {
            return Err(source.unavailable("it delivers ranges out of order, but this consumer needs them in order"));
        }
        Ahead::within(source, range.clone())?;
        let is_random = setup.method.options().access() == AccessPattern::Random;
        let at_random = Mutex::new(source.blocks(setup.block_bytes, range.clone()));
        let bytes_of_each = (range.end - range.start).div_ceil(threads as u64);
        let ranges = pieces(range, bytes_of_each.next_multiple_of(setup.block_bytes as u64));
        // At random, there are as many threads, and none has a range of its own.
        let ranges = ranges.map(Some).chain(std::iter::repeat(None)).take(threads);
        // All end after an error, or if the consumer ends the read.
        let (stopped, error) = (AtomicBool::new(false), Mutex::new(None));
        pool.in_place_scope(|scope| {
            for (range, buffer) in ranges.zip(&mut buffers) {
                let (stopped, error, at_random) = (&stopped, &error, &at_random);
                let next = || lock_mutex(at_random).next();
                scope.spawn(move |_| {
                    let read = match range {
                        _ if is_random => read_blocks(source, consumer, buffer, std::iter::from_fn(next), stopped),
                        None => Ok(()),
                        Some(range) => {
                            let blocks = pieces(range, buffer.len() as u64);
                            let blocks = blocks.map(|block| (block.start, (block.end - block.start) as usize));
                            read_blocks(source, consumer, buffer, blocks, stopped)
                        }
                    };
                    if let Err(found) = read {
                        stopped.store(true, Ordering::Relaxed);
                        *lock_mutex(error) = Some(found);
                    }
                });
            }
        });
        let error = into_unlocked(error);
        error.map_or_else(|| Ok(stopped.into_inner()), Err)
    }))
}

fn read_blocks(
    source: &OpenFile<'_>,
    consumer: &dyn Consumer,
    buffer: &mut Buffer,
    blocks: impl Iterator<Item = (u64, usize)>,
    stopped: &AtomicBool,
) -> Result<()> {
    let has_places = has_places(source, consumer);
    for (offset, length) in blocks {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if has_places && place(source, consumer, offset, length)? {
            continue;
        }
        let started = source.request_start();
        source.read_block(buffer, offset, length)?;
        source.request_done(offset, started);
        if consumer.data(offset, Chunk::Memory(&buffer[..length])).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}
