//! The costs of bytes in the page cache: some are written, read, compared and mapped. If the file is cached, its own
//! bytes are used; otherwise those of an unnamed file, so that measuring does not load the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use seekless_sys::{self as sys, Buffer, Map, MapMode};

use super::timing::{ROUNDS, timed_rounds};
use super::{Costs, Fact, FileFacts};
use crate::files::{make_unnamed, require_file_bytes};
use crate::setup::MEMORY_ALIGNMENT;

/// Bytes to read and compare in each round, and the window to map. All of it takes about 3 ms.
const TRIED_BYTES: u64 = 1 << 20;
const WINDOW_BYTES: u64 = 2 << 20;
/// The size of the unnamed file.
const OWN_BYTES: u64 = ROUNDS as u64 * WINDOW_BYTES;
/// From this part on, a file counts as cached.
const WARM_PART: f64 = 0.9;

/// The costs per byte of reading, comparing and mapping, and of filling a new page if that was measured.
pub(super) type MemoryCosts = ([Fact; 3], Option<Fact>);

/// Whether a file is measured itself, because it is in the page cache.
pub(super) fn is_warm(found: &FileFacts) -> bool {
    found.resident_part() >= WARM_PART && found.bytes >= OWN_BYTES && !found.is_sparse()
}

pub(super) fn of_own_file() -> io::Result<MemoryCosts> {
    require_file_bytes(OWN_BYTES)?;
    let file = make_unnamed(&std::env::temp_dir())?;
    let bytes = vec![1; WINDOW_BYTES as usize];
    let filled = timed_rounds(|round| file.write_all_at(&bytes, u64::from(round) * WINDOW_BYTES))?;
    Ok((
        of_file(&file, OWN_BYTES)?,
        Some(filled.scaled(1.0 / WINDOW_BYTES as f64)),
    ))
}

pub(super) fn of_file(file: &File, bytes: u64) -> io::Result<[Fact; 3]> {
    let new = || Buffer::new(TRIED_BYTES as usize, MEMORY_ALIGNMENT);
    let (mut buffer, mut other) = (new()?, new()?);
    // Touch the memory first, because that is not part of reading.
    buffer.fill(1);
    // At different offsets, so that each round has bytes that are not in the processor's caches.
    let step = bytes / u64::from(ROUNDS) / WINDOW_BYTES * WINDOW_BYTES;
    let place = |round: u32| u64::from(round) * step;
    let read = timed_rounds(|round| file.read_exact_at(&mut buffer, place(round)))?;
    other.copy_from_slice(&buffer);
    let compared = timed_rounds(|_| {
        std::hint::black_box(sys::first_difference(&buffer, &other));
        Ok(())
    })?;
    let each_byte = 1.0 / TRIED_BYTES as f64;
    let window = 0..WINDOW_BYTES as usize;
    let mapped = if sys::guard_installed() {
        // The second map is of bytes that are already in the processor's caches, so all of the time counts for one
        // file.
        timed_rounds(|round| {
            let map = || Map::new(file, place(round), window.end, MapMode::Read);
            let (one, other) = (map()?, map()?);
            std::hint::black_box(one.bytes(window.clone()).mismatch(&other.bytes(window.clone())));
            Ok(())
        })?
        .scaled(1.0 / WINDOW_BYTES as f64)
    } else {
        Costs::ASSUMED.map_byte_ns
    };
    Ok([read.scaled(each_byte), compared.scaled(each_byte), mapped])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::MeasuredFacts;

    #[test]
    fn memory_is_measured_without_bringing_a_file_into_the_page_cache() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 2 * OWN_BYTES as usize]).unwrap();
        let resident = crate::cache::drop_file(&path).unwrap().part();
        let (file, kept) = (File::open(&path).unwrap(), MeasuredFacts::new());
        let of = |resident| {
            let mut found = FileFacts::of(&file.metadata().unwrap(), None);
            found.resident = resident;
            let mut costs = Costs::ASSUMED;
            kept.memory(&file, found, &mut costs).unwrap();
            costs
        };
        let cold = of(Some(0.0));
        assert!(
            cold.read_byte_ns.is_measured() && cold.compare_byte_ns.is_measured() && cold.fill_byte_ns.is_measured()
        );
        let after = crate::cache::resident(&path).unwrap().part();
        assert_eq!(after, resident, "measuring leaves files as they are");
        assert_eq!(of(Some(0.0)), cold, "measured once");
        let warm = of(Some(1.0));
        assert!(warm.read_byte_ns.is_measured() && !warm.fill_byte_ns.is_measured());
        assert!(warm.read_byte_ns.value > 0.0 && warm.compare_byte_ns.value > 0.0);
    }
}
