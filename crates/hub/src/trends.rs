//! What follows from the runs of many machines: which method wins where, how fast it is, where the winner changes, how a model of a
//! device compares with its kind, and what a kernel changed.
//!
//! Everything is reduced to machines first: one machine's tenth run does not outweigh ten machines. No I/O and no words.

#![allow(clippy::type_complexity, reason = "the maps are used where they are made")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seekless_method::Method;
use seekless_results::statistics::{median, percentile};
use seekless_results::{Ranked, rank_methods, size_class};
use serde::Serialize;
use utoipa::ToSchema;

use crate::figure::Place;
use crate::index::{Basis, Filter, Index, Known, Seen};

/// What methods compete in; over all models, file systems, kernels and sizes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
pub struct Task {
    /// The kind of storage.
    pub kind: String,
    /// What was done with the files.
    pub operation: String,
    /// The cache state.
    pub cache: String,
    /// The target of writes and copies.
    pub target: String,
    /// What is on the device at the end.
    pub durability: String,
    /// Everything else that makes it another task.
    pub work: String,
}

/// The methods of a task for a class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Cell {
    /// The task.
    pub task: Task,
    /// Files are larger than this, in bytes.
    pub above_bytes: u64,
    /// Files are not larger than this, in bytes.
    pub up_to_bytes: u64,
    /// What it rests on.
    pub basis: Basis,
    /// The methods, by the median over the machines of the time over that of the best.
    #[schema(value_type = Vec<Object>)]
    pub methods: Vec<Ranked>,
}

/// A method by the size of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The method.
    pub method: String,
    /// By size in bytes: the seconds of one file, and on how many machines.
    pub points: Vec<(u64, Spread)>,
}

/// A figure over machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle half of the machines, with its median in between.
    pub quartiles: [f64; 3],
    /// How many machines.
    pub machines: usize,
}

/// A task by the size of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The task.
    pub task: Task,
    /// What it rests on.
    pub basis: Basis,
    /// The methods that win at some size, and the simplest one.
    pub methods: Vec<Curve>,
    /// The winners: each with the size from which on, in bytes.
    pub winners: Vec<(u64, String)>,
}

/// How the machines with a model of a device compare with the others of the same kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The task.
    pub task: Task,
    /// Files are larger than this, in bytes.
    pub above_bytes: u64,
    /// Files are not larger than this, in bytes.
    pub up_to_bytes: u64,
    /// The part of the other machines than which the median one with this model is faster.
    pub faster_than: f64,
    /// How many machines have the model.
    pub machines: usize,
    /// How many do not.
    pub others: usize,
}

/// A task under several kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernels {
    /// The task.
    pub task: Task,
    /// The size that most machines measured, in bytes.
    pub size_bytes: u64,
    /// By version.
    pub steps: Vec<KernelStep>,
}

/// A version of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStep {
    /// Its name, as in `Linux 6.18`.
    pub kernel: String,
    /// The seconds of a file of that size by the fastest method of each machine.
    pub seconds: Option<Spread>,
    /// The time over that under the version before, on machines that measured both.
    pub change: Option<Spread>,
    /// The method that changed most, likewise.
    pub most: Option<(String, Spread)>,
}

/// A ratio below which a method is not taken for slower, as in a run.
const TIE: f64 = 1.03;

/// The places that are asked for, by task.
struct Asked<'a> {
    index: &'a Index,
    /// Each with the number of its task.
    places: Vec<(u32, u32)>,
    tasks: Vec<Task>,
    revisions: BTreeSet<String>,
    /// By the number of a run, those of its machine and of its sitting.
    origins: Vec<[u32; 2]>,
}

/// What was seen of each key.
type Groups<'a, K> = BTreeMap<K, Vec<&'a [Seen]>>;

