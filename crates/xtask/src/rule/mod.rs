//! Judges the rule by which the lab decides: sittings on a simulated machine, where the truth is known.
//!
//! The judge reads what every reader of a run can read: the recommendation, the verdict of each entry, its interval. Words
//! of the table: a contest is *decided* if it recommends a method; *regret* is the time of the recommended method over that
//! of the truly best, less one; *best* is false if a method that is said to be best, with nothing tied, is not; *slower* is
//! false if a method that is dropped, or said to be slower, truly is not slower than the final leader; a claim is
//! *contradicted* if in another sitting the interval of twelve paired rounds lies wholly on the other side of 1.

mod world;

use std::fmt;

use anyhow::Result;
use clap::Args;
use seekless_record::{Contest, Entry, EntryVerdict, Phase, RelativeResult, Revision, Run, StorageId, Trial};
use seekless_results::pool;
use seekless_results::ranking::Samples;
use seekless_results::statistics::{median, median_interval};

use self::world::{Chance, SCENARIOS, Scenario, Truth};
use crate::process::check_interrupt;

/// Rounds of a pair in the sitting that may contradict a claim.
const PAIRS: u32 = 12;

/// How much to simulate.
#[derive(Args)]
pub struct Arguments {
    /// Sittings of eight contests for each scenario
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    sittings: u32,
    /// Sittings that each verdict rests on, four hours apart: of more than one, regret is over the method that is best
    /// on the mean of all sittings
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    over: u32,
    /// Only the scenarios whose names contain this
    #[arg(long, default_value = "")]
    scenario: String,
}

/// Simulates, and prints a line of Markdown for each scenario.
pub fn run(arguments: &Arguments) -> Result<()> {
    let titles = Score::default().columns().map(|(title, _)| title);
    println!("| scenario | {} |", titles.join(" | "));
    println!("|---|{}", "---:|".repeat(titles.len()));
    let all = SCENARIOS.iter();
    for scenario in all.filter(|scenario| scenario.name.contains(&arguments.scenario)) {
        let score = judge(scenario, arguments.sittings, arguments.over)?;
        let figures = score.columns().map(|(_, figure)| figure);
        println!("| {} | {} |", scenario.name, figures.join(" | "));
    }
    Ok(())
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    part: u32,
    of: u32,
}

impl Rate {
    fn count(&mut self, is_part: bool) {
        self.part += u32::from(is_part);
        self.of += 1;
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            0 => out.write_str("-"),
            of => write!(out, "{:.1} %", 100.0 * f64::from(self.part) / f64::from(of)),
        }
    }
}

/// What came of a scenario's sittings.
#[derive(Debug, Default)]
struct Score {
    trials: usize,
    /// Contests with a recommendation.
    decided: Rate,
    /// Of the decided contests, those with a regret beyond 5 %, and beyond 10 %.
    regrets: [Rate; 2],
    /// Contests that name one method the best.
    best: Rate,
    best_false: Rate,
    /// Sittings in which a method is falsely said to be slower.
    slower_false: Rate,
    /// Of the contests with a method that is said to be slower.
    contradicted: Rate,
    /// Contests whose methods are said to be equal.
    equal: Rate,
    equal_false: Rate,
    /// Of the contests that say what the method to use costs at most, those that say too little, and those that fresh rounds of the
    /// same sitting refute.
    costs_false: Rate,
    costs_refuted: Rate,
    /// Of the intervals with a coverage, those that hold the true ratio.
    covering: Rate,
    /// The logarithms of high over low of those that tie.
    widths: Vec<f64>,
}

