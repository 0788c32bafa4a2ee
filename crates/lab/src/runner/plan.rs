//! What is measured, as a list: groups of contests, their entries, and why some are skipped. No I/O and no clock.

use std::time::Duration;

use seekless_engine::Method;
use seekless_engine::method::{AccessPattern, Choice, Durability, Operation, Options};
use seekless_record::{Cache, Conditions, Contest, DropScope, Entry, EntryVerdict, RandomAccess, Run, Target};
use seekless_results::{chosen_size, contending_time, deciding_trials, has_small_files};

use super::Bench;
use super::existing::Tree;
use super::size::{
    SUSTAINED_BYTES, Speeds, appended_bytes, choose_size, choose_sustained, contest_of, group_cost, requests,
};
use super::skip::{Skip, has_second, read_bytes};
use super::storage::MeasuredStorage;
use crate::cgroup;
use crate::experiment::{ContestPlan, Layout, Size};

/// What the list follows from.
pub(super) struct TrialPlanner<'a> {
    pub bench: &'a Bench,
    /// With the directories of the user that the experiments name.
    pub storages: &'a [MeasuredStorage],
    pub speeds: &'a Speeds,
    /// Whether all caches of the system may be dropped.
    pub may_drop_system: bool,
}

/// The contests of each group, one for each storage; and what the lab chose, in sentences.
pub(super) struct Planned {
    pub groups: Vec<Vec<Contest>>,
    pub choices: Vec<String>,
}

impl Planned {
    /// Puts contests under these conditions first, which the profile no longer predicts.
    pub fn begin_with(&mut self, off: &[Conditions]) {
        let is_off = |contest: &Contest| Conditions::of(contest).is_some_and(|of| off.contains(&of));
        if self.groups.iter().flatten().any(is_off) {
            self.groups.sort_by_key(|group| !group.iter().any(is_off));
            let why = "Contests come first in which the tools no longer take the time that the profile predicts.";
            self.choices.push(why.to_owned());
        }
    }
}

/// The requested contests, with overrides from the command line.
pub(super) fn plans(bench: &Bench, storages: &[MeasuredStorage]) -> Vec<ContestPlan> {
    let is_only_read = storages.iter().any(|storage| storage.scratch.is_none());
    let mut plans = Vec::new();
    for experiment in &bench.experiments {
        for plan in &experiment.contests {
            let operation = plan.common.operation;
            if is_only_read && (operation != Operation::Read || plan.common.tree.is_some()) {
                continue;
            }
            let mut plan = plan.clone();
            plan.common.experiment.clone_from(&experiment.name);
            if let Some(named) = &plan.common.tree {
                // On another storage, its namesake may have others.
                let tree = storages[0].known_tree(named).and_then(Result::ok);
                let (files, bytes) = tree.map_or((1, plan.common.size_bytes), Tree::size);
                (plan.files, plan.sizes) = (Some(files), vec![Size::Bytes(bytes)]);
            } else if !bench.sizes.is_empty() {
                let sizes: Vec<Size> = bench.sizes.iter().map(|&bytes| Size::Bytes(bytes)).collect();
                plan.common.memory_bytes = memory_for(&plan, &sizes);
                plan.sizes = sizes;
            }
            if storages[0].given_file().is_some() {
                // The lab chooses how much of a large file a trial reads; a repeated run reads as much again.
                plan.sizes = match plan.sizes.as_slice() {
                    [size] if plan.common.part_of_bytes.is_some() => vec![*size],
                    _ => vec![Size::Auto],
                };
                plan.layouts = vec![Layout::Dense];
            }
            // Copies and comparisons have no simulated processing.
            if matches!(operation, Operation::Read | Operation::Write) {
                let work = &mut plan.common.work_ns_per_kib;
                *work = bench.work_ns_per_kib.unwrap_or(*work);
            }
            plans.push(plan);
        }
    }
    plans
}

