//! The costs of reading from a device, measured by direct reads of the file itself, which leave the page cache
//! unchanged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
#[cfg(feature = "profile")]
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::Buffer;

#[cfg(feature = "profile")]
use super::seeks::open_direct;
use super::timing::{spread, timed};
use super::{Costs, Fact};
use crate::setup::MEMORY_ALIGNMENT;

/// Short sequential reads for the latency, and long reads for the rate; together less than 8 MiB.
const SHORT_BYTES: usize = 16 << 10;
const SHORT_READS: u64 = 8;
const LONG_BYTES: usize = 1 << 20;
const LONG_READS: u64 = 7;
/// The times after which no more reads of each kind are started. A rotating disk takes about 10 ms for one.
const SHORT_TIME: Duration = Duration::from_millis(5);
const TIME: Duration = Duration::from_millis(20);

/// A block at a scattered place.
const PLACE_BYTES: usize = 4 << 10;
/// How many reads in flight a device usually serves in the time of one, and at most. On a virtual disk it was 5, and 3 on a volume with a
/// limit of requests.
const AT_ONCE: f64 = 4.0;
const AT_ONCE_MOST: f64 = 32.0;

/// How much is read of a file to measure the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One block, which takes about 0.1 ms on flash.
    One,
    /// Three.
    Few,
    /// A MiB, too, which takes 1 ms.
    Long,
}

/// The costs of a block at a scattered place and of a byte, of the device of a file.
#[cfg(feature = "profile")]
pub(super) fn scattered_of(path: &Path) -> io::Result<[Fact; 2]> {
    let file = open_direct(path).ok_or(io::ErrorKind::Unsupported)?;
    let bytes = file.metadata()?.len();
    if bytes < LONG_BYTES as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    scattered(&file, bytes, Reads::Long)
}

/// The time of a block at a scattered place, with others in flight, and of a byte.
pub(super) fn scattered(file: &File, bytes: u64, reads: Reads) -> io::Result<[Fact; 2]> {
    let read = |read_bytes: usize| {
        let last = (bytes / read_bytes as u64).checked_sub(1);
        let place = fastrand::u64(..=last.ok_or(io::ErrorKind::UnexpectedEof)?);
        let mut buffer = Buffer::new(read_bytes, MEMORY_ALIGNMENT)?;
        buffer.fill(0);
        timed(|| file.read_exact_at(&mut buffer, place * read_bytes as u64))
    };
    let alone = (0..if reads == Reads::One { 1 } else { 3 }).map(|_| read(PLACE_BYTES));
    let alone = spread(alone.collect::<io::Result<_>>()?, |time| time);
    let place = Fact::between(alone.low / AT_ONCE_MOST, alone.value / AT_ONCE, alone.high);
    let byte = if reads == Reads::Long && bytes >= LONG_BYTES as u64 {
        Fact::measured(read(LONG_BYTES)? / LONG_BYTES as f64)
    } else {
        Costs::ASSUMED.fetch_byte_ns
    };
    Ok([place, byte])
}

/// The costs of a sequential read, without its bytes, and of a byte.
pub(super) fn of_file(file: &File, bytes: u64) -> io::Result<[Fact; 2]> {
    // In the middle of the file, away from both ends.
    let start = (bytes / 2).next_multiple_of(LONG_BYTES as u64);
    let begin = Instant::now();
    let read = |block_bytes: usize, start: u64, count: u64, limit: Duration| {
        let mut buffer = Buffer::new(block_bytes, MEMORY_ALIGNMENT)?;
        buffer.fill(0);
        let mut times = Vec::new();
        for n in 0..count {
            if n > 1 && begin.elapsed() > limit {
                break;
            }
            let at = start + n * block_bytes as u64;
            times.push(timed(|| file.read_exact_at(&mut buffer, at))?);
        }
        // The first read is not sequential.
        times.remove(0);
        Ok::<_, io::Error>(times)
    };
    let short = read(SHORT_BYTES, start, SHORT_READS, SHORT_TIME)?;
    let long = read(LONG_BYTES, start + LONG_BYTES as u64, LONG_READS, TIME)?;
    // Both kinds have the same latency, so the difference of their times is due to the bytes.
    let more_bytes = (LONG_BYTES - SHORT_BYTES) as f64;
    let usual = spread(short.clone(), |short| short).value;
    let fetch = spread(long, |long| ((long - usual) / more_bytes).max(1e-3));
    let wait = spread(short, |short| (short - SHORT_BYTES as f64 * fetch.value).max(0.0));
    Ok([wait, fetch])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::seeks::tests::{are_cold, read_bytes};

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_is_measured_by_little_and_past_the_page_cache() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = 32 << 20;
        std::fs::write(&path, vec![1; bytes]).unwrap();
        if !are_cold(&[&path]) {
            return;
        }
        let before = read_bytes();
        let file = open_direct(&path).unwrap();
        let [wait, fetch] = of_file(&file, bytes as u64).unwrap();
        let read = read_bytes() - before;
        assert!((2 * LONG_BYTES as u64..8 << 20).contains(&read), "{read} bytes");
        for fact in [wait, fetch] {
            let is_measured = fact.low <= fact.value && fact.value <= fact.high && fact.is_measured();
            assert!(is_measured, "{fact:?}");
        }
        assert!(fetch.value > 0.0);
        for (reads, most_bytes) in [(Reads::One, 4 << 10), (Reads::Few, 12 << 10), (Reads::Long, 1036 << 10)] {
            let before = read_bytes();
            let [place, byte] = scattered(&file, bytes as u64, reads).unwrap();
            assert!(place.is_measured() && place.low <= place.value && place.value <= place.high);
            assert_eq!(byte.is_measured(), reads == Reads::Long);
            assert!(read_bytes() - before <= most_bytes);
            assert!(scattered(&file, 100, reads).is_err(), "too short to tell");
        }
        assert_eq!(crate::cache::resident(&path).unwrap().part(), Some(0.0));
        let short = directory.path().join("short");
        std::fs::write(&short, vec![1; LONG_BYTES]).unwrap();
        let is_refused = of_file(&open_direct(&short).unwrap(), LONG_BYTES as u64).is_err();
        assert!(is_refused, "too short to tell");
    }
}
