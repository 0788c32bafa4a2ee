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
use crate::trial::LaunchStop;
use place::Place;

pub use first_touch::LeftOut;
pub use resume::Obstacle;

/// What the lab is to measure, and how.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    /// A name to append to the run's ID.
    pub name: Option<String>,
    /// What to measure.
    pub experiments: Vec<Experiment>,
    /// The directories whose storages are measured, in the same rounds.
    pub directories: Vec<PathBuf>,
    /// The directory of the second files of comparisons, if it differs from that of the first.
    pub other: Option<PathBuf>,
    /// The budget; ignored if `rounds` is given.
    pub budget: Duration,
    /// The number of rounds per method, whatever the time.
    pub rounds: Option<u32>,
    /// The sizes of the files, instead of the experiments'.
    pub sizes: Vec<u64>,
    /// The cache states, instead of the experiments'.
    pub caches: Vec<Cache>,
    /// The seed of shuffling and data.
    pub seed: u64,
    /// Simulated processing, in nanoseconds per KiB, instead of the experiments'.
    pub work_ns_per_kib: Option<u64>,
    /// How the page cache is emptied. `None` drops the file's pages, or for small files, if allowed, all caches of the
    /// system.
    pub drop: Option<Drop>,
    /// An existing file to read instead of test files; then nothing is written.
    pub file: Option<PathBuf>,
    /// A directory whose existing files are read, each once and without dropping it from memory first; then nothing is
    /// written.
    pub first_touch: Option<PathBuf>,
    /// The program that runs a trial when it is called with `trial`.
    pub program: PathBuf,
    /// The time between two [`Event::Checkpoint`]s.
    pub checkpoint: Duration,
    /// Earlier runs on these storages, whose file sizes the lab chooses again.
    pub earlier: Vec<Run>,
    /// Whether to measure with the lowest priority, and to wait before each trial until no other process uses the
    /// devices; that time does not count.
    pub yields: bool,
    /// A run to resume, with its own experiments, sizes, cache states and simulated processing.
    pub resume: Option<Run>,
}

impl Bench {
    /// The defaults of the command: these experiments in these directories, with this program and seed.
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

/// Events of a run, for showing its progress.
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
        /// How long the run is expected to take.
        expected: Duration,
        /// An estimate of the time that three rounds of everything, and the following rounds, need.
        needed: Duration,
        /// Contests that are not settled yet.
        contests: usize,
        /// Methods and commands in them that are still measured.
        entries: usize,
        /// Whether the contests are measured one after the other, because the time is not enough for all.
        one_by_one: bool,
    },
    /// Before planning: data is written to learn how fast the storage is and what it supports.
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
    /// Other processes use the devices, so the run waits.
    Yielding,
    /// The run so far, from time to time and when it is stopped, so that it can be saved and resumed.
    Checkpoint(&'a Run),
}

/// Receives the events of a run.
pub trait RunWatch {
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
        /// The bytes needed.
        needed_bytes: u64,
        /// The bytes free.
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
        /// The files that were left out, and why.
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

/// The number of trials that do nothing, which measure the lab's own cost.
const NULL_TRIALS: usize = 7;

/// Measures a bench.
///
/// # Errors
/// [`BenchError`] if nothing was measured. Later failures are recorded in the run.
pub fn run(bench: &Bench, stop: &LaunchStop, watch: &mut dyn RunWatch) -> Result<Run, BenchError> {
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
/// [`BenchError`] if a storage cannot be examined.
pub fn unmeasured(bench: &Bench) -> Result<Run, BenchError> {
    Ok(new_run(bench, &Place::find_all(bench)?))
}

/// A run in progress.
struct Runner<'a> {
    bench: &'a Bench,
    stop: &'a LaunchStop,
    watch: &'a mut dyn RunWatch,
    places: Vec<Place>,
    run: Run,
    started: Instant,
    /// Seconds that the run had measured before it was resumed.
    seconds_before: f64,
    checkpoint: Instant,
    /// The load of the processors at the start.
    load: Load,
    /// The measured write rate of the slowest storage, in bytes per millisecond.
    write_bytes_per_ms: Option<u64>,
    /// The announced limit on bytes written in all trials, and the bytes written so far.
    write_limit_bytes: Option<u64>,
    written_bytes: u64,
    /// The number of trials with random overwrites; each writes other bytes.
    overwrites: u64,
    /// The time of a whole trial that does nothing, including its process.
    trial_overhead: Duration,
    /// How long it waited for other processes.
    waited: Duration,
    /// The group of the last trial.
    last_group: Option<usize>,
    /// The entries that were measured since all caches of the system were dropped; `None` if they never were.
    ran_since_drop: Option<BTreeSet<String>>,
    /// By contest: the hash of the output, if its commands must print the same.
    printed: BTreeMap<usize, u64>,
}

impl<'a> Runner<'a> {
    fn new(bench: &'a Bench, stop: &'a LaunchStop, watch: &'a mut dyn RunWatch) -> Result<Self, BenchError> {
        let started = Instant::now();
        if bench.yields {
            // If the priority cannot be lowered, measure nevertheless.
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

    /// Measures the lab's own cost.
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

    /// Runs the trials that the decider requests, until there are no more.
    fn measure(&mut self, mut decider: Decider) -> Result<(), BenchError> {
        while let Some(next) = self.next(&mut decider) {
            match next {
                Next::Files(contests) => match self.make_files(&contests) {
                    // The results so far are kept. Each trial tries again to make files, and reports the error.
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
        // Save before the test files are removed, because that may take a while, in which a second signal may come.
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
        // The warning about a busy machine comes first.
        let mut found = warnings(&self.run);
        found.extend(self.missed_trials());
        found.append(&mut self.run.warnings);
        self.run.warnings = found;
        self.run.elapsed_seconds = self.measured_seconds();
        self.run
    }

    /// The note about trials that were left out because a file of the user was changed or removed.
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

    /// Seconds of measuring so far, including those before the run was resumed.
    fn measured_seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// Reports the run so far.
    fn tell_checkpoint(&mut self) {
        let run = self.run.clone();
        conclude_now(&mut self.run);
        self.run.elapsed_seconds = self.measured_seconds();
        self.run.ended = Ended::Interrupted;
        self.watch.event(&Event::Checkpoint(&self.run));
        // The conclusions, and entries marked as unmeasured, are only for the document; the run continues without them.
        self.run = run;
        self.checkpoint = Instant::now();
    }
}

/// The revision that measures a run.
const REVISION: Revision = Revision {
    protocol: crate::PROTOCOL,
    mechanisms: seekless::method::REVISION,
};

/// A run without measurements.
fn new_run(bench: &Bench, places: &[Place]) -> Run {
    let experiments = &bench.experiments;
    let names: Vec<String> = experiments.iter().map(|experiment| experiment.name.clone()).collect();
    let now = crate::now();
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
