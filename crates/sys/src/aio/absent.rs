//! No POSIX AIO here: a type that cannot be made, so that callers compile.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::{Buffer, Support};

/// One request of POSIX AIO, which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Aio(Infallible);

impl Aio {
    /// Always `Unavailable` here.
    #[must_use]
    pub fn new(_buffer: Buffer) -> Support<Self> {
        Support::Unavailable("POSIX AIO is used with glibc and on macOS only")
    }

    /// Starts reading into the buffer.
    pub fn start_read(&mut self, _file: &Arc<File>, _offset: u64, _len: usize) -> io::Result<()> {
        match self.0 {}
    }

    /// Starts writing from the buffer.
    pub fn start_write(&mut self, _file: &Arc<File>, _offset: u64, _len: usize) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for the request.
    pub fn wait(&mut self) -> io::Result<usize> {
        match self.0 {}
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        match self.0 {}
    }

    /// The buffer, to change it.
    #[must_use]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        match self.0 {}
    }
}
