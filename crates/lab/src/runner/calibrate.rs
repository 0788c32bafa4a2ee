//! Measuring how fast the storages are, with a file on each.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_engine::facts::{Costs, Seeks};
use seekless_engine::method::{Durability, Operation, Setting};
use seekless_engine::{Reader, Visits, Writer, cache, plan};
use seekless_record::{LabCost, Run, Storage};
use seekless_results::has_target;

use super::size::{MEMORY_REQUEST, SUSTAINED_BYTES, Speeds};
use super::storage::MeasuredStorage;
use super::{Bench, BenchError, Event, RunWatch};
use crate::generator::Generator;
use crate::kernel::{Kernel, Tally};
use crate::testfile::{TestFile, write_stream};

/// The bytes to read or write for measuring the speed.
const CALIBRATION_BYTES: u64 = 32 << 20;
/// How often it is read cold. The median counts, because a single read of a busy disk varies too much.
const COLD_READS: usize = 5;

/// What is measured before the trials, and where.
pub(super) struct Calibration<'a> {
    pub bench: &'a Bench,
    pub storages: &'a [MeasuredStorage],
}

impl Calibration<'_> {
    /// Estimates how fast the slowest storage is, and the cost of alternating on each, which the run records.
    pub fn measure(
        &self,
        trial_overhead: Duration,
        run: &mut Run,
        watch: &mut dyn RunWatch,
    ) -> Result<Speeds, BenchError> {
        let memory = run.machine.memory_available_bytes.unwrap_or(u64::MAX);
        let mut speeds = Speeds {
            read: f64::MAX,
            write: f64::MAX,
            write_bytes_per_ms: u64::MAX,
            warm_read: f64::MAX,
            check: f64::MAX,
            random_read: Duration::ZERO,
            append: Duration::ZERO,
            overhead: trial_overhead * 3 / 2 + Duration::from_millis(5),
            limit_bytes: (memory / 4).min(self.fitting_bytes()),
            sustained_bytes: SUSTAINED_BYTES.min(self.fitting_bytes()),
            most_written: u64::MAX,
        };
        let suits = self
            .storages
            .iter()
            .map(|storage| storage.suitable_writes(self.bench.budget));
        let most_written = self.bench.most_written.or(suits.min()).unwrap_or(u64::MAX);
        let contests = self
            .bench
            .experiments
            .iter()
            .flat_map(|experiment| &experiment.contests);
        let writing = contests.filter(|plan| has_target(&plan.common)).count();
        speeds.most_written = most_written / writing.max(1) as u64;
        let write_bytes = self.calibration_bytes();
        if write_bytes > 0 {
            watch.event(&Event::Calibrating { write_bytes });
        }
        let each_bytes = self.calibration_bytes_of_each();
        let (seed, lab_cost) = (self.bench.seed, &run.lab_cost);
        for (storage, record) in self.storages.iter().zip(&mut run.storages) {
            match storage.given_file() {
                Some(file) => speeds.of_given(file, seed, lab_cost),
                None => speeds.of_new_file(storage, each_bytes, seed, record)?,
            }
        }
        speeds.warm_read = speeds.warm_read.max(speeds.read);
        let made = lab_cost.producer_bytes_per_second.unwrap_or(speeds.warm_read);
        speeds.check = 1.0 / (1.0 / speeds.warm_read + 1.0 / made);
        // Without direct reads, requests are answered from memory.
        speeds.random_read = speeds.random_read.max(MEMORY_REQUEST);
        Ok(speeds)
    }

    /// Speeds for the least sizes: nothing is written before it is known that these are allowed.
    pub fn slowest(&self) -> Speeds {
        let (rate, time) = (1.0, Duration::from_secs(1));
        Speeds {
            read: rate,
            write: rate,
            write_bytes_per_ms: 1,
            warm_read: rate,
            check: rate,
            random_read: time,
            append: time,
            overhead: time,
            limit_bytes: self.fitting_bytes(),
            sustained_bytes: self.fitting_bytes(),
            most_written: 0,
        }
    }

    /// The largest files to choose, if what may be written is limited: a power of two, for some trials and test files.
    fn fitting_bytes(&self) -> u64 {
        let most = self.bench.most_written.map(|most| 1 << (most / 8).max(1).ilog2());
        most.map_or(u64::MAX, |most: u64| most.max(LEAST_FITTING))
    }

    fn made_storages(&self) -> u64 {
        let made = self.storages.iter().filter(|storage| storage.given_file().is_none());
        made.count() as u64
    }

    fn calibration_bytes_of_each(&self) -> u64 {
        let most = self.bench.most_written.unwrap_or(u64::MAX);
        CALIBRATION_BYTES
            .min(most / 8 / self.made_storages().max(1))
            .max(1 << 20)
    }

    /// The bytes to write for measuring the speed of all storages, appends included.
    fn calibration_bytes(&self) -> u64 {
        self.made_storages() * (self.calibration_bytes_of_each() + APPENDS as u64 * 4096 + Costs::SAMPLED_BYTES)
    }

    /// The same with what is written to try what works.
    pub fn bytes_before_trials(&self) -> u64 {
        self.calibration_bytes() + self.made_storages() * TRIED_BYTES
    }
}

