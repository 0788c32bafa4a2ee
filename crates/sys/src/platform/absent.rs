//! The functions that a platform may lack; here they return `Unavailable`.
//!
//! A platform re-exports all of them, and overrides those that it has. As nothing is done with their arguments, the tables below
//! have only their types.

#![allow(
    dead_code,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    clippy::must_use_candidate,
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

use rustix::fs::{Dir, FileType, Gid, Mode, OFlags, Timestamps, Uid};

use crate::buffer::Buffer;
use crate::support::Support;
use crate::types::{
    Advice, Alignment, Completed, ExtendedAttributes, Extent, IdMaps, LeaseKind, LeaseScope, Memory, ProcessIo,
    Protection, Residency, RingRequest,
};

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

/// Only Linux lets reading leave the time of access as it is.
pub const NO_ATIME: OFlags = OFlags::empty();

/// Only Linux has handles that stand for a place alone.
pub const PATH_ONLY: OFlags = OFlags::empty();

/// Functions that give `Unavailable`, below their reason.
macro_rules! unavailable {
    ($($reason:literal: $($visible:vis fn $name:ident($($argument:ty),*) -> $value:ty;)+)+) => {$($(
        #[doc = concat!("`Unavailable`: ", $reason, ".")]
        $visible fn $name($(_: $argument),*) -> io::Result<Support<$value>> {
            Ok(Support::Unavailable($reason))
        }
    )+)+};
}

