//! `io_uring` (`io_uring(7)`) made safe by ownership: [`Ring`] owns its buffers, and holds on to files in flight.
//!
//! Linux only, by the crate io-uring; on other systems, making the type fails with `Unavailable`.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use crate::{Buffer, Completed, RingRequest, Support};

/// As many as registered buffers (Linux 5.13: 16384), which is also within the limit of entries.
const DEPTH_MAX: u32 = 1 << 14;

/// A ring with `depth` slots, each with a registered buffer and room for one request.
///
/// It may move between threads, but only one uses it at a time. Dropping it submits queued requests and waits for all
/// requests.
pub struct Ring {
    /// Closed before the buffers are freed, see `drop`.
    uring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Vec<Slot>>,
    /// Pushed since the kernel was last entered.
    queued: u32,
    in_flight: u32,
    calls: u64,
}

struct Slot {
    buffer: Buffer,
    /// Whether it is the buffer that is registered under the slot's number.
    is_registered: bool,
    /// Present exactly while a request is queued or in flight, and keeps its descriptor open.
    file: Option<Arc<File>>,
    /// What its request has moved, or why not; known when no answer is missing.
    result: io::Result<usize>,
    /// The bytes that the fdatasync linked with it has not synced yet.
    unsynced_bytes: Option<usize>,
    /// Two for a request with a linked fdatasync.
    answers_missing: u8,
}

/// Marks the answer of a linked fdatasync.
const SYNC: u64 = 1 << 32;

impl Ring {
    /// Makes a ring of `depth` slots with a buffer of `buffer_bytes` each, aligned to `align`, touched and registered.
    ///
    /// `Unavailable` if the kernel has no `io_uring` (ENOSYS) or does not allow it for this user (EPERM: the sysctl
    /// `kernel.io_uring_disabled`, or a sandbox).
    ///
    /// # Errors
    /// `InvalidInput` for a depth of 0 or over 16384 and for a buffer of 0 or over 1 GiB; `OutOfMemory` with the limit's
    /// name where the user may not lock that much memory; those of `io_uring_setup(2)` and `io_uring_register(2)`.
    pub fn new(depth: u32, buffer_bytes: usize, align: usize) -> io::Result<Support<Self>> {
        if !(1..=DEPTH_MAX).contains(&depth) || !(1..=1 << 30).contains(&buffer_bytes) {
            return Err(invalid("a ring has 1 to 16384 slots of 1 byte to 1 GiB"));
        }
        // Each request may have an fdatasync linked with it.
        let uring = match set_up(depth * 2) {
            Ok(uring) => uring,
            Err(error) => {
                return match error.raw_os_error() {
                    Some(libc::ENOSYS) => Ok(Support::Unavailable("the kernel has no io_uring")),
                    Some(libc::EPERM) => Ok(Support::Unavailable("io_uring is switched off for this user")),
                    _ => Err(explain_lock_limit(error)),
                };
            }
        };
        let mut slots = Vec::with_capacity(depth as usize);
        for _ in 0..depth {
            slots.push(Slot {
                buffer: Buffer::new(buffer_bytes, align)?,
                is_registered: true,
                file: None,
                result: Ok(0),
                unsynced_bytes: None,
                answers_missing: 0,
            });
        }
        register(&uring, &mut slots).map_err(explain_lock_limit)?;
        Ok(Support::Available(Self {
            uring: ManuallyDrop::new(uring),
            slots: ManuallyDrop::new(slots),
            queued: 0,
            in_flight: 0,
            calls: 0,
        }))
    }

