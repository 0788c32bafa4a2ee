//! The experiment `profile` in virtual time: each method runs on a simulated disk without delay, where its requests are recorded, and
//! they are replayed on the model of a disk. What the processor did before, between and after them takes the time that it took here.
//!
//! Only cold files and new files: others ask nothing of the disk. The drive of each trial is one that nobody used yet.

use std::fs::{self, File};
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use seekless::cache::{drop_file, sync_storage};
use seekless::method::Durability;
use seekless::{Job, Method, Operation, Reader, allow_mapping};
use seekless_lab::experiment::{Experiment, Size};
use seekless_lab::{Kernel, Tally};
use seekless_record::{Contest, Revision, Run, StorageId, Trial};
use seekless_results::{conclude_now, simulation};
use seekless_sim::models::DiskModel;
use seekless_sim::replay::{replay, steps_of};
use seekless_sim::trace::{TracedRequest, read_trace};

use crate::filesystems::TestFileSystem;
use crate::process::check_interrupt;
use crate::torture::NullDisk;

/// Larger files take too long to record, and what is best changes below.
const BYTES_MAX: u64 = 64 << 20;
/// Rounds of each sitting; fewer than 6 tell nothing of a regret.
const ROUNDS: u32 = 12;
/// When the sittings began: on different days.
const SITTINGS: [&str; 2] = ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"];

/// Two sittings of the experiment, and all requests of their trials.
pub struct Recorded {
    sittings: Vec<Vec<RecordedContest>>,
    trace: Vec<TracedRequest>,
}

struct RecordedContest {
    contest: Contest,
    trials: Vec<RecordedTrial>,
}

struct RecordedTrial {
    entry: usize,
    round: u32,
    seconds: f64,
    /// Its requests in the trace.
    requests: Range<usize>,
}

/// Runs the experiment on a disk without delay.
pub fn record(binary: &Path) -> Result<Recorded> {
    allow_mapping()?;
    let place = tempfile::tempdir()?;
    let trace = place.path().join("trace");
    let disk = NullDisk::start_with(TestFileSystem::Ext4, binary, |options| {
        options.trace = Some(trace.clone());
    })?;
    let mut sittings = Vec::new();
    for _ in SITTINGS {
        let mut contests = contests()?;
        for recorded in &mut contests {
            record_contest(&disk, recorded)?;
        }
        sittings.push(contests);
    }
    let requests = disk.requests()?;
    drop(disk);
    let mut trace = read_trace(BufReader::new(File::open(&trace)?))?;
    ensure!(
        trace.len() == requests,
        "{} requests, {} recorded",
        requests,
        trace.len()
    );
    trace.sort_by_key(|traced| traced.completed_ns);
    Ok(Recorded { sittings, trace })
}

/// The contests of the experiment in which the disk is asked for something.
fn contests() -> Result<Vec<RecordedContest>> {
    let plans = Experiment::builtin("profile")?.contests;
    let of_files = plans
        .into_iter()
        .filter(|plan| plan.common.operation != Operation::Scan);
    let contests = of_files.flat_map(|plan| {
        let sizes = plan.sizes.iter().filter_map(|size| match size {
            Size::Bytes(bytes) if *bytes <= BYTES_MAX => Some(*bytes),
            _ => None,
        });
        let contest = |size_bytes| Contest {
            size_bytes,
            files: 1,
            cache: plan.caches[0],
            durability: plan.common.entries[0]
                .choice()
                .map_or(Durability::None, |choice| choice.durability()),
            ..plan.common.clone()
        };
        sizes.map(contest).collect::<Vec<_>>()
    });
    let recorded = contests.map(|contest| RecordedContest {
        contest,
        trials: Vec::new(),
    });
    Ok(recorded.collect())
}

