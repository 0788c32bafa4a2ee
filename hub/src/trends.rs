//! What follows from the runs of many machines: which method wins where, how fast it is, where the winner changes, how a model of a
//! device compares with its kind, and what a kernel changed.
//!
//! Everything is reduced to machines first: one machine's tenth run does not outweigh ten machines. No I/O and no words.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use seekless_method::Method;
use seekless_results::statistics::{median, percentile};
use seekless_results::{Ranked, rank_methods, size_class};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::figure::{Place, WORDS, Word};
use crate::index::{Basis, Filter, Index, Seen};

/// The words of a task are the first of a place.
const OF_TASK: usize = Word::Work as usize + 1;

/// What methods compete in: the words of a task; over all models, file systems, kernels and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task<'a>(pub &'a [String]);

/// A task with files of a class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct Class<'a> {
    /// The task: its kind, operation, cache, target, durability and work.
    #[schema(value_type = Object)]
    pub task: Task<'a>,
    /// Files are larger than this, in bytes.
    pub above_bytes: u64,
    /// Files are not larger than this, in bytes.
    pub up_to_bytes: u64,
}

/// The methods of a task for a class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Cell<'a> {
    /// Of what.
    #[serde(flatten)]
    pub class: Class<'a>,
    /// What it rests on.
    pub basis: Basis,
    /// The methods, by the median over the machines of the time over that of the best.
    #[schema(value_type = Vec<Object>)]
    pub methods: Vec<Ranked<&'a str>>,
}

/// A method by the size of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve<'a> {
    /// The method.
    pub method: &'a str,
    /// By size in bytes: the seconds of one file.
    pub points: BTreeMap<u64, Spread>,
}

/// A figure over machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// The middle half of the machines, with its median in between.
    pub quartiles: [f64; 3],
    /// What it rests on.
    pub basis: Basis,
}

/// A task by the size of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves<'a> {
    /// The task.
    pub task: Task<'a>,
    /// What it rests on.
    pub basis: Basis,
    /// The methods that win at some size, and the simplest one.
    pub methods: Vec<Curve<'a>>,
    /// The winners: each with the size from which on, in bytes.
    pub winners: Vec<(u64, &'a str)>,
}

/// How the machines with a model of a device compare with the others of the same kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing<'a> {
    /// In what.
    pub class: Class<'a>,
    /// The part of the other machines than which the median one with this model is faster.
    pub faster_than: f64,
    /// What is known of the model.
    pub basis: Basis,
    /// What is known of the others.
    pub others: Basis,
}

/// A task under several kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernels<'a> {
    /// The size that most machines measured, in bytes.
    pub size_bytes: u64,
    /// By version.
    pub steps: Vec<KernelStep<'a>>,
}

/// A version of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStep<'a> {
    /// Its name, as in `Linux 6.18`.
    pub kernel: &'a str,
    /// The seconds of a file of that size by the fastest method of each machine.
    pub seconds: Option<Spread>,
    /// The time over that under the version before, on machines that measured both.
    pub change: Option<Spread>,
    /// The method that changed most, likewise.
    pub most: Option<(&'a str, Spread)>,
}

/// A ratio below which a method is not taken for slower, as in a run.
const TIE: f64 = 1.03;

/// The places that are asked for.
pub struct Asked<'a> {
    index: &'a Index,
    places: Vec<&'a Place>,
    revisions: BTreeSet<String>,
}

/// What was seen of something.
type Rows<'a> = Vec<&'a [Seen]>;
/// What was seen of methods, by the size of files.
type BySize<'a> = BTreeMap<u64, Vec<(&'a str, Rows<'a>)>>;
/// One value of each machine, by its number.
type ByMachine = Vec<(u32, f64)>;

impl ops::Index<Word> for Task<'_> {
    type Output = String;

    fn index(&self, word: Word) -> &String {
        &self.0[word as usize]
    }
}

impl Serialize for Task<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(WORDS.iter().map(|(name, _)| name).zip(self.0))
    }
}

impl<'a> Class<'a> {
    fn of(place: &'a Place) -> Self {
        let (above_bytes, up_to_bytes) = size_class(place.size());
        let task = Task::of(place);
        Self {
            task,
            above_bytes,
            up_to_bytes,
        }
    }
}

impl<'a> Task<'a> {
    fn of(place: &'a Place) -> Self {
        Self(&place.words[..OF_TASK])
    }
}

impl Cell<'_> {
    /// The method with the smallest ratio, of those that at least half as many machines measured as any.
    pub fn winner(&self) -> Option<&Ranked<&str>> {
        winner(&self.methods)
    }
}

