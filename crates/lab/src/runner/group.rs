//! What is measured in the same rounds, and planning it: contests, their entries, and what is not to be had.

use std::time::Duration;

use seekless::Method;
use seekless::method::{AccessPattern, Choice, Durability, Operation, format_size};
use seekless_record::{Cache, Contest, Differ, Drop, Entry, RandomAccess, Status, Subject};
use seekless_results::{Decider, Group, has_small_files, planned_trials};

use super::files::{laid_out, memory_allowed, memory_for, read_bytes};
use super::first_touch::FirstTouch;
use super::size::{Speeds, Work, files_per_trial, requests, sustained_files, trial_cost};
use super::{BenchError, Runner, needs_directory};
use crate::experiment::{ContestPlan, Layout, Size};
use crate::read_ahead::ReadAhead;

impl Runner<'_> {
    /// Decides what is measured, and says what will be written before anything is.
    pub(super) fn plan(&mut self) -> Result<Decider, BenchError> {
        let groups = if self.bench.resume.is_some() {
            self.remaining_groups()?
        } else {
            self.new_groups()?
        };
        // Another order each time the run is resumed, and the same when the same is done again.
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
        let plans: Vec<(String, ContestPlan)> = self.plans();
        if plans.is_empty() {
            return Err(BenchError::NothingToRead);
        }
        let speeds = self.calibrate()?;
        let mut groups = Vec::new();
        for ((experiment, plan), sizes) in plans.iter().zip(self.choose_sizes(&plans, &speeds)) {
            for (layout, bytes) in sizes {
                for description in self.descriptions(plan, &layout, bytes, &speeds) {
                    let mut group = self.group(experiment, plan, &description);
                    group.expected = self.expected(&group, &speeds, planned_trials(group.active(&self.run).len()));
                    groups.push(group);
                }
            }
        }
        Ok(groups)
    }

    /// What so many trials of a group take. A sustained write is one on each storage, and ends with the budget.
    pub(super) fn expected(&self, group: &Group, speeds: &Speeds, trials: usize) -> Duration {
        let contest = &self.run.contests[group.contests[0]];
        let trial = trial_cost(&Work::of(contest), speeds);
        if !contest.sustained {
            return trial * trials as u32;
        }
        let longest = self.bench.rounds.map_or(self.bench.budget, |_| Duration::MAX);
        trial.min(longest) * group.contests.len() as u32
    }

    /// What is ranked on its own among files of a size.
    fn descriptions(&self, plan: &ContestPlan, layout: &Layout, bytes: u64, speeds: &Speeds) -> Vec<Description> {
        let mut descriptions = Vec::new();
        for cache in self.caches_of(plan) {
            for &differ in &plan.differs {
                for &read_ahead_kib in &plan.read_ahead_kib {
                    for (durability, random) in kinds(plan) {
                        let read_bytes = read_bytes(plan, durability, differ, bytes);
                        let files = if plan.sustained {
                            sustained_files(bytes)
                        } else {
                            (bytes, files_per_trial(plan, durability, bytes))
                        };
                        descriptions.push(Description {
                            bytes,
                            files,
                            layout: layout.clone(),
                            read_bytes,
                            memory_bytes: (cache == Cache::Over).then(|| memory_allowed(plan, read_bytes)),
                            cache,
                            differ,
                            read_ahead_kib,
                            durability,
                            random: random.map(|(block_bytes, depth)| RandomAccess {
                                block_bytes,
                                depth,
                                requests: requests(depth, cache, durability, speeds),
                            }),
                        });
                    }
                }
            }
        }
        descriptions
    }

    /// The contests asked for, with what the command line says instead.
    fn plans(&self) -> Vec<(String, ContestPlan)> {
        let all = self.bench.experiments.iter();
        let all = all.flat_map(|experiment| {
            experiment
                .contests
                .iter()
                .map(|contest| (experiment.name.clone(), contest.clone()))
        });
        let is_only_read = self.places.iter().any(|place| place.scratch.is_none());
        let readable = all.filter(|(_, plan)| !is_only_read || !needs_directory(plan.operation));
        readable
            .map(|(name, mut plan)| {
                if !self.bench.sizes.is_empty() {
                    let sizes: Vec<Size> = self.bench.sizes.iter().map(|&bytes| Size::Bytes(bytes)).collect();
                    plan.memory_bytes = memory_for(&plan, &sizes);
                    plan.sizes = sizes;
                }
                if let Some(bytes) = self.places.iter().find_map(super::Place::given_bytes) {
                    plan.sizes = vec![Size::Bytes(bytes)];
                    plan.layouts = vec![Layout::Dense];
                }
                // A copy looks at no bytes, and comparing is a method's own, so there is no work to make dearer.
                if matches!(plan.operation, Operation::Read | Operation::Write) {
                    plan.work_ns_per_kib = self.bench.work_ns_per_kib.unwrap_or(plan.work_ns_per_kib);
                }
                (name, plan)
            })
            .collect()
    }

    /// The cache states of a plan; a write of a fresh file has none.
    pub(super) fn caches_of(&self, plan: &ContestPlan) -> Vec<Cache> {
        if self.bench.first_touch.is_some() {
            return vec![Cache::FirstTouch];
        }
        if !self.bench.caches.is_empty() && plan.operation != Operation::Write {
            return self.bench.caches.clone();
        }
        // Where nothing can be cold, a plan of cold trials alone would measure nothing.
        if plan.caches == [Cache::Cold] && self.places.iter().all(|place| !place.has_cold) {
            return vec![Cache::Warm];
        }
        plan.caches.clone()
    }

    /// Makes the contests of one description, one for each storage.
    fn group(&mut self, experiment: &str, plan: &ContestPlan, description: &Description) -> Group {
        let (bytes, durability) = (description.bytes, description.durability);
        let (size_bytes, files) = description.files;
        let mut group = Group::default();
        group.round_limit = self.places[0].first_touch.as_ref().map(FirstTouch::rounds);
        group.round_limit = group.round_limit.or(plan.sustained.then_some(1));
        let random = description.random.map(|random| (random.block_bytes, random.depth));
        let same = |choice: &&Choice| kind(choice) == (durability, random);
        let methods: Vec<Choice> = plan.methods.iter().filter(same).copied().collect();
        for storage in 0..self.measured_places() {
            let mut entries = Vec::new();
            for choice in &methods {
                let refused = self.refuses(Some(choice), storage, description);
                entries.push(entry(Subject::from(*choice), label(plan, choice), refused));
            }
            for command in &plan.commands {
                let refused = refuses_command(plan, description).or_else(|| self.refuses(None, storage, description));
                entries.push(entry(Subject::Command(command.clone()), None, refused));
            }
            group.contests.push(self.run.contests.len());
            let mut contest = Contest {
                experiment: experiment.to_owned(),
                operation: plan.operation,
                storage,
                other_storage: self
                    .other_place()
                    .filter(|_| plan.operation == Operation::Compare && description.differ != Differ::Itself),
                size_bytes,
                size_chosen: !laid_out(plan).iter().any(|(_, own)| *own == Some(bytes)),
                files: self.places[storage].given().map_or(files, |(_, files)| files),
                cache: description.cache,
                cold_metadata: false,
                target: plan.target,
                kernel: plan.kernel.name().to_owned(),
                work_ns_per_kib: plan.work_ns_per_kib,
                differ: description.differ,
                read_ahead_kib: description.read_ahead_kib,
                updates: plan.updates,
                sustained: plan.sustained,
                random: description.random,
                layout: (description.layout != Layout::Dense).then(|| description.layout.to_string()),
                memory_bytes: description.memory_bytes,
                mode: None,
                shared_blocks: false,
                holes_skipped: false,
                durability,
                entries,
                conclusion: None,
            };
            contest.cold_metadata = contest.cache == Cache::Cold && has_small_files(&contest) && self.drops_system();
            self.run.contests.push(contest);
        }
        group
    }

    /// Whether all caches of the system are dropped for small files: as asked, or else if it is allowed.
    fn drops_system(&self) -> bool {
        match self.bench.drop {
            Some(drop) => drop == Drop::System,
            None => seekless::cache::drop_system().is_ok(),
        }
    }

    /// The storages that are measured: all but that of the second files, where it is another.
    fn measured_places(&self) -> usize {
        self.places.len() - usize::from(self.bench.other.is_some())
    }

    /// The storage of the second files, where it is another than that of the first.
    fn other_place(&self) -> Option<usize> {
        self.bench.other.as_ref().map(|_| self.places.len() - 1)
    }

    /// Why a method, plan or command has no meaning under a description, or is not to be had.
    fn refuses(&mut self, choice: Option<&Choice>, storage: usize, description: &Description) -> Option<String> {
        let compares = choice.is_some_and(|choice| choice.operation() == Operation::Compare);
        let other = self.other_place().filter(|_| compares);
        let mut places = std::iter::once(storage).chain(other);
        let mut refused = places
            .clone()
            .find_map(|place| self.places[place].refuses(choice, description.cache));
        if description.read_ahead_kib.is_some() {
            refused = refused.or_else(|| ReadAhead::refuses(&self.places[storage].facts));
        }
        if let Some(memory_bytes) = description.memory_bytes
            && description.read_bytes <= memory_bytes
        {
            refused = refused.or_else(|| {
                Some(format!(
                    "files of {} do not exceed the memory allowed, {}",
                    format_size(description.read_bytes),
                    format_size(memory_bytes)
                ))
            });
        }
        let refused = refused.or_else(|| self.places[storage].refuses_layout(&description.layout));
        let Some(method) = choice.and_then(Choice::method) else {
            return refused;
        };
        refused.or_else(|| places.find_map(|place| self.places[place].availability(method).reason().map(str::to_owned)))
    }
}

