//! Choosing the size of files: as large as the budget, the free space and the memory allow.

use std::time::Duration;

use seekless_engine::method::{Durability, Operation};
use seekless_record::{Cache, Contest, Target};
use seekless_results::{Group, deciding_trials, has_target};

use super::Bench;
use crate::experiment::ContestPlan;
use crate::updates;

/// Estimated speeds of the slowest storage, for choosing sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speeds {
    pub read: f64,
    pub write: f64,
    pub write_bytes_per_ms: u64,
    /// Reading from the page cache.
    pub warm_read: f64,
    /// Reading a file and generating the expected bytes, to check a result.
    pub check: f64,
    /// The time of a direct read of 4 KiB at a random place.
    pub random_read: Duration,
    /// The time of an append of 4 KiB that is durable.
    pub append: Duration,
    pub overhead: Duration,
    /// The largest size of a test file.
    pub limit_bytes: u64,
    /// The largest size of a sustained write that is chosen.
    pub sustained_bytes: u64,
    /// The most bytes that all trials of a plan may write.
    pub most_written: u64,
}

/// The sizes to choose from.
const LADDER: [u64; 7] = [1 << 30, 512 << 20, 256 << 20, 128 << 20, 64 << 20, 32 << 20, 16 << 20];
/// The size if rounds are given instead of a budget.
const USUAL_BYTES: u64 = 256 << 20;
/// The size of a file that exceeds a memory group large enough for a program.
const OVER_BYTES: u64 = 256 << 20;

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

/// The contest of a plan with files of a size, without its other choices.
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

/// The mean cost of an update, over methods that write each by itself and methods that do not.
const UPDATE_NS: u64 = 1_000;
const UPDATE_THROUGH_NS: u64 = 100_000;

/// The time of the updates of a trial.
fn updating_cost(contest: &Contest) -> Duration {
    let each = if contest.durability == Durability::WriteThrough {
        UPDATE_THROUGH_NS
    } else {
        UPDATE_NS
    };
    let of_file = contest
        .updates
        .map_or(0, |pattern| updates::count(&pattern, contest.size_bytes));
    Duration::from_nanos(of_file.saturating_mul(u64::from(contest.files)).saturating_mul(each))
}

/// Chooses the size for a plan: the largest for which the group of each cache state stays within `share`. Without a
/// share, because rounds are given, the default size.
pub(super) fn choose_size(plan: &ContestPlan, caches: &[Cache], share: Option<Duration>, speeds: &Speeds) -> u64 {
    let fits = |bytes: &u64| {
        let dearest = caches
            .iter()
            .map(|&cache| group_cost(plan, cache, *bytes, speeds))
            .max()
            .unwrap_or_default();
        let is_written = has_target(&plan.common);
        let all_bytes = bytes.saturating_mul(deciding_trials(plan.common.entries.len()) as u64);
        let is_too_much = is_written && share.is_some() && all_bytes > speeds.most_written;
        !is_too_much && *bytes <= speeds.limit_bytes && share.map_or(*bytes <= USUAL_BYTES, |share| dearest <= share)
    };
    let smallest = if caches.contains(&Cache::Over) {
        OVER_BYTES
    } else {
        LADDER[LADDER.len() - 1]
    };
    let chosen = LADDER.into_iter().find(fits).unwrap_or(smallest).max(smallest);
    chosen.min(speeds.limit_bytes.max(1 << 20))
}

/// The largest sustained write without `--size`. The caches of many SSDs are smaller, and it does not wear an SSD
/// noticeably: one of 240 GB endures a thousand times as much.
pub(super) const SUSTAINED_BYTES: u64 = 32 << 30;

/// How many times faster than the first bytes later ones may be written, as 1.5 GB/s after 0.3 GB/s.
const FASTER_LATER: f64 = 4.0;

/// The bytes of a sustained write for a share of the time: a power of two, so that runs at different hours write the
/// same. If the disk is not faster than measured, the time ends it after a quarter of its files.
pub(super) fn choose_sustained(share: Option<Duration>, speeds: &Speeds) -> u64 {
    let in_time =
        |bytes: u64| share.is_none_or(|share| bytes as f64 / speeds.write <= FASTER_LATER * share.as_secs_f64());
    let powers = (20..=SUSTAINED_BYTES.ilog2()).rev().map(|power| 1 << power);
    let mut fitting = powers.filter(|&bytes| bytes <= speeds.sustained_bytes && in_time(bytes));
    fitting.next().unwrap_or(MIB)
}

