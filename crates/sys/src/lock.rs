//! Files that are kept in memory: mapped without being accessed, and locked there by mlock(2).

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// Bytes that are locked at a time: each call reads what is not in memory yet, and cannot be interrupted.
const PIECE_BYTES: usize = 16 << 20;

/// The beginning of a file, which stays in memory until this is dropped.
#[derive(Debug)]
pub struct LockedFile {
    start: *mut c_void,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this one is never accessed.
unsafe impl Send for LockedFile {}

impl LockedFile {
    /// Locks `len` bytes of a file, at least 1. `goes_on` is asked before each piece, with the number of bytes that were locked.
    ///
    /// # Errors
    /// Those of mmap(2) and mlock(2), such as that of a limit (`RLIMIT_MEMLOCK`); `Interrupted` if it was not to go on.
    pub fn new(file: &File, len: usize, mut goes_on: impl FnMut(usize) -> bool) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so no existing memory is replaced; the mapping is never accessed, so a
        // file that shrinks meanwhile does no harm.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        let locked = Self { start, len };
        for at in (0..len).step_by(PIECE_BYTES) {
            if !goes_on(at) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // SAFETY: the piece is within the mapping made above, which this value keeps.
            unsafe { rustix::mm::mlock(start.byte_add(at), PIECE_BYTES.min(len - at))? };
        }
        Ok(locked)
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`, to which no reference exists. Unmapping unlocks.
        let result = unsafe { rustix::mm::munmap(self.start, self.len) };
        debug_assert!(result.is_ok(), "munmap of a map of our own fails only on a wrong range");
    }
}
