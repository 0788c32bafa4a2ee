//! Choosing the files' size: as large as the budget, the free space and the memory allow.

use std::time::{Duration, Instant};

use seekless::facts::Seeks;
use seekless::method::{Durability, Operation};
use seekless::{Reader, cache, plan};
use seekless_record::{Cache, Contest};
use seekless_results::deciding_trials;

use super::{BenchError, Event, Runner};
use crate::experiment::ContestPlan;
use crate::kernel::{Kernel, Tally};
use crate::testfile::write_stream;
use crate::updates;

/// How fast the slowest of the storages is, roughly: enough to choose a size by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speeds {
    pub read: f64,
    pub write: f64,
    /// From the page cache.
    pub warm_read: f64,
    /// Reading a file and making what must be in it, to check a result.
    pub check: f64,
    /// What a direct read of 4 KiB takes at a random place.
    pub random_read: Duration,
    pub overhead: Duration,
    /// No test file is larger than this.
    pub limit_bytes: u64,
    /// No sustained write is larger than this, where it is not asked for.
    pub sustained_bytes: u64,
}

/// What auto chooses from.
const LADDER: [u64; 7] = [1 << 30, 512 << 20, 256 << 20, 128 << 20, 64 << 20, 32 << 20, 16 << 20];
/// What is chosen where rounds are given instead of a budget.
const USUAL_BYTES: u64 = 256 << 20;
/// How large a file must be that exceeds a memory group which still holds a program.
const OVER_BYTES: u64 = 256 << 20;
/// What is read or written to learn the speed.
const CALIBRATION_BYTES: u64 = 32 << 20;
/// How often it is read cold; the median counts. A single read of a busy disk takes anything.
const COLD_READS: usize = 5;

/// The time that a group needs for a verdict: the contest of one size and cache state.
pub(super) fn group_cost(plan: &ContestPlan, cache: Cache, bytes: u64, speeds: &Speeds) -> Duration {
    let trials = if plan.common.sustained {
        1
    } else {
        deciding_trials(plan.common.entries.len())
    };
    let durability = plan
        .methods()
        .next()
        .map_or(Durability::None, |choice| choice.durability());
    let contest = Contest {
        cache,
        ..contest_of(plan, bytes, durability)
    };
    trial_cost(&contest, speeds) * trials as u32
}

/// The contest of a plan with files of a size, its other choices not made yet.
pub(super) fn contest_of(plan: &ContestPlan, bytes: u64, durability: Durability) -> Contest {
    let (size_bytes, files) = if plan.common.sustained {
        sustained_files(bytes)
    } else {
        (bytes, files_per_trial(plan, durability, bytes))
    };
    Contest {
        size_bytes,
        files,
        durability,
        entries: Vec::new(),
        ..plan.common.clone()
    }
}

/// What an update costs on the mean of methods that write each by itself and such that do not.
const UPDATE_NS: u64 = 1_000;
const UPDATE_THROUGH_NS: u64 = 100_000;

/// The time that the updates of a trial take.
fn updating_cost(contest: &Contest) -> Duration {
    let each = if contest.durability == Durability::WriteThrough {
        UPDATE_THROUGH_NS
    } else {
        UPDATE_NS
    };
    let of_file = contest
        .updates
        .map_or(0, |pattern| updates::count(&pattern, contest.size_bytes));
    Duration::from_nanos((of_file * u64::from(contest.files)).saturating_mul(each))
}

/// Chooses the size for a plan that leaves it to the lab: the largest of which the groups of all cache states each stay
/// within `share`; without a share (rounds are given) the usual one.
pub(super) fn choose_size(plan: &ContestPlan, caches: &[Cache], share: Option<Duration>, speeds: &Speeds) -> u64 {
    let fits = |bytes: &u64| {
        let dearest = caches
            .iter()
            .map(|&cache| group_cost(plan, cache, *bytes, speeds))
            .max()
            .unwrap_or_default();
        *bytes <= speeds.limit_bytes && share.map_or(*bytes <= USUAL_BYTES, |share| dearest <= share)
    };
    let smallest = if caches.contains(&Cache::Over) {
        OVER_BYTES
    } else {
        LADDER[LADDER.len() - 1]
    };
    let chosen = LADDER.into_iter().find(fits).unwrap_or(smallest).max(smallest);
    chosen.min(speeds.limit_bytes.max(1 << 20))
}

/// What a sustained write has at most where nobody asks for more. Many a cache of an SSD is smaller, and no SSD wears by it: one
/// of 240 GB is made for a thousand times as much.
pub(super) const SUSTAINED_BYTES: u64 = 32 << 30;

/// How many times faster than the first bytes the next may be written: here 1.5 GB/s after 0.3.
const FASTER_LATER: f64 = 4.0;

