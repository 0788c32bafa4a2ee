//! A run of bytes on its way to a consumer.

use std::ops::{ControlFlow, Range};

use seekless_sys::MappedBytes;

/// A run of bytes handed to a consumer: memory of ours, or a mapped file that others may change while we look.
#[derive(Clone, Copy)]
pub enum Chunk<'a> {
    /// Memory that nobody else can change.
    Memory(&'a [u8]),
    /// A mapped file. Its bytes can change between two looks, so it is never a slice.
    Mapped(Mapped<'a>),
}

/// Bytes of a mapped file, which other processes may change at any moment: they can be copied out, and are no `&[u8]`.
///
/// Pages that the file lost meanwhile read as zeros; then the read ends with [`Error::Resized`](crate::Error::Resized).
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a>(pub(crate) MappedBytes<'a>);

impl<'a> Mapped<'a> {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
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

    /// The same bytes for kernels that have loops of their own for them.
    #[doc(hidden)]
    #[must_use]
    pub fn raw(self) -> MappedBytes<'a> {
        self.0
    }
}

/// Mapped bytes are copied out in pieces that stay in the first-level cache.
const PIECE_BYTES: usize = 16 << 10;

impl Chunk<'_> {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Mapped(bytes) => bytes.len(),
        }
    }

    /// Whether there are none. Consumers get no empty chunks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes sure that the bytes have been brought into memory, looking at no more than that takes.
    pub fn touch(&self) {
        if let Self::Mapped(bytes) = self {
            bytes.0.touch();
        }
    }

    /// Calls `look` with slices that together are the chunk, in order, each with its place in the chunk, until it breaks
    /// off. Mapped bytes are copied out first, piece by piece.
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
