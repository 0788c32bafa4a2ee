//! The costs of reading from a device, measured by direct reads of the file itself, which leave the page cache
//! unchanged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
#[cfg(feature = "profile")]
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seekless_sys::{Buffer, Ring, RingRequest, Support};

use super::seeks::HEAD_MOVES_FROM_NS;
#[cfg(feature = "profile")]
use super::seeks::open_direct;
use super::timing::{spread, timed};
use super::{Costs, Fact};
use crate::setup::MEMORY_ALIGNMENT;

/// A short read, whose time is the latency, and how many there are.
const SHORT_BYTES: u64 = 16 << 10;
const SHORT_READS: u64 = 8;
/// A long read, whose time is that of its bytes, and how many of a long file there are. Of shorter files, it is a half.
const PART_BYTES: u64 = 1 << 20;
const LONG_READS: u64 = 3;
/// A request of several in flight, and how many there are.
const FLIGHT_BYTES: u64 = 512 << 10;
const IN_FLIGHT: u32 = 8;
/// The time after which no more reads of one kind are started. A rotating disk takes about 10 ms for one.
const SHORT_TIME: Duration = Duration::from_millis(5);
const TIME: Duration = Duration::from_millis(10);

/// A block at a scattered place.
const PLACE_BYTES: u64 = 4 << 10;
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
    if bytes < PART_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    scattered(&file, bytes, Reads::Long)
}

/// The time of a block at a scattered place, with others in flight, and of a byte.
pub(super) fn scattered(file: &File, bytes: u64, reads: Reads) -> io::Result<[Fact; 2]> {
    let read = |read_bytes: u64| {
        let last = (bytes / read_bytes).checked_sub(1);
        let place = fastrand::u64(..=last.ok_or(io::ErrorKind::UnexpectedEof)?);
        let mut buffer = touched(read_bytes)?;
        timed(|| file.read_exact_at(&mut buffer, place * read_bytes))
    };
    let alone = (0..if reads == Reads::One { 1 } else { 3 }).map(|_| read(PLACE_BYTES));
    let alone = spread(alone.collect::<io::Result<_>>()?, |time| time);
    let place = Fact::between(alone.low / AT_ONCE_MOST, alone.value / AT_ONCE, alone.high);
    let byte = if reads == Reads::Long && bytes >= PART_BYTES {
        Fact::measured(read(PART_BYTES)? / PART_BYTES as f64)
    } else {
        Costs::ASSUMED.fetch_byte_ns
    };
    Ok([place, byte])
}

/// The shortest file whose costs by the byte can be measured.
pub(super) const LEAST_BYTES: u64 = 512 << 10;
/// The shortest file of which all is measured.
pub(super) const LONG_BYTES: u64 = 8 << 20;

/// The latency of the first read of a short file. The next file may lie beside this one or elsewhere, so it is between that of the first read
/// here and that of the blocks after it, by equal factors.
pub(super) fn of_short_file(file: &File, bytes: u64) -> io::Result<[Fact; 1]> {
    let mut buffer = touched(PLACE_BYTES)?;
    let mut read = |place: u64| timed(|| file.read_at(&mut buffer, place).map(drop));
    let first = read(0)?;
    let places = (PLACE_BYTES..bytes).step_by(PLACE_BYTES as usize).take(3);
    let next = places.map(read).collect::<io::Result<Vec<f64>>>()?;
    let next = if next.is_empty() {
        first / 4.0
    } else {
        spread(next, |time| time).value.min(first)
    };
    Ok([Fact::between(next, (first * next).sqrt(), first)])
}