impl Score {
    /// The title of each column of the table, and its figure.
    fn columns(&self) -> [(&'static str, String); 13] {
        let width = median(&self.widths);
        let width = width.map_or_else(|| "-".to_owned(), |width| format!("{:.0} %", width.exp_m1() * 100.0));
        let trials = self.trials as f64 / f64::from(self.decided.of);
        [
            ("decided", self.decided.to_string()),
            ("regret > 5 %", self.regrets[0].to_string()),
            ("regret > 10 %", self.regrets[1].to_string()),
            ("one best", self.best.to_string()),
            ("of these false", self.best_false.to_string()),
            ("sittings with a false slower", self.slower_false.to_string()),
            ("contradicted", self.contradicted.to_string()),
            ("equal within 10 %", self.equal.to_string()),
            ("of these false", self.equal_false.to_string()),
            ("costs more than said", self.costs_false.to_string()),
            ("refuted by its own rounds", self.costs_refuted.to_string()),
            ("intervals cover", self.covering.to_string()),
            ("width; trials", format!("{width}; {trials:.0}")),
        ]
    }

    fn add(&mut self, scenario: &Scenario, hour: &Truth, other_hour: &Truth, run: &Run, seed: u64) {
        self.trials += run.trials.len();
        let mut is_false = false;
        for (index, contest) in run.contests.iter().enumerate() {
            is_false |= self.add_contest(contest, &hour[index]);
            if let Some((used, cost)) = to_use(contest) {
                self.costs_refuted.count(is_refuted(run, index, used, cost));
            }
            if let Some(is_contradicted) = contradicted(scenario, contest, &other_hour[index], seed) {
                self.contradicted.count(is_contradicted);
            }
        }
        self.slower_false.count(is_false);
    }

    /// Gives whether a method is falsely said to be slower.
    fn add_contest(&mut self, contest: &Contest, hour: &[f64]) -> bool {
        let fastest = hour.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = hour.iter().copied().fold(0.0, f64::max);
        let recommended = recommended(contest);
        self.decided.count(recommended.is_some());
        if let Some(entry) = recommended {
            let regret = hour[entry] / fastest - 1.0;
            self.regrets[0].count(regret > 0.05);
            self.regrets[1].count(regret > 0.10);
        }
        let conclusion = contest.conclusion.as_ref();
        let equal_within = conclusion.and_then(|conclusion| conclusion.equal_within);
        self.equal.count(equal_within.is_some());
        if let Some(within) = equal_within {
            self.equal_false.count(slowest / fastest - 1.0 > within);
        }
        if let Some((entry, cost)) = to_use(contest) {
            self.costs_false.count(hour[entry] / fastest - 1.0 > cost);
        }
        let leader = leader(contest);
        let others = |entry: &usize| leader.is_some_and(|leader| *entry != leader);
        let others: Vec<usize> = (0..hour.len()).filter(others).collect();
        let slower: Vec<usize> = said_slower(contest);
        let is_best = leader.is_some() && slower.len() == others.len();
        self.best.count(is_best);
        let Some(leader) = leader else { return false };
        if is_best {
            self.best_false.count(hour[leader] > fastest);
        }
        for entry in others {
            let verdict = &contest.entries[entry].verdict;
            let Some(RelativeResult { ratio, .. }) = verdict.relative() else {
                continue;
            };
            if ratio.coverage.is_some() {
                let truth = hour[entry] / hour[leader];
                self.covering.count(ratio.low <= truth && truth <= ratio.high);
                if matches!(verdict, EntryVerdict::Tie(_)) {
                    self.widths.push((ratio.high / ratio.low).ln());
                }
            }
        }
        slower.into_iter().any(|entry| hour[entry] <= hour[leader])
    }
}

/// Simulates sittings in one scenario; the same seeds for every rule. Each verdict rests on this many sittings.
fn judge(scenario: &Scenario, sittings: u32, over: u32) -> Result<Score> {
    let mut score = Score::default();
    for sitting in 0..sittings {
        check_interrupt()?;
        let seed = u64::from(sitting) + 1;
        let mut chance = Chance::new(seed << 32);
        let truth = scenario.truth(&mut chance);
        let [hour, other_hour] = [(); 2].map(|()| scenario.this_hour(&truth, &mut chance));
        let run = scenario.sit(&hour, seed);
        if over == 1 {
            score.add(scenario, &hour, &other_hour, &run, seed);
            continue;
        }
        let earlier = (1..over).map(|back| {
            let hour = scenario.this_hour(&truth, &mut chance);
            scenario.sit(&hour, seed + (u64::from(back) << 24))
        });
        let runs = earlier.chain([run]).enumerate();
        let mut runs: Vec<Run> = runs.map(|(number, run)| as_sitting(run, number as u32)).collect();
        let last = runs.pop().unwrap_or_default();
        score.add(scenario, &truth, &other_hour, &pool(&last, &runs), seed);
    }
    Ok(score)
}

/// A run as one of several sittings on one storage, of which one is every four hours.
fn as_sitting(mut run: Run, number: u32) -> Run {
    run.id = format!("sitting-{number}");
    run.started = format!("2026-11-{:02}T{:02}:00:00Z", 1 + number / 6, number % 6 * 4);
    run.revision = Some(Revision {
        protocol: 1,
        mechanisms: 1,
    });
    for storage in &mut run.storages {
        storage.id = Some(StorageId::default());
    }
    run
}

fn recommended(contest: &Contest) -> Option<usize> {
    named(contest, contest.conclusion.as_ref()?.recommended.as_ref())
}

/// The method to use, decided or not, and what it costs at most.
fn to_use(contest: &Contest) -> Option<(usize, f64)> {
    let conclusion = contest.conclusion.as_ref()?;
    let name = conclusion.recommended.as_ref().or(conclusion.until_decided.as_ref());
    Some((named(contest, name)?, conclusion.costs_at_most?))
}

fn named(contest: &Contest, name: Option<&String>) -> Option<usize> {
    let is_it = |entry: &Entry| name.is_some_and(|name| entry.name() == *name);
    contest.entries.iter().position(is_it)
}

/// The entry against which the others stand.
fn leader(contest: &Contest) -> Option<usize> {
    named(contest, contest.conclusion.as_ref()?.best.as_ref())
}

/// The entries that are said to be slower than the leader.
fn said_slower(contest: &Contest) -> Vec<usize> {
    let Some(leader) = leader(contest) else {
        return Vec::new();
    };
    let is_slower = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Dropped(_) | EntryVerdict::Slower(_));
    let others = (0..contest.entries.len()).filter(|&entry| entry != leader);
    others.filter(|&entry| is_slower(&contest.entries[entry])).collect()
}

