//! Which methods were best across machines: one's own runs and those of others, by device, file system and kernel.

use std::collections::{BTreeMap, BTreeSet};

use seekless_method::{Durability, Operation};
use seekless_record::{Cache, Contest, Device, EntryVerdict, Machine, Run, Storage, StorageId, Target};
use serde::Serialize;

use crate::kind::DeviceKind;
use crate::labels::pair_words;
use crate::ranking::{JudgedContest, stand};
use crate::same::fingerprint;
use crate::samples::sorted;
use crate::statistics::median;

/// Whose run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured by this user.
    Own,
    /// Taken from others.
    Imported,
    /// A file that the user named; the store does not know whose.
    File,
}

/// What is ranked together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The kind of device.
    pub device: DeviceKind,
    /// The file system.
    pub file_system: String,
    /// The system and its kernel's first two numbers, as in `Linux 6.18`.
    pub kernel: String,
    /// `read`, `write` or `copy`.
    pub operation: Operation,
    /// The least of the class of sizes, in bytes.
    pub at_least_bytes: u64,
    /// The state of the cache.
    pub cache: Cache,
    /// The target of writes and copies.
    pub target: Target,
    /// Different durability is never ranked together.
    pub durability: Durability,
    /// Nor are copies that share blocks with those that do not.
    pub shared_blocks: bool,
    /// Nor is other work on the bytes.
    pub work: String,
    /// Nor are other models of a simulated disk, other second files of a comparison, nor is another read-ahead window. Empty, or
    /// beginning with a comma.
    pub pair: String,
}

/// The methods of one contest of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ContestStandings {
    /// The index of the contest.
    pub contest: usize,
    /// What it is ranked with.
    pub place: Place,
    /// Each method, its time over that of the best, and whether it is the best.
    pub methods: Vec<(String, (f64, bool))>,
}

/// A method in a contest of a run, to be ranked with those of other runs.
#[derive(Clone, Copy, Debug)]
pub struct Observation<P, M> {
    /// What is ranked together.
    pub place: P,
    /// The method.
    pub method: M,
    /// Whose run it is.
    pub origin: Origin,
    /// The number of the run.
    pub run: u32,
    /// The number of its machine.
    pub machine: u32,
    /// The time of the method over that of the best.
    pub ratio: f64,
    /// Whether it is the best.
    pub is_best: bool,
}

/// The ranking of one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking<P = Place, M = String> {
    /// What is ranked together.
    pub place: P,
    /// The number of machines, as far as they can be distinguished.
    pub machines: usize,
    /// How many runs, and how many of them are imported.
    pub runs: usize,
    /// How many of these are imported.
    pub imported: usize,
    /// The methods, the best first.
    pub methods: Vec<Ranked<M>>,
}

/// A method in a ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked<M = String> {
    /// The method.
    pub method: M,
    /// Its seconds over the best's: the median over the machines of the median over their runs.
    pub ratio: f64,
    /// The smallest and the largest of the machines' medians.
    pub range: [f64; 2],
    /// On how many machines it was measured.
    pub machines: usize,
    /// On how many of these it was the best of its contest, more often than not.
    pub best_on: usize,
}

struct Gathered<M> {
    runs: BTreeMap<u32, Origin>,
    machines: BTreeSet<u32>,
    methods: BTreeMap<M, Vec<(u32, f64, bool)>>,
}

/// Ranks the methods of all runs. A run that is there twice, once without its names, counts once.
#[must_use]
pub fn table(runs: &[(Origin, &Run)]) -> Vec<Ranking> {
    let mut machines = Vec::new();
    let mut seen = BTreeSet::new();
    let mut observations = Vec::new();
    for &(origin, run) in runs {
        let number = fingerprint(run);
        if !seen.insert(number) {
            continue;
        }
        let identity = identity(&run.machine);
        let machine = machines.iter().position(|known| *known == identity).unwrap_or_else(|| {
            machines.push(identity);
            machines.len() - 1
        });
        for ContestStandings { place, methods, .. } in standings(run) {
            observations.extend(methods.into_iter().map(|(method, (ratio, is_best))| Observation {
                place: place.clone(),
                method,
                origin,
                run: number,
                machine: machine as u32,
                ratio,
                is_best,
            }));
        }
    }
    rank(observations)
}

