//! `compare/mmap`: both files are mapped, whole or in windows of a block that are mapped anew, as FreeBSD's cmp does; in one
//! thread, or in several that take windows in turn.

use std::ops::Range;

use rayon::ThreadPool;
use seekless_sys::{Map, MappedBytes};

use super::pair::Pair;
use super::windows::first_difference;
use super::{CompareBytes, PrepareCompare};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::pool::pool;
use crate::read::{STEP_BYTES, map_fault, map_source, page_bytes, require_guard};
use crate::setup::Setup;

pub(super) const PREPARE: PrepareCompare = |setup| {
    require_guard(&setup)?;
    let threads = setup.method.options().threads() as usize;
    Ok(Box::new(Mmap {
        setup,
        pool: (threads > 1).then(|| pool(&setup, threads)).transpose()?,
        threads,
    }))
};

struct Mmap {
    setup: Setup,
    pool: Option<ThreadPool>,
    threads: usize,
}

impl Mmap {
    /// The bytes of one window: the block in whole pages, or all of the stretch.
    fn window_bytes(&self, range: &Range<u64>) -> u64 {
        let block = self.setup.method.options().block_bytes();
        let window = block.map_or(range.end - range.start, |block| block.next_multiple_of(page_bytes()));
        window.max(1)
    }
}

impl CompareBytes for Mmap {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        for window in windows(range.clone(), self.window_bytes(&range)) {
            let view = View::new(pair, file, &window)?;
            for step in windows(window, STEP_BYTES) {
                view.bytes(&step).touch();
                view.check(step.start)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        let window_bytes = self.window_bytes(&range);
        if let Some(pool) = &self.pool {
            let mut workers = vec![(); self.threads];
            return first_difference(pool, range, window_bytes, &mut workers, |(), window| {
                compare_window(pair, window, &mut 0)
            });
        }
        for window in windows(range, window_bytes) {
            if let Some(found) = compare_window(pair, window, newlines)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Maps a window of both, and compares it in steps, so that a difference is found without touching all of it.
fn compare_window(pair: &Pair<'_>, window: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
    let (one, other) = (View::new(pair, 0, &window)?, View::new(pair, 1, &window)?);
    for step in windows(window, STEP_BYTES) {
        let found = pair.difference(one.bytes(&step), other.bytes(&step), newlines);
        one.check(step.start)?;
        other.check(step.start)?;
        if let Some(found) = found {
            return Ok(Some(step.start + found));
        }
    }
    Ok(None)
}

/// A range cut into windows.
fn windows(range: Range<u64>, window_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = range;
    let starts = (start..end).step_by(window_bytes as usize);
    starts.map(move |at| at..(at + window_bytes).min(end))
}

/// A mapped window of one file.
struct View<'a> {
    pair: &'a Pair<'a>,
    file: usize,
    map: Map,
    /// The offset of the map's first byte in the file.
    mapped_from: u64,
}

impl<'a> View<'a> {
    fn new(pair: &'a Pair<'a>, file: usize, window: &Range<u64>) -> Result<Self> {
        let side = &pair.sides[file];
        let place = pair.place(file, window);
        // A start that was skipped to need not be that of a page.
        let mapped_from = place.start - place.start % page_bytes();
        Ahead::for_map(side, 0..side.bytes)?.reading_at(place.start)?;
        Ok(Self {
            pair,
            file,
            map: map_source(side, mapped_from, place.end - mapped_from)?,
            mapped_from,
        })
    }

    fn bytes(&self, step: &Range<u64>) -> MappedBytes<'_> {
        let place = self.pair.place(self.file, step);
        self.map
            .bytes((place.start - self.mapped_from) as usize..(place.end - self.mapped_from) as usize)
    }

    /// Fails where what was looked at was not the file.
    fn check(&self, at: u64) -> Result<()> {
        if self.map.faulted() {
            return Err(map_fault(&self.pair.sides[self.file], self.pair.starts[self.file] + at));
        }
        Ok(())
    }
}
