//! The unified buffer cache: hints to it, what it holds of a file, and dropping that.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::mincore;
use crate::support::{ABSENT, Support, attempt};
use crate::types::{Advice, Residency, ResidencySource};

/// `Unavailable`: there is no `posix_fadvise(2)`.
pub fn advise(_file: &File, _advice: Advice, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("macOS has no posix_fadvise"))
}

/// Switches the system's own read-ahead on, which `F_NOCACHE` switches off: fcntl(2) `F_RDAHEAD`.
pub fn enable_read_ahead(file: &File) -> io::Result<Support<()>> {
    // SAFETY: F_RDAHEAD takes an integer; `file` keeps the descriptor open.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_RDAHEAD, 1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Support::Available(())),
    }
}

/// Starts fetching `len` bytes from `offset`: fcntl(2) `F_RDADVISE`.
pub fn read_advice(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system takes no read advice", || {
        rustix::fs::fcntl_rdadvise(file, offset, len)
    })
}

/// How much of the file the cache holds: mincore(2).
pub fn residency(file: &File) -> io::Result<Support<Residency>> {
    let size = file.metadata()?.len();
    let page = crate::page_bytes() as u64;
    let total_bytes = size.next_multiple_of(page);
    let resident_bytes = (mincore::resident_pages(file, size)? * page).min(total_bytes);
    Ok(Support::Available(Residency {
        resident_bytes,
        total_bytes,
        source: ResidencySource::Mincore,
    }))
}

/// Drops the file's pages from the cache: msync(2) `MS_INVALIDATE` over a map. The caller has synced the file.
pub fn drop_from_cache(file: &File) -> io::Result<Support<()>> {
    const WINDOW_BYTES: u64 = 1 << 30;
    let size = file.metadata()?.len();
    let mut offset = 0;
    while offset < size {
        let len = (size - offset).min(WINDOW_BYTES) as usize;
        // SAFETY: the kernel chooses the address, so no existing memory is replaced; the mapping is never accessed.
        let window =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
        // SAFETY: the live mapping made above, to which no references exist.
        let dropped = unsafe { rustix::mm::msync(window, len, MsyncFlags::INVALIDATE) };
        // SAFETY: exactly the mapping made above.
        unsafe { rustix::mm::munmap(window, len)? };
        dropped?;
        offset += len as u64;
    }
    Ok(Support::Available(()))
}

/// `Unavailable`: only purge(8) can, as root.
pub fn drop_system_caches() -> io::Result<Support<()>> {
    Ok(Support::Unavailable("run `sudo purge`"))
}
