//! A run: planning it, and running the trials that the [`Decider`] asks for.

mod apart;
mod check;
mod files;
mod first_touch;
mod group;
mod identity;
mod needs;
mod place;
mod resume;
mod size;
mod tree;
mod trial;
mod yielding;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seekless_record::{Cache, Drop, Ended, NoiseFloor, Phase, Revision, Run, Status};
use seekless_results::{Decider, Next, bytes, conclude_now, other_io, warnings, why_missing};

use crate::experiment::Experiment;
use crate::noise::{self, Load};
use crate::trial::Stop;
use place::Place;

pub use first_touch::LeftOut;
pub use resume::Obstacle;

/// What is asked of the lab.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    /// What the ID of the run ends with, besides the time and the experiments.
    pub name: Option<String>,
    /// What to measure.
    pub experiments: Vec<Experiment>,
    /// The directories whose storages are measured, in the same rounds.
    pub directories: Vec<PathBuf>,
    /// The directory of the second files of comparisons, where it is not that of the first.
    pub other: Option<PathBuf>,
    /// How long it may take. Ignored where `rounds` is given.
    pub budget: Duration,
    /// The number of rounds per method, whatever the time.
    pub rounds: Option<u32>,
    /// The sizes of the files, instead of the experiments'.
    pub sizes: Vec<u64>,
    /// The cache states, instead of the experiments'.
    pub caches: Vec<Cache>,
    /// The seed of shuffling and data.
    pub seed: u64,
    /// Extra work, in nanoseconds per KiB, instead of the experiments'.
    pub work_ns_per_kib: Option<u64>,
    /// How the page cache is emptied; `None` for the file's pages, and where files are small and it is allowed, all caches of
    /// the system.
    pub drop: Option<Drop>,
    /// A file to read instead of one made for the purpose: then nothing is written at all.
    pub file: Option<PathBuf>,
    /// A directory whose files are read, each once and as cold as it is found: then nothing is written at all.
    pub first_touch: Option<PathBuf>,
    /// The program that runs a trial when it is called with `trial`.
    pub program: PathBuf,
    /// How often what was measured is told ([`Event::Checkpoint`]).
    pub checkpoint: Duration,
    /// Earlier runs on these storages: the sizes that the lab chooses are those of the first.
    pub earlier: Vec<Run>,
    /// Whether to measure with the lowest priority, and to wait before each trial until nobody else uses the devices; that time
    /// does not count.
    pub yields: bool,
    /// A run that is resumed: then the experiments, sizes, cache states and work are its own.
    pub resume: Option<Run>,
}

impl Bench {
    /// What the command asks for if nothing is said: these experiments in these directories, with this program and seed.
    #[must_use]
    pub fn new(experiments: Vec<Experiment>, directories: Vec<PathBuf>, program: PathBuf, seed: u64) -> Self {
        Self {
            experiments,
            directories,
            budget: Duration::from_mins(1),
            seed,
            program,
            checkpoint: Duration::from_mins(2),
            ..Self::default()
        }
    }
}

/// What happens during a run, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Before anything is written.
    Planned {
        /// Bytes that will be written at most, all trials together.
        write_bytes: u64,
        /// Bytes that are expected to be written, test files included.
        expected_write_bytes: u64,
        /// Bytes of space needed at one time.
        space_bytes: u64,
        /// How long it is meant to take.
        expected: Duration,
        /// How long three rounds of everything and the rest take, as far as can be told.
        needed: Duration,
        /// Contests that are not settled yet.
        contests: usize,
        /// Methods and commands in them that are still measured.
        entries: usize,
        /// Whether the contests are measured one after the other, because the time is not enough for all.
        one_by_one: bool,
    },
    /// Before anything is planned: so much is written to learn how fast the storage is and what it supports.
    Calibrating {
        /// Bytes that are written.
        write_bytes: u64,
    },
    /// A test file is made.
    Making {
        /// Its size.
        bytes: u64,
    },
    /// A trial begins.
    Trial {
        /// What is compared, as in `read 64M, cold`.
        contest: String,
        /// The method.
        method: &'a str,
        /// The round, from 1.
        round: u32,
        /// The part of the run.
        phase: Phase,
        /// What is left of the budget.
        left: Option<Duration>,
    },
    /// Others use the devices: the run waits.
    Yielding,
    /// What was measured so far, every so often and when the run is stopped: enough to resume it, should the machine fail.
    Checkpoint(&'a Run),
}

