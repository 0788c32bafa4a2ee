//! The costs of a storage and its machine, in nanoseconds, and measuring the costs of writing by a few calls on an
//! unnamed file. `memory` and `device` measure the costs of memory and of device reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{Access, Directory, Opening};

#[cfg(feature = "profile")]
use seekless_record::{Interval, StorageCosts};

use super::Fact;
use super::kept::KeptFacts;
#[cfg(feature = "profile")]
use super::{device, directory_of};
use crate::files::make_for_a_moment;

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

/// A run measures the costs of its storages this often, unless that takes longer.
#[cfg(feature = "profile")]
const SAMPLES: usize = 5;
#[cfg(feature = "profile")]
const SAMPLING_TIME: Duration = Duration::from_millis(200);
/// What is written before a flush, as updates do it: enough that the flush takes less of the time than the bytes.
#[cfg(feature = "profile")]
const FLUSHED_BYTES: usize = 2 << 20;

#[cfg(feature = "profile")]
impl Costs {
    /// More than [`Self::sampled`] writes.
    pub const SAMPLED_BYTES: u64 = (SAMPLES * 11 * TRIED_BYTES + (SAMPLES + 1) * FLUSHED_BYTES) as u64;

    /// Measures the costs by which updates are planned, for a profile: by a file on the storage, which is not resident, and in its
    /// directory. That takes some 50 ms, unless the device is slower than a disk.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] without direct I/O.
    pub fn sampled(path: &Path) -> io::Result<StorageCosts> {
        let directory = Directory::open(directory_of(path))?;
        let (written, _) = make_for_a_moment(&directory, THROUGH)?;
        // Allocates the blocks.
        write_and_flush(&written)?;
        let (began, mut samples) = (Instant::now(), Vec::new());
        while samples.len() < SAMPLES && (samples.is_empty() || began.elapsed() < SAMPLING_TIME) {
            let files = make_for_a_moment(&directory, THROUGH)?;
            let mut costs = calls(&files.0)?;
            [costs.flush_ns, costs.device_byte_ns] = of_device(&files, &costs)?;
            let flushed = costs.flushed_byte(write_and_flush(&written)?);
            if flushed.value > costs.device_byte_ns.value {
                costs.device_byte_ns = flushed;
            }
            [costs.scattered_ns, costs.fetch_byte_ns] = device::scattered_of(path)?;
            samples.push(costs.recorded());
        }
        StorageCosts::pooled(samples).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// The cost of a byte, if writing [`FLUSHED_BYTES`] and a flush took this many nanoseconds.
    fn flushed_byte(&self, nanoseconds: f64) -> Fact {
        let byte = |flush: f64| ((nanoseconds - flush) / FLUSHED_BYTES as f64).max(self.write_byte_ns.value);
        let flush = self.flush_ns;
        Fact::between(byte(flush.high), byte(flush.value), byte(flush.low))
    }

    fn recorded(&self) -> StorageCosts {
        let interval = |fact: Fact| Interval {
            low: fact.low,
            median: fact.value,
            high: fact.high,
            coverage: None,
        };
        StorageCosts {
            write_call_ns: interval(self.write_call_ns),
            write_byte_ns: interval(self.write_byte_ns),
            device_byte_ns: interval(self.device_byte_ns),
            flush_ns: interval(self.flush_ns),
            read_call_ns: interval(self.read_call_ns),
            read_byte_ns: interval(self.read_byte_ns),
            fill_byte_ns: interval(self.fill_byte_ns),
            fetch_byte_ns: interval(self.fetch_byte_ns),
            scattered_ns: interval(self.scattered_ns),
        }
    }

    /// Those of a profile; what it does not have is assumed. Their bounds are this factor wider.
    #[must_use]
    pub(crate) fn of_profile(costs: &StorageCosts, wider: f64) -> Self {
        let fact = |cost: Interval| Fact {
            source: super::Source::Profile,
            ..Fact::assumed(cost.low / wider, cost.median, cost.high * wider)
        };
        Self {
            write_call_ns: fact(costs.write_call_ns),
            write_byte_ns: fact(costs.write_byte_ns),
            device_byte_ns: fact(costs.device_byte_ns),
            flush_ns: fact(costs.flush_ns),
            read_call_ns: fact(costs.read_call_ns),
            read_byte_ns: fact(costs.read_byte_ns),
            fill_byte_ns: fact(costs.fill_byte_ns),
            fetch_byte_ns: fact(costs.fetch_byte_ns),
            scattered_ns: fact(costs.scattered_ns),
            ..Self::ASSUMED
        }
    }
}

/// By device: the costs without the device's, and the device's costs of a flush and of a byte.
static AT_CACHE: KeptFacts<u64, Costs> = KeptFacts::nothing();
static AT_DEVICE: KeptFacts<u64, [Fact; 2]> = KeptFacts::nothing();

/// The costs of writing in a directory, measured by a temporary file unless they were measured within the last minute.
/// That takes about 2 ms, or about 20 ms with the costs of a device that is as fast as a disk.
///
/// # Errors
/// The system's.
pub(crate) fn costs_in(directory: &Directory, with_device: bool) -> io::Result<Costs> {
    let device = directory.metadata()?.dev();
    costs_by(device, with_device, || make_for_a_moment(directory, THROUGH))
}

/// The flags for write-through.
const THROUGH: Opening = Opening {
    access: Access::Overwrite,
    direct: false,
    write_through: true,
    keeps_atime: false,
};

/// The same on a device, by a file that `make` opens twice: for writing, and for write-through.
fn costs_by(device: u64, with_device: bool, make: impl Fn() -> io::Result<(File, File)>) -> io::Result<Costs> {
    let mut costs = AT_CACHE.get_or(device, || calls(&make()?.0))?;
    if with_device {
        [costs.flush_ns, costs.device_byte_ns] = AT_DEVICE.get_or(device, || of_device(&make()?, &costs))?;
    }
    Ok(costs)
}

/// The size of the temporary file.
const TRIED_BYTES: usize = 256 << 10;
const CALLS: u32 = 16;
/// How often each call is timed.
pub(super) const ROUNDS: u32 = 3;
/// Write-through is timed at least twice, and as often as fits into this time.
const THROUGH_BUDGET: Duration = Duration::from_millis(5);
const THROUGH_CALLS: usize = 8;

/// Measures the costs of calls and bytes at the page cache.
fn calls(file: &File) -> io::Result<Costs> {
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
fn of_device((file, through): &(File, File), costs: &Costs) -> io::Result<[Fact; 2]> {
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

/// Writes [`FLUSHED_BYTES`] through the page cache, and flushes them. Returns the nanoseconds.
#[cfg(feature = "profile")]
fn write_and_flush(file: &File) -> io::Result<f64> {
    let bytes = vec![1; FLUSHED_BYTES];
    timed(|| {
        file.write_all_at(&bytes, 0)?;
        seekless_sys::sync_data(file)
    })
}

/// A fact from some times: their bounds, and their (lower) median, because noise only adds to times.
pub(super) fn spread(mut times: Vec<f64>, of: impl Fn(f64) -> f64) -> Fact {
    times.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, (times.len() - 1) / 2, times.len() - 1].map(|place| of(times[place]));
    Fact::between(low, middle, high)
}

/// Times some rounds of work, in nanoseconds. The fastest counts, because other activity only adds to times.
pub(super) fn timed_rounds(mut work: impl FnMut(u32) -> io::Result<()>) -> io::Result<Fact> {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for round in 0..ROUNDS {
        let nanoseconds = timed(|| work(round))?;
        (least, most) = (least.min(nanoseconds), most.max(nanoseconds));
    }
    Ok(Fact::between(least, least, most))
}

pub(super) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_stalls_once_is_not_what_calls_cost() {
        let stall = Duration::from_millis(50);
        let slow_at = |slow: u32| {
            timed_rounds(|round| {
                if round == slow {
                    std::thread::sleep(stall);
                }
                Ok(())
            })
        };
        for round in 0..ROUNDS {
            let found = slow_at(round).unwrap();
            assert!(found.value < stall.as_nanos() as f64, "{round}");
            assert!(found.high >= stall.as_nanos() as f64, "{round}");
        }
    }

    #[test]
    fn a_device_is_measured_once_and_what_is_asked_for_later_is_added() {
        // No device has this number.
        const DEVICE: u64 = u64::MAX - 1;
        let files = std::cell::Cell::new(0);
        let costs = |with_device| {
            let make = || {
                files.set(files.get() + 1);
                let file = tempfile::tempfile()?;
                Ok((file.try_clone()?, file))
            };
            costs_by(DEVICE, with_device, make).unwrap()
        };
        let calls = costs(false);
        assert!(calls.write_call_ns.is_measured() && !calls.is_measured());
        assert_eq!(costs(false), calls);
        let all = costs(true);
        assert!(all.is_measured());
        assert_eq!(all.write_call_ns, calls.write_call_ns, "what was measured stays");
        assert_eq!((costs(true), costs(false)), (all, calls));
        assert_eq!(files.get(), 2);
        let refused = costs_by(DEVICE - 1, false, || Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    #[cfg(feature = "profile")]
    fn a_byte_before_a_flush_costs_what_is_left_of_the_time_and_at_least_a_byte_of_the_page_cache() {
        let exactly = |nanoseconds| Fact::between(nanoseconds, nanoseconds, nanoseconds);
        let mut costs = Costs::ASSUMED;
        costs.write_byte_ns = exactly(0.25);
        costs.flush_ns = Fact::between(1e5, 2e5, 4e5);
        let flushed = FLUSHED_BYTES as f64;
        let of = |nanoseconds| {
            let byte = costs.flushed_byte(nanoseconds);
            [byte.low, byte.value, byte.high].map(|nanoseconds| nanoseconds * flushed)
        };
        let bytes = 2.0 * flushed;
        let expected = [bytes - 2e5, bytes, bytes + 1e5].map(f64::to_bits);
        assert_eq!(of(bytes + 2e5).map(f64::to_bits), expected);
        assert_eq!(of(1e5).map(f64::to_bits), [0.25 * flushed; 3].map(f64::to_bits));
    }

    #[test]
    #[cfg(all(feature = "profile", target_os = "linux"))]
    fn sampling_writes_what_it_says_and_a_byte_of_the_device_costs_as_much_as_one_of_the_page_cache() {
        use crate::facts::seeks::tests::{are_cold, thread_io};

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 4 << 20]).unwrap();
        if !are_cold(&[&path]) {
            return;
        }
        let before = thread_io("wchar");
        let costs = Costs::sampled(&path).unwrap();
        let written = thread_io("wchar") - before;
        let is_within = (2 * FLUSHED_BYTES as u64..=Costs::SAMPLED_BYTES).contains(&written);
        assert!(is_within, "{written} bytes");
        let byte = costs.device_byte_ns;
        assert!(byte.median >= costs.write_byte_ns.median, "{costs:?}");
        assert!(byte.low <= byte.median && byte.median <= byte.high, "{byte:?}");
    }
}
