//! `compare/mmap`: both files are mapped, whole or in windows of a block, as FreeBSD's cmp does; in one thread, or in
//! several that take windows in turn.

use std::ops::Range;

use super::pair::Pair;
use super::windows::first_difference;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::setup::Setup;
use crate::threads::ThreadPool;
use crate::transfer::{Ahead, MappedWindow, STEP_BYTES, pieces, require_guard, window_bytes, windows};

pub(super) const PREPARE: PrepareCompare = |setup| {
    require_guard(&setup)?;
    let threads = setup.method.options().threads() as usize;
    Ok(Box::new(Mmap {
        setup,
        pool: (threads > 1).then(|| setup.pool(threads)).transpose()?,
        threads,
    }))
};

struct Mmap {
    setup: Setup,
    pool: Option<ThreadPool>,
    threads: usize,
}

impl CompareBytes for Mmap {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        for window in windows(&self.setup.method, range) {
            let view = view(pair, file, &window)?;
            for step in pieces(pair.place(file, &window), STEP_BYTES) {
                view.bytes(&step).touch();
                view.check(step.start)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        if let Some(pool) = &self.pool {
            let window_bytes = window_bytes(&self.setup.method, &range);
            let mut workers = vec![(); self.threads];
            return first_difference(pool, range, window_bytes, &mut workers, |(), window| {
                compare_window(pair, window, &mut 0)
            });
        }
        for window in windows(&self.setup.method, range) {
            if let Some(found) = compare_window(pair, window, newlines)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Maps a window of both, and compares it in steps, so that a difference is found without touching all of it.
fn compare_window(pair: &Pair<'_>, window: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
    let views = [view(pair, 0, &window)?, view(pair, 1, &window)?];
    for step in pieces(window, STEP_BYTES) {
        let places = [0, 1].map(|file| pair.place(file, &step));
        let found = pair.difference(views[0].bytes(&places[0]), views[1].bytes(&places[1]), newlines);
        views[0].check(places[0].start)?;
        views[1].check(places[1].start)?;
        if let Some(found) = found {
            return Ok(Some(step.start + found));
        }
    }
    Ok(None)
}

/// Maps a window of one file.
fn view<'a>(pair: &'a Pair<'a>, file: usize, window: &Range<u64>) -> Result<MappedWindow<'a>> {
    let side = &pair.sides[file];
    let place = pair.place(file, window);
    Ahead::for_map(side, 0..side.bytes)?.reading_at(place.start)?;
    MappedWindow::of_source(side, &place)
}
