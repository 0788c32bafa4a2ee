//! Creating files in a directory beside others.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_sys::{self as sys, Access, Directory, Opening, Support};

use super::FileId;

/// Creates an empty file in a directory, under an unused name.
pub(crate) fn make_beside(directory: &Directory) -> io::Result<(File, OsString)> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".seekless-{}-{number}", std::process::id()));
        let file = match directory.create_file(&name, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        };
        // Locked until it is renamed, because recovery leaves locked files alone.
        return match file.try_lock() {
            Ok(()) => Ok((file, name)),
            Err(error) => {
                let _ = directory.remove_file(&name);
                Err(error.into())
            }
        };
    }
}

/// Whether a name is one by [`make_beside`].
pub(crate) fn is_name_of_empty(name: &OsStr) -> bool {
    let numbers = name
        .to_str()
        .and_then(|name| name.strip_prefix(".seekless-")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Creates an empty file in a directory that is removed when it is closed, and opens it a second time.
pub(crate) fn make_for_a_moment(directory: &Directory, how: Opening) -> io::Result<(File, File)> {
    if let Support::Available((file, path)) = sys::unnamed_file(directory)? {
        return Ok((file, sys::open(&path, how)?.required()?));
    }
    let (file, name) = make_beside(directory)?;
    let again = directory.open_file(&name, how);
    directory.remove_file(&name)?;
    let again = again?.required()?;
    if FileId::of(&file.metadata()?) != FileId::of(&again.metadata()?) {
        return Err(io::Error::other("another process replaced the temporary file"));
    }
    Ok((file, again))
}

/// Creates an empty file in a directory that is removed when it is closed.
pub(crate) fn make_unnamed(directory: &Path) -> io::Result<File> {
    let made = make_for_a_moment(&Directory::open(directory)?, Opening::plain(Access::Read));
    made.map(|(file, _)| file)
}

/// Creates an empty file in a directory, with mode 0600. It has no name, and a path by which it can be opened again; or where the file
/// system has no such files, this name.
///
/// # Errors
/// The system's; `EEXIST` where the name is needed and taken.
pub fn make_new(directory: &Directory, name: &OsStr) -> io::Result<(File, Option<PathBuf>)> {
    Ok(match sys::unnamed_file(directory)? {
        Support::Available((file, path)) => (file, Some(path)),
        Support::Unavailable(_) => (directory.create_file(name, 0o600)?, None),
    })
}