impl<'a> Asked<'a> {
    fn of(index: &'a Index, filter: &Filter) -> Self {
        let mut numbers: HashMap<[&str; 6], u32> = HashMap::new();
        let mut revisions = BTreeSet::new();
        let mut places = Vec::new();
        for number in index.places_of(filter) {
            let place = index.place_at(number);
            let next = numbers.len() as u32;
            places.push((number, *numbers.entry(Task::words(place)).or_insert(next)));
            if !revisions.contains(&place.revision) {
                revisions.insert(place.revision.clone());
            }
        }
        let mut sittings: HashMap<(u32, &str), u32> = HashMap::new();
        let origin = |run: &'a Known| {
            let next = sittings.len() as u32;
            [
                run.machine,
                *sittings.entry((run.machine, run.stored.day.as_str())).or_insert(next),
            ]
        };
        let origins = index.runs().iter().map(origin).collect();
        let mut tasks: Vec<_> = numbers
            .into_iter()
            .map(|(words, number)| (number, Task::of(words)))
            .collect();
        tasks.sort_unstable_by_key(|(number, _)| *number);
        Self {
            index,
            places,
            tasks: tasks.into_iter().map(|(_, task)| task).collect(),
            revisions,
            origins,
        }
    }

    fn groups<K: Ord>(&self, mut key: impl FnMut(u32, &'a Place, u32) -> K) -> Groups<'a, K> {
        let mut groups: Groups<'a, K> = BTreeMap::new();
        for &(number, task) in &self.places {
            let place = self.index.place_at(number);
            for (method, seen) in self.index.seen_at(number) {
                groups.entry(key(task, place, method)).or_default().push(seen);
            }
        }
        groups
    }

    fn machine(&self, seen: &Seen) -> u32 {
        self.origins[seen.run as usize][0]
    }

    /// The contests of a method, as they are ranked.
    fn contests(&self, seen: &[&[Seen]]) -> Vec<(u32, f64, bool)> {
        let mut contests = Vec::with_capacity(seen.iter().map(|seen| seen.len()).sum());
        for seen in seen {
            contests.extend(
                seen.iter()
                    .map(|seen| (self.machine(seen), f64::from(seen.ratio), seen.is_best)),
            );
        }
        contests
    }

    /// The median seconds of each machine, by its number.
    fn seconds(&self, seen: &[&[Seen]]) -> Vec<(u32, f64)> {
        let rows = seen
            .iter()
            .copied()
            .flatten()
            .filter(|seen| seen.seconds > 0.0 && seen.seconds.is_finite());
        by_machine(rows.map(|seen| (self.machine(seen), f64::from(seen.seconds))).collect())
    }

    fn basis<'s>(&self, seen: impl IntoIterator<Item = &'s &'s [Seen]>) -> Basis {
        let mut is_seen = vec![false; self.origins.len()];
        for seen in seen.into_iter().copied().flatten() {
            is_seen[seen.run as usize] = true;
        }
        let runs: Vec<[u32; 2]> = self
            .origins
            .iter()
            .zip(is_seen)
            .filter_map(|(run, is)| is.then_some(*run))
            .collect();
        let count = |which: usize| runs.iter().map(|run| run[which]).collect::<HashSet<u32>>().len();
        Basis {
            machines: count(0),
            sittings: count(1),
            runs: runs.len(),
            revisions: self.revisions.clone(),
        }
    }
}

impl Task {
    fn words(place: &Place) -> [&str; 6] {
        [
            &place.kind,
            &place.operation,
            &place.cache,
            &place.target,
            &place.durability,
            &place.work,
        ]
    }

    fn of(words: [&str; 6]) -> Self {
        let [kind, operation, cache, target, durability, work] = words.map(str::to_owned);
        Self {
            kind,
            operation,
            cache,
            target,
            durability,
            work,
        }
    }
}

impl Cell {
    /// The method with the smallest ratio, of those that at least half as many machines measured as any.
    pub fn winner(&self) -> Option<&Ranked> {
        winner(&self.methods)
    }
}

fn winner<M>(methods: &[Ranked<M>]) -> Option<&Ranked<M>> {
    let most = methods.iter().map(|method| method.machines).max()?;
    methods.iter().find(|method| 2 * method.machines >= most)
}

/// The median of each machine, by its number.
fn by_machine(mut rows: Vec<(u32, f64)>) -> Vec<(u32, f64)> {
    rows.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let middle = |of: &[(u32, f64)]| (of[0].0, f64::midpoint(of[(of.len() - 1) / 2].1, of[of.len() / 2].1));
    rows.chunk_by(|one, other| one.0 == other.0).map(middle).collect()
}

/// The spread of one value of each machine.
fn spread(values: &[(u32, f64)]) -> Option<Spread> {
    let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let quartiles = [percentile(&values, 25)?, median(&values)?, percentile(&values, 75)?];
    Some(Spread {
        quartiles,
        machines: values.len(),
    })
}

