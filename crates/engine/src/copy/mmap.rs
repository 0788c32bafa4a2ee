//! `copy/mmap`: both files are mapped, whole or in windows of a block, and the bytes copied from map to map.

use std::ops::Range;

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::read::{map_fault, map_source, place_in_map, require_guard, steps, windows};
use crate::transfer::Side;
use crate::write::map_target;

pub(super) const PREPARE: PrepareCopy = |setup| {
    require_guard(&setup)?;
    Ok(Box::new(Mmap))
};

struct Mmap;

impl CopyBytes for Mmap {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        target.reach_size()?;
        let mut ahead = Ahead::for_map(source, range.clone())?;
        for window in windows(source, range.clone()) {
            let length = window.end - window.start;
            let from = map_source(source, window.start, length)?;
            let to = map_target(target, window.start, length as usize)?;
            for step in steps(window.start.max(range.start)..window.end) {
                let place = place_in_map(&step, window.start);
                ahead.reading_at(step.start)?;
                to.bytes_mut(place.clone()).copy_from_mapped(from.bytes(place));
                if from.faulted() {
                    return Err(map_fault(source, step.start));
                }
                if to.faulted() {
                    return Err(map_fault(target, step.start));
                }
            }
        }
        // A cut inside the last page raises no signal.
        source.check_not_shrunk()?;
        target.check_not_shrunk()
    }

    /// A write through a map makes the whole folio dirty, of which ext4 then allocates all blocks.
    fn spills(&self) -> bool {
        true
    }
}
