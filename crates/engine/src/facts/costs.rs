//! The costs of a storage and its machine, in nanoseconds, and measuring the costs of writing by a few calls on an
//! unnamed file. `memory` and `device` measure the costs of memory and of device reads.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{Access, Buffer, Directory, Opening};

use super::Fact;
use super::timing::{ROUNDS, spread, timed, timed_rounds};
use crate::files::{make_for_a_moment, make_with_name_for_a_moment, require_file_bytes};
use crate::setup::MEMORY_ALIGNMENT;

/// The costs of calls, bytes and waits on a storage, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A write call, without its bytes.
    pub write_call_ns: Fact,
    /// A byte that is written to the page cache.
    pub write_byte_ns: Fact,
    /// A byte that is written to the device.
    pub device_byte_ns: Fact,
    /// Making a few bytes durable: a flush, or what `write-through` adds to a call.
    pub flush_ns: Fact,
    /// A call that reads from the page cache, without its bytes.
    pub read_call_ns: Fact,
    /// A byte that is read from the page cache.
    pub read_byte_ns: Fact,
    /// A byte that is written to a new page of the page cache.
    pub fill_byte_ns: Fact,
    /// Comparing a byte of two buffers.
    pub compare_byte_ns: Fact,
    /// Comparing a byte of two cached files that are mapped in windows.
    pub map_byte_ns: Fact,
    /// Looking at a byte in memory, as whoever reads does.
    pub look_byte_ns: Fact,
    /// Looking at a byte of a cached file that is mapped in windows.
    pub view_byte_ns: Fact,
    /// Opening and closing a file whose name is cached by the kernel.
    pub open_ns: Fact,
    /// The latency of a sequential device read, without its bytes.
    pub wait_ns: Fact,
    /// A byte read from the device in large requests.
    pub fetch_byte_ns: Fact,
    /// A device read of a block at a scattered place, with several in flight. A write is assumed to cost the same.
    pub scattered_ns: Fact,
    /// A byte read from the device with several requests in flight.
    pub stream_byte_ns: Fact,
    /// Creating and closing a file.
    pub create_ns: Fact,
    /// An fsync of a small new file.
    pub sync_new_ns: Fact,
    /// A byte written past the page cache to new blocks of the device.
    pub grow_byte_ns: Fact,
    /// A byte of a buffer that is touched first, and registered with a ring.
    pub buffer_byte_ns: Fact,
    /// What a read elsewhere on the device takes longer than a sequential one.
    pub seek_ns: Fact,
}

impl Costs {
    /// The costs of any storage. The bounds are those of a rotating disk, where calls are expensive, and of a flash
    /// disk without flushes behind a slow link, where bytes are expensive. [`AssumedDevice::costs`] has narrower ones.
    pub(crate) const ASSUMED: Self = Self {
        write_call_ns: Fact::assumed(300.0, 2_000.0, 20_000.0),
        write_byte_ns: Fact::assumed(0.1, 1.0, 8.0),
        device_byte_ns: Fact::assumed(0.1, 1.0, 8.0),
        flush_ns: Fact::assumed(20_000.0, 200_000.0, 20e6),
        read_call_ns: Fact::assumed(300.0, 2_000.0, 20_000.0),
        read_byte_ns: Fact::assumed(0.1, 1.0, 8.0),
        // From large pages on bare metal to the first touch of a page that a virtual machine never used.
        fill_byte_ns: Fact::assumed(0.1, 0.5, 4.0),
        compare_byte_ns: Fact::assumed(0.02, 0.05, 0.3),
        map_byte_ns: Fact::assumed(0.05, 0.15, 1.0),
        look_byte_ns: Fact::assumed(0.02, 0.08, 0.3),
        view_byte_ns: Fact::assumed(0.05, 0.15, 1.0),
        open_ns: Fact::assumed(1_000.0, 4_000.0, 50_000.0),
        // From a file system in memory to a distant server, and from several flash disks to a rotating disk.
        wait_ns: Fact::assumed(2_000.0, 150_000.0, 20e6),
        fetch_byte_ns: Fact::assumed(0.05, 2.0, 20.0),
        scattered_ns: Fact::assumed(1_000.0, 20_000.0, 10e6),
        stream_byte_ns: Fact::assumed(0.05, 1.5, 20.0),
        create_ns: Fact::assumed(5_000.0, 20_000.0, 1e6),
        sync_new_ns: Fact::assumed(5_000.0, 400_000.0, 60e6),
        grow_byte_ns: Fact::assumed(0.1, 2.0, 30.0),
        buffer_byte_ns: Fact::assumed(0.1, 0.5, 2.0),
        seek_ns: Fact::assumed(0.0, 10_000.0, 15e6),
    };

    /// The same with the upper bounds of calls and flushes, and the lower bounds of bytes.
    #[must_use]
    pub(crate) fn dear_calls(&self) -> Self {
        self.with(|call| call.high, |byte| byte.low)
    }