const MIB: u64 = 1 << 20;

/// The files of a sustained write of this many bytes: the size of each, a power of two, and how many. Some hundreds of
/// files of at least 32 MiB show where the rate changes, and take long enough to be timed. For fewer bytes, there are
/// at least 64 files.
fn sustained_files(bytes: u64) -> (u64, u32) {
    let one_of = |files: u64| 1_u64 << (bytes / files).max(1).ilog2();
    let size: u64 = one_of(256).max(32 * MIB).min(one_of(64)).max(MIB).min(bytes.max(1));
    (size, (bytes / size) as u32)
}

/// The most time that the random requests of a trial should take together: thousands of requests, if the latency is a tenth
/// of a millisecond.
const REQUESTS: Duration = Duration::from_millis(400);
/// The numbers of requests to choose from. With fewer, the 99.9th percentile has no request; more show nothing new.
/// There are only three, so that runs at different hours are comparable.
const REQUEST_LADDER: [u32; 3] = [1 << 10, 1 << 12, 1 << 14];
/// The time of a request from memory.
pub(super) const MEMORY_REQUEST: Duration = Duration::from_micros(2);
/// Devices process about this many requests in parallel.
const PARALLEL: u32 = 8;

/// The most time that the appends of a trial should take, and their numbers: as many as fit. However long they take, there are
/// some, but no more than may be written.
const APPENDS: Duration = Duration::from_millis(300);
const APPEND_LADDER: [u32; 7] = [1, 1 << 3, 1 << 5, SOME_APPENDS, 1 << 9, 1 << 11, 1 << 13];
const SOME_APPENDS: u32 = 1 << 7;
/// The part of what the trials of a plan may write that the appends of one may.
const APPENDS_PART: u64 = 16;

/// The most bytes that the appends of a trial write.
pub(super) fn appended_bytes(speeds: &Speeds) -> u64 {
    speeds.most_written / APPENDS_PART
}

/// The number of random requests of a trial in each file, if it has as many blocks, or of its appends: as many as fit into a trial's
/// share of the budget, if there is one.
pub(super) fn requests(
    (block_bytes, depth): (u64, u32),
    contest: &Contest,
    share: Option<Duration>,
    speeds: &Speeds,
) -> u32 {
    let each = request_time(block_bytes, depth, contest, speeds);
    if contest.target == Target::Append {
        let fits = |&appends: &u32| {
            let is_allowed = u64::from(appends).saturating_mul(block_bytes) <= appended_bytes(speeds);
            is_allowed && (appends <= SOME_APPENDS || each * appends <= APPENDS)
        };
        return APPEND_LADDER.into_iter().rev().find(fits).unwrap_or(APPEND_LADDER[0]);
    }
    let besides = speeds.overhead + Duration::from_secs_f64(checking_seconds(contest, speeds));
    let most = share.map_or(REQUESTS, |share| share.saturating_sub(besides).min(REQUESTS));
    let is_nearest = |requests: &u32| each * *requests * 2 > most;
    REQUEST_LADDER.into_iter().find(is_nearest).unwrap_or(1 << 14)
}

/// The mean time of a request, over those in flight.
fn request_time(block_bytes: u64, depth: u32, contest: &Contest, speeds: &Speeds) -> Duration {
    let alone = match (contest.cache, contest.durability) {
        // Writers wait for one another.
        _ if contest.target == Target::Append => {
            return speeds.append + Duration::from_secs_f64(block_bytes as f64 / speeds.write);
        }
        (Cache::Warm, Durability::None) => return MEMORY_REQUEST,
        // As an append, each waits for the device.
        (_, Durability::WriteThrough) => speeds.random_read.max(speeds.append),
        _ => speeds.random_read,
    };
    alone / depth.clamp(1, PARALLEL)
}

/// The time of reading back what the requests of a trial wrote.
fn checking_seconds(contest: &Contest, speeds: &Speeds) -> f64 {
    if contest.operation == Operation::Write {
        all_bytes(contest) as f64 / speeds.check
    } else {
        0.0
    }
}

