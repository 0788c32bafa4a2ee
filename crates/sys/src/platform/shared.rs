//! Calls that are the same on Linux and macOS: extended attributes, which may change while they are read, and
//! exchanging names.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::RenameFlags;
use rustix::io::{Errno, Result};

use crate::support::{ABSENT, Support, attempt};
use crate::types::ExtendedAttributes;

/// Exchanges two names in a directory: renameat2(2) `RENAME_EXCHANGE`, on macOS `renameatx_np(2)` `RENAME_SWAP`.
pub(crate) fn exchange(directory: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<Support<()>> {
    let absent = [ABSENT, &[Errno::INVAL]].concat();
    attempt(&absent, "the file system cannot exchange two names", || {
        rustix::fs::renameat_with(directory, one, directory, other, RenameFlags::EXCHANGE)
    })
}

/// Renames a file, unless the new name is taken: renameat2(2) `RENAME_NOREPLACE`, on macOS `renameatx_np(2)` `RENAME_EXCL`.
pub(crate) fn rename_new(
    from: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<Support<()>> {
    let absent = [ABSENT, &[Errno::INVAL]].concat();
    attempt(&absent, "the file system cannot rename without replacing", || {
        rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE)
    })
}

/// The extended attributes of an open file, sorted by name: flistxattr(2), fgetxattr(2). Empty if the file system has
/// none.
pub fn extended_attributes(file: BorrowedFd<'_>) -> io::Result<Support<ExtendedAttributes>> {
    let attributes = attributes(
        |buffer| rustix::fs::flistxattr(file, buffer),
        |name, buffer| rustix::fs::fgetxattr(file, name, buffer),
    );
    Ok(Support::Available(attributes?))
}

/// Sets an extended attribute of an open file: fsetxattr(2).
pub fn set_extended_attribute(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> io::Result<Support<()>> {
    rustix::fs::fsetxattr(file, name, value, rustix::fs::XattrFlags::empty())?;
    Ok(Support::Available(()))
}

/// Removes an extended attribute of an open file: fremovexattr(2). A missing one is not an error, because some
/// attributes have two names.
pub fn remove_extended_attribute(file: BorrowedFd<'_>, name: &CStr) -> io::Result<Support<()>> {
    match rustix::fs::fremovexattr(file, name) {
        Err(error) if error != GONE => Err(error.into()),
        _ => Ok(Support::Available(())),
    }
}

/// All attributes, sorted by name, without those that are removed while they are read. The entries of access control lists are
/// sorted, because their order means nothing.
pub(crate) fn attributes(
    list: impl Fn(&mut [u8]) -> Result<usize>,
    get: impl Fn(&CStr, &mut [u8]) -> Result<usize>,
) -> Result<ExtendedAttributes> {
    let names = match whole(&list) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        other => other?,
    };
    let mut attributes = Vec::new();
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        match whole(&|buffer: &mut [u8]| get(name, buffer)) {
            Ok(mut value) => {
                if name.to_bytes().starts_with(b"system.posix_acl_") {
                    sort_entries(&mut value);
                }
                attributes.push((name.to_bytes().to_vec(), value));
            }
            Err(error) if error == GONE => {}
            Err(error) => return Err(error),
        }
    }
    attributes.sort_unstable();
    Ok(attributes)
}

/// Sorts the entries of an access control list by kind and ID, as setfacl(1) does: `linux/posix_acl_xattr.h`.
fn sort_entries(list: &mut [u8]) {
    let entries = list.get_mut(4..).unwrap_or_default();
    let (entries, _) = entries.as_chunks_mut::<8>();
    entries.sort_by_key(|&[tag, tag_high, _, _, a, b, c, d]| {
        let (tag, id) = ([tag, tag_high], [a, b, c, d]);
        (u16::from_le_bytes(tag), u32::from_le_bytes(id))
    });
}

#[cfg(target_os = "linux")]
const GONE: Errno = Errno::NODATA;
#[cfg(not(target_os = "linux"))]
const GONE: Errno = Errno::NOATTR;

/// Reads a list or value. If it does not fit, repeats with twice the space.
fn whole(read: &dyn Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < MOST_BYTES => buffer.resize(buffer.len() * 2, 0),
            Err(error) => return Err(error),
        }
    }
}

/// More than any system allows for a list or a value.
const MOST_BYTES: usize = 1 << 26;
