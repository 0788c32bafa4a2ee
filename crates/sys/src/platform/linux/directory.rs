//! Listing directories, and extended attributes of entries.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use crate::shared::attributes;
use crate::support::Support;
use crate::types::ExtendedAttributes;

/// The buffer for a call: about 2,000 entries.
const BUFFER_BYTES: usize = 64 << 10;

/// Calls `each` for the entries of an open directory that one call of getdents64(2) returns, with inode and type, but
/// without `.` and `..`. It continues where the last call ended. Returns the position of the next call, for lseek(2);
/// `None` at the end.
pub fn list_entries(directory: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr, u64, FileType)) -> io::Result<Option<u64>> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let next = entry.next_entry_cookie();
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name, entry.ino(), entry.file_type());
        }
        if entries.is_buffer_empty() {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// The extended attributes, sorted by name, of an entry that cannot be opened or must not be, a symbolic link or a
/// device: llistxattr(2), lgetxattr(2) below `/proc/self/fd`, as there is no call relative to a directory before Linux
/// 6.13.
pub fn extended_attributes_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    let path = path.as_slice();
    let attributes = attributes(
        |buffer| rustix::fs::llistxattr(path, buffer),
        |name, buffer| rustix::fs::lgetxattr(path, name, buffer),
    );
    match attributes {
        Err(Errno::NOENT) if rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXISTS).is_err() => Ok(
            Support::Unavailable("/proc, through which they are read, is not mounted"),
        ),
        other => Ok(Support::Available(other?)),
    }
}
