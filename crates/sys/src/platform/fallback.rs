//! Every other Unix: plain files, POSIX calls, and `Unavailable` for all the rest. Type-checked for FreeBSD.
//!
//! A system that turns out to matter gets a module of its own beside `linux` and `macos`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

pub use crate::absent::*;
use crate::support::Support;
use crate::types::{Advice, FileSystem};

#[cfg(target_os = "freebsd")]
pub use crate::advice::advise;
#[cfg(target_os = "freebsd")]
pub use crate::handle::{open_entry, set_owner_of, set_times_of};

/// Drops the file's clean pages from the cache, where [`advise`] is available. The caller has synced the file.
pub fn drop_from_cache(file: &File) -> io::Result<Support<()>> {
    advise(file, Advice::DontNeed, 0, 0)
}

/// Brings the file's data to the device, and of its metadata what is needed to read them: fdatasync(2).
pub fn sync_data(file: &File) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file))?)
}

/// The file system behind `path`: statvfs(3), which does not tell its type.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::statvfs(path))?))
}

/// The file system of an open file: fstatvfs(3), which does not tell its type.
pub fn file_system_of(file: impl AsFd) -> io::Result<FileSystem> {
    Ok(described(&rustix::io::retry_on_intr(|| rustix::fs::fstatvfs(&file))?))
}

fn described(space: &rustix::fs::StatVfs) -> FileSystem {
    FileSystem {
        type_name: "unknown".to_owned(),
        block_bytes: space.f_frsize,
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        read_only: space.f_flag.contains(StatVfsMountFlags::RDONLY),
        is_network: false,
        inodes_identify: false,
        is_pseudo: false,
    }
}
