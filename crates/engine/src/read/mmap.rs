//! `read/mmap`: the file is mapped, whole or in windows of a block, and handed over in steps.

use std::ops::Range;

use seekless_sys::{Map, MapAdvice, MapMode};

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use crate::transfer::Side;
use crate::{Chunk, Consumer};
use seekless_method::Hint;

pub(super) const PREPARE: PrepareRead = |setup| {
    require_guard(&setup)?;
    Ok(Box::new(Mmap { setup }))
};

/// The most bytes handed over at once, so that a consumer can stop, and what it looks at stays in the cache.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Fails where the program has not allowed mapping.
pub(crate) fn require_guard(setup: &Setup) -> Result<()> {
    if seekless_sys::guard_installed() {
        return Ok(());
    }
    Err(setup.unavailable("mapping is not allowed in this process: call seekless::allow_mapping() first"))
}

/// The windows over a range: a block each, in whole pages, or all of it. They begin at pages, the first before the range
/// where that does not.
pub(crate) fn windows(side: &Side<'_>, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let block = side.method.options().block_bytes();
    let window = block.map_or(range.end, |block| block.next_multiple_of(page_bytes()));
    let first = range.start - range.start % page_bytes();
    let starts = (first..range.end).step_by(window.max(1) as usize);
    starts.map(move |start| start..start.saturating_add(window).min(range.end))
}

/// A range cut into the steps in which it is handed over.
pub(crate) fn steps(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = range.step_by(STEP_BYTES as usize);
    starts.map(move |start| start..(start + STEP_BYTES).min(end))
}

/// The place of a part of a file in a map that begins at `mapped_from`.
pub(crate) fn place_in_map(part: &Range<u64>, mapped_from: u64) -> Range<usize> {
    (part.start - mapped_from) as usize..(part.end - mapped_from) as usize
}

/// A page, as far as offsets of maps go. Some machines have pages of 64K.
pub(crate) fn page_bytes() -> u64 {
    seekless_sys::page_bytes().max(MEMORY_ALIGNMENT) as u64
}

/// Maps a window of a source and gives the method's hint for it.
pub(crate) fn map_source(source: &Side<'_>, offset: u64, length: u64) -> Result<Map> {
    source.count_calls(2);
    let mapped = Map::new(&source.file, offset, length as usize, MapMode::Read);
    let map = mapped.map_err(|error| source.failed_at("mapping", offset, error))?;
    let advice = match source.method.options().hint() {
        Hint::Sequential => MapAdvice::Sequential,
        Hint::WillNeed => MapAdvice::WillNeed,
        Hint::Populate => MapAdvice::PopulateRead,
        _ => return Ok(map),
    };
    source.count_call();
    source.support("advising on the map", map.advise(advice))?;
    Ok(map)
}

struct Mmap {
    setup: Setup,
}

impl ReadSource for Mmap {
    fn read(&mut self, source: &Side<'_>, range: Range<u64>, consumer: &dyn Consumer) -> Result<Stopped> {
        debug_assert_eq!(self.setup.method, *source.method);
        let mut ahead = Ahead::for_map(source, range.clone())?;
        for window in windows(source, range.clone()) {
            let map = map_source(source, window.start, window.end - window.start)?;
            for step in steps(window.start.max(range.start)..window.end) {
                ahead.reading_at(step.start)?;
                let bytes = map.bytes(place_in_map(&step, window.start));
                let flow = consumer.data(step.start, Chunk::Mapped(bytes));
                if map.faulted() {
                    return Err(fault(source, step.start));
                }
                if flow.is_break() {
                    return source.check_not_shrunk().map(|()| true);
                }
            }
        }
        // A cut inside the last page raises no signal.
        source.check_not_shrunk()?;
        Ok(false)
    }
}

/// Why a page of a map could not be had: the file is shorter now, or the device failed.
pub(crate) fn fault(side: &Side<'_>, offset: u64) -> crate::Error {
    match side.check_not_shrunk() {
        Err(error) => error,
        Ok(()) => side.failed_at(
            "reading through the map",
            offset,
            std::io::Error::other("input/output error, or the file was shorter for a moment"),
        ),
    }
}
