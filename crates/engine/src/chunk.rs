//! A run of bytes on its way to a consumer.

use std::ops::{ControlFlow, Range};

use seekless_sys::MappedBytes;

/// A run of bytes for a consumer: memory of this process, or a mapped file that other processes may change meanwhile.
#[derive(Clone, Copy)]
pub enum Chunk<'a> {
    /// Memory that no other process can change.
    Memory(&'a [u8]),
    /// A mapped file. Its bytes can change between two reads, so it is never a slice.
    Mapped(Mapped<'a>),
}

/// Bytes of a mapped file, which other processes may change at any moment. They can be copied out, but are never a
/// `&[u8]`.
///
/// If the file shrinks, its lost pages read as zeros, and the read ends with [`Error::Resized`](crate::Error::Resized).
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a>(pub(crate) MappedBytes<'a>);

impl<'a> Mapped<'a> {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes in a range.
    ///
    /// # Panics
    /// If the range is not within the bytes, as slices do.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self(self.0.slice(range))
    }

    /// Copies all bytes into `target`.
    ///
    /// # Panics
    /// If the lengths differ, as slices do.
    pub fn copy_to(&self, target: &mut [u8]) {
        self.0.copy_to(target);
    }

    /// The same bytes, for kernels that have loops of their own for mapped memory.
    #[must_use]
    pub fn raw(self) -> MappedBytes<'a> {
        self.0
    }
}

/// Mapped bytes are copied out in pieces that fit into the first-level cache.
const PIECE_BYTES: usize = 16 << 10;

impl Chunk<'_> {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Mapped(bytes) => bytes.len(),
        }
    }

    /// Whether it is empty. Consumers get no empty chunks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Brings the bytes into memory, by reading one byte of each page.
    pub fn touch(&self) {
        if let Self::Mapped(bytes) = self {
            bytes.0.touch();
        }
    }

    /// Calls `look` with the chunk in slices, in order, each with its position in the chunk, until `look` breaks.
    /// Mapped bytes are copied out first, piece by piece.
    pub fn for_each_slice(&self, mut look: impl FnMut(usize, &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Self::Memory(bytes) => look(0, bytes)?,
            Self::Mapped(bytes) => {
                let mut piece = [0; PIECE_BYTES];
                let mut start = 0;
                while start < bytes.len() {
                    let length = PIECE_BYTES.min(bytes.len() - start);
                    bytes.slice(start..start + length).copy_to(&mut piece[..length]);
                    look(start, &piece[..length])?;
                    start += length;
                }
            }
        }
        ControlFlow::Continue(())
    }
}