/// The bytes of a sustained write in a share of the time: a power of two, so that runs at different hours write the same. If the
/// disk is no faster than was found, the time ends it, with a quarter of its files.
pub(super) fn choose_sustained(share: Option<Duration>, speeds: &Speeds) -> u64 {
    let in_time =
        |bytes: u64| share.is_none_or(|share| bytes as f64 / speeds.write <= FASTER_LATER * share.as_secs_f64());
    let powers = (20..=SUSTAINED_BYTES.ilog2()).rev().map(|power| 1 << power);
    let mut fitting = powers.filter(|&bytes| bytes <= speeds.sustained_bytes && in_time(bytes));
    fitting.next().unwrap_or(MIB)
}

const MIB: u64 = 1 << 20;

/// The files of a sustained write of this many bytes: the size of each, a power of two, and how many. Some hundreds of at least
/// 32 MiB show where the rate changes, and take long enough to be timed; of less there are at least 64.
pub(super) fn sustained_files(bytes: u64) -> (u64, u32) {
    let one_of = |files: u64| 1_u64 << (bytes / files).max(1).ilog2();
    let size: u64 = one_of(256).max(32 * MIB).min(one_of(64)).max(MIB).min(bytes.max(1));
    (size, (bytes / size) as u32)
}

/// What the requests of a trial at random places should take together: thousands of them where a device answers in a tenth
/// of a millisecond.
const REQUESTS: Duration = Duration::from_millis(400);
/// How many there can be. Fewer leave no request to the 99.9th percentile; more tell nothing new. With steps between, runs at
/// different hours make as many, so that they can be compared.
const REQUEST_LADDER: [u32; 3] = [1 << 10, 1 << 12, 1 << 14];
/// A request that memory answers.
const MEMORY_REQUEST: Duration = Duration::from_micros(2);
/// Devices work on about this many requests at once, however many there are.
const PARALLEL: u32 = 8;

/// How many requests at random places a trial makes in each file, where it has as many blocks.
pub(super) fn requests(depth: u32, cache: Cache, durability: Durability, speeds: &Speeds) -> u32 {
    let each = request_time(depth, cache, durability, speeds);
    let is_nearest = |requests: &u32| each * *requests * 2 > REQUESTS;
    REQUEST_LADDER.into_iter().find(is_nearest).unwrap_or(1 << 14)
}

/// What a request at a random place takes, on the mean of those in flight.
fn request_time(depth: u32, cache: Cache, durability: Durability, speeds: &Speeds) -> Duration {
    let alone = match (cache, durability) {
        (Cache::Warm, Durability::None) => return MEMORY_REQUEST,
        (_, Durability::WriteThrough) => speeds.random_read.max(Duration::from_nanos(UPDATE_THROUGH_NS)),
        _ => speeds.random_read,
    };
    alone / depth.clamp(1, PARALLEL)
}

/// The time of one trial, with what is done before and after it.
pub(super) fn trial_cost(contest: &Contest, speeds: &Speeds) -> Duration {
    let bytes = (contest.size_bytes * u64::from(contest.files)) as f64;
    let read = if contest.cache == Cache::Warm {
        bytes / speeds.warm_read
    } else {
        bytes / speeds.read
    };
    let seconds = match (contest.operation, contest.random) {
        (operation, Some(random)) => {
            let requests = (u64::from(random.requests)).min(contest.size_bytes.div_ceil(random.block_bytes));
            let each = request_time(random.depth, contest.cache, contest.durability, speeds);
            let checked = if operation == Operation::Write { bytes } else { 0.0 };
            requests as f64 * f64::from(contest.files) * each.as_secs_f64() + checked / speeds.check
        }
        (Operation::Read, None) => read,
        (Operation::Write, None) => bytes / speeds.write + bytes / speeds.check,
        (Operation::Copy, None) => read + bytes / speeds.write + bytes / speeds.check,
        // Two files, in whatever order.
        (Operation::Compare, None) => read * 2.0,
        // Its file is made anew for each trial.
        (Operation::Update, None) => 2.0 * bytes / speeds.write + bytes / speeds.check,
    };
    speeds.overhead + Duration::from_secs_f64(seconds) + updating_cost(contest)
}

/// Files shorter than this are timed several at once.
const SHORT_BYTES: u64 = 4 << 20;
/// What several short files have together.
pub(super) const SEVERAL_BYTES: u64 = 8 << 20;
/// The most files of one trial.
const MOST_FILES: u64 = 256;

/// Calls that may each wait for the device, in a trial of more than one file.
const SEVERAL_CALLS: u64 = 200;

