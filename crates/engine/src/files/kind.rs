//! The kind of a file.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, RawMode};
use seekless_sys::{self as sys, Access, Opening};

use crate::error::{Error, Result};

/// The words for a kind of file, as in `a FIFO`.
#[must_use]
pub fn with_article(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown kind",
    }
}

/// The kind of a file.
#[must_use]
pub fn kind_of(metadata: &Metadata) -> FileType {
    FileType::from_raw_mode(metadata.mode() as RawMode)
}

/// Fails unless the file is regular: opening a FIFO would block, and reading a device might not end.
pub(crate) fn require_regular(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::NotRegular {
        path: path.to_owned(),
        kind: with_article(kind_of(metadata)),
    })
}

/// Stats a file that must be regular before it is opened, because opening a device may have effects.
///
/// # Errors
/// [`Error::NotRegular`], and the system's.
pub fn stat_regular(path: &Path) -> Result<Metadata> {
    let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
    require_regular(path, &metadata).map(|()| metadata)
}

/// Stats an open file that must be regular.
pub(crate) fn stat_open_regular(path: &Path, file: &File) -> Result<Metadata> {
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| Error::system(path, "stat", error))?;
    require_regular(path, &metadata).map(|()| metadata)
}

/// Fails for an empty file that shows the kernel's state, as `/proc` has: its size says nothing of what it contains.
pub(crate) fn require_told_size(path: &Path, file: &File, metadata: &Metadata) -> Result<()> {
    if metadata.len() > 0 {
        return Ok(());
    }
    let system = sys::file_system_of(file).map_err(|error| Error::system(path, "stat its file system", error))?;
    if system.is_pseudo {
        return Err(Error::NotStorage {
            path: path.to_owned(),
            file_system: system.type_name,
        });
    }
    Ok(())
}

/// Opens a regular file. Never blocks: anything else is refused, even if it only just became a FIFO.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    stat_regular(path)?;
    let opened = open_without_waiting(path).map_err(|error| Error::system(path, "open", error))?;
    let metadata = stat_open_regular(path, &opened)?;
    Ok((opened, metadata))
}

pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    sys::open(path, Opening::plain(Access::Read))?.required()
}

/// The directory of a file, which need not exist.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        None => Path::new("/"),
    }
}