/// The time of one trial, including preparation and checks.
fn trial_cost(contest: &Contest, speeds: &Speeds) -> Duration {
    let bytes = all_bytes(contest) as f64;
    let read = if contest.cache == Cache::Warm {
        bytes / speeds.warm_read
    } else {
        bytes / speeds.read
    };
    let seconds = match (contest.operation, contest.random) {
        (_, Some(random)) => {
            let requests = (u64::from(random.requests)).min(contest.size_bytes.div_ceil(random.block_bytes));
            let each = request_time(random.block_bytes, random.depth, contest, speeds);
            requests as f64 * f64::from(contest.files) * each.as_secs_f64() + checking_seconds(contest, speeds)
        }
        (Operation::Read, None) => read,
        (Operation::Scan, None) => read + scan_seconds(contest, speeds),
        (Operation::Write, None) => bytes / speeds.write + bytes / speeds.check,
        (Operation::Copy, None) => read + bytes / speeds.write + bytes / speeds.check,
        // Two files are read.
        (Operation::Compare, None) => read * 2.0,
        // Its file is made for each trial.
        (Operation::Update, None) => 2.0 * bytes / speeds.write + bytes / speeds.check,
    };
    speeds.overhead + Duration::from_secs_f64(seconds.min(LONGEST_SECONDS)) + updating_cost(contest)
}

/// The time of opening many small files, and of waiting for each by itself as the slowest methods do.
fn scan_seconds(contest: &Contest, speeds: &Speeds) -> f64 {
    let each = if contest.cache == Cache::Warm {
        MEMORY_REQUEST * 4
    } else {
        speeds.random_read
    };
    f64::from(contest.files) * each.as_secs_f64()
}

/// The expected time of this many trials of a group. A sustained write is one trial on each storage, and ends with the
/// budget.
pub(super) fn expected(bench: &Bench, contests: &[Contest], group: &Group, speeds: &Speeds, trials: usize) -> Duration {
    let contest = &contests[group.contests[0]];
    let trial = trial_cost(contest, speeds);
    if !contest.sustained {
        return trial * trials as u32;
    }
    let longest = bench.rounds.map_or(bench.budget, |_| Duration::MAX);
    trial.min(longest) * group.contests.len() as u32
}

/// A trial that would take longer is expected to take 30 years, so that sums of many do not overflow.
const LONGEST_SECONDS: f64 = 1e9;

/// The bytes of all files of a trial, not of a second set.
pub(super) fn all_bytes(contest: &Contest) -> u64 {
    contest.size_bytes.saturating_mul(u64::from(contest.files))
}

/// Whether the first trial of a round is slower than the rest, because the previous trial was of another group: by 14 %
/// for 8 files of 1M in memory (standard error 4 %), by 5 % for a file of 16M or 64M (4 %), but not if the trial waits
/// for a device.
pub(super) fn is_small_and_warm(contest: &Contest) -> bool {
    contest.cache == Cache::Warm && all_bytes(contest) <= SEVERAL_BYTES
}

/// A trial covers several files if they are shorter than this.
const SHORT_BYTES: u64 = 4 << 20;
/// The total size of several short files.
const SEVERAL_BYTES: u64 = 8 << 20;
/// The most files of one trial.
const MOST_FILES: u64 = 256;

/// The total size of the files of a scan, and the most of them: many batches for each of some threads.
const SCANNED_BYTES: u64 = 32 << 20;
const MOST_SCANNED: u64 = 2048;

/// Calls that may each wait for the device, in a trial of more than one file.
const SEVERAL_CALLS: u64 = 200;

/// The number of files of a trial. If calls wait for the device, no more than needed.
fn files_per_trial(plan: &ContestPlan, durability: Durability, bytes: u64) -> u32 {
    if let Some(files) = plan.files {
        return files;
    }
    if plan.common.operation == Operation::Scan {
        return (SCANNED_BYTES / bytes.max(1)).clamp(64, MOST_SCANNED) as u32;
    }
    let files = by_size(bytes);
    let most = waits_per_file(plan, durability, bytes).map(|waits| SEVERAL_CALLS / waits.max(1));
    most.map_or(files, |most| files.min(most.max(1) as u32))
}

/// How many calls of the slowest method of a plan may wait for the device; `None` if at most one does, at the end.
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

/// The number of files of a trial, by their size.
fn by_size(bytes: u64) -> u32 {
    if bytes >= SHORT_BYTES {
        1
    } else {
        (SEVERAL_BYTES / bytes.max(1)).clamp(1, MOST_FILES) as u32
    }
}

#[cfg(test)]
mod tests {
    use seekless_engine::Method;