/// How many files of a size a trial of a plan takes. Where calls wait for the device, no more than are needed.
pub(super) fn files_per_trial(plan: &ContestPlan, durability: Durability, bytes: u64) -> u32 {
    if let Some(files) = plan.files {
        return files;
    }
    let files = by_size(bytes);
    let most = waits_per_file(plan, durability, bytes).map(|waits| SEVERAL_CALLS / waits.max(1));
    most.map_or(files, |most| files.min(most.max(1) as u32))
}

/// The calls with which the slowest method of a plan may wait for the device; `None` where one waits at the end at most.
fn waits_per_file(plan: &ContestPlan, durability: Durability, bytes: u64) -> Option<u64> {
    if let Some(updates) = &plan.common.updates {
        return Some(updates::count(updates, bytes));
    }
    let options = plan.methods().filter_map(|choice| Some(*choice.method()?.options()));
    let through =
        options.filter(|options| options.durability() == durability && durability == Durability::WriteThrough);
    through
        .filter_map(|options| Some(bytes.div_ceil(options.block_bytes()?)))
        .max()
}

/// How many files of a size a trial takes.
pub(super) fn by_size(bytes: u64) -> u32 {
    if bytes >= SHORT_BYTES {
        1
    } else {
        (SEVERAL_BYTES / bytes.max(1)).clamp(1, MOST_FILES) as u32
    }
}

impl Runner<'_> {
    /// Learns roughly how fast the slowest of the storages is, and what alternating costs on each.
    pub(super) fn calibrate(&mut self) -> Result<Speeds, BenchError> {
        let memory = self.run.machine.memory_available_bytes.unwrap_or(u64::MAX);
        let overhead = self.trial_overhead * 3 / 2 + Duration::from_millis(5);
        let mut speeds = Speeds {
            read: f64::MAX,
            write: f64::MAX,
            warm_read: f64::MAX,
            check: f64::MAX,
            random_read: Duration::ZERO,
            overhead,
            limit_bytes: memory / 4,
            sustained_bytes: SUSTAINED_BYTES,
        };
        let made = self.places.iter().filter(|place| place.given_bytes().is_none()).count() as u64;
        if made > 0 {
            self.watch.event(&Event::Calibrating {
                write_bytes: made * CALIBRATION_BYTES,
            });
        }
        for index in 0..self.places.len() {
            let place = &self.places[index];
            if let Some(bytes) = place.given_bytes() {
                let seeks = Seeks::within(&place.directory, bytes, self.bench.seed);
                let random_read = seeks.map_or(Duration::ZERO, |seeks| seeks.apart);
                speeds = Speeds {
                    read: 1e9,
                    warm_read: self.run.lab_cost.second_touch_bytes_per_second.unwrap_or(1e9),
                    random_read,
                    limit_bytes: bytes,
                    ..speeds
                };
                continue;
            }
            speeds.limit_bytes = speeds.limit_bytes.min(place.facts.free_bytes / 4);
            speeds.sustained_bytes = speeds.sustained_bytes.min(place.facts.free_bytes / 4);
            let bytes = CALIBRATION_BYTES.min(place.facts.free_bytes / 8).max(1 << 20);
            let path = place.path("calibration");
            let mut reader = Reader::prepare(&plan::usual(Operation::Read))?;
            let start = Instant::now();
            write_stream(&path, bytes, self.bench.seed)?;
            let elapsed = start.elapsed();
            speeds.write = speeds.write.min(bytes as f64 / elapsed.as_secs_f64());
            let bytes_per_ms = bytes / elapsed.as_millis().max(1) as u64;
            self.write_bytes_per_ms = self.write_bytes_per_ms.into_iter().chain([bytes_per_ms]).min();
            let mut read = || -> Result<f64, seekless::Error> {
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
            speeds.read = speeds.read.min(cold[COLD_READS / 2]);
            speeds.warm_read = speeds.warm_read.min(read()?);
            let storage = &mut self.run.storages[index];
            if let Some(seeks) = Seeks::within(&path, bytes, self.bench.seed) {
                storage.alternating_ns = Some(seeks.apart.as_nanos() as f64 - seeks.in_a_row.as_nanos() as f64);
                speeds.random_read = speeds.random_read.max(seeks.apart);
            }
            storage.direct_alignment_bytes = seekless::direct_alignment(&path);
            let _ = std::fs::remove_file(&path);
        }
        speeds.warm_read = speeds.warm_read.max(speeds.read);
        let made = self.run.lab_cost.producer_bytes_per_second.unwrap_or(speeds.warm_read);
        speeds.check = 1.0 / (1.0 / speeds.warm_read + 1.0 / made);
        // Where nothing is read directly, memory answers.
        speeds.random_read = speeds.random_read.max(MEMORY_REQUEST);
        Ok(speeds)
    }
}

#[cfg(test)]
mod tests {
    use seekless::Method;

    use super::*;

