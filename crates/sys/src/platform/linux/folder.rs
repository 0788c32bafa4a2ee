//! What is in folders, and extended attributes.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::attributes::attributes;
use crate::support::Support;
use crate::types::ExtendedAttributes;

/// What the kernel fills at a call: some 2,000 entries.
const BUFFER_BYTES: usize = 64 << 10;

/// Tells every entry of an open folder with its inode and type, from the beginning, but for `.` and `..`: getdents64(2).
pub fn list_folder(folder: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr, u64, FileType)) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name, entry.ino(), entry.file_type());
        }
    }
    Ok(())
}

/// The extended attributes, sorted by name, of an entry that cannot be opened or must not be, a symbolic link or a device: llistxattr(2), lgetxattr(2)
/// below `/proc/self/fd`, as there is no call relative to a folder before Linux 6.13.
pub fn extended_attributes_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    let path = path.as_slice();
    let attributes = attributes(
        |buffer| rustix::fs::llistxattr(path, buffer),
        |name, buffer| rustix::fs::lgetxattr(path, name, buffer),
    );
    match attributes {
        Err(Errno::NOENT) if rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXISTS).is_err() => {
            Ok(Support::Unavailable("there is no /proc to reach them through"))
        }
        other => Ok(Support::Available(other?)),
    }
}
