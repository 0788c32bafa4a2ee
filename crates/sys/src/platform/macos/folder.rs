//! What is in folders, and extended attributes.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{Dir, FileType};

use crate::attributes::attributes;
use crate::support::Support;
use crate::types::ExtendedAttributes;

/// Tells every entry of an open folder with its inode and type, from the beginning, but for `.` and `..`: readdir(3).
pub fn list_folder(folder: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr, u64, FileType)) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name, entry.ino(), entry.file_type());
        }
    }
    Ok(())
}

/// The extended attributes of an open file, sorted by name: flistxattr(2), fgetxattr(2). None where the file system has none.
pub fn extended_attributes(file: BorrowedFd<'_>) -> io::Result<Support<ExtendedAttributes>> {
    let attributes = attributes(
        |buffer| rustix::fs::flistxattr(file, buffer),
        |name, buffer| rustix::fs::fgetxattr(file, name, buffer),
    );
    Ok(Support::Available(attributes?))
}

/// Gives an open file an extended attribute: fsetxattr(2).
pub fn set_extended_attribute(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> io::Result<Support<()>> {
    rustix::fs::fsetxattr(file, name, value, rustix::fs::XattrFlags::empty())?;
    Ok(Support::Available(()))
}

/// `Unavailable`: there is no call relative to a folder.
pub fn extended_attributes_at(_folder: BorrowedFd<'_>, _name: &CStr) -> io::Result<Support<ExtendedAttributes>> {
    Ok(Support::Unavailable(
        "those of links and devices cannot be asked for here",
    ))
}
