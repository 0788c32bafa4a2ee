//! What was measured for plans, and is valid for a day or, if it depends on a file, for a minute.

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
#[cfg(feature = "profile")]
use super::store::FactStore;
use super::{Costs, Fact, FileFacts, memory};
use crate::files::make_for_a_moment;
#[cfg(feature = "profile")]
use crate::profile::StorageName;

static OF_PROCESS: MeasuredFacts = MeasuredFacts::new();

/// Costs that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactGroup {
    /// Of bytes in the page cache, by a file of its own.
    Memory,
    /// The same, by a file that is in the page cache.
    WarmMemory,
    /// Of writing through the page cache, without the device.
    Calls,
    /// Of a flush, and of a byte written to the device.
    Flushes,
    /// Of new files.
    NewFiles,
    /// Of opening a file.
    Opening,
    /// Of the latency of reads, by a short file.
    ShortReads,
    /// Of reads, by a file that is read in parts of less than 1 MiB.
    Reads,
    /// Of reads, by a long file.
    LongReads,
    /// Of reads at scattered places.
    Scattered(Reads),
}

impl FactGroup {
    /// Those by which plans for one file are made. Of two with the same costs, the better one comes last.
    pub(super) const OF_FILES: [Self; 8] = [
        Self::Calls,
        Self::Memory,
        Self::Flushes,
        Self::NewFiles,
        Self::Opening,
        Self::ShortReads,
        Self::Reads,
        Self::LongReads,
    ];

    /// The costs of the group.
    fn of(self, costs: &mut Costs) -> Vec<&mut Fact> {
        match self {
            // A file that is in memory does not tell the last one.
            Self::Memory | Self::WarmMemory => vec![
                &mut costs.read_call_ns,
                &mut costs.read_byte_ns,
                &mut costs.compare_byte_ns,
                &mut costs.map_byte_ns,
                &mut costs.look_byte_ns,
                &mut costs.view_byte_ns,
                &mut costs.fill_byte_ns,
            ],
            Self::Calls => vec![
                &mut costs.write_call_ns,
                &mut costs.write_byte_ns,
                &mut costs.read_call_ns,
                &mut costs.read_byte_ns,
                &mut costs.fill_byte_ns,
            ],
            Self::Flushes => vec![&mut costs.flush_ns, &mut costs.device_byte_ns],
            Self::NewFiles => vec![&mut costs.create_ns, &mut costs.sync_new_ns, &mut costs.grow_byte_ns],
            Self::Opening => vec![&mut costs.open_ns],
            Self::ShortReads => vec![&mut costs.wait_ns],
            Self::Reads | Self::LongReads => vec![
                &mut costs.wait_ns,
                &mut costs.fetch_byte_ns,
                &mut costs.stream_byte_ns,
                &mut costs.buffer_byte_ns,
                &mut costs.seek_ns,
            ],
            Self::Scattered(_) => vec![&mut costs.scattered_ns, &mut costs.fetch_byte_ns],
        }
    }

    fn put(self, facts: &[Fact], costs: &mut Costs) {
        let filled = costs.fill_byte_ns;
        for (cost, fact) in self.of(costs).into_iter().zip(facts) {
            *cost = *fact;
        }
        // A measurement on the storage takes precedence over one in memory.
        if self == Self::Memory && filled.is_measured() {
            costs.fill_byte_ns = filled;
        }
    }

    /// Its name where it is kept; `None` for what depends on the file.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Memory => "memory",
            Self::Calls => "calls",
            Self::Flushes => "flushes",
            Self::NewFiles => "new-files",
            Self::Opening => "opening",
            Self::Reads => "reads",
            Self::LongReads => "long-reads",
            Self::ShortReads | Self::WarmMemory | Self::Scattered(_) => return None,
        })
    }

    /// How long a measurement is valid.
    fn valid(self) -> Duration {
        if self.name().is_some() { KEPT } else { FRESH }
    }
}

/// What was measured for plans, on storages and in memory. A measurement is valid for a minute, or for a day if it is kept.
#[derive(Debug, Default)]
pub struct MeasuredFacts {
    /// By the device, and what was measured.
    groups: KeptFacts<(u64, FactGroup), Vec<Fact>>,
    /// The devices whose kept facts were read.
    #[cfg(feature = "profile")]
    stores: Mutex<Vec<(u64, FactStore)>>,
}