impl<'a> Asked<'a> {
    /// What is asked of an index.
    pub fn of(index: &'a Index, filter: &Filter) -> Self {
        let places = index.places_of(filter);
        let revisions: BTreeSet<&String> = places.iter().map(|place| &place[Word::Revision]).collect();
        Self {
            index,
            revisions: revisions.into_iter().cloned().collect(),
            places,
        }
    }

    /// What was seen of each key, which is made of a place and a method.
    fn groups<K: Ord>(&self, mut key: impl FnMut(&'a Place, &'a str) -> Option<K>) -> BTreeMap<K, Rows<'a>> {
        let mut groups: BTreeMap<K, Rows<'a>> = BTreeMap::new();
        for &place in &self.places {
            for (method, seen) in self.index.seen_at(place) {
                if let Some(key) = key(place, method) {
                    groups.entry(key).or_default().push(seen);
                }
            }
        }
        groups
    }

    fn basis<'s>(&self, rows: impl IntoIterator<Item = &'s &'s [Seen]>) -> Basis {
        let seen = rows.into_iter().copied().flatten();
        self.index.basis(seen.map(|seen| seen.run), &self.revisions)
    }

    /// That of machines only, which are sorted.
    fn basis_of(&self, rows: &[&[Seen]], machines: &ByMachine) -> Basis {
        let is_of = |seen: &&Seen| machines.binary_search_by_key(&seen.machine, |of| of.0).is_ok();
        let seen = rows.iter().copied().flatten().filter(is_of);
        self.index.basis(seen.map(|seen| seen.run), &self.revisions)
    }
}

/// Methods with their rows, the best first.
fn ranked<'a>(methods: &[(&'a str, Rows<'_>)]) -> Vec<Ranked<&'a str>> {
    let contest = |seen: &Seen| (seen.machine, f64::from(seen.ratio), seen.is_best);
    let contests = |rows: &Rows<'_>| rows.iter().copied().flatten().map(contest).collect();
    rank_methods(methods.iter().map(|(method, rows)| (*method, contests(rows))))
}

fn winner<M>(methods: &[Ranked<M>]) -> Option<&Ranked<M>> {
    let most = methods.iter().map(|method| method.machines).max()?;
    methods.iter().find(|method| 2 * method.machines >= most)
}

/// Reduces the positive ones of some values to one of each machine.
fn by_machine(values: impl IntoIterator<Item = (u32, f32)>, reduce: fn(&[u64]) -> f64) -> ByMachine {
    let values = values
        .into_iter()
        .filter(|(_, value)| *value > 0.0 && value.is_finite());
    // The bits of positive numbers have their order.
    let mut values: Vec<u64> = values
        .map(|(of, value)| u64::from(of) << 32 | u64::from(value.to_bits()))
        .collect();
    values.sort_unstable();
    let machines = values.chunk_by(|one, other| one >> 32 == other >> 32);
    machines
        .map(|values| ((values[0] >> 32) as u32, reduce(values)))
        .collect()
}

fn value(of: u64) -> f64 {
    f32::from_bits(of as u32).into()
}

fn middle(values: &[u64]) -> f64 {
    f64::midpoint(value(values[(values.len() - 1) / 2]), value(values[values.len() / 2]))
}

fn smallest(values: &[u64]) -> f64 {
    value(values[0])
}

/// The median seconds of each machine.
fn seconds(rows: &[&[Seen]]) -> ByMachine {
    by_machine(
        rows.iter().copied().flatten().map(|seen| (seen.machine, seen.seconds)),
        middle,
    )
}

/// The smallest of the values of each machine.
fn fastest<'s>(values: impl IntoIterator<Item = &'s ByMachine>) -> ByMachine {
    by_machine(
        values
            .into_iter()
            .flatten()
            .map(|(machine, value)| (*machine, *value as f32)),
        smallest,
    )
}

/// The spread of one value of each machine.
fn spread(values: &ByMachine, basis: impl FnOnce() -> Basis) -> Option<Spread> {
    let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let quartiles = [percentile(&values, 25)?, median(&values)?, percentile(&values, 75)?];
    Some(Spread {
        quartiles,
        basis: basis(),
    })
}

/// Which methods win: a cell for each task and class of sizes that was measured.
pub fn cells<'a>(index: &'a Index, filter: &Filter) -> Vec<Cell<'a>> {
    let asked = Asked::of(index, filter);
    let mut cells: BTreeMap<Class<'_>, Vec<(&str, Rows<'_>)>> = BTreeMap::new();
    for ((class, method), rows) in asked.groups(|place, method| Some((Class::of(place), method))) {
        cells.entry(class).or_default().push((method, rows));
    }
    let cell = |(class, methods): (Class<'a>, Vec<(&'a str, Rows<'_>)>)| Cell {
        class,
        basis: asked.basis(methods.iter().flat_map(|(_, rows)| rows)),
        methods: ranked(&methods),
    };
    cells.into_iter().map(cell).collect()
}

