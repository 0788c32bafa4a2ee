//! `write/mmap`: the file gets its size, is mapped, whole or in windows of a block, and filled.
//!
//! The producer fills a small buffer that is then copied into the map: a map that others can change is never a slice.
//! The copy is from the first-level cache and costs a few per cent of the page faults.

use seekless_sys::Buffer;

use super::PreparedWrite;
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use crate::transfer::{MappedWindow, pieces, require_guard, windows};

/// What is produced at once: it stays in the first-level cache on its way into the map.
const STEP_BYTES: usize = 32 << 10;

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    require_guard(&setup)?;
    let mut buffer =
        Buffer::new(STEP_BYTES, MEMORY_ALIGNMENT).map_err(|error| setup.failed("allocate a buffer", error))?;
    Ok(Box::new(move |target, producer| {
        target.reach_size()?;
        for window in windows(target.method, target.range()) {
            let view = MappedWindow::of_target(target, &window)?;
            let offset = window.start;
            for step in pieces(window, STEP_BYTES as u64) {
                let bytes = &mut buffer[..(step.end - step.start) as usize];
                target.produce(producer, step.start, bytes)?;
                view.bytes_mut(&step).copy_from(bytes);
            }
            view.check(offset)?;
        }
        // After a truncation within the last page, bytes copied behind the new end are not in the file.
        target.check_not_shrunk()
    }))
}