impl MeasuredFacts {
    /// Nothing is measured yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            groups: KeptFacts::new(),
            #[cfg(feature = "profile")]
            stores: Mutex::new(Vec::new()),
        }
    }

    /// Those that calls share which name no others.
    #[must_use]
    pub fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// Reads the facts that an earlier process kept of the storage of a path.
    #[cfg(feature = "profile")]
    pub(super) fn read_kept(&self, path: &Path, device: u64) {
        let mut stores = lock_mutex(&self.stores);
        if stores.iter().any(|(known, _)| *known == device) {
            return;
        }
        let Ok(name) = StorageName::of(path) else { return };
        let store = FactStore::of(&name);
        for (name, measured, facts) in store.read() {
            let group = FactGroup::OF_FILES
                .into_iter()
                .find(|group| group.name() == Some(&*name));
            if let Some(group) = group {
                self.groups.put((device, group), measured, facts);
            }
        }
        stores.push((device, store));
    }

    /// Adds everything that is known of a device to `costs`.
    pub(super) fn known(&self, device: u64, costs: &mut Costs) {
        for group in FactGroup::OF_FILES {
            if let Some(facts) = self.groups.known((device, group), group.valid()) {
                group.put(&facts, costs);
            }
        }
    }

    /// Adds the costs of a group on a device to `costs`: those that are valid, or else measured ones, which are kept.
    fn add<const N: usize>(
        &self,
        device: u64,
        group: FactGroup,
        costs: &mut Costs,
        measure: impl FnOnce(&Costs) -> io::Result<[Fact; N]>,
    ) -> io::Result<()> {
        let mut is_new = false;
        let facts = self.groups.get_or((device, group), group.valid(), || {
            is_new = true;
            measure(costs).map(Vec::from)
        })?;
        group.put(&facts, costs);
        #[cfg(feature = "profile")]
        if let Some(name) = group.name().filter(|_| is_new) {
            let stores = lock_mutex(&self.stores);
            if let Some((_, store)) = stores.iter().find(|(known, _)| *known == device) {
                store.add(name, &facts);
            }
        }
        Ok(())
    }

    /// Measures bytes in the page cache, with the file if it is cached, and adds their costs to `costs`.
    pub(super) fn memory(&self, file: &File, found: FileFacts, costs: &mut Costs) -> io::Result<()> {
        if memory::is_warm(&found) {
            return self.add(found.device, FactGroup::WarmMemory, costs, |_| {
                memory::of_file(file, found.bytes)
            });
        }
        self.add(found.device, FactGroup::Memory, costs, |_| memory::of_own_file())
    }

    /// Measures opening a file, and adds its cost to `costs`.
    pub(super) fn opening(&self, path: &Path, device: u64, costs: &mut Costs) -> io::Result<()> {
        self.add(device, FactGroup::Opening, costs, |_| costs::of_opening(path))
    }

    /// Measures reads on the device of a file, and adds their costs to `costs`. The longer the file, the more they say.
    pub(super) fn reads(&self, path: &Path, found: FileFacts, costs: &mut Costs) -> io::Result<()> {
        let (device, bytes) = (found.device, found.bytes);
        let group = match bytes {
            device::LONG_BYTES.. => FactGroup::LongReads,
            device::LEAST_BYTES.. => FactGroup::Reads,
            _ => FactGroup::ShortReads,
        };
        for better in [FactGroup::LongReads, FactGroup::Reads] {
            if let Some(facts) = self.groups.known((device, better), better.valid()) {
                better.put(&facts, costs);
                return Ok(());
            }
            if better == group {
                break;
            }
        }
        let file = open_direct(path).ok_or(io::ErrorKind::Unsupported)?;
        if group == FactGroup::ShortReads {
            return self.add(device, group, costs, |_| device::of_short_file(&file, bytes));
        }
        self.add(device, group, costs, |costs| device::of_file(&file, bytes, costs))
    }

    /// Measures reads at scattered places of a file of this many bytes, and adds their costs to `costs`.
    pub(crate) fn scattered(&self, path: &Path, bytes: u64, reads: Reads, costs: &mut Costs) -> io::Result<()> {
        let file = open_direct(path).ok_or(io::ErrorKind::Unsupported)?;
        let device = file.metadata()?.dev();
        self.add(device, FactGroup::Scattered(reads), costs, |_| {
            device::scattered(&file, bytes, reads)
        })
    }

    /// Measures the costs of writing in a directory by a temporary file, and adds them to `costs`. That takes about 2 ms, or about 20 ms with the
    /// costs of a device that is as fast as a disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn writing(&self, directory: &Directory, with_device: bool, costs: &mut Costs) -> io::Result<()> {
        let device = directory.metadata()?.dev();
        self.writing_by(device, with_device, costs, || make_for_a_moment(directory, THROUGH))
    }

    /// The same on a device, by a file that `make` opens twice: for writing, and for write-through.
    fn writing_by(
        &self,
        device: u64,
        with_device: bool,
        costs: &mut Costs,
        make: impl Fn() -> io::Result<(File, File)>,
    ) -> io::Result<()> {
        self.add(device, FactGroup::Calls, costs, |_| costs::calls(&make()?.0))?;
        if with_device {
            self.add(device, FactGroup::Flushes, costs, |costs| {
                let (written, _) = make()?;
                // Allocates the blocks.
                costs::write_and_flush(&written)?;
                costs::of_device(&make()?, &written, costs)
            })?;
        }
        Ok(())
    }

    /// Measures the costs of new files in a directory, and adds them to `costs`.
    pub(super) fn new_files(&self, directory: &Directory, costs: &mut Costs) -> io::Result<()> {
        let device = directory.metadata()?.dev();
        self.add(device, FactGroup::NewFiles, costs, |_| costs::of_new_files(directory))
    }
}