/// How fast methods are by size, for the tasks that most machines measured, and how many more tasks there are.
pub fn curves<'a>(asked: &Asked<'a>, most: usize) -> (Vec<Curves<'a>>, usize) {
    let mut tasks: BTreeMap<Task<'_>, BySize<'_>> = BTreeMap::new();
    for ((task, bytes, method), rows) in asked.groups(|place, method| Some((Task::of(place), place.size(), method))) {
        let sizes = tasks.entry(task).or_default();
        sizes.entry(bytes).or_default().push((method, rows));
    }
    let basis = |sizes: &BySize<'_>| asked.basis(sizes.values().flatten().flat_map(|(_, rows)| rows));
    let mut tasks: Vec<_> = tasks
        .into_iter()
        .map(|(task, sizes)| (basis(&sizes), task, sizes))
        .collect();
    tasks.sort_by_key(|(basis, task, _)| (Reverse(basis.machines), *task));
    let left = tasks.len().saturating_sub(most);
    let curves = tasks.into_iter().take(most).map(|(basis, task, sizes)| {
        let winners = winners(sizes.iter().map(|(&bytes, methods)| (bytes, ranked(methods))));
        let point = |method: &str, (bytes, methods): (&u64, &Vec<(&str, Rows<'_>)>)| {
            let (_, rows) = methods.iter().find(|(of, _)| *of == method)?;
            Some((*bytes, spread(&seconds(rows), || asked.basis(rows))?))
        };
        let curve = |method| Curve {
            method,
            points: sizes.iter().filter_map(|size| point(method, size)).collect(),
        };
        Curves {
            task,
            basis,
            methods: shown(&winners, &sizes).into_iter().map(curve).collect(),
            winners,
        }
    });
    (curves.collect(), left)
}

/// The winners, and the simplest method.
fn shown<'a>(winners: &[(u64, &'a str)], sizes: &BySize<'a>) -> Vec<&'a str> {
    let rank = |(method, _): &(&'a str, Rows<'_>)| {
        let parsed: Method = method.parse().ok()?;
        (!parsed.is_overlapping()).then(|| (parsed.simplicity_rank(), *method))
    };
    let simplest = sizes.values().flatten().filter_map(rank).min();
    let shown = winners.iter().map(|(_, method)| *method);
    let mut known = BTreeSet::new();
    let shown = shown.chain(simplest.map(|(_, method)| method));
    shown.filter(|method| known.insert(*method)).collect()
}

/// The winners by size. One remains the winner until it is slower than the winner of a larger size: two ties are no change.
fn winners<M: Copy + PartialEq>(sizes: impl Iterator<Item = (u64, Vec<Ranked<M>>)>) -> Vec<(u64, M)> {
    let mut winners: Vec<(u64, M)> = Vec::new();
    for (bytes, methods) in sizes {
        let Some(best) = winner(&methods) else { continue };
        let holds = |(_, champion): &(u64, M)| {
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
pub fn standings<'a>(index: &'a Index, model: &str, filter: &Filter) -> Vec<Standing<'a>> {
    let places = index.places_of(&filter.with(Word::Model, Some(model)));
    let kinds: BTreeSet<&str> = places.iter().map(|place| place[Word::Kind].as_str()).collect();
    let of_kind = |kind| standings_in(index, kind, model, filter);
    kinds.into_iter().flat_map(of_kind).collect()
}

/// What was seen with other models and with this one, and the seconds of machines by each method.
type Sides<'a> = [(Rows<'a>, Vec<ByMachine>); 2];

fn standings_in<'a>(index: &'a Index, kind: &str, model: &str, filter: &Filter) -> Vec<Standing<'a>> {
    let of_kind = filter.with(Word::Kind, Some(kind)).with(Word::Model, None);
    let asked = Asked::of(index, &of_kind);
    let key = |place: &'a Place, method| Some((Class::of(place), place.size(), place[Word::Model] == model, method));
    let mut classes: BTreeMap<Class<'_>, BTreeMap<u64, Sides<'_>>> = BTreeMap::new();
    for ((class, bytes, is_model, _), mut rows) in asked.groups(key) {
        let sides = classes.entry(class).or_default().entry(bytes).or_default();
        let side = &mut sides[usize::from(is_model)];
        side.1.push(seconds(&rows));
        side.0.append(&mut rows);
    }
    let standing = |(class, mut sizes): (Class<'a>, BTreeMap<u64, Sides<'_>>)| {
        sizes.retain(|_, sides| sides.iter().all(|(rows, _)| !rows.is_empty()));
        let part = |sides: &Sides<'_>| {
            let [others, own] = [0, 1].map(|side| fastest(&sides[side].1));
            let middle = spread(&own, Basis::default)?.quartiles[1];
            let slower = others.iter().filter(|(_, seconds)| *seconds > middle).count();
            (!others.is_empty()).then(|| slower as f64 / others.len() as f64)
        };
        let parts: Vec<f64> = sizes.values().filter_map(part).collect();
        let basis = |side: usize| asked.basis(sizes.values().flat_map(|sides| &sides[side].0));
        (!parts.is_empty()).then(|| Standing {
            class,
            faster_than: parts.iter().sum::<f64>() / parts.len() as f64,
            basis: basis(1),
            others: basis(0),
        })
    };
    classes.into_iter().filter_map(standing).collect()
}

