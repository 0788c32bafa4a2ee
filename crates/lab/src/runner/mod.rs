//! A run: what is asked for, the list of what is measured (`plan`), and the session that measures it.

mod apart;
mod calibrate;
mod check;
mod existing;
mod needs;
mod plan;
mod resume;
mod session;
mod setup;
mod size;
mod skip;
mod storage;
mod trial;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use seekless_record::{Cache, DropScope, EntryVerdict, Phase, Revision, Run};
use seekless_results::{bytes, why_missing};

pub use self::existing::FileChange;
pub use self::resume::Obstacle;
use self::session::BenchSession;
use self::storage::MeasuredStorage;
use crate::experiment::Experiment;
use crate::trial::LaunchStop;

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
    /// The directory of copies, if it differs from that of their sources.
    pub to: Option<PathBuf>,
    /// The budget; ignored if `rounds` is given.
    pub budget: Duration,
    /// The number of rounds per method, whatever the time.
    pub rounds: Option<u32>,
    /// The most bytes that the run may write; `None` for what suits the storages.
    pub most_written: Option<u64>,
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
    pub drop: Option<DropScope>,
    /// An existing file to read instead of test files; then nothing is written.
    pub file: Option<PathBuf>,
    /// The program that runs a trial when it is called with `trial`.
    pub program: PathBuf,
    /// The time between two [`Event::Checkpoint`]s.
    pub checkpoint: Duration,
    /// Earlier runs on these storages, whose file sizes the lab chooses again.
    pub earlier: Vec<Run>,
    /// A run to resume, with its own experiments, sizes, cache states and simulated processing.
    pub resume: Option<Run>,
}

impl Bench {
    /// The directory of second files or of copies, if it differs; its storage comes last.
    fn second(&self) -> Option<&PathBuf> {
        self.other.as_ref().or(self.to.as_ref())
    }

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
        /// An estimate of the time that three rounds of everything, and the following rounds, need, with preparing the files.
        needed: Duration,
        /// What preparing the files and one trial take, if that is more than the budget.
        least: Option<Duration>,
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
        /// What is compared, as in `read 64 MiB, cold`.
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
    /// The file to read is no longer what it was when the run began.
    #[error("{}: {change} during the run", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// What became of it.
        change: FileChange,
    },
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
    /// A trial would write more than was allowed.
    #[error("one trial and its test files write {}, and at most {} may be written", bytes(*needed_bytes), bytes(*most_bytes))]
    MostWritten {
        /// What it writes, with what is written to learn how fast the storage is.
        needed_bytes: u64,
        /// What may be written.
        most_bytes: u64,
    },
    /// No experiment measures an existing file, which is only read.
    #[error("none of these experiments can measure an existing file, which is only read")]
    NothingToRead,
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
    Engine(#[from] seekless_engine::Error),
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

/// Measures a bench.
///
/// # Errors
/// [`BenchError`] if nothing was measured. Later failures are recorded in the run.
pub fn run(bench: &Bench, stop: &LaunchStop, watch: &mut dyn RunWatch) -> Result<Run, BenchError> {
    crate::put_back_windows();
    let mut session = BenchSession::new(bench, stop, watch)?;
    let trial_overhead = session.measure_lab()?;
    let decider = session.plan(trial_overhead)?;
    session.measure(decider)?;
    let run = session.finish();
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
    let mut reasons: Vec<(&EntryVerdict, String)> = Vec::new();
    for entry in run.contests.iter().flat_map(|contest| &contest.entries) {
        match &entry.verdict {
            EntryVerdict::Unmeasured(_) => return BenchError::NoTime(bench.budget),
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
    Ok(new_run(bench, &MeasuredStorage::find_all(bench)?))
}

/// The revision that measures a run.
const REVISION: Revision = Revision {
    protocol: seekless_record::PROTOCOL,
    mechanisms: seekless_engine::method::REVISION,
};

/// A run without measurements.
fn new_run(bench: &Bench, storages: &[MeasuredStorage]) -> Run {
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
        storages: storages.iter().map(MeasuredStorage::record).collect(),
        published: all_of(experiments, |experiment| &experiment.published),
        columns: all_of(experiments, |experiment| &experiment.columns),
        ..Run::default()
    }
}

fn all_of<T: Clone>(experiments: &[Experiment], list: fn(&Experiment) -> &Vec<T>) -> Vec<T> {
    experiments
        .iter()
        .flat_map(|experiment| list(experiment).clone())
        .collect()
}
