//! Mapped windows of a file, for the `mmap` mechanisms of all operations.

use std::ops::Range;

use seekless_sys::{Map, MapAdvice, MapMode, MappedBytes, MappedBytesMut};

use super::{OpenFile, pieces};
use crate::error::{Error, Result};
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use seekless_method::{Hint, Method};

/// The most bytes passed to a consumer at once, so that it can stop, and its data stays in the processor's caches.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Fails if the program has not allowed mapping.
pub(crate) fn require_guard(setup: &Setup) -> Result<()> {
    if seekless_sys::guard_installed() {
        return Ok(());
    }
    Err(setup.unavailable("mapping is not allowed in this process: call allow_mapping() first"))
}

/// The windows of a range by a method: one per block, in whole pages, or the whole range.
pub(crate) fn windows(method: &Method, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let window_bytes = window_bytes(method, &range);
    pieces(range, window_bytes)
}

/// Bytes of one window.
pub(crate) fn window_bytes(method: &Method, range: &Range<u64>) -> u64 {
    let block = method.options().block_bytes();
    let window = block.map_or(range.end - range.start, |block| block.next_multiple_of(page_bytes()));
    window.max(1)
}

/// The page size for offsets of maps; some machines have pages of 64K.
fn page_bytes() -> u64 {
    seekless_sys::page_bytes().max(MEMORY_ALIGNMENT) as u64
}

/// A mapped window of a file.
pub(crate) struct MappedWindow<'a> {
    side: &'a OpenFile<'a>,
    pub map: Map,
    /// The offset of the map's first byte in the file: a window need not begin at a page.
    mapped_from: u64,
}

impl<'a> MappedWindow<'a> {
    /// Maps a window of a source and gives the method's hint for it.
    pub fn of_source(source: &'a OpenFile<'a>, window: &Range<u64>) -> Result<Self> {
        let view = Self::new(source, window, MapMode::Read)?;
        let advice = match source.method.options().hint() {
            Hint::Sequential => MapAdvice::Sequential,
            Hint::WillNeed => MapAdvice::WillNeed,
            Hint::Populate => MapAdvice::PopulateRead,
            _ => return Ok(view),
        };
        source.count_call();
        source.support("advise on the map", view.map.advise(advice))?;
        Ok(view)
    }

    /// Maps a window of a target for writing.
    pub fn of_target(target: &'a OpenFile<'a>, window: &Range<u64>) -> Result<Self> {
        Self::new(target, window, MapMode::ReadWrite)
    }

    fn new(side: &'a OpenFile<'a>, window: &Range<u64>, mode: MapMode) -> Result<Self> {
        let mapped_from = window.start - window.start % page_bytes();
        side.count_calls(2);
        let mapped = Map::new(&side.file, mapped_from, (window.end - mapped_from) as usize, mode);
        Ok(Self {
            side,
            map: mapped.map_err(|error| side.failed(("map", mapped_from), error))?,
            mapped_from,
        })
    }

    /// A part of the window.
    pub fn bytes(&self, part: &Range<u64>) -> MappedBytes<'_> {
        self.map.bytes(self.place(part))
    }

    /// The same, to be written to.
    pub fn bytes_mut(&self, part: &Range<u64>) -> MappedBytesMut<'_> {
        self.map.bytes_mut(self.place(part))
    }

    fn place(&self, part: &Range<u64>) -> Range<usize> {
        (part.start - self.mapped_from) as usize..(part.end - self.mapped_from) as usize
    }

    /// Fails if a page of the last step, from `offset` on, was not available, so that its bytes were not those of the
    /// file.
    pub fn check(&self, offset: u64) -> Result<()> {
        if self.map.faulted() {
            return Err(self.fault(offset));
        }
        Ok(())
    }

    /// The error: the file is shorter now, or the device failed.
    #[cold]
    fn fault(&self, offset: u64) -> Error {
        let reason = "input/output error, or the file was shorter for a moment";
        let shrunk = self.side.check_not_shrunk().err();
        shrunk.unwrap_or_else(|| {
            self.side
                .failed(("read through the map", offset), std::io::Error::other(reason))
        })
    }
}
