//! Opening files, allocating, and syncs that reach the device.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::macos::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;

use crate::folder::Folder;
use crate::support::{ABSENT, Support, attempt};
use crate::types::{Alignment, LeaseKind, Opening};

/// Opens a file in a folder (openat(2)), never leaking it into child processes nor waiting for another end; `direct` is
/// fcntl(2) `F_NOCACHE`. A new one gets `mode`, less the umask.
pub(crate) fn open_at(
    folder: BorrowedFd<'_>,
    path: &Path,
    how: Opening,
    mut flags: OFlags,
    mode: RawMode,
) -> io::Result<Support<File>> {
    flags.set(OFlags::DSYNC, how.write_through);
    let file = File::from(rustix::io::retry_on_intr(|| {
        rustix::fs::openat(folder, path, flags, Mode::from_raw_mode(mode))
    })?);
    if !how.direct {
        return Ok(Support::Available(file));
    }
    let uncached = attempt(ABSENT, "the file system has no uncached I/O", || {
        rustix::fs::fcntl_nocache(&file, true)
    })?;
    Ok(uncached.map(|()| file))
}

/// Exchanges two names in a folder: renameatx_np(2) `RENAME_SWAP`.
pub(crate) fn exchange(folder: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<Support<()>> {
    let absent = [ABSENT, &[Errno::INVAL]].concat();
    attempt(&absent, "the file system cannot exchange two names", || {
        rustix::fs::renameat_with(folder, one, folder, other, RenameFlags::EXCHANGE)
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

/// `Unavailable`: not implemented on macOS.
pub fn file_system_uuid(_file: &File) -> io::Result<Support<Vec<u8>>> {
    Ok(Support::Unavailable(
        "reading a file system's UUID is not implemented on macOS",
    ))
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

/// `Unavailable`: no call makes a file longer that could not make it shorter.
pub fn extend(_file: &File, _bytes: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("there is no call that only makes a file longer"))
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

/// `Unavailable`: there is no syncfs(2).
pub fn sync_file_system(_file: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("macOS cannot sync one file system"))
}

/// `Unavailable`: not written for this system yet.
pub fn next_hole(_file: &File, _offset: u64) -> io::Result<Support<u64>> {
    Ok(Support::Unavailable("holes are not looked for on macOS yet"))
}

/// `Unavailable`: not written for this system yet.
pub fn next_data(_file: &File, _offset: u64) -> io::Result<Support<Option<u64>>> {
    Ok(Support::Unavailable("holes are not looked for on macOS yet"))
}

/// `Unavailable`: not written for this system yet.
pub fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("holes are not punched on macOS yet"))
}

/// `Unavailable`: Linux only.
pub fn collapse_range(_file: &File, _offset: u64, _len: u64) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("ranges are cut out of files on Linux only"))
}

/// `Unavailable`: Linux only.
pub fn take_lease(_file: &File, _kind: LeaseKind) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("leases exist on Linux only"))
}

/// Never: there is none to take.
#[must_use]
pub fn holds_lease(_file: &File, _kind: LeaseKind) -> bool {
    false
}

/// Nothing: there is none to end.
pub fn end_lease(_file: &File) {}

/// Not told: who asks opens the file and tries.
#[must_use]
pub fn is_locked(_file: &Metadata) -> bool {
    false
}

/// `Unavailable`: Linux only.
pub fn unnamed_file(_folder: &Folder) -> io::Result<Support<(File, PathBuf)>> {
    Ok(Support::Unavailable("files without a name exist on Linux only"))
}

/// Never called: there is no file without a name.
pub fn name_file(_unnamed: &Path, _folder: &Folder, _name: &OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No: files have capabilities on Linux only.
#[must_use]
pub fn has_capabilities(_file: &File) -> bool {
    false
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn read_at_dontcache(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached reads through the cache exist on Linux only",
    ))
}

/// `Unavailable`: there is no `RWF_DONTCACHE`.
pub fn write_at_dontcache(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable(
        "uncached writes through the cache exist on Linux only",
    ))
}
