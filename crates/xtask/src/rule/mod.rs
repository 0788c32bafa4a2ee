//! Judges the rule by which the lab decides: sittings on a simulated machine, where the truth is known.
//!
//! The judge reads what every reader of a run can read: the recommendation, the verdict of each entry, its interval. Words
//! of the table: a contest is *decided* if it recommends a method; *regret* is the time of the recommended method over that
//! of the truly best, less one; *best* is false if a method that is said to be best, with nothing tied, is not; *slower* is
//! false if a method that is dropped, or said to be slower, truly is not slower than the final leader; a claim is
//! *contradicted* if in another sitting the interval of twelve paired rounds lies wholly on the other side of 1.

mod replay;
pub mod world;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use seekless_record::{Contest, Revision, Run, Status, StorageId, Verdict};
use seekless_results::pool;
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
    /// Simulate nothing: leave each saved run of this directory out in turn, and score on it what the others decide
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
}

/// Simulates, and prints a line of Markdown for each scenario.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(directory) = &arguments.replay {
        return replay::run(directory);
    }
    println!("| scenario | {} |", COLUMNS.map(|(title, _)| title).join(" | "));
    println!("|---|{}", "---:|".repeat(COLUMNS.len()));
    for scenario in SCENARIOS
        .iter()
        .filter(|scenario| scenario.name.contains(&arguments.scenario))
    {
        let score = judge(scenario, arguments.sittings, arguments.over)?;
        println!(
            "| {} | {} |",
            scenario.name,
            COLUMNS.map(|(_, figure)| figure(&score)).join(" | ")
        );
    }
    Ok(())
}

/// What came of a scenario's sittings.
#[derive(Debug, Default)]
struct Score {
    sittings: u32,
    contests: u32,
    trials: usize,
    decided: u32,
    /// Of the decided contests.
    regrets: Vec<f64>,
    /// Contests that name one method the best.
    best: u32,
    best_false: u32,
    /// Sittings in which a method is falsely said to be slower.
    slower_false: u32,
    /// Contests with a method that is said to be slower.
    claiming: u32,
    contradicted: u32,
    /// Contests whose methods are said to be equal.
    equal: u32,
    equal_false: u32,
    /// Contests that say what the method to use costs at most, and how many of them say too little.
    costs: u32,
    costs_false: u32,
    /// Intervals with a coverage, and how many of them hold the true ratio.
    intervals: u32,
    covering: u32,
    /// The logarithms of high over low of those that tie.
    widths: Vec<f64>,
}

