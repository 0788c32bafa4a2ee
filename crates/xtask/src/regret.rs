//! `cargo xtask regret`: the regret of plans that use a profile, on saved runs that are left out of the profile.
//!
//! For each contest of each run, the profile is made of the runs of other sittings, without the contest's size. The method that the
//! plan then chooses is compared with the best one in the rounds of the run. The best one is picked in the odd rounds and the choice
//! scored in the even ones, and the reverse, because the luckiest of many methods looks faster than it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use seekless::Method;
use seekless::facts::{Facts, FileFacts, ProcessFacts};
use seekless::method::{Operation, Setting};
use seekless::plan::{self, Plan, Task, usual};
use seekless::profile::StorageProfile;
use seekless_record::{Cache, Conditions, Contest, Curve, Profile, Run};
use seekless_results::{digest, is_one_sitting};

use crate::rule::read_runs;

/// Which runs.
#[derive(Args)]
pub struct Arguments {
    /// The directory of saved runs, such as ~/.local/share/seekless/runs
    runs: PathBuf,
    /// Also use runs of the same sitting; leave out only the contest's size
    #[arg(long)]
    same_sitting: bool,
    /// Print a line for each contest, too
    #[arg(long)]
    all: bool,
}

/// What plans cost, by operation.
#[derive(Default)]
struct Costs {
    /// Contests with enough rounds.
    contests: usize,
    /// Of these, contests that the run itself decides.
    decided: usize,
    /// Of these, contests that the profile covers.
    regrets: Vec<Regrets>,
}

/// The time of a method over that of the best, less one, by who chose the method.
#[derive(Clone, Copy)]
struct Regrets {
    planned: f64,
    /// The winner of the nearest size that the profile has.
    nearest: f64,
    /// Always the plain loop.
    plain: f64,
    /// The best of the other half of the rounds: no choice is better for certain.
    oracle: f64,
    /// The predicted time over the measured one.
    predicted: f64,
}

/// Prints a Markdown table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut runs = read_runs(&arguments.runs)?;
    runs.sort_by(|one, other| other.started.cmp(&one.started));
    let mut all: BTreeMap<&str, Costs> = BTreeMap::new();
    for run in &runs {
        let is_known = |other: &&Run| other.id != run.id && (arguments.same_sitting || !is_one_sitting(run, other));
        let others: Vec<Run> = runs.iter().filter(is_known).cloned().collect();
        let own = if arguments.same_sitting {
            vec![run.clone()]
        } else {
            Vec::new()
        };
        let profiles = digest(&[own, others].concat());
        for (index, contest) in run.contests.iter().enumerate() {
            let Some(conditions) = Conditions::of(contest) else {
                continue;
            };
            let Some(rounds) = rounds(run, index) else { continue };
            let costs = all.entry(contest.operation.name()).or_default();
            costs.contests += 1;
            let is_decided = contest
                .conclusion
                .as_ref()
                .is_some_and(|found| found.recommended.is_some());
            costs.decided += usize::from(is_decided);
            let id = run
                .storages
                .get(contest.storage)
                .and_then(|storage| storage.id.as_ref());
            let profile = profiles.iter().find(|profile| Some(&profile.storage) == id);
            let Some((found, method)) = profile.and_then(|profile| regrets(profile, contest, conditions, &rounds))
            else {
                continue;
            };
            if arguments.all {
                let title = seekless_results::title(contest);
                println!(
                    "{title}: {method}: {:+.1} %, {}",
                    100.0 * found.planned,
                    if is_decided { "decided" } else { "open" }
                );
            }
            if is_decided {
                costs.regrets.push(found);
            }
        }
    }
    if all.is_empty() {
        bail!("{}: no contest of whole files has six rounds", arguments.runs.display());
    }
    println!(
        "| operation | contests | decided | decided and covered | regret ≤ 10 % | regret ≤ 5 % | mean regret | largest regret | mean: nearest size | mean: plain loop | mean: oracle | predicted within 25 % |"
    );
    println!("|---|{}", "---:|".repeat(11));
    for (operation, costs) in &all {
        println!("{}", line(operation, costs));
    }
    let sum = all.into_values().reduce(|one, other| Costs {
        contests: one.contests + other.contests,
        decided: one.decided + other.decided,
        regrets: [one.regrets, other.regrets].concat(),
    });
    println!("{}", line("all", &sum.unwrap_or_default()));
    Ok(())
}

