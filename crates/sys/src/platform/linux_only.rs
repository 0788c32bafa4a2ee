//! What only Linux has: the same functions for all other systems, which say so.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::directory::Directory;
use crate::support::Support;
use crate::types::{ExtendedAttributes, Extent, LeaseKind};

/// `Unavailable`: Linux only.
pub fn die_with_parent() -> io::Result<Support<()>> {
    Ok(Support::Unavailable("processes end with their parent on Linux only"))
}

/// getrusage(2) is all there is.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    None
}

/// `Unavailable`: Linux only.
pub fn file_system_uuid(_file: &File) -> io::Result<Support<Vec<u8>>> {
    Ok(Support::Unavailable("the UUID of a file system is read on Linux only"))
}

/// `Unavailable`: there is no readahead(2); see [`read_advice`].
pub fn readahead(_file: &File, _offset: u64, _len: usize) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("readahead exists on Linux only"))
}

/// `Unavailable`: no call makes a file longer that could not make it shorter.
pub fn extend(_file: &File, _bytes: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("there is no call that only makes a file longer"))
}

/// `Unavailable`: Linux only.
pub fn sync_file_system(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("one file system alone is synced on Linux only"))
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn read_at_dontcache(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached reads through the cache exist on Linux only",
    ))
}

/// `Unavailable`: there is no `RWF_NOWAIT`.
pub fn read_at_nowait(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<Support<Option<usize>>> {
    Ok(Support::Unavailable("reads that do not wait exist on Linux only"))
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn write_at_dontcache(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached writes through the cache exist on Linux only",
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

/// `Unavailable`: Linux only.
pub fn unwritten_bytes(_file: &File) -> io::Result<Support<u64>> {
    Ok(Support::Unavailable("what is to be written back is told on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn extents(_file: &File) -> io::Result<Support<Vec<Extent>>> {
    Ok(Support::Unavailable("where data lies is told on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn extents_as_known(_file: &File) -> io::Result<Support<Vec<Extent>>> {
    Ok(Support::Unavailable("where data lies is told on Linux only"))
}

/// No: where data lies is not told here.
pub fn is_one_address_space(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// `Unavailable`: Linux only.
pub fn next_hole(_file: &File, _offset: u64) -> io::Result<Support<u64>> {
    Ok(Support::Unavailable("holes are looked for on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn next_data(_file: &File, _offset: u64) -> io::Result<Support<Option<u64>>> {
    Ok(Support::Unavailable("holes are looked for on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn collapse_range(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("ranges are cut out of files on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("holes are punched on Linux only"))
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

/// Not told: who asks opens the file and tries.
#[must_use]
pub fn is_locked(_device: u64, _inode: u64) -> bool {
    false
}

/// `Unavailable`: Linux only.
pub fn unnamed_file(_directory: &Directory) -> io::Result<Support<(File, PathBuf)>> {
    Ok(Support::Unavailable("files without a name exist on Linux only"))
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

/// No: there are no leases here.
pub fn leases_bind_all_writers(_file: impl AsFd) -> io::Result<bool> {
    Ok(false)
}

/// `Unavailable`: there is no call relative to a directory.
pub fn extended_attributes_at(_directory: BorrowedFd<'_>, _name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    Ok(Support::Unavailable(
        "those of links and devices cannot be asked for here",
    ))
}
