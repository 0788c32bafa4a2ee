//! A pipe as the kernel's buffer between two files: splice(2) in and splice(2) out.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::support::{ABSENT, Support, attempt};

const REFUSED: &[Errno] = &[Errno::NOSYS, Errno::INVAL];
const REASON: &str = "the file system has no splice";

/// A pipe through which pages move from one file to another without passing through the process.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    capacity_bytes: usize,
}

impl Pipe {
    /// Creates a pipe that holds `capacity_bytes` (fcntl(2) `F_SETPIPE_SZ`), or as much as the limits for this user
    /// allow: see [`Pipe::capacity`].
    pub fn new(capacity_bytes: usize) -> io::Result<Support<Self>> {
        let made = attempt(ABSENT, "the kernel has no pipes", || {
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        })?;
        let Support::Available((reader, writer)) = made else {
            return Ok(Support::Unavailable("the kernel has no pipes"));
        };
        let mut given = rustix::pipe::fcntl_getpipe_size(&writer)?;
        let mut asked = capacity_bytes.max(crate::page_bytes());
        while asked > given {
            match rustix::pipe::fcntl_setpipe_size(&writer, asked) {
                Ok(size) => given = size,
                Err(Errno::PERM | Errno::NOMEM | Errno::INVAL) => asked /= 2,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Support::Available(Self {
            reader,
            writer,
            capacity_bytes: given,
        }))
    }

    /// The most bytes that fit: a page of a file takes a whole slot, even if only a part of it is moved.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity_bytes
    }

    /// Moves up to `len` bytes of `src` from `offset` into the pipe. Gives the bytes moved, 0 at the file's end.
    ///
    /// Blocks on a full pipe: drain it first.
    pub fn fill(&self, src: &File, offset: u64, len: usize) -> io::Result<Support<usize>> {
        attempt(REFUSED, REASON, || {
            let mut from = offset;
            rustix::pipe::splice(src, Some(&mut from), &self.writer, None, len, SpliceFlags::MOVE)
        })
    }

    /// Moves up to `len` bytes out of the pipe to `offset` of `dst`. Gives the bytes moved.
    ///
    /// Blocks on an empty pipe: drain no more than was filled in.
    pub fn drain(&self, dst: &File, offset: u64, len: usize) -> io::Result<Support<usize>> {
        attempt(REFUSED, REASON, || {
            let mut to = offset;
            rustix::pipe::splice(&self.reader, None, dst, Some(&mut to), len, SpliceFlags::MOVE)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_fills_the_pipe_drains_into_the_other_file() {
        let pipe = Pipe::new(256 << 10).unwrap().available().unwrap();
        assert!(pipe.capacity() >= crate::page_bytes());
        let (src, dst) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        src.write_all_at(b"0123456789", 0).unwrap();
        assert_eq!(pipe.fill(&src, 4, 100).unwrap(), Support::Available(6));
        assert_eq!(pipe.drain(&dst, 2, 6).unwrap(), Support::Available(6));
        let mut bytes = [1; 8];
        dst.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\x00456789");
        assert_eq!(pipe.fill(&src, 10, 100).unwrap(), Support::Available(0));
    }

    #[test]
    fn a_pipe_beyond_every_limit_is_made_smaller() {
        let pipe = Pipe::new(1 << 40).unwrap().available().unwrap();
        assert!(pipe.capacity() < 1 << 40);
    }
}
