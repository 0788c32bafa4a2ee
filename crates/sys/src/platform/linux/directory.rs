//! Listing directories, and extended attributes of entries.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, RawMode, XattrFlags};
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

/// A path to an entry itself, also a symbolic link, which is valid while the handle is open (proc(5)).
fn place_of(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok((handle, path))
}

/// Sets an extended attribute of an entry that cannot be opened or must not be, or removes it
/// (`None`): setxattr(2), removexattr(2) on its place in `/proc/self/fd`. As with
/// [`remove_extended_attribute`](crate::remove_extended_attribute), it may be missing.
pub fn set_extended_attribute_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: Option<&[u8]>,
) -> io::Result<Support<()>> {
    let (_handle, path) = place_of(directory, name)?;
    let changed = match value {
        Some(value) => rustix::fs::setxattr(path.as_str(), attribute, value, XattrFlags::empty()),
        None => match rustix::fs::removexattr(path.as_str(), attribute) {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        },
    };
    Ok(Support::Available(changed?))
}

/// Sets the permissions of an entry that is no symbolic link and must not be opened: chmod(2) on its place in `/proc/self/fd`.
pub fn set_mode_at(directory: BorrowedFd<'_>, name: &CStr, mode: u32) -> io::Result<Support<()>> {
    let (_handle, path) = place_of(directory, name)?;
    rustix::fs::chmodat(
        CWD,
        path.as_str(),
        Mode::from_raw_mode(mode as RawMode),
        rustix::fs::AtFlags::empty(),
    )?;
    Ok(Support::Available(()))
}

/// Makes a FIFO, a socket or a device with this major and minor number, and mode 0600: mknodat(2).
pub fn make_node(directory: impl AsFd, name: &CStr, kind: FileType, number: (u32, u32)) -> io::Result<Support<()>> {
    let device = rustix::fs::makedev(number.0, number.1);
    rustix::fs::mknodat(directory, name, kind, Mode::RUSR | Mode::WUSR, device)?;
    Ok(Support::Available(()))
}
