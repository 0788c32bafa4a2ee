//! What a mechanism is prepared from, outside the clock.

use std::io;
use std::ops::Range;
use std::path::Path;

use seekless_sys::{self as sys, Support};

use crate::error::{Error, Result};
use crate::threads::{self, ThreadPool};
use seekless_method::{Method, Operation, Platform};

/// The memory alignment for direct I/O. If a device requires more, the method is unavailable.
pub(crate) const MEMORY_ALIGNMENT: usize = 4096;

/// What a mechanism is prepared from: the method, and the size of its buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub method: Method,
    /// Bytes of a buffer: the block, the longer one if writing has its own, but at most the longest file, rounded up; 0 if the mechanism
    /// has no block.
    pub block_bytes: usize,
}

impl Setup {
    pub fn new(method: &Method, longest_file_bytes: u64) -> Self {
        // No system has longer files.
        let longest = longest_file_bytes.clamp(1, i64::MAX as u64);
        let longest = longest.next_multiple_of(MEMORY_ALIGNMENT as u64);
        let options = method.options();
        let write_block = options.write_block_bytes().unwrap_or(0);
        let block_bytes = options
            .block_bytes()
            .map_or(0, |block| block.max(write_block).min(longest) as usize);
        Self {
            method: *method,
            block_bytes,
        }
    }

    /// Fails if the mechanism does not exist on this platform.
    pub fn require_here(&self) -> Result<()> {
        let platforms = self.method.mechanism().platforms;
        if platforms.contains(&Platform::HERE) {
            return Ok(());
        }
        let names: Vec<_> = platforms.iter().map(|platform| platform.name()).collect();
        Err(self.unavailable(&format!("it exists on {} only", names.join(" and "))))
    }

    /// The blocks that a range is cut into: the offset of each and its length.
    pub fn blocks(&self, range: Range<u64>) -> impl Iterator<Item = (u64, usize)> + Clone + use<> {
        let (end, block_bytes) = (range.end, self.block_bytes);
        let offsets = range.step_by(block_bytes);
        offsets.map(move |offset| (offset, (block_bytes as u64).min(end - offset) as usize))
    }

    pub fn buffer(&self) -> Result<sys::Buffer> {
        sys::Buffer::new(self.block_bytes, MEMORY_ALIGNMENT).map_err(|error| self.failed("allocate a buffer", error))
    }

    /// A ring with a registered buffer for each request in flight.
    pub fn ring(&self) -> Result<sys::Ring> {
        let depth = self.method.options().depth().unwrap_or(1);
        match sys::Ring::new(depth, self.block_bytes, MEMORY_ALIGNMENT) {
            Ok(Support::Available(ring)) => Ok(ring),
            Ok(Support::Unavailable(reason)) => Err(self.unavailable(reason)),
            // The buffers exceed the memory that the user may lock: a limit, not a failure.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Err(self.unavailable(&error.to_string())),
            Err(error) => Err(self.failed("set up an io_uring", error)),
        }
    }

    /// Threads that wait for files.
    pub fn pool(&self, threads: usize) -> Result<ThreadPool> {
        threads::pool(threads).map_err(|error| self.failed("start threads", error))
    }

    /// An error during preparation, when no path is known yet.
    pub fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::by(&self.method, Path::new("."), action, source)
    }

    pub fn unavailable(&self, reason: &str) -> Error {
        Error::unavailable(&self.method, Path::new("."), reason)
    }
}

/// Makes a mechanism's buffers, rings and threads, outside the clock.
pub(crate) type Prepare<M> = fn(Setup) -> Result<Box<M>>;

/// A mechanism with its buffers, rings and threads, made for files of up to this many bytes.
pub(crate) struct Prepared<M: ?Sized> {
    pub setup: Setup,
    make: Prepare<M>,
    longest_file_bytes: u64,
    pub mechanism: Box<M>,
}

impl<M: ?Sized> Prepared<M> {
    /// Prepares it, outside the clock. `make` is `None` if the method is not of the `wanted` operation.
    pub fn new(method: &Method, wanted: Operation, make: Option<Prepare<M>>, longest_file_bytes: u64) -> Result<Self> {
        let make = make.ok_or(Error::WrongOperation {
            asked: (*method).into(),
            wanted: wanted.name(),
        })?;
        let setup = Setup::new(method, longest_file_bytes);
        setup.require_here()?;
        Ok(Self {
            setup,
            make,
            longest_file_bytes,
            mechanism: make(setup)?,
        })
    }

    /// The mechanism; it is made again if the file needs longer buffers than those that it was made for.
    pub fn for_bytes(&mut self, bytes: u64) -> Result<&mut M> {
        if bytes > self.longest_file_bytes {
            let setup = Setup::new(&self.setup.method, bytes);
            if setup.block_bytes > self.setup.block_bytes {
                self.mechanism = (self.make)(setup)?;
                self.setup = setup;
            }
            self.longest_file_bytes = bytes;
        }
        Ok(&mut self.mechanism)
    }
}
