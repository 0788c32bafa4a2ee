//! `read/posix-aio`: `aio_read(3)` into one buffer while the consumer has the other.
//!
//! glibc does these requests on threads of its own, one at a time for each descriptor.

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use seekless_sys::{Aio, Support};

use super::PreparedRead;
use crate::Chunk;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Ahead, OpenFile};

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let mut slots = slots(&setup)?;
    Ok(Box::new(move |source, range, consumer| {
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut blocks = source.blocks(setup.block_bytes, range);
        let slots = InFlight(&mut slots);
        let [mut this, mut other] = slots.0.each_mut();
        let mut current = blocks.next();
        let mut began = None;
        if let Some(first) = current {
            ahead.reading_at(first.0)?;
            began = start(this, source, first)?;
        }
        while let Some(block) = current {
            finish(this, source, block)?;
            source.request_done(block.0, began);
            current = blocks.next();
            if let Some(next) = current {
                ahead.reading_at(next.0)?;
                began = start(other, source, next)?;
            }
            let (offset, length) = block;
            let chunk = Chunk::Memory(&this.buffer()[..length]);
            if consumer.data(offset, chunk).is_break() {
                return Ok(true);
            }
            std::mem::swap(&mut this, &mut other);
        }
        Ok(false)
    }))
}

/// Two requests, each with its buffer.
pub(crate) fn slots(setup: &Setup) -> Result<[Aio; 2]> {
    let slot = || match Aio::new(setup.buffer()?) {
        Support::Available(mut aio) => {
            start_thread(&mut aio).map_err(|error| setup.failed("start the C library's thread", error))?;
            Ok(aio)
        }
        Support::Unavailable(reason) => Err(setup.unavailable(reason)),
    };
    Ok([slot()?, slot()?])
}

/// Has the C library start its thread before anything is timed, by a request that does nothing. glibc keeps an idle
/// thread for a second.
fn start_thread(aio: &mut Aio) -> std::io::Result<()> {
    aio.start_read(&Arc::new(File::open("/dev/null")?), 0, 0)?;
    aio.wait().map(drop)
}

/// The requests of one operation. Dropping them, also in a panic, waits for the one in flight: nothing moves afterwards, and
/// the next file finds the buffers free.
pub(crate) struct InFlight<'a>(pub &'a mut [Aio; 2]);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        for slot in &mut *self.0 {
            // Waiting without a request in flight is refused, which is harmless.
            let _ = slot.wait();
        }
    }
}

/// Starts to read a block. Returns the time, if requests are timed.
fn start(slot: &mut Aio, source: &OpenFile<'_>, (offset, length): (u64, usize)) -> Result<Option<Instant>> {
    let asked = source.request_bytes(length);
    source.count_call();
    let began = source.request_start();
    let started = slot.start_read(&source.file, offset, asked);
    started.map_err(|error| source.failed(("start a read", offset), error))?;
    Ok(began)
}

/// Waits for a block; after a short answer, the rest is read synchronously.
fn finish(slot: &mut Aio, source: &OpenFile<'_>, (offset, length): (u64, usize)) -> Result<()> {
    source.count_call();
    let read = slot.wait();
    let read = read.map_err(|error| source.failed(("read", offset), error))?;
    source.read_rest(slot.buffer_mut(), offset, read, length)
}