/// How long a measurement is valid that depends on a file, and one that is kept.
const FRESH: Duration = Duration::from_mins(1);
const KEPT: Duration = Duration::from_hours(24);

/// Measurements by their keys.
#[derive(Debug)]
struct KeptFacts<K, V>(Mutex<Vec<(K, KeptFact<V>)>>);

/// A measurement with its time; `None` before the first one.
type KeptFact<V> = Arc<Mutex<Option<(Instant, V)>>>;

impl<K: PartialEq, V: Clone> KeptFacts<K, V> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn place(&self, of: K) -> KeptFact<V> {
        let mut places = lock_mutex(&self.0);
        let found = places.iter().find(|(known, _)| *known == of);
        if let Some((_, place)) = found {
            return Arc::clone(place);
        }
        let place = Arc::default();
        places.push((of, Arc::clone(&place)));
        place
    }

    /// The measurement for a key that is at most this old.
    fn known(&self, of: K, valid: Duration) -> Option<V> {
        let place = self.place(of);
        let kept = lock_mutex(&place);
        let kept = kept.as_ref().filter(|(at, _)| at.elapsed() < valid);
        kept.map(|(_, found)| found.clone())
    }

    /// Keeps a measurement of an earlier time.
    #[cfg(feature = "profile")]
    fn put(&self, of: K, at: Instant, found: V) {
        *lock_mutex(&self.place(of)) = Some((at, found));
    }

    /// The measurement for a key that is at most this old, or a new one. Concurrent callers with the same key wait for it.
    fn get_or(&self, of: K, valid: Duration, measure: impl FnOnce() -> io::Result<V>) -> io::Result<V> {
        let place = self.place(of);
        let mut kept = lock_mutex(&place);
        if let Some((_, found)) = kept.as_ref().filter(|(at, _)| at.elapsed() < valid) {
            return Ok(found.clone());
        }
        let found = measure()?;
        *kept = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

impl<K: PartialEq, V: Clone> Default for KeptFacts<K, V> {
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
            let mut costs = Costs::ASSUMED;
            measured.writing_by(DEVICE, with_device, &mut costs, make).unwrap();
            costs
        };
        let calls = costs(false);
        assert!(calls.write_call_ns.is_measured() && !calls.is_measured());
        assert_eq!(costs(false), calls);
        let all = costs(true);
        assert!(all.is_measured());
        assert_eq!(all.write_call_ns, calls.write_call_ns, "what was measured stays");
        assert_eq!((costs(true), costs(false)), (all, calls));
        assert_eq!(files.get(), 3);
        let mut other = Costs::ASSUMED;
        let refused = measured.writing_by(DEVICE + 1, false, &mut other, || Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(other, Costs::ASSUMED);
        measured.known(DEVICE, &mut other);
        assert_eq!(other, all);
    }

    #[test]
    fn costs_of_a_group_are_put_where_they_belong() {
        for group in FactGroup::OF_FILES {
            let mut costs = Costs::ASSUMED;
            let facts: Vec<Fact> = (1..)
                .map(f64::from)
                .map(Fact::claimed)
                .take(group.of(&mut costs).len())
                .collect();
            group.put(&facts, &mut costs);
            assert!(group.of(&mut costs).iter().map(|fact| &**fact).eq(&facts), "{group:?}");
            let changed = costs.all_mut().into_iter().filter(|fact| facts.contains(fact)).count();
            assert_eq!(changed, facts.len(), "{group:?}: no cost is in it twice");
        }
    }

    #[test]
    fn measured_facts_of_a_device_wait_for_no_measurement_of_another_one() {
        let kept = KeptFacts::<u64, u64>::new();
        let slow = kept.get_or(1, KEPT, || kept.get_or(2, KEPT, || Ok(7)));
        assert_eq!(slow.unwrap(), 7);
        assert_eq!(kept.get_or(1, KEPT, || Err(io::ErrorKind::Other.into())).unwrap(), 7);
        assert_eq!(kept.known(1, KEPT), Some(7));
        assert_eq!(kept.known(1, Duration::ZERO), None, "too old");
        assert_eq!(kept.get_or(1, Duration::ZERO, || Ok(8)).unwrap(), 8);
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
            measured.writing_by(1, false, &mut { Costs::ASSUMED }, make).unwrap();
        }
        assert_eq!(files.get(), 2);
    }
}