/// The smallest value of each machine.
fn fastest(values: impl IntoIterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut fastest: BTreeMap<u32, f64> = BTreeMap::new();
    for (machine, value) in values {
        let known = fastest.entry(machine).or_insert(value);
        *known = known.min(value);
    }
    fastest.into_iter().collect()
}

/// Which methods win: a cell for each task and class of sizes that was measured.
pub fn cells(index: &Index, filter: &Filter) -> Vec<Cell> {
    let asked = Asked::of(index, filter);
    let groups = asked.groups(|task, place, method| (task, size_class(size(place)), method));
    let groups: Vec<_> = groups.into_iter().collect();
    let same = groups.chunk_by(|(one, _), (other, _)| (one.0, one.1) == (other.0, other.1));
    let cell = |methods: &[((u32, (u64, u64), u32), Vec<&[Seen]>)]| {
        let (task, (above_bytes, up_to_bytes), _) = methods[0].0;
        let contests = methods.iter().map(|(key, seen)| (key.2, asked.contests(seen)));
        let name = |one: Ranked<u32>| Ranked {
            method: index.name_of(one.method).to_owned(),
            ratio: one.ratio,
            range: one.range,
            machines: one.machines,
            best_on: one.best_on,
        };
        Cell {
            task: asked.tasks[task as usize].clone(),
            above_bytes,
            up_to_bytes,
            basis: asked.basis(methods.iter().flat_map(|(_, seen)| seen)),
            methods: rank_methods(contests).into_iter().map(name).collect(),
        }
    };
    let mut cells: Vec<Cell> = same.map(cell).collect();
    cells.sort_by(|one, other| (&one.task, one.above_bytes).cmp(&(&other.task, other.above_bytes)));
    cells
}

/// How fast methods are by size, for the tasks that most machines measured.
pub fn curves(index: &Index, filter: &Filter) -> Vec<Curves> {
    let asked = Asked::of(index, filter);
    let mut tasks: Vec<BTreeMap<u64, Vec<(u32, Vec<&[Seen]>)>>> = vec![BTreeMap::new(); asked.tasks.len()];
    for ((task, bytes, method), seen) in asked.groups(|task, place, method| (task, size(place), method)) {
        tasks[task as usize].entry(bytes).or_default().push((method, seen));
    }
    let curves = tasks.iter().zip(&asked.tasks).map(|(sizes, task)| {
        let winners = winners(sizes.iter().map(|(&bytes, methods)| {
            (
                bytes,
                rank_methods(methods.iter().map(|(method, seen)| (*method, asked.contests(seen)))),
            )
        }));
        let all: BTreeSet<u32> = sizes.values().flatten().map(|(method, _)| *method).collect();
        let rank = |method: &u32| {
            let parsed: Method = index.name_of(*method).parse().ok()?;
            (!parsed.is_overlapping()).then(|| (parsed.simplicity_rank(), *method))
        };
        let mut shown: Vec<u32> = winners.iter().map(|(_, method)| *method).collect();
        shown.extend(all.iter().filter_map(rank).min().map(|(_, method)| method));
        let mut known = BTreeSet::new();
        shown.retain(|method| known.insert(*method));
        let curve = |method: &u32| Curve {
            method: index.name_of(*method).to_owned(),
            points: (sizes.iter())
                .filter_map(|(bytes, methods)| {
                    let (_, seen) = methods.iter().find(|(of, _)| of == method)?;
                    Some((*bytes, spread(&asked.seconds(seen))?))
                })
                .collect(),
        };
        Curves {
            task: task.clone(),
            basis: asked.basis(sizes.values().flatten().flat_map(|(_, seen)| seen)),
            methods: shown.iter().map(curve).collect(),
            winners: winners
                .into_iter()
                .map(|(bytes, method)| (bytes, index.name_of(method).to_owned()))
                .collect(),
        }
    });
    let mut curves: Vec<Curves> = curves.filter(|curves| curves.basis.runs > 0).collect();
    curves.sort_by(|one, other| (other.basis.machines.cmp(&one.basis.machines)).then(one.task.cmp(&other.task)));
    curves
}

