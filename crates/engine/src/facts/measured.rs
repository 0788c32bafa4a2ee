//! What was measured for plans, and is valid for a minute.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seekless_sys::{Directory, lock_mutex};

use super::costs::{self, THROUGH};
use super::device::{self, Reads};
use super::seeks::open_direct;
use super::{Costs, Fact, FileFacts, memory};
use crate::files::make_for_a_moment;

static OF_PROCESS: MeasuredFacts = MeasuredFacts::new();

/// What was measured for plans, on storages and in memory. A measurement is valid for a minute.
#[derive(Debug, Default)]
pub struct MeasuredFacts {
    /// The costs of memory, by whether they are those of a file in the page cache.
    memory: KeptFacts<bool, memory::MemoryCosts>,
    /// The costs of writing to a device, without its own.
    at_cache: KeptFacts<u64, Costs>,
    /// A device's costs of a flush and of a byte that is written.
    at_device: KeptFacts<u64, [Fact; 2]>,
    /// A device's costs of a read and of a byte that is read.
    reads: KeptFacts<u64, [Fact; 2]>,
    /// A device's costs of a read at a scattered place and of a byte that is read.
    scattered: KeptFacts<(u64, Reads), [Fact; 2]>,
}

impl MeasuredFacts {
    /// Nothing is measured yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            memory: KeptFacts::new(),
            at_cache: KeptFacts::new(),
            at_device: KeptFacts::new(),
            reads: KeptFacts::new(),
            scattered: KeptFacts::new(),
        }
    }

    /// Those that calls share which name no others.
    #[must_use]
    pub fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// Measures bytes in the page cache, with the file if it is cached, and adds their costs to `costs`.
    pub(super) fn memory(&self, file: &File, found: FileFacts, costs: &mut Costs) -> io::Result<()> {
        let is_warm = memory::is_warm(&found);
        let (measured, filled) = self.memory.get_or(is_warm, || {
            if is_warm {
                Ok((memory::of_file(file, found.bytes)?, None))
            } else {
                memory::of_own_file()
            }
        })?;
        [costs.read_byte_ns, costs.compare_byte_ns, costs.map_byte_ns] = measured;
        // A measurement on the target's storage takes precedence.
        if let Some(filled) = filled.filter(|_| !costs.fill_byte_ns.is_measured()) {
            costs.fill_byte_ns = filled;
        }
        Ok(())
    }

    /// Measures reads on the device of a file of this many bytes, and adds their costs to `costs`.
    pub(super) fn reads(&self, path: &Path, bytes: u64, costs: &mut Costs) -> io::Result<()> {
        let file = open_direct(path).ok_or(io::ErrorKind::Unsupported)?;
        let device = file.metadata()?.dev();
        [costs.wait_ns, costs.fetch_byte_ns] = self.reads.get_or(device, || device::of_file(&file, bytes))?;
        Ok(())
    }

    /// Measures reads at scattered places of a file of this many bytes, and adds their costs to `costs`.
    pub(crate) fn scattered(&self, path: &Path, bytes: u64, reads: Reads, costs: &mut Costs) -> io::Result<()> {
        let file = open_direct(path).ok_or(io::ErrorKind::Unsupported)?;
        let key = (file.metadata()?.dev(), reads);
        let measure = || device::scattered(&file, bytes, reads);
        [costs.scattered_ns, costs.fetch_byte_ns] = self.scattered.get_or(key, measure)?;
        Ok(())
    }

    /// Measures the costs of writing in a directory by a temporary file. That takes about 2 ms, or about 20 ms with the
    /// costs of a device that is as fast as a disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn writing(&self, directory: &Directory, with_device: bool) -> io::Result<Costs> {
        let device = directory.metadata()?.dev();
        self.writing_by(device, with_device, || make_for_a_moment(directory, THROUGH))
    }

    /// The same on a device, by a file that `make` opens twice: for writing, and for write-through.
    fn writing_by(
        &self,
        device: u64,
        with_device: bool,
        make: impl Fn() -> io::Result<(File, File)>,
    ) -> io::Result<Costs> {
        let mut costs = self.at_cache.get_or(device, || costs::calls(&make()?.0))?;
        if with_device {
            let measure = || costs::of_device(&make()?, &costs);
            [costs.flush_ns, costs.device_byte_ns] = self.at_device.get_or(device, measure)?;
        }
        Ok(costs)
    }
}

/// How long a measurement is valid.
const FRESH: Duration = Duration::from_mins(1);

/// Measurements by their keys.
#[derive(Debug)]
struct KeptFacts<K, V>(Mutex<Vec<(K, KeptFact<V>)>>);

/// A measurement with its time; `None` before the first one.
type KeptFact<V> = Arc<Mutex<Option<(Instant, V)>>>;

impl<K: PartialEq, V: Copy> KeptFacts<K, V> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The valid measurement for a key, or a new one. Concurrent callers with the same key wait for it.
    fn get_or(&self, of: K, measure: impl FnOnce() -> io::Result<V>) -> io::Result<V> {
        let place = {
            let mut places = lock_mutex(&self.0);
            let found = places.iter().find(|(known, _)| *known == of);
            if let Some((_, place)) = found {
                Arc::clone(place)
            } else {
                let place = Arc::default();
                places.push((of, Arc::clone(&place)));
                place
            }
        };
        let mut kept = lock_mutex(&place);
        if let Some((_, found)) = kept.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(found);
        }
        let found = measure()?;
        *kept = Some((Instant::now(), found));
        Ok(found)
    }
}

impl<K: PartialEq, V: Copy> Default for KeptFacts<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn measured_facts_of_a_device_are_measured_once_and_later_ones_are_added() {
        const DEVICE: u64 = 1;
        let (measured, files) = (MeasuredFacts::new(), Cell::new(0));
        let costs = |with_device| {
            let make = || {
                files.set(files.get() + 1);
                let file = tempfile::tempfile()?;
                Ok((file.try_clone()?, file))
            };
            measured.writing_by(DEVICE, with_device, make).unwrap()
        };
        let calls = costs(false);
        assert!(calls.write_call_ns.is_measured() && !calls.is_measured());
        assert_eq!(costs(false), calls);
        let all = costs(true);
        assert!(all.is_measured());
        assert_eq!(all.write_call_ns, calls.write_call_ns, "what was measured stays");
        assert_eq!((costs(true), costs(false)), (all, calls));
        assert_eq!(files.get(), 2);
        let refused = measured.writing_by(DEVICE + 1, false, || Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn measured_facts_of_a_device_wait_for_no_measurement_of_another_one() {
        let kept = KeptFacts::<u64, u64>::new();
        let slow = kept.get_or(1, || kept.get_or(2, || Ok(7)));
        assert_eq!(slow.unwrap(), 7);
        assert_eq!(kept.get_or(1, || Err(io::ErrorKind::Other.into())).unwrap(), 7);
    }

    #[test]
    fn measured_facts_of_one_context_are_not_those_of_another() {
        let (one, other, files) = (MeasuredFacts::new(), MeasuredFacts::new(), Cell::new(0));
        let make = || {
            files.set(files.get() + 1);
            let file = tempfile::tempfile()?;
            Ok((file.try_clone()?, file))
        };
        for measured in [&one, &other, &one] {
            measured.writing_by(1, false, make).unwrap();
        }
        assert_eq!(files.get(), 2);
    }
}
