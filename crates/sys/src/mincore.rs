//! Mapping files in windows without accessing them: to count resident pages with mincore(2) on platforms without a
//! better call, and to drop pages where only msync(2) does that.
//!
//! Not here: whether the kernel's answer is true for this caller (`residency` of the platform).

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

use crate::support::checked;

/// Large enough that calls are few, small enough that the vector of answers fits into the processor's cache.
const WINDOW_BYTES: u64 = 64 << 20;

/// Counts the resident pages among those of the file's first `size` bytes.
///
/// # Errors
/// Those of mmap(2) and mincore(2); the file must be open for reading.
pub(crate) fn resident_pages(file: &File, size: u64) -> io::Result<u64> {
    let mut answers = vec![0_u8; (WINDOW_BYTES as usize).div_ceil(crate::page_bytes())];
    let mut resident = 0;
    for_each_window(file, size, |window, len| {
        let answers = &mut answers[..len.div_ceil(crate::page_bytes())];
        // SAFETY: `window` is a live mapping of `len` bytes (`for_each_window`), and `answers` has a byte for each of its
        // pages.
        checked(unsafe { libc::mincore(window, len, answers.as_mut_ptr().cast()) })?;
        // Only the lowest bit is defined; macOS uses others too.
        resident += answers.iter().map(|&answer| u64::from(answer & 1)).sum::<u64>();
        Ok(())
    })?;
    Ok(resident)
}

/// Maps a file's first `size` bytes window by window, each for as long as `work` has it: a live mapping of this many bytes, to
/// which no references exist.
pub(crate) fn for_each_window(
    file: &File,
    size: u64,
    mut work: impl FnMut(*mut c_void, usize) -> io::Result<()>,
) -> io::Result<()> {
    for offset in (0..size).step_by(WINDOW_BYTES as usize) {
        let len = (size - offset).min(WINDOW_BYTES) as usize;
        // SAFETY: the kernel chooses the address, so no existing memory is replaced; the mapping is never accessed, so a
        // file that shrinks meanwhile does no harm; it is unmapped below on every path.
        let window =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
        let worked = work(window, len);
        // SAFETY: exactly the mapping made above, to which no reference exists.
        unsafe { rustix::mm::munmap(window, len)? };
        worked?;
    }
    Ok(())
}
