//! The lab against itself: does it see differences where there are none, and what does its own clock cost?
//!
//! One method runs under two names in contests of the lab, six shuffled rounds each, and the lab's own verdicts are
//! counted. Of equal methods, at most 2 / 2^6 = 3.1 % of the contests can end without a tie however noisy the machine is:
//! all six ratios would have to lie on the same side.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless::{Method, Operation};
use seekless_lab::experiment::{ContestPlan, Experiment, Layout, Size};
use seekless_lab::trial::Stop;
use seekless_lab::{Bench, Event, Kernel, Watch};
use seekless_record::{Cache, Contest, Differ, Run, Target, Verdict};
use seekless_results::statistics::median;

use crate::peers::ours::Ours;
use crate::process::check_interrupt;

/// The part of the contests that must end in a tie.
const TIES: f64 = 0.95;
/// What the lab may cost inside the clock of a trial.
const NULL_SECONDS: f64 = 10e-6;
/// Rounds of a contest: the fewest with an interval.
const ROUNDS: u32 = 6;
const SIZE_BYTES: u64 = 16 << 20;

/// What runs under two names.
const SUBJECTS: [(&str, Cache, &str); 3] = [
    ("warm read", Cache::Warm, "read/sync,block=128K"),
    ("cold read", Cache::Cold, "read/sync,block=128K"),
    ("cold direct read", Cache::Cold, "read/sync,direct,block=1M"),
];

/// Where, and how often.
#[derive(Args)]
pub struct Arguments {
    /// Folder on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Contests of each kind
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    contests: u16,
    /// Trials that do nothing
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    null_trials: u16,
    /// Seed of the order of trials [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

/// Ends the run's trials when the user asks for it.
struct Interruptible(Stop);

impl Watch for Interruptible {
    fn event(&mut self, _: &Event<'_>) {
        if check_interrupt().is_err() {
            self.0.request();
        }
    }
}

/// How the contests of one kind ended.
struct Tally {
    contests: usize,
    ties: usize,
    /// The ratios' distances from 1, the median of each contest.
    noise: Vec<f64>,
    invalid: usize,
}

/// Measures, prints, and fails where ties are too few or the clock costs too much.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.dir.is_dir(), "{} is not a folder", arguments.dir.display());
    let ours = Ours::build()?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!(
        "one method under two names, {} MiB, {ROUNDS} rounds a contest, seed {seed}\n",
        SIZE_BYTES >> 20
    );
    let null = null_seconds(&ours, arguments.null_trials)?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "contest",
        "method",
        "contests",
        "ties",
        "median |ratio - 1|",
        "invalid trials",
    ]);
    let mut too_few = Vec::new();
    for (name, cache, method) in SUBJECTS {
        let tally = contend(arguments, &ours, seed, cache, method).with_context(|| name.to_owned())?;
        let part = tally.ties as f64 / tally.contests as f64;
        if part < TIES {
            too_few.push(format!("{name}: {:.1} %", part * 100.0));
        }
        table.add_row([
            name.to_owned(),
            method.to_owned(),
            tally.contests.to_string(),
            format!("{} ({:.1} %)", tally.ties, part * 100.0),
            median(&tally.noise).map_or_else(|| "-".to_owned(), |noise| format!("{:.1} %", noise * 100.0)),
            tally.invalid.to_string(),
        ]);
    }
    println!("{table}\n");
    let (middle, high) = (median(&null).unwrap_or(f64::NAN), percentile_95(&null));
    println!(
        "null method inside the clock, {} trials: median {:.1} microseconds, 95th percentile {:.1}",
        null.len(),
        middle * 1e6,
        high * 1e6
    );
    ensure!(too_few.is_empty(), "fewer ties than 95 %: {}", too_few.join(", "));
    ensure!(
        high < NULL_SECONDS,
        "the lab costs 10 microseconds or more inside the clock"
    );
    Ok(())
}

fn null_seconds(ours: &Ours, trials: u16) -> Result<Vec<f64>> {
    (0..trials)
        .map(|_| {
            check_interrupt()?;
            ours.time_null()
        })
        .collect()
}

/// Runs a method against itself as `seekless bench` would run it against another, and counts the lab's verdicts.
fn contend(arguments: &Arguments, ours: &Ours, seed: u64, cache: Cache, method: &str) -> Result<Tally> {
    let method: Method = method.parse()?;
    let contest = ContestPlan {
        operation: Operation::Read,
        methods: vec![method.into(), method.into()],
        labels: Vec::new(),
        commands: Vec::new(),
        differs: vec![Differ::None],
        read_ahead_kib: vec![None],
        updates: None,
        layouts: vec![Layout::DENSE],
        memory_bytes: None,
        sizes: vec![Size::Bytes(SIZE_BYTES)],
        caches: vec![cache],
        target: Target::Fresh,
        kernel: Kernel::Count,
        work_ns_per_kib: 0,
    };
    let bench = Bench {
        name: None,
        experiments: vec![Experiment {
            name: "itself".to_owned(),
            about: "One method under two names".to_owned(),
            contests: vec![contest; usize::from(arguments.contests)],
            published: Vec::new(),
            columns: Vec::new(),
        }],
        folders: vec![arguments.dir.clone()],
        other: None,
        budget: Duration::from_mins(10),
        rounds: Some(ROUNDS),
        sizes: Vec::new(),
        caches: Vec::new(),
        seed,
        work_ns_per_kib: None,
        drop: seekless_record::Drop::File,
        file: None,
        program: ours.program().to_owned(),
        checkpoint: Duration::from_mins(2),
        earlier: Vec::new(),
        yields: false,
        resume: None,
    };
    let stop = Stop::default();
    let run = seekless_lab::run(&bench, &stop, &mut Interruptible(stop.clone()));
    check_interrupt()?;
    tally(&run?)
}

fn tally(run: &Run) -> Result<Tally> {
    let mut tally = Tally {
        contests: run.contests.len(),
        ties: 0,
        noise: Vec::new(),
        invalid: run.trials.iter().filter(|trial| !trial.valid).count(),
    };
    for contest in &run.contests {
        tally.ties += usize::from(is_tie(contest)?);
        let standings = contest.entries.iter().filter_map(|entry| entry.standing.as_ref());
        let other = standings.filter(|standing| standing.verdict != Verdict::Best);
        tally
            .noise
            .extend(other.map(|standing| (standing.ratio.median - 1.0).abs()));
    }
    Ok(tally)
}

fn is_tie(contest: &Contest) -> Result<bool> {
    let verdicts = contest.entries.iter().map(|entry| {
        let standing = entry.standing.as_ref();
        standing
            .map(|standing| standing.verdict)
            .with_context(|| format!("no verdict on {}: {:?}", entry.name(), entry.status))
    });
    let verdicts = verdicts.collect::<Result<Vec<_>>>()?;
    Ok(!verdicts.contains(&Verdict::Slower))
}

/// The sample that 95 % of the samples do not exceed.
fn percentile_95(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * 95).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_95th_percentile_is_a_sample() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile_95(&samples).to_bits(), 95.0_f64.to_bits());
        assert_eq!(percentile_95(&[2.0, 1.0]).to_bits(), 2.0_f64.to_bits());
        assert!(percentile_95(&[]).is_nan());
    }
}
