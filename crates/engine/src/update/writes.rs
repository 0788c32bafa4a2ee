//! Iterates over the writes of an order for updates, without a list of all writes.

use std::ops::Range;

use super::batch::{UpdatePiece, Updates};
use seekless_method::{Method, UpdateOrder};

/// One call that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub offset: u64,
    pub length: u64,
    /// The updates in it, some perhaps only in part.
    pub pieces: Range<usize>,
    /// How many of its bytes are from updates.
    pub covered: u64,
}

impl Write {
    /// Whether it has bytes that are not from updates.
    pub fn has_gaps(&self) -> bool {
        self.covered < self.length
    }

    /// The parts that are from updates: the position in the write, and the bytes.
    pub fn parts<'a>(&self, updates: &'a Updates) -> impl Iterator<Item = (usize, &'a [u8])> {
        let (offset, end) = (self.offset, self.offset + self.length);
        updates.pieces[self.pieces.clone()].iter().map(move |piece| {
            let within: Range<u64> = piece.offset.max(offset)..piece.end().min(end);
            let first = (within.start - piece.offset) as usize;
            let bytes = &updates.bytes_of(piece)[first..first + (within.end - within.start) as usize];
            ((within.start - offset) as usize, bytes)
        })
    }

    /// The bytes, if all of them are from one update.
    pub fn only_part<'a>(&self, updates: &'a Updates) -> Option<&'a [u8]> {
        let (_, bytes) = self.parts(updates).next()?;
        (bytes.len() as u64 == self.length).then_some(bytes)
    }

    /// Copies the updates into the buffer of the write.
    pub fn overlay(&self, updates: &Updates, buffer: &mut [u8]) {
        for (at, bytes) in self.parts(updates) {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// The parameters by which updates become writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteLayout {
    pub order: UpdateOrder,
    /// The most bytes of one write.
    pub block_bytes: u64,
    /// The alignment of offsets and lengths.
    pub alignment: u64,
    /// The final size of the file, up to which a rewrite writes.
    pub end: u64,
}

/// How far the writes of a method reach at most: for a rewrite, to the end of the file.
pub(super) fn reach(method: &Method, updates_end: u64, file_bytes: u64) -> u64 {
    match method.options().update_order() {
        UpdateOrder::Rewrite => updates_end.max(file_bytes),
        _ => updates_end,
    }
}

/// A range to write, cut into blocks.
struct Span {
    at: u64,
    end: u64,
    first: usize,
    last: usize,
}

pub(crate) struct Writes<'a> {
    updates: &'a Updates,
    layout: WriteLayout,
    /// The updates in the given order, if that is the order of writing.
    given: Option<Vec<u32>>,
    next: usize,
    span: Option<Span>,
}

impl<'a> Writes<'a> {
    pub fn new(updates: &'a Updates, layout: WriteLayout) -> Self {
        let given = (layout.order == UpdateOrder::AsGiven).then(|| {
            let mut given: Vec<u32> = (0..updates.pieces.len() as u32).collect();
            given.sort_unstable_by_key(|&index| updates.pieces[index as usize].start);
            given
        });
        Self {
            updates,
            layout,
            given,
            next: 0,
            span: None,
        }
    }

    fn aligned(&self, piece: &UpdatePiece) -> (u64, u64) {
        let alignment = self.layout.alignment;
        let start = piece.offset / alignment * alignment;
        (start, piece.end().next_multiple_of(alignment))
    }

    fn next_span(&mut self) -> Option<Span> {
        let pieces = &self.updates.pieces;
        if self.next >= pieces.len() {
            return None;
        }
        if self.layout.order == UpdateOrder::Rewrite {
            self.next = pieces.len();
            return Some(Span {
                at: 0,
                end: self.layout.end.next_multiple_of(self.layout.alignment),
                first: 0,
                last: pieces.len(),
            });
        }
        let first = match &self.given {
            Some(given) => given[self.next] as usize,
            None => self.next,
        };
        let (at, mut end) = self.aligned(&pieces[first]);
        let mut last = first + 1;
        while self.given.is_none()
            && let Some(piece) = pieces.get(last)
        {
            let (start, piece_end) = self.aligned(piece);
            let joins = match self.layout.order {
                UpdateOrder::Coalesce(gap_bytes) => start <= end.saturating_add(gap_bytes),
                // Two updates in one aligned block become one write, so that neither undoes the other.
                _ => start < end,
            };
            if !joins {
                break;
            }
            end = piece_end;
            last += 1;
        }
        self.next += last - first;
        Some(Span { at, end, first, last })
    }
}

