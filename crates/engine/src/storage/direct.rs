//! The alignment of direct I/O.

use std::fs::File;
use std::path::Path;

use seekless_sys as sys;

/// The alignment that direct I/O requires on the storage of a path, in bytes: of memory, of offsets. `None` without
/// direct I/O, or if the file system does not report it.
#[must_use]
pub fn direct_alignment(file: impl AsRef<Path>) -> Option<(u32, u32)> {
    let file = file.as_ref();
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let alignment = sys::direct_alignment(&is_regular.then(|| File::open(file).ok())??)
        .ok()?
        .available()?;
    Some((alignment.memory_bytes, alignment.offset_bytes))
}
