//! One pass over two files in the method's order. The mechanism compares what must be read; ranges that the map
//! excludes are skipped. The map is checked at some places, and queried again afterwards.

use std::ops::Range;

use seekless_sys::{Buffer, MappedBytes};

use super::CompareBytes;
use super::map::{HoleMap, MapKind};
use super::pair::Pair;
use crate::error::Result;
use crate::files::{FileState, allocated_bytes};
use crate::setup::MEMORY_ALIGNMENT;
use crate::transfer::pieces;
use seekless_method::{Differ, Order};

/// The block for reading data where the other file has a hole.
const BLOCK_BYTES: usize = 128 << 10;
/// The number of holes in which a page is read, to check the map.
const SAMPLES: u64 = 8;
const SAMPLE_BYTES: u64 = 4096;
/// Blocks that a file may have for the file system's own use.
const OVERHEAD_BYTES: u64 = 16 << 20;

/// One pass over two files.
pub(super) struct Pass<'a> {
    pair: &'a Pair<'a>,
    mechanism: &'a mut dyn CompareBytes,
    buffer: Option<Buffer>,
    newlines: u64,
    /// Bytes of each file that were not read.
    pub unread_bytes: u64,
    /// Bytes of each file that are holes according to the map.
    claimed_bytes: [u64; 2],
    holes: u64,
    /// The hash of the map, and whether a hole was found to contain data.
    signature: u64,
    lied: bool,
}

impl<'a> Pass<'a> {
    pub fn new(pair: &'a Pair<'a>, mechanism: &'a mut dyn CompareBytes) -> Self {
        Self {
            pair,
            mechanism,
            buffer: None,
            newlines: 0,
            unread_bytes: 0,
            claimed_bytes: [0; 2],
            holes: 0,
            signature: 0,
            lied: false,
        }
    }

    /// Newlines in the equal part, if they were counted. Holes and zeros have none.
    pub fn newlines(&self) -> Option<u64> {
        let differ = self.pair.sides[0].method.options().differ();
        (differ == Differ::Linewise).then_some(self.newlines)
    }