    /// The same with the upper bounds of bytes, and the lower bounds of calls and flushes.
    #[must_use]
    pub(crate) fn dear_bytes(&self) -> Self {
        self.with(|call| call.low, |byte| byte.high)
    }

    fn with(mut self, call: impl Fn(&Fact) -> f64, byte: impl Fn(&Fact) -> f64) -> Self {
        for cost in [
            &mut self.write_call_ns,
            &mut self.flush_ns,
            &mut self.read_call_ns,
            &mut self.scattered_ns,
        ] {
            cost.value = call(cost);
        }
        for cost in [
            &mut self.write_byte_ns,
            &mut self.device_byte_ns,
            &mut self.read_byte_ns,
            &mut self.fill_byte_ns,
            &mut self.fetch_byte_ns,
        ] {
            cost.value = byte(cost);
        }
        self
    }

    /// All of them, in no order that matters.
    #[cfg(test)]
    pub(crate) fn all_mut(&mut self) -> [&mut Fact; 21] {
        [
            &mut self.write_call_ns,
            &mut self.write_byte_ns,
            &mut self.device_byte_ns,
            &mut self.flush_ns,
            &mut self.read_call_ns,
            &mut self.read_byte_ns,
            &mut self.fill_byte_ns,
            &mut self.compare_byte_ns,
            &mut self.map_byte_ns,
            &mut self.look_byte_ns,
            &mut self.view_byte_ns,
            &mut self.open_ns,
            &mut self.wait_ns,
            &mut self.fetch_byte_ns,
            &mut self.stream_byte_ns,
            &mut self.scattered_ns,
            &mut self.create_ns,
            &mut self.sync_new_ns,
            &mut self.grow_byte_ns,
            &mut self.buffer_byte_ns,
            &mut self.seek_ns,
        ]
    }

    /// Whether all of them are measured, including those of the device.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.flush_ns.is_measured()
    }
}

/// The flags for write-through.
pub(super) const THROUGH: Opening = Opening {
    access: Access::Overwrite,
    direct: false,
    write_through: true,
    keeps_atime: false,
};

/// The size of the temporary file.
pub(super) const TRIED_BYTES: usize = 256 << 10;
const CALLS: u32 = 16;
/// Write-through is timed at least twice, and as often as fits into this time.
const THROUGH_BUDGET: Duration = Duration::from_millis(5);
const THROUGH_CALLS: usize = 8;

/// Measures the costs of calls and bytes at the page cache.
pub(super) fn calls(file: &File) -> io::Result<[Fact; 5]> {
    require_file_bytes(u64::from(ROUNDS) * TRIED_BYTES as u64)?;
    let mut bytes = vec![1; TRIED_BYTES];
    let filled = timed_rounds(|round| file.write_all_at(&bytes, u64::from(round) * TRIED_BYTES as u64))?;
    let whole = timed_rounds(|_| file.write_all_at(&bytes, 0))?;
    let whole_read = timed_rounds(|_| file.read_exact_at(&mut bytes, 0))?;
    let places = |round: u32| (round * CALLS..(round + 1) * CALLS).map(|n| u64::from(n) * 4096);
    let write_calls = timed_rounds(|round| places(round).try_for_each(|at| file.write_all_at(&[2; 4], at)))?;
    let mut few = [0; 4];
    let read_calls = timed_rounds(|round| places(round).try_for_each(|at| file.read_exact_at(&mut few, at)))?;
    let (each_byte, each_call) = (1.0 / TRIED_BYTES as f64, 1.0 / f64::from(CALLS));
    Ok([
        write_calls.scaled(each_call),
        whole.scaled(each_byte),
        read_calls.scaled(each_call),
        whole_read.scaled(each_byte),
        filled.scaled(each_byte),
    ])
}

/// Measures opening a path and closing it, with the questions about it that an operation asks.
pub(super) fn of_opening(path: &Path) -> io::Result<[Fact; 1]> {
    let open = || {
        fs::metadata(path)?;
        let file = File::open(path)?;
        (0..2).try_for_each(|_| file.metadata().map(drop))
    };
    // The next file is not in the processor's caches, so they are filled with other bytes.
    let mut other = vec![0_u8; CACHE_BYTES];
    let mut times = Vec::new();
    for round in 0..OPENS {
        other.fill(round);
        std::hint::black_box(&other);
        times.push(timed(open)?);
    }
    Ok([spread(times, |time| time)])
}

/// How often a file is opened, and the bytes that take the place of what is in the caches of a processor's core.
const OPENS: u8 = 8;
const CACHE_BYTES: usize = 4 << 20;

/// The bytes of a small file, and of a block of a large one.
const SMALL_BYTES: usize = 16 << 10;
const GROWN_BYTES: usize = 1 << 20;
/// New files are made at least twice, because the first one may wait for others, and as often as fits into this time.
const NEW_FILES: usize = 3;
const NEW_FILES_TIME: Duration = Duration::from_millis(10);

