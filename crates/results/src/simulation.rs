//! Seeded random timings, and runs made of known ones, for the tests of what is concluded from runs.

use seekless_record::{Command, Contest, Entry, ExitCode, Phase, Run, Status, Storage, Subject, Trial};

/// A run with every field filled, as its document.
pub const FULL: &str = include_str!("../testdata/full-run.json");

/// A run with one cold read of 64 MiB, in which each method takes the same seconds in every round. A name that begins
/// with `command/` is a command.
#[must_use]
pub fn run(methods: &[(&str, f64)], rounds: u32) -> Run {
    let entries = methods.iter().map(|(method, _)| Entry {
        subject: match method.strip_prefix("command/") {
            None => Subject::Method((*method).to_owned()),
            Some(name) => Subject::Command(Command {
                name: name.to_owned(),
                argv: vec![name.to_owned()],
                before: Vec::new(),
                exit_code: ExitCode::Success,
                same_output: false,
                note: None,
            }),
        },
        label: None,
        status: Status::Measured,
        summary: None,
        standing: None,
    });
    let trials = (0..rounds).flat_map(|round| {
        methods
            .iter()
            .enumerate()
            .map(move |(entry, (_, seconds))| trial(entry, round, *seconds))
    });
    Run {
        version: seekless_record::CURRENT_VERSION,
        id: "simulated".to_owned(),
        seekless: "0".to_owned(),
        started: "2026-11-20T14:03:22Z".to_owned(),
        elapsed_seconds: 1.0,
        experiments: vec!["read".to_owned()],
        seed: 1,
        storages: vec![Storage {
            path: "/data".to_owned(),
            ..Storage::default()
        }],
        contests: vec![contest(64 << 20, entries.collect())],
        trials: trials.collect(),
        ..Run::default()
    }
}

/// A contest of cold reads of one file.
#[must_use]
pub fn contest(size_bytes: u64, entries: Vec<Entry>) -> Contest {
    Contest {
        experiment: "read".to_owned(),
        size_bytes,
        files: 1,
        kernel: "count".to_owned(),
        entries,
        ..Contest::default()
    }
}

/// A valid trial that kept one processor busy for half of its time.
#[must_use]
pub fn trial(entry: usize, round: u32, seconds: f64) -> Trial {
    Trial {
        entry,
        round,
        phase: if round < 3 { Phase::Screening } else { Phase::Contending },
        at_seconds: f64::from(round),
        seconds,
        user_seconds: seconds / 4.0,
        system_seconds: seconds / 4.0,
        bytes: 64 << 20,
        resident_before: Some(0.0),
        valid: true,
        ..Trial::default()
    }
}

/// A source of simulated seconds.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Simulation(fastrand::Rng);

#[cfg(test)]
impl Simulation {
    /// The same seed gives the same seconds.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A lognormal sample of this median; `noise` is the deviation of its logarithm.
    pub fn lognormal(&mut self, median: f64, noise: f64) -> f64 {
        median * (noise * crate::statistics::draw_normal(&mut self.0)).exp()
    }
}