/// Shows what happens.
pub trait Watch {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// stat(2) of a directory failed.
    #[error("{}: cannot stat", path.display())]
    Look {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is not a directory.
    #[error("{}: not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory's file system cannot be written to.
    #[error("{}: the file system is mounted read-only", .0.display())]
    ReadOnly(PathBuf),
    /// No test files can be created in the directory.
    #[error("{}: cannot create test files", path.display())]
    NoTestFiles {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file to read is empty.
    #[error("{}: the file is empty, so there is nothing to time", .0.display())]
    Empty(PathBuf),
    /// There is no room for the test files.
    #[error(
        "{}: {} needed for the test files, {} free (a tenth of the free space is never used)",
        path.display(), bytes(*needed_bytes), bytes(*free_bytes)
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// What is needed.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The file system created a file with another layout.
    #[error("{}: cannot create a file with the layout `{layout}`: {why}", path.display())]
    Layout {
        /// The directory.
        path: PathBuf,
        /// The layout.
        layout: String,
        /// What is wrong with the file.
        why: String,
    },
    /// A directory of the user cannot be measured.
    #[error("{0}")]
    Tree(String),
    /// No experiment measures an existing file, which is only read.
    #[error("none of these experiments can measure an existing file, which is only read")]
    NothingToRead,
    /// Files that are read once serve one contest, but the experiments have several.
    #[error("the files are read once, so they serve one contest of reads only, but these experiments have several")]
    SeveralContests,
    /// There are too few files that can each be read once.
    #[error(
        "{}: too few files to read each once: {needed} of similar size needed, {similar} found; left out: {left_out}",
        path.display()
    )]
    TooFewFiles {
        /// The directory.
        path: PathBuf,
        /// How many are needed.
        needed: usize,
        /// The largest number of files of similar size.
        similar: usize,
        /// What was left out, and why.
        left_out: LeftOut,
    },
    /// The run with this ID has nothing left to measure.
    #[error("run {0} is complete: nothing is left to measure")]
    AllMeasured(String),
    /// A run cannot be resumed here.
    #[error("run {id} cannot be resumed")]
    CannotResume {
        /// The run.
        id: String,
        /// Why not.
        source: Obstacle,
    },
    /// A file could not be made, read or dropped from the page cache.
    #[error(transparent)]
    Engine(#[from] seekless::Error),
    /// The time ended before the first trial.
    #[error("nothing was measured: the budget of {} s ended before the first trial", .0.as_secs_f64())]
    NoTime(Duration),
    /// No method or command could be measured; why not.
    #[error("nothing was measured: {}", .0.join("; "))]
    NothingMeasured(Vec<String>),
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
    /// A trial's process could not be run at all.
    #[error(transparent)]
    Launch(#[from] crate::trial::LaunchError),
}

/// Trials that do nothing, for the lab's own cost.
const NULL_TRIALS: usize = 7;

/// Measures what is asked for.
///
/// # Errors
/// [`BenchError`] where nothing was measured. What fails later is in the run.
pub fn run(bench: &Bench, stop: &Stop, watch: &mut dyn Watch) -> Result<Run, BenchError> {
    let mut runner = Runner::new(bench, stop, watch)?;
    runner.measure_lab()?;
    let decider = runner.plan()?;
    runner.measure(decider)?;
    let run = runner.finish();
    if !run.trials.is_empty() {
        Ok(run)
    } else if stop.is_requested() {
        Err(BenchError::Stopped)
    } else {
        Err(nothing_measured(&run, bench))
    }
}

/// Why a run has no trial.
fn nothing_measured(run: &Run, bench: &Bench) -> BenchError {
    let mut reasons: Vec<(&Status, String)> = Vec::new();
    for entry in run.contests.iter().flat_map(|contest| &contest.entries) {
        match &entry.status {
            Status::Unmeasured(_) => return BenchError::NoTime(bench.budget),
            status if reasons.iter().any(|(known, _)| *known == status) => {}
            status => reasons.push((status, format!("{}: {}", entry.name(), why_missing(entry, "")))),
        }
    }
    BenchError::NothingMeasured(reasons.into_iter().map(|(_, reason)| reason).collect())
}

/// The run of a bench before anything is measured: when, on which machine, and on which storages.
///
/// # Errors
/// [`BenchError`] where a storage cannot be looked at.
pub fn unmeasured(bench: &Bench) -> Result<Run, BenchError> {
    Ok(new_run(bench, &Place::find_all(bench)?))
}

/// A run under way.
struct Runner<'a> {
    bench: &'a Bench,
    stop: &'a Stop,
    watch: &'a mut dyn Watch,
    places: Vec<Place>,
    run: Run,
    started: Instant,
    /// Seconds that the run had measured before it was resumed.
    seconds_before: f64,
    checkpoint: Instant,
    /// What the processors had done at the start.
    load: Load,
    /// How fast the slowest of the storages wrote when that was tried, in bytes per millisecond.
    write_bytes_per_ms: Option<u64>,
    /// Bytes that may be written in all trials, as was said before the first; and those written so far.
    write_limit_bytes: Option<u64>,
    written_bytes: u64,
    /// Trials that wrote over a file at random places: each writes other bytes.
    overwrites: u64,
    /// The time of a whole trial that does nothing, process and all.
    trial_overhead: Duration,
    /// How long it waited for others.
    waited: Duration,
    /// The group of the last trial.
    last_group: Option<usize>,
    /// The entries that were measured since all caches of the system were dropped; `None` if they never were.
    ran_since_drop: Option<BTreeSet<String>>,
    /// What the commands of a contest print that must all print the same, hashed.
    printed: BTreeMap<usize, u64>,
}

impl<'a> Runner<'a> {
    fn new(bench: &'a Bench, stop: &'a Stop, watch: &'a mut dyn Watch) -> Result<Self, BenchError> {
        let started = Instant::now();
        if bench.yields {
            // What cannot be lowered is measured as it is.
            let _ = seekless_sys::lower_priority();
        }
        let places = Place::open_all(bench)?;
        let run = match &bench.resume {
            None => new_run(bench, &places),
            Some(run) => resume::resumed(run, &places, bench)?,
        };
        Ok(Self {
            bench,
            stop,
            watch,
            places,
            seconds_before: run.elapsed_seconds,
            run,
            started,
            checkpoint: started,
            load: Load::now(),
            write_bytes_per_ms: None,
            write_limit_bytes: None,
            written_bytes: 0,
            overwrites: 0,
            trial_overhead: Duration::ZERO,
            waited: Duration::ZERO,
            last_group: None,
            ran_since_drop: None,
            printed: BTreeMap::new(),
        })
    }

