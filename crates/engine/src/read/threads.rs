//! `read/threads=N`: the file is cut into N ranges, each read by a thread of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use seekless_sys::Buffer;

use super::PreparedRead;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Ahead, Side, pieces};
use crate::{Chunk, Consumer};

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let threads = setup.method.options().threads() as usize;
    let mut buffers = (0..threads).map(|_| setup.buffer()).collect::<Result<Vec<_>>>()?;
    let pool = setup.pool(threads)?;
    Ok(Box::new(move |source, range, consumer| {
        if consumer.needs_order() {
            return Err(source.unavailable("it delivers ranges out of order, but this consumer needs them in order"));
        }
        Ahead::within(source, range.clone())?;
        let bytes_of_each = (range.end - range.start).div_ceil(threads as u64);
        let ranges = pieces(range, bytes_of_each.next_multiple_of(setup.block_bytes as u64));
        // All end after an error, or if the consumer ends the read.
        let (stopped, error) = (AtomicBool::new(false), Mutex::new(None));
        pool.in_place_scope(|scope| {
            for (range, buffer) in ranges.zip(&mut buffers) {
                let (stopped, error) = (&stopped, &error);
                scope.spawn(move |_| {
                    if let Err(found) = read_range(source, consumer, buffer, range, stopped) {
                        stopped.store(true, Ordering::Relaxed);
                        *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    }
                });
            }
        });
        let error = error.into_inner().unwrap_or_else(PoisonError::into_inner);
        error.map_or_else(|| Ok(stopped.into_inner()), Err)
    }))
}

fn read_range(
    source: &Side<'_>,
    consumer: &dyn Consumer,
    buffer: &mut Buffer,
    range: Range<u64>,
    stopped: &AtomicBool,
) -> Result<()> {
    for block in pieces(range, buffer.len() as u64) {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        let length = (block.end - block.start) as usize;
        source.read_block(buffer, block.start, length)?;
        if consumer.data(block.start, Chunk::Memory(&buffer[..length])).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}