    /// How many slots there are.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Queues a request (`IORING_OP_READ_FIXED`, `IORING_OP_WRITE_FIXED`, or `IORING_OP_READ` and `IORING_OP_WRITE` after
    /// [`Ring::exchange`], and `IORING_OP_FSYNC` linked with it); [`Ring::wait`] submits it.
    ///
    /// # Errors
    /// `InvalidInput` where there is no such slot, it has a request already, or the range is not within its buffer.
    pub fn queue(&mut self, slot: u32, file: &Arc<File>, request: &RingRequest) -> io::Result<()> {
        let (memory, len) = self.range(slot, &request.range)?;
        let (file_number, offset) = (types::Fd(file.as_raw_fd()), request.offset);
        let flags = if request.dontcache { libc::RWF_DONTCACHE } else { 0 };
        let entry = match (request.is_read, self.slots[slot as usize].is_registered) {
            (true, true) => {
                let read = opcode::ReadFixed::new(file_number, memory, len, slot as u16);
                read.offset(offset).rw_flags(flags).build()
            }
            (true, false) => {
                let read = opcode::Read::new(file_number, memory, len);
                read.offset(offset).rw_flags(flags).build()
            }
            (false, true) => {
                let write = opcode::WriteFixed::new(file_number, memory.cast_const(), len, slot as u16);
                write.offset(offset).rw_flags(flags).build()
            }
            (false, false) => {
                let write = opcode::Write::new(file_number, memory.cast_const(), len);
                write.offset(offset).rw_flags(flags).build()
            }
        };
        let entry = entry.user_data(u64::from(slot));
        if !request.is_synced {
            return self.push(slot, file, &[entry]);
        }
        self.slots[slot as usize].unsynced_bytes = Some(request.range.len());
        let sync = opcode::Fsync::new(file_number).flags(types::FsyncFlags::DATASYNC);
        let sync = sync.build().user_data(u64::from(slot) | SYNC);
        self.push(slot, file, &[entry.flags(squeue::Flags::IO_LINK), sync])
    }

