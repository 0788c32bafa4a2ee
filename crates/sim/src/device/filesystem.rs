//! The file system of the server: a directory with one file for each generation of the device, `device-0` and so on.
//!
//! Reads and writes bypass the page cache and arrive side by side, as deep as the loop device has them. A worker moves the bytes
//! and goes on; the answer is sent when the pacer says so. A flush arrives as fsync, a discard as a hole to punch.

use std::io;
use std::sync::{Arc, Mutex};

use rustix::fs::{FallocateFlags, FileType};
use rustix::io::Errno;
use seekless_sys::lock_mutex;

use super::fuse::{FuseRequest, Reply, opcode, u32s, u64s};
use super::pace::{Arrived, Pacer};
use crate::medium::{Medium, RequestBytes};
use crate::request::{BlockRequest, RequestKind};

/// The file of a generation has this name and its number.
const FILE: &str = "device-";
/// The kernel keeps names and attributes for this time, in seconds: they do not change.
const ALWAYS: u64 = 24 * 60 * 60;
const DIRECTORY_NODE: u64 = 1;
/// The node of the first generation.
const FIRST_NODE: u64 = 2;
/// Reads and writes of an open file bypass the page cache, and writes arrive side by side.
const DIRECT_IO: u32 = 1 << 0;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// The name of the file with the device of a generation.
pub(super) fn file_of(generation: u64) -> String {
    format!("{FILE}{generation}")
}

/// The file system with the device's bytes.
pub(super) struct DeviceFiles {
    medium: Arc<Medium>,
    size_bytes: u64,
    pacer: Arc<Pacer>,
    buffers: Arc<Buffers>,
}

/// Buffers of answers, to be used again.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self, length: usize) -> Vec<u8> {
        let free = lock_mutex(&self.0).pop();
        let mut buffer = free.unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    fn put_back(&self, buffer: Vec<u8>) {
        lock_mutex(&self.0).push(buffer);
    }
}

impl DeviceFiles {
    /// Shows a medium of this size.
    pub fn new(medium: Arc<Medium>, size_bytes: u64, pacer: Arc<Pacer>) -> Self {
        Self {
            medium,
            size_bytes,
            pacer,
            buffers: Arc::default(),
        }
    }

    /// Serves a request of the kernel.
    pub fn serve(&self, request: &FuseRequest<'_>, reply: Reply) {
        match request.opcode {
            opcode::LOOKUP => reply.send(self.look_up(request).ok_or(Errno::NOENT.into())),
            opcode::GETATTR => reply.send(self.stat(request.node).ok_or(Errno::NOENT.into())),
            opcode::OPEN => reply.send(Ok(opened(DIRECT_IO | PARALLEL_DIRECT_WRITES))),
            opcode::OPENDIR => reply.send(Ok(opened(0))),
            opcode::RELEASE | opcode::RELEASEDIR => reply.send(Ok([])),
            opcode::STATFS => reply.send(Ok(file_system())),
            opcode::READ => self.read(request, reply),
            opcode::WRITE => self.write(request, reply),
            opcode::FSYNC => self.serve_empty(request.node, (RequestKind::Flush, 0, 0), reply),
            opcode::FALLOCATE => self.deallocate(request, reply),
            opcode::FORGET | opcode::BATCH_FORGET => reply.omit(),
            _ => reply.send(Err::<&[u8], _>(Errno::NOSYS.into())),
        }
    }

    /// `struct fuse_entry_out`
    fn look_up(&self, request: &FuseRequest<'_>) -> Option<Vec<u8>> {
        let name = std::str::from_utf8(request.body).ok()?.strip_suffix('\0')?;
        let number: u32 = name.strip_prefix(FILE)?.parse().ok()?;
        let node = (request.node == DIRECTORY_NODE).then(|| FIRST_NODE + u64::from(number))?;
        Some([u64s([node, 0, ALWAYS, ALWAYS]), u32s([0; 2]), self.attributes(node)?].concat())
    }

