//! `read/posix-aio`: `aio_read(3)` into one buffer while the consumer has the other.
//!
//! glibc does these requests on threads of its own, one at a time for each descriptor.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use seekless_sys::{Aio, Support};

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_slots};
use crate::setup::Setup;
use crate::transfer::Side;
use crate::{Chunk, Consumer};

pub(super) const PREPARE: PrepareRead = |setup| {
    Ok(Box::new(PosixAio {
        slots: [slot(&setup)?, slot(&setup)?],
        started: None,
        setup,
    }))
};

/// A request with its buffer.
pub(crate) fn slot(setup: &Setup) -> Result<Aio> {
    match Aio::new(setup.buffer()?) {
        Support::Available(mut aio) => {
            start_thread(&mut aio).map_err(|error| setup.failed("starting the C library's thread", error))?;
            Ok(aio)
        }
        Support::Unavailable(reason) => Err(setup.unavailable(reason)),
    }
}

/// Has the C library make the thread that serves requests, by one that does nothing: it belongs before any clock. glibc
/// keeps an idle one for a second.
fn start_thread(aio: &mut Aio) -> std::io::Result<()> {
    aio.start_read(&Arc::new(File::open("/dev/null")?), 0, 0)?;
    aio.wait().map(drop)
}

struct PosixAio {
    setup: Setup,
    slots: [Aio; 2],
    /// When the request that is on its way began, where requests are timed.
    started: Option<Instant>,
}

impl PosixAio {
    fn start(&mut self, slot: usize, source: &Side<'_>, (offset, length): (u64, usize)) -> Result<()> {
        let asked = source.request_bytes(length);
        source.count_call();
        self.started = source.request_start();
        let started = self.slots[slot].start_read(&source.file, offset, asked);
        started.map_err(|error| source.failed_at("starting to read", offset, error))
    }

    /// Waits for a block; what a short answer left out is read at once.
    fn finish(&mut self, slot: usize, source: &Side<'_>, offset: u64, length: usize) -> Result<()> {
        source.count_call();
        let read = self.slots[slot]
            .wait()
            .map_err(|error| source.failed_at("reading", offset, error))?;
        source.read_rest(self.slots[slot].buffer_mut(), offset, read, length)?;
        source.request_done(self.started);
        Ok(())
    }
}

impl InFlight for PosixAio {
    fn drain(&mut self) {
        drain_slots(&mut self.slots);
    }
}

impl ReadSource for PosixAio {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        let mut this = Draining(self);
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut blocks = source.blocks(this.setup.block_bytes, range);
        let mut slot = 0;
        let mut current = blocks.next();
        if let Some(first) = current {
            ahead.reading_at(first.0)?;
            this.start(slot, source, first)?;
        }
        while let Some((offset, length)) = current {
            let finished = this.finish(slot, source, offset, length);
            let next = blocks.next();
            if let Some(next) = next.filter(|_| finished.is_ok()) {
                ahead.reading_at(next.0)?;
                this.start(1 - slot, source, next)?;
            }
            finished?;
            if consumer
                .data(offset, Chunk::Memory(&this.slots[slot].buffer()[..length]))
                .is_break()
            {
                return Ok(true);
            }
            (current, slot) = (next, 1 - slot);
        }
        Ok(false)
    }
}