/// The winners by size. One remains the winner until it is slower than the winner of a larger size: two ties are no change.
fn winners(sizes: impl Iterator<Item = (u64, Vec<Ranked<u32>>)>) -> Vec<(u64, u32)> {
    let mut winners: Vec<(u64, u32)> = Vec::new();
    for (bytes, methods) in sizes {
        let Some(best) = winner(&methods) else { continue };
        let holds = |(_, champion): &(u64, u32)| {
            methods
                .iter()
                .any(|one| one.method == *champion && one.ratio <= best.ratio * TIE)
        };
        if !winners.last().is_some_and(holds) {
            winners.push((bytes, best.method));
        }
    }
    winners
}

/// How a model compares with the others of its kind: by the fastest method of each machine at each size.
pub fn standings(index: &Index, model: &str, filter: &Filter) -> Vec<Standing> {
    let of_model = Filter {
        model: Some(model.to_owned()),
        ..filter.clone()
    };
    let kinds: BTreeSet<&str> = index
        .places_of(&of_model)
        .iter()
        .map(|&place| index.place_at(place).kind.as_str())
        .collect();
    let mut sizes: BTreeMap<(Task, (u64, u64)), Vec<(f64, usize, usize)>> = BTreeMap::new();
    for kind in kinds {
        let asked = Asked::of(
            index,
            &Filter {
                model: None,
                kind: Some(kind.to_owned()),
                ..filter.clone()
            },
        );
        let groups = asked.groups(|task, place, method| ((task, size(place)), place.model == model, method));
        let mut places: BTreeMap<(u32, u64), [Vec<(u32, f64)>; 2]> = BTreeMap::new();
        for ((key, is_model, _), seen) in groups {
            places.entry(key).or_default()[usize::from(is_model)].extend(asked.seconds(&seen));
        }
        for ((task, bytes), values) in places {
            let [others, own] = values.map(fastest);
            let Some(middle) = spread(&own).map(|own| own.quartiles[1]).filter(|_| !others.is_empty()) else {
                continue;
            };
            let slower = others.iter().filter(|(_, seconds)| *seconds > middle).count();
            let key = (asked.tasks[task as usize].clone(), size_class(bytes));
            sizes
                .entry(key)
                .or_default()
                .push((slower as f64 / others.len() as f64, own.len(), others.len()));
        }
    }
    let standing =
        |((task, (above_bytes, up_to_bytes)), parts): ((Task, (u64, u64)), Vec<(f64, usize, usize)>)| Standing {
            task,
            above_bytes,
            up_to_bytes,
            faster_than: parts.iter().map(|(part, ..)| part).sum::<f64>() / parts.len() as f64,
            machines: parts.iter().map(|(_, own, _)| *own).max().unwrap_or(0),
            others: parts.iter().map(|(.., others)| *others).max().unwrap_or(0),
        };
    sizes.into_iter().map(standing).collect()
}

/// The seconds by size of files, the rest of the storage, method and machine; sorted.
type Measured = Vec<((u64, u32, u32, u32), f64)>;

/// Tasks by the version of the kernel, if there are several.
pub fn kernels(index: &Index, filter: &Filter) -> Vec<Kernels> {
    let asked = Asked::of(index, filter);
    let mut storages: HashMap<(&str, &str), u32> = HashMap::new();
    let groups = asked.groups(|task, place, method| {
        let next = storages.len() as u32;
        let storage = storages.entry((&place.model, &place.file_system)).or_insert(next);
        let kernel = (version(&place.kernel), place.kernel.as_str());
        (task, kernel, (size(place), *storage, method))
    });
    let mut tasks: BTreeMap<u32, BTreeMap<(Vec<u32>, &str), Measured>> = BTreeMap::new();
    for ((task, kernel, (bytes, storage, method)), seen) in groups {
        let seconds = asked.seconds(&seen).into_iter();
        let under = tasks.entry(task).or_default().entry(kernel).or_default();
        under.extend(seconds.map(|(machine, seconds)| ((bytes, storage, method, machine), seconds)));
    }
    let several = tasks.into_iter().filter(|(_, kernels)| kernels.len() > 1);
    let of_task = |(task, kernels): (u32, BTreeMap<(Vec<u32>, &str), Measured>)| {
        let mut machines: HashMap<u64, HashSet<u32>> = HashMap::new();
        for ((bytes, .., machine), _) in kernels.values().flatten() {
            machines.entry(*bytes).or_default().insert(*machine);
        }
        let most = machines
            .iter()
            .max_by_key(|(bytes, machines)| (machines.len(), **bytes));
        let size_bytes = most.map_or(0, |(bytes, _)| *bytes);
        let mut before: Option<&Measured> = None;
        let steps = kernels.iter().map(|((_, kernel), now)| {
            let here = now.iter().filter(|((bytes, ..), _)| *bytes == size_bytes);
            let (change, most) = before.replace(now).map_or((None, None), |before| changes(before, now));
            KernelStep {
                kernel: (*kernel).to_owned(),
                seconds: spread(&fastest(here.map(|((.., machine), seconds)| (*machine, *seconds)))),
                change,
                most: most.map(|(method, spread)| (index.name_of(method).to_owned(), spread)),
            }
        });
        let steps = steps.collect();
        Kernels {
            task: asked.tasks[task as usize].clone(),
            size_bytes,
            steps,
        }
    };
    several.map(of_task).collect()
}

