//! A batch of updates, and what is left of it when the last one given has won wherever two overlap.
//!
//! All bytes are in one arena, so that ten million updates of four bytes take some 200 MB. Where the bytes stand in the
//! arena tells in which order they were given.

use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::writes::Write;

/// The largest end of an update: files end at 2^63 - 1.
const END_MAX: u64 = i64::MAX as u64;
/// The most bytes of a batch.
const ARENA_BYTES_MAX: usize = u32::MAX as usize;

/// Why an update is not taken into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No file reaches so far.
    #[error("{bytes} bytes at {offset} end behind 2^63 - 1, where every file ends")]
    TooFar {
        /// Where the update begins.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
    /// The batch holds as much as it can.
    #[error("the updates are more than 4 GiB: give them in several batches")]
    Full,
    /// The batch takes as much memory as it may.
    #[error(
        "the updates take more than {memory_bytes} bytes of memory ({PIECE_BYTES} each and what they hold): give them in \
         several batches, or allow more memory"
    )]
    TooMuchMemory {
        /// What it may take.
        memory_bytes: u64,
    },
}

/// What an update takes beside its bytes.
const PIECE_BYTES: usize = size_of::<Piece>();

/// So many bytes of the arena that belong to an offset of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub offset: u64,
    pub start: u32,
    pub length: u32,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// Updates as they are collected: bytes and where they belong. Later ones win over earlier ones.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    memory_bytes: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self::within(u64::MAX)
    }
}

impl Batch {
    /// One with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that takes so many bytes of memory at most, its updates and what they hold together.
    #[must_use]
    pub fn within(memory_bytes: u64) -> Self {
        Self {
            bytes: Vec::new(),
            pieces: Vec::new(),
            memory_bytes,
        }
    }

    /// Adds bytes that belong to an offset. None at all change nothing.
    ///
    /// # Errors
    /// [`BatchError`] where no file reaches so far, or the batch is full.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BatchError> {
        let length = bytes.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > END_MAX) {
            return Err(BatchError::TooFar { offset, bytes: length });
        }
        if bytes.len() > ARENA_BYTES_MAX - self.bytes.len() {
            return Err(BatchError::Full);
        }
        let memory = (self.pieces.len() + 1) * PIECE_BYTES + self.bytes.len() + bytes.len();
        if memory as u64 > self.memory_bytes && !bytes.is_empty() {
            return Err(BatchError::TooMuchMemory {
                memory_bytes: self.memory_bytes,
            });
        }
        if !bytes.is_empty() {
            let (start, length) = (self.bytes.len() as u32, bytes.len() as u32);
            self.pieces.push(Piece { offset, start, length });
            self.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Sorts the updates and cuts away what later ones write over.
    #[must_use]
    pub fn resolve(mut self) -> Updates {
        let given = self.pieces.len() as u64;
        // Behind one another in the arena is the order in which they were given.
        self.pieces.sort_unstable_by_key(|piece| (piece.offset, piece.start));
        if self.pieces.windows(2).any(|two| two[0].end() > two[1].offset) {
            last_wins(&mut self.pieces);
        }
        Updates {
            requested_bytes: self.pieces.iter().map(|piece| u64::from(piece.length)).sum(),
            bytes: self.bytes,
            pieces: self.pieces,
            given,
        }
    }
}

/// Leaves of sorted pieces the parts that no later given one writes over, by offset. In place, because a second list of ten
/// million would be 160 MB more: there are at most as many parts as pieces unless some lie within others.
fn last_wins(pieces: &mut Vec<Piece>) {
    // Those that reach `at`, the last given on top.
    let mut open: BinaryHeap<(u32, u64, u64)> = BinaryHeap::new();
    let (mut left, mut taken, mut at) = (Left::default(), 0, 0);
    loop {
        while open.peek().is_some_and(|&(_, _, end)| end <= at) {
            open.pop();
        }
        let next_offset = pieces.get(taken).map(|piece| piece.offset);
        at = match (open.peek(), next_offset) {
            (None, None) => break,
            (None, Some(offset)) => offset,
            (Some(&(start, offset, end)), next) => {
                let until = next.map_or(end, |next| next.min(end));
                left.keep(at, start + (at - offset) as u32, (until - at) as u32);
                until
            }
        };
        while let Some(piece) = pieces.get(taken).filter(|piece| piece.offset <= at) {
            let top = open.peek();
            // One that is covered all along will never be seen.
            if top.is_none_or(|&(start, _, end)| start < piece.start || end < piece.end()) {
                open.push((piece.start, piece.offset, piece.end()));
            }
            taken += 1;
        }
        left.store(&mut pieces[..taken]);
    }
    left.finish(pieces);
}

