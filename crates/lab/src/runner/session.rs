//! A run in progress: planning it, and running the trials that the [`Decider`] asks for.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use seekless_engine::method::Operation;
use seekless_engine::profile::{StorageProfile, StorageUses};
use seekless_record::{Contest, Ended, EntryVerdict, NoiseFloor, Run};
use seekless_results::{Decider, Group, Next, bytes, conclude_now, other_io, planned_trials, warnings};

use super::calibrate::Calibration;
use super::needs::{Needs, check_most_written, turn_bytes};
use super::plan::{TrialPlanner, plans};
use super::setup::UnrecordedTrial;
use super::size::{Speeds, expected};
use super::storage::MeasuredStorage;
use super::{Bench, BenchError, Event, RunWatch, new_run, resume};
use crate::layout::Layout;
use crate::noise::{self, Load};
use crate::read_ahead::ReadAhead;
use crate::testfile::{TestFileSet, stored_otherwise};
use crate::trial::LaunchStop;

/// The number of trials that do nothing, which measure the lab's own cost.
const NULL_TRIALS: usize = 7;

/// A run in progress.
pub(super) struct BenchSession<'a> {
    pub bench: &'a Bench,
    pub stop: &'a LaunchStop,
    pub watch: &'a mut dyn RunWatch,
    pub storages: Vec<MeasuredStorage>,
    pub run: Run,
    pub clock: RunClock,
    /// The announced limit on bytes written in all trials, and the bytes written so far.
    write_limit_bytes: u64,
    /// Whether a trial was left out because of it.
    is_write_limited: Cell<bool>,
    pub written_bytes: u64,
    pub before: TrialsBefore,
}

/// The time of a run.
pub(super) struct RunClock {
    pub started: Instant,
    /// Seconds that the run had measured before it was resumed.
    seconds_before: f64,
    checkpoint: Instant,
    /// The load of the processors at the start.
    load: Load,
}

impl RunClock {
    /// Seconds of measuring so far, including those before the run was resumed.
    pub fn measured_seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }
}

/// What matters of earlier trials for the next.
#[derive(Default)]
pub(super) struct TrialsBefore {
    /// The number of trials with random overwrites; each writes other bytes.
    pub overwrites: u64,
    /// The group of the last trial.
    pub last_group: Option<usize>,
    /// The entries that were measured since all caches of the system were dropped; `None` if they never were.
    pub ran_since_drop: Option<BTreeSet<String>>,
    /// By contest: the hash of the output, if its commands must print the same.
    pub printed: BTreeMap<usize, u64>,
}

impl<'a> BenchSession<'a> {
    pub fn new(bench: &'a Bench, stop: &'a LaunchStop, watch: &'a mut dyn RunWatch) -> Result<Self, BenchError> {
        let started = Instant::now();
        let storages = MeasuredStorage::open_all(bench)?;
        let run = match &bench.resume {
            None => new_run(bench, &storages),
            Some(run) => resume::resumed(run, &storages, bench)?,
        };
        Ok(Self {
            bench,
            stop,
            watch,
            storages,
            clock: RunClock {
                started,
                seconds_before: run.elapsed_seconds,
                checkpoint: started,
                load: Load::now(),
            },
            run,
            write_limit_bytes: u64::MAX,
            is_write_limited: Cell::new(false),
            written_bytes: 0,
            before: TrialsBefore::default(),
        })
    }

    /// Measures the lab's own cost. Returns the time of a whole trial that does nothing, including its process.
    pub fn measure_lab(&mut self) -> Result<Duration, BenchError> {
        let mut walls = Vec::new();
        for _ in 0..NULL_TRIALS {
            let start = Instant::now();
            self.run.lab_cost.null_seconds.extend(self.null_trial()?);
            walls.push(start.elapsed());
        }
        walls.sort();
        let (first, second) = noise::touch_bytes_per_second();
        self.run.lab_cost.first_touch_bytes_per_second = Some(first);
        self.run.lab_cost.second_touch_bytes_per_second = Some(second);
        self.run.lab_cost.producer_bytes_per_second = Some(noise::producer_bytes_per_second());
        Ok(walls[NULL_TRIALS / 2])
    }

