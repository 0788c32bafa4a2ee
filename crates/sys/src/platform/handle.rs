//! Handles that stand for an entry, which they neither read nor write: the same calls on Linux and FreeBSD.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timestamps, Uid, utimensat};
use rustix::io::Errno;

/// Opens an entry itself, also a symbolic link, for its attributes: open(2) with `O_PATH`.
pub fn open_entry(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// Sets owner and group by a handle of [`open_entry`]: fchownat(2) with `AT_EMPTY_PATH`.
pub fn set_owner_of(handle: BorrowedFd<'_>, owner: Option<Uid>, group: Option<Gid>) -> rustix::io::Result<()> {
    rustix::fs::chownat(handle, "", owner, group, AtFlags::EMPTY_PATH)
}

/// Sets the times by a handle of [`open_entry`]: utimensat(2) with `AT_EMPTY_PATH`, before Linux 5.8 by its path.
pub fn set_times_of(handle: BorrowedFd<'_>, times: &Timestamps) -> rustix::io::Result<()> {
    match utimensat(handle, "", times, AtFlags::EMPTY_PATH) {
        Err(Errno::INVAL) => utimensat(CWD, path_of(handle), times, AtFlags::empty()),
        set => set,
    }
}

/// A path to what a handle stands for, a symbolic link itself too, while the handle is open (proc(5)).
pub(crate) fn path_of(handle: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}