/// The costs of reading a file that is opened past the page cache: the latency of a read, a byte of one read at a time, a byte with several
/// in flight, a byte of a buffer, and what a read elsewhere takes longer. Each kind of read has bytes of its own, in the order of the file.
pub(super) fn of_file(file: &File, bytes: u64, costs: &Costs) -> io::Result<[Fact; 5]> {
    let (part_bytes, long_reads) = match bytes {
        LONG_BYTES.. => (PART_BYTES, LONG_READS),
        LEAST_BYTES.. => ((bytes / 2).min(PART_BYTES) / SHORT_BYTES * SHORT_BYTES, 1),
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    let places = (0..SHORT_READS).map(|place| place * SHORT_BYTES);
    let mut elsewhere = one_by_one(file, places, SHORT_BYTES, SHORT_TIME)?;
    let short = elsewhere.split_off(1);
    let latency = spread(short.clone(), |time| time);
    // The first read was not sequential, and also found out where the file lies.
    let last = bytes / SHORT_BYTES - 1;
    elsewhere.extend(one_by_one(
        file,
        [last, last / 2].map(|place| place * SHORT_BYTES),
        SHORT_BYTES,
        TIME,
    )?);
    let more = spread(elsewhere, |time| (time - latency.value).max(0.0));
    let seek = if more.value < HEAD_MOVES_FROM_NS {
        Fact::measured(0.0)
    } else {
        more
    };
    // Apart from each other, so that what a layer below has read ahead is not taken for what the device reads, unless a head has to move.
    let apart_bytes = if seek.value > 0.0 {
        0
    } else {
        bytes.saturating_sub(LONG_BYTES) / (1 + LONG_READS) / PART_BYTES * PART_BYTES
    };
    let place = |part: u64| part * (part_bytes + apart_bytes);
    let long = one_by_one(file, (1..=long_reads).map(place), part_bytes, TIME)?;
    // Both kinds have the same latency, so the difference of their times is due to the bytes.
    let more_bytes = (part_bytes - SHORT_BYTES) as f64;
    let fetch = spread(long, |time| ((time - latency.value) / more_bytes).max(1e-3));
    let fetch = Fact::between(fetch.low / ONCE, fetch.value, fetch.high * ONCE);
    let wait = spread(short, |time| (time - SHORT_BYTES as f64 * fetch.value).max(0.0));
    let read = (bytes >= LONG_BYTES).then(|| in_flight(file, place(1 + long_reads), wait.value));
    let (stream, buffer) = match read.transpose()?.flatten() {
        Some([byte, buffer]) => {
            // Several in flight take no longer than one at a time.
            let byte = byte.clamp(1e-3, fetch.value);
            (
                Fact::between(byte / ONCE, byte, byte * ONCE),
                Fact::between(buffer / 2.0, buffer, buffer * 2.0),
            )
        }
        None => (
            Fact::between(fetch.low / 2.0, fetch.value, fetch.high),
            costs.buffer_byte_ns,
        ),
    };
    Ok([wait, fetch, stream, buffer, seek])
}

/// By how much a figure that was measured once or twice may be wrong.
const ONCE: f64 = 1.25;

fn touched(bytes: u64) -> io::Result<Buffer> {
    let mut buffer = Buffer::new(bytes as usize, MEMORY_ALIGNMENT)?;
    buffer.fill(0);
    Ok(buffer)
}

/// The times of reads at these places, one after the other. After some time, no more are started, unless there are fewer than two.
fn one_by_one(
    file: &File,
    places: impl IntoIterator<Item = u64>,
    block_bytes: u64,
    limit: Duration,
) -> io::Result<Vec<f64>> {
    let mut buffer = touched(block_bytes)?;
    let begin = Instant::now();
    let mut times = Vec::new();
    for place in places {
        if times.len() > 1 && begin.elapsed() > limit {
            break;
        }
        times.push(timed(|| file.read_exact_at(&mut buffer, place))?);
    }
    Ok(times)
}

/// The times of a byte that is read with several requests in flight, and of setting up a byte of a ring's buffers; `None` without rings.
fn in_flight(file: &File, start: u64, latency_ns: f64) -> io::Result<Option<[f64; 2]>> {
    let begin = Instant::now();
    let made = Ring::new(IN_FLIGHT, FLIGHT_BYTES as usize, MEMORY_ALIGNMENT);
    let Ok(Support::Available(mut ring)) = made else {
        return Ok(None);
    };
    let set_up = begin.elapsed().as_nanos() as f64 / (u64::from(IN_FLIGHT) * FLIGHT_BYTES) as f64;
    let file = Arc::new(file.try_clone()?);
    let time = timed(|| {
        for slot in 0..IN_FLIGHT {
            let request = RingRequest {
                is_read: true,
                offset: start + u64::from(slot) * FLIGHT_BYTES,
                range: 0..FLIGHT_BYTES as usize,
                dontcache: false,
                is_synced: false,
            };
            ring.queue(slot, &file, &request)?;
        }
        (0..IN_FLIGHT).try_for_each(|_| ring.wait()?.result.map(drop))
    })?;
    let bytes = u64::from(IN_FLIGHT) * FLIGHT_BYTES;
    Ok(Some([(time - latency_ns).max(0.0) / bytes as f64, set_up]))
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
        let facts = of_file(&file, bytes as u64, &Costs::ASSUMED).unwrap();
        let read = read_bytes() - before;
        assert!((2 * PART_BYTES..LONG_BYTES).contains(&read), "{read} bytes");
        for fact in facts {
            assert!(fact.low <= fact.value && fact.value <= fact.high, "{fact:?}");
        }
        let [wait, fetch, stream, ..] = facts;
        assert!(wait.is_measured() && fetch.is_measured() && fetch.value > 0.0);
        assert!(stream.value <= fetch.value, "several in flight take no longer");
        for (reads, most_bytes) in [(Reads::One, 4 << 10), (Reads::Few, 12 << 10), (Reads::Long, 1036 << 10)] {
            let before = read_bytes();
            let [place, byte] = scattered(&file, bytes as u64, reads).unwrap();
            assert!(place.is_measured() && place.low <= place.value && place.value <= place.high);
            assert_eq!(byte.is_measured(), reads == Reads::Long);
            assert!(read_bytes() - before <= most_bytes);
            assert!(scattered(&file, 100, reads).is_err(), "too short to tell");
        }
        assert_eq!(crate::cache::resident(&path).unwrap().part(), Some(0.0));
        let shorter = |bytes: u64| {
            let path = directory.path().join("shorter");
            std::fs::write(&path, vec![1; bytes as usize]).unwrap();
            let file = open_direct(&path).unwrap();
            (of_file(&file, bytes, &Costs::ASSUMED), of_short_file(&file, bytes))
        };
        let (part, _) = shorter(LEAST_BYTES);
        assert!(part.unwrap()[1].is_measured());
        let (whole, short) = shorter(5000);
        assert!(whole.is_err(), "too short to tell");
        assert!(short.unwrap()[0].is_measured());
    }
}