impl TrialPlanner<'_> {
    /// The contests of these plans.
    pub fn list(&self, plans: &[ContestPlan]) -> Planned {
        let mut choices = Vec::new();
        let sizes = self.choose_sizes(plans, &mut choices);
        let share = self.trial_share(plans);
        let mut groups = Vec::new();
        for (plan, auto_bytes) in plans.iter().zip(sizes) {
            for (layout, bytes) in laid_out(plan) {
                for contest in self.contests(plan, &layout, bytes, auto_bytes, share) {
                    groups.push(self.on_storages(plan, &contest));
                }
            }
        }
        Planned { groups, choices }
    }

    /// The time that the budget leaves each trial, if every method is to have a verdict.
    fn trial_share(&self, plans: &[ContestPlan]) -> Option<Duration> {
        let trials = |plan: &ContestPlan| {
            self.caches_of(plan).len() * laid_out(plan).len() * deciding_trials(plan.common.entries.len())
        };
        let trials: usize = plans.iter().map(trials).sum();
        let time = contending_time(self.bench.budget);
        self.bench.rounds.is_none().then(|| time / trials.max(1) as u32)
    }

    /// For each plan, the size of its files that the lab chooses by the budget, where the plan names none.
    fn choose_sizes(&self, plans: &[ContestPlan], choices: &mut Vec<String>) -> Vec<u64> {
        let mut fixed = Duration::ZERO;
        let mut open = 0;
        for plan in plans {
            for cache in self.caches_of(plan) {
                for (_, bytes) in laid_out(plan) {
                    match bytes {
                        Some(bytes) => fixed += group_cost(plan, cache, bytes, self.speeds),
                        None => open += 1,
                    }
                }
            }
        }
        let left = contending_time(self.bench.budget).saturating_sub(fixed);
        let share = self.bench.rounds.is_none().then(|| left / open.max(1));
        let mut sizes = Vec::new();
        for plan in plans {
            let (bytes, choice) = self.choose(plan, share);
            if laid_out(plan).iter().any(|(_, bytes)| bytes.is_none()) {
                choices.push(format!("{}: {choice}", plan.common.experiment));
            }
            sizes.push(bytes);
        }
        sizes
    }

    /// The size of a plan's files for a share of the time, and a sentence about it.
    fn choose(&self, plan: &ContestPlan, share: Option<Duration>) -> (u64, String) {
        if plan.common.sustained {
            let (bytes, most) = (choose_sustained(share, self.speeds), chosen_size(SUSTAINED_BYTES));
            let why = format!("as much as the budget and a quarter of the free space allow, up to {most}");
            return (bytes, format!("writes at most {}, {why}", chosen_size(bytes)));
        }
        if let Some(whole) = self.given_bytes() {
            let caches = self.caches_of(plan).into_iter();
            let cost = caches.map(|cache| group_cost(plan, cache, whole, self.speeds)).max();
            if share.is_none_or(|share| cost.unwrap_or_default() <= share) {
                return (whole, "all of the file".to_owned());
            }
            let part = choose_size(plan, &self.caches_of(plan), share, self.speeds).min(whole);
            if part == whole {
                return (whole, "all of the file".to_owned());
            }
            let (shown, of) = (chosen_size(part), seekless_results::bytes(whole));
            return (
                part,
                format!("each round reads another {shown} of the file ({of}), as much as the budget allows"),
            );
        }
        if plan.common.target == Target::Append {
            let most = chosen_size(appended_bytes(self.speeds));
            let choice = "as many appends as take at most 0.3 s, 128 to 8,192; of large blocks, fewer";
            return (0, format!("{choice}: at most {most} in a trial"));
        }
        let known = known_size(self.bench, plan).filter(|bytes| (1..=self.speeds.limit_bytes).contains(bytes));
        let bytes = known.unwrap_or_else(|| choose_size(plan, &self.caches_of(plan), share, self.speeds));
        let why = match known {
            Some(_) => "as in the first run on this storage, so that results can be combined",
            None => "the largest size that the budget, and a quarter of the free space and memory, allow",
        };
        (bytes, format!("files of {}, {why}", chosen_size(bytes)))
    }

    /// The size of the existing file to read instead of test files.
    fn given_bytes(&self) -> Option<u64> {
        self.storages[0].given_file().map(|file| file.bytes)
    }

    /// The contests for files of a size, for the first storage and without entries.
    fn contests(
        &self,
        plan: &ContestPlan,
        layout: &Layout,
        bytes: Option<u64>,
        auto_bytes: u64,
        share: Option<Duration>,
    ) -> Vec<Contest> {
        let mut contests = Vec::new();
        for cache in self.caches_of(plan) {
            for &differ in &plan.differs {
                for &read_ahead_kib in &plan.read_ahead_kib {
                    for (durability, random) in work_classes(plan) {
                        // Requests at random are all over a file.
                        let bytes = self.given_bytes().filter(|_| random.is_some()).or(bytes);
                        let mut contest = contest_of(plan, bytes.unwrap_or(auto_bytes), durability);
                        contest.part_of_bytes = self.given_bytes().filter(|&whole| whole > contest.size_bytes);
                        contest.size_chosen = bytes.is_none();
                        contest.cache = cache;
                        contest.differ = differ;
                        contest.read_ahead_kib = read_ahead_kib;
                        contest.random = random.map(|(block_bytes, depth, reads_percent)| RandomAccess {
                            block_bytes,
                            depth,
                            reads_percent,
                            requests: requests((block_bytes, depth), &contest, share, self.speeds),
                        });
                        fit_appends(&mut contest, bytes);
                        contest.layout = (*layout != Layout::Dense).then(|| layout.to_string());
                        if self.given_bytes().is_some() {
                            contest.files = 1;
                        }
                        contest.memory_bytes = (cache == Cache::Over).then(|| {
                            let allowed = plan.common.memory_bytes.unwrap_or(read_bytes(&contest) / 2);
                            allowed.max(cgroup::LEAST_BYTES)
                        });
                        contest.cold_metadata =
                            cache == Cache::Cold && has_small_files(&contest) && self.drops_system();
                        contests.push(contest);
                    }
                }
            }
        }
        contests
    }

    /// The cache states of a plan; a write of a fresh file has none.
    fn caches_of(&self, plan: &ContestPlan) -> Vec<Cache> {
        if !self.bench.caches.is_empty() && plan.common.operation != Operation::Write {
            return self.bench.caches.clone();
        }
        // If nothing can be cold, a plan with only cold trials is measured warm.
        if plan.caches == [Cache::Cold] && self.storages.iter().all(|storage| !storage.has_cold) {
            return vec![Cache::Warm];
        }
        plan.caches.clone()
    }

    /// The contest on each measured storage, with its entries. The storage of the second files of comparisons, or of
    /// copies, comes last, if it is another.
    fn on_storages(&self, plan: &ContestPlan, contest: &Contest) -> Vec<Contest> {
        let other = self.bench.second().map(|_| self.storages.len() - 1);
        let has_other = if self.bench.to.is_some() { is_copy } else { has_second };
        let measured = other.unwrap_or(self.storages.len());
        let on_storage = |storage: usize| {
            let mut contest = Contest {
                storage,
                other_storage: other.filter(|_| has_other(contest)),
                ..contest.clone()
            };
            let named = contest.tree.as_ref();
            let tree = named.and_then(|named| self.storages[storage].known_tree(named));
            if let Some(Ok(tree)) = tree {
                (contest.files, contest.size_bytes) = tree.size();
                contest.tree = Some(tree.path.clone());
            }
            let no_tree = tree.and_then(Result::err);
            contest.entries = self.entries(plan, &contest, no_tree);
            contest
        };
        (0..measured).map(on_storage).collect()
    }

    /// The entries of a plan that do the work of a contest.
    fn entries(&self, plan: &ContestPlan, contest: &Contest, no_tree: Option<&String>) -> Vec<Entry> {
        let random = contest
            .random
            .map(|random| (random.block_bytes, random.depth, random.reads_percent));
        let mut entries = Vec::new();
        for entry in &plan.common.entries {
            let choice = entry.choice();
            let is_of_contest = |choice: &Choice| work_class(choice, contest.target) == (contest.durability, random);
            if !choice.as_ref().is_none_or(is_of_contest) {
                continue;
            }
            let compares = choice.is_some_and(|choice| choice.operation() == Operation::Compare);
            let storages = [Some(contest.storage), contest.other_storage.filter(|_| compares)];
            let storages: Vec<_> = storages
                .into_iter()
                .flatten()
                .map(|index| &self.storages[index])
                .collect();
            let skip = || Skip::of(choice.as_ref(), contest, &storages).map(|skip| skip.to_string());
            let why = no_tree.cloned().or_else(skip);
            entries.push(Entry {
                verdict: why.map_or(EntryVerdict::Measured, EntryVerdict::unavailable),
                ..entry.clone()
            });
        }
        entries
    }

    /// Whether all caches of the system are dropped for small files: as requested, or else if it is allowed.
    fn drops_system(&self) -> bool {
        self.bench
            .drop
            .map_or(self.may_drop_system, |drop| drop == DropScope::System)
    }
}

