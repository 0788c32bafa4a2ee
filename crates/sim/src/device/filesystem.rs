//! The file system of the server: a directory with one file for each generation of the device, `device-0` and so on.
//!
//! Reads and writes bypass the page cache and arrive side by side, as deep as the loop device has them. A worker moves the bytes
//! and goes on; the answer is sent when the pacer says so. A flush arrives as fsync, a discard as a hole to punch.

use std::ffi::OsStr;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::fs::FallocateFlags;

use super::pace::{Arrived, Pacer};
use crate::faults::InjectedFaults;
use crate::medium::{Medium, RequestBytes};
use crate::request::{BlockRequest, RequestKind};

/// The file of a generation has this name and its number.
const FILE: &str = "device-";
/// Requests that the kernel may have here at a time: all that a loop device passes on.
const REQUESTS_MAX: u16 = 256;
/// The kernel keeps names and attributes: they do not change.
const ALWAYS: Duration = Duration::from_hours(24);
const DIRECTORY_NODE: INodeNo = INodeNo(1);
/// The node of the first generation.
const FIRST_NODE: u64 = 2;

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
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = free.unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    fn put_back(&self, buffer: &mut Vec<u8>) {
        let buffer = mem::take(buffer);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
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

    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, size, perm) = match node {
            DIRECTORY_NODE => (FileType::Directory, 0, 0o500),
            INodeNo(FIRST_NODE..) => (FileType::RegularFile, self.size_bytes, 0o600),
            INodeNo(_) => return None,
        };
        Some(FileAttr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Serves a request of the file of a node; the answer is sent when it is due.
    fn serve(
        &self,
        node: INodeNo,
        request: (RequestKind, u64, u64),
        bytes: RequestBytes<'_>,
        answer: impl FnOnce(io::Result<InjectedFaults>) + Send + 'static,
    ) {
        let (arrived, served) = self.take(node, request, bytes);
        self.answer(&arrived, served, answer);
    }

    /// Moves the bytes of a request.
    fn take(
        &self,
        node: INodeNo,
        (kind, offset_bytes, length_bytes): (RequestKind, u64, u64),
        bytes: RequestBytes<'_>,
    ) -> (Arrived, io::Result<InjectedFaults>) {
        let request = BlockRequest::new(kind, offset_bytes, length_bytes);
        let generation = node.0 - FIRST_NODE;
        let arrived = self.pacer.arrive(generation, request);
        (arrived, self.medium.serve(generation, &request, bytes))
    }

    /// Sends an answer when the pacer says so, and later where that is a fault.
    fn answer(
        &self,
        arrived: &Arrived,
        served: io::Result<InjectedFaults>,
        answer: impl FnOnce(io::Result<InjectedFaults>) + Send + 'static,
    ) {
        let late = served
            .as_ref()
            .ok()
            .map(|injected| (injected.slower - 1.0, injected.later_ns));
        let at = arrived.at;
        let answer = move || answer(served);
        match late.filter(|late| *late != (0.0, 0)) {
            None => self.pacer.answer(arrived, Box::new(answer)),
            Some((more, later_ns)) => {
                let medium = self.medium.clone();
                let wait_and_answer = move || {
                    medium.delay(at.elapsed().mul_f64(more) + Duration::from_nanos(later_ns));
                    answer();
                };
                // Others must not wait for it.
                self.pacer
                    .answer(arrived, Box::new(|| drop(thread::spawn(wait_and_answer))));
            }
        }
    }

    /// The same for one without bytes.
    fn serve_empty(&self, node: INodeNo, request: (RequestKind, u64, u64), reply: ReplyEmpty) {
        self.serve(node, request, RequestBytes::None, |served| match served {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(error.into()),
        });
    }
}

impl Filesystem for DeviceFiles {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let lacking = |_| io::Error::other("the kernel's FUSE has no asynchronous direct I/O");
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(lacking)?;
        // They only fail for 0.
        let _ = config.set_max_background(REQUESTS_MAX);
        let _ = config.set_congestion_threshold(REQUESTS_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(FILE)?.parse::<u32>().ok());
        let node = number
            .filter(|_| parent == DIRECTORY_NODE)
            .map(|number| INodeNo(FIRST_NODE + u64::from(number)));
        match node.and_then(|node| self.attributes(node)) {
            Some(found) => reply.entry(&ALWAYS, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(found) => reply.attr(&ALWAYS, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = u64::from(size).min(self.size_bytes.saturating_sub(offset));
        let mut buffer = self.buffers.take(length as usize);
        let request = (RequestKind::Read, offset, length);
        let (arrived, served) = self.take(node, request, RequestBytes::Read(&mut buffer));
        let buffers = self.buffers.clone();
        self.answer(&arrived, served, move |served| {
            match served {
                Ok(injected) => reply.data(&buffer[..injected.answered_bytes as usize]),
                Err(error) => reply.error(error.into()),
            }
            buffers.put_back(&mut buffer);
        });
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let request = (RequestKind::Write, offset, data.len() as u64);
        self.serve(node, request, RequestBytes::Write(data), |served| match served {
            Ok(injected) => reply.written(injected.answered_bytes as u32),
            Err(error) => reply.error(error.into()),
        });
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve_empty(node, (RequestKind::Flush, 0, 0), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.serve_empty(node, (RequestKind::Discard, offset, length), reply);
    }
}
