//! The functions that a platform may lack; here they return `Unavailable`.
//!
//! A platform re-exports all of them, and overrides those that it has.

#![allow(
    dead_code,
    clippy::unnecessary_wraps,
    reason = "a platform's own functions take the place of these, and have answers of these types"
)]

use std::convert::Infallible;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, FileType, OFlags};

use crate::buffer::Buffer;
use crate::directory::Directory;
use crate::support::Support;
use crate::types::{
    Advice, Alignment, Completed, ExtendedAttributes, Extent, LeaseKind, LeaseScope, Memory, ProcessIo, Request,
    Residency,
};

const MISSING: &str = "not used on this system";

/// getrusage(2) counts `ru_maxrss` in KiB on Linux and the BSDs.
pub(crate) const MAX_RSS_UNIT_BYTES: u64 = 1024;

/// FreeBSD does not reserve swap for maps, so mmap(2) has no such flag.
pub(crate) const MAP_NORESERVE: libc::c_int = 0;

/// open(2) has no flag that bypasses the page cache.
pub(crate) const DIRECT: OFlags = OFlags::empty();

/// The flag of open(2) by which each write returns with its data on the device.
pub(crate) const WRITE_THROUGH: OFlags = OFlags::SYNC;

/// Maps are filled at once on Linux only.
pub(crate) const POPULATE_READ: Option<rustix::mm::Advice> = None;

/// `Unavailable`: direct I/O is not used here.
pub(crate) fn bypass_cache(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("direct I/O is not used on this system"))
}

/// `Unavailable`: direct I/O is not used here.
pub fn direct_alignment(_file: &File) -> io::Result<Support<Alignment>> {
    Ok(Support::Unavailable("direct I/O is not used on this system"))
}

/// `Unavailable`: Linux and macOS only.
pub(crate) fn exchange(_directory: BorrowedFd<'_>, _one: &OsStr, _other: &OsStr) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux and macOS only.
pub(crate) fn rename_new(
    _from: BorrowedFd<'_>,
    _name: &OsStr,
    _to: BorrowedFd<'_>,
    _new_name: &OsStr,
) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux only.
pub fn die_with_parent() -> io::Result<Support<()>> {
    Ok(Support::Unavailable("processes end with their parent on Linux only"))
}

/// `Unavailable`: priorities are left as they are.
pub fn lower_priority() -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// getrusage(2) is all there is.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    None
}

/// `Unavailable`: Linux and macOS only.
pub fn process_io() -> io::Result<Support<ProcessIo>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux and macOS only.
pub fn memory() -> io::Result<Support<Memory>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux only.
pub fn file_system_uuid(_file: &File) -> io::Result<Support<Vec<u8>>> {
    Ok(Support::Unavailable("the UUID of a file system is read on Linux only"))
}

/// No: the type of the file system is unknown.
pub fn inodes_identify(_file: impl AsFd) -> io::Result<bool> {
    Ok(false)
}

/// `Unavailable`: `posix_fadvise(2)` is used on Linux and FreeBSD.
pub fn advise(_file: &File, _advice: Advice, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("this system has no posix_fadvise"))
}

/// `Unavailable`: there is no readahead(2); see [`read_advice`].
pub fn readahead(_file: &File, _offset: u64, _len: usize) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("readahead exists on Linux only"))
}

/// `Unavailable`: those of other systems have other calls.
pub fn access_list(_file: impl AsFd) -> io::Result<Support<Option<Vec<u8>>>> {
    Ok(Support::Unavailable(MISSING))
}

/// Only Linux has paths that open an open file again, with a position of its own.
#[must_use]
pub fn descriptor_path(_file: &File) -> Option<PathBuf> {
    None
}

/// Only Linux lets reading leave the time of access as it is.
pub const NO_ATIME: OFlags = OFlags::empty();

/// Only Linux has handles that stand for a place alone.
pub const PATH_ONLY: OFlags = OFlags::empty();

