//! Resolves overlaps of sorted pieces: the last update given wins.

use std::collections::{BinaryHeap, VecDeque};

use super::window::WindowPiece;

/// Reduces sorted pieces to the parts that no later update overwrites, by offset. It works in place, because a second
/// list of ten million would take another 160 MB. There are at most as many parts as pieces, unless pieces lie within
/// others.
pub(super) fn last_wins(pieces: &mut Vec<WindowPiece>) {
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
    last: Option<WindowPiece>,
    /// Parts for which there was no room yet.
    waiting: VecDeque<WindowPiece>,
    stored: usize,
}

impl Left {
    fn keep(&mut self, offset: u64, start: u32, length: u32) {
        match &mut self.last {
            Some(last) if last.end() == offset && last.start + last.length == start => last.length += length,
            last => self.waiting.extend(last.replace(WindowPiece { offset, start, length })),
        }
    }

    fn store(&mut self, room: &mut [WindowPiece]) {
        while self.stored < room.len()
            && let Some(piece) = self.waiting.pop_front()
        {
            room[self.stored] = piece;
            self.stored += 1;
        }
    }

    fn finish(mut self, pieces: &mut Vec<WindowPiece>) {
        self.waiting.extend(self.last.take());
        self.store(pieces);
        pieces.truncate(self.stored);
        pieces.extend(self.waiting);
    }
}
