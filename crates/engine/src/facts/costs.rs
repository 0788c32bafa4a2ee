//! The costs of a storage and its machine, in nanoseconds, and measuring the costs of writing by a few calls on an
//! unnamed file. `memory` and `device` measure the costs of memory and of device reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{Access, Opening};

use super::Fact;
use super::timing::{ROUNDS, spread, timed, timed_rounds};
use crate::files::require_file_bytes;

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
    /// Opening and closing a file whose name is cached by the kernel.
    pub open_ns: Fact,
    /// The latency of a sequential device read, without its bytes.
    pub wait_ns: Fact,
    /// A byte read from the device in large requests.
    pub fetch_byte_ns: Fact,
    /// A device read of a block at a scattered place, with several in flight. A write is assumed to cost the same.
    pub scattered_ns: Fact,
}

impl Costs {
    /// The costs of a virtual disk. The bounds are those of a rotating disk, where calls are expensive, and of a flash
    /// disk without flushes behind a slow link, where bytes are expensive.
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
        open_ns: Fact::assumed(1_000.0, 4_000.0, 50_000.0),
        // From a file system in memory to a distant server, and from several flash disks to a rotating disk.
        wait_ns: Fact::assumed(2_000.0, 150_000.0, 20e6),
        fetch_byte_ns: Fact::assumed(0.05, 2.0, 20.0),
        scattered_ns: Fact::assumed(1_000.0, 20_000.0, 10e6),
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
pub(super) fn calls(file: &File) -> io::Result<Costs> {
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
    Ok(Costs {
        write_call_ns: write_calls.scaled(each_call),
        write_byte_ns: whole.scaled(each_byte),
        read_call_ns: read_calls.scaled(each_call),
        read_byte_ns: whole_read.scaled(each_byte),
        fill_byte_ns: filled.scaled(each_byte),
        ..Costs::ASSUMED
    })
}

/// Adds the cost of opening, by opening the path itself.
pub(super) fn of_opening(path: &Path, costs: &mut Costs) -> io::Result<()> {
    let opened = timed_rounds(|_| (0..CALLS).try_for_each(|_| File::open(path).map(drop)))?;
    costs.open_ns = opened.scaled(1.0 / f64::from(CALLS));
    Ok(())
}

/// Measures the device's costs of a flush and of a byte.
pub(super) fn of_device((file, through): &(File, File), costs: &Costs) -> io::Result<[Fact; 2]> {
    require_file_bytes(TRIED_BYTES as u64)?;
    let bytes = vec![1; TRIED_BYTES];
    // Allocates the blocks first, because that is not to be measured.
    file.write_all_at(&bytes, 0)?;
    seekless_sys::sync(through)?;
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 2 || (times.len() < THROUGH_CALLS && started.elapsed() < THROUGH_BUDGET) {
        let offset = times.len() as u64 * 8192;
        times.push(timed(|| through.write_all_at(&[3; 4], offset))?);
    }
    let all = timed_rounds(|_| through.write_all_at(&bytes, 0))?;
    let flush = spread(times, |time| (time - costs.write_call_ns.value).max(0.0));
    let byte = |time: f64| ((time - flush.low) / TRIED_BYTES as f64).max(costs.write_byte_ns.value);
    Ok([flush, Fact::between(byte(all.low), byte(all.value), byte(all.high))])
}
