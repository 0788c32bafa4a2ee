//! One trial from the parent's side: prepare, verify, run, check, record.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless::method::{Operation, format_size};
use seekless::{Visits, full_text};
use seekless_record::{self as record, Cache, Contest, DeviceUse, Differ, Entry, Phase, Status, Target, Trial};
use seekless_results::{Decider, Turn, has_settled, title};

use super::check::{STRAY_PART, WRONG, mode_of};
use super::first_touch::{FirstTouch, UserFile, are_unchanged, test_files};
use super::needs::{writes, written_bytes};
use super::place::{Place, Role, TestFiles};
use super::size::{SEVERAL_BYTES, all_bytes};
use super::{BenchError, Event, Runner};
use crate::cache_state::{self, Judged, State};
use crate::cgroup::MemoryGroup;
use crate::read_ahead::ReadAhead;
use crate::testfile::{TestFile, write_stream};
use crate::trial::account;
use crate::trial::{Child, Job, LaunchError, Report, Spec, visits};

/// The files of one trial.
#[derive(Default)]
pub(super) struct TrialFiles {
    pub sources: Vec<TestFile>,
    /// The second files of a comparison.
    pub others: Vec<TestFile>,
    pub targets: Vec<PathBuf>,
    /// The sources as they were when they were chosen, for files of the user that are read once.
    pub chosen: Option<Vec<UserFile>>,
    /// For random access, the blocks to move in each file, and the seed of their order.
    pub visits: Vec<Visits>,
    draw_seed: u64,
    /// The seed of the written bytes.
    pub seed: u64,
}

impl TrialFiles {
    /// Whether a file of the user was changed or removed since it was chosen.
    fn are_changed(&self) -> bool {
        self.chosen.as_ref().is_some_and(|files| !are_unchanged(files))
    }

    /// The files that are read, each once.
    pub fn read(&self) -> impl Iterator<Item = &TestFile> + Clone {
        let pairs = self.others.iter().zip(&self.sources);
        let distinct = pairs.filter(|(other, source)| other.path != source.path);
        self.sources.iter().chain(distinct.map(|(other, _)| other))
    }

    /// The files that must be in the cache state of the trial: those that are read or overwritten.
    pub fn held(&self, target: Target) -> impl Iterator<Item = &Path> + Clone {
        let sources = self.read().map(|file| file.path.as_path());
        let targets = self
            .targets
            .iter()
            .filter(move |_| target == Target::Overwrite)
            .map(PathBuf::as_path);
        sources.chain(targets)
    }
}

