//! Collecting a batch of updates, and sorting it: pieces by offset, of which the last one given wins.

use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::OnceLock;

use crate::error::{BatchError, Result, UpdateErrorKind};
use crate::plan::Gaps;

/// The largest end of an update: files end at 2^63 - 1.
const END_MAX: u64 = i64::MAX as u64;

/// The most bytes of all updates of a batch, which pieces address by 32 bits.
const ARENA_BYTES_MAX: u64 = u32::MAX as u64;

/// A batch of updates: bytes and their offsets. If two overlap, the later one wins.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In the given order, which is the order of their bytes in the arena.
    pieces: Vec<UpdatePiece>,
    arena: Vec<u8>,
    memory_bytes: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch of up to 4 GiB of data.
    #[must_use]
    pub fn new() -> Self {
        Self::within(u64::MAX)
    }

    /// An empty batch that takes at most this many bytes of memory: 16 for each update, and its data, of which there
    /// may be 4 GiB.
    #[must_use]
    pub fn within(memory_bytes: u64) -> Self {
        Self {
            pieces: Vec::new(),
            arena: Vec::new(),
            memory_bytes,
        }
    }

    /// Adds an update: bytes at an offset. An empty one changes nothing.
    ///
    /// # Errors
    /// [`BatchError`] if the end exceeds the largest file size, or the batch is full.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> std::result::Result<(), BatchError> {
        let length = bytes.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > END_MAX) {
            return Err(BatchError::TooFar { offset, bytes: length });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let arena_bytes = self.arena.len() as u64 + length;
        let all_bytes = (self.pieces.len() as u64 + 1) * PIECE_BYTES + arena_bytes;
        if arena_bytes > ARENA_BYTES_MAX || all_bytes > self.memory_bytes {
            return Err(BatchError::Full {
                memory_bytes: self.memory_bytes.min(ARENA_BYTES_MAX),
            });
        }
        let (start, length) = (self.arena.len() as u32, bytes.len() as u32);
        self.pieces.push(UpdatePiece { offset, start, length });
        self.arena.extend_from_slice(bytes);
        Ok(())
    }

    /// Sorts the updates and removes bytes that later ones overwrite.
    #[must_use]
    pub fn resolve(self) -> Updates {
        let (given, mut pieces) = (self.pieces.len() as u64, self.pieces);
        // The order in the arena is the order in which they were given.
        pieces.sort_unstable_by_key(|piece| (piece.offset, piece.start));
        if pieces.windows(2).any(|two| two[0].end() > two[1].offset) {
            last_wins(&mut pieces);
        }
        let mut gaps = Gaps::none();
        for piece in &pieces {
            gaps.count(piece.offset, u64::from(piece.length));
        }
        Updates {
            pieces,
            arena: self.arena,
            given,
            gaps,
            journal_bytes: OnceLock::new(),
        }
    }
}

/// A piece of an update: an offset in the file, and a range of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UpdatePiece {
    pub offset: u64,
    pub start: u32,
    pub length: u32,
}

/// The memory of an update, without its bytes.
const PIECE_BYTES: u64 = size_of::<UpdatePiece>() as u64;

impl UpdatePiece {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// Updates by offset, without overlaps.
#[derive(Debug)]
pub struct Updates {
    pub(super) pieces: Vec<UpdatePiece>,
    arena: Vec<u8>,
    given: u64,
    /// Their pieces, and the gaps between these.
    pub(super) gaps: Gaps,
    /// The size of their journal, once it was computed.
    pub(super) journal_bytes: OnceLock<u64>,
}

impl Updates {
    /// The number of updates that were given.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The number of bytes that they change, each counted once.
    #[must_use]
    pub fn requested_bytes(&self) -> u64 {
        self.gaps.requested_bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.pieces == 0
    }

    /// The end of the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.gaps.end
    }

    /// Fails if one ends past the end of a file of this many bytes.
    ///
    /// # Errors
    /// [`UpdateErrorKind::PastEnd`].
    pub fn require_inside(&self, path: &Path, file_bytes: u64) -> Result<()> {
        if self.end() <= file_bytes {
            return Ok(());
        }
        let end = self.end();
        Err(UpdateErrorKind::PastEnd { end, file_bytes }.at(path))
    }

