//! Heap memory, aligned for direct I/O and touched before the clock starts.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::io::Errno;

use crate::platform;

/// The size of a huge page.
const HUGE_BYTES: usize = 2 << 20;
const HUGE_FROM_BYTES: usize = 512 << 10;

/// Zeroed memory of a fixed length at an aligned address, every page of it touched.
///
/// Otherwise, the first touch would be measured: 0.3 GB/s for pages that a virtual machine never used, compared with 8
/// to 10 GB/s at the second touch.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone and is reached through `&` and `&mut` by the usual rules.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Makes a buffer of `len` bytes at a multiple of `align`, of a page at least.
    ///
    /// # Errors
    /// `InvalidInput` if `align` is not a power of two; `OutOfMemory` if there is not enough memory (never an abort).
    pub fn new(len: usize, align: usize) -> io::Result<Self> {
        if !align.is_power_of_two() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the alignment is not a power of two",
            ));
        }
        let is_huge = len >= HUGE_FROM_BYTES;
        let align = align.max(if is_huge { HUGE_BYTES } else { crate::page_bytes() });
        let layout = len
            .max(1)
            .checked_next_multiple_of(align)
            .and_then(|size| Layout::from_size_align(size, align).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let start = if is_huge { huge(layout) } else { plain(layout) }.ok_or(io::ErrorKind::OutOfMemory)?;
        for page in (0..len.max(1)).step_by(crate::page_bytes()) {
            // Volatile, or the compiler may drop a store of zero to memory known to be zero.
            // SAFETY: `page` is less than the size of the allocation, which this function alone knows of.
            unsafe { start.as_ptr().add(page).write_volatile(0) };
        }
        Ok(Self { start, len, layout })
    }
}

/// A vector of zeros, whose pages nothing has touched.
///
/// # Errors
/// `ENOMEM` if there is not enough memory (never an abort).
pub fn zeros(len: usize) -> io::Result<Vec<u8>> {
    let start = match Layout::array::<u8>(len) {
        Ok(layout) if len > 0 => plain(layout),
        Ok(_) => return Ok(Vec::new()),
        Err(_) => None,
    };
    let start = start.ok_or(Errno::NOMEM)?;
    let bytes = NonNull::slice_from_raw_parts(start, len);
    // SAFETY: the global allocator gave `len` bytes, all of them zero, with the layout of a slice of them, and nobody else has them.
    Ok(unsafe { Box::from_raw(bytes.as_ptr()) }.into_vec())
}

/// Zeroed memory.
fn plain(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// The same with huge pages, if the system has them. They must be requested before the first touch.
fn huge(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: as in `plain`.
    let start = NonNull::new(unsafe { alloc(layout) })?;
    // SAFETY: the memory is ours alone and consists of whole pages, as the layout is one of huge pages.
    unsafe { platform::prefer_huge_pages(start.as_ptr().cast(), layout.size()) };
    // SAFETY: the allocation is as long as its layout, and nobody else has it.
    unsafe { start.write_bytes(0, layout.size()) };
    Some(start)
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` has `len` initialised bytes until `self` is dropped, and `&self` keeps writers away: `Aio` and
        // `Ring` give out no reference while the system writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_aligned_zeroed_and_as_long_as_asked() {
        for (len, align) in [(0, 512), (1, 1), (4097, 4096), (1 << 20, 2 << 20), (12_345, 65_536)] {
            let mut buffer = Buffer::new(len, align).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % align.max(crate::page_bytes()), 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn zeros_are_as_many_as_asked_or_an_error() {
        for len in [0, 1, 4097, 3 << 20] {
            let mut found = zeros(len).unwrap();
            assert!(found.len() == len && found.iter().all(|&byte| byte == 0));
            found.push(1);
        }
        for len in [1 << 60, usize::MAX] {
            assert_eq!(
                zeros(len).unwrap_err().raw_os_error(),
                Some(Errno::NOMEM.raw_os_error())
            );
        }
    }

    #[test]
    fn impossible_buffers_are_errors_not_aborts() {
        for (len, align, kind) in [
            (1, 3, io::ErrorKind::InvalidInput),
            (1, 0, io::ErrorKind::InvalidInput),
            (usize::MAX, 4096, io::ErrorKind::OutOfMemory),
            (1 << 60, 4096, io::ErrorKind::OutOfMemory),
        ] {
            assert_eq!(Buffer::new(len, align).unwrap_err().kind(), kind);
        }
    }
}
