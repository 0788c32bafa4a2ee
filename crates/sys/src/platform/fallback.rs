//! Every other Unix: plain files, POSIX calls, and `Unavailable` for all the rest. Type-checked for FreeBSD.
//!
//! A system that turns out to matter gets a directory of its own beside `linux` and `macos`.

use std::convert::Infallible;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, RawMode, StatVfsMountFlags};

use crate::support::Support;
use crate::types::{
    Advice, Alignment, ExtendedAttributes, FileSystem, MapAdvice, Memory, Opening, ProcessIo, Residency,
};

pub(crate) use crate::linux_only::peak_memory_bytes;
pub use crate::linux_only::{
    collapse_range, copy_file_range, die_with_parent, end_lease, extend, extended_attributes_at, extents,
    extents_as_known, file_system_uuid, has_capabilities, holds_lease, is_locked, is_one_address_space,
    leases_bind_all_writers, name_file, next_data, next_hole, punch_hole, read_at_dontcache, read_at_nowait, readahead,
    sync_file_system, take_lease, unnamed_file, unwritten_bytes, write_at_dontcache,
};

const MISSING: &str = "not used on this system";

/// getrusage(2) counts `ru_maxrss` in KiB on the BSDs.
pub(crate) const MAX_RSS_UNIT_BYTES: u64 = 1024;

/// `Unavailable`: priorities are left as they are.
pub fn lower_priority() -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// Memory is not set aside for maps on FreeBSD, so mmap(2) has no flag against it.
pub(crate) const MAP_NORESERVE: libc::c_int = 0;

/// Opens a file in a directory (openat(2)), never leaking it into child processes; writing through is `O_SYNC`. A new
/// one gets `mode`, less the umask.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    how: Opening,
    mut flags: OFlags,
    mode: RawMode,
) -> io::Result<Support<File>> {
    if how.direct {
        return Ok(Support::Unavailable("direct I/O is not used on this system"));
    }
    flags.set(OFlags::SYNC, how.write_through);
    let file = rustix::io::retry_on_intr(|| rustix::fs::openat(directory, path, flags, Mode::from_raw_mode(mode)))?;
    Ok(Support::Available(file.into()))
}

/// `Unavailable`: Linux and macOS only.
pub(crate) fn exchange(_directory: BorrowedFd<'_>, _one: &OsStr, _other: &OsStr) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: direct I/O is not used here.
pub fn direct_alignment(_file: &File) -> io::Result<Support<Alignment>> {
    Ok(Support::Unavailable("direct I/O is not used on this system"))
}

/// Tells how `len` bytes from `offset` (0: to the end) will be used: `posix_fadvise(2)`, on FreeBSD.
#[cfg(target_os = "freebsd")]
pub fn advise(file: &File, advice: Advice, offset: u64, len: u64) -> io::Result<Support<()>> {
    let advice = match advice {
        Advice::Normal => rustix::fs::Advice::Normal,
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
        Advice::NoReuse => rustix::fs::Advice::NoReuse,
    };
    crate::support::attempt(crate::support::ABSENT, "the file system takes no advice", || {
        rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), advice)
    })
}