    /// Measures what the lab itself costs.
    fn measure_lab(&mut self) -> Result<(), BenchError> {
        let mut walls = Vec::new();
        for _ in 0..NULL_TRIALS {
            let start = Instant::now();
            self.run.lab_cost.null_seconds.extend(self.null_trial()?);
            walls.push(start.elapsed());
        }
        walls.sort();
        self.trial_overhead = walls[NULL_TRIALS / 2];
        let (first, second) = noise::touch_bytes_per_second();
        self.run.lab_cost.first_touch_bytes_per_second = Some(first);
        self.run.lab_cost.second_touch_bytes_per_second = Some(second);
        self.run.lab_cost.producer_bytes_per_second = Some(noise::producer_bytes_per_second());
        Ok(())
    }

    /// Runs what the decider says, until it says no more.
    fn measure(&mut self, mut decider: Decider) -> Result<(), BenchError> {
        while let Some(next) = self.next(&mut decider) {
            match next {
                Next::Files(contests) => match self.make_files(&contests) {
                    // What was measured is kept. Each trial tries again, and says why there are no files.
                    Err(_) if self.stop.is_requested() || !self.run.trials.is_empty() => {}
                    made => made?,
                },
                Next::Trial(turn) => {
                    self.trial(&mut decider, turn)?;
                    if self.checkpoint.elapsed() >= self.bench.checkpoint {
                        self.tell_checkpoint();
                    }
                }
            }
        }
        // Removing the test files may take a while, in which a second signal may come.
        if self.stop.is_requested() && !self.run.trials.is_empty() {
            self.tell_checkpoint();
        }
        Ok(())
    }