    use super::*;

    fn plan() -> ContestPlan {
        let methods = vec![Method::known("read/sync").into(); 10];
        ContestPlan::of(Operation::Read, methods, crate::experiment::Size::Auto)
    }

    const SPEEDS: Speeds = Speeds {
        read: 1e9,
        write: 1e9,
        write_bytes_per_ms: 1_000_000,
        warm_read: 4e9,
        check: 1.5e9,
        random_read: Duration::from_micros(100),
        append: Duration::from_millis(1),
        overhead: Duration::from_millis(10),
        limit_bytes: 512 << 20,
        sustained_bytes: 20 << 30,
        most_written: 8 << 30,
    };

    fn chosen(seconds: u64, caches: &[Cache]) -> u64 {
        choose_size(&plan(), caches, Some(Duration::from_secs(seconds)), &SPEEDS)
    }

    #[test]
    fn size_grows_with_the_budget_and_beyond_memory_is_large() {
        let cold = &[Cache::Cold];
        assert_eq!(chosen(1, cold), 16 << 20);
        let (shorter, longer) = (chosen(5, cold), chosen(10, cold));
        assert!(longer > shorter, "{longer} {shorter}");
        assert_eq!(chosen(1000, cold), 512 << 20);
        assert_eq!(choose_size(&plan(), cold, None, &SPEEDS), 256 << 20);
        assert_eq!(chosen(1, &[Cache::Over]), 256 << 20);
    }

    #[test]
    fn what_may_be_written_limits_the_size() {
        let methods = vec![Method::known("write/sync").into(); 10];
        let plan = ContestPlan::of(Operation::Write, methods, crate::experiment::Size::Auto);
        let chosen = |most_written| {
            let speeds = Speeds { most_written, ..SPEEDS };
            choose_size(&plan, &[Cache::None], Some(Duration::from_secs(1000)), &speeds)
        };
        assert_eq!(chosen(u64::MAX), 512 << 20);
        assert_eq!(chosen(1 << 20), 16 << 20, "the smallest is written anyway");
        assert!((16 << 20..512 << 20).contains(&chosen(4 << 30)));
    }

    #[test]
    fn size_on_a_slow_device_has_fewer_requests() {
        let contest = |cache, target, durability| Contest {
            cache,
            target,
            durability,
            ..Contest::default()
        };
        let shared = |share, microseconds, depth, durability| {
            let random_read = Duration::from_micros(microseconds);
            let contest = contest(Cache::Cold, Target::Fresh, durability);
            requests((4096, depth), &contest, share, &Speeds { random_read, ..SPEEDS })
        };
        let made = |microseconds, depth, durability| shared(None, microseconds, depth, durability);
        assert_eq!(made(10_000, 1, Durability::None), 1024);
        assert_eq!([60, 100, 190].map(|each| made(each, 1, Durability::Fsync)), [4096; 3]);
        assert_eq!(made(100, 32, Durability::None), 16_384);
        assert_eq!([2, 60].map(|each| made(each, 1, Durability::WriteThrough)), [1024; 2]);
        let within = |share_ms| shared(Some(Duration::from_millis(share_ms)), 100, 1, Durability::None);
        assert_eq!([1000, 300, 100, 1].map(within), [4096, 4096, 1024, 1024]);
        let warm = contest(Cache::Warm, Target::Fresh, Durability::None);
        assert_eq!(requests((4096, 1), &warm, None, &SPEEDS), 16_384);
        let appended = |(microseconds, block_bytes)| {
            let contest = contest(Cache::Cold, Target::Append, Durability::WriteThrough);
            let append = Duration::from_micros(microseconds);
            requests((block_bytes, 1), &contest, None, &Speeds { append, ..SPEEDS })
        };
        let small = [10_000, 1000, 100, 5].map(|microseconds| (microseconds, 4096));
        assert_eq!(small.map(appended), [128, 128, 2048, 8192]);
        // A sixteenth of 8 GiB.
        let large = [4 << 20, 16 << 20, 64 << 20, 1 << 30].map(|block_bytes| (1000, block_bytes));
        assert_eq!(large.map(appended), [128, 32, 8, 1]);
    }

    #[test]
    fn size_of_a_sustained_write_fits_into_time_and_space() {
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
            let is_right = (64..512).contains(&files) && all <= bytes && sustained_files(all) == (size, files);
            assert!(is_right, "{bytes}");
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
