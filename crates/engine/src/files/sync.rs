//! Syncing the file system of a file.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use seekless_sys::{self as sys, FileSystemTrait, Support};

/// Syncs the file system of an open file: syncfs(2). On an overlay that syncs the upper layer only, and some systems have no such
/// call: there, everything is synced.
///
/// # Errors
/// The system's.
pub fn sync_file_system(file: &File) -> io::Result<()> {
    let is_overlay = || Ok::<_, io::Error>(sys::file_system_of(file)?.has(FileSystemTrait::Overlay));
    if matches!(sys::sync_file_system(file)?, Support::Unavailable(_)) || is_overlay()? {
        sys::sync(file)?;
        rustix::fs::sync();
    }
    Ok(())
}

/// The same for one that was written to. If an error of its device made it read-only, syncfs(2) does nothing and succeeds.
///
/// # Errors
/// The system's; `EROFS` if it is read-only by now.
pub fn sync_written(file: &File) -> io::Result<()> {
    sync_file_system(file)?;
    if sys::file_system_of(file)?.read_only {
        return Err(Errno::ROFS.into());
    }
    Ok(())
}
