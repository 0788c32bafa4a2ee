//! Seeded random timings, and runs made of known ones, for the tests of what is concluded from runs.

use seekless_record::{
    Command, Contest, DeviceId, Entry, EntryVerdict, ExitCode, Phase, Revision, Run, Storage, StorageId, Subject, Trial,
};

use crate::ranking::conclude_all;

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
        summary: None,
        verdict: EntryVerdict::Measured,
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

/// The run with the conclusions from its trials.
#[must_use]
pub fn concluded(mut run: Run) -> Run {
    conclude_all(&mut run);
    run
}

/// The run as a sitting: with an ID and a time, by a known revision, on a storage and a disk that are known again.
#[must_use]
pub fn sitting(mut run: Run, id: String, started: String) -> Run {
    (run.id, run.started) = (id, started);
    run.revision = Some(Revision {
        protocol: 1,
        mechanisms: 1,
    });
    run.storages[0].id = Some(StorageId {
        file_system: "ext4".to_owned(),
        uuid: Some("0-1".to_owned()),
        devices: vec![DeviceId {
            serial: Some("A".to_owned()),
            ..DeviceId::default()
        }],
        kernel: "6.18".to_owned(),
        read_ahead_kib: Some(128),
    });
    run
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
