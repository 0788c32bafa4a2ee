//! Requests in flight on a ring: how blocks are requested, and what the answers mean.
//!
//! Each operation decides which block is next, and what is done with a whole one.

use std::io::{self, ErrorKind};
use std::time::Instant;

use seekless_sys::{self as sys, Buffer, Completed, Ring};

use super::OpenFile;
use crate::error::Result;
use seekless_method::{CachePolicy, Durability};

/// The blocks in flight on a ring, each in a slot with a buffer of its own.
///
/// Dropping it, also in a panic, waits for all requests: nothing moves afterwards, and the next file finds the buffers free.
/// Then it counts the calls.
pub(crate) struct Flight<'a> {
    ring: &'a mut Ring,
    /// The side that counts the calls and is named in errors of the ring itself.
    side: &'a OpenFile<'a>,
    /// The same for all requests: both files of an operation have its method.
    dontcache: bool,
    /// Whether each write ends with an fdatasync.
    syncs_writes: bool,
    calls_before: u64,
    requests: Vec<FlightRequest<'a>>,
    free: Vec<u32>,
    /// What a failed read is called in its error.
    pub reading: &'static str,
}

/// A block that is read into the buffer of its slot, or written from it.
#[derive(Clone, Copy)]
pub(crate) struct FlightRequest<'a> {
    side: &'a OpenFile<'a>,
    pub is_read: bool,
    pub offset: u64,
    /// Bytes that make the block whole; the padding of direct I/O is among those of a write.
    pub length: usize,
    /// Bytes that are requested: the padding of a read too.
    asked: usize,
    pub done: usize,
    /// Whether an answer was empty.
    was_empty: bool,
    started: Option<Instant>,
}

impl FlightRequest<'_> {
    pub fn is_whole(&self) -> bool {
        self.done >= self.length
    }

    /// Whether a read has reached the file's end: its answer was empty, or unaligned, as direct I/O answers only there.
    pub fn is_at_end(&self) -> bool {
        self.was_empty || !self.at().is_multiple_of(self.side.alignment)
    }

    /// Where the missing rest begins.
    fn at(&self) -> u64 {
        self.offset + self.done as u64
    }
}

impl<'a> Flight<'a> {
    pub fn new(ring: &'a mut Ring, side: &'a OpenFile<'a>) -> Self {
        let idle = FlightRequest {
            side,
            is_read: true,
            offset: 0,
            length: 0,
            asked: 0,
            done: 0,
            was_empty: false,
            started: None,
        };
        Self {
            side,
            dontcache: side.method.options().cache() == CachePolicy::DontCache,
            syncs_writes: side.method.options().durability() == Durability::FdatasyncEach,
            calls_before: ring.calls(),
            requests: vec![idle; ring.depth() as usize],
            free: (0..ring.depth()).rev().collect(),
            reading: "read",
            ring,
        }
    }

    /// A free slot. [`Flight::read`] or [`Flight::write`] takes it.
    pub fn free_slot(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Frees a slot whose bytes are no longer needed. A whole write frees its slot itself.
    pub fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The last block of a slot.
    pub fn request(&self, slot: u32) -> &FlightRequest<'a> {
        &self.requests[slot as usize]
    }

    /// The bytes of a slot's block.
    pub fn bytes(&self, slot: u32) -> &[u8] {
        &self.ring.buffer(slot)[..self.request(slot).length]
    }

    /// The buffer of a slot, to be filled.
    pub fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.ring.buffer_mut(slot)
    }

    /// Gives a slot another buffer, and returns the one that has its block.
    pub fn exchange(&mut self, slot: u32, buffer: Buffer) -> Buffer {
        self.ring.exchange(slot, buffer)
    }

    /// Queues reading a block into a slot's buffer.
    pub fn read(&mut self, slot: u32, side: &'a OpenFile<'a>, offset: u64, length: usize) -> Result<()> {
        self.start(slot, side, true, offset, length)
    }

    /// Queues writing a block from a slot's buffer; direct I/O writes the padding as well, as [`OpenFile::write_block`] does.
    pub fn write(&mut self, slot: u32, side: &'a OpenFile<'a>, offset: u64, length: usize) -> Result<()> {
        self.start(slot, side, false, offset, length)
    }

    fn start(&mut self, slot: u32, side: &'a OpenFile<'a>, is_read: bool, offset: u64, length: usize) -> Result<()> {
        if self.free_slot() == Some(slot) {
            self.free.pop();
        }
        let asked = side.request_bytes(length);
        self.requests[slot as usize] = FlightRequest {
            side,
            is_read,
            offset,
            length: if is_read { length } else { asked },
            asked,
            done: 0,
            was_empty: false,
            started: side.request_start(),
        };
        self.request_rest(slot)
    }

    /// Queues the missing rest of a block. Fails if a read has reached the file's end.
    pub fn request_rest(&mut self, slot: u32) -> Result<()> {
        let request = &self.requests[slot as usize];
        let (side, at) = (request.side, request.at());
        if request.is_read && request.is_at_end() {
            return Err(side.resized(at));
        }
        let rest = sys::RingRequest {
            is_read: request.is_read,
            offset: at,
            range: request.done..request.asked,
            dontcache: self.dontcache,
            is_synced: self.syncs_writes && !request.is_read,
        };
        self.ring.queue(slot, &side.file, &rest).map_err(|error| {
            let action = if rest.is_read { "start a read" } else { "start a write" };
            side.failed((action, at), error)
        })
    }

    /// Submits what is queued. Without it, nothing is in flight before the next wait.
    pub fn submit(&mut self) -> Result<()> {
        let submitted = self.ring.submit();
        submitted.map_err(|error| self.side.failed("submit to the ring", error))
    }

    /// Submits what is queued, and waits until a block is whole, requesting the rest after short answers. Returns its slot,
    /// or none if nothing is in flight.
    pub fn wait_whole(&mut self) -> Result<Option<u32>> {
        while self.ring.in_flight() > 0 {
            let slot = self.wait()?;
            if self.request(slot).is_whole() {
                return Ok(Some(slot));
            }
            self.request_rest(slot)?;
        }
        Ok(None)
    }

    /// Submits what is queued, and waits for an answer, which may be short. Returns its slot.
    pub fn wait(&mut self) -> Result<u32> {
        let completed = self.ring.wait();
        let Completed { slot, result } = completed.map_err(|error| self.side.failed("wait for the ring", error))?;
        let request = &mut self.requests[slot as usize];
        match result {
            Ok(moved) if moved > 0 => request.done += moved,
            _ => return self.moved_nothing(slot, result).map(|()| slot),
        }
        if request.is_whole() {
            request.side.request_done(request.offset, request.started);
            if !request.is_read {
                self.free.push(slot);
            }
        }
        Ok(slot)
    }

    /// An answer of no bytes: the file's end, an interrupted request, or an error.
    #[cold]
    fn moved_nothing(&mut self, slot: u32, result: io::Result<usize>) -> Result<()> {
        let request = &mut self.requests[slot as usize];
        let (side, at) = (request.side, request.at());
        let action = if request.is_read { self.reading } else { "write" };
        match result {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(side.request_failed(action, at, error)),
            Ok(_) if request.is_read => {
                request.was_empty = true;
                Ok(())
            }
            Ok(_) => Err(side.failed((action, at), ErrorKind::WriteZero.into())),
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        while self.ring.in_flight() > 0 {
            // A ring that cannot be waited for is not used again: its next call fails too.
            if self.ring.wait().is_err() {
                break;
            }
        }
        self.side.count_calls(self.ring.calls() - self.calls_before);
    }
}

#[cfg(test)]
mod tests;