/// Measures creating files in a directory, making small ones durable, and a byte that is written past the page cache at the end of one.
pub(super) fn of_new_files(directory: &Directory) -> io::Result<[Fact; 3]> {
    require_file_bytes(2 * GROWN_BYTES as u64)?;
    let small = vec![1; SMALL_BYTES];
    let (started, mut created, mut synced) = (Instant::now(), Vec::new(), Vec::new());
    while created.len() < 2 || (created.len() < NEW_FILES && started.elapsed() < NEW_FILES_TIME) {
        let begin = Instant::now();
        let (file, again) = make_with_name_for_a_moment(directory, Opening::plain(Access::Read))?;
        drop(again);
        created.push(begin.elapsed().as_nanos() as f64);
        file.write_all_at(&small, 0)?;
        synced.push(timed(|| seekless_sys::sync(&file))?);
    }
    let direct = Opening {
        direct: true,
        ..Opening::plain(Access::Overwrite)
    };
    let (file, direct) = make_for_a_moment(directory, direct)
        .map(|(file, direct)| (file, Some(direct)))
        .or_else(|_| Ok::<_, io::Error>((make_for_a_moment(directory, Opening::plain(Access::Read))?.0, None)))?;
    let mut block = Buffer::new(GROWN_BYTES, MEMORY_ALIGNMENT)?;
    block.fill(1);
    let write = |n: u32| {
        let offset = u64::from(n) * GROWN_BYTES as u64;
        match &direct {
            Some(direct) => direct.write_all_at(&block, offset),
            None => file
                .write_all_at(&block, offset)
                .and_then(|()| seekless_sys::sync_data(&file)),
        }
    };
    let times = (0..2).map(|n| timed(|| write(n))).collect::<io::Result<Vec<f64>>>()?;
    let grown = spread(times, |time| time / GROWN_BYTES as f64);
    Ok([spread(created, |time| time), spread(synced, |time| time), grown])
}

/// What is written before a flush, as updates do it: enough that the flush takes less of the time than the bytes.
pub(super) const FLUSHED_BYTES: usize = 2 << 20;

/// Measures the device's costs of a flush, by a file that is opened for write-through, too, and of a byte, by a file of
/// [`FLUSHED_BYTES`] that was made with [`write_and_flush`].
pub(super) fn of_device((file, through): &(File, File), written: &File, costs: &Costs) -> io::Result<[Fact; 2]> {
    require_file_bytes(TRIED_BYTES as u64)?;
    // Allocates the blocks first, because that is not to be measured.
    file.write_all_at(&vec![1; TRIED_BYTES], 0)?;
    seekless_sys::sync(through)?;
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 2 || (times.len() < THROUGH_CALLS && started.elapsed() < THROUGH_BUDGET) {
        let offset = times.len() as u64 * 8192;
        times.push(timed(|| through.write_all_at(&[3; 4], offset))?);
    }
    let flush = spread(times, |time| (time - costs.write_call_ns.value).max(0.0));
    let byte = flushed_byte(write_and_flush(written)?, &flush, costs.write_byte_ns.value);
    Ok([flush, byte])
}

/// The cost of a byte, if writing [`FLUSHED_BYTES`] and a flush took this many nanoseconds: at least that of a byte of the page cache.
fn flushed_byte(nanoseconds: f64, flush: &Fact, least: f64) -> Fact {
    let byte = |flush: f64| ((nanoseconds - flush) / FLUSHED_BYTES as f64).max(least);
    Fact::between(byte(flush.high), byte(flush.value), byte(flush.low))
}

/// Writes [`FLUSHED_BYTES`] through the page cache, and flushes them. Returns the nanoseconds.
pub(super) fn write_and_flush(file: &File) -> io::Result<f64> {
    require_file_bytes(FLUSHED_BYTES as u64)?;
    let bytes = vec![1; FLUSHED_BYTES];
    timed(|| {
        file.write_all_at(&bytes, 0)?;
        seekless_sys::sync_data(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_before_a_flush_costs_what_is_left_of_the_time_and_at_least_a_byte_of_the_page_cache() {
        let flush = Fact::between(1e5, 2e5, 4e5);
        let flushed = FLUSHED_BYTES as f64;
        let of = |nanoseconds| {
            let byte = flushed_byte(nanoseconds, &flush, 0.25);
            [byte.low, byte.value, byte.high].map(|nanoseconds| nanoseconds * flushed)
        };
        let bytes = 2.0 * flushed;
        let expected = [bytes - 2e5, bytes, bytes + 1e5].map(f64::to_bits);
        assert_eq!(of(bytes + 2e5).map(f64::to_bits), expected);
        assert_eq!(of(1e5).map(f64::to_bits), [0.25 * flushed; 3].map(f64::to_bits));
    }
}
