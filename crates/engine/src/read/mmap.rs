//! `read/mmap`: the file is mapped, whole or in windows of a block, and handed over in steps.

use seekless_sys::{Map, MapAdvice, MapMode};

use super::{PrepareRead, ReadSource, Stopped};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::method::{Accepts, Hint, Mechanism, Operation, Platform, Prepare};
use crate::setup::Setup;
use crate::transfer::{MEMORY_ALIGNMENT, Side};
use crate::{Chunk, Consumer};

const PREPARE: PrepareRead = |setup| {
    require_guard(&setup)?;
    Ok(Box::new(Mmap { setup }))
};

/// The hints for maps.
pub(crate) const MAP_HINTS: &[Hint] = &[
    Hint::Sequential,
    Hint::WillNeed,
    Hint::Populate,
    Hint::RdAhead,
    Hint::RdAdvise,
];

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Read,
    name: "mmap",
    about: "the file mapped whole, or in windows of a block",
    accepts: Accepts {
        block: Some(None),
        cache: &[],
        hints: MAP_HINTS,
        ..super::sync::ACCEPTS
    },
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 3,
    prepare: Prepare::Read(PREPARE),
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

/// The bytes of one window: the block, a multiple of the page, or the whole file.
pub(crate) fn window_bytes(side: &Side<'_>) -> u64 {
    let block = side.method.options().block_bytes;
    block
        .map_or(side.bytes, |block| block.next_multiple_of(page_bytes()))
        .max(1)
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
    let advice = match source.method.options().hint {
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
    fn read(&mut self, source: &Side<'_>, consumer: &dyn Consumer) -> Result<Stopped> {
        debug_assert_eq!(self.setup.method, *source.method);
        let mut ahead = Ahead::for_map(source)?;
        let window = window_bytes(source);
        let mut offset = 0;
        while offset < source.bytes {
            let length = window.min(source.bytes - offset);
            let map = map_source(source, offset, length)?;
            let mut start = 0;
            while start < length {
                let end = (start + STEP_BYTES).min(length);
                ahead.reading_at(offset + start)?;
                let bytes = map.bytes(start as usize..end as usize);
                let flow = consumer.data(offset + start, Chunk::Mapped(bytes));
                if map.faulted() {
                    return Err(fault(source, offset + start));
                }
                if flow.is_break() {
                    return source.check_not_shrunk().map(|()| true);
                }
                start = end;
            }
            offset += length;
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
