//! Sorting more updates than fit into memory: sorted runs in unnamed files, merged window by window of the file.
//!
//! A window is a part of the file whose updates, of all runs, fit into half of the memory; the other half is for the
//! chunks in which runs are read. The updates of a window are sorted by themselves, the oldest run first, so that the
//! last one given wins. [`FAN_IN`] runs of a level are merged into one of the next, so that there are never many runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};

use super::run::SortedRun;
use super::window::{PIECE_BYTES, Unsorted, Window};
use crate::error::BatchError;

/// How many runs of a level become one of the next.
const FAN_IN: usize = if cfg!(test) { 3 } else { 32 };
/// The chunks of a run: this part of the memory, and a smallest size. Up to 64 are in memory at a time.
const CHUNKS: u64 = 512;
const CHUNK_BYTES_MIN: u64 = if cfg!(test) { 64 } else { 64 << 10 };
/// Windows begin at multiples of this, so that pages and blocks are not written twice.
const WINDOW_ALIGNMENT: u64 = if cfg!(test) { 16 } else { 4096 };

/// Updates on the disk.
#[derive(Debug)]
pub(super) struct Spill {
    memory_bytes: u64,
    pub directory: PathBuf,
    /// Runs by level, the oldest first. Runs of a higher level are older.
    levels: Vec<Vec<SortedRun>>,
}

impl Spill {
    pub fn new(memory_bytes: u64, directory: &Path) -> Self {
        Self {
            memory_bytes,
            directory: directory.to_owned(),
            levels: Vec::new(),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The size of the parts into which an update is split if it does not fit.
    pub fn part_bytes(&self) -> usize {
        self.chunk_bytes() as usize
    }

    fn chunk_bytes(&self) -> u64 {
        (self.memory_bytes / CHUNKS).max(CHUNK_BYTES_MIN)
    }

    /// Whether there are updates on the disk.
    pub fn is_used(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Adds updates that were given after all earlier ones.
    pub fn add(&mut self, unsorted: Unsorted) -> Result<(), BatchError> {
        if unsorted.is_empty() {
            return Ok(());
        }
        let added = self.try_add(unsorted);
        added.map_err(|source| self.failed(source))
    }

    pub fn failed(&self, source: io::Error) -> BatchError {
        BatchError::Spill {
            directory: self.directory.clone(),
            source,
        }
    }

    fn try_add(&mut self, unsorted: Unsorted) -> io::Result<()> {
        let mut run = SortedRun::new(&self.directory)?;
        append(&mut run, &unsorted.resolve(0..u64::MAX), self.chunk_bytes())?;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < FAN_IN {
                break;
            }
            let mut windows = Merge::new(std::mem::take(&mut self.levels[level]), self.memory_bytes / 2);
            run = SortedRun::new(&self.directory)?;
            while let Some(window) = windows.next_window()? {
                append(&mut run, &window, self.chunk_bytes())?;
            }
        }
        Ok(())
    }

    /// Iterates over all updates, window by window.
    pub fn merge(&mut self) -> Merge {
        let oldest_first = std::mem::take(&mut self.levels).into_iter().rev().flatten();
        Merge::new(oldest_first.collect(), self.memory_bytes / 2)
    }
}

/// Appends a window to a run in chunks; long updates are cut.
fn append(run: &mut SortedRun, window: &Window, chunk_bytes: u64) -> io::Result<()> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for piece in window.pieces.iter().flat_map(|piece| piece.parts(chunk_bytes)) {
        chunk.push(piece);
        bytes += PIECE_BYTES + u64::from(piece.length);
        if bytes >= chunk_bytes {
            run.append(chunk[0].offset, &chunk, window)?;
            chunk.clear();
            bytes = 0;
        }
    }
    match chunk.first() {
        Some(first) => run.append(first.offset, &chunk, window),
        None => Ok(()),
    }
}

/// The merging of runs.
pub(super) struct Merge {
    /// The oldest first.
    sources: Vec<Source>,
    window_bytes: u64,
    /// How far the file is done.
    at: u64,
}

/// A run that is being read.
struct Source {
    run: SortedRun,
    /// The next chunk.
    next: usize,
    /// The current chunk, and how many of its pieces are done.
    present: Option<(Window, usize)>,
}

impl Merge {
    fn new(runs: Vec<SortedRun>, window_bytes: u64) -> Self {
        let source = |run| Source {
            run,
            next: 0,
            present: None,
        };
        Self {
            sources: runs.into_iter().map(source).collect(),
            window_bytes,
            at: 0,
        }
    }

    /// The updates of the next part of the file; `None` at the end.
    pub fn next_window(&mut self) -> io::Result<Option<Window>> {
        let (start, mut unsorted) = (self.at, Unsorted::default());
        while unsorted.is_empty() && self.at < u64::MAX {
            let end = self.window_end();
            for source in &mut self.sources {
                source.take(self.at, end, &mut unsorted)?;
            }
            self.at = end;
        }
        let is_over = unsorted.is_empty();
        Ok((!is_over).then(|| unsorted.resolve(start..self.at)))
    }

    /// How far the chunks reach that fit into memory.
    fn window_end(&self) -> u64 {
        let place = |source: usize, chunk: usize| {
            let found = self.sources[source].run.chunks.get(chunk);
            found.map(|found| Reverse((found.offset, source, chunk)))
        };
        let first = (0..self.sources.len()).filter_map(|source| place(source, self.sources[source].next));
        let mut coming: BinaryHeap<_> = first.collect();
        let mut bytes = 0;
        while let Some(Reverse((offset, source, chunk))) = coming.pop() {
            let end = offset / WINDOW_ALIGNMENT * WINDOW_ALIGNMENT;
            bytes += self.sources[source].run.chunks[chunk].memory_bytes();
            if bytes > self.window_bytes && end > self.at {
                return end;
            }
            coming.extend(place(source, chunk + 1));
        }
        u64::MAX
    }
}

impl Source {
    /// Moves the updates of a part of the file to `to`.
    fn take(&mut self, start: u64, end: u64, to: &mut Unsorted) -> io::Result<()> {
        loop {
            if self.present.is_none() && self.run.chunks.get(self.next).is_some_and(|next| next.offset < end) {
                self.present = Some((self.run.load(self.next)?, 0));
                self.next += 1;
            }
            let Some((window, done)) = &mut self.present else {
                return Ok(());
            };
            while let Some(piece) = window.pieces.get(*done) {
                let (from, until) = (piece.offset.max(start), piece.end().min(end));
                if from < until {
                    let bytes = window.bytes_of(piece);
                    to.push(
                        from,
                        &bytes[(from - piece.offset) as usize..(until - piece.offset) as usize],
                    );
                }
                if piece.end() > end {
                    return Ok(());
                }
                *done += 1;
            }
            self.present = None;
        }
    }
}
