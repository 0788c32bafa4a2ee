//! Updates that are in memory together: all of them, or those of a part of the file where they are more than fit.

use std::ops::Range;

use super::overlap::last_wins;
use super::writes::Write;

/// This many bytes of the arena that belong to an offset of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub offset: u64,
    pub start: u32,
    pub length: u32,
}

/// What an update takes beside its bytes.
pub(super) const PIECE_BYTES: u64 = size_of::<Piece>() as u64;

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// It, cut where it is longer than this many bytes.
    pub fn parts(self, bytes_max: u64) -> impl Iterator<Item = Self> {
        let step = u32::try_from(bytes_max).unwrap_or(u32::MAX);
        (0..self.length).step_by(step as usize).map(move |from| Self {
            offset: self.offset + u64::from(from),
            start: self.start + from,
            length: step.min(self.length - from),
        })
    }
}

/// Updates as they come. Where their bytes stand in the arena tells in which order.
#[derive(Debug, Default)]
pub(super) struct Unsorted {
    pieces: Vec<Piece>,
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
        self.pieces.push(Piece { offset, start, length });
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Sorts the updates and cuts away what later ones write over.
    pub fn resolve(mut self, range: Range<u64>) -> Window {
        // Behind one another in the arena is the order in which they were given.
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

/// The updates of a part of a file by offset, of which no two overlap.
#[derive(Debug)]
pub(crate) struct Window {
    /// The part: windows are behind one another, and the last has no end.
    pub range: Range<u64>,
    pub pieces: Vec<Piece>,
    /// What they hold: the arena.
    pub bytes: Vec<u8>,
}

impl Window {
    /// All of them by offset, with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|piece| (piece.offset, self.bytes_of(piece)))
    }

    pub fn bytes_of(&self, piece: &Piece) -> &[u8] {
        &self.bytes[piece.start as usize..][..piece.length as usize]
    }

    /// The parts of a write that updates name: where in it each begins, and its bytes.
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

    /// All bytes of a write, where they are those of one update.
    pub fn only_part(&self, write: &Write) -> Option<&[u8]> {
        let mut parts = self.parts(write);
        let (_, bytes) = parts.next()?;
        (bytes.len() as u64 == write.length).then_some(bytes)
    }

    /// Puts the updates of a write into what is to be written.
    pub fn overlay(&self, write: &Write, buffer: &mut [u8]) {
        for (at, bytes) in self.parts(write) {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}