    /// Submits what is queued, without waiting for any of it.
    ///
    /// # Errors
    /// Those of `io_uring_enter(2)`.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.queued > 0 { self.enter(0) } else { Ok(()) }
    }

    /// Submits what is queued, and waits until a request has ended, which frees its slot.
    ///
    /// # Errors
    /// `InvalidInput` where nothing is queued or in flight; those of `io_uring_enter(2)`. A request's own error is in
    /// [`Completed::result`].
    pub fn wait(&mut self) -> io::Result<Completed> {
        if self.in_flight == 0 {
            return Err(invalid("nothing is in flight"));
        }
        loop {
            let must_wait = self.uring.completion().is_empty();
            if must_wait || self.queued > 0 {
                self.enter(usize::from(must_wait))?;
            }
            let Some(entry) = self.uring.completion().next() else {
                continue;
            };
            let number = entry.user_data() as u32;
            let slot = &mut self.slots[number as usize];
            let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
            let is_sync = entry.user_data() & SYNC > 0;
            let is_cancelled = |error: &io::Error| error.raw_os_error() == Some(libc::ECANCELED);
            match &result {
                Ok(_) if is_sync => slot.unsynced_bytes = None,
                // The request failed or was short, as its own answer says.
                Err(error) if is_sync && is_cancelled(error) => {}
                _ => slot.result = result,
            }
            slot.answers_missing -= 1;
            if slot.answers_missing > 0 {
                continue;
            }
            slot.file = None;
            self.in_flight -= 1;
            let unsynced_bytes = slot.unsynced_bytes.take();
            let result = match std::mem::replace(&mut slot.result, Ok(0)) {
                Ok(moved) if unsynced_bytes.is_some_and(|bytes| moved >= bytes) => {
                    Err(io::Error::from_raw_os_error(libc::ECANCELED))
                }
                other => other,
            };
            return Ok(Completed { slot: number, result });
        }
    }

    /// The slot's buffer.
    ///
    /// # Panics
    /// Where there is no such slot, or it has a request.
    #[must_use]
    pub fn buffer(&self, slot: u32) -> &[u8] {
        let slot = &self.slots[slot as usize];
        assert!(slot.file.is_none(), "the buffer belongs to the request in flight");
        &slot.buffer
    }

    /// The slot's buffer, to change it.
    ///
    /// # Panics
    /// Where there is no such slot, or it has a request.
    pub fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        let slot = &mut self.slots[slot as usize];
        assert!(slot.file.is_none(), "the buffer belongs to the request in flight");
        &mut slot.buffer
    }

    /// Gives the slot another buffer, and returns the one that it had. The other one is not registered, so that the kernel
    /// looks up its pages at each request.
    ///
    /// # Panics
    /// Where there is no such slot, or it has a request.
    pub fn exchange(&mut self, slot: u32, buffer: Buffer) -> Buffer {
        let slot = &mut self.slots[slot as usize];
        assert!(slot.file.is_none(), "the buffer belongs to the request in flight");
        slot.is_registered = false;
        std::mem::replace(&mut slot.buffer, buffer)
    }

    /// How many requests are queued or in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many times the kernel was entered (`io_uring_enter(2)`) since the ring was made.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    fn range(&mut self, slot: u32, range: &Range<usize>) -> io::Result<(*mut u8, u32)> {
        let slot = self
            .slots
            .get_mut(slot as usize)
            .ok_or_else(|| invalid("the ring has no such slot"))?;
        if slot.file.is_some() {
            return Err(invalid("the slot has a request already"));
        }
        let memory = slot.buffer.get_mut(range.clone());
        let memory = memory.ok_or_else(|| invalid("not within the buffer"))?;
        Ok((memory.as_mut_ptr(), memory.len() as u32))
    }

    /// Queues the entries of a slot's request, all or none, so that they are submitted together.
    fn push(&mut self, slot: u32, file: &Arc<File>, entries: &[squeue::Entry]) -> io::Result<()> {
        // SAFETY: the entries point to memory of this slot's buffer and name this file's descriptor. Both stay until the
        // request has ended: `file` is kept in the slot until all of its answers are there, the buffer is reached by
        // nobody while it is there (`buffer`, `range`), and `drop` frees neither before the last request's end.
        unsafe { self.uring.submission().push_multiple(entries) }.map_err(|_| invalid("the queue is full"))?;
        self.slots[slot as usize].file = Some(Arc::clone(file));
        self.slots[slot as usize].answers_missing = entries.len() as u8;
        self.queued += entries.len() as u32;
        self.in_flight += 1;
        Ok(())
    }

    fn enter(&mut self, want: usize) -> io::Result<()> {
        loop {
            self.calls += 1;
            let result = self.uring.submit_and_wait(want);
            self.queued = self.uring.submission().len() as u32;
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }
}

/// A ring whose thread is not interrupted by completions (Linux 5.19), or else a plain one. It is not set up for a
/// single submitter, because it may move to another thread.
pub(crate) fn set_up(depth: u32) -> io::Result<IoUring> {
    match IoUring::builder().setup_coop_taskrun().build(depth) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(depth),
        other => other,
    }
}

fn register(uring: &IoUring, slots: &mut [Slot]) -> io::Result<()> {
    let ranges: Vec<libc::iovec> = slots
        .iter_mut()
        .map(|slot| libc::iovec {
            iov_base: slot.buffer.as_mut_ptr().cast(),
            iov_len: slot.buffer.len(),
        })
        .collect();
    // SAFETY: each range is a live buffer of a slot, which stays where it is until the ring is closed (`drop`).
    unsafe { uring.submitter().register_buffers(&ranges) }
}

fn explain_lock_limit(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let text = "the ring's buffers exceed the memory that this user may lock (RLIMIT_MEMLOCK, `ulimit -l`)";
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.wait().is_err() {
                // The kernel may still write to the buffers, so neither they nor the ring are freed.
                return;
            }
        }
        // SAFETY: dropped once, here, and not used again; no request is left, so the kernel writes to no buffer.
        unsafe {
            ManuallyDrop::drop(&mut self.uring);
            ManuallyDrop::drop(&mut self.slots);
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.depth())
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
