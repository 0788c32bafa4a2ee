//! A file as memory: one guarded mapping of a range of it, always shared with the file.
//!
//! Using the bytes is in `bytes`; what happens when the file shrinks is in `guard`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};

use crate::bytes::{MappedBytes, MappedBytesMut};
use crate::guard::Registration;
use crate::support::{Support, attempt};
use crate::types::{MapAdvice, MapMode};

/// A mapping of a range of a file; unmapped when dropped.
#[derive(Debug)]
pub struct Map {
    start: *mut u8,
    len: usize,
    mode: MapMode,
    registration: Registration,
}

// SAFETY: a mapping belongs to the process, not to a thread, and the bytes are reached only through the raw reads and writes
// of `bytes`, which allow for others doing the same.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes of `file` from `offset`: mmap(2), `MAP_SHARED`.
    ///
    /// The range may reach past the end of the file; accesses there fault like those to lost pages.
    ///
    /// # Errors
    /// `InvalidInput` where the offset is not a multiple of the page size or `len` is 0; `Unsupported` where
    /// [`crate::install_guard`] was not called or too many maps live; else those of mmap(2).
    pub fn new(file: &File, offset: u64, len: usize, mode: MapMode) -> io::Result<Self> {
        if len == 0 || !offset.is_multiple_of(crate::page_bytes() as u64) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a map must start at a page and not be empty",
            ));
        }
        let registration = Registration::claim()?;
        let (protection, raw_protection) = match mode {
            MapMode::Read => (ProtFlags::READ, libc::PROT_READ),
            MapMode::ReadWrite => (ProtFlags::READ | ProtFlags::WRITE, libc::PROT_READ | libc::PROT_WRITE),
        };
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)? };
        // SAFETY: the mapping was just made, is this value's own, and `drop` stops the guard before unmapping it.
        unsafe { registration.guard(start, len, raw_protection) };
        Ok(Self {
            start: start.cast(),
            len,
            mode,
            registration,
        })
    }

    /// Gives a hint for the whole map, or fills it: madvise(2).
    ///
    /// Populating past the end of the file is not an error; a read there sets [`Map::faulted`].
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn advise(&self, advice: MapAdvice) -> io::Result<Support<()>> {
        let advice = match advice {
            MapAdvice::Sequential => Some(Advice::Sequential),
            MapAdvice::WillNeed => Some(Advice::WillNeed),
            MapAdvice::PopulateRead => crate::platform::POPULATE_READ,
        };
        let Some(advice) = advice else {
            return Ok(Support::Unavailable("a map can be filled at once on Linux only"));
        };
        attempt(&[Errno::INVAL, Errno::NOSYS], "the kernel has no such madvise", || {
            // SAFETY: `start` and `len` are this value's live mapping, shared, to which only raw pointers exist; no advice
            // used here changes what is in it.
            match unsafe { rustix::mm::madvise(self.start.cast(), self.len, advice) } {
                // Populating ran into the end of the file.
                Err(Errno::FAULT) => Ok(()),
                other => other,
            }
        })
    }

    /// The bytes in `range`, counted from the map's start.
    ///
    /// # Panics
    /// Where the range is not within the map.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> MappedBytes<'_> {
        self.check(&range);
        // SAFETY: within the mapping, which is readable, guarded, and outlives the borrow of `self`.
        unsafe { MappedBytes::new(self.start.add(range.start), range.len()) }
    }

    /// The bytes in `range` for writing.
    ///
    /// # Panics
    /// Where the range is not within the map, or the map is for reading.
    #[must_use]
    pub fn bytes_mut(&self, range: Range<usize>) -> MappedBytesMut<'_> {
        self.check(&range);
        assert_eq!(self.mode, MapMode::ReadWrite, "the map is for reading");
        // SAFETY: within the mapping, which is writable, guarded, and outlives the borrow of `self`.
        unsafe { MappedBytesMut::new(self.start.add(range.start), range.len()) }
    }

    /// Whether an access hit a page that the file no longer has, or that could not be read. Reads there gave zeros, and
    /// writes there are lost. The map must not be used any more.
    ///
    /// Truncation within the file's last page is not detected, so check the size, too.
    #[must_use]
    pub fn faulted(&self) -> bool {
        self.registration.faulted()
    }

    /// Writes changes to the device: msync(2) `MS_SYNC`.
    pub fn flush(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| {
            // SAFETY: `start` and `len` are this value's live mapping; writing it back changes no memory.
            unsafe { rustix::mm::msync(self.start.cast(), self.len, MsyncFlags::SYNC) }
        })?)
    }

    fn check(&self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is not within a map of {} bytes",
            self.len
        );
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        self.registration.stop();
        // SAFETY: exactly the mapping made in `new`; all that pointed into it borrowed `self` and is gone.
        let result = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of a map of our own fails only on a wrong range");
    }
}
