//! `update/io_uring,depth=N`: N writes in flight through one ring; the bytes between the updates of a write are read
//! first.

use std::collections::BTreeMap;

use super::PreparedUpdate;
use super::target::Target;
use super::writes::Write;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::Flight;

pub(super) fn prepare(setup: Setup) -> PreparedUpdate {
    let mut ring = setup.ring()?;
    // For writes that are split because other processes wait for the file.
    let mut buffer = setup.buffer()?;
    Ok(Box::new(move |target| {
        let mut flight = Flight::new(&mut ring, target.side);
        flight.reading = "read the gap";
        let mut updating = Updating {
            target,
            flight,
            buffer: &mut buffer,
            in_flight: BTreeMap::new(),
        };
        let result = updating.run(setup.block_bytes);
        let in_flight = &updating.in_flight;
        if let Some(first) = in_flight.values().map(|write| write.offset).min() {
            target.note_cut_off(in_flight.len() as u64, first);
        }
        result
    }))
}

/// One update through the ring. A write with gaps is first read, and then written from the same slot.
struct Updating<'a> {
    target: &'a Target<'a>,
    flight: Flight<'a>,
    buffer: &'a mut [u8],
    /// The writes that have begun and are not done, by slot.
    in_flight: BTreeMap<u32, Write>,
}

impl Updating<'_> {
    fn run(&mut self, block_bytes: usize) -> Result<()> {
        let target = self.target;
        let mut writes = target.writes(block_bytes).peekable();
        while writes.peek().is_some() || !self.in_flight.is_empty() {
            let free = self.flight.free_slot();
            let has_gaps = free.is_some() && writes.peek().is_some_and(Write::has_gaps);
            let is_exact = has_gaps && !target.may_fill_gaps();
            // Writing back old bytes between updates would undo writes of other processes.
            let others_must_wait = is_exact && self.in_flight.values().any(Write::has_gaps);
            if !others_must_wait
                && let Some(slot) = free
                && let Some(write) = writes.next()
            {
                self.in_flight.insert(slot, write.clone());
                if is_exact {
                    target.let_others_in();
                    self.write_parts(slot, &write)?;
                } else if has_gaps {
                    self.flight
                        .read(slot, target.side, write.offset, write.length as usize)?;
                } else {
                    self.start_writing(slot, &write)?;
                }
                continue;
            }
            let slot = self.flight.wait()?;
            if let Some(write) = self.in_flight.get(&slot).cloned() {
                self.take_answer(slot, &write)?;
            }
        }
        Ok(())
    }

    fn take_answer(&mut self, slot: u32, write: &Write) -> Result<()> {
        let request = *self.flight.request(slot);
        if request.is_read && (request.is_whole() || request.is_at_end()) {
            self.flight.buffer_mut(slot)[request.done..request.length].fill(0);
            self.start_writing(slot, write)
        } else if request.is_whole() {
            self.target.finish(write);
            self.in_flight.remove(&slot);
            Ok(())
        } else if request.is_read || !write.has_gaps() {
            self.flight.request_rest(slot)
        } else if self.target.may_fill_gaps() {
            self.flight.request_rest(slot)?;
            self.flight.submit()
        } else {
            self.flight.free(slot);
            self.write_parts(slot, write)
        }
    }

    /// Starts a write. If others wait for the file or may have written to it, writes only the updates instead. A process
    /// that opens the file waits for at most /proc/sys/fs/lease-break-time.
    fn start_writing(&mut self, slot: u32, write: &Write) -> Result<()> {
        let target = self.target;
        target.announce(write.offset, write.length)?;
        if write.has_gaps() && !target.may_fill_gaps() {
            self.flight.free(slot);
            return self.write_parts(slot, write);
        }
        write.overlay(target.updates, self.flight.buffer_mut(slot));
        self.flight
            .write(slot, target.side, write.offset, write.length as usize)?;
        if write.has_gaps() {
            // Bytes between updates are written back at once, as the lease may end at any time.
            self.flight.submit()?;
        }
        Ok(())
    }

    fn write_parts(&mut self, slot: u32, write: &Write) -> Result<()> {
        self.target.require_exact(write)?;
        self.target.write_parts(write, self.buffer)?;
        self.in_flight.remove(&slot);
        Ok(())
    }
}