type Column = (&'static str, fn(&Score) -> String);

const COLUMNS: [Column; 12] = [
    ("decided", |score| percent(score.decided, score.contests)),
    ("regret > 5 %", |score| score.regret_beyond(0.05)),
    ("regret > 10 %", |score| score.regret_beyond(0.10)),
    ("one best", |score| percent(score.best, score.contests)),
    ("of these false", |score| percent(score.best_false, score.best)),
    ("sittings with a false slower", |score| {
        percent(score.slower_false, score.sittings)
    }),
    ("contradicted", |score| percent(score.contradicted, score.claiming)),
    ("equal within 10 %", |score| percent(score.equal, score.contests)),
    ("of these false", |score| percent(score.equal_false, score.equal)),
    ("costs more than said", |score| percent(score.costs_false, score.costs)),
    ("intervals cover", |score| percent(score.covering, score.intervals)),
    ("width; trials", |score| {
        let width =
            median(&score.widths).map_or_else(|| "-".to_owned(), |width| format!("{:.0} %", width.exp_m1() * 100.0));
        format!("{width}; {:.0}", score.trials as f64 / f64::from(score.contests))
    }),
];

fn percent(part: u32, of: u32) -> String {
    match of {
        0 => "-".to_owned(),
        of => format!("{:.1} %", 100.0 * f64::from(part) / f64::from(of)),
    }
}

impl Score {
    fn regret_beyond(&self, most: f64) -> String {
        let beyond = self.regrets.iter().filter(|&&regret| regret > most).count();
        percent(beyond as u32, self.regrets.len() as u32)
    }

    fn add(&mut self, scenario: &Scenario, hour: &Truth, other_hour: &Truth, run: &Run, seed: u64) {
        self.sittings += 1;
        self.trials += run.trials.len();
        let mut is_false = false;
        for (index, contest) in run.contests.iter().enumerate() {
            is_false |= self.add_contest(contest, &hour[index]);
            if let Some(is_contradicted) = contradicted(scenario, contest, &other_hour[index], seed) {
                self.claiming += 1;
                self.contradicted += u32::from(is_contradicted);
            }
        }
        self.slower_false += u32::from(is_false);
    }

    /// Gives whether a method is falsely said to be slower.
    fn add_contest(&mut self, contest: &Contest, hour: &[f64]) -> bool {
        self.contests += 1;
        let fastest = hour.iter().copied().fold(f64::INFINITY, f64::min);
        if let Some(recommended) = recommended(contest) {
            self.decided += 1;
            self.regrets.push(hour[recommended] / fastest - 1.0);
        }
        let slowest = hour.iter().copied().fold(0.0, f64::max);
        if let Some(within) = contest
            .conclusion
            .as_ref()
            .and_then(|conclusion| conclusion.equal_within)
        {
            self.equal += 1;
            self.equal_false += u32::from(slowest / fastest - 1.0 > within);
        }
        if let Some((entry, cost)) = to_use(contest) {
            self.costs += 1;
            self.costs_false += u32::from(hour[entry] / fastest - 1.0 > cost);
        }
        let Some(leader) = leader(contest) else { return false };
        let is_said_slower: Vec<bool> = (0..hour.len()).map(|entry| is_said_slower(contest, entry)).collect();
        let others = || (0..hour.len()).filter(|&entry| entry != leader);
        if others().all(|entry| is_said_slower[entry]) {
            self.best += 1;
            self.best_false += u32::from(hour[leader] > fastest);
        }
        for entry in others() {
            let Some(standing) = &contest.entries[entry].standing else {
                continue;
            };
            let ratio = standing.ratio;
            if ratio.coverage.is_some() {
                let truth = hour[entry] / hour[leader];
                self.intervals += 1;
                self.covering += u32::from(ratio.low <= truth && truth <= ratio.high);
                if standing.verdict == Verdict::Tie {
                    self.widths.push((ratio.high / ratio.low).ln());
                }
            }
        }
        others().any(|entry| is_said_slower[entry] && hour[entry] <= hour[leader])
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
    named(contest, contest.conclusion.as_ref()?.recommended.as_ref()?)
}

/// The method to use, decided or not, and what it costs at most.
fn to_use(contest: &Contest) -> Option<(usize, f64)> {
    let conclusion = contest.conclusion.as_ref()?;
    let name = conclusion.recommended.as_ref().or(conclusion.until_decided.as_ref())?;
    Some((named(contest, name)?, conclusion.costs_at_most?))
}

fn named(contest: &Contest, name: &str) -> Option<usize> {
    contest.entries.iter().position(|entry| entry.name() == name)
}

/// The entry against which the others stand.
fn leader(contest: &Contest) -> Option<usize> {
    named(contest, contest.conclusion.as_ref()?.best.as_ref()?)
}

fn is_said_slower(contest: &Contest, entry: usize) -> bool {
    let entry = &contest.entries[entry];
    let stands_slower = |standing: &seekless_record::Standing| standing.verdict == Verdict::Slower;
    matches!(entry.status, Status::Dropped(_)) || entry.standing.as_ref().is_some_and(stands_slower)
}

/// Whether another sitting contradicts a claim that a method is slower; none if there is no such claim.
fn contradicted(scenario: &Scenario, contest: &Contest, other_hour: &[f64], seed: u64) -> Option<bool> {
    let leader = leader(contest)?;
    let slower = (0..other_hour.len()).filter(|&entry| entry != leader && is_said_slower(contest, entry));
    let contradicts = |entry: usize| {
        let seed = seed << 16 | entry as u64;
        let pairs = scenario.pairs([other_hour[entry], other_hour[leader]], PAIRS, seed);
        let ratios: Vec<f64> = pairs.iter().map(|(one, other)| one / other).collect();
        median_interval(&ratios).is_some_and(|interval| interval.high < 1.0)
    };
    let all: Vec<bool> = slower.map(contradicts).collect();
    (!all.is_empty()).then(|| all.contains(&true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_noise_nothing_is_false_and_nothing_contradicted() {
        let still = Scenario {
            noise: 1e-4,
            ..SCENARIOS[0]
        };
        let score = judge(&still, 2, 1).unwrap();
        assert_eq!((score.contests, score.decided), (16, 16));
        assert!(score.regrets.iter().all(|&regret| regret < 0.05), "{:?}", score.regrets);
        assert_eq!((score.best_false, score.slower_false, score.contradicted), (0, 0, 0));
        assert_eq!(score.claiming, 16);
    }

    /// What is wanted of the rule, in fewer sittings than the table has.
    #[test]
    fn on_a_usual_machine_the_rule_decides_most_contests_and_claims_little_that_is_false() {
        let usual = SCENARIOS.iter().find(|scenario| scenario.name == "noise 13 %").unwrap();
        let score = judge(usual, 16, 1).unwrap();
        assert!(score.decided * 4 >= score.contests * 3, "{score:?}");
        let costly = score.regrets.iter().filter(|&&regret| regret > 0.05).count();
        assert!(
            costly * 10 <= score.regrets.len(),
            "{costly} of {}",
            score.regrets.len()
        );
        assert!(
            score.slower_false <= 1 && score.costs_false * 10 <= score.costs,
            "{score:?}"
        );
        assert!(score.covering * 100 >= score.intervals * 90, "{score:?}");
    }

    #[test]
    fn three_sittings_are_contradicted_by_none_and_cost_little() {
        let name = "13 %, 8 % between sittings";
        let varying = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        let score = judge(varying, 6, 3).unwrap();
        assert_eq!(score.contests, 48);
        assert!(score.contradicted <= 2, "{score:?}");
        assert!(
            score.costs_false <= 5 && score.covering * 100 >= score.intervals * 90,
            "{score:?}"
        );
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
        assert_eq!((score.slower_false, score.claiming), (1, 8));
        assert_eq!(score.contradicted, 8);
        assert_eq!(score.best_false, score.best);
        assert!(score.regrets.iter().all(|&regret| regret > 0.1));
        assert!(score.covering < score.intervals);
    }
}
