//! `update/io_uring,depth=N`: N writes in flight through one ring, each with what lies between its updates read first.

use std::collections::BTreeMap;

use seekless_sys::Ring;

use super::target::Target;
use super::writes::Write;
use super::{PrepareUpdate, UpdateTarget};
use crate::error::Result;
use crate::in_flight::{Draining, InFlight, drain_ring};
use crate::read::{ring, ring_flags};
use crate::setup::Setup;

pub(super) const PREPARE: PrepareUpdate = |setup| {
    Ok(Box::new(IoUring {
        ring: ring(&setup)?,
        buffer: setup.buffer()?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
    /// For what is written in parts because others wait for the file.
    buffer: seekless_sys::Buffer,
}

impl InFlight for IoUring {
    fn drain(&mut self) {
        drain_ring(&mut self.ring);
    }
}

impl UpdateTarget for IoUring {
    fn update(&mut self, target: &Target<'_>) -> Result<()> {
        let calls = self.ring.calls();
        let result = Draining(self).update_all(target);
        target.side.count_calls(self.ring.calls() - calls);
        result
    }
}

/// A write on its way: what is done of its reading, and then of its writing.
struct Going {
    write: Write,
    is_reading: bool,
    done: usize,
}

impl IoUring {
    fn update_all(&mut self, target: &Target<'_>) -> Result<()> {
        let mut going: BTreeMap<u32, Going> = BTreeMap::new();
        let result = self.go_on(target, &mut going);
        if let Some(first) = going.values().map(|one| one.write.offset).min() {
            target.note_cut_off(going.len() as u64, first);
        }
        result
    }

    fn go_on(&mut self, target: &Target<'_>, going: &mut BTreeMap<u32, Going>) -> Result<()> {
        let mut free: Vec<u32> = (0..self.ring.depth()).rev().collect();
        let mut writes = target.writes(self.setup.block_bytes).peekable();
        while writes.peek().is_some() || !going.is_empty() {
            let has_gaps = !free.is_empty() && writes.peek().is_some_and(Write::has_gaps);
            let is_exact = has_gaps && !target.may_fill_gaps();
            // What was read between updates and is not yet written back would undo what others write.
            let others_must_wait = is_exact && going.values().any(|one| one.write.has_gaps());
            if !others_must_wait
                && let Some(&slot) = free.last()
                && let Some(write) = writes.next()
            {
                let one = going.entry(slot).or_insert(Going {
                    is_reading: write.has_gaps(),
                    write,
                    done: 0,
                });
                if is_exact {
                    target.let_others_in();
                    self.write_parts(target, &one.write)?;
                    going.remove(&slot);
                    continue;
                }
                free.pop();
                if !one.is_reading {
                    self.start_writing(target, slot, one)?;
                }
                self.request(target, slot, one)?;
                continue;
            }
            let completed = self
                .ring
                .wait()
                .map_err(|error| target.side.failed("waiting for the ring", error))?;
            let slot = completed.slot;
            let Some(one) = going.get_mut(&slot) else { continue };
            if self.take_answer(target, slot, one, completed.result)? {
                going.remove(&slot);
                free.push(slot);
            } else {
                self.request(target, slot, one)?;
            }
        }
        Ok(())
    }

    /// Takes the answer of a request; whether all of the write is done.
    fn take_answer(
        &mut self,
        target: &Target<'_>,
        slot: u32,
        one: &mut Going,
        result: std::io::Result<usize>,
    ) -> Result<bool> {
        let length = one.write.length as usize;
        let at = one.write.offset + one.done as u64;
        let action = if one.is_reading {
            "reading what lies between updates"
        } else {
            "writing"
        };
        let is_over = match result {
            Ok(0) if one.is_reading => true,
            Ok(0) => return Err(target.side.failed_at(action, at, std::io::ErrorKind::WriteZero.into())),
            Ok(moved) => {
                one.done += moved;
                // What is not aligned ends at the file's end.
                one.done == length || (one.is_reading && !(one.done as u64).is_multiple_of(target.side.alignment))
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => false,
            Err(error) => return Err(target.side.request_failed(action, at, error)),
        };
        if is_over && one.is_reading {
            self.ring.buffer_mut(slot)[one.done..length].fill(0);
            return self.start_writing(target, slot, one).map(|is_started| !is_started);
        }
        if is_over {
            target.finish(&one.write);
            return Ok(true);
        }
        // The rest of a write that was cut short.
        if !one.is_reading && one.write.has_gaps() && !target.may_fill_gaps() {
            self.write_parts(target, &one.write)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn write_parts(&mut self, target: &Target<'_>, write: &Write) -> Result<()> {
        target.require_exact(write)?;
        target.write_parts(write, &mut self.buffer)
    }

    /// Gets a write ready and returns true. If others wait for the file or may have written to it, writes only the updates
    /// and returns false. A process that opens the file waits for at most /proc/sys/fs/lease-break-time.
    fn start_writing(&mut self, target: &Target<'_>, slot: u32, one: &mut Going) -> Result<bool> {
        target.announce(one.write.offset, one.write.length)?;
        if one.write.has_gaps() && !target.may_fill_gaps() {
            self.write_parts(target, &one.write)?;
            return Ok(false);
        }
        target.window.overlay(&one.write, self.ring.buffer_mut(slot));
        (one.is_reading, one.done) = (false, 0);
        Ok(true)
    }

    fn request(&mut self, target: &Target<'_>, slot: u32, one: &Going) -> Result<()> {
        let at = one.write.offset + one.done as u64;
        let rest = one.write.length as usize - one.done;
        let (file, flags) = (target.file(), ring_flags(target.side));
        let submitted = if one.is_reading {
            self.ring.submit_read(slot, file, at, one.done, rest, flags)
        } else {
            self.ring.submit_write(slot, file, at, one.done, rest, flags)
        };
        // What was read between updates is written back at once: each moment more is one in which a lease may end.
        let is_urgent = !one.is_reading && one.write.has_gaps();
        let submitted = submitted.and_then(|()| if is_urgent { self.ring.submit() } else { Ok(()) });
        submitted.map_err(|error| target.side.failed_at("starting to write", at, error))
    }
}
