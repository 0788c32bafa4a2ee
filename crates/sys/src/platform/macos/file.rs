//! Opening files, allocating, and syncs that reach the device.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::macos::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;

use crate::support::{ABSENT, Support, attempt};
use crate::types::{Alignment, Opening};

/// Opens a file in a directory (openat(2)), never leaking it into child processes nor waiting for another end; `direct` is
/// fcntl(2) `F_NOCACHE`. A new one gets `mode`, less the umask.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    how: Opening,
    mut flags: OFlags,
    mode: RawMode,
) -> io::Result<Support<File>> {
    flags.set(OFlags::DSYNC, how.write_through);
    let file = File::from(rustix::io::retry_on_intr(|| {
        rustix::fs::openat(directory, path, flags, Mode::from_raw_mode(mode))
    })?);
    if !how.direct {
        return Ok(Support::Available(file));
    }
    let uncached = attempt(ABSENT, "the file system has no uncached I/O", || {
        rustix::fs::fcntl_nocache(&file, true)
    })?;
    Ok(uncached.map(|()| file))
}

/// Exchanges two names in a directory: renameatx_np(2) `RENAME_SWAP`.
pub(crate) fn exchange(directory: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<Support<()>> {
    let absent = [ABSENT, &[Errno::INVAL]].concat();
    attempt(&absent, "the file system cannot exchange two names", || {
        rustix::fs::renameat_with(directory, one, directory, other, RenameFlags::EXCHANGE)
    })
}

/// Why nobody may change the file at `path`, whatever its mode says; `None` where nothing is set: stat(2) `st_flags`.
pub fn protection(path: &Path) -> io::Result<Support<Option<&'static str>>> {
    let flags = std::fs::metadata(path)?.st_flags();
    Ok(Support::Available(
        if flags & (libc::UF_IMMUTABLE | libc::SF_IMMUTABLE) != 0 {
            Some("it is immutable (chflags nouchg lets it be changed again)")
        } else if flags & (libc::UF_APPEND | libc::SF_APPEND) != 0 {
            Some("it may only be appended to (chflags nouappnd lets it be changed again)")
        } else {
            None
        },
    ))
}

/// `Unavailable`: `F_NOCACHE` takes any alignment, and is fastest at whole pages.
pub fn direct_alignment(_file: &File) -> io::Result<Support<Alignment>> {
    Ok(Support::Unavailable("uncached I/O demands no alignment on macOS"))
}

/// Allocates blocks of a range behind the file's end, in one piece if possible: fcntl(2) `F_PREALLOCATE`.
///
/// The file's size stays as it is, and so do its holes.
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    // The call counts from the end of what the file has.
    let missing = i64::try_from((offset + len).saturating_sub(file.metadata()?.len())).map_err(|_| Errno::INVAL)?;
    if missing == 0 {
        return Ok(Support::Available(()));
    }
    let in_one_piece = preallocate(file, libc::F_ALLOCATECONTIG | libc::F_ALLOCATEALL, missing);
    attempt(ABSENT, "the file system does not preallocate", || {
        in_one_piece.or_else(|_| preallocate(file, libc::F_ALLOCATEALL, missing))
    })
}

fn preallocate(file: &File, flags: libc::c_uint, len: libc::off_t) -> rustix::io::Result<()> {
    let mut store = libc::fstore_t {
        fst_flags: flags,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: len,
        fst_bytesalloc: 0,
    };
    // SAFETY: F_PREALLOCATE reads and writes one `fstore_t`, which lives here; `file` keeps the descriptor open.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) } {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

/// Brings the file to the device and out of its write cache: fcntl(2) `F_FULLFSYNC`, or fsync(2) where the file system
/// does not have that. Plain fsync(2) stops at the device's cache here.
pub fn sync(file: &File) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| rustix::fs::fcntl_fullfsync(file)) {
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
            Ok(rustix::io::retry_on_intr(|| rustix::fs::fsync(file))?)
        }
        other => Ok(other?),
    }
}
