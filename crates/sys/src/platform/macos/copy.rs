//! Copies within the system: clonefile(2) and fcopyfile(3); what only Linux has says so.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use crate::support::{ABSENT, ABSENT_FOR_PAIR, Support, attempt};

/// sys/clonefile.h: a symbolic link is cloned, not followed.
const CLONE_NOFOLLOW: u32 = 1;

/// `Unavailable`: sendfile(2) writes to sockets only.
pub fn sendfile(_src: &File, _src_offset: u64, _dst: &File, _len: usize) -> io::Result<Support<usize>> {
    Ok(Support::Unavailable("sendfile writes to sockets only on macOS"))
}

/// `Unavailable`: files are cloned by path, see [`clone_path`].
pub fn clone_file(_src: &File, _dst: &File) -> io::Result<Support<()>> {
    Ok(Support::Unavailable("macOS clones files by path only"))
}

/// Makes `dst`, which must not exist, a clone of `src`: clonefile(2) with `CLONE_NOFOLLOW`.
pub fn clone_path(src: &Path, dst: &Path) -> io::Result<Support<()>> {
    let src = CString::new(src.as_os_str().as_bytes())?;
    let dst = CString::new(dst.as_os_str().as_bytes())?;
    attempt(ABSENT_FOR_PAIR, "the file system cannot clone this file", || {
        // SAFETY: both pointers are to strings that end in zero and live until the call returns.
        match unsafe { libc::clonefile(src.as_ptr(), dst.as_ptr(), CLONE_NOFOLLOW) } {
            -1 => Err(last_errno()),
            _ => Ok(()),
        }
    })
}

/// Copies the data of `src`, not its attributes, into `dst`: fcopyfile(3) with `COPYFILE_DATA`.
pub fn copy_path_data(src: &File, dst: &File) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system has no fcopyfile", || {
        // SAFETY: both files keep their descriptors open, and a null state is documented to mean none.
        let result = unsafe {
            libc::fcopyfile(
                src.as_raw_fd(),
                dst.as_raw_fd(),
                std::ptr::null_mut(),
                libc::COPYFILE_DATA,
            )
        };
        if result < 0 { Err(last_errno()) } else { Ok(()) }
    })
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The buffer of splice(2), which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Pipe(std::convert::Infallible);

impl Pipe {
    /// Always `Unavailable` here.
    pub fn new(_capacity_bytes: usize) -> io::Result<Support<Self>> {
        Ok(Support::Unavailable("splice exists on Linux only"))
    }

    /// The bytes that fit in.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match self.0 {}
    }

    /// Moves bytes of a file into the pipe.
    pub fn fill(&self, _src: &File, _offset: u64, _len: usize) -> io::Result<Support<usize>> {
        match self.0 {}
    }

    /// Moves bytes out of the pipe into a file.
    pub fn drain(&self, _dst: &File, _offset: u64, _len: usize) -> io::Result<Support<usize>> {
        match self.0 {}
    }
}