    /// Lists what is measured, checks that there is enough space, and announces how much will be written.
    pub fn plan(&mut self, trial_overhead: Duration) -> Result<Decider, BenchError> {
        let (groups, speeds) = if self.bench.resume.is_some() {
            self.remaining_groups(trial_overhead)?
        } else {
            self.new_groups(trial_overhead)?
        };
        // A resumed run has another order each time, but the same for the same seed.
        let seed = self.bench.seed.wrapping_add(self.run.resumed_at_seconds.len() as u64);
        let decider = Decider::new(&self.run, groups, self.bench.rounds, self.bench.budget, seed);
        let needs = Needs {
            bench: self.bench,
            run: &self.run,
            storages: &self.storages,
            speeds: &speeds,
            calibrated_bytes: self.calibration().bytes_before_trials(),
        };
        let planned = needs.planned(&decider)?;
        if let Event::Planned {
            write_bytes,
            needed,
            one_by_one,
            ..
        } = planned
        {
            self.write_limit_bytes = write_bytes;
            if one_by_one {
                self.run.warnings.push(format!(
                    "All of this takes about {} min, and the budget was {} s: contests were measured one after the other, \
                     the smallest files first. `seekless bench --resume {}` measures the rest; --methods and --size \
                     choose less.",
                    needed.as_secs().div_ceil(60),
                    self.bench.budget.as_secs(),
                    self.run.id,
                ));
            }
        }
        self.watch.event(&planned);
        Ok(decider)
    }

    /// The groups of the experiments asked for.
    fn new_groups(&mut self, trial_overhead: Duration) -> Result<(Vec<Group>, Speeds), BenchError> {
        self.find_trees();
        if let Some(note) = self.storages[0]
            .given_file()
            .and_then(|file| stored_otherwise(&file.path))
        {
            self.run.alone = true;
            self.run.warnings.push(note);
        }
        let plans = plans(self.bench, &self.storages);
        if plans.is_empty() {
            return Err(BenchError::NothingToRead);
        }
        let may_drop_system = seekless_engine::cache::may_drop_system().is_ok();
        let list = |session: &Self, speeds: &Speeds| {
            let planner = TrialPlanner {
                bench: session.bench,
                storages: &session.storages,
                speeds,
                may_drop_system,
            };
            planner.list(&plans)
        };
        if let Some(most) = self
            .bench
            .most_written
            .filter(|_| self.storages[0].given_file().is_none())
        {
            let least = list(self, &self.calibration().slowest());
            check_most_written(
                most,
                self.calibration().bytes_before_trials(),
                least.groups.iter().flatten(),
            )?;
        }
        let speeds = self.calibrate(trial_overhead)?;
        let mut list = list(self, &speeds);
        let directory = &self.storages[0].directory;
        let off = StorageProfile::for_plans(directory).map(|profile| {
            let uses = StorageUses::summaries_at(directory).into_iter();
            uses.filter(|uses| profile.is_off(uses))
                .map(|uses| uses.conditions)
                .collect::<Vec<_>>()
        });
        list.begin_with(&off.unwrap_or_default());
        self.run.choices.extend(list.choices);
        let mut groups = Vec::new();
        for contests in list.groups {
            let mut group = Group::default();
            group.is_once = contests[0].sustained;
            for contest in contests {
                group.contests.push(self.run.contests.len());
                self.run.contests.push(contest);
                self.try_entries(self.run.contests.len() - 1);
            }
            let trials = planned_trials(group.active(&self.run).len());
            group.expected = expected(self.bench, &self.run.contests, &group, &speeds, trials);
            groups.push(group);
        }
        Ok((groups, speeds))
    }