/// By size of files, the rest of the storage, and method.
type Measured<'a> = BTreeMap<(u64, [&'a str; 2], &'a str), (Rows<'a>, ByMachine)>;

/// A task by the version of the kernel, if there are several.
pub fn kernels<'a>(asked: &Asked<'a>, task: &Task<'_>) -> Option<Kernels<'a>> {
    let groups = asked.groups(|place, method| {
        let kernel = || (version(&place[Word::Kernel]), place[Word::Kernel].as_str());
        let storage = [Word::Model, Word::FileSystem].map(|word| place[word].as_str());
        (Task::of(place) == *task).then(|| (kernel(), (place.size(), storage, method)))
    });
    let mut kernels: BTreeMap<(Vec<u32>, &str), Measured<'_>> = BTreeMap::new();
    let mut sizes: BTreeMap<u64, Rows<'_>> = BTreeMap::new();
    for ((kernel, key), rows) in groups {
        sizes.entry(key.0).or_default().extend(&rows);
        let seconds = seconds(&rows);
        kernels.entry(kernel).or_default().insert(key, (rows, seconds));
    }
    let most = sizes
        .iter()
        .max_by_key(|(bytes, rows)| (asked.basis(*rows).machines, **bytes));
    let size_bytes = *most.filter(|_| kernels.len() > 1)?.0;
    let mut before: Option<&Measured<'_>> = None;
    let steps = kernels.iter().map(|((_, kernel), now)| {
        let here = || now.iter().filter(|(key, _)| key.0 == size_bytes).map(|(_, of)| of);
        let basis = || asked.basis(here().flat_map(|(rows, _)| rows));
        let (change, most) = before
            .replace(now)
            .map_or((None, None), |before| changes(asked, before, now));
        KernelStep {
            kernel,
            seconds: spread(&fastest(here().map(|(_, seconds)| seconds)), basis),
            change,
            most,
        }
    });
    let steps = steps.collect();
    Some(Kernels { size_bytes, steps })
}

/// What was seen of both kernels, and ratios of machines.
type Ratios<'a> = (Rows<'a>, Vec<(u32, f32)>);

/// What changed from one kernel to another, over all methods and for the one that changed most, on machines that measured both: a
/// machine's change is the median of those of its methods and sizes.
fn changes<'a>(
    asked: &Asked<'a>,
    before: &Measured<'a>,
    now: &Measured<'a>,
) -> (Option<Spread>, Option<(&'a str, Spread)>) {
    let mut methods: BTreeMap<&str, Ratios<'_>> = BTreeMap::new();
    for (key, (rows, seconds)) in now {
        let Some((earlier, seconds_earlier)) = before.get(key) else {
            continue;
        };
        let (all, ratios) = methods.entry(key.2).or_default();
        all.extend(rows.iter().chain(earlier));
        ratios.extend(seconds.iter().filter_map(|(machine, seconds)| {
            let at = seconds_earlier.binary_search_by_key(machine, |of| of.0).ok()?;
            Some((*machine, (seconds / seconds_earlier[at].1) as f32))
        }));
    }
    let change = |(rows, ratios): &Ratios<'_>| {
        let machines = by_machine(ratios.iter().copied(), middle);
        spread(&machines, || asked.basis_of(rows, &machines))
    };
    let size = |(_, spread): &(&str, Spread)| spread.quartiles[1].ln().abs();
    let changed = methods.iter().filter_map(|(method, of)| Some((*method, change(of)?)));
    let most = changed.max_by(|one, other| size(one).total_cmp(&size(other)));
    let (rows, ratios): (Vec<Rows<'_>>, Vec<_>) = methods.into_values().unzip();
    (change(&(rows.concat(), ratios.concat())), most)
}

/// The numbers of a version, by which it is sorted.
fn version(kernel: &str) -> Vec<u32> {
    let numbers = kernel.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
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
    fn versions_are_sorted_by_their_numbers() {
        assert!(version("Linux 6.2") < version("Linux 6.12"));
    }
}
