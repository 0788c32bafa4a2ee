//! The machine, its file systems and this process: statfs(2), sysctl(3), and small differences between platforms.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::Advice;

use crate::support::{Support, attempt};
use crate::types::{FileSystem, MapAdvice, Memory, ProcessIo};

/// getrusage(2) counts `ru_maxrss` in bytes here.
pub(crate) const MAX_RSS_UNIT_BYTES: u64 = 1;

/// Gives this process, and those that it starts, the lowest priority for processors: setpriority(2).
pub fn lower_priority() -> io::Result<Support<()>> {
    const LOWEST_PRIORITY: i32 = 19;
    rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
    Ok(Support::Available(()))
}

/// The flag of mmap(2) for memory that is not set aside: zero pages for a whole file must not fail for want of swap.
pub(crate) const MAP_NORESERVE: libc::c_int = libc::MAP_NORESERVE;

/// The file system behind `path`: statfs(2).
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::statfs(path))?))
}

/// The file system of an open file: fstatfs(2).
pub fn file_system_of(file: impl AsFd) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::fstatfs(&file))?))
}

fn described(stat: &rustix::fs::StatFs) -> FileSystem {
    let name = stat.f_fstypename.map(libc::c_char::cast_unsigned);
    let text = CStr::from_bytes_until_nul(&name).unwrap_or(c"unknown");
    let block_bytes = u64::from(stat.f_bsize);
    FileSystem {
        type_name: text.to_string_lossy().into_owned(),
        block_bytes,
        free_bytes: stat.f_bavail.saturating_mul(block_bytes),
        total_bytes: stat.f_blocks.saturating_mul(block_bytes),
        read_only: stat.f_flags & libc::MNT_RDONLY.cast_unsigned() != 0,
        is_network: stat.f_flags & libc::MNT_LOCAL.cast_unsigned() == 0,
        inodes_identify: is_known_to_identify(&name),
    }
}

/// Whether the file system of an open file promises that two files with one `st_dev` and `st_ino` are one file.
pub fn inodes_identify(file: impl AsFd) -> io::Result<bool> {
    let stat = rustix::io::retry_on_intr(|| rustix::fs::fstatfs(&file))?;
    Ok(is_known_to_identify(
        &stat.f_fstypename.map(libc::c_char::cast_unsigned),
    ))
}

fn is_known_to_identify(type_name: &[u8]) -> bool {
    type_name.starts_with(b"apfs\0") || type_name.starts_with(b"hfs\0")
}

/// Bytes moved so far by this process: `proc_pid_rusage` (libproc.h).
pub fn process_io() -> io::Result<Support<ProcessIo>> {
    let mut usage = MaybeUninit::<libc::rusage_info_v2>::uninit();
    // SAFETY: the flavor asks for exactly the struct that the pointer has room for; the parameter's type, a pointer to a
    // pointer, is a historical mistake of the header.
    let result = unsafe {
        libc::proc_pid_rusage(
            libc::getpid(),
            libc::RUSAGE_INFO_V2,
            usage.as_mut_ptr().cast::<libc::rusage_info_t>(),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the struct.
    let usage = unsafe { usage.assume_init() };
    Ok(Support::Available(ProcessIo {
        read_bytes: usage.ri_diskio_bytesread,
        write_bytes: usage.ri_diskio_byteswritten,
    }))
}

/// The machine's memory: sysctl(3). Available is what is free, purgeable, or a clean copy of a file.
pub fn memory() -> io::Result<Support<Memory>> {
    let mut pages = 0;
    for name in [
        c"vm.page_free_count",
        c"vm.page_purgeable_count",
        c"vm.page_pageable_external_count",
    ] {
        match number(name) {
            Ok(count) => pages += count,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Support::Unavailable("the kernel does not count its free pages"));
            }
            Err(error) => return Err(error),
        }
    }
    let available_bytes = pages * crate::page_bytes() as u64;
    Ok(Support::Available(Memory {
        total_bytes: number(c"hw.memsize")?,
        available_bytes,
        cached_bytes: None,
    }))
}

/// A system value of 4 or 8 bytes, whichever the kernel has it in.
fn number(name: &CStr) -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    let mut len = bytes.len();
    // SAFETY: the kernel writes at most `len` bytes to `bytes`, and how many to `len`; the name ends in zero.
    let result = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // macOS runs on little-endian machines only, where the unused bytes are the high ones.
    Ok(u64::from_le_bytes(bytes))
}

/// madvise(2) for [`crate::Map`].
///
/// # Safety
/// `address` and `len` are a live mapping of a file, shared, to which no references exist.
pub(crate) unsafe fn advise_map(address: *mut libc::c_void, len: usize, advice: MapAdvice) -> io::Result<Support<()>> {
    let advice = match advice {
        MapAdvice::Normal => Advice::Normal,
        MapAdvice::Sequential => Advice::Sequential,
        MapAdvice::Random => Advice::Random,
        MapAdvice::WillNeed => Advice::WillNeed,
        MapAdvice::DontNeed => Advice::DontNeed,
        MapAdvice::PopulateRead | MapAdvice::PopulateWrite => {
            return Ok(Support::Unavailable("a map is filled at once on Linux only"));
        }
    };
    attempt(&[Errno::INVAL, Errno::NOSYS], "the kernel has no such madvise", || {
        // SAFETY: the caller vouches for the range; of a shared file mapping no advice used here changes the contents.
        unsafe { rustix::mm::madvise(address, len, advice) }
    })
}

/// Huge pages are not asked for here.
///
/// # Safety
/// None needed; Linux needs the range to be memory of the caller's own.
pub(crate) unsafe fn prefer_huge_pages(_address: *mut libc::c_void, _len: usize) {}

/// Where this thread's errno lives, for a signal handler that must leave it as it was.
pub(crate) fn errno_location() -> *mut libc::c_int {
    // SAFETY: always safe to call; the C library gives the address of the calling thread's own variable.
    unsafe { libc::__error() }
}