    /// `struct fuse_attr_out`
    fn stat(&self, node: u64) -> Option<Vec<u8>> {
        Some([u64s([ALWAYS]), u32s([0; 2]), self.attributes(node)?].concat())
    }

    /// `struct fuse_attr`
    fn attributes(&self, node: u64) -> Option<Vec<u8>> {
        let (kind, size, permissions) = match node {
            DIRECTORY_NODE => (FileType::Directory, 0, 0o500),
            FIRST_NODE.. => (FileType::RegularFile, self.size_bytes, 0o600),
            _ => return None,
        };
        let mode = kind.as_raw_mode() | permissions;
        // The times and the owner are 0, there is one link, and 4096 bytes are a good block.
        let numbers = u32s([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
        Some([u64s([node, size, size.div_ceil(512), 0, 0, 0]), numbers].concat())
    }

    /// Serves a request of the file of a node; the answer is sent when it is due.
    fn move_and_answer(
        &self,
        node: u64,
        request: (RequestKind, u64, u64),
        bytes: RequestBytes<'_>,
        answer: impl FnOnce(io::Result<()>) + Send + 'static,
    ) {
        let (arrived, served) = self.take(node, request, bytes);
        self.pacer.answer(&arrived, Box::new(move || answer(served)));
    }

    /// Moves the bytes of a request.
    fn take(
        &self,
        node: u64,
        (kind, offset_bytes, length_bytes): (RequestKind, u64, u64),
        bytes: RequestBytes<'_>,
    ) -> (Arrived, io::Result<()>) {
        let request = BlockRequest::new(kind, offset_bytes, length_bytes);
        let generation = node - FIRST_NODE;
        let arrived = self.pacer.arrive(generation, request);
        (arrived, self.medium.serve(generation, &request, bytes))
    }

    /// The same for one without bytes.
    fn serve_empty(&self, node: u64, request: (RequestKind, u64, u64), reply: Reply) {
        self.move_and_answer(node, request, RequestBytes::None, |served| {
            reply.send(served.map(|()| []));
        });
    }

    fn read(&self, request: &FuseRequest<'_>, reply: Reply) {
        let (offset, size) = (request.u64(8), u64::from(request.u32(16)));
        let length = size.min(self.size_bytes.saturating_sub(offset));
        let mut buffer = self.buffers.take(length as usize);
        let read = (RequestKind::Read, offset, length);
        let (arrived, served) = self.take(request.node, read, RequestBytes::Read(&mut buffer));
        let buffers = self.buffers.clone();
        let answer = move || {
            reply.send(served.map(|()| &buffer[..]));
            buffers.put_back(buffer);
        };
        self.pacer.answer(&arrived, Box::new(answer));
    }

    fn write(&self, request: &FuseRequest<'_>, reply: Reply) {
        let (offset, data) = (request.u64(8), &request.body[40..]);
        let length = data.len() as u64;
        let write = (RequestKind::Write, offset, length);
        self.move_and_answer(request.node, write, RequestBytes::Write(data), move |served| {
            reply.send(served.map(|()| u32s([length as u32, 0])));
        });
    }

    fn deallocate(&self, request: &FuseRequest<'_>, reply: Reply) {
        let mode = FallocateFlags::from_bits_retain(request.u32(24));
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.send(Err::<&[u8], _>(Errno::OPNOTSUPP.into()));
        }
        let discard = (RequestKind::Discard, request.u64(8), request.u64(16));
        self.serve_empty(request.node, discard, reply);
    }
}

/// `struct fuse_open_out`
fn opened(flags: u32) -> Vec<u8> {
    [u64s([0]), u32s([flags, 0])].concat()
}

/// `struct fuse_statfs_out`: no blocks and files, but blocks of 512 bytes, and names of 255.
fn file_system() -> Vec<u8> {
    [u64s([0; 5]), u32s([512, 255, 0, 0]), u32s([0; 6])].concat()
}
