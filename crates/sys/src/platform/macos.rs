//! macOS: the functions that this system has, instead of those in `absent`.
//!
//! Type-checked from Linux; not run on macOS yet.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::macos::fs::MetadataExt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::MsyncFlags;

pub use crate::absent::*;
pub(crate) use crate::shared::{exchange, rename_new};
pub use crate::shared::{extended_attributes, remove_extended_attribute, set_extended_attribute};

use crate::mincore;
use crate::support::{ABSENT, ABSENT_FOR_PAIR, Support, attempt, checked};
use crate::types::{FileSystem, Memory, ProcessIo, Protection, Residency};

/// Opens an entry itself, also a symbolic link, for its attributes: open(2) with `O_SYMLINK`.
pub fn open_entry(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::SYMLINK | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// getrusage(2) counts `ru_maxrss` in bytes here.
pub(crate) const MAX_RSS_UNIT_BYTES: u64 = 1;

/// The flag of mmap(2) for memory that is not set aside: zero pages for a whole file must not fail for want of swap.
pub(crate) const MAP_NORESERVE: libc::c_int = libc::MAP_NORESERVE;

/// open(2) `O_DSYNC`.
pub(crate) const WRITE_THROUGH: OFlags = OFlags::DSYNC;

/// Makes an open file bypass the page cache: fcntl(2) `F_NOCACHE`.
pub(crate) fn bypass_cache(file: &File) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system has no uncached I/O", || {
        rustix::fs::fcntl_nocache(file, true)
    })
}

/// The flag that protects the file at `path` from changes, whatever its mode; `None` without one: stat(2) `st_flags`.
pub fn protection(path: &Path) -> io::Result<Support<Option<Protection>>> {
    let flags = std::fs::metadata(path)?.st_flags();
    Ok(Support::Available(
        if flags & (libc::UF_IMMUTABLE | libc::SF_IMMUTABLE) != 0 {
            Some(Protection {
                about: "it is immutable (`chflags nouchg` clears that)",
                takes_names: false,
            })
        } else if flags & (libc::UF_APPEND | libc::SF_APPEND) != 0 {
            Some(Protection {
                about: "it is append-only (`chflags nouappnd` clears that)",
                takes_names: true,
            })
        } else {
            None
        },
    ))
}

/// Allocates blocks of a range behind the file's end, in one piece if possible: fcntl(2) `F_PREALLOCATE`.
///
/// The file's size stays as it is, and so do its holes.
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    // The call counts from the end of what the file has.
    let missing = i64::try_from((offset + len).saturating_sub(file.metadata()?.len())).map_err(|_| Errno::INVAL)?;
    if missing == 0 {
        return Ok(Support::Available(()));
    }
    let in_one_piece = preallocate(file, libc::F_ALLOCATECONTIG | libc::F_ALLOCATEALL, missing);
    attempt(ABSENT, "the file system cannot preallocate", || {
        in_one_piece.or_else(|_| preallocate(file, libc::F_ALLOCATEALL, missing))
    })
}

fn preallocate(file: &File, flags: libc::c_uint, len: libc::off_t) -> rustix::io::Result<()> {
    let mut store = libc::fstore_t {
        fst_flags: flags,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: len,
        fst_bytesalloc: 0,
    };
    // SAFETY: F_PREALLOCATE reads and writes one `fstore_t`, which lives here; `file` keeps the descriptor open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) })
}

/// Syncs the file, including the device's write cache: fcntl(2) `F_FULLFSYNC`, or fsync(2) if the file system lacks
/// that. Plain fsync(2) does not flush the device's cache on macOS.
pub fn sync(file: &File) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| rustix::fs::fcntl_fullfsync(file)) {
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
            Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
        }
        other => Ok(other?),
    }
}

/// The same: the system has no fdatasync(2) that reaches the device.
pub fn sync_data(file: &File) -> io::Result<()> {
    sync(file)
}

