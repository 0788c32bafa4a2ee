//! `copy/mmap`: both files are mapped, whole or in windows of a block, and the bytes copied from map to map.

use super::PreparedCopy;
use crate::setup::Setup;
use crate::transfer::{Ahead, MappedWindow, STEP_BYTES, pieces, require_guard, windows};

pub(super) fn prepare(setup: Setup) -> PreparedCopy {
    require_guard(&setup)?;
    Ok(Box::new(|source, target, range| {
        target.reach_size()?;
        let mut ahead = Ahead::for_map(source, range.clone())?;
        for window in windows(source.method, range) {
            let (from, to) = (
                MappedWindow::of_source(source, &window)?,
                MappedWindow::of_target(target, &target.place_of(&window))?,
            );
            for step in pieces(window, STEP_BYTES) {
                ahead.reading_at(step.start)?;
                to.bytes_mut(&target.place_of(&step))
                    .copy_from_mapped(from.bytes(&step));
                from.check(step.start)?;
                to.check(target.place(step.start))?;
            }
        }
        // Truncation within the last page raises no signal.
        source.check_not_shrunk()?;
        target.check_not_shrunk()
    }))
}
