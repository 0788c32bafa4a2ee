//! `write/mmap`: the file gets its size, is mapped, whole or in windows of a block, and filled.
//!
//! The producer fills a small buffer that is then copied into the map: a map that others can change is never a slice.
//! The copy is from the first-level cache and costs a few per cent of the page faults.

use seekless_sys::{Buffer, Map, MapMode};

use super::{PrepareWrite, WriteTarget};
use crate::Producer;
use crate::error::Result;
use crate::read::{map_fault, require_guard, windows};
use crate::setup::MEMORY_ALIGNMENT;
use crate::transfer::Side;

/// What is produced at once: it stays in the first-level cache on its way into the map.
const STEP_BYTES: usize = 32 << 10;

pub(super) const PREPARE: PrepareWrite = |setup| {
    require_guard(&setup)?;
    let step = Buffer::new(STEP_BYTES, MEMORY_ALIGNMENT).map_err(|error| setup.failed("making a buffer", error))?;
    Ok(Box::new(Mmap { step }))
};

struct Mmap {
    step: Buffer,
}

impl WriteTarget for Mmap {
    fn write(&mut self, target: &Side<'_>, producer: &dyn Producer) -> Result<()> {
        target.reach_size()?;
        for window in windows(target, 0..target.bytes) {
            let (offset, length) = (window.start, (window.end - window.start) as usize);
            let map = map_target(target, offset, length)?;
            for start in (0..length).step_by(STEP_BYTES) {
                let step = &mut self.step[..STEP_BYTES.min(length - start)];
                target.produce(producer, offset + start as u64, step)?;
                map.bytes_mut(start..start + step.len()).copy_from(step);
            }
            if map.faulted() {
                return Err(map_fault(target, offset));
            }
        }
        // What was copied behind a cut inside the last page is not in the file.
        target.check_not_shrunk()
    }
}

/// Maps a window of a target for writing.
pub(crate) fn map_target(target: &Side<'_>, offset: u64, length: usize) -> Result<Map> {
    target.count_calls(2);
    let mapped = Map::new(&target.file, offset, length, MapMode::ReadWrite);
    mapped.map_err(|error| target.failed_at("mapping", offset, error))
}
