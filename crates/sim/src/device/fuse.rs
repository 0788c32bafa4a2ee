//! FUSE: a mount, the requests that the kernel sends through `/dev/fuse`, and the answers to them.
//!
//! Messages are laid out as in `linux/fuse.h`. Only what a file system with files of a fixed size needs is here: the crate for all
//! of FUSE, with what its macros are made of, was a fifth of all that is compiled for the command.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{getgid, getuid};

use super::{DeviceError, io_error};

const DEVICE: &str = "/dev/fuse";
/// The version of the protocol. Later kernels also speak it.
const VERSION: [u32; 2] = [7, 31];
/// Requests that the kernel sends before it has answers: all that a loop device passes on.
const REQUESTS_MAX: u16 = 256;
/// The most bytes of a write: as many as loop devices send at once.
const WRITE_MAX_BYTES: u32 = 1 << 20;
/// Pages of a read or a write; the kernel allows no more without a setting of its own.
const PAGES_MAX: u16 = 256;
/// A write, and what comes before its bytes.
const BUFFER_BYTES: usize = WRITE_MAX_BYTES as usize + 4096;
/// The lengths of what each request and each answer begins with.
const REQUEST_HEADER: usize = 40;
const ANSWER_HEADER: usize = 16;

/// Abilities that the kernel offers and this side accepts.
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIRECT_IO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

/// Kinds of requests.
pub(super) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const RELEASEDIR: u32 = 29;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

/// The numbers of a message, as its bytes.
pub(super) fn u16s<const N: usize>(values: [u16; N]) -> Vec<u8> {
    values.map(u16::to_ne_bytes).concat()
}

/// Like [`u16s`], for 32 bits.
pub(super) fn u32s<const N: usize>(values: [u32; N]) -> Vec<u8> {
    values.map(u32::to_ne_bytes).concat()
}

/// Like [`u16s`], for 64 bits.
pub(super) fn u64s<const N: usize>(values: [u64; N]) -> Vec<u8> {
    values.map(u64::to_ne_bytes).concat()
}

/// A mounted file system, which ends when it is unmounted.
#[derive(Clone)]
pub(super) struct Connection(Arc<File>);

impl Connection {
    /// Mounts a file system with this source, and agrees with the kernel on how to serve it.
    pub fn mount(source: &str, point: &Path) -> Result<Self, DeviceError> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let device = device.map_err(io_error("open", Path::new(DEVICE)))?;
        let options = format!(
            "fd={},rootmode=40000,user_id={},group_id={},subtype=seekless-sim",
            device.as_raw_fd(),
            getuid().as_raw(),
            getgid().as_raw()
        );
        let options = CString::new(options).map_err(|error| io_error("mount", point)(error.into()))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
        let mounted = rustix::mount::mount(source, point, "fuse", flags, options.as_c_str());
        mounted.map_err(|errno| io_error("mount", point)(errno.into()))?;
        let connection = Self(Arc::new(device));
        connection.agree().map_err(io_error("serve", point))?;
        Ok(connection)
    }

    /// Answers the first request of the kernel, which says what it can do.
    fn agree(&self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let first = self.next(&mut buffer)?;
        let (request, reply) = first.ok_or(ErrorKind::NotConnected)?;
        let (major, read_ahead_bytes, offered) = (request.u32(0), request.u32(8), request.u32(12));
        if request.opcode != opcode::INIT || major != VERSION[0] {
            return Err(io::Error::other("the kernel has another version of FUSE"));
        }
        if offered & ASYNC_DIRECT_IO == 0 {
            return Err(io::Error::other("the kernel's FUSE has no asynchronous direct I/O"));
        }
        let flags = offered & (ASYNC_READ | BIG_WRITES | ASYNC_DIRECT_IO | MAX_PAGES);
        reply.send(Ok([
            u32s([VERSION[0], VERSION[1], read_ahead_bytes, flags]),
            u16s([REQUESTS_MAX; 2]),
            // The last is the unit of times, in ns.
            u32s([WRITE_MAX_BYTES, 1]),
            u16s([PAGES_MAX, 0]),
            u32s([0; 8]),
        ]
        .concat()));
        Ok(())
    }

    /// Serves requests until the file system is unmounted. Several threads may do so.
    pub fn serve(&self, serve: impl Fn(&FuseRequest<'_>, Reply)) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some((request, reply)) = self.next(&mut buffer)? {
            serve(&request, reply);
        }
        Ok(())
    }

    /// Waits for a request; there is none any more once the file system was unmounted.
    fn next<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<(FuseRequest<'a>, Reply)>> {
        let length = loop {
            match rustix::io::read(&*self.0, &mut *buffer) {
                Ok(length) => break length,
                // The request was interrupted, or the call.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        let header = FuseRequest {
            opcode: 0,
            node: 0,
            body: &buffer[..length],
        };
        let (opcode, unique, node) = (header.u32(4), header.u64(8), header.u64(16));
        let body = &buffer[REQUEST_HEADER..length];
        let device = self.0.clone();
        let reply = Reply {
            device,
            unique: Some(unique),
        };
        Ok(Some((FuseRequest { opcode, node, body }, reply)))
    }
}

