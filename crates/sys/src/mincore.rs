//! Counting a file's pages in memory with mincore(2), in windows, for the platforms that have nothing better.
//!
//! Whether the kernel answers truly to this caller is the platform's question (`residency`), not this file's.

use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// Large enough that the calls are few, small enough that the vector of answers stays in the processor's cache.
const WINDOW_BYTES: u64 = 64 << 20;

/// Counts the resident pages among those of the file's first `size` bytes.
///
/// # Errors
/// Those of mmap(2) and mincore(2); the file must be open for reading.
pub(crate) fn resident_pages(file: &File, size: u64) -> io::Result<u64> {
    let mut answers = vec![0_u8; (WINDOW_BYTES as usize).div_ceil(crate::page_bytes())];
    let mut resident = 0;
    let mut offset = 0;
    while offset < size {
        let len = (size - offset).min(WINDOW_BYTES) as usize;
        resident += resident_in_window(file, offset, len, &mut answers)?;
        offset += len as u64;
    }
    Ok(resident)
}

fn resident_in_window(file: &File, offset: u64, len: usize, answers: &mut [u8]) -> io::Result<u64> {
    let pages = len.div_ceil(crate::page_bytes());
    let answers = &mut answers[..pages];
    // SAFETY: the kernel chooses the address, so no existing memory is replaced; the mapping is never accessed, so a file
    // that shrinks meanwhile does no harm; it is unmapped below on every path.
    let window = unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
    // SAFETY: `window` is the live mapping of `len` bytes made above and `answers` has a byte for each of its pages.
    let result = unsafe { libc::mincore(window, len, answers.as_mut_ptr().cast()) };
    let error = io::Error::last_os_error();
    // SAFETY: exactly the mapping made above, to which no reference exists.
    unsafe { rustix::mm::munmap(window, len)? };
    if result == -1 {
        return Err(error);
    }
    // Only the lowest bit is defined; macOS uses others too.
    Ok(answers.iter().map(|&answer| u64::from(answer & 1)).sum())
}
