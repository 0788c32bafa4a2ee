//! The lab against itself: does it see differences where there are none, and what does its own clock cost?
//!
//! Sixteen names of one method compete as sixteen methods would: a budget, rounds in shuffled order, what is beaten is
//! dropped. No difference is true, so each claim of one is false, and each ratio is 1. The lab promises that at most one
//! run in twenty claims a difference, and that an interval of 95 % holds the ratio in 95 % of the cases. Chance exceeds the
//! bounds used here once in 200 times each, if the promises are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless::{Method, Operation};
use seekless_lab::Bench;
use seekless_lab::experiment::{ContestPlan, Experiment, Size};
use seekless_record::{Cache, Contest, Interval, Run, Status, Verdict};
use seekless_results::ranking::Samples;
use seekless_results::statistics::{median, percentile};

use super::ours;
use crate::process::check_interrupt;

/// The part of runs that may claim a difference, and of intervals that may miss the true ratio.
const PROMISED: f64 = 0.05;
/// Less likely than this is no chance.
const CHANCE: f64 = 0.005;
/// What the lab may cost inside the clock of a trial.
const NULL_SECONDS: f64 = 10e-6;
const NAMES: usize = 16;
const SIZE_BYTES: u64 = 16 << 20;

/// What runs under sixteen names.
const SUBJECTS: [(&str, Cache, &str); 3] = [
    ("warm read", Cache::Warm, "read/sync,block=128K"),
    ("cold read", Cache::Cold, "read/sync,block=128K"),
    ("cold direct read", Cache::Cold, "read/sync,direct,block=1M"),
];

/// Where, and how often.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Runs of a contest of each kind
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Seconds of a run
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// Trials that do nothing
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    null_trials: u16,
    /// Seed of the order of trials [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

/// How often something happened that may happen in [`PROMISED`] of the cases.
#[derive(Clone, Copy, Default)]
struct Count {
    wrong: u32,
    of: u32,
}

impl Count {
    fn add(&mut self, is_wrong: bool) {
        self.wrong += u32::from(is_wrong);
        self.of += 1;
    }

    /// Whether chance alone hardly ever makes as many: the tail of the binomial distribution.
    fn is_too_many(self) -> bool {
        let mut exactly = (1.0 - PROMISED).powf(self.of.into());
        let mut fewer = 0.0;
        for wrong in 0..self.wrong {
            fewer += exactly;
            exactly *= f64::from(self.of - wrong) / f64::from(wrong + 1) * PROMISED / (1.0 - PROMISED);
        }
        1.0 - fewer < CHANCE
    }

    fn in_words(self) -> String {
        format!("{} of {}", self.wrong, self.of)
    }
}

/// What contests of equal methods claimed, in the order of [`CLAIMS`].
#[derive(Default)]
struct Tally {
    counts: [Count; CLAIMS.len()],
    /// How far the ratios of pairs are from 1.
    distances: Vec<f64>,
    invalid: usize,
}

/// Heads of the table. Pairs are the first name over the second, the third over the fourth, and so on: no name has a part in two
/// of them. Of ratios to the leader there is one for each contest, since those of a contest share their leader.
const CLAIMS: [&str; 6] = [
    "call one slower",
    "call one the best",
    "call all equal",
    "undecided",
    "pairs without 1",
    "to the leader without 1",
];
const PAIRS: usize = 4;
const TO_LEADER: usize = 5;

impl Tally {
    fn add(&mut self, run: &Run, index: usize) {
        let contest = &run.contests[index];
        let conclusion = contest.conclusion.as_ref();
        let claims = [
            called_slower(contest).next().is_some(),
            calls_one_best(contest),
            conclusion.is_some_and(|conclusion| conclusion.equal_within.is_some()),
            conclusion.is_none_or(|conclusion| conclusion.recommended.is_none()),
        ];
        for (count, claimed) in self.counts.iter_mut().zip(claims) {
            count.add(claimed);
        }
        let trials = || run.trials.iter().filter(|trial| trial.contest == index);
        self.invalid += trials().filter(|trial| !trial.valid).count();
        let samples = |entry| Samples::of(trials().filter(|trial| trial.entry == entry));
        for first in (1..contest.entries.len()).step_by(2) {
            if let Some(paired) = samples(first - 1).over(&samples(first)) {
                self.distances.push((paired.ratio.median - 1.0).abs());
                add_interval(&mut self.counts[PAIRS], &paired.ratio);
            }
        }
        let mut standings = contest.entries.iter().filter_map(|entry| entry.standing.as_ref());
        if let Some(one) =
            standings.find(|standing| standing.verdict == Verdict::Tie && standing.ratio.coverage.is_some())
        {
            add_interval(&mut self.counts[TO_LEADER], &one.ratio);
        }
    }
}