    fn next(&mut self, decider: &mut Decider) -> Option<Next> {
        if self.bench.yields {
            self.wait_for_others();
        }
        let elapsed = if self.stop.is_requested() {
            Duration::MAX
        } else {
            self.started.elapsed()
        };
        let limit = self.write_limit_bytes.filter(|_| self.bench.rounds.is_none());
        let is_written_out = limit.is_some_and(|limit| self.written_bytes >= limit);
        decider.next(&mut self.run, elapsed, |contest| {
            !is_written_out || needs::writers(contest) == 0
        })
    }

    fn finish(mut self) -> Run {
        if self.stop.is_requested() {
            self.run.ended = Ended::Interrupted;
        }
        if !self.waited.is_zero() {
            let seconds = self.waited.as_secs_f64();
            let choice = format!("waited {seconds:.1} s in total while other processes used the disk");
            self.run.choices.push(choice);
        }
        conclude_now(&mut self.run);
        let (stolen, others) = Load::now().noise_since(self.load).unzip();
        let seconds = self.started.elapsed().as_secs_f64();
        let over_time = |before: Option<f64>, now: Option<f64>| {
            let before = before.map(|part| (part, self.seconds_before));
            resume::over_time(before, now.map(|part| (part, seconds)))
        };
        self.run.noise = NoiseFloor {
            stolen: over_time(self.run.noise.stolen, stolen),
            others: over_time(self.run.noise.others, others),
            other_io: other_io(&self.run.trials),
        };
        // That the machine was busy comes before all that was planned.
        let mut found = warnings(&self.run);
        found.extend(self.missed_trials());
        found.append(&mut self.run.warnings);
        self.run.warnings = found;
        self.run.elapsed_seconds = self.measured_seconds();
        self.run
    }

    /// Trials that were left out, because a file of the user had changed or was removed.
    fn missed_trials(&self) -> Option<String> {
        let first_touch = self.places.iter().find_map(|place| place.first_touch.as_ref())?;
        let missed = first_touch.missed;
        let (trials, were) = if missed == 1 {
            ("trial", "was")
        } else {
            ("trials", "were")
        };
        (missed > 0)
            .then(|| format!("{missed} {trials} {were} left out: a file changed or was removed before it was read."))
    }

    /// Seconds of measuring so far, those before the run was resumed included.
    fn measured_seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// Tells what was measured so far.
    fn tell_checkpoint(&mut self) {
        let run = self.run.clone();
        conclude_now(&mut self.run);
        self.run.elapsed_seconds = self.measured_seconds();
        self.run.ended = Ended::Interrupted;
        self.watch.event(&Event::Checkpoint(&self.run));
        // What was concluded holds for the document, not for what goes on: a turn that has not come yet still will.
        self.run = run;
        self.checkpoint = Instant::now();
    }
}

/// What makes the figures of a run.
const REVISION: Revision = Revision {
    protocol: crate::PROTOCOL,
    mechanisms: seekless::method::REVISION,
};

/// A run of which nothing is measured yet.
fn new_run(bench: &Bench, places: &[Place]) -> Run {
    let experiments = &bench.experiments;
    let names: Vec<String> = experiments.iter().map(|experiment| experiment.name.clone()).collect();
    let now = jiff::Timestamp::now();
    let time = now.strftime("%Y-%m-%dT%H-%M-%S").to_string();
    let parts = [Some(time), Some(names.join("+")), bench.name.clone()];
    Run {
        version: seekless_record::CURRENT_VERSION,
        id: parts.into_iter().flatten().collect::<Vec<_>>().join("-"),
        seekless: env!("CARGO_PKG_VERSION").to_owned(),
        started: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        experiments: names,
        seed: bench.seed,
        budget_seconds: bench.rounds.is_none().then_some(bench.budget.as_secs_f64()),
        drop: bench.drop.unwrap_or_default(),
        revision: Some(REVISION),
        machine: crate::machine::machine(),
        storages: places.iter().map(Place::record).collect(),
        published: experiments
            .iter()
            .flat_map(|experiment| experiment.published.clone())
            .collect(),
        columns: experiments
            .iter()
            .flat_map(|experiment| experiment.columns.clone())
            .collect(),
        ..Run::default()
    }
}