/// Whether the fresh rounds of a contest show that the method to use costs more than this.
fn is_refuted(run: &Run, contest: usize, used: usize, cost: f64) -> bool {
    let fresh = |entry: usize| {
        let own = move |trial: &&Trial| (trial.contest, trial.entry) == (contest, entry);
        let trials = run.trials.iter().filter(own);
        Samples::of(trials.filter(|trial| trial.phase == Phase::Confirming))
    };
    let own = fresh(used);
    let others = (0..run.contests[contest].entries.len()).filter(|&other| other != used);
    let mut ratios = others.filter_map(|other| Some(own.over(&fresh(other))?.ratio));
    ratios.any(|ratio| ratio.coverage.is_some() && ratio.low > 1.0 + cost)
}

/// Whether another sitting contradicts a claim that a method is slower; none if there is no such claim.
fn contradicted(scenario: &Scenario, contest: &Contest, other_hour: &[f64], seed: u64) -> Option<bool> {
    let leader = leader(contest)?;
    let contradicts = |entry: usize| {
        let seed = seed << 16 | entry as u64;
        let ratios = scenario.ratios([other_hour[entry], other_hour[leader]], PAIRS, seed);
        median_interval(&ratios).is_some_and(|interval| interval.high < 1.0)
    };
    let slower = said_slower(contest);
    (!slower.is_empty()).then(|| slower.into_iter().any(contradicts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_noise_nothing_is_false_and_nothing_contradicted() {
        let mut still = SCENARIOS[0];
        still.noise = 1e-4;
        let score = judge(&still, 2, 1).unwrap();
        assert_eq!(score.decided, Rate { part: 16, of: 16 });
        assert_eq!(score.regrets[0], Rate { part: 0, of: 16 });
        let wrong = [score.best_false, score.slower_false, score.contradicted];
        assert_eq!(wrong.map(|rate| rate.part), [0; 3]);
        assert_eq!(score.contradicted.of, 16);
    }

    /// What is wanted of the rule, in fewer sittings than the table has.
    #[test]
    fn rule_decides_most_contests_and_claims_little_falsely() {
        let usual = SCENARIOS.iter().find(|scenario| scenario.name == "noise 13 %").unwrap();
        let score = judge(usual, 16, 1).unwrap();
        assert!(score.decided.part * 4 >= score.decided.of * 3, "{score:?}");
        let costly = score.regrets[0];
        assert!(costly.part * 10 <= costly.of, "{costly:?}");
        let are_rare = score.costs_false.part * 10 <= score.costs_false.of;
        assert!(score.slower_false.part <= 1 && are_rare, "{score:?}");
        assert!(score.covering.part * 100 >= score.covering.of * 90, "{score:?}");
    }

    #[test]
    fn three_sittings_are_contradicted_by_none_and_cost_little() {
        let name = "13 %, 8 % between sittings";
        let varying = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        let score = judge(varying, 6, 3).unwrap();
        assert_eq!(score.decided.of, 48);
        assert!(score.contradicted.part <= 2, "{score:?}");
        assert!(score.costs_false.part <= 5, "{score:?}");
        assert!(score.covering.part * 100 >= score.covering.of * 90, "{score:?}");
    }

    #[test]
    fn the_judge_sees_what_is_false() {
        let scenario = &SCENARIOS[0];
        let truth = scenario.truth(&mut Chance::new(1));
        let run = scenario.sit(&truth, 1);
        // Measured in one world, scored in one where what was slow is fast.
        let inverse: Truth = truth
            .iter()
            .map(|methods| methods.iter().map(|seconds| 1e-3 / seconds).collect())
            .collect();
        let mut score = Score::default();
        score.add(scenario, &inverse, &inverse, &run, 1);
        assert_eq!((score.slower_false.part, score.contradicted.of), (1, 8));
        assert_eq!(score.contradicted.part, 8);
        assert_eq!(score.best_false.part, score.best.part);
        assert_eq!(score.regrets[1].part, score.regrets[1].of);
        assert!(score.covering.part < score.covering.of);
    }
}