/// `Unavailable`: `posix_fadvise(2)` is used on Linux and FreeBSD.
#[cfg(not(target_os = "freebsd"))]
pub fn advise(_file: &File, _advice: Advice, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: macOS only.
pub fn enable_read_ahead(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: macOS only.
pub fn read_advice(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux and macOS only.
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// Brings the file's data and metadata to the device: fsync(2).
pub fn sync(file: &File) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
}

/// `Unavailable`: writes to sockets only on the BSDs.
pub fn sendfile(_src: &File, _src_offset: u64, _dst: &File, _len: usize) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux only.
pub fn clone_file(_src: &File, _dst: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: macOS only.
pub fn clone_path(_src: &Path, _dst: &Path) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: macOS only.
pub fn copy_path_data(_src: &File, _dst: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: nothing tells here what the cache holds.
pub fn residency(_file: &File) -> io::Result<Support<Residency>> {
    Ok(Support::Unavailable("what is cached cannot be told on this system"))
}

/// Drops the file's clean pages from the cache, where [`advise`] is available. The caller has synced the file.
pub fn drop_from_cache(file: &File) -> io::Result<Support<()>> {
    advise(file, Advice::DontNeed, 0, 0)
}

/// `Unavailable`: Linux only.
pub fn drop_system_caches() -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`, as extended attributes are.
pub fn set_extended_attribute(_file: BorrowedFd<'_>, _name: &CStr, _value: &[u8]) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`, as extended attributes are.
pub fn remove_extended_attribute(_file: BorrowedFd<'_>, _name: &CStr) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// Nothing to copy: flags of inodes are known on Linux only.
pub fn copy_inode_flags(_from: &File, _to: &File) -> io::Result<()> {
    Ok(())
}

/// The file system behind `path`: statvfs(3), which does not tell its type.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::statvfs(path))?))
}

/// The file system of an open file: fstatvfs(3), which does not tell its type.
pub fn file_system_of(file: impl AsFd) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::fstatvfs(&file))?))
}

fn described(space: &rustix::fs::StatVfs) -> FileSystem {
    FileSystem {
        type_name: "unknown".to_owned(),
        block_bytes: space.f_frsize,
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        read_only: space.f_flag.contains(StatVfsMountFlags::RDONLY),
        is_network: false,
        inodes_identify: false,
    }
}

/// No: what the file system is cannot be told.
pub fn inodes_identify(_file: impl AsFd) -> io::Result<bool> {
    Ok(false)
}

/// `Unavailable`: Linux and macOS only.
pub fn process_io() -> io::Result<Support<ProcessIo>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux and macOS only.
pub fn memory() -> io::Result<Support<Memory>> {
    Ok(Support::Unavailable(MISSING))
}

/// The buffer of splice(2), which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Pipe(Infallible);

impl Pipe {
    /// Always `Unavailable` here.
    pub fn new(_capacity_bytes: usize) -> io::Result<Support<Self>> {
        Ok(Support::Unavailable("splice exists on Linux only"))
    }

    /// The bytes that fit in.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match self.0 {}
    }

    /// Moves bytes of a file into the pipe.
    pub fn fill(&self, _src: &File, _offset: u64, _len: usize) -> io::Result<Support<usize>> {
        match self.0 {}
    }

    /// Moves bytes out of the pipe into a file.
    pub fn drain(&self, _dst: &File, _offset: u64, _len: usize) -> io::Result<Support<usize>> {
        match self.0 {}
    }
}

/// No advice is given for maps here.
///
/// # Safety
/// None needed; the other platforms' functions need the range to be a live mapping.
pub(crate) unsafe fn advise_map(
    _address: *mut libc::c_void,
    _len: usize,
    _advice: MapAdvice,
) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// Huge pages are not asked for here.
///
/// # Safety
/// None needed; Linux needs the range to be memory of the caller's own.
pub(crate) unsafe fn prefer_huge_pages(_address: *mut libc::c_void, _len: usize) {}

/// Where this thread's errno lives, for a signal handler that must leave it as it was.
pub(crate) fn errno_location() -> *mut libc::c_int {
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    use libc::___errno as location;
    #[cfg(any(target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as location;
    #[cfg(target_os = "dragonfly")]
    use libc::__errno_location as location;
    #[cfg(target_os = "freebsd")]
    use libc::__error as location;
    // SAFETY: always safe to call; the C library gives the address of the calling thread's own variable.
    unsafe { location() }
}

/// Tells all entries of an open directory with inode and type, from the beginning, but for `.` and `..`: readdir(3).
/// `None`, as there are no more.
pub fn list_entries(directory: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr, u64, FileType)) -> io::Result<Option<u64>> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name, entry.ino(), entry.file_type());
        }
    }
    Ok(None)
}

/// `Unavailable`: flags of files are other systems' own.
pub fn protection(_path: &Path) -> io::Result<Support<Option<&'static str>>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: those of other systems have other names and calls.
pub fn extended_attributes(_file: BorrowedFd<'_>) -> io::Result<Support<ExtendedAttributes>> {
    Ok(Support::Unavailable(MISSING))
}
