//! What is in folders, and extended attributes.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{Dir, FileType};

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