/// Only Linux tells.
#[must_use]
pub fn is_mount_root(_directory: impl AsFd) -> bool {
    false
}

/// Only Linux tells.
#[must_use]
pub fn mount_id(_directory: impl AsFd) -> Option<u64> {
    None
}

/// Switches the system's own read-ahead on; only macOS has it per file (`F_RDAHEAD`).
pub fn enable_read_ahead(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("read-ahead is switched per file on macOS only"))
}

/// Starts fetching a range; only macOS has this call (`F_RDADVISE`).
pub fn read_advice(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("read advice exists on macOS only"))
}

/// `Unavailable`: the system does not report what is cached.
pub fn residency(_file: &File) -> io::Result<Support<Residency>> {
    Ok(Support::Unavailable("this system does not report what is cached"))
}

/// `Unavailable`: Linux only.
pub fn unwritten_bytes(_file: &File) -> io::Result<Support<u64>> {
    Ok(Support::Unavailable("unwritten pages are reported on Linux only"))
}

/// `Unavailable`: Linux and macOS only.
pub fn write_back(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux only.
pub fn drop_system_caches() -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: Linux only.
pub fn may_drop_system_caches() -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn read_at_dontcache(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached reads through the cache exist on Linux only",
    ))
}

/// `Unavailable`: there is no `RWF_NOWAIT`.
pub fn read_at_nowait(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<Support<Option<usize>>> {
    Ok(Support::Unavailable("non-blocking reads of files exist on Linux only"))
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn write_at_dontcache(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached writes through the cache exist on Linux only",
    ))
}

/// `Unavailable`: Linux and macOS only.
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: no call makes a file longer that could not make it shorter.
pub fn extend(_file: &File, _bytes: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("this system has no call that only extends a file"))
}

/// Brings the file's data and metadata to the device: fsync(2).
pub fn sync(file: &File) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
}

/// `Unavailable`: Linux only.
pub fn sync_file_system(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(
        "one file system alone can be synced on Linux only",
    ))
}

/// `Unavailable`: Linux only.
pub fn copy_file_range(
    _src: &File,
    _src_offset: u64,
    _dst: &File,
    _dst_offset: u64,
    _len: usize,
) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable("copy_file_range is used on Linux only"))
}

/// `Unavailable`: writes to sockets only.
pub fn sendfile(_src: &File, _src_offset: u64, _dst: &File, _len: usize) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable("sendfile writes to files on Linux only"))
}

/// `Unavailable`: macOS clones files by path, see [`clone_path`].
pub fn clone_file(_src: &File, _dst: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("open files can be cloned on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn share_range(_src: &File, _dst: &File, _offset: u64, _len: u64) -> io::Result<Support<Option<u64>>> {
    Ok(Support::Unavailable("ranges of files are shared on Linux only"))
}

/// Makes `dst`, which must not exist, a clone of `src`; only macOS has this call (clonefile(2)).
pub fn clone_path(_src: &Path, _dst: &Path) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("clonefile exists on macOS only"))
}

/// Copies the data of `src` into `dst`; only macOS has this call (fcopyfile(3)).
pub fn copy_path_data(_src: &File, _dst: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("fcopyfile exists on macOS only"))
}

