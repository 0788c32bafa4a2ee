//! No `io_uring` here: a type that cannot be made, so that callers compile.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::{Completed, RingFlags, Support};

/// A ring of `io_uring`, which this platform lacks: there is no value of this type.
#[derive(Debug)]
pub struct Ring(Infallible);

impl Ring {
    /// Always `Unavailable` here.
    pub fn new(_depth: u32, _buffer_bytes: usize, _align: usize) -> io::Result<Support<Self>> {
        Ok(Support::Unavailable("io_uring exists on Linux only"))
    }

    /// How many slots there are.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self.0 {}
    }

    /// Queues a read.
    pub fn submit_read(
        &mut self,
        _slot: u32,
        _file: &Arc<File>,
        _offset: u64,
        _start: usize,
        _len: usize,
        _flags: RingFlags,
    ) -> io::Result<()> {
        match self.0 {}
    }

    /// Queues a write.
    pub fn submit_write(
        &mut self,
        _slot: u32,
        _file: &Arc<File>,
        _offset: u64,
        _start: usize,
        _len: usize,
        _flags: RingFlags,
    ) -> io::Result<()> {
        match self.0 {}
    }

    /// Submits what is queued.
    pub fn submit(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Waits for a request.
    pub fn wait(&mut self) -> io::Result<Completed> {
        match self.0 {}
    }

    /// A slot's buffer.
    #[must_use]
    pub fn buffer(&self, _slot: u32) -> &[u8] {
        match self.0 {}
    }

    /// A slot's buffer, to change it.
    #[must_use]
    pub fn buffer_mut(&mut self, _slot: u32) -> &mut [u8] {
        match self.0 {}
    }

    /// How many requests are queued or in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        match self.0 {}
    }

    /// How many times the kernel was entered.
    #[must_use]
    pub fn calls(&self) -> u64 {
        match self.0 {}
    }
}