    fn plan() -> ContestPlan {
        let methods = vec![Method::known("read/sync").into(); 10];
        ContestPlan::of(Operation::Read, methods, crate::experiment::Size::Auto)
    }

    const SPEEDS: Speeds = Speeds {
        read: 1e9,
        write: 1e9,
        warm_read: 4e9,
        check: 1.5e9,
        random_read: Duration::from_micros(100),
        overhead: Duration::from_millis(10),
        limit_bytes: 512 << 20,
        sustained_bytes: 20 << 30,
    };

    fn chosen(seconds: u64, caches: &[Cache]) -> u64 {
        choose_size(&plan(), caches, Some(Duration::from_secs(seconds)), &SPEEDS)
    }

    #[test]
    fn a_larger_budget_takes_larger_files_up_to_the_limit() {
        let cold = &[Cache::Cold];
        assert_eq!(chosen(1, cold), 16 << 20);
        assert!(
            chosen(10, cold) > chosen(5, cold),
            "{} {}",
            chosen(10, cold),
            chosen(5, cold)
        );
        assert_eq!(chosen(1000, cold), 512 << 20);
        assert_eq!(choose_size(&plan(), cold, None, &SPEEDS), 256 << 20);
    }

    #[test]
    fn a_file_that_exceeds_the_memory_allowed_is_never_small() {
        assert_eq!(chosen(1, &[Cache::Over]), 256 << 20);
    }

    #[test]
    fn a_slow_device_gets_fewer_requests_and_none_too_few_or_too_many() {
        let made = |microseconds, depth, durability| {
            let random_read = Duration::from_micros(microseconds);
            requests(depth, Cache::Cold, durability, &Speeds { random_read, ..SPEEDS })
        };
        assert_eq!(made(10_000, 1, Durability::None), 1024);
        assert_eq!([60, 100, 190].map(|each| made(each, 1, Durability::Fsync)), [4096; 3]);
        assert_eq!(made(100, 32, Durability::None), 16_384);
        assert_eq!([2, 60].map(|each| made(each, 1, Durability::WriteThrough)), [4096; 2]);
        assert_eq!(requests(1, Cache::Warm, Durability::None, &SPEEDS), 16_384);
    }

    #[test]
    fn a_sustained_write_fits_into_time_and_space_and_the_same_bytes_make_the_same_files() {
        let chosen = |seconds| choose_sustained(Some(Duration::from_secs(seconds)), &SPEEDS);
        assert_eq!([1, 600].map(chosen), [2 << 30, 16 << 30]);
        assert_eq!(choose_sustained(None, &SPEEDS), 16 << 30);
        for (bytes, size, files) in [
            (1 << 40, 4 << 30, 256),
            (32 << 30, 128 * MIB, 256),
            (2 << 30, 32 * MIB, 64),
            (64 * MIB, MIB, 64),
            (100_000, 100_000, 1),
        ] {
            assert_eq!(sustained_files(bytes), (size, files), "{bytes}");
        }
        for bytes in (1..200).map(|step| step * 1_234_567_891) {
            let (size, files) = sustained_files(bytes);
            let all = size * u64::from(files);
            assert!(
                (64..512).contains(&files) && all <= bytes && sustained_files(all) == (size, files),
                "{bytes}"
            );
        }
    }

    #[test]
    fn short_files_cost_what_all_of_them_cost() {
        let cost = |bytes| group_cost(&plan(), Cache::Cold, bytes, &SPEEDS);
        assert!(cost(1 << 20) > cost(4 << 20), "8 of 1M against 1 of 4M");
    }

    #[test]
    fn short_files_are_timed_together() {
        let plan = |lines: &str| {
            let text = format!("name = \"x\"\nabout = \"\"\n[[contest]]\n{lines}");
            let mut experiment = crate::experiment::Experiment::from_toml(&text, "x").unwrap();
            experiment.contests.remove(0)
        };
        let read = plan("operation = \"read\"\nmethods = [\"read/sync\"]");
        for (bytes, files) in [(4096, 256), (1 << 20, 8), (4 << 20, 1), (0, 256)] {
            assert_eq!(files_per_trial(&read, Durability::None, bytes), files, "{bytes}");
        }
        let update = plan("operation = \"update\"\nmethods = [\"update/sync\"]");
        for (bytes, files) in [(40_000, 2), (400_000, 1), (4, 200)] {
            assert_eq!(files_per_trial(&update, Durability::None, bytes), files, "{bytes}");
        }
        let through = "operation = \"write\"\nblocks = [\"4K\", \"1M\"]\nmethods = [\"write/sync,write-through\", \"write/sync\"]";
        let through = plan(through);
        assert_eq!(files_per_trial(&through, Durability::WriteThrough, 40_000), 20);
        assert_eq!(files_per_trial(&through, Durability::None, 40_000), by_size(40_000));
    }
}