impl Iterator for Writes<'_> {
    type Item = Write;

    fn next(&mut self) -> Option<Write> {
        loop {
            if self.span.as_ref().is_none_or(|span| span.at >= span.end) {
                self.span = Some(self.next_span()?);
            }
            let span = self.span.as_mut()?;
            let (at, end) = (span.at, span.end.min(span.at.saturating_add(self.layout.block_bytes)));
            let pieces = &self.updates.pieces;
            let (first, mut last, mut covered) = (span.first, span.first, 0);
            while last < span.last && pieces[last].offset < end {
                covered += pieces[last].end().min(end) - pieces[last].offset.max(at);
                last += 1;
            }
            span.at = end;
            let reaches_on = last > first && pieces[last - 1].end() > end;
            span.first = if reaches_on { last - 1 } else { last };
            if covered > 0 || self.layout.order == UpdateOrder::Rewrite {
                return Some(Write {
                    offset: at,
                    length: end - at,
                    pieces: first..last,
                    covered,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::update::Batch;

    fn layout(order: UpdateOrder) -> WriteLayout {
        WriteLayout {
            order,
            block_bytes: 1 << 20,
            alignment: 1,
            end: 10_000,
        }
    }

    fn writes(given: &[(u64, usize)], layout: WriteLayout) -> Vec<(u64, u64)> {
        let mut batch = Batch::new();
        for &(offset, bytes) in given {
            batch.push(offset, &vec![1; bytes]).unwrap();
        }
        let updates = batch.resolve();
        let writes = Writes::new(&updates, layout);
        writes.map(|write| (write.offset, write.length)).collect()
    }

    #[test]
    fn the_writes_follow_from_the_order() {
        let given = [(8000, 4), (0, 4), (4, 4), (100, 4)];
        let table = [
            (UpdateOrder::AsGiven, vec![(8000, 4), (0, 4), (4, 4), (100, 4)]),
            (UpdateOrder::Ascending, vec![(0, 4), (4, 4), (100, 4), (8000, 4)]),
            (UpdateOrder::Coalesce(0), vec![(0, 8), (100, 4), (8000, 4)]),
            (UpdateOrder::Coalesce(92), vec![(0, 104), (8000, 4)]),
            (UpdateOrder::Rewrite, vec![(0, 10_000)]),
        ];
        for (order, expected) in table {
            assert_eq!(writes(&given, layout(order)), expected, "{order:?}");
        }
        let mut aligned = layout(UpdateOrder::Ascending);
        aligned.alignment = 512;
        assert_eq!(writes(&given, aligned), [(0, 512), (7680, 512)]);
        let mut blocks = layout(UpdateOrder::Coalesce(7896));
        blocks.block_bytes = 4096;
        let expected = [(0, 4096), (4096, 3908)];
        assert_eq!(writes(&given, blocks), expected, "the last one begins within a gap");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if crate::is_long() { 256 } else { 64 }))]

        #[test]
        fn every_order_writes_what_a_naive_file_holds(
            given in proptest::collection::vec((0u64..3000, proptest::collection::vec(any::<u8>(), 1..60)), 1..30),
            before in proptest::collection::vec(any::<u8>(), 0..2000),
            order in prop_oneof![
                Just(UpdateOrder::AsGiven), Just(UpdateOrder::Ascending), Just(UpdateOrder::Rewrite),
                (0u64..500).prop_map(UpdateOrder::Coalesce),
            ],
            (alignment, blocks) in (prop_oneof![Just(1u64), Just(64)], 1u64..20),
        ) {
            let mut naive = before.clone();
            let mut batch = Batch::new();
            for (offset, bytes) in &given {
                batch.push(*offset, bytes).unwrap();
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                naive.resize(naive.len().max(end), 0);
                naive[start..end].copy_from_slice(bytes);
            }
            let updates = batch.resolve();
            let end = updates.pieces.last().unwrap().end().max(before.len() as u64);
            let layout = WriteLayout { order, block_bytes: blocks * alignment, alignment, end };
            let mut file = before;
            file.resize(end.next_multiple_of(alignment) as usize, 0);
            for write in Writes::new(&updates, layout) {
                prop_assert!(write.length <= layout.block_bytes);
                prop_assert!(write.offset.is_multiple_of(alignment) && (write.length.is_multiple_of(alignment)));
                let range = write.offset as usize..(write.offset + write.length) as usize;
                write.overlay(&updates, &mut file[range]);
            }
            file.truncate(end as usize);
            prop_assert_eq!(file, naive);
        }
    }
}
