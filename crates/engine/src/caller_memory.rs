//! Memory of the caller, which need not be initialised.

use std::mem::{MaybeUninit, take};
use std::ops::ControlFlow;

use crate::Chunk;

/// Memory of the caller for the bytes of a read.
#[derive(Debug)]
pub enum CallerMemory<'a> {
    /// Memory with bytes.
    Initialised(&'a mut [u8]),
    /// Memory that may have none yet.
    Uninitialised(&'a mut [MaybeUninit<u8>]),
}

impl<'a> From<&'a mut [u8]> for CallerMemory<'a> {
    fn from(memory: &'a mut [u8]) -> Self {
        Self::Initialised(memory)
    }
}

impl<'a> From<&'a mut [MaybeUninit<u8>]> for CallerMemory<'a> {
    fn from(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Self::Uninitialised(memory)
    }
}

impl CallerMemory<'_> {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Initialised(memory) => memory.len(),
            Self::Uninitialised(memory) => memory.len(),
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same memory for a shorter time.
    pub(crate) fn reborrow(&mut self) -> CallerMemory<'_> {
        match self {
            Self::Initialised(memory) => CallerMemory::Initialised(memory),
            Self::Uninitialised(memory) => CallerMemory::Uninitialised(memory),
        }
    }

    /// The first bytes, which are taken from it.
    pub(crate) fn split_off(&mut self, bytes: usize) -> Self {
        match self {
            Self::Initialised(memory) => {
                let (head, rest) = take(memory).split_at_mut(bytes);
                *memory = rest;
                Self::Initialised(head)
            }
            Self::Uninitialised(memory) => {
                let (head, rest) = take(memory).split_at_mut(bytes);
                *memory = rest;
                Self::Uninitialised(head)
            }
        }
    }

    /// Fills it with bytes of this length.
    pub(crate) fn copy_chunk(mut self, chunk: Chunk<'_>) {
        if let (Self::Initialised(memory), Chunk::Mapped(bytes)) = (&mut self, chunk) {
            return bytes.copy_to(memory);
        }
        let _ = chunk.for_each_slice(|_, bytes| {
            match self.split_off(bytes.len()) {
                Self::Initialised(memory) => memory.copy_from_slice(bytes),
                Self::Uninitialised(memory) => drop(memory.write_copy_of_slice(bytes)),
            }
            ControlFlow::Continue(())
        });
    }

    /// Fills it with zeros.
    pub(crate) fn zero(self) {
        match self {
            Self::Initialised(memory) => memory.fill(0),
            Self::Uninitialised(memory) => memory.fill(MaybeUninit::new(0)),
        }
    }
}