fn line(
    operation: &str,
    Costs {
        contests,
        decided,
        regrets,
    }: &Costs,
) -> String {
    let part = |is: &dyn Fn(&Regrets) -> bool| match regrets.len() {
        0 => "-".to_owned(),
        of => format!(
            "{:.0} %",
            100.0 * regrets.iter().filter(|one| is(one)).count() as f64 / of as f64
        ),
    };
    let mean = |of: &dyn Fn(&Regrets) -> f64| {
        let known: Vec<f64> = regrets.iter().map(of).filter(|one| one.is_finite()).collect();
        match known.len() {
            0 => "-".to_owned(),
            count => format!("{:.1} %", 100.0 * known.iter().sum::<f64>() / count as f64),
        }
    };
    let largest = regrets.iter().map(|one| one.planned).reduce(f64::max);
    let largest = largest.map_or_else(|| "-".to_owned(), |largest| format!("{:.0} %", 100.0 * largest));
    format!(
        "| {operation} | {contests} | {decided} | {} | {} | {} | {} | {largest} | {} | {} | {} | {} |",
        regrets.len(),
        part(&|one| one.planned <= 0.10),
        part(&|one| one.planned <= 0.05),
        mean(&|one| one.planned),
        mean(&|one| one.nearest),
        mean(&|one| one.plain),
        mean(&|one| one.oracle),
        part(&|one| (1.0 / 1.25..=1.25).contains(&one.predicted)),
    )
}

/// The logarithms of seconds of each method, by round; `None` with fewer than six rounds that two methods share.
type Rounds = BTreeMap<String, BTreeMap<u32, f64>>;

fn rounds(run: &Run, index: usize) -> Option<Rounds> {
    let mut rounds = Rounds::new();
    let files = f64::from(run.contests[index].files.max(1));
    for trial in run
        .trials
        .iter()
        .filter(|trial| trial.contest == index && trial.valid && trial.seconds > 0.0)
    {
        let entry = &run.contests[index].entries[trial.entry];
        if entry.choice().is_some_and(|choice| choice.method().is_some()) {
            let own = rounds.entry(entry.name().into_owned()).or_default();
            own.insert(trial.round, (trial.seconds / files).ln());
        }
    }
    let enough = rounds.values().filter(|own| own.len() >= 6).count();
    (enough >= 2).then_some(rounds)
}

/// The regrets in a contest, and the method that was planned, if a profile without its size covers it.
fn regrets(profile: &Profile, contest: &Contest, conditions: Conditions, rounds: &Rounds) -> Option<(Regrets, Method)> {
    let mut without = profile.clone();
    for curve in &mut without.curves {
        curve.points.retain(|point| point.bytes != contest.size_bytes);
    }
    without.curves.retain(|curve| !curve.points.is_empty());
    let nearest = nearest(&without.curves, contest.size_bytes, conditions)?;
    let plan = planned(without, contest, conditions)?;
    let simple = usual(contest.operation).with(contest.durability).ok()?;
    let measured = |method: &Method| {
        let skipping = method.with(Setting::holes_skipped(false)).unwrap_or(*method);
        [method.to_string(), skipping.to_string()]
            .into_iter()
            .find(|name| rounds.contains_key(name))
    };
    let scored = |name: &str| crossed(rounds, name);
    let method = measured(&plan.method)?;
    let value = mean(&rounds[&method], |_| true)?;
    let found = Regrets {
        planned: scored(&method)?,
        nearest: rounds
            .contains_key(&nearest)
            .then(|| scored(&nearest))
            .flatten()
            .unwrap_or(f64::NAN),
        plain: measured(&simple).and_then(|name| scored(&name)).unwrap_or(f64::NAN),
        oracle: oracle(rounds)?,
        predicted: plan.predicted.value.as_secs_f64() / value.exp(),
    };
    Some((found, plan.method))
}

/// The winner at the nearest size.
fn nearest(curves: &[Curve], bytes: u64, conditions: Conditions) -> Option<String> {
    let alike = curves.iter().filter(|curve| curve.conditions == conditions);
    let points = alike.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let far = |size: u64| ((size as f64) / (bytes as f64)).ln().abs();
    let best = points.min_by(|(_, one), (_, other)| {
        far(one.bytes)
            .total_cmp(&far(other.bytes))
            .then(one.seconds.median.total_cmp(&other.seconds.median))
    });
    best.map(|(curve, _)| curve.method.clone())
}