/// Writes what is unwritten of a file, whatever the range, without the device's cache: fsync(2).
pub fn write_back(file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Available(rustix::io::retry_on_intr(|| {
        rustix::fs::fsync(file)
    })?))
}

/// Switches the system's own read-ahead on, which `F_NOCACHE` switches off: fcntl(2) `F_RDAHEAD`.
pub fn enable_read_ahead(file: &File) -> io::Result<Support<()>> {
    // SAFETY: F_RDAHEAD takes an integer; `file` keeps the descriptor open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_RDAHEAD, 1) })?;
    Ok(Support::Available(()))
}

/// Starts fetching `len` bytes from `offset`: fcntl(2) `F_RDADVISE`.
pub fn read_advice(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system does not support read advice", || {
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
    }))
}

/// Drops the file's pages from the cache: msync(2) `MS_INVALIDATE` over a map. The caller has synced the file.
pub fn drop_from_cache(file: &File) -> io::Result<Support<()>> {
    mincore::for_each_window(file, file.metadata()?.len(), |window, len| {
        // SAFETY: `for_each_window` gives a live mapping of `len` bytes, to which no references exist.
        Ok(unsafe { rustix::mm::msync(window, len, MsyncFlags::INVALIDATE)? })
    })?;
    Ok(Support::Available(()))
}

/// `Unavailable`: only purge(8) can, as root.
pub fn drop_system_caches() -> io::Result<Support<()>> {
    Ok(Support::Unavailable("only `sudo purge` can drop it"))
}

/// `Unavailable`: as dropping is.
pub fn may_drop_system_caches() -> io::Result<Support<()>> {
    drop_system_caches()
}

/// sys/clonefile.h: a symbolic link is cloned, not followed.
const CLONE_NOFOLLOW: u32 = 1;

/// Makes `dst`, which must not exist, a clone of `src`: clonefile(2) with `CLONE_NOFOLLOW`.
pub fn clone_path(src: &Path, dst: &Path) -> io::Result<Support<()>> {
    let src = CString::new(src.as_os_str().as_bytes())?;
    let dst = CString::new(dst.as_os_str().as_bytes())?;
    attempt(ABSENT_FOR_PAIR, "the file system cannot clone this file", || {
        // SAFETY: both pointers are to strings that end in zero and live until the call returns.
        checked(unsafe { libc::clonefile(src.as_ptr(), dst.as_ptr(), CLONE_NOFOLLOW) })
    })
}

/// Copies the data of `src`, not its attributes, into `dst`: fcopyfile(3) with `COPYFILE_DATA`.
pub fn copy_path_data(src: &File, dst: &File) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system has no fcopyfile", || {
        // SAFETY: both files keep their descriptors open, and a null state is documented to mean none.
        checked(unsafe { libc::fcopyfile(src.as_raw_fd(), dst.as_raw_fd(), ptr::null_mut(), libc::COPYFILE_DATA) })
    })
}

/// Gives this process, and those that it starts, the lowest priority for processors: setpriority(2).
pub fn lower_priority() -> io::Result<Support<()>> {
    const LOWEST_PRIORITY: i32 = 19;
    rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
    Ok(Support::Available(()))
}

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
        is_pseudo: name.starts_with(b"devfs\0"),
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
    checked(unsafe {
        libc::proc_pid_rusage(
            libc::getpid(),
            libc::RUSAGE_INFO_V2,
            usage.as_mut_ptr().cast::<libc::rusage_info_t>(),
        )
    })?;
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
                return Ok(Support::Unavailable("the kernel does not report its free pages"));
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

/// A system value of 4 or 8 bytes.
fn number(name: &CStr) -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    let mut len = bytes.len();
    // SAFETY: the kernel writes at most `len` bytes to `bytes`, and how many to `len`; the name ends in zero.
    checked(unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    })?;
    // macOS runs on little-endian machines only, where the unused bytes are the high ones.
    Ok(u64::from_le_bytes(bytes))
}