fn is_copy(contest: &Contest) -> bool {
    contest.operation == Operation::Copy
}

/// Makes the file of appends as large as they are together: as many as make up the requested size, or else as the lab
/// chose.
fn fit_appends(contest: &mut Contest, requested_bytes: Option<u64>) {
    let is_append = contest.target == Target::Append;
    if let Some(appends) = contest.random.as_mut().filter(|_| is_append) {
        let wanted = requested_bytes.map(|bytes| bytes.div_ceil(appends.block_bytes));
        appends.requests = wanted.map_or(appends.requests, |count| count.min(MOST_APPENDS) as u32);
        (contest.size_bytes, contest.files) = (u64::from(appends.requests) * appends.block_bytes, 1);
    }
}

/// The most appends of a trial: their latencies are kept in memory.
const MOST_APPENDS: u64 = 1 << 24;

/// Work that is ranked together: durability, and for random access the block, the depth or number of threads, and per cent of
/// reads, for appends the block and the number of writers.
type WorkClass = (Durability, Option<(u64, u32, u32)>);

fn work_class(choice: &Choice, target: Target) -> WorkClass {
    let options = choice.method().map(Method::options);
    let is_timed = |options: &&Options| options.access() == AccessPattern::Random || target == Target::Append;
    let requests = options.filter(is_timed).and_then(|options| {
        let in_flight = options.depth().unwrap_or(options.threads());
        Some((options.block_bytes()?, in_flight, options.reads_percent()))
    });
    let durability = match choice.durability() {
        each if each.is_of_each_call() => Durability::WriteThrough,
        other => other,
    };
    (durability, requests)
}