/// The plan for the contest's files, if the profile covers them.
fn planned(profile: Profile, contest: &Contest, conditions: Conditions) -> Option<Plan> {
    let file = FileFacts {
        bytes: contest.size_bytes,
        allocated_bytes: contest.size_bytes,
        resident: Some(if conditions.cache == Cache::Warm { 1.0 } else { 0.0 }),
        direct_alignment: Some(512),
        ..FileFacts::default()
    };
    let process = ProcessFacts {
        can_map: true,
        ..ProcessFacts::without_rings()
    };
    let facts = Facts {
        profile: Some(Box::leak(Box::new(StorageProfile::new(profile, PathBuf::new())))),
        ..Facts::assumed([file; 2], process)
    };
    let task = Task {
        bytes: contest.size_bytes,
        durability: contest.durability,
    };
    if plan::alternatives(contest.operation, &task, &facts).len() < 2 {
        return None;
    }
    Some(match contest.operation {
        Operation::Write => plan::write(&task, &facts),
        Operation::Copy => plan::copy(&task, &facts),
        Operation::Compare => plan::compare(&task, &facts),
        Operation::Read => plan::read(&task, &facts),
        Operation::Update => return None,
    })
}

/// The time of a method over that of the best, less one: the best is picked in one half of the rounds, and both are scored in the
/// other; the mean of both ways.
fn crossed(rounds: &Rounds, method: &str) -> Option<f64> {
    let over = |half: u32| {
        let best = best(rounds, |round| round % 2 != half)?;
        Some((scored(rounds, method, half)? - scored(rounds, &best, half)?).exp_m1())
    };
    Some(f64::midpoint(over(0)?, over(1)?))
}

/// What the best of one half of the rounds takes longer than the best of the other half there: no choice is better for certain.
fn oracle(rounds: &Rounds) -> Option<f64> {
    let over = |half: u32| {
        let [picked, there] = [1 - half, half].map(|half| best(rounds, |round| round % 2 == half));
        Some((scored(rounds, &picked?, half)? - scored(rounds, &there?, half)?).exp_m1())
    };
    Some(f64::midpoint(over(0)?, over(1)?))
}

/// A method's time in one half of the rounds.
fn scored(rounds: &Rounds, method: &str, half: u32) -> Option<f64> {
    mean(rounds.get(method)?, |round| round % 2 == half)
}

/// The fastest in some of the rounds.
fn best(rounds: &Rounds, is_in: impl Fn(u32) -> bool) -> Option<String> {
    let means = rounds.iter().filter_map(|(name, own)| Some((name, mean(own, &is_in)?)));
    means
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(name, _)| name.clone())
}

fn mean(own: &BTreeMap<u32, f64>, is_in: impl Fn(u32) -> bool) -> Option<f64> {
    let few: Vec<f64> = own
        .iter()
        .filter(|(round, _)| is_in(**round))
        .map(|(_, log)| *log)
        .collect();
    (!few.is_empty()).then(|| few.iter().sum::<f64>() / few.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_picked_in_one_half_and_scored_in_the_other() {
        let rounds = |logs: [f64; 4]| (0..).zip(logs).collect::<BTreeMap<u32, f64>>();
        // The lucky one is fast in odd rounds only.
        let steady = ("steady".to_owned(), rounds([0.0, 0.0, 0.0, 0.0]));
        let lucky = ("lucky".to_owned(), rounds([1.0, -2.0, 1.0, -2.0]));
        let slow = ("slow".to_owned(), rounds([2.0, 2.0, 2.0, 2.0]));
        let all = Rounds::from([steady, lucky, slow]);
        assert_eq!(best(&all, |round| round % 2 == 1).as_deref(), Some("lucky"));
        let slow = crossed(&all, "slow").unwrap();
        // Even rounds: over the lucky one; odd rounds: over the steady one.
        assert!(
            (slow - f64::midpoint(1_f64.exp_m1(), 2_f64.exp_m1())).abs() < 1e-12,
            "{slow}"
        );
        // In even rounds the lucky one is picked and the steady one is best, and the reverse.
        let floor = oracle(&all).unwrap();
        assert!(
            (floor - f64::midpoint(1_f64.exp_m1(), 2_f64.exp_m1())).abs() < 1e-12,
            "{floor}"
        );
    }
}