/// What changed from one kernel to another, over all methods and for the one that changed most, on machines that measured both: a
/// machine's change is the median of those of its methods and sizes.
fn changes(before: &Measured, now: &Measured) -> (Option<Spread>, Option<(u32, Spread)>) {
    let both = now.iter().filter_map(|(key, seconds)| {
        let at = before.binary_search_by_key(key, |(key, _)| *key).ok()?;
        Some(((key.2, key.3), seconds / before[at].1))
    });
    let both: Vec<((u32, u32), f64)> = both.collect();
    let ratios = both.iter().map(|((_, machine), ratio)| (*machine, *ratio));
    let all = spread(&by_machine(ratios.collect()));
    let mut methods: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for ((method, machine), ratio) in both {
        methods.entry(method).or_default().push((machine, ratio));
    }
    let spreads = methods.into_iter();
    let spreads = spreads.filter_map(|(method, ratios)| Some((method, spread(&by_machine(ratios))?)));
    let size = |(_, spread): &(u32, Spread)| spread.quartiles[1].ln().abs();
    (all, spreads.max_by(|one, other| size(one).total_cmp(&size(other))))
}

/// The numbers of a version, by which it is sorted.
fn version(kernel: &str) -> Vec<u32> {
    kernel
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn size(place: &Place) -> u64 {
    place.size_bytes.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(method: u32, ratio: f64, machines: usize) -> Ranked<u32> {
        Ranked {
            method,
            ratio,
            range: [ratio; 2],
            machines,
            best_on: 0,
        }
    }

    #[test]
    fn a_method_that_few_machines_measured_does_not_win() {
        assert_eq!(
            winner(&[ranked(0, 1.0, 1), ranked(1, 1.1, 3)]).map(|of| of.method),
            Some(1)
        );
        assert_eq!(
            winner(&[ranked(0, 1.0, 2), ranked(1, 1.1, 3)]).map(|of| of.method),
            Some(0)
        );
    }

    #[test]
    fn the_winner_changes_where_the_one_before_is_slower_and_not_at_a_tie() {
        let sizes = [[1.0, 1.5], [1.02, 1.0], [1.2, 1.0], [1.0, 1.01]].into_iter();
        let sizes = sizes.zip(10..).map(|([one, other], step)| {
            let mut methods = vec![ranked(0, one, 5), ranked(1, other, 5)];
            methods.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
            (1 << step, methods)
        });
        assert_eq!(winners(sizes), [(1 << 10, 0), (1 << 12, 1)]);
    }

    #[test]
    fn a_machine_s_change_is_the_median_of_what_both_kernels_measured() {
        let before = vec![((1, 0, 0, 7), 1.0), ((1, 0, 0, 8), 1.0), ((2, 0, 0, 7), 1.0)];
        let now = vec![((1, 0, 0, 7), 1.5), ((1, 0, 0, 9), 9.0), ((2, 0, 0, 7), 2.5)];
        let (all, most) = changes(&before, &now);
        let expected = Spread {
            quartiles: [2.0; 3],
            machines: 1,
        };
        assert_eq!((all, most), (Some(expected), Some((0, expected))));
    }

    #[test]
    fn versions_are_sorted_by_their_numbers() {
        assert!(version("Linux 6.2") < version("Linux 6.12"));
    }
}
