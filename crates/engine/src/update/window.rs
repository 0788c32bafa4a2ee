//! Updates in memory: all of them, or, if they do not fit, those for a part of the file.

use std::ops::Range;

use super::overlap::last_wins;
use super::writes::Write;

/// A piece of an update: an offset in the file, and a range of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowPiece {
    pub offset: u64,
    pub start: u32,
    pub length: u32,
}

/// The memory of an update, without its bytes.
pub(super) const PIECE_BYTES: u64 = size_of::<WindowPiece>() as u64;

impl WindowPiece {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// The piece, cut into parts of at most this many bytes.
    pub fn parts(self, bytes_max: u64) -> impl Iterator<Item = Self> {
        let step = u32::try_from(bytes_max).unwrap_or(u32::MAX);
        (0..self.length).step_by(step as usize).map(move |from| Self {
            offset: self.offset + u64::from(from),
            start: self.start + from,
            length: step.min(self.length - from),
        })
    }
}

/// Updates in the given order, which is the order of their bytes in the arena.
#[derive(Debug, Default)]
pub(super) struct Unsorted {
    pieces: Vec<WindowPiece>,
    bytes: Vec<u8>,
}

/// The most bytes of an arena.
const ARENA_BYTES_MAX: u64 = u32::MAX as u64;

impl Unsorted {
    /// Whether this many more bytes fit if all together may take this much memory.
    pub fn has_room(&self, bytes: usize, memory_bytes: u64) -> bool {
        let arena = (self.bytes.len() + bytes) as u64;
        arena <= ARENA_BYTES_MAX && (self.pieces.len() as u64 + 1) * PIECE_BYTES + arena <= memory_bytes
    }

    pub fn push(&mut self, offset: u64, bytes: &[u8]) {
        let (start, length) = (self.bytes.len() as u32, bytes.len() as u32);
        self.pieces.push(WindowPiece { offset, start, length });
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Sorts the updates and removes bytes that later ones overwrite.
    pub fn resolve(mut self, range: Range<u64>) -> Window {
        // The order in the arena is the order in which they were given.
        self.pieces.sort_unstable_by_key(|piece| (piece.offset, piece.start));
        if self.pieces.windows(2).any(|two| two[0].end() > two[1].offset) {
            last_wins(&mut self.pieces);
        }
        Window {
            range,
            pieces: self.pieces,
            bytes: self.bytes,
        }
    }
}

/// The updates of a part of a file, by offset, without overlaps.
#[derive(Debug)]
pub(crate) struct Window {
    /// The part. Windows follow each other, and the last has no end.
    pub range: Range<u64>,
    pub pieces: Vec<WindowPiece>,
    /// Their bytes: the arena.
    pub bytes: Vec<u8>,
}

impl Window {
    /// All of them by offset, with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|piece| (piece.offset, self.bytes_of(piece)))
    }

    pub fn bytes_of(&self, piece: &WindowPiece) -> &[u8] {
        &self.bytes[piece.start as usize..][..piece.length as usize]
    }

    /// The parts of a write that are in updates: the position in the write, and the bytes.
    pub fn parts(&self, write: &Write) -> impl Iterator<Item = (usize, &[u8])> {
        let (offset, end) = (write.offset, write.offset + write.length);
        self.pieces[write.pieces.clone()].iter().map(move |piece| {
            let within: Range<u64> = piece.offset.max(offset)..piece.end().min(end);
            let bytes = self.bytes_of(piece);
            let first = (within.start - piece.offset) as usize;
            let bytes = &bytes[first..first + (within.end - within.start) as usize];
            ((within.start - offset) as usize, bytes)
        })
    }

    /// The bytes of a write, if all of them are from one update.
    pub fn only_part(&self, write: &Write) -> Option<&[u8]> {
        let mut parts = self.parts(write);
        let (_, bytes) = parts.next()?;
        (bytes.len() as u64 == write.length).then_some(bytes)
    }

    /// Copies the updates of a write into its buffer.
    pub fn overlay(&self, write: &Write, buffer: &mut [u8]) {
        for (at, bytes) in self.parts(write) {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}
