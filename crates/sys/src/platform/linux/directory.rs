//! Listing directories, and extended attributes of entries.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, RawDir, RawMode, XattrFlags};
use rustix::io::Errno;

use crate::handle::{open_entry, path_of};
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

/// The extended attributes, sorted by name, of an entry that cannot be opened or must not be: a symbolic link, a device.
pub fn extended_attributes_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    extended_attributes_of(open_entry(directory, name)?.as_fd())
}

/// The same of the entry that a handle of [`open_entry`] stands for: listxattr(2), getxattr(2) on its path.
pub fn extended_attributes_of(handle: BorrowedFd<'_>) -> io::Result<Support<ExtendedAttributes>> {
    let path = path_of(handle);
    let attributes = attributes(
        |buffer| rustix::fs::listxattr(path.as_str(), buffer),
        |name, buffer| rustix::fs::getxattr(path.as_str(), name, buffer),
    );
    match attributes {
        Err(Errno::NOENT) if rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXISTS).is_err() => Ok(
            Support::Unavailable("/proc, through which they are read, is not mounted"),
        ),
        other => Ok(Support::Available(other?)),
    }
}

/// Sets an extended attribute of the entry that a handle of [`open_entry`] stands for, or removes it (`None`): setxattr(2),
/// removexattr(2) on its path. As with [`remove_extended_attribute`](crate::remove_extended_attribute), it may be missing.
pub fn set_extended_attribute_of(
    handle: BorrowedFd<'_>,
    attribute: &CStr,
    value: Option<&[u8]>,
) -> io::Result<Support<()>> {
    let path = path_of(handle);
    let changed = match value {
        Some(value) => rustix::fs::setxattr(path.as_str(), attribute, value, XattrFlags::empty()),
        None => match rustix::fs::removexattr(path.as_str(), attribute) {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        },
    };
    Ok(Support::Available(changed?))
}

/// Sets the permissions of the entry, not a symbolic link, that a handle of [`open_entry`] stands for: chmod(2) on its path.
pub fn set_mode_of(handle: BorrowedFd<'_>, mode: u32) -> io::Result<Support<()>> {
    let mode = Mode::from_raw_mode(mode as RawMode);
    let path = path_of(handle);
    rustix::io::retry_on_intr(|| rustix::fs::chmodat(CWD, path.as_str(), mode, AtFlags::empty()))?;
    Ok(Support::Available(()))
}

/// Makes a FIFO, a socket or a device with this major and minor number, and mode 0600: mknodat(2).
pub fn make_node(directory: impl AsFd, name: &CStr, kind: FileType, number: (u32, u32)) -> io::Result<Support<()>> {
    let device = rustix::fs::makedev(number.0, number.1);
    rustix::fs::mknodat(directory, name, kind, Mode::RUSR | Mode::WUSR, device)?;
    Ok(Support::Available(()))
}