/// Counts the interval of a ratio, where there are enough rounds for one.
fn add_interval(count: &mut Count, ratio: &Interval) {
    if ratio.coverage.is_some() {
        count.add(ratio.low > 1.0 || ratio.high < 1.0);
    }
}

/// The names that are called slower, each with its figures.
fn called_slower(contest: &Contest) -> impl Iterator<Item = String> {
    contest.entries.iter().enumerate().filter_map(|(name, entry)| {
        let standing = entry
            .standing
            .as_ref()
            .filter(|standing| standing.verdict == Verdict::Slower);
        let found = standing.map(|standing| format!("{:.2}x after {} rounds", standing.ratio.median, standing.pairs));
        let dropped = match &entry.status {
            Status::Dropped(why) => Some(format!("dropped: {why}")),
            _ => None,
        };
        let found: Vec<String> = dropped.into_iter().chain(found).collect();
        (!found.is_empty()).then(|| format!("name {name}: {}", found.join("; in the end ")))
    })
}

fn calls_one_best(contest: &Contest) -> bool {
    contest.conclusion.as_ref().is_some_and(|conclusion| {
        let is_best = conclusion.costs_at_most.is_some_and(|cost| cost <= 0.0);
        conclusion.recommended.is_some() && conclusion.equal_within.is_none() && is_best
    })
}

/// What all runs claimed.
#[derive(Default)]
struct Score {
    /// Runs that claim a difference in some contest.
    runs: Count,
    kinds: Vec<Tally>,
}

impl Score {
    fn add(&mut self, run: &Run) {
        let is_false = |contest: &Contest| called_slower(contest).next().is_some() || calls_one_best(contest);
        self.runs.add(run.contests.iter().any(is_false));
        self.kinds.resize_with(run.contests.len(), Tally::default);
        for (index, tally) in self.kinds.iter_mut().enumerate() {
            tally.add(run, index);
        }
    }

    /// The promises that are not kept.
    fn broken(&self) -> Vec<String> {
        let sum = |claim: usize| {
            self.kinds.iter().fold(Count::default(), |sum, tally| Count {
                wrong: sum.wrong + tally.counts[claim].wrong,
                of: sum.of + tally.counts[claim].of,
            })
        };
        let promises = [
            (self.runs, "runs claim a difference"),
            (sum(PAIRS), "intervals of pairs do not hold 1"),
            (sum(TO_LEADER), "intervals of a ratio to the leader do not hold 1"),
        ];
        let broken = promises.into_iter().filter(|(count, _)| count.is_too_many());
        broken
            .map(|(count, what)| format!("{} {what}", count.in_words()))
            .collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let heads = ["contest", "method"].into_iter().chain(CLAIMS);
        table.set_header(heads.chain(["median |ratio - 1|", "invalid trials"]));
        for ((name, _, method), tally) in SUBJECTS.iter().zip(&self.kinds) {
            let mut row = vec![(*name).to_owned(), (*method).to_owned()];
            row.extend(tally.counts.map(Count::in_words));
            row.push(median(&tally.distances).map_or_else(|| "-".to_owned(), |far| format!("{:.1} %", far * 100.0)));
            row.push(tally.invalid.to_string());
            table.add_row(row);
        }
        table
    }
}