fn record_contest(disk: &NullDisk, recorded: &mut RecordedContest) -> Result<()> {
    let Contest {
        operation, size_bytes, ..
    } = recorded.contest;
    let [one, other, target] = ["one", "other", "target"].map(|name| disk.point().join(name));
    let mut bytes = vec![0; size_bytes as usize];
    fastrand::Rng::with_seed(size_bytes).fill(&mut bytes);
    for path in [&one, &other] {
        fs::write(path, &bytes)?;
    }
    for round in 0..ROUNDS {
        for (entry, subject) in recorded.contest.entries.iter().enumerate() {
            check_interrupt()?;
            let method = subject.choice().and_then(|choice| choice.method().copied());
            let method = method.context("all are methods")?;
            for path in [&one, &other] {
                sync_storage(path);
                drop_file(path)?;
            }
            sync_storage(disk.point());
            let first = disk.requests()?;
            let began = Instant::now();
            run(operation, method, [&one, &other, &target], &bytes)?;
            let seconds = began.elapsed().as_secs_f64();
            recorded.trials.push(RecordedTrial {
                entry,
                round,
                seconds,
                requests: first..disk.requests()?,
            });
            if target.exists() {
                fs::remove_file(&target)?;
            }
        }
    }
    Ok(())
}

fn run(operation: Operation, method: Method, [one, other, target]: [&Path; 3], bytes: &[u8]) -> Result<()> {
    let job = Job::by(method);
    match operation {
        Operation::Read => drop(Reader::prepare(&method)?.read(one, Tally::new(Kernel::Count))?),
        Operation::Write => drop(job.write(target, bytes)?),
        Operation::Copy => drop(job.copy(one, target)?),
        _ => drop(job.compare(one, other)?),
    }
    Ok(())
}

impl Recorded {
    /// The sittings as they would have been on a disk.
    pub fn on(&self, model: &'static DiskModel) -> Vec<Run> {
        let sittings = self.sittings.iter().zip(SITTINGS);
        sittings
            .map(|(contests, started)| self.run_on(model, contests, started))
            .collect()
    }

    fn run_on(&self, model: &'static DiskModel, contests: &[RecordedContest], started: &str) -> Run {
        let mut run = simulation::run(&[], 0);
        started.clone_into(&mut run.id);
        started.clone_into(&mut run.started);
        run.revision = Some(Revision {
            protocol: 1,
            mechanisms: 1,
        });
        run.storages[0].id = Some(StorageId {
            file_system: "ext4".to_owned(),
            uuid: Some(model.name.to_owned()),
            ..StorageId::default()
        });
        run.contests = contests.iter().map(|recorded| recorded.contest.clone()).collect();
        for (contest, recorded) in contests.iter().enumerate() {
            for (number, trial) in recorded.trials.iter().enumerate() {
                run.trials.push(Trial {
                    contest,
                    bytes: recorded.contest.size_bytes,
                    ..simulation::trial(trial.entry, trial.round, self.seconds(model, trial, number as u64))
                });
            }
        }
        conclude_now(&mut run);
        run
    }

    /// What a trial takes on a disk; the angle of the platter at its beginning follows from `seed`.
    fn seconds(&self, model: &'static DiskModel, trial: &RecordedTrial, seed: u64) -> f64 {
        let mut trace = self.trace[trial.requests.clone()].to_vec();
        trace.sort_by_key(|traced| traced.arrived_ns);
        let Some(first) = trace.first() else {
            return trial.seconds;
        };
        let last_ns = trace
            .iter()
            .filter_map(|traced| traced.completed_ns)
            .max()
            .unwrap_or_default();
        let recorded = (last_ns - first.arrived_ns) as f64 / 1e9;
        let replayed = replay(model, 0, seed, &steps_of(&trace)).total_ns as f64 / 1e9;
        (trial.seconds - recorded).max(0.0) + replayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_disk_without_delay_a_trial_takes_what_the_processor_took() {
        let traced = |arrived_ns, completed_ns| TracedRequest {
            arrived_ns,
            completed_ns: Some(completed_ns),
            request: seekless_sim::BlockRequest::new(seekless_sim::RequestKind::Read, 0, 4096),
        };
        let recorded = Recorded {
            sittings: Vec::new(),
            trace: vec![traced(0, 9), traced(1_000, 101_000), traced(151_000, 251_000)],
        };
        let trial = RecordedTrial {
            entry: 0,
            round: 0,
            seconds: 300e-6,
            requests: 1..3,
        };
        let seconds = |model| recorded.seconds(DiskModel::named(model).unwrap(), &trial, 0);
        // 50 µs before and after the requests, and 50 µs between them.
        assert!((seconds("null") - 100e-6).abs() < 1e-9);
        assert!(seconds("hdd-2009") > 200e-6);
        let mut without = trial;
        without.requests = 0..0;
        let seconds = recorded.seconds(DiskModel::named("null").unwrap(), &without, 0);
        assert!((seconds - 300e-6).abs() < 1e-9);
    }
}
