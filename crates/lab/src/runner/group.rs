//! Planning groups, which are measured in the same rounds: contests, their entries, and what is unavailable.

use std::time::Duration;

use seekless::Method;
use seekless::method::{AccessPattern, Choice, Durability, Operation, format_size};
use seekless_record::{Cache, Contest, Differ, Drop, Entry, RandomAccess, Status};
use seekless_results::{Decider, Group, has_small_files, planned_trials};

use super::files::{laid_out, memory_for};
use super::first_touch::FirstTouch;
use super::place::layout_of;
use super::size::{Speeds, all_bytes, contest_of, requests, trial_cost};
use super::{BenchError, Runner};
use crate::cgroup::LEAST_BYTES;
use crate::experiment::{ContestPlan, Layout, Size};
use crate::read_ahead::ReadAhead;

impl Runner<'_> {
    /// Plans what is measured, and announces how much will be written.
    pub(super) fn plan(&mut self) -> Result<Decider, BenchError> {
        let groups = if self.bench.resume.is_some() {
            self.remaining_groups()?
        } else {
            self.new_groups()?
        };
        // A resumed run has another order each time, but the same for the same seed.
        let seed = self.bench.seed.wrapping_add(self.run.resumed_at_seconds.len() as u64);
        let decider = Decider::new(&self.run, groups, self.bench.rounds, self.bench.budget, seed);
        self.announce(&decider)?;
        Ok(decider)
    }

    /// The groups of the experiments asked for.
    fn new_groups(&mut self) -> Result<Vec<Group>, BenchError> {
        if let Some(directory) = &self.bench.first_touch {
            let files = FirstTouch::new(directory, self.bench, self.stop)?;
            self.run.choices.push(files.about.clone());
            self.places[0].first_touch = Some(files);
        }
        let plans = self.plans();
        if plans.is_empty() {
            return Err(BenchError::NothingToRead);
        }
        let speeds = self.calibrate()?;
        let mut groups = Vec::new();
        for (plan, sizes) in plans.iter().zip(self.choose_sizes(&plans, &speeds)) {
            for (layout, bytes) in sizes {
                for contest in self.contests(plan, &layout, bytes, &speeds) {
                    let mut group = self.group(plan, &contest);
                    group.expected = self.expected(&group, &speeds, planned_trials(group.active(&self.run).len()));
                    groups.push(group);
                }
            }
        }
        Ok(groups)
    }

    /// The expected time of this many trials of a group. A sustained write is one trial on each storage, and ends with
    /// the budget.
    pub(super) fn expected(&self, group: &Group, speeds: &Speeds, trials: usize) -> Duration {
        let contest = &self.run.contests[group.contests[0]];
        let trial = trial_cost(contest, speeds);
        if !contest.sustained {
            return trial * trials as u32;
        }
        let longest = self.bench.rounds.map_or(self.bench.budget, |_| Duration::MAX);
        trial.min(longest) * group.contests.len() as u32
    }

    /// The contests for files of a size, for the first storage and without entries.
    fn contests(&self, plan: &ContestPlan, layout: &Layout, bytes: u64, speeds: &Speeds) -> Vec<Contest> {
        let mut contests = Vec::new();
        for cache in self.caches_of(plan) {
            for &differ in &plan.differs {
                for &read_ahead_kib in &plan.read_ahead_kib {
                    for (durability, random) in kinds(plan) {
                        let mut contest = contest_of(plan, bytes, durability);
                        contest.size_chosen = !laid_out(plan).iter().any(|(_, own)| *own == Some(bytes));
                        contest.cache = cache;
                        contest.differ = differ;
                        contest.read_ahead_kib = read_ahead_kib;
                        contest.random = random.map(|(block_bytes, depth)| RandomAccess {
                            block_bytes,
                            depth,
                            requests: requests(depth, cache, durability, speeds),
                        });
                        contest.layout = (*layout != Layout::Dense).then(|| layout.to_string());
                        if let Some((_, files)) = self.places[0].given() {
                            contest.files = files;
                        }
                        contest.memory_bytes = (cache == Cache::Over).then(|| {
                            let allowed = plan.common.memory_bytes.unwrap_or(read_bytes(&contest) / 2);
                            allowed.max(LEAST_BYTES)
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

    /// The requested contests, with overrides from the command line.
    fn plans(&mut self) -> Vec<ContestPlan> {
        let (bench, is_only_read) = (self.bench, self.places.iter().any(|place| place.scratch.is_none()));
        let mut plans = Vec::new();
        for experiment in &bench.experiments {
            for plan in &experiment.contests {
                let operation = plan.common.operation;
                if is_only_read && (operation != Operation::Read || plan.common.tree.is_some()) {
                    continue;
                }
                let mut plan = plan.clone();
                plan.common.experiment.clone_from(&experiment.name);
                if plan.common.tree.is_some() {
                    // On another storage, its namesake may have others.
                    let mut contest = plan.common.clone();
                    (contest.files, contest.storage) = (1, 0);
                    let _ = self.look_at_tree(&mut contest);
                    (plan.files, plan.sizes) = (Some(contest.files), vec![Size::Bytes(contest.size_bytes)]);
                } else if !self.bench.sizes.is_empty() {
                    let sizes: Vec<Size> = self.bench.sizes.iter().map(|&bytes| Size::Bytes(bytes)).collect();
                    plan.common.memory_bytes = memory_for(&plan, &sizes);
                    plan.sizes = sizes;
                }
                if let Some(bytes) = self.places.iter().find_map(super::Place::given_bytes) {
                    plan.sizes = vec![Size::Bytes(bytes)];
                    plan.layouts = vec![Layout::Dense];
                }
                // Copies and comparisons have no simulated processing.
                if matches!(operation, Operation::Read | Operation::Write) {
                    let work = &mut plan.common.work_ns_per_kib;
                    *work = self.bench.work_ns_per_kib.unwrap_or(*work);
                }
                plans.push(plan);
            }
        }
        plans
    }

    /// The cache states of a plan; a write of a fresh file has none.
    pub(super) fn caches_of(&self, plan: &ContestPlan) -> Vec<Cache> {
        if self.bench.first_touch.is_some() {
            return vec![Cache::FirstTouch];
        }
        if !self.bench.caches.is_empty() && plan.common.operation != Operation::Write {
            return self.bench.caches.clone();
        }
        // If nothing can be cold, a plan with only cold trials is measured warm.
        if plan.caches == [Cache::Cold] && self.places.iter().all(|place| !place.has_cold) {
            return vec![Cache::Warm];
        }
        plan.caches.clone()
    }

    /// Makes a contest for each storage, with its entries.
    fn group(&mut self, plan: &ContestPlan, contest: &Contest) -> Group {
        let mut group = Group::default();
        group.round_limit = self.places[0].first_touch.as_ref().map(FirstTouch::rounds);
        group.round_limit = group.round_limit.or(contest.sustained.then_some(1));
        let random = contest.random.map(|random| (random.block_bytes, random.depth));
        let is_same =
            |choice: Option<&Choice>| choice.is_none_or(|choice| kind(choice) == (contest.durability, random));
        let has_second = contest.operation == Operation::Compare && contest.differ != Differ::Itself;
        for storage in 0..self.measured_places() {
            let mut contest = Contest {
                storage,
                other_storage: self.other_place().filter(|_| has_second),
                ..contest.clone()
            };
            let no_tree = self.look_at_tree(&mut contest).err();
            let mut entries = Vec::new();
            for entry in &plan.common.entries {
                let choice = entry.choice();
                if !is_same(choice.as_ref()) {
                    continue;
                }
                let refused = refuses_command(&contest).filter(|_| choice.is_none());
                let refused = refused.or_else(|| no_tree.clone());
                let refused = refused.or_else(|| self.refuses(choice.as_ref(), storage, &contest));
                entries.push(Entry {
                    status: refused.map_or(Status::Measured, Status::Unavailable),
                    ..entry.clone()
                });
            }
            group.contests.push(self.run.contests.len());
            self.run.contests.push(Contest { entries, ..contest });
        }
        group
    }

    /// Whether all caches of the system are dropped for small files: as requested, or else if it is allowed.
    fn drops_system(&self) -> bool {
        match self.bench.drop {
            Some(drop) => drop == Drop::System,
            None => seekless::cache::may_drop_system().is_ok(),
        }
    }

    /// The number of measured storages: all but that of the second files, if it is another.
    fn measured_places(&self) -> usize {
        self.places.len() - usize::from(self.bench.other.is_some())
    }

    /// The storage of the second files, if it differs from that of the first.
    fn other_place(&self) -> Option<usize> {
        self.bench.other.as_ref().map(|_| self.places.len() - 1)
    }

    /// Why a method, plan or command makes no sense in a contest, or is unavailable.
    fn refuses(&mut self, choice: Option<&Choice>, storage: usize, contest: &Contest) -> Option<String> {
        let compares = choice.is_some_and(|choice| choice.operation() == Operation::Compare);
        let other = self.other_place().filter(|_| compares);
        let mut places = std::iter::once(storage).chain(other);
        let mut refused = places
            .clone()
            .find_map(|place| self.places[place].refuses(choice, contest.cache));
        if contest.read_ahead_kib.is_some() {
            refused = refused.or_else(|| ReadAhead::refuses(&self.places[storage].facts));
        }
        let read_bytes = read_bytes(contest);
        let allowed = contest.memory_bytes.filter(|&allowed| read_bytes <= allowed);
        let does_not_exceed = |allowed| {
            let (read, allowed) = (format_size(read_bytes), format_size(allowed));
            format!("the files ({read}) do not exceed the memory allowed ({allowed})")
        };
        let refused = refused
            .or_else(|| allowed.map(does_not_exceed))
            .or_else(|| self.places[storage].refuses_layout(&layout_of(contest)));
        let Some(method) = choice.and_then(Choice::method) else {
            return refused;
        };
        refused.or_else(|| places.find_map(|place| self.places[place].availability(method).reason().map(str::to_owned)))
    }
}

/// The bytes of all files that a trial reads.
fn read_bytes(contest: &Contest) -> u64 {
    let has_second = contest.operation == Operation::Compare && contest.differ != Differ::Itself;
    all_bytes(contest).saturating_mul(if has_second { 2 } else { 1 })
}

/// Why a command cannot be ranked with the methods of a contest: it would do less.
fn refuses_command(contest: &Contest) -> Option<String> {
    let why = if contest.random.is_some() {
        "a command cannot be given the random blocks that the methods move"
    } else if contest.work_ns_per_kib > 0 {
        "a command cannot simulate processing, so it would do less work than the methods"
    } else if contest.durability == Durability::WriteThrough {
        "a command cannot be made to write through, so it would do less work than the methods"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Properties that separate contests: durability, and for random access the block and depth.
type Kind = (Durability, Option<(u64, u32)>);

fn kind(choice: &Choice) -> Kind {
    let options = choice.method().map(Method::options);
    let random = options.filter(|options| options.access() == AccessPattern::Random);
    let requests = random.and_then(|options| Some((options.block_bytes()?, options.depth().unwrap_or(1))));
    (choice.durability(), requests)
}

/// The kinds among a plan's methods, each once: sequential access first, then by durability.
fn kinds(plan: &ContestPlan) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = plan.methods().map(|choice| kind(&choice)).collect();
    if kinds.is_empty() {
        kinds.push((Durability::None, None));
    }
    kinds.sort_by_key(|&(durability, random)| (random, durability));
    kinds.dedup();
    kinds
}