/// Measures, prints, and fails where the lab claims more than it promises, or the clock costs too much.
pub fn run(arguments: &Arguments) -> Result<()> {
    let program = ours::build()?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!(
        "{NAMES} names of one method, {} MiB, {} runs of {} s, seed {seed}\n",
        SIZE_BYTES >> 20,
        arguments.runs,
        arguments.budget
    );
    let null = (0..arguments.null_trials)
        .map(|_| check_interrupt().and_then(|()| ours::time_null(&program)))
        .collect::<Result<Vec<f64>>>()?;
    let mut score = Score::default();
    for run in 0..u64::from(arguments.runs) {
        let run = contend(arguments, &program, seed + run)?;
        for (contest, (kind, ..)) in run.contests.iter().zip(SUBJECTS) {
            for claim in called_slower(contest) {
                println!("seed {}, {kind}, {claim}", run.seed);
            }
        }
        let others = run.noise.others.unwrap_or(f64::NAN);
        println!(
            "seed {}: others used {:.0} % of the processors' time",
            run.seed,
            others * 100.0
        );
        score.add(&run);
    }
    println!("\n{}\n", score.table());
    println!("{} runs claim a difference", score.runs.in_words());
    let (middle, high) = (
        median(&null).unwrap_or(f64::NAN),
        percentile(&null, 95).unwrap_or(f64::NAN),
    );
    println!(
        "null method inside the clock, {} trials: median {:.1} microseconds, 95th percentile {:.1}",
        null.len(),
        middle * 1e6,
        high * 1e6
    );
    let broken = score.broken();
    ensure!(
        broken.is_empty(),
        "more than {:.0} % of equal methods: {}",
        PROMISED * 100.0,
        broken.join("; ")
    );
    ensure!(
        high < NULL_SECONDS,
        "the lab costs 10 microseconds or more inside the clock"
    );
    Ok(())
}

/// Runs each method against itself as `seekless bench` would run sixteen.
fn contend(arguments: &Arguments, program: &Path, seed: u64) -> Result<Run> {
    let contest = |(_, cache, method): (_, Cache, &str)| -> Result<ContestPlan> {
        let method: Method = method.parse()?;
        // Nothing but its place in the list tells one from another.
        let plan = ContestPlan::of(Operation::Read, vec![method.into(); NAMES], Size::Bytes(SIZE_BYTES));
        Ok(ContestPlan {
            caches: vec![cache],
            ..plan
        })
    };
    let experiment = Experiment {
        name: "itself".to_owned(),
        about: "One method under sixteen names".to_owned(),
        contests: SUBJECTS.into_iter().map(contest).collect::<Result<_>>()?,
        published: Vec::new(),
        columns: Vec::new(),
    };
    ours::bench(&Bench {
        budget: Duration::from_secs(arguments.budget),
        drop: Some(seekless_record::Drop::File),
        ..Bench::new(vec![experiment], vec![arguments.dir.clone()], program.to_owned(), seed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::world::{Chance, SCENARIOS, Scenario, Truth};

    /// What runs of equal methods on a simulated machine claim, after this was done to what the methods truly take.
    fn score(bias: impl Fn(&mut Truth, &mut Chance)) -> Score {
        let equal: &Scenario = SCENARIOS.iter().find(|one| one.spread == Some(0.0)).unwrap();
        let mut score = Score::default();
        for seed in 0..6 {
            let chance = &mut Chance::new(seed);
            let mut truth = equal.truth(chance);
            bias(&mut truth, chance);
            score.add(&equal.sit(&truth, seed));
        }
        score
    }

    #[test]
    fn equal_methods_keep_what_is_promised() {
        let score = score(|_, _| {});
        assert_eq!(score.broken(), [""; 0]);
        let pairs: u32 = score.kinds.iter().map(|tally| tally.counts[PAIRS].of).sum();
        assert!(pairs > 300, "{pairs} pairs have enough rounds to tell anything");
    }

    /// As if one place in the round, or one file, were worse than the others.
    #[test]
    fn a_name_that_is_slower_than_the_others_is_noticed() {
        let broken = score(|truth, _| truth.iter_mut().for_each(|methods| methods[3] *= 1.5)).broken();
        assert!(broken[0].contains("6 of 6 runs claim a difference"), "{broken:?}");
    }

    /// As if something other than the method stayed the same for all rounds of a name, so that rounds tell less than they seem to.
    #[test]
    fn what_differs_by_name_and_not_by_round_is_noticed() {
        let of_name = Scenario {
            sittings: 0.15,
            ..SCENARIOS[0]
        };
        let broken = score(|truth, chance| *truth = of_name.this_hour(truth, chance)).broken();
        assert!(
            broken.iter().any(|what| what.contains("intervals of pairs")),
            "{broken:?}"
        );
    }

    #[test]
    fn chance_alone_makes_a_few() {
        let is_too_many = |wrong, of| Count { wrong, of }.is_too_many();
        // Of 10 at 5 %: three or more in 1.15 % of the cases, four or more in 0.10 %. Of 400: 32 or more in 0.67 %, 33 in 0.38 %.
        assert!(!is_too_many(0, 0) && !is_too_many(3, 10) && is_too_many(4, 10));
        assert!(!is_too_many(32, 400) && is_too_many(33, 400));
    }
}
