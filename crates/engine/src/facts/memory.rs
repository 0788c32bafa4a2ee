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
/// The size of the unnamed file. The window that is written last, and is in the processor's caches, is not read.
const OWN_BYTES: u64 = ROUNDS_BYTES + WINDOW_BYTES;
const ROUNDS_BYTES: u64 = ROUNDS as u64 * WINDOW_BYTES;
/// Bytes that are written at once.
const PIECE_BYTES: usize = 64 << 10;
/// Calls that read a few bytes, in each round.
const CALLS: u32 = 16;
/// From this part on, a file counts as cached.
const WARM_PART: f64 = 0.9;

/// Whether a file is measured itself, because it is in the page cache.
pub(super) fn is_warm(found: &FileFacts) -> bool {
    found.resident_part() >= WARM_PART && found.bytes >= OWN_BYTES && !found.is_sparse()
}

/// The costs of a file in the page cache, and of filling a byte of a new page, by an unnamed file.
pub(super) fn of_own_file() -> io::Result<[Fact; 7]> {
    require_file_bytes(OWN_BYTES)?;
    let file = make_unnamed(&std::env::temp_dir())?;
    // In pieces, because the page cache holds long ones in large pages, which cost less than those of most files.
    let piece = vec![1; PIECE_BYTES];
    let mut write = |round: u32| {
        let window = u64::from(round) * WINDOW_BYTES..u64::from(round + 1) * WINDOW_BYTES;
        window
            .step_by(PIECE_BYTES)
            .try_for_each(|offset| file.write_all_at(&piece, offset))
    };
    let filled = timed_rounds(&mut write)?;
    write(ROUNDS)?;
    let [called, read, compared, mapped, looked, viewed] = of_file(&file, ROUNDS_BYTES)?;
    let filled = filled.scaled(1.0 / WINDOW_BYTES as f64);
    Ok([called, read, compared, mapped, looked, viewed, filled])
}

/// The costs of a file in the page cache: of a call that reads, and by the byte of reading, of comparing, of comparing mapped files, of
/// looking at it, and of mapping it and looking at it.
pub(super) fn of_file(file: &File, bytes: u64) -> io::Result<[Fact; 6]> {
    let new = || Buffer::new(TRIED_BYTES as usize, MEMORY_ALIGNMENT);
    let (mut buffer, mut other) = (new()?, new()?);
    // Touch the memory first, because that is not part of reading.
    buffer.fill(1);
    // At different offsets, so that each round has bytes that are not in the processor's caches.
    let step = bytes / u64::from(ROUNDS) / WINDOW_BYTES * WINDOW_BYTES;
    let place = |round: u32| u64::from(round) * step;
    let read = timed_rounds(|round| file.read_exact_at(&mut buffer, place(round)))?;
    let mut few = [0; 4];
    let mut calls = |round| (0..CALLS).try_for_each(|_| file.read_exact_at(&mut few, place(round)));
    let called = timed_rounds(&mut calls)?.scaled(1.0 / f64::from(CALLS));
    other.copy_from_slice(&buffer);
    let compared = timed_rounds(|_| {
        std::hint::black_box(sys::first_difference(&buffer, &other));
        Ok(())
    })?;
    let each_byte = 1.0 / TRIED_BYTES as f64;
    let (read, compared) = (read.scaled(each_byte), compared.scaled(each_byte));
    let window = 0..WINDOW_BYTES as usize;
    let each_byte = 1.0 / WINDOW_BYTES as f64;
    let map = |round: u32| Map::new(file, place(round), window.end, MapMode::Read);
    let look = |map: &Map| std::hint::black_box(map.bytes(window.clone()).count(1));
    let assumed = Costs::ASSUMED;
    if !sys::guard_installed() {
        let [mapped, looked, viewed] = [assumed.map_byte_ns, assumed.look_byte_ns, assumed.view_byte_ns];
        return Ok([called, read, compared, mapped, looked, viewed]);
    }
    // The second map is of bytes that are already in the processor's caches, so all of the time counts for one file.
    let mapped = timed_rounds(|round| {
        let (one, other) = (map(round)?, map(round)?);
        std::hint::black_box(one.bytes(window.clone()).mismatch(&other.bytes(window.clone())));
        Ok(())
    })?;
    let viewed = timed_rounds(|round| map(round).map(|map| _ = look(&map)))?;
    let whole = map(0)?;
    look(&whole);
    let looked = timed_rounds(|_| {
        look(&whole);
        Ok(())
    })?;
    let [mapped, looked, viewed] = [mapped, looked, viewed].map(|fact| fact.scaled(each_byte));
    Ok([called, read, compared, mapped, looked, viewed])
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