/// More than is written on a storage to try which methods work there: 1 MiB for each kind of call.
const TRIED_BYTES: u64 = 16 << 20;

/// Below it, a trial has several files.
const LEAST_FITTING: u64 = 4 << 20;

/// How fast the middle of a file is read: 32 MiB of it, or as much as a quarter of a second allows.
fn read_rate(path: &Path, bytes: u64) -> std::io::Result<f64> {
    let file = cache::CachedFile::open(path).map_err(std::io::Error::other)?;
    let mut buffer = vec![0; 1 << 20];
    let (start, mut read) = (Instant::now(), 0_u64);
    while read < CALIBRATION_BYTES && start.elapsed() < Duration::from_millis(250) {
        match file.file().read_at(&mut buffer, bytes / 2 + read)? {
            0 => break,
            count => read += count as u64,
        }
    }
    Ok(read.max(1) as f64 / start.elapsed().as_secs_f64())
}

/// How many blocks are appended to learn how long that takes.
const APPENDS: usize = 8;

/// The time of appending 4 KiB durably: a quarter of the appends are faster, because other activity only adds to times.
fn append_time(path: &Path, seed: u64) -> Result<Duration, BenchError> {
    let usual = plan::usual(Operation::Write);
    let durable = usual.with(Durability::FdatasyncEach);
    let small = durable.and_then(|durable| durable.with(Setting::block_bytes(4096)));
    let mut writer = Writer::prepare(&small.unwrap_or(usual))?;
    let appends = Visits::appends(APPENDS as u64 * 4096, 4096);
    let appended = writer.visit(path, &appends, &Generator::new(seed));
    let _ = std::fs::remove_file(path);
    appended?;
    let mut latencies = appends.latencies_ns();
    latencies.sort_unstable();
    Ok(Duration::from_nanos(latencies[APPENDS / 4]))
}

impl Speeds {
    /// Reads a little of an existing file.
    fn of_given(&mut self, file: &TestFile, seed: u64, lab_cost: &LabCost) {
        self.read = read_rate(&file.path, file.bytes).unwrap_or(1e9);
        self.warm_read = lab_cost.second_touch_bytes_per_second.unwrap_or(1e9);
        let seeks = Seeks::within(&file.path, file.bytes, seed);
        self.random_read = seeks.map_or(Duration::ZERO, |seeks| seeks.apart);
        self.limit_bytes = self.limit_bytes.min(file.bytes);
    }

    /// Writes and reads a file on a storage, and records what only a file shows.
    fn of_new_file(
        &mut self,
        storage: &MeasuredStorage,
        most_bytes: u64,
        seed: u64,
        record: &mut Storage,
    ) -> Result<(), BenchError> {
        let free_bytes = storage.facts.free_bytes;
        self.limit_bytes = self.limit_bytes.min(free_bytes / 4);
        self.sustained_bytes = self.sustained_bytes.min(free_bytes / 4);
        let bytes = most_bytes.min(free_bytes / 8).max(1 << 20);
        let path = storage.path("calibration");
        let mut reader = Reader::prepare(&plan::usual(Operation::Read))?;
        let start = Instant::now();
        write_stream(Durability::Fsync, &path, bytes, seed, &|| false)?;
        let elapsed = start.elapsed();
        self.write = self.write.min(bytes as f64 / elapsed.as_secs_f64());
        let bytes_per_ms = bytes / elapsed.as_millis().max(1) as u64;
        self.write_bytes_per_ms = self.write_bytes_per_ms.min(bytes_per_ms);
        let mut read = || -> Result<f64, seekless_engine::Error> {
            let start = Instant::now();
            reader.read(&path, Tally::new(Kernel::None))?;
            Ok(bytes as f64 / start.elapsed().as_secs_f64())
        };
        let mut cold = Vec::new();
        for _ in 0..COLD_READS {
            cache::drop_file(&path)?;
            cold.push(read()?);
        }
        cold.sort_by(f64::total_cmp);
        self.read = self.read.min(cold[COLD_READS / 2]);
        self.warm_read = self.warm_read.min(read()?);
        self.append = self.append.max(append_time(&storage.path("appended"), seed)?);
        if let Some(seeks) = Seeks::within(&path, bytes, seed) {
            record.alternating_ns = Some(seeks.apart.as_nanos() as f64 - seeks.in_a_row.as_nanos() as f64);
            self.random_read = self.random_read.max(seeks.apart);
        }
        record.costs = Costs::sampled(&path).ok();
        record.direct_alignment_bytes = seekless_engine::direct_alignment(&path);
        let _ = std::fs::remove_file(&path);
        Ok(())
    }
}