    /// Compares the files; returns the first difference, if there is one.
    pub fn run(&mut self, map: &HoleMap) -> Result<Option<u64>> {
        let order = self.pair.sides[0].method.options().order();
        if order == Order::Preload {
            for file in 0..2 {
                let mut runs = map.runs(self.pair);
                while let Some((kind, range)) = runs.next()? {
                    self.preload(file, kind, range)?;
                }
            }
        }
        let mut runs = map.runs(self.pair);
        while let Some((kind, range)) = runs.next()? {
            let found = match kind {
                MapKind::Data => self.data(order, range)?,
                MapKind::DataIn(file) => self.zeros(file, range)?,
                MapKind::Hole | MapKind::Shared => {
                    self.pass_over(kind, &range)?;
                    None
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        self.signature = runs.signature();
        Ok(None)
    }

    /// Compares a range of data, in windows if the method has them.
    fn data(&mut self, order: Order, range: Range<u64>) -> Result<Option<u64>> {
        // Direct I/O starts at an aligned offset; a part of a hole in both is then read as zeros.
        let start = range.start - range.start % self.pair.alignment();
        let Order::Window(window_bytes) = order else {
            let mut found = None;
            self.pair.sides[0].in_pieces(start..range.end, |piece| {
                found = self.mechanism.compare(self.pair, piece, &mut self.newlines)?;
                Ok(found.is_some())
            })?;
            return Ok(found);
        };
        for window in pieces(start..range.end, window_bytes) {
            for file in 0..2 {
                self.preload(file, MapKind::Data, window.clone())?;
            }
            let end = window.end;
            let found = self.mechanism.compare(self.pair, window, &mut self.newlines)?;
            if found.is_some() {
                return Ok(found);
            }
            self.pair.sides[0].tell(end)?;
        }
        Ok(None)
    }

    fn preload(&mut self, file: usize, kind: MapKind, range: Range<u64>) -> Result<()> {
        if kind == MapKind::Data || kind == MapKind::DataIn(file) {
            return self.mechanism.preload(self.pair, file, range);
        }
        Ok(())
    }

    /// A hole in one file: the other's data must be zeros.
    fn zeros(&mut self, file: usize, range: Range<u64>) -> Result<Option<u64>> {
        self.note_hole(1 - file, &range)?;
        let start = range.start - range.start % self.pair.alignment();
        for piece in pieces(start..range.end, BLOCK_BYTES as u64) {
            // An aligned start may be before the hole, where the two are known to be equal.
            let from = range.start.max(piece.start);
            if let Some(found) = self.first_nonzero(file, &piece, from)? {
                return Ok(Some(from + found as u64));
            }
            self.pair.sides[0].tell(piece.end)?;
        }
        Ok(None)
    }

    fn pass_over(&mut self, kind: MapKind, range: &Range<u64>) -> Result<()> {
        self.unread_bytes += range.end - range.start;
        if kind == MapKind::Hole {
            self.note_hole(0, range)?;
            self.note_hole(1, range)?;
        }
        Ok(())
    }

    /// Counts a hole of the map, and reads a page in the middle of the first few holes.
    fn note_hole(&mut self, file: usize, range: &Range<u64>) -> Result<()> {
        self.claimed_bytes[file] += range.end - range.start;
        self.holes += 1;
        if self.holes > SAMPLES {
            return Ok(());
        }
        let middle = range.start + (range.end - range.start) / 2;
        let at = (middle - middle % SAMPLE_BYTES).max(range.start - range.start % self.pair.alignment());
        let sample = at..range.end.min(at + SAMPLE_BYTES);
        self.lied |= self.first_nonzero(file, &sample, range.start.max(at))?.is_some();
        Ok(())
    }

    /// Reads a piece of a file, and returns the first byte after `from` that is not zero.
    fn first_nonzero(&mut self, file: usize, piece: &Range<u64>, from: u64) -> Result<Option<usize>> {
        let pair = self.pair;
        if self.buffer.is_none() {
            let made = Buffer::new(BLOCK_BYTES, MEMORY_ALIGNMENT);
            self.buffer = Some(made.map_err(|error| pair.sides[file].failed("allocate a buffer", error))?);
        }
        let buffer = self.buffer.as_mut().expect("it was just made");
        let length = (piece.end - piece.start) as usize;
        pair.read(file, buffer, piece.start, length)?;
        let looked_at = &buffer[(from - piece.start) as usize..length];
        Ok(MappedBytes::from(looked_at).first_nonzero())
    }

    /// Whether the map cannot be relied on: a hole contained data, a file has more blocks than its holes allow, the map
    /// is different now, or the files were changed meanwhile.
    pub fn must_look_again(&self) -> Result<bool> {
        if self.claimed_bytes == [0; 2] && self.unread_bytes == 0 {
            return Ok(false);
        }
        if self.lied || (0..2).any(|file| self.has_too_many_blocks(file)) {
            return Ok(true);
        }
        let map = HoleMap::of(self.pair)?;
        let mut runs = map.runs(self.pair);
        while runs.next()?.is_some() {}
        if runs.signature() != self.signature {
            return Ok(true);
        }
        // This comes last, to notice changes while the map was read.
        for file in 0..2 {
            let (before, now) = (&self.pair.metadata[file], self.pair.sides[file].metadata()?);
            if FileState::of(before) != FileState::of(&now) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a file has more blocks than the holes of the map allow.
    fn has_too_many_blocks(&self, file: usize) -> bool {
        let metadata = &self.pair.metadata[file];
        let allocated = allocated_bytes(metadata);
        let most = metadata.len().saturating_sub(self.claimed_bytes[file]);
        self.claimed_bytes[file] > 0 && allocated > most + most / 8 + OVERHEAD_BYTES
    }
}