/// Ranks observations; a machine with many runs counts as one.
#[must_use]
pub fn rank<P: Ord, M: Ord>(observations: impl IntoIterator<Item = Observation<P, M>>) -> Vec<Ranking<P, M>> {
    let mut places: BTreeMap<P, Gathered<M>> = BTreeMap::new();
    for one in observations {
        let gathered = places.entry(one.place).or_insert_with(|| Gathered {
            runs: BTreeMap::new(),
            machines: BTreeSet::new(),
            methods: BTreeMap::new(),
        });
        gathered.runs.insert(one.run, one.origin);
        gathered.machines.insert(one.machine);
        let contests = gathered.methods.entry(one.method).or_default();
        contests.push((one.machine, one.ratio, one.is_best));
    }
    places
        .into_iter()
        .map(|(place, gathered)| ranking(place, gathered))
        .collect()
}

/// The ranked contests of a run, concluded from the trials: the methods' ratios to the best, and which is the best. Commands are left
/// out: they are not the same program everywhere. A method that was dropped early may look faster than the best in the few rounds
/// that it had; it is not taken for faster.
#[must_use]
pub fn standings(run: &Run) -> Vec<ContestStandings> {
    let contests = run.contests.iter().zip(sorted(run)).enumerate();
    let found = contests.map(|(index, (contest, trials))| {
        let judged = JudgedContest::of(contest, trials);
        let verdicts = stand(&judged.samples, judged.all()).into_iter().enumerate();
        let methods = verdicts.filter(|(entry, _)| judged.is_method(*entry));
        let ratios = methods.filter_map(|(entry, verdict)| {
            let verdict = verdict?;
            let is_best = matches!(verdict, EntryVerdict::Best(_));
            Some((judged.name(entry), (verdict.relative()?.ratio.median.max(1.0), is_best)))
        });
        ContestStandings {
            contest: index,
            place: Place::of(run, &run.storages[contest.storage], contest),
            methods: ratios.collect(),
        }
    });
    found.filter(|found| !found.methods.is_empty()).collect()
}

fn ranking<P, M: Ord>(place: P, gathered: Gathered<M>) -> Ranking<P, M> {
    let origins = gathered.runs.values();
    Ranking {
        place,
        machines: gathered.machines.len(),
        runs: gathered.runs.len(),
        imported: origins.filter(|origin| **origin == Origin::Imported).count(),
        methods: rank_methods(gathered.methods),
    }
}

/// Ranks methods, the best first, by their contests: the number of the machine, the time over that of the best, and whether it was
/// the best. A machine with many contests counts as one.
#[must_use]
pub fn rank_methods<M: Ord>(methods: impl IntoIterator<Item = (M, Vec<(u32, f64, bool)>)>) -> Vec<Ranked<M>> {
    let ranked = methods.into_iter().filter_map(|(method, mut contests)| {
        // The bits of positive numbers have their order.
        contests.sort_unstable_by_key(|(machine, ratio, _)| (u128::from(*machine) << 64) | u128::from(ratio.to_bits()));
        let machines = || contests.chunk_by(|one, other| one.0 == other.0);
        // Of sorted ratios, without a copy of them: there may be a million.
        let middle = |of: &[(u32, f64, bool)]| f64::midpoint(of[(of.len() - 1) / 2].1, of[of.len() / 2].1);
        let medians: Vec<f64> = machines().map(middle).collect();
        let is_mostly_best = |of: &&[(u32, f64, bool)]| 2 * of.iter().filter(|(.., best)| *best).count() > of.len();
        Some(Ranked {
            method,
            ratio: median(&medians)?,
            range: [
                medians.iter().copied().fold(f64::INFINITY, f64::min),
                medians.iter().copied().fold(0.0, f64::max),
            ],
            machines: medians.len(),
            best_on: machines().filter(is_mostly_best).count(),
        })
    });
    let mut ranked: Vec<Ranked<M>> = ranked.collect();
    ranked.sort_by(|one, other| {
        let by_ratio = one.ratio.total_cmp(&other.ratio);
        by_ratio
            .then(other.best_on.cmp(&one.best_on))
            .then(other.machines.cmp(&one.machines))
            .then(one.method.cmp(&other.method))
    });
    ranked
}

impl Place {
    fn of(run: &Run, storage: &Storage, contest: &Contest) -> Self {
        let model = storage.device.as_ref().and_then(Device::simulated);
        Self {
            device: DeviceKind::of(storage),
            file_system: storage.file_system.clone(),
            kernel: format!("{} {}", run.machine.system, StorageId::kernel_of(&run.machine.kernel)),
            operation: contest.operation,
            at_least_bytes: size_class(contest.size_bytes).0,
            cache: contest.cache,
            target: contest.target,
            durability: contest.durability,
            shared_blocks: contest.shared_blocks,
            work: format!("{}, {} ns/KiB", contest.kernel, contest.work_ns_per_kib),
            pair: model.map_or_else(String::new, |model| format!(", {model}")) + &pair_words(contest),
        }
    }
}