/// `Unavailable`: Linux only.
pub fn extents(_file: &File, _within: Range<u64>) -> io::Result<Support<Vec<Extent>>> {
    Ok(Support::Unavailable("extents are reported on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn extents_as_known(_file: &File, _within: Range<u64>) -> io::Result<Support<Vec<Extent>>> {
    Ok(Support::Unavailable("extents are reported on Linux only"))
}

/// No: the system does not report where data is.
pub fn is_one_address_space(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// `Unavailable`: Linux only.
pub fn next_hole(_file: &File, _offset: u64) -> io::Result<Support<u64>> {
    Ok(Support::Unavailable("holes can be found on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn next_data(_file: &File, _offset: u64) -> io::Result<Support<Option<u64>>> {
    Ok(Support::Unavailable("holes can be found on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn collapse_range(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("ranges can be cut out of files on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("holes can be punched on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn take_lease(_file: &File, _kind: LeaseKind) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("leases exist on Linux only"))
}

/// Never: there is none to take.
#[must_use]
pub fn holds_lease(_file: &File, _kind: LeaseKind) -> bool {
    false
}

/// Nothing: there is none to end.
pub fn end_lease(_file: &File) {}

/// `Unavailable`: Linux only.
pub fn lease_scope(_file: impl AsFd) -> io::Result<Support<LeaseScope>> {
    Ok(Support::Unavailable("leases exist on Linux only"))
}

/// Not known.
#[must_use]
pub fn was_closed(_descriptor: u8) -> bool {
    false
}

/// The files that processes have mapped shared: nothing, because that is read on Linux only.
#[derive(Debug)]
pub struct SharedMappings(());

/// `Unavailable`: Linux only.
pub fn shared_mappings() -> io::Result<Support<SharedMappings>> {
    Ok(Support::Unavailable(
        "the mappings of other processes are read on Linux only",
    ))
}

impl SharedMappings {
    /// Never asked: there is none.
    ///
    /// # Errors
    /// None.
    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub fn has(&self, _file: &File) -> io::Result<bool> {
        Ok(true)
    }
}

/// Unknown: read on Linux only.
#[must_use]
pub fn has_open(_process: &str, _device: u64, _inode: u64) -> bool {
    false
}

/// Unknown: the caller opens the file and tries to lock it.
#[must_use]
pub fn is_locked(_device: u64, _inode: u64) -> bool {
    false
}

/// `Unavailable`: Linux only.
pub fn unnamed_file(_directory: &Directory) -> io::Result<Support<(File, PathBuf)>> {
    Ok(Support::Unavailable("unnamed files exist on Linux only"))
}

/// Never called: there is no file without a name.
pub fn name_file(_unnamed: &Path, _directory: &Directory, _name: &OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No: files have capabilities on Linux only.
#[must_use]
pub fn has_capabilities(_file: &File) -> bool {
    false
}

/// `Unavailable`: flags of files are other systems' own.
pub fn protection(_path: &Path) -> io::Result<Support<Option<&'static str>>> {
    Ok(Support::Unavailable(MISSING))
}

/// Nothing to copy: flags of inodes are known on Linux only.
pub fn copy_inode_flags(_from: &File, _to: &File) -> io::Result<()> {
    Ok(())
}

/// `Unavailable`: flags of inodes are known on Linux only.
pub fn extended_flags(_file: &File) -> io::Result<Support<[u32; 4]>> {
    Ok(Support::Unavailable("extended flags of files are read on Linux only"))
}

/// `None`: projects of files are known on Linux only.
#[must_use]
pub fn inherited_project(_directory: &File) -> Option<u32> {
    None
}

/// False: leases are taken on Linux only.
#[must_use]
pub fn may_lease_all() -> bool {
    false
}

/// `None`: there are no user namespaces.
#[must_use]
pub fn id_maps() -> Option<crate::types::IdMaps> {
    None
}

/// Nothing: there are none to set.
pub fn set_extended_flags(_file: &File, _flags: [u32; 4]) -> io::Result<()> {
    Ok(())
}

/// `Unavailable`: Linux only.
pub fn inode_flags(_file: &File) -> io::Result<Support<u32>> {
    Ok(Support::Unavailable("flags of files are known on Linux only"))
}

/// Nothing to set: flags of inodes are known on Linux only.
pub fn set_inode_flags(_file: &File, _flags: u32) -> io::Result<()> {
    Ok(())
}

/// `Unavailable`: those of other systems have other names and calls.
pub fn extended_attributes(_file: BorrowedFd<'_>) -> io::Result<Support<ExtendedAttributes>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`: there is no call relative to a directory.
pub fn extended_attributes_at(_directory: BorrowedFd<'_>, _name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    Ok(Support::Unavailable(
        "the attributes of links and devices are unavailable on this system",
    ))
}

/// `Unavailable`, as extended attributes are.
pub fn set_extended_attribute(_file: BorrowedFd<'_>, _name: &CStr, _value: &[u8]) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// `Unavailable`, as extended attributes are.
pub fn remove_extended_attribute(_file: BorrowedFd<'_>, _name: &CStr) -> io::Result<Support<()>> {
    Ok(Support::Unavailable(MISSING))
}

/// Calls `each` for all entries of an open directory, from its start, with inode and type, but without `.` and `..`:
/// readdir(3). Returns `None`, because there are no more.
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

/// Huge pages are not requested here.
///
/// # Safety
/// None needed; Linux needs the range to be memory of the caller's own.
pub(crate) unsafe fn prefer_huge_pages(_address: *mut libc::c_void, _len: usize) {}

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

/// A ring of `io_uring`, which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Ring(Infallible);

impl Ring {
    /// Always `Unavailable` here.
    pub fn new(_depth: u32, _buffer_bytes: usize, _align: usize) -> io::Result<Support<Self>> {
        Ok(Support::Unavailable("io_uring exists on Linux only"))
    }

    /// How many slots there are.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self.0 {}
    }

    /// Queues a request.
    pub fn queue(&mut self, _slot: u32, _file: &Arc<File>, _request: &Request) -> io::Result<()> {
        match self.0 {}
    }

    /// Submits what is queued.
    pub fn submit(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for a request.
    pub fn wait(&mut self) -> io::Result<Completed> {
        match self.0 {}
    }

    /// A slot's buffer.
    #[must_use]
    pub fn buffer(&self, _slot: u32) -> &[u8] {
        match self.0 {}
    }

    /// A slot's buffer, to change it.
    #[must_use]
    pub fn buffer_mut(&mut self, _slot: u32) -> &mut [u8] {
        match self.0 {}
    }

    /// How many requests are queued or in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        match self.0 {}
    }

    /// How many times the kernel was entered.
    #[must_use]
    pub fn calls(&self) -> u64 {
        match self.0 {}
    }
}

/// One request of POSIX AIO, which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Aio(Infallible);

impl Aio {
    /// Always `Unavailable` here.
    #[must_use]
    pub fn new(_buffer: Buffer) -> Support<Self> {
        Support::Unavailable("POSIX AIO is used with glibc and on macOS only")
    }

    /// Starts reading into the buffer.
    pub fn start_read(&mut self, _file: &Arc<File>, _offset: u64, _len: usize) -> io::Result<()> {
        match self.0 {}
    }

    /// Starts writing from the buffer.
    pub fn start_write(&mut self, _file: &Arc<File>, _offset: u64, _len: usize) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for the request.
    pub fn wait(&mut self) -> io::Result<usize> {
        match self.0 {}
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        match self.0 {}
    }

    /// The buffer, to change it.
    #[must_use]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        match self.0 {}
    }
}

/// A ring that opens files, which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct HeadRing(Infallible);

impl HeadRing {
    /// Always `Unavailable` here.
    #[must_use]
    pub fn new(_files: u32, _head_bytes: usize) -> Support<Self> {
        Support::Unavailable("io_uring exists on Linux only")
    }

    /// Opens files and reads their beginnings.
    pub fn read(&mut self, _files: &[(BorrowedFd<'_>, &[u8], OFlags)], _bytes: usize) -> io::Result<()> {
        match self.0 {}
    }

    /// What was read of a file.
    #[must_use]
    pub fn head(&self, _file: usize) -> Option<&[u8]> {
        match self.0 {}
    }

    /// Whether a file could not be read without waiting.
    #[must_use]
    pub fn is_missed(&self, _file: usize) -> bool {
        match self.0 {}
    }

    /// Descriptors of open files.
    pub fn descriptors(&mut self, _files: impl Iterator<Item = usize> + Clone) -> io::Result<Vec<Option<OwnedFd>>> {
        match self.0 {}
    }

    /// Closes all files.
    pub fn close(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
