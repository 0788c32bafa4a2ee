//! Direct I/O outside any method: what it asks for, and what single reads of the device cost.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Buffer, Opening, Support};

use crate::transfer::MEMORY_ALIGNMENT;

/// The alignment that direct I/O asks for on the storage of a path, in bytes: of memory, of offsets. `None` where there
/// is no direct I/O, or the file system does not tell.
#[must_use]
pub fn direct_alignment(file: &Path) -> Option<(u32, u32)> {
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let alignment = sys::direct_alignment(&is_regular.then(|| File::open(file).ok())??)
        .ok()?
        .available()?;
    Some((alignment.memory_bytes, alignment.offset_bytes))
}

/// Times direct reads of 4 KiB at offsets that are multiples of it; `None` where direct I/O is not to be had.
pub fn time_direct_reads(path: &Path, offsets: impl Iterator<Item = u64>) -> Option<Vec<Duration>> {
    let opening = Opening {
        access: Access::Read,
        direct: true,
        write_through: false,
    };
    let Ok(Support::Available(file)) = sys::open(path, opening) else {
        return None;
    };
    let mut buffer = Buffer::new(4096, MEMORY_ALIGNMENT).ok()?;
    let time = |offset: u64| {
        let start = Instant::now();
        std::os::unix::fs::FileExt::read_at(&file, &mut buffer, offset).ok()?;
        Some(start.elapsed())
    };
    offsets.map(time).collect()
}