/// The class that a size belongs to: its least and its most, in bytes.
#[must_use]
pub fn size_class(bytes: u64) -> (u64, u64) {
    const ENDS: [u64; 6] = [0, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30];
    let place = ENDS.iter().rposition(|&end| bytes > end).unwrap_or(0);
    let most = ENDS.get(place + 1).copied().unwrap_or(u64::MAX);
    (ENDS[place], most)
}

/// What distinguishes machines, as far as a run tells. Anonymous runs have no names, so two machines of one model count as one, unless
/// each has a pseudonym.
#[must_use]
pub fn identity(machine: &Machine) -> String {
    // Rounded: the size of the memory that a system reports changes a little with its kernel.
    let memory_gib = (machine.memory_bytes.unwrap_or(0) + (1 << 29)) >> 30;
    let Machine {
        processor,
        processors,
        architecture,
        host,
        ..
    } = machine;
    let processor = processor.as_deref().unwrap_or("unknown processor");
    let host = host.as_ref().map_or_else(String::new, |host| format!("{host}, "));
    format!("{host}{processor}, {processors} processors, {architecture}, {memory_gib} GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymous::{NOTHING_KNOWN, anonymous};
    use crate::simulation;

    fn run(seed: u64, host: &str, seconds: [f64; 2]) -> Run {
        let mut run = simulation::run(&[("read/mmap", seconds[0]), ("read/sync,block=128K", seconds[1])], 6);
        run.seed = seed;
        run.machine.host = Some(host.to_owned());
        run.machine.system = "Linux".to_owned();
        run.machine.kernel = format!("6.18.{seed}-amd64");
        run.storages[0].file_system = "ext4".to_owned();
        run
    }

    #[test]
    fn a_machine_with_many_runs_counts_as_one() {
        let mut runs: Vec<Run> = (0..9).map(|seed| run(seed, "busy", [0.2, 0.1])).collect();
        runs.extend([run(10, "one", [0.1, 0.3]), run(11, "other", [0.1, 0.3])]);
        let all: Vec<(Origin, &Run)> = runs.iter().map(|run| (Origin::Own, run)).collect();
        let rankings = table(&all);
        assert_eq!(rankings.len(), 1);
        let ranking = &rankings[0];
        assert_eq!((ranking.machines, ranking.runs, ranking.imported), (3, 11, 0));
        assert_eq!(ranking.place.kernel, "Linux 6.18");
        let best = &ranking.methods[0];
        assert_eq!((best.method.as_str(), best.ratio, best.best_on), ("read/mmap", 1.0, 2));
        let [low, high] = best.range;
        assert!((low - 1.0).abs() + (high - 2.0).abs() < 1e-9, "{low} to {high}");
    }

    #[test]
    fn table_ranks_other_devices_kernels_and_sizes_apart() {
        let [one, mut other, mut third] = [1, 2, 3].map(|seed| run(seed, "a", [0.1, 0.2]));
        other.machine.kernel = "6.12.1".to_owned();
        third.contests[0].size_bytes = 1 << 30;
        let all = [&one, &other, &third].map(|run| (Origin::Own, run));
        assert_eq!(table(&all).len(), 3);
        let on = |seed, model: &str| {
            let mut run = run(seed, "a", [0.1, 0.2]);
            run.storages[0].device = Some(Device {
                name: "loop0".to_owned(),
                below: vec![format!("simulated-{model}")],
                ..Device::default()
            });
            run
        };
        let runs = [on(1, "hdd-2009"), on(2, "null"), on(3, "hdd-2009")];
        let rankings = table(&runs.each_ref().map(|run| (Origin::Own, run)));
        let found: Vec<_> = rankings.iter().map(|one| (one.place.pair.as_str(), one.runs)).collect();
        assert_eq!(found, [(", hdd-2009", 2), (", null", 1)]);
    }

    #[test]
    fn a_run_that_came_back_without_its_names_counts_once() {
        let own = run(1, "a", [0.1, 0.2]);
        let back = anonymous(&own, &NOTHING_KNOWN);
        let rankings = table(&[(Origin::Own, &own), (Origin::Imported, &back)]);
        assert_eq!((rankings[0].runs, rankings[0].imported), (1, 0));
    }

    #[test]
    fn sizes_have_classes_without_gaps() {
        assert_eq!(size_class(0), (0, 64 << 10));
        assert_eq!(size_class(1 << 20), (64 << 10, 1 << 20));
        assert_eq!(size_class((1 << 20) + 1), (1 << 20, 16 << 20));
        assert_eq!(size_class(u64::MAX), (4 << 30, u64::MAX));
    }
}