    fn calibration(&self) -> Calibration<'_> {
        Calibration {
            bench: self.bench,
            storages: &self.storages,
        }
    }

    fn calibrate(&mut self, trial_overhead: Duration) -> Result<Speeds, BenchError> {
        let (bench, storages) = (self.bench, &*self.storages);
        Calibration { bench, storages }.measure(trial_overhead, &mut self.run, self.watch)
    }

    /// Finds the files of the directories that experiments name, on each storage.
    fn find_trees(&mut self) {
        if self.storages.iter().any(|storage| storage.scratch.is_none()) {
            // Only the given files are read.
            return;
        }
        let measured = self.storages.len() - usize::from(self.bench.second().is_some());
        for experiment in &self.bench.experiments {
            for named in experiment.contests.iter().filter_map(|plan| plan.common.tree.as_ref()) {
                for storage in &mut self.storages[..measured] {
                    let tree = storage.tree(named, self.stop);
                    let Some(tree) = tree.ok().filter(|tree| tree.unreadable > 0) else {
                        continue;
                    };
                    let choice = format!(
                        "{}: {}: left out: {} not readable",
                        experiment.name, tree.path, tree.unreadable
                    );
                    if !self.run.choices.contains(&choice) {
                        self.run.choices.push(choice);
                    }
                }
            }
        }
    }

    /// Tries on its storages whether what a contest needs is available.
    fn try_entries(&mut self, contest: usize) {
        let contest = &mut self.run.contests[contest];
        let layout = Layout::of(contest);
        // A copy to another storage is tried from the first.
        let other = contest.other_storage.filter(|_| contest.operation != Operation::Copy);
        let places = [Some(contest.storage), other];
        for entry in contest.entries.iter_mut().filter(|entry| entry.verdict.is_measured()) {
            let choice = entry.choice();
            let method = choice.as_ref().and_then(seekless_engine::Choice::method);
            let facts = &self.storages[contest.storage].facts;
            let no_window = contest.read_ahead_kib.and_then(|_| ReadAhead::refuses(facts));
            let mut storages = places.into_iter().flatten();
            let refused =
                no_window.or_else(|| storages.find_map(|index| self.storages[index].refuses(&layout, method)));
            if let Some(why) = refused {
                entry.verdict = EntryVerdict::unavailable(why);
            }
        }
    }

    /// The groups of a run to resume with something left to measure.
    fn remaining_groups(&mut self, trial_overhead: Duration) -> Result<(Vec<Group>, Speeds), BenchError> {
        let mut groups = Group::remaining(&mut self.run);
        if groups.is_empty() {
            return Err(BenchError::AllMeasured(self.run.id.clone()));
        }
        if let Some(most) = self
            .bench
            .most_written
            .filter(|_| self.storages[0].given_file().is_none())
        {
            let left = groups.iter().flat_map(|group| &group.contests);
            check_most_written(
                most,
                self.calibration().bytes_before_trials(),
                left.map(|&contest| &self.run.contests[contest]),
            )?;
        }
        let speeds = self.calibrate(trial_overhead)?;
        for group in &mut groups {
            let is_of_group = |trial: &&seekless_record::Trial| group.contests.contains(&trial.contest);
            let done = self.run.trials.iter().filter(is_of_group).count();
            let planned = planned_trials(group.active(&self.run).len());
            let trials = planned.saturating_sub(done).max(FEWEST_TRIALS);
            group.expected = expected(self.bench, &self.run.contests, group, &speeds, trials);
        }
        Ok((groups, speeds))
    }

    /// Runs the trials that the decider requests, until there are no more.
    pub fn measure(&mut self, mut decider: Decider) -> Result<(), BenchError> {
        while let Some(next) = self.next(&mut decider) {
            match next {
                Next::Files(contests) => match self.make_files(&contests) {
                    // The results so far are kept. Each trial tries again to make files, and reports the error.
                    Err(_) if self.stop.is_requested() || !self.run.trials.is_empty() => {}
                    made => made?,
                },
                Next::Trial(turn) => {
                    let tried = self.trial(&mut decider, turn);
                    let is_due = self.clock.checkpoint.elapsed() >= self.bench.checkpoint;
                    if is_due || tried.is_err() && !self.run.trials.is_empty() {
                        self.tell_checkpoint();
                    }
                    tried?;
                }
            }
        }
        // Save before the test files are removed, because that may take a while, in which a second signal may come.
        if self.stop.is_requested() && !self.run.trials.is_empty() {
            self.tell_checkpoint();
        }
        Ok(())
    }

    fn next(&mut self, decider: &mut Decider) -> Option<Next> {
        let elapsed = if self.stop.is_requested() {
            Duration::MAX
        } else {
            self.clock.started.elapsed()
        };
        let is_unlimited = self.bench.rounds.is_some() && self.bench.most_written.is_none();
        let left = self.left_to_write();
        let (storages, is_limited) = (&self.storages, &self.is_write_limited);
        decider.next(&mut self.run, elapsed, |contest| {
            let fits = is_unlimited || missing_bytes(storages, contest).saturating_add(turn_bytes(contest)) <= left;
            is_limited.set(is_limited.get() || !fits);
            fits
        })
    }

    /// The bytes written so far, without those that measure the speed.
    fn all_written(&self) -> u64 {
        let made = self.storages.iter().map(|storage| storage.made_bytes);
        made.sum::<u64>() + self.written_bytes
    }

    fn left_to_write(&self) -> u64 {
        self.write_limit_bytes.saturating_sub(self.all_written())
    }

    /// Makes the test files of contests.
    fn make_files(&mut self, contests: &[usize]) -> Result<(), BenchError> {
        for &contest in contests {
            let contest = &self.run.contests[contest];
            let wanted: Vec<_> = TestFileSet::of(contest).collect();
            if wanted.is_empty() || self.storages[contest.storage].given_file().is_some() || self.stop.is_requested() {
                continue;
            }
            let is_limited = self.bench.rounds.is_none() || self.bench.most_written.is_some();
            if is_limited && missing_bytes(&self.storages, contest) > self.left_to_write() {
                self.is_write_limited.set(true);
                continue;
            }
            self.watch.event(&Event::Making {
                bytes: wanted.iter().map(|(_, files)| files.written_bytes()).sum(),
            });
            for (storage, files) in wanted {
                if let Err(UnrecordedTrial::Failed(error)) =
                    self.storages[storage].files(&files, self.bench.seed, self.stop)
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Run {
        if self.stop.is_requested() {
            self.run.ended = Ended::Interrupted;
        }
        if self.is_write_limited.get() {
            let [written, most] = [self.all_written(), self.write_limit_bytes].map(bytes);
            let note = format!("Writing ended after {written}: at most {most} were allowed.");
            self.run.warnings.push(note);
        }
        let clock = &self.clock;
        conclude_now(&mut self.run);
        let (stolen, others) = Load::now().noise_since(clock.load).unzip();
        let seconds = clock.started.elapsed().as_secs_f64();
        let over_time = |before: Option<f64>, now: Option<f64>| {
            let before = before.map(|part| (part, clock.seconds_before));
            resume::over_time(before, now.map(|part| (part, seconds)))
        };
        self.run.noise = NoiseFloor {
            stolen: over_time(self.run.noise.stolen, stolen),
            others: over_time(self.run.noise.others, others),
            other_io: other_io(&self.run.trials),
        };
        // The warning about a busy machine comes first.
        let mut found = warnings(&self.run);
        found.append(&mut self.run.warnings);
        self.run.warnings = found;
        self.run.elapsed_seconds = self.clock.measured_seconds();
        self.run
    }

    /// Reports the run so far.
    fn tell_checkpoint(&mut self) {
        let run = self.run.clone();
        conclude_now(&mut self.run);
        self.run.elapsed_seconds = self.clock.measured_seconds();
        self.run.ended = Ended::Interrupted;
        self.watch.event(&Event::Checkpoint(&self.run));
        // The conclusions, and entries marked as unmeasured, are only for the document; the run continues without them.
        self.run = run;
        self.clock.checkpoint = Instant::now();
    }
}

/// The bytes to write for the test files of a contest that do not exist yet.
fn missing_bytes(storages: &[MeasuredStorage], contest: &Contest) -> u64 {
    if storages[contest.storage].given_file().is_some() {
        return 0;
    }
    let sets = TestFileSet::of(contest).filter(|(storage, files)| storages[*storage].made(files).is_empty());
    sets.fold(0, |all, (_, files)| all.saturating_add(files.written_bytes()))
}

/// The number of trials expected in a group that is mostly done.
const FEWEST_TRIALS: usize = 9;