    /// Iterates over all of them by offset, with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|piece| (piece.offset, self.bytes_of(piece)))
    }

    pub(super) fn bytes_of(&self, piece: &UpdatePiece) -> &[u8] {
        &self.arena[piece.start as usize..][..piece.length as usize]
    }
}

/// Reduces sorted pieces to the parts that no later update overwrites, by offset. It works in place, because a second
/// list of ten million would take another 160 MB. There are at most as many parts as pieces, unless pieces lie within
/// others.
fn last_wins(pieces: &mut Vec<UpdatePiece>) {
    // The pieces that reach `at`, the last one given on top.
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
            // A piece that is covered to its end is dropped.
            if top.is_none_or(|&(start, _, end)| start < piece.start || end < piece.end()) {
                open.push((piece.start, piece.offset, piece.end()));
            }
            taken += 1;
        }
        left.store(&mut pieces[..taken]);
    }
    left.finish(pieces);
}

/// The result, stored over pieces that were already read.
#[derive(Default)]
struct Left {
    /// The last part, which may still be extended.
    last: Option<UpdatePiece>,
    /// Parts for which there was no room yet.
    waiting: VecDeque<UpdatePiece>,
    stored: usize,
}

impl Left {
    fn keep(&mut self, offset: u64, start: u32, length: u32) {
        match &mut self.last {
            Some(last) if last.end() == offset && last.start + last.length == start => last.length += length,
            last => self.waiting.extend(last.replace(UpdatePiece { offset, start, length })),
        }
    }

    fn store(&mut self, room: &mut [UpdatePiece]) {
        while self.stored < room.len()
            && let Some(piece) = self.waiting.pop_front()
        {
            room[self.stored] = piece;
            self.stored += 1;
        }
    }

    fn finish(mut self, pieces: &mut Vec<UpdatePiece>) {
        self.waiting.extend(self.last.take());
        self.store(pieces);
        pieces.truncate(self.stored);
        pieces.extend(self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn batch_refuses_what_no_file_can_hold_and_what_exceeds_its_memory() {
        let mut batch = Batch::new();
        assert!(matches!(batch.push(u64::MAX, b"x"), Err(BatchError::TooFar { .. })));
        assert!(matches!(batch.push(END_MAX, b"x"), Err(BatchError::TooFar { .. })));
        batch.push(END_MAX - 1, b"x").unwrap();
        batch.push(7, b"").unwrap();
        assert_eq!(batch.resolve().given(), 1);
        let memory_bytes = 2 * (16 + 4);
        let mut batch = Batch::within(memory_bytes);
        batch.push(0, b"1234").unwrap();
        batch.push(7, b"1234").unwrap();
        batch.push(3, b"").unwrap();
        let refused = batch.push(3, b"1").unwrap_err();
        assert!(matches!(refused, BatchError::Full { memory_bytes: 40 }), "{refused}");
        let updates = batch.resolve();
        assert_eq!((updates.given(), updates.requested_bytes(), updates.end()), (2, 8, 11));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if crate::is_long() { 256 } else { 64 }))]

        #[test]
        fn batch_keeps_the_last_given_in_every_byte(
            given in proptest::collection::vec((0u64..400, proptest::collection::vec(any::<u8>(), 0..100)), 0..150),
        ) {
            let (mut naive, mut batch) = (vec![None; 500], Batch::new());
            for (offset, bytes) in &given {
                batch.push(*offset, bytes).unwrap();
                for (at, byte) in (*offset..).zip(bytes) {
                    naive[at as usize] = Some(*byte);
                }
            }
            let updates = batch.resolve();
            let (mut found, mut reached, mut pieces) = (vec![None; 500], 0, 0);
            for (offset, bytes) in updates.iter() {
                assert!(offset >= reached && !bytes.is_empty());
                (reached, pieces) = (offset + bytes.len() as u64, pieces + 1);
                for (at, byte) in (offset..).zip(bytes) {
                    found[at as usize] = Some(*byte);
                }
            }
            prop_assert_eq!(updates.given(), given.iter().filter(|one| !one.1.is_empty()).count() as u64);
            prop_assert_eq!(updates.requested_bytes(), naive.iter().flatten().count() as u64);
            prop_assert_eq!((updates.end(), updates.gaps.pieces), (reached, pieces));
            prop_assert_eq!(found, naive);
        }
    }
}
