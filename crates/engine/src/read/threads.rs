//! `read/threads=N`: the file is cut into N ranges, each read by a thread of its own.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::ThreadPool;
use seekless_sys::Buffer;

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::{Error, Result};
use crate::pool::pool;
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

pub(super) const PREPARE: PrepareRead = |setup| {
    let threads = setup.method.options().threads() as usize;
    let buffers = (0..threads).map(|_| setup.buffer()).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(Threads {
        setup,
        pool: pool(&setup, threads)?,
        buffers,
    }))
};

struct Threads {
    setup: Setup,
    pool: ThreadPool,
    buffers: Vec<Buffer>,
}

/// How the ranges end together: the first error, or a consumer that has had enough.
#[derive(Default)]
struct Ending {
    stopped: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl ReadSource for Threads {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        if consumer.needs_order() {
            return Err(source.unavailable("it hands over ranges out of order, and this consumer needs them in order"));
        }
        Ahead::within(source, range.clone())?;
        let block_bytes = self.setup.block_bytes as u64;
        let ranges = self.buffers.len() as u64;
        let range_bytes = (range.end - range.start).div_ceil(ranges).next_multiple_of(block_bytes);
        let ending = Ending::default();
        self.pool.in_place_scope(|scope| {
            let starts = range.clone().step_by(range_bytes as usize);
            for (start, buffer) in starts.zip(&mut self.buffers) {
                let (end, ending) = ((start + range_bytes).min(range.end), &ending);
                scope.spawn(move |_| {
                    if let Err(error) = read_range(source, consumer, buffer, start..end, &ending.stopped) {
                        ending.stopped.store(true, Ordering::Relaxed);
                        *ending.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                    }
                });
            }
        });
        match ending
            .error
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            Some(error) => Err(error),
            None => Ok(ending.stopped.into_inner()),
        }
    }
}

fn read_range(
    source: &Side<'_>,
    consumer: &dyn Consumer,
    buffer: &mut Buffer,
    range: Range<u64>,
    stopped: &AtomicBool,
) -> Result<()> {
    let mut offset = range.start;
    while offset < range.end && !stopped.load(Ordering::Relaxed) {
        let length = (buffer.len() as u64).min(range.end - offset) as usize;
        source.read_block(buffer, offset, length)?;
        if consumer.data(offset, Chunk::Memory(&buffer[..length])).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
        offset += length as u64;
    }
    Ok(())
}