/// A request of the kernel.
pub(super) struct FuseRequest<'a> {
    /// What it is for, one of [`opcode`].
    pub opcode: u32,
    /// The number of the file or directory that it is about.
    pub node: u64,
    /// What follows the header.
    pub body: &'a [u8],
}

impl FuseRequest<'_> {
    /// The number at this place of the body.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    /// The number at this place of the body.
    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.body[at..].first_chunk().expect("the kernel sends whole requests")
    }
}

/// The answer that a request waits for: an error, if it is dropped.
pub(super) struct Reply {
    device: Arc<File>,
    /// The number of the request, until it is answered.
    unique: Option<u64>,
}

impl Reply {
    /// Sends an answer, or an error.
    pub fn send(mut self, answer: io::Result<impl AsRef<[u8]>>) {
        match answer {
            Ok(body) => self.write(0, body.as_ref()),
            Err(error) => self.write(Errno::from_io_error(&error).unwrap_or(Errno::IO).raw_os_error(), &[]),
        }
    }

    /// Sends nothing: the kernel waits for no answer.
    pub fn omit(mut self) {
        self.unique = None;
    }

    fn write(&mut self, errno: i32, body: &[u8]) {
        let Some(unique) = self.unique.take() else { return };
        let length = (ANSWER_HEADER + body.len()) as u32;
        let header = [u32s([length, (-errno).cast_unsigned()]), u64s([unique])].concat();
        // It fails if the request was interrupted, or the file system unmounted: nobody waits for it.
        let _ = (&*self.device).write_vectored(&[IoSlice::new(&header), IoSlice::new(body)]);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.write(Errno::IO.raw_os_error(), &[]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn fuse_request_without_an_answer_fails_others_have_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let device = Arc::new(file.reopen().unwrap());
        let reply = |unique| Reply {
            device: device.clone(),
            unique: Some(unique),
        };
        let written = || {
            let bytes = fs::read(file.path()).unwrap();
            device.set_len(0).unwrap();
            rustix::fs::seek(&device, rustix::fs::SeekFrom::Start(0)).unwrap();
            bytes
        };
        reply(7).omit();
        assert!(written().is_empty());
        drop(reply(8));
        assert_eq!(written(), [u32s([16, (-5_i32).cast_unsigned()]), u64s([8])].concat());
        reply(9).send(Ok("bytes"));
        assert_eq!(written(), [u32s([21, 0]), u64s([9]), b"bytes".to_vec()].concat());
        reply(10).send(Err::<&[u8], _>(Errno::NOSPC.into()));
        assert_eq!(written(), [u32s([16, (-28_i32).cast_unsigned()]), u64s([10])].concat());
    }
}
