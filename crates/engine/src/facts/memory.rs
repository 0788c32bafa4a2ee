//! What bytes of a file in the page cache cost: some are read, compared and mapped. Where next to nothing of the file is
//! there, that is assumed, so that measuring brings nothing in.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use seekless_sys::{self as sys, Buffer, Map, MapMode};

use super::costs::{FRESH, timed_rounds};
use super::{Costs, Fact, FileFacts};
use crate::setup::MEMORY_ALIGNMENT;

/// What is read and mapped at a time, and where each of the rounds begins. All of it takes some 2 ms.
const TRIED_BYTES: usize = 1 << 20;
const WINDOW_BYTES: u64 = 4 << 20;

/// What was measured in this process, and when.
static MEASURED: Mutex<Option<(Instant, [Fact; 3])>> = Mutex::new(None);

/// From this part on a file counts as being in the page cache.
const WARM_PART: f64 = 0.9;

/// Adds what bytes of a file in the page cache cost to `costs`. Nothing where it is not there, or too short to tell.
pub(super) fn measure(file: &File, found: FileFacts, costs: &mut Costs) -> io::Result<()> {
    if found.resident_part() < WARM_PART || found.bytes < WINDOW_BYTES {
        return Ok(());
    }
    let bytes = found.bytes;
    let mut known = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match known.filter(|(at, _)| at.elapsed() < FRESH) {
        Some((_, found)) => found,
        None => {
            let found = of_file(file, bytes)?;
            *known = Some((Instant::now(), found));
            found
        }
    };
    [costs.read_byte_ns, costs.compare_byte_ns, costs.map_byte_ns] = found;
    Ok(())
}

fn of_file(file: &File, bytes: u64) -> io::Result<[Fact; 3]> {
    let new = || Buffer::new(TRIED_BYTES, MEMORY_ALIGNMENT);
    let (mut buffer, mut other) = (new()?, new()?);
    // The first touch of memory is not what reading costs.
    (buffer.fill(1), other.fill(1));
    let place = |round: u32| u64::from(round) * TRIED_BYTES as u64 % (bytes - TRIED_BYTES as u64);
    let read = timed_rounds(|round| file.read_exact_at(&mut buffer, place(round)))?;
    other.copy_from_slice(&buffer);
    let compared = timed_rounds(|_| {
        let found = sys::first_difference(&buffer, &other);
        std::hint::black_box(found);
        Ok(())
    })?;
    let each_byte = 1.0 / TRIED_BYTES as f64;
    let mapped = if sys::guard_installed() {
        let window_bytes = WINDOW_BYTES as usize;
        let map = || Map::new(file, 0, window_bytes, MapMode::Read);
        let mapped = timed_rounds(|_| {
            let (one, other) = (map()?, map()?);
            let found = one.bytes(0..window_bytes).mismatch(&other.bytes(0..window_bytes));
            std::hint::black_box(found);
            Ok(())
        })?;
        mapped.scaled(0.5 / window_bytes as f64)
    } else {
        Costs::ASSUMED.map_byte_ns
    };
    Ok([read.scaled(each_byte), compared.scaled(each_byte), mapped])
}
