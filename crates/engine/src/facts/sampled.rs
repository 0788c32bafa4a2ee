//! The costs that a profile has: measuring them on a storage, and taking them from it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_record::{Interval, StorageCosts};
use seekless_sys::Directory;

use super::costs::{FLUSHED_BYTES, THROUGH, TRIED_BYTES, calls, of_device, write_and_flush};
use super::device::scattered_of;
use super::{Costs, Fact, Source, directory_of};
use crate::files::make_for_a_moment;

/// A run measures the costs of its storages this often, unless that takes longer.
const SAMPLES: usize = 5;
const SAMPLING_TIME: Duration = Duration::from_millis(200);
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
            let mut costs = Self::ASSUMED;
            [
                costs.write_call_ns,
                costs.write_byte_ns,
                costs.read_call_ns,
                costs.read_byte_ns,
                costs.fill_byte_ns,
            ] = calls(&files.0)?;
            [costs.flush_ns, costs.device_byte_ns] = of_device(&files, &written, &costs)?;
            [costs.scattered_ns, costs.fetch_byte_ns] = scattered_of(path)?;
            samples.push(costs.recorded());
        }
        StorageCosts::pooled(samples).ok_or_else(|| io::ErrorKind::TimedOut.into())
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
            source: Source::Profile,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
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