/// The classes among a plan's methods, each once: sequential access first, then by durability.
fn work_classes(plan: &ContestPlan) -> Vec<WorkClass> {
    let mut classes: Vec<WorkClass> = plan
        .methods()
        .map(|choice| work_class(&choice, plan.common.target))
        .collect();
    if classes.is_empty() {
        classes.push((Durability::None, None));
    }
    classes.sort_by_key(|&(durability, random)| (random, durability));
    classes.dedup();
    classes
}

/// The layouts and sizes of a plan's files; `None` if the lab chooses the size.
fn laid_out(plan: &ContestPlan) -> Vec<(Layout, Option<u64>)> {
    let mut found: Vec<(Layout, Option<u64>)> = Vec::new();
    for layout in &plan.layouts {
        for size in &plan.sizes {
            let laid_out = match size {
                Size::Bytes(bytes) => {
                    let (layout, bytes) = layout.of_size(*bytes);
                    (layout, Some(bytes))
                }
                Size::Auto => (layout.clone(), layout.own_bytes()),
            };
            if !found.contains(&laid_out) {
                found.push(laid_out);
            }
        }
    }
    found
}

/// The size that the lab chose for a plan in the first earlier run with no larger budget than this one.
fn known_size(bench: &Bench, plan: &ContestPlan) -> Option<u64> {
    let budget = bench.rounds.is_none().then_some(bench.budget.as_secs_f64());
    let had_no_more = |run: &&Run| match (run.budget_seconds, budget) {
        (Some(had), Some(has)) => had <= has,
        (had, has) => had.is_none() && has.is_none(),
    };
    let mut runs: Vec<&Run> = bench.earlier.iter().filter(had_no_more).collect();
    runs.sort_by(|one, other| one.started.cmp(&other.started));
    let mut contests = runs.into_iter().flat_map(|run| &run.contests);
    let is_of_plan = |contest: &&Contest| {
        let of = |contest: &Contest| (contest.experiment.clone(), contest.operation, contest.target);
        contest.size_chosen && of(contest) == of(&plan.common)
    };
    contests.find(is_of_plan).map(|contest| contest.size_bytes)
}

/// The memory of a plan whose files get other sizes: the same part of the largest size.
fn memory_for(plan: &ContestPlan, sizes: &[Size]) -> Option<u64> {
    let largest = |plan: &ContestPlan| laid_out(plan).into_iter().filter_map(|(_, bytes)| bytes).max();
    let other = ContestPlan {
        sizes: sizes.to_owned(),
        ..plan.clone()
    };
    let (own, other) = (largest(plan)?, largest(&other)?);
    let scaled = u128::from(plan.common.memory_bytes?) * u128::from(other) / u128::from(own);
    // Rounded to whole MiB.
    Some((scaled as u64 >> 20 << 20).max(cgroup::LEAST_BYTES))
}
