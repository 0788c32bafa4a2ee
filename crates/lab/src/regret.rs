//! What plans that use a profile cost in a run that is left out of the profile.
//!
//! For each contest of a run, a profile is made of other sittings, without the contest's size. The method that the plan then
//! chooses is compared with the best one in the rounds of the run. The best one is picked in the odd rounds and the choice
//! scored in the even ones, and the reverse, because the luckiest of many methods looks faster than it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seekless_engine::Method;
use seekless_engine::facts::{Facts, FileFacts, ProcessFacts};
use seekless_engine::method::{Operation, Setting};
use seekless_engine::plan::{self, Plan, Task, usual};
use seekless_engine::profile::StorageProfile;
use seekless_record::{Cache, Conditions, Contest, Curve, Profile, Run};
use seekless_results::{ContestRegret, Regrets, digest, is_one_sitting};

/// The regrets of all contests of whole files in a run that have enough rounds, by the profile of other sittings.
#[must_use]
pub fn regrets_of(run: &Run, runs: &[Run]) -> Vec<ContestRegret> {
    let is_known = |other: &&Run| other.id != run.id && !is_one_sitting(run, other);
    let mut known: Vec<Run> = runs.iter().filter(is_known).cloned().collect();
    known.sort_by(|one, other| other.started.cmp(&one.started));
    let profiles = digest(&known);
    let contests = run.contests.iter().enumerate();
    let regrets = contests.filter_map(|(index, contest)| {
        let conditions = Conditions::of(contest)?;
        let rounds = rounds(run, index)?;
        let conclusion = contest.conclusion.as_ref();
        let id = run.storages.get(contest.storage)?.id.as_ref();
        let profile = profiles.iter().find(|profile| Some(&profile.head.storage) == id);
        Some(ContestRegret {
            contest: index,
            is_decided: conclusion.is_some_and(|found| found.recommended.is_some()),
            planned: profile.and_then(|profile| regrets(profile, contest, conditions, &rounds)),
        })
    });
    regrets.collect()
}

/// The logarithms of seconds of each method for a file, or all of a scan, with the set-up that a tool has for it, by round.
type Rounds = BTreeMap<String, BTreeMap<u32, f64>>;

/// The rounds of a contest; `None` unless two methods have six.
fn rounds(run: &Run, index: usize) -> Option<Rounds> {
    let mut rounds = Rounds::new();
    let contest = &run.contests[index];
    let part = f64::from(files_together(contest)) / f64::from(contest.files.max(1));
    for trial in run
        .trials
        .iter()
        .filter(|trial| trial.contest == index && trial.valid && trial.seconds > 0.0)
    {
        let entry = &contest.entries[trial.entry];
        if entry.choice().is_some_and(|choice| choice.method().is_some()) {
            let own = rounds.entry(entry.name().into_owned()).or_default();
            own.insert(trial.round, (trial.seconds * part + trial.setup_seconds).ln());
        }
    }
    let enough = rounds.values().filter(|own| own.len() >= 6).count();
    (enough >= 2).then_some(rounds)
}

/// How many of a contest's files are planned together.
fn files_together(contest: &Contest) -> u32 {
    if contest.operation == Operation::Scan {
        contest.files.max(1)
    } else {
        1
    }
}

/// The method that was planned for a contest, and its regrets, if the profile covers it.
fn regrets(profile: &Profile, contest: &Contest, conditions: Conditions, rounds: &Rounds) -> Option<(String, Regrets)> {
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
        nearest: scored(&nearest).unwrap_or(f64::NAN),
        plain: measured(&simple).and_then(|name| scored(&name)).unwrap_or(f64::NAN),
        oracle: oracle(rounds)?,
        predicted: plan.predicted.value.as_secs_f64() / value.exp(),
        is_within_bounds: (plan.predicted.low.as_secs_f64()..=plan.predicted.high.as_secs_f64()).contains(&value.exp()),
    };
    Some((plan.method.to_string(), found))
}

/// The winner at the nearest size.
fn nearest(curves: &[Curve], bytes: u64, conditions: Conditions) -> Option<String> {
    let alike = curves.iter().filter(|curve| curve.conditions == conditions);
    let points = alike.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let far = |size: u64| ((size as f64) / (bytes as f64)).ln().abs();
    let best = points.min_by(|(_, one), (_, other)| {
        far(one.bytes)
            .total_cmp(&far(other.bytes))
            .then(one.with_setup().total_cmp(&other.with_setup()))
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
        has_rings: true,
        ..ProcessFacts::without_rings()
    };
    let profile = StorageProfile::new(profile, PathBuf::new());
    let facts = Facts {
        profile: Some(&profile),
        ..Facts::assumed([file; 2], process)
    };
    let task = Task {
        files: files_together(contest).into(),
        bytes: contest.size_bytes,
        durability: contest.durability,
    };
    if plan::alternatives(contest.operation, &task, &facts).len() < 2 {
        return None;
    }
    (contest.operation != Operation::Update).then(|| plan::plan(contest.operation, &task, &facts))
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
        let expected = f64::midpoint(1_f64.exp_m1(), 2_f64.exp_m1());
        assert!((slow - expected).abs() < 1e-12, "{slow}");
        // In even rounds the lucky one is picked and the steady one is best, and the reverse.
        let floor = oracle(&all).unwrap();
        assert!((floor - expected).abs() < 1e-12, "{floor}");
    }
}