/// What is left of pieces, stored over those that were taken.
#[derive(Default)]
struct Left {
    /// The last one, to which more may come.
    last: Option<Piece>,
    /// Those for which there was no room yet.
    waiting: VecDeque<Piece>,
    stored: usize,
}

impl Left {
    fn keep(&mut self, offset: u64, start: u32, length: u32) {
        match &mut self.last {
            Some(last) if last.end() == offset && last.start + last.length == start => last.length += length,
            last => self.waiting.extend(last.replace(Piece { offset, start, length })),
        }
    }

    fn store(&mut self, room: &mut [Piece]) {
        while self.stored < room.len()
            && let Some(piece) = self.waiting.pop_front()
        {
            room[self.stored] = piece;
            self.stored += 1;
        }
    }

    fn finish(mut self, pieces: &mut Vec<Piece>) {
        self.waiting.extend(self.last.take());
        self.store(pieces);
        pieces.truncate(self.stored);
        pieces.extend(self.waiting);
    }
}

/// Updates by offset, of which no two overlap.
#[derive(Debug)]
pub struct Updates {
    bytes: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
    given: u64,
    requested_bytes: u64,
}

impl Updates {
    /// How many updates were given.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// How many bytes of the file they name: each once.
    #[must_use]
    pub fn requested_bytes(&self) -> u64 {
        self.requested_bytes
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Where the last of them ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end)
    }

    /// All of them by offset, with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|piece| (piece.offset, self.bytes_of(piece)))
    }

    pub(super) fn bytes_of(&self, piece: &Piece) -> &[u8] {
        &self.bytes[piece.start as usize..][..piece.length as usize]
    }

    /// The parts of a write that updates name: where in it each begins, and its bytes.
    pub(super) fn parts(&self, write: &Write) -> impl Iterator<Item = (usize, &[u8])> {
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
    pub(super) fn only_part(&self, write: &Write) -> Option<&[u8]> {
        let mut parts = self.parts(write);
        let (_, bytes) = parts.next()?;
        (bytes.len() as u64 == write.length).then_some(bytes)
    }

    /// Puts the updates of a write into what is to be written.
    pub(super) fn overlay(&self, write: &Write, buffer: &mut [u8]) {
        for (at, bytes) in self.parts(write) {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_file_can_hold_is_refused() {
        let mut batch = Batch::new();
        assert!(matches!(batch.push(u64::MAX, b"x"), Err(BatchError::TooFar { .. })));
        assert!(matches!(batch.push(END_MAX, b"x"), Err(BatchError::TooFar { .. })));
        assert_eq!(batch.push(END_MAX - 1, b"x"), Ok(()));
        assert_eq!(batch.push(7, b""), Ok(()));
        assert_eq!(batch.resolve().given(), 1);
    }

    #[test]
    fn no_more_memory_is_taken_than_is_allowed() {
        let mut batch = Batch::within(3 * (16 + 4));
        for offset in [0, 7, 3] {
            assert_eq!(batch.push(offset, b"1234"), Ok(()));
        }
        let refused = Err(BatchError::TooMuchMemory { memory_bytes: 60 });
        assert_eq!(batch.push(0, b"1"), refused);
        assert_eq!(batch.push(0, b""), Ok(()), "nothing takes nothing");
        assert_eq!(batch.resolve().given(), 3);
    }

    proptest! {
        #[test]
        fn the_last_given_wins_in_every_byte(
            given in proptest::collection::vec((0u64..200, proptest::collection::vec(any::<u8>(), 0..40)), 0..40),
        ) {
            let mut naive = vec![None; 300];
            let mut batch = Batch::new();
            for (offset, bytes) in &given {
                batch.push(*offset, bytes).unwrap();
                for (at, byte) in (*offset..).zip(bytes) {
                    naive[at as usize] = Some(*byte);
                }
            }
            let updates = batch.resolve();
            let mut found = vec![None; 300];
            let mut reached = 0;
            for (offset, bytes) in updates.iter() {
                prop_assert!(offset >= reached && !bytes.is_empty());
                reached = offset + bytes.len() as u64;
                for (at, byte) in (offset..).zip(bytes) {
                    found[at as usize] = Some(*byte);
                }
            }
            prop_assert_eq!(updates.requested_bytes(), naive.iter().flatten().count() as u64);
            prop_assert_eq!(found, naive);
        }
    }
}
