//! `copy/mmap`: both files are mapped, whole or in windows of a block, and the bytes copied from map to map.

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::method::{Accepts, Durability, Mechanism, Operation, Platform, Preallocate, Prepare};
use crate::read::{MAP_HINTS, STEP_BYTES, map_fault, map_source, require_guard, window_bytes};
use crate::transfer::Side;
use crate::write::map_target;

const PREPARE: PrepareCopy = |setup| {
    require_guard(&setup)?;
    Ok(Box::new(Mmap))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Copy,
    name: "mmap",
    about: "both files mapped, whole or in windows of a block",
    accepts: Accepts {
        block: Some(None),
        cache: &[],
        hints: MAP_HINTS,
        preallocate: &[Preallocate::Truncate, Preallocate::Allocate, Preallocate::Both],
        durability: &[Durability::Fsync],
        ..super::sync::ACCEPTS
    },
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 5,
    prepare: Prepare::Copy(PREPARE),
};

struct Mmap;

impl CopyBytes for Mmap {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>) -> Result<()> {
        target.reach_size()?;
        let mut ahead = Ahead::for_map(source)?;
        let window = window_bytes(source);
        for offset in (0..source.bytes).step_by(window as usize) {
            let length = window.min(source.bytes - offset);
            let from = map_source(source, offset, length)?;
            let to = map_target(target, offset, length as usize)?;
            for start in (0..length).step_by(STEP_BYTES as usize) {
                let step = start as usize..(start + STEP_BYTES).min(length) as usize;
                ahead.reading_at(offset + start)?;
                to.bytes_mut(step.clone()).copy_from_mapped(from.bytes(step));
                if from.faulted() {
                    return Err(map_fault(source, offset + start));
                }
                if to.faulted() {
                    return Err(map_fault(target, offset + start));
                }
            }
        }
        // A cut inside the last page raises no signal.
        source.check_not_shrunk()?;
        target.check_not_shrunk()
    }
}