impl Drop for TrialFiles {
    /// Removes what the trial wrote, except files with random overwrites, which are used again.
    fn drop(&mut self) {
        for path in self.targets.iter().filter(|_| self.visits.is_empty()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Runner<'_> {
    /// Runs one trial and records it, or the failure of its entry. After the first measurement, an error ends only its
    /// entry, not the run.
    pub(super) fn trial(&mut self, decider: &mut Decider, turn: Turn) -> Result<(), BenchError> {
        match self.try_trial(decider, turn) {
            // The entry did not fail.
            Err(_) if self.stop.is_requested() => Ok(()),
            Err(error) if !self.run.trials.is_empty() => {
                self.retire(turn, Status::Failed(full_text(&error)));
                Ok(())
            }
            other => other,
        }
    }

    fn try_trial(&mut self, decider: &mut Decider, turn: Turn) -> Result<(), BenchError> {
        let contest = self.run.contests[turn.contest].clone();
        let entry = &contest.entries[turn.entry];
        self.watch.event(&Event::Trial {
            contest: title(&contest),
            method: &entry.name(),
            round: turn.round + 1,
            phase: turn.phase,
            left: self.left(),
        });
        let begins_round = self.last_group.replace(turn.group) != Some(turn.group);
        if begins_round && is_small_and_warm(&contest) || self.is_program_dropped(&contest, entry) {
            self.throw_away(turn, &contest, entry);
        }
        self.note_program(&contest, entry);
        let at_seconds = self.measured_seconds();
        self.count_written(&contest, entry);
        let mut files = match self.files(turn, &contest) {
            Ok(Some(files)) => files,
            Ok(None) => return Ok(()),
            Err(BenchError::Layout { why, .. } | BenchError::Tree(why)) => {
                self.retire(turn, Status::Unavailable(why));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let measured = self.run_child(&contest, entry, &files);
        let was_measured = matches!(measured, Ok(Ok(_)));
        if !was_measured && files.are_changed() {
            // It is not the method that failed.
            self.places[contest.storage]
                .first_touch
                .iter_mut()
                .for_each(FirstTouch::miss);
            return Ok(());
        }
        self.note_written(&contest, &files, was_measured);
        let (report, state) = match measured? {
            Ok(measured) => measured,
            Err(status) => {
                self.retire(turn, status);
                return Ok(());
            }
        };
        let device = report.trial.device.map(|device| DeviceUse {
            reliable: account::is_device_ours(&report.trial),
            ..device
        });
        let mut trial = Trial {
            contest: turn.contest,
            entry: turn.entry,
            round: turn.round,
            phase: turn.phase,
            at_seconds,
            device,
            resident_before: state.resident,
            valid: state.wrong.is_none(),
            invalid: state.wrong,
            compared_bytes: (files.chosen.is_some()).then(|| all_bytes(&contest)),
            ..report.trial.clone()
        };
        if let Some(seconds) = &trial.segment_seconds {
            files.targets.truncate(seconds.len());
            self.tell_end(&contest, seconds);
        }
        let found = self.check(&contest, entry, &files, &report, &mut trial);
        self.check_printed(turn.contest, &report, &mut trial);
        if files.are_changed() {
            (trial.valid, trial.invalid) = (false, Some("a file changed while it was read".to_owned()));
        }
        if found.is_apart_from(&contest) {
            self.move_apart(decider, turn, trial, found);
        } else {
            let wrong_answer = trial.invalid.clone().filter(|why| why.starts_with(WRONG));
            self.run.trials.push(trial);
            if let Some(why) = wrong_answer {
                self.retire(turn, Status::Failed(why));
            }
        }
        self.tell_mode(&report);
        Ok(())
    }

    /// Runs a trial that is discarded. If it fails, the next one fails, too, and reports why.
    fn throw_away(&mut self, turn: Turn, contest: &Contest, entry: &Entry) {
        self.count_written(contest, entry);
        if let Ok(Some(files)) = self.files(turn, contest) {
            let measured = self.run_child(contest, entry, &files);
            self.note_written(contest, &files, matches!(measured, Ok(Ok(_))));
        }
    }

    /// Whether a command would read its program from the device although its files are in memory, because all caches of
    /// the system were dropped since it ran.
    fn is_program_dropped(&self, contest: &Contest, entry: &Entry) -> bool {
        let is_dropped = |ran: &BTreeSet<String>| !ran.contains(&*entry.name());
        contest.cache == Cache::Warm
            && entry.command().is_some()
            && self.ran_since_drop.as_ref().is_some_and(is_dropped)
    }

    /// Records that a command runs, and that all caches of the system are dropped before, if its contest does that.
    fn note_program(&mut self, contest: &Contest, entry: &Entry) {
        if contest.cold_metadata || contest.cache == Cache::Cold && self.run.drop == record::Drop::System {
            self.ran_since_drop = Some(BTreeSet::new());
        }
        if let Some(ran) = &mut self.ran_since_drop {
            ran.insert(entry.name().into_owned());
        }
    }

    /// Counts the bytes that a trial writes.
    fn count_written(&mut self, contest: &Contest, entry: &Entry) {
        if writes(contest, entry) {
            // A file to overwrite is made first; a file with random overwrites is made only once.
            let is_made = contest.target == Target::Overwrite && contest.random.is_none();
            self.written_bytes += written_bytes(contest) * if is_made { 2 } else { 1 };
        }
    }

    /// Records the random overwrites of a trial. If they are unknown, the files are made again.
    fn note_written(&mut self, contest: &Contest, files: &TrialFiles, was_measured: bool) {
        let is_overwritten = |files: &TestFiles| matches!(files.role, Role::Overwritten(_));
        for (storage, overwritten) in TestFiles::of(contest).filter(|(_, files)| is_overwritten(files)) {
            let place = &mut self.places[storage];
            match place.files(&overwritten, self.bench.seed, self.stop) {
                Ok(held) if was_measured => {
                    for (file, visits) in held.iter_mut().zip(&files.visits) {
                        file.written(visits, files.seed);
                    }
                }
                _ => place.remove(&overwritten),
            }
        }
    }

    /// Records the most frequent byte that the last trial found.
    fn tell_mode(&mut self, report: &Report) {
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
        let written = format_size(contest.size_bytes * seconds.len() as u64);
        let name = &contest.experiment;
        self.run.choices.push(format!("{name}: ended after {written}: {why}"));
    }

    /// Ends the measuring of an entry.
    pub(super) fn retire(&mut self, turn: Turn, status: Status) {
        self.run.contests[turn.contest].entries[turn.entry].status = status;
    }

    /// The files of a trial: existing sources, and future targets. `None` if a file that is to be read once has
    /// changed.
    fn files(&mut self, turn: Turn, contest: &Contest) -> Result<Option<TrialFiles>, BenchError> {
        if let Some(first_touch) = &mut self.places[contest.storage].first_touch {
            return Ok(first_touch.take(turn.round).map(|chosen| {
                let mut files = TrialFiles::default();
                files.sources = test_files(&chosen);
                files.chosen = Some(chosen);
                files
            }));
        }
        let mut files = TrialFiles::default();
        files.seed = self.bench.seed;
        files.draw_seed = round_seed(files.seed, turn);
        if let Some(path) = &contest.tree {
            let found = self.places[contest.storage].tree(path, self.stop);
            let (_, tree) = found.map_err(BenchError::Tree)?;
            if tree.size() != (contest.files, contest.size_bytes) {
                return Err(BenchError::Tree(format!(
                    "{path}: its files have changed since the run began"
                )));
            }
            files.sources.clone_from(&tree.files);
        }
        for (storage, wanted) in TestFiles::of(contest) {
            let made = self.places[storage].files(&wanted, self.bench.seed, self.stop)?;
            match wanted.role {
                Role::Source => files.sources.clone_from(made),
                Role::Second(_) => files.others.clone_from(made),
                Role::Overwritten(_) => {
                    files.targets.extend(made.iter().map(|file| file.path.clone()));
                    self.overwrites += 1;
                    files.seed = files.seed.wrapping_sub(self.overwrites);
                }
            }
        }
        if contest.differ == Differ::Itself {
            files.others.clone_from(&files.sources);
        }
        files.visits = visits(contest, files.draw_seed);
        let may_write = contest.operation != Operation::Read || contest.entries[turn.entry].command().is_some();
        if files.targets.is_empty() && may_write {
            let place = &self.places[contest.storage];
            let count = if contest.tree.is_some() { 1 } else { contest.files };
            let targets = (0..count).map(|index| place.path(&format!("target-{index}")));
            files.targets = targets.collect();
            for path in files.targets.iter().filter(|_| contest.target == Target::Overwrite) {
                // Other bytes than the trial writes, so that missing writes are found.
                write_stream(path, contest.size_bytes, target_seed(self.bench.seed))?;
            }
        }
        Ok(Some(files))
    }

    /// Starts the child, brings the page cache into its state when the child is ready, and runs it. Returns what it
    /// measured, or the new status of its entry.
    fn run_child(
        &self,
        contest: &Contest,
        entry: &Entry,
        files: &TrialFiles,
    ) -> Result<Result<(Report, State), Status>, BenchError> {
        match self.try_child(contest, entry, files) {
            // Ended with the run.
            Err(BenchError::Launch(_)) if self.stop.is_requested() => Ok(Err(entry.status.clone())),
            Err(BenchError::Launch(error @ (LaunchError::Ended(_) | LaunchError::TooLong(_)))) => {
                Ok(Err(Status::Failed(full_text(&error))))
            }
            other => other,
        }
    }

    fn try_child(
        &self,
        contest: &Contest,
        entry: &Entry,
        files: &TrialFiles,
    ) -> Result<Result<(Report, State), Status>, BenchError> {
        let place = &self.places[contest.storage];
        let memory_bytes = (contest.cache == Cache::Over).then(|| {
            let half = files.read().map(|file| file.bytes).sum::<u64>() / 2;
            contest.memory_bytes.unwrap_or(half)
        });
        let prepare = || -> Result<_, String> {
            let group = memory_bytes.map(MemoryGroup::new).transpose()?;
            self.settle();
            let set = |kib| ReadAhead::set(&place.facts, kib, &self.bench.program);
            Ok((group, contest.read_ahead_kib.map(set).transpose()?))
        };
        let (group, _read_ahead) = match prepare() {
            Ok(prepared) => prepared,
            Err(why) => return Ok(Err(Status::Unavailable(why))),
        };
        if contest.cache == Cache::Over {
            cache_state::bring(files.held(contest.target), Cache::Over, self.run.drop, Judged::Each)?;
        }
        let spec = Spec {
            contest: Some(Contest {
                entries: vec![entry.clone()],
                ..contest.clone()
            }),
            jobs: jobs(contest, entry, files),
            seed: files.seed,
            draw_seed: files.draw_seed,
            device_directories: self.device_directories(contest),
            cgroup: group.as_ref().map(|group| group.path().into()),
            seconds_left: self.left().map(|left| left.as_secs_f64()),
            spare_bytes: place.facts.free_bytes / 10,
            ..Spec::default()
        };
        let child = Child::start(&self.bench.program, &spec, self.stop)?;
        let cache = match contest.cache {
            // A file that is written over is cold.
            Cache::None if contest.target == Target::Overwrite && place.has_cold => Cache::Cold,
            other => other,
        };
        let state = if let Some(memory_bytes) = memory_bytes {
            cache_state::rehearsed(files.held(contest.target), memory_bytes)?
        } else {
            let drop = if contest.cold_metadata {
                record::Drop::System
            } else {
                self.run.drop
            };
            let judged = if contest.tree.is_some() {
                Judged::Together
            } else {
                Judged::Each
            };
            let mut state = Self::bring(place, files.held(contest.target), cache, drop, judged)?;
            // If either storage has another cache, both residencies are unknown.
            if let Some(other) = contest.other_storage.map(|other| &self.places[other])
                && !other.tells_residency()
            {
                state = State::UNKNOWN;
            }
            state
        };
        // A trial may take half a minute longer than the budget; then it is ended, because it may hang.
        let limit = self.left().map_or(Duration::MAX, |left| left + PATIENCE);
        Ok(child.run(limit)?.map(|report| (report, state)))
    }

    /// What is left of the budget; `None` where rounds are given instead.
    fn left(&self) -> Option<Duration> {
        let left = self.bench.budget.saturating_sub(self.started.elapsed());
        self.bench.rounds.is_none().then_some(left)
    }

    /// Brings files, and the backing file of a loop, into a cache state. If there are other caches than the page cache,
    /// the residency is unknown.
    fn bring<'f>(
        place: &Place,
        files: impl Iterator<Item = &'f Path> + Clone,
        cache: Cache,
        drop: record::Drop,
        judged: Judged,
    ) -> Result<State, BenchError> {
        let mut state = cache_state::bring(files.clone(), cache, drop, judged)?;
        // File systems in memory may have no pages for holes, even after reading them.
        if cache == Cache::Warm && !place.has_cold && cache_state::holds_all_data(files)? {
            state.wrong = None;
        }
        if cache == Cache::Cold
            && let Some(backing) = place.backing_file()
        {
            let behind = cache_state::bring(std::iter::once(backing), cache, drop, Judged::Each)?;
            let wrong = behind.resident.filter(|part| *part > STRAY_PART);
            let wrong = wrong.map(|part| {
                format!(
                    "{:.1} % of the backing file of the loop device was resident",
                    part * 100.0
                )
            });
            state.wrong = state.wrong.or(wrong);
        }
        if !place.tells_residency() {
            state = State::UNKNOWN;
        }
        Ok(state)
    }

    /// The devices that a trial reads, each once.
    fn device_directories(&self, contest: &Contest) -> Vec<OsString> {
        let places = [Some(contest.storage), contest.other_storage];
        let mut directories: Vec<OsString> = Vec::new();
        for place in places.into_iter().flatten() {
            let directory = device_directory(&self.places[place]);
            directories.extend(directory.filter(|directory| !directories.contains(directory)));
        }
        directories
    }

    /// Waits until earlier writes and removals have reached the devices.
    fn settle(&self) {
        for place in self.places.iter().filter(|place| place.scratch.is_some()) {
            seekless::cache::sync_storage(&place.directory);
        }
    }

    /// A trial that does nothing: the seconds inside its clock.
    pub(super) fn null_trial(&self) -> Result<Option<f64>, BenchError> {
        let spec = Spec {
            jobs: vec![Job::default()],
            device_directories: self.places.first().and_then(device_directory).into_iter().collect(),
            ..Spec::default()
        };
        let measured = Child::start(&self.bench.program, &spec, self.stop)?.run(Duration::MAX)?;
        Ok(measured.ok().map(|report| report.trial.seconds))
    }
}

/// Whether the first trial of a round is slower than the rest, because the previous trial was of another group: by 14 %
/// for 8 files of 1M in memory (standard error 4 %), by 5 % for a file of 16M or 64M (4 %), but not if the trial waits
/// for a device.
fn is_small_and_warm(contest: &Contest) -> bool {
    contest.cache == Cache::Warm && all_bytes(contest) <= SEVERAL_BYTES
}

/// How much longer than the budget a trial may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn device_directory(place: &Place) -> Option<OsString> {
    Some(place.facts.device.as_ref()?.sys_directory.clone().into())
}

/// The seed of the random blocks of a round.
fn round_seed(seed: u64, turn: Turn) -> u64 {
    let is_confirming = u64::from(turn.phase == Phase::Confirming);
    seed.wrapping_add(u64::from(turn.round) << 32 | is_confirming << 63)
}

/// The seed of the old content of a file to overwrite or update.
pub(super) fn target_seed(seed: u64) -> u64 {
    !seed
}

fn jobs(contest: &Contest, entry: &Entry, files: &TrialFiles) -> Vec<Job> {
    let path = |path: Option<&PathBuf>| path.map(OsString::from).unwrap_or_default();
    let job = |index: usize| Job {
        source: path(files.sources.get(index).map(|file| &file.path)),
        other: path(files.others.get(index).map(|file| &file.path)),
        target: path(files.targets.get(index)),
        bytes: contest.size_bytes,
    };
    if !entry.command().is_some_and(record::Command::takes_tree) {
        return (0..contest.files as usize).map(job).collect();
    }
    let mut of_tree = job(0);
    of_tree.bytes = files.sources.iter().map(|file| file.bytes).sum();
    if let Some(tree) = &contest.tree {
        of_tree.source = tree.into();
    }
    vec![of_tree]
}
