//! A long run of the methods of 2014 that nobody measured: its seconds come from a simple model of a disk and of noise.

use anyhow::{Context, Result};
use seekless::method::{CachePolicy, Durability};
use seekless::{Method, Operation};
use seekless_lab::experiment::{ContestPlan, Experiment, Size};
use seekless_record::{
    CURRENT_VERSION, Cache, Contest, Device, Drop, Ended, Entry, LabCost, Machine, NoiseFloor, Phase, Run, Status,
    Storage, Subject, Trial,
};
use seekless_results::ranking::conclude_all;
use seekless_results::simulation;

/// Rounds of everything, and of those that are near the best.
const ROUNDS: (u32, u32) = (4, 12);
/// Methods that take this many times as long as the best are dropped.
const DROPPED: f64 = 1.25;
/// The deviation of the noise, as a part.
const NOISE: f64 = 0.025;

/// The run.
pub fn methods_2014() -> Result<Run> {
    let experiment = Experiment::builtin("methods-2014")?;
    let mut run = empty(&experiment);
    let mut random = fastrand::Rng::with_seed(2014);
    for plan in &experiment.contests {
        for size in &plan.sizes {
            let Size::Bytes(bytes) = *size else { continue };
            for cache in &plan.caches {
                measure(&mut run, plan, bytes, *cache, &mut random);
            }
        }
    }
    run.elapsed_seconds = run.trials.last().context("the experiment has methods")?.at_seconds;
    run.resumed_at_seconds = vec![run.elapsed_seconds * 0.3, run.elapsed_seconds * 0.7];
    conclude_all(&mut run);
    Ok(run)
}

fn measure(run: &mut Run, plan: &ContestPlan, bytes: u64, cache: Cache, random: &mut fastrand::Rng) {
    let index = run.contests.len();
    let methods: Vec<Method> = plan.methods().filter_map(|choice| choice.method().copied()).collect();
    let seconds: Vec<f64> = methods.iter().map(|method| seconds_of(method, bytes)).collect();
    let best = seconds.iter().copied().fold(f64::MAX, f64::min);
    let status = |seconds: f64| {
        if seconds > best * DROPPED {
            Status::Dropped(format!("{:.2}x the best after {} rounds", seconds / best, ROUNDS.0))
        } else {
            Status::Measured
        }
    };
    let entries = methods.iter().zip(&seconds).map(|(method, &seconds)| Entry {
        label: None,
        subject: Subject::Method(method.to_string()),
        status: status(seconds),
        summary: None,
        standing: None,
    });
    let entries: Vec<Entry> = entries.collect();
    let mut now = run.trials.last().map_or(0.0, |trial| trial.at_seconds);
    for round in 0..ROUNDS.1 {
        // The disk slows down a little while, as disks do.
        let weather = 1.0 + 0.08 * (f64::from(round) / 3.0).sin();
        for (entry, &median) in seconds.iter().enumerate() {
            if round < ROUNDS.0 || entries[entry].status == Status::Measured {
                let noise = (0..6).map(|_| random.f64()).sum::<f64>() / 3.0 - 1.0;
                let seconds = median * weather * (1.0 + NOISE * 2.4 * noise);
                run.trials.push(trial((index, entry), round, (now, seconds), bytes));
                now += seconds + 0.02;
            }
        }
    }
    run.contests.push(Contest {
        experiment: "methods-2014".to_owned(),
        operation: plan.common.operation,
        cache,
        target: plan.common.target,
        kernel: plan.common.kernel.clone(),
        durability: if plan.common.operation == Operation::Read {
            Durability::None
        } else {
            Durability::Fsync
        },
        ..simulation::contest(bytes, entries)
    });
}

/// A disk of 1.2 GB/s that likes requests of about a megabyte, with a price for each call and each file.
fn seconds_of(method: &Method, bytes: u64) -> f64 {
    let options = method.options();
    let block = options.block_bytes().unwrap_or(256 << 10).min(bytes) as f64;
    let calls = bytes as f64 / block;
    let is_direct = options.cache() == CachePolicy::Direct;
    let per_call = if is_direct { 110e-6 } else { 6e-6 };
    let crowding = 1.0 + (block / f64::from(64 << 20)).min(1.0) * 0.3;
    let mechanism = match method.mechanism().name {
        "mmap" => (0.93, 0.012),
        "sendfile" | "copy_file_range" => (0.96, 0.004),
        "splice" => (0.98, 0.004),
        "double-buffer" | "io_uring" => (0.97, 0.006),
        "posix-aio" => (1.1, 0.004),
        _ => (1.0, 0.002),
    };
    let copying = if method.operation() == Operation::Copy {
        1.8
    } else {
        1.0
    };
    let moving = bytes as f64 / 1.2e9 * mechanism.0 * crowding * copying;
    mechanism.1 + moving + calls * per_call
}

fn trial((contest, entry): (usize, usize), round: u32, (at_seconds, seconds): (f64, f64), bytes: u64) -> Trial {
    Trial {
        contest,
        phase: if round < ROUNDS.0 {
            Phase::Screening
        } else {
            Phase::Contending
        },
        at_seconds,
        setup_seconds: 0.0001,
        user_seconds: seconds * 0.05,
        system_seconds: seconds * 0.2,
        voluntary_switches: 10,
        involuntary_switches: 1,
        minor_faults: 100,
        peak_memory_bytes: 4 << 20,
        calls: Some(100),
        bytes,
        source_bytes: Some(bytes),
        extents: Some(1),
        ..simulation::trial(entry, round, seconds)
    }
}

fn empty(experiment: &Experiment) -> Run {
    Run {
        version: CURRENT_VERSION,
        id: "made-up-methods-2014".to_owned(),
        seekless: env!("CARGO_PKG_VERSION").to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        elapsed_seconds: 0.0,
        ended: Ended::Complete,
        experiments: vec![experiment.name.clone()],
        seed: 2014,
        budget_seconds: None,
        drop: Drop::File,
        revision: None,
        machine: Machine {
            system: "Linux".to_owned(),
            kernel: "made up".to_owned(),
            architecture: "x86_64".to_owned(),
            processors: 4,
            memory_bytes: Some(16 << 30),
            ..Machine::default()
        },
        storages: vec![Storage {
            path: "/made/up".to_owned(),
            file_system: "ext4".to_owned(),
            device: Some(Device {
                name: "a made-up disk".to_owned(),
                ..Device::default()
            }),
            alternating_ns: Some(90_000.0),
            ..Storage::default()
        }],
        contests: Vec::new(),
        trials: Vec::new(),
        lab_cost: LabCost {
            null_seconds: vec![1.1e-6],
            ..LabCost::default()
        },
        noise: NoiseFloor {
            stolen: Some(0.001),
            others: Some(0.003),
            other_io: Some(0.002),
        },
        choices: vec!["nothing here was measured: a model of a disk made these figures".to_owned()],
        warnings: vec!["Made up to try the report on.".to_owned()],
        resumed_at_seconds: Vec::new(),
        published: experiment.published.clone(),
        columns: experiment.columns.clone(),
    }
}