/// What tells one contest of a plan from another, on one storage.
struct Description {
    /// As asked for, or chosen.
    bytes: u64,
    /// The size of each file, and how many a trial has.
    files: (u64, u32),
    layout: Layout,
    /// Of all files of a trial.
    read_bytes: u64,
    memory_bytes: Option<u64>,
    cache: Cache,
    differ: Differ,
    read_ahead_kib: Option<u64>,
    durability: Durability,
    random: Option<RandomAccess>,
}

fn entry(subject: Subject, label: Option<String>, refused: Option<String>) -> Entry {
    Entry {
        subject,
        label,
        status: refused.map_or(Status::Measured, Status::Unavailable),
        summary: None,
        standing: None,
    }
}

/// The name under which a plan's method was published.
fn label(plan: &ContestPlan, choice: &Choice) -> Option<String> {
    let mut labels = plan.labels.iter();
    labels
        .find(|(known, _)| choice.method() == Some(known))
        .map(|(_, label)| label.clone())
}

/// Why a command cannot be ranked with the methods of a contest: it would do less.
fn refuses_command(plan: &ContestPlan, description: &Description) -> Option<String> {
    if description.random.is_some() {
        return Some("a command cannot be told the blocks that the methods move".to_owned());
    }
    if plan.work_ns_per_kib > 0 {
        return Some("a command cannot be given more work: it would do less than the methods".to_owned());
    }
    let through = description.durability == Durability::WriteThrough;
    through.then(|| "a command cannot be made to write through: it would do less than the methods".to_owned())
}

/// What is never ranked together: durability, and of access at random the block and the depth.
type Kind = (Durability, Option<(u64, u32)>);

fn kind(choice: &Choice) -> Kind {
    let options = choice.method().map(Method::options);
    let random = options.filter(|options| options.access() == AccessPattern::Random);
    let requests = random.and_then(|options| Some((options.block_bytes()?, options.depth().unwrap_or(1))));
    (choice.durability(), requests)
}

/// The kinds among a plan's methods, each once: from the start of the files first, then by durability.
fn kinds(plan: &ContestPlan) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = plan.methods.iter().map(kind).collect();
    if kinds.is_empty() {
        kinds.push((Durability::None, None));
    }
    kinds.sort_by_key(|&(durability, random)| (random, durability));
    kinds.dedup();
    kinds
}