unavailable! {
    "not used on this system":
    pub(crate) fn exchange(BorrowedFd<'_>, &OsStr, &OsStr) -> ();
    pub(crate) fn rename_new(BorrowedFd<'_>, &OsStr, BorrowedFd<'_>, &OsStr) -> ();
    pub fn lower_priority() -> ();
    pub fn process_io() -> ProcessIo;
    pub fn memory() -> Memory;
    pub fn access_list(impl AsFd) -> Option<Vec<u8>>;
    pub fn write_back(&File, u64, u64) -> ();
    pub fn drop_system_caches() -> ();
    pub fn may_drop_system_caches() -> ();
    pub fn allocate(&File, u64, u64) -> ();
    pub fn protection(&Path) -> Option<Protection>;
    pub fn extended_attributes(BorrowedFd<'_>) -> ExtendedAttributes;
    pub fn set_extended_attribute(BorrowedFd<'_>, &CStr, &[u8]) -> ();
    pub fn remove_extended_attribute(BorrowedFd<'_>, &CStr) -> ();

    "the attributes of links and devices are unavailable on this system":
    pub fn extended_attributes_at(BorrowedFd<'_>, &CStr) -> ExtendedAttributes;
    pub fn extended_attributes_of(BorrowedFd<'_>) -> ExtendedAttributes;

    "direct I/O is not used on this system":
    pub(crate) fn bypass_cache(&File) -> ();
    pub fn direct_alignment(&File) -> Alignment;

    "processes end with their parent on Linux only":
    pub fn die_with_parent() -> ();

    "the UUID of a file system is read on Linux only":
    pub fn file_system_uuid(&File) -> Vec<u8>;

    "this system has no posix_fadvise":
    pub fn advise(&File, Advice, u64, u64) -> ();

    "readahead exists on Linux only":
    pub fn readahead(&File, u64, usize) -> ();

    "read-ahead is switched per file on macOS only":
    pub fn enable_read_ahead(&File) -> ();

    "read advice exists on macOS only":
    pub fn read_advice(&File, u64, u64) -> ();

    "this system does not report what is cached":
    pub fn residency(&File) -> Residency;

    "unwritten pages are reported on Linux only":
    pub fn unwritten_bytes(&File) -> u64;

    "uncached reads through the cache exist on Linux only":
    pub fn read_at_dontcache(&File, &mut [u8], u64) -> usize;

    "non-blocking reads of files exist on Linux only":
    pub fn read_at_nowait(&File, &mut [u8], u64) -> Option<usize>;

    "uncached writes through the cache exist on Linux only":
    pub fn write_at_dontcache(&File, &[u8], u64) -> usize;

    "this system has no call that only extends a file":
    pub fn extend(&File, u64) -> ();

    "one file system alone can be synced on Linux only":
    pub fn sync_file_system(&File) -> ();

    "copy_file_range is used on Linux only":
    pub fn copy_file_range(&File, u64, &File, u64, usize) -> usize;

    "sendfile writes to files on Linux only":
    pub fn sendfile(&File, u64, &File, usize) -> usize;

    "open files can be cloned on Linux only":
    pub fn clone_file(&File, &File) -> ();

    "ranges of files are shared on Linux only":
    pub fn share_range(&File, &File, u64, u64) -> Option<u64>;

    "clonefile exists on macOS only":
    pub fn clone_path(&Path, &Path) -> ();

    "fcopyfile exists on macOS only":
    pub fn copy_path_data(&File, &File) -> ();

    "extents are reported on Linux only":
    pub fn extents(&File, Range<u64>) -> Vec<Extent>;
    pub fn extents_as_known(&File, Range<u64>) -> Vec<Extent>;

    "holes can be found on Linux only":
    pub fn next_hole(&File, u64) -> u64;
    pub fn next_data(&File, u64) -> Option<u64>;

    "ranges can be cut out of files on Linux only":
    pub fn collapse_range(&File, u64, u64) -> ();

    "holes can be punched on Linux only":
    pub fn punch_hole(&File, u64, u64) -> ();

    "real-time priorities are used on Linux only":
    pub fn run_in_real_time(u8) -> ();

    "loop devices exist on Linux only":
    pub fn attach_loop(&File, u32) -> PathBuf;
    pub fn detach_loop(&Path) -> ();

    "leases exist on Linux only":
    pub fn take_lease(&File, LeaseKind) -> ();
    pub fn lease_scope(impl AsFd) -> LeaseScope;

    "the mappings of other processes are read on Linux only":
    pub fn shared_mappings() -> SharedMappings;

    "unnamed files exist on Linux only":
    pub fn unnamed_file(impl AsFd) -> (File, PathBuf);
    pub fn unnamed_file_with(impl AsFd, u32) -> (File, PathBuf);

    "special files are made on Linux only":
    pub fn make_node(impl AsFd, &CStr, FileType, (u32, u32)) -> ();

    "only Linux has paths to what must not be opened":
    pub fn set_extended_attribute_of(BorrowedFd<'_>, &CStr, Option<&[u8]>) -> ();
    pub fn set_mode_of(BorrowedFd<'_>, u32) -> ();

    "extended flags of files are read on Linux only":
    pub fn extended_flags(&File) -> [u32; 4];

    "flags of files are known on Linux only":
    pub fn inode_flags(&File) -> u32;
}

/// Functions that give one answer, whatever they are asked.
macro_rules! answered {
    ($($(#[$about:meta])+ $visible:vis fn $name:ident($($argument:ty),*) -> $value:ty = $answer:expr;)+) => {$(
        $(#[$about])+
        $visible fn $name($(_: $argument),*) -> $value {
            $answer
        }
    )+};
}

answered! {
    /// getrusage(2) is all there is.
    pub(crate) fn peak_memory_bytes() -> Option<u64> = None;
    /// No: the type of the file system is unknown.
    pub fn inodes_identify(impl AsFd) -> io::Result<bool> = Ok(false);
    /// No: the system does not report where data is.
    pub fn is_one_address_space(&File) -> io::Result<bool> = Ok(false);
    /// Only Linux has paths that open an open file again, with a position of its own.
    pub fn descriptor_path(&File) -> Option<PathBuf> = None;
    /// Only Linux tells.
    pub fn is_mount_root(impl AsFd) -> bool = false;
    /// Only Linux tells.
    pub fn mount_id(impl AsFd) -> Option<u64> = None;
    /// Only Linux tells.
    pub fn unique_mount_id(impl AsFd) -> Option<u64> = None;
    /// Never: there is none to take.
    pub fn holds_lease(&File, LeaseKind) -> bool = false;
    /// Nothing: there is none to end.
    pub fn end_lease(&File) -> () = ();
    /// False: leases are taken on Linux only.
    pub fn may_lease_all() -> bool = false;
    /// No: the limit holds for all.
    pub fn may_lock_all() -> bool = false;
    /// Not known.
    pub fn was_closed(u8) -> bool = false;
    /// Unknown: read on Linux only.
    pub fn has_open(&str, u64, u64) -> bool = false;
    /// Unknown: the caller opens the file and tries to lock it.
    pub fn is_locked(u64, u64) -> bool = false;
    /// Only Linux has leases.
    pub fn keeps_lease(&File) -> bool = false;
    /// Never called: there is no file without a name.
    pub fn name_file(&Path, impl AsFd, &OsStr) -> io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    /// Never: only Linux can.
    pub fn name_open_file(&File, impl AsFd, &OsStr) -> io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    /// No: there is no XFS.
    pub fn is_xfs_without_reflinks(&File) -> bool = false;
    /// No: files have capabilities on Linux only.
    pub fn has_capabilities(&File) -> bool = false;
    /// Nothing to copy: flags of inodes are known on Linux only.
    pub fn copy_inode_flags(&File, &File) -> io::Result<()> = Ok(());
    /// Nothing: there are none to set.
    pub fn set_inode_flags(&File, u32) -> io::Result<()> = Ok(());
    /// Nothing: there are none to set.
    pub fn set_extended_flags(&File, [u32; 4]) -> io::Result<()> = Ok(());
    /// `None`: projects of files are known on Linux only.
    pub fn inherited_project(&File) -> Option<u32> = None;
    /// `None`: there are no user namespaces.
    pub fn id_maps() -> Option<IdMaps> = None;
}

/// Brings the file's data and metadata to the device: fsync(2).
pub fn sync(file: &File) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
}

/// Opens an entry that is not a symbolic link for its attributes: open(2).
pub fn open_entry(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// Sets owner and group by a handle of [`open_entry`]: fchown(2).
pub fn set_owner_of(handle: BorrowedFd<'_>, owner: Option<Uid>, group: Option<Gid>) -> rustix::io::Result<()> {
    rustix::fs::fchown(handle, owner, group)
}

/// Sets the times by a handle of [`open_entry`]: futimens(3).
pub fn set_times_of(handle: BorrowedFd<'_>, times: &Timestamps) -> rustix::io::Result<()> {
    rustix::fs::futimens(handle, times)
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

/// Types that this platform lacks: there is no value of them, so their methods are never called.
macro_rules! without_values {
    ($(
        $(#[$about:meta])+
        $type:ident { $(new($($given:ty),*) -> $made:ty = $answer:expr;)?
            $(fn $name:ident($receiver:ty $(, $argument:ty)*) -> $value:ty;)+
        }
    )+) => {$(
        $(#[$about])+
        #[derive(Debug)]
        pub struct $type(Infallible);

        impl $type {
            $(
                /// Always `Unavailable` here.
                pub fn new($(_: $given),*) -> $made {
                    $answer
                }
            )?
            $(
                /// Never called: there is no value of this type.
                pub fn $name(self: $receiver $(, _: $argument)*) -> $value {
                    match self.0 {}
                }
            )+
        }
    )+};
}

without_values! {
    /// The files that processes have mapped shared.
    SharedMappings {
        fn has(&Self, &File) -> io::Result<bool>;
    }

    /// The buffer of splice(2).
    Pipe {
        new(usize) -> io::Result<Support<Self>> = Ok(Support::Unavailable("splice exists on Linux only"));
        fn capacity(&Self) -> usize;
        fn fill(&Self, &File, u64, usize) -> io::Result<Support<usize>>;
        fn drain(&Self, &File, u64, usize) -> io::Result<Support<usize>>;
    }

    /// A ring of `io_uring`.
    Ring {
        new(u32, usize, usize) -> io::Result<Support<Self>> = Ok(Support::Unavailable("io_uring exists on Linux only"));
        fn depth(&Self) -> u32;
        fn queue(&mut Self, u32, &Arc<File>, &RingRequest) -> io::Result<()>;
        fn submit(&mut Self) -> io::Result<()>;
        fn wait(&mut Self) -> io::Result<Completed>;
        fn buffer(&Self, u32) -> &[u8];
        fn buffer_mut(&mut Self, u32) -> &mut [u8];
        fn exchange(&mut Self, u32, Buffer) -> Buffer;
        fn in_flight(&Self) -> u32;
        fn calls(&Self) -> u64;
    }

    /// One request of POSIX AIO.
    Aio {
        new(Buffer) -> Support<Self> = Support::Unavailable("POSIX AIO is used with glibc and on macOS only");
        fn start_read(&mut Self, &Arc<File>, u64, usize) -> io::Result<()>;
        fn start_write(&mut Self, &Arc<File>, u64, usize) -> io::Result<()>;
        fn wait(&mut Self) -> io::Result<usize>;
        fn buffer(&Self) -> &[u8];
        fn buffer_mut(&mut Self) -> &mut [u8];
    }

    /// A ring that opens files.
    HeadRing {
        new(u32, usize) -> Support<Self> = Support::Unavailable("io_uring exists on Linux only");
        fn read(&mut Self, &[(BorrowedFd<'_>, &[u8], OFlags)], usize) -> io::Result<()>;
        fn head(&Self, usize) -> Option<&[u8]>;
        fn is_missed(&Self, usize) -> bool;
        fn descriptors(&mut Self, impl Iterator<Item = usize> + Clone) -> io::Result<Vec<Option<OwnedFd>>>;
        fn close(&mut Self) -> io::Result<()>;
    }
}
