//! One trial from the parent's side: prepare, verify, run, check, record.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use seekless_engine::full_text;
use seekless_engine::method::{Durability, Operation};
use seekless_record::{self as record, Cache, Contest, Differ, Entry, EntryVerdict, Phase, Target, Trial};
use seekless_results::{Decider, Turn, chosen_size, has_settled, title};

use super::apart::{ContestWork, move_apart};
use super::check::{Invalid, STRAY_PART, TrialCheck, mode_of, wrong_output};
use super::needs::{trial_bytes, trial_wrote, writes};
use super::setup::{TrialSetup, UnrecordedTrial, target_seed};
use super::size::is_small_and_warm;
use super::storage::{MeasuredStorage, of_contest, read_by};
use super::{BenchError, BenchSession, Event};
use crate::cache_state::{self, CacheState, JudgedFiles};
use crate::cgroup::MemoryGroup;
use crate::read_ahead::ReadAhead;
use crate::testfile::{TestFileRole, TestFileSet, write_stream};
use crate::trial::account;
use crate::trial::{Child, LaunchError, TrialPaths, TrialReport, TrialRequest, visits};

/// What the child reports, and the cache state before.
type Measured = Result<(TrialReport, CacheState), UnrecordedTrial>;

impl BenchSession<'_> {
    /// Runs one trial and records it, or the failure of its entry. After the first measurement, an error ends only its
    /// entry, not the run.
    pub(super) fn trial(&mut self, decider: &mut Decider, turn: Turn) -> Result<(), BenchError> {
        let storage = self.run.contests[turn.contest].storage;
        self.storages[storage].require_given()?;
        let tried = self.try_trial(decider, turn);
        let is_valid = tried.is_ok() && self.run.trials.last().is_some_and(|trial| trial.valid);
        if !is_valid && !self.stop.is_requested() {
            self.storages[storage].require_given()?;
        }
        match tried {
            Ok(()) | Err(UnrecordedTrial::Stopped) => {}
            Err(UnrecordedTrial::Retired(verdict)) => self.retire(turn, verdict),
            // The entry did not fail.
            Err(UnrecordedTrial::Failed(_)) if self.stop.is_requested() => {}
            Err(UnrecordedTrial::Failed(error)) if self.run.trials.is_empty() => return Err(error),
            Err(UnrecordedTrial::Failed(error)) => self.retire(turn, EntryVerdict::failed(full_text(&error))),
        }
        Ok(())
    }

    fn try_trial(&mut self, decider: &mut Decider, turn: Turn) -> Result<(), UnrecordedTrial> {
        let contest = self.run.contests[turn.contest].clone();
        let entry = &contest.entries[turn.entry];
        self.watch.event(&Event::Trial {
            contest: title(&contest),
            method: &entry.name(),
            round: turn.round + 1,
            phase: turn.phase,
            left: self.left(),
        });
        self.warm_up(turn, &contest);
        self.note_program(&contest, entry);
        let at_seconds = self.clock.measured_seconds();
        let (mut setup, measured) = self.run_once(turn, &contest)?;
        let (report, state) = measured?;
        if let Some(updated) = &report.trial.updated {
            self.written_bytes =
                self.written_bytes.saturating_sub(trial_bytes(&contest)) + trial_wrote(&contest, updated);
        }
        let mut trial = reported(turn, at_seconds, &report);
        if let Some(seconds) = &trial.segment_seconds {
            setup.targets.truncate(seconds.len());
            self.tell_end(&contest, seconds);
        }
        let check = TrialCheck {
            storages: &self.storages,
            stop: self.stop,
            seed: self.bench.seed,
            trials: self.run.trials.len(),
            setup: &setup,
            report: &report,
        };
        let (mut invalid, work) = check.run(state, &mut trial);
        if invalid.is_some() && self.stop.is_requested() {
            // What was to be checked was not read to its end.
            return Err(UnrecordedTrial::Stopped);
        }
        if let Some(printed) = report.printed {
            let first = *self.before.printed.entry(turn.contest).or_insert(printed);
            invalid = wrong_output(first, printed).or(invalid);
        }
        trial.valid = invalid.is_none();
        trial.invalid = invalid.as_ref().map(ToString::to_string);
        if work == ContestWork::of(&contest) {
            self.run.trials.push(trial);
            if let Some(wrong @ Invalid::Result(_)) = invalid {
                self.retire(turn, EntryVerdict::failed(wrong.to_string()));
            }
        } else {
            move_apart(
                &mut self.run,
                &mut decider.groups[turn.group].contests,
                turn,
                trial,
                work,
            );
        }
        self.tell_mode(&report);
        Ok(())
    }

    /// Runs a trial that is discarded where the next would not find what all others find. If it
    /// fails, the next one fails, too, and reports why.
    fn warm_up(&mut self, turn: Turn, contest: &Contest) {
        let begins_round = self.before.last_group.replace(turn.group) != Some(turn.group);
        if begins_round && is_small_and_warm(contest) || self.is_program_dropped(contest, &contest.entries[turn.entry])
        {
            let _ = self.run_once(turn, contest);
        }
    }

    /// Sets a trial up and runs it; what it writes is counted.
    fn run_once(&mut self, turn: Turn, contest: &Contest) -> Result<(TrialSetup, Measured), UnrecordedTrial> {
        let entry = &contest.entries[turn.entry];
        if writes(contest, entry) {
            self.written_bytes += trial_bytes(contest);
        }
        let setup = self.set_up(turn, contest)?;
        let measured = self.run_child(&setup);
        self.note_written(&setup, measured.is_ok());
        Ok((setup, measured))
    }

    /// Whether a command would read its program from the device although its files are in memory, because all caches of
    /// the system were dropped since it ran.
    fn is_program_dropped(&self, contest: &Contest, entry: &Entry) -> bool {
        let is_dropped = |ran: &BTreeSet<String>| !ran.contains(&*entry.name());
        contest.cache == Cache::Warm
            && entry.command().is_some()
            && self.before.ran_since_drop.as_ref().is_some_and(is_dropped)
    }

    /// Records that a command runs, and that all caches of the system are dropped before, if its contest does that.
    fn note_program(&mut self, contest: &Contest, entry: &Entry) {
        if contest.cold_metadata || contest.cache == Cache::Cold && self.run.drop == record::DropScope::System {
            self.before.ran_since_drop = Some(BTreeSet::new());
        }
        if let Some(ran) = &mut self.before.ran_since_drop {
            ran.insert(entry.name().into_owned());
        }
    }

    /// Records the random overwrites of a trial. If they are unknown, the files are made again.
    fn note_written(&mut self, setup: &TrialSetup, was_measured: bool) {
        let is_overwritten = |set: &TestFileSet| matches!(set.role, TestFileRole::Overwritten(_));
        for (storage, overwritten) in TestFileSet::of(&setup.contest).filter(|(_, set)| is_overwritten(set)) {
            let storage = &mut self.storages[storage];
            match storage.files(&overwritten, self.bench.seed, self.stop) {
                Ok(held) if was_measured => {
                    for (file, visits) in held.iter_mut().zip(&setup.visits) {
                        file.written(visits, setup.seed);
                    }
                }
                _ => storage.remove(&overwritten),
            }
        }
    }

    /// Records the most frequent byte that the last trial found.
    fn tell_mode(&mut self, report: &TrialReport) {
        if let Some(trial) = self.run.trials.last().filter(|trial| trial.valid) {
            let mode = &mut self.run.contests[trial.contest].mode;
            *mode = mode.or_else(|| report.answers.first().and_then(mode_of));
        }
    }

    /// Says why a sustained write ended early.
    fn tell_end(&mut self, contest: &Contest, seconds: &[f64]) {
        if seconds.len() >= contest.files as usize {
            return;
        }
        let why = if contest.size_chosen && has_settled(seconds) {
            "its rate fell and then stayed steady"
        } else {
            "the time or the free space was used up"
        };
        let written = chosen_size(contest.size_bytes * seconds.len() as u64);
        let name = &contest.experiment;
        self.run.choices.push(format!("{name}: ended after {written}: {why}"));
    }

    /// Ends the measuring of an entry.
    fn retire(&mut self, turn: Turn, verdict: EntryVerdict) {
        self.run.contests[turn.contest].entries[turn.entry].verdict = verdict;
    }

    /// A trial with its files: existing sources, and future targets.
    fn set_up(&mut self, turn: Turn, contest: &Contest) -> Result<TrialSetup, UnrecordedTrial> {
        let storage = &mut self.storages[contest.storage];
        let mut files = TrialSetup {
            entry: contest.entries[turn.entry].clone(),
            contest: contest.clone(),
            sources: Vec::new(),
            others: Vec::new(),
            targets: Vec::new(),
            visits: Vec::new(),
            draw_seed: round_seed(self.bench.seed, turn),
            seed: self.bench.seed,
        };
        if let Some(path) = &contest.tree {
            let tree = storage.tree(path, self.stop).map_err(UnrecordedTrial::unavailable)?;
            if tree.size() != (contest.files, contest.size_bytes) {
                let why = format!("{path}: its files have changed since the run began");
                return Err(UnrecordedTrial::unavailable(why));
            }
            files.sources.clone_from(&tree.files);
        }
        if contest.part_of_bytes.is_some() {
            files
                .sources
                .extend(storage.part_of_given(contest.size_bytes, files.draw_seed));
            return Ok(files);
        }
        for (storage, wanted) in TestFileSet::of(contest) {
            let made = self.storages[storage].files(&wanted, self.bench.seed, self.stop)?;
            match wanted.role {
                TestFileRole::Source => files.sources.clone_from(made),
                TestFileRole::Second(_) => files.others.clone_from(made),
                TestFileRole::Overwritten(_) => {
                    files.targets.extend(made.iter().map(|file| file.path.clone()));
                    self.before.overwrites += 1;
                    files.seed = files.seed.wrapping_sub(self.before.overwrites);
                }
            }
        }
        if contest.differ == Differ::Itself {
            files.others.clone_from(&files.sources);
        }
        files.visits = visits(contest, files.draw_seed);
        self.make_targets(contest, &mut files)?;
        Ok(files)
    }

    /// Names the targets that a trial writes, and makes those that it writes over.
    fn make_targets(&self, contest: &Contest, files: &mut TrialSetup) -> Result<(), UnrecordedTrial> {
        let may_write =
            !matches!(contest.operation, Operation::Read | Operation::Scan) || files.entry.command().is_some();
        if !files.targets.is_empty() || !may_write {
            return Ok(());
        }
        let is_copy = contest.operation == Operation::Copy;
        let other = contest.other_storage.filter(|_| is_copy);
        let storage = &self.storages[other.unwrap_or(contest.storage)];
        let count = if contest.tree.is_some() { 1 } else { contest.files };
        let targets = (0..count).map(|index| storage.path(&format!("target-{index}")));
        files.targets = targets.collect();
        for path in files.targets.iter().filter(|_| contest.target == Target::Overwrite) {
            // Other bytes than the trial writes, so that missing writes are found.
            let is_stopped = || self.stop.is_requested();
            write_stream(
                Durability::Fsync,
                path,
                contest.size_bytes,
                target_seed(self.bench.seed),
                &is_stopped,
            )?;
        }
        Ok(())
    }

    /// Starts the child, brings the page cache into its state when the child is ready, and runs it.
    fn run_child(&self, setup: &TrialSetup) -> Measured {
        let contest = &setup.contest;
        let storage = &self.storages[contest.storage];
        let memory_bytes = (contest.cache == Cache::Over).then(|| {
            let half = setup.read().map(|file| file.bytes).sum::<u64>() / 2;
            contest.memory_bytes.unwrap_or(half)
        });
        let group = memory_bytes.map(MemoryGroup::new).transpose();
        let group = group.map_err(UnrecordedTrial::unavailable)?;
        self.settle();
        let set = |kib| ReadAhead::set(&storage.facts, kib);
        let read_ahead = contest.read_ahead_kib.map(set).transpose();
        let _read_ahead = read_ahead.map_err(UnrecordedTrial::unavailable)?;
        if contest.cache == Cache::Over {
            cache_state::bring(
                setup.held(contest.target),
                Cache::Over,
                self.run.drop,
                JudgedFiles::Each,
                &|| self.stop.is_requested(),
            )?;
        }
        let spec = TrialRequest {
            contest: Some(Contest {
                entries: vec![setup.entry.clone()],
                ..contest.clone()
            }),
            jobs: setup.paths(),
            seed: setup.seed,
            draw_seed: setup.draw_seed,
            device_directories: self.device_directories(contest),
            cgroup: group.as_ref().map(|group| group.path().into()),
            seconds_left: self.left().map(|left| left.as_secs_f64()),
            spare_bytes: storage.facts.free_bytes / 10,
        };
        let child = Child::start(&self.bench.program, &spec, self.stop).map_err(|error| self.unlaunched(error))?;
        let state = match memory_bytes {
            Some(memory_bytes) => cache_state::rehearsed(setup.held(contest.target), memory_bytes)?,
            None => self.bring(setup)?,
        };
        // A trial may take half a minute longer than the budget; then it is ended, because it may hang.
        let limit = self.left().map_or(Duration::MAX, |left| left + PATIENCE);
        let outcome = child.run(limit).map_err(|error| self.unlaunched(error))?;
        Ok((outcome.map_err(UnrecordedTrial::Retired)?, state))
    }

    fn unlaunched(&self, error: LaunchError) -> UnrecordedTrial {
        match error {
            // Ended with the run.
            _ if self.stop.is_requested() => UnrecordedTrial::Stopped,
            LaunchError::Ended(_) | LaunchError::TooLong(_) => {
                UnrecordedTrial::Retired(EntryVerdict::failed(full_text(&error)))
            }
            other => other.into(),
        }
    }

    /// What is left of the budget; `None` where rounds are given instead.
    fn left(&self) -> Option<Duration> {
        let left = self.bench.budget.saturating_sub(self.clock.started.elapsed());
        self.bench.rounds.is_none().then_some(left)
    }

    /// Brings the files of a trial, and the backing file of a loop, into the cache state of its contest. If there are
    /// other caches than the page cache, the residency is unknown.
    fn bring(&self, setup: &TrialSetup) -> Result<CacheState, BenchError> {
        let contest = &setup.contest;
        let storage = &self.storages[contest.storage];
        let cache = match contest.cache {
            // A file that is written over is cold.
            Cache::None if contest.target == Target::Overwrite && storage.has_cold => Cache::Cold,
            other => other,
        };
        let drop = if contest.cold_metadata {
            record::DropScope::System
        } else {
            self.run.drop
        };
        let judged = if contest.tree.is_some() {
            JudgedFiles::Together
        } else {
            JudgedFiles::Each
        };
        if let [part] = setup.sources.as_slice()
            && part.part_start().is_some()
        {
            return Ok(cache_state::bring_part(part, cache, drop, &|| {
                self.stop.is_requested()
            })?);
        }
        let held = setup.held(contest.target);
        let mut state = cache_state::bring(held.clone(), cache, drop, judged, &|| self.stop.is_requested())?;
        // File systems in memory may have no pages for holes, even after reading them.
        if cache == Cache::Warm && !storage.has_cold && cache_state::holds_all_data(held)? {
            state.wrong = None;
        }
        if cache == Cache::Cold
            && let Some(backing) = storage.backing_file()
        {
            let behind = cache_state::bring(std::iter::once(backing), cache, drop, JudgedFiles::Each, &|| {
                self.stop.is_requested()
            })?;
            let wrong = behind.resident.filter(|part| *part > STRAY_PART).map(|part| {
                let percent = part * 100.0;
                format!("{percent:.1} % of the backing file of the loop device was resident")
            });
            state.wrong = state.wrong.or(wrong);
        }
        // If one of two storages has another cache, both residencies are unknown.
        if read_by(&self.storages, contest).all(MeasuredStorage::tells_residency) {
            Ok(state)
        } else {
            Ok(CacheState::UNKNOWN)
        }
    }

    /// The devices that a trial reads and writes, each once.
    fn device_directories(&self, contest: &Contest) -> Vec<OsString> {
        let directories: BTreeSet<_> = of_contest(&self.storages, contest)
            .filter_map(device_directory)
            .collect();
        directories.into_iter().collect()
    }

    /// Waits until earlier writes and removals have reached the devices.
    fn settle(&self) {
        for storage in self.storages.iter().filter(|storage| storage.scratch.is_some()) {
            seekless_engine::cache::sync_storage(&storage.directory);
        }
    }

    /// A trial that does nothing: the seconds inside its clock.
    pub(super) fn null_trial(&self) -> Result<Option<f64>, BenchError> {
        let spec = TrialRequest {
            jobs: vec![TrialPaths::default()],
            device_directories: self.storages.first().and_then(device_directory).into_iter().collect(),
            ..TrialRequest::default()
        };
        let measured = Child::start(&self.bench.program, &spec, self.stop)?.run(Duration::MAX)?;
        Ok(measured.ok().map(|report| report.trial.seconds))
    }
}

/// A trial as it is recorded, before it is checked.
fn reported(turn: Turn, at_seconds: f64, report: &TrialReport) -> Trial {
    let mut trial = Trial {
        contest: turn.contest,
        entry: turn.entry,
        round: turn.round,
        phase: turn.phase,
        at_seconds,
        ..report.trial.clone()
    };
    if let Some(device) = &mut trial.device {
        device.reliable = account::is_device_ours(&report.trial);
    }
    trial
}

/// How much longer than the budget a trial may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn device_directory(storage: &MeasuredStorage) -> Option<OsString> {
    Some(storage.facts.device.as_ref()?.sys_directory.clone().into())
}

/// The seed of the random blocks of a round.
fn round_seed(seed: u64, turn: Turn) -> u64 {
    let is_confirming = u64::from(turn.phase == Phase::Confirming);
    seed.wrapping_add(u64::from(turn.round) << 32 | is_confirming << 63)
}
