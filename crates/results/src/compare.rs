//! What changed from one run to another, method by method.
//!
//! Two runs have no rounds in common, so nothing is paired: the interval of a change is that of
//! [`unpaired_ratio`](crate::statistics::unpaired_ratio). It covers how much each run varied within itself, but not how much the
//! machine varies from day to day. Therefore the change relative to a reference method, which ran in the same rounds of each
//! run, is given as well.

mod labels;

use std::borrow::Cow;
use std::collections::HashMap;

pub use labels::short;
use seekless_record::{Conclusion, Contest, Interval, LabCost, NoiseFloor, Run, Trial};
use serde::Serialize;

use crate::kind::DeviceKind;
use crate::labels::title;
use crate::ranking::{JudgedContest, summarize};
use crate::same::{NotComparable, contest_pairs, storage_pairs};
use crate::samples::sorted;
use crate::setup::{run_setup, storage_setup};
use crate::statistics::{median, paired_ratios, unpaired_ratio};
use crate::units::sound;
use crate::verdict::why_missing;
use crate::warnings::{OTHER_IO, OTHERS, STOLEN};

/// What changed.
#[derive(Clone, Debug, Serialize)]
pub struct RunComparison {
    /// The IDs of both runs.
    pub runs: [String; 2],
    /// The result in short.
    pub answer: ComparisonAnswer,
    /// Differences of machine, system and storages, as in `kernel: 6.12.1, now 6.18.2`.
    pub changed: Vec<String>,
    /// Why absolute times of the two runs must not be compared; empty if they may be.
    pub cautions: Vec<String>,
    /// What both measured.
    pub contests: Vec<ContestChange>,
    /// What only the first measured, by title.
    pub only_first: Vec<String>,
    /// What only the second measured.
    pub only_second: Vec<String>,
}

/// The result over all contests, each by its reference method, which was not chosen for its time, so neither run is favoured; a contest
/// of commands only, by all of them.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonAnswer {
    /// Seconds of the second run over those of the first: geometric means of the contests' ratios and of their bounds, so the
    /// interval is valid even if the contests of a run vary together. `None` if no contest has 6 rounds in both runs.
    pub time: Option<Interval>,
    /// The number of contests in it.
    pub contests: usize,
    /// Contests in which the second run is faster.
    pub faster: usize,
    /// Contests in which the second run is slower.
    pub slower: usize,
    /// Contests with fewer than 6 rounds in one of the runs, or without a common method; the other counts exclude them.
    pub too_few_rounds: usize,
}

impl ComparisonAnswer {
    fn of(contests: &[ContestChange]) -> Self {
        let times: Vec<Interval> = contests.iter().filter_map(ContestChange::time).collect();
        let count = |change: Change| times.iter().filter(|time| Change::of(time) == change).count();
        Self {
            time: geometric_mean(&times),
            contests: times.len(),
            faster: count(Change::Faster),
            slower: count(Change::Slower),
            too_few_rounds: contests.iter().filter(|contest| contest.sustained.is_none()).count() - times.len(),
        }
    }
}

/// Geometric means of ratios and of their bounds; `None` of nothing.
fn geometric_mean(times: &[Interval]) -> Option<Interval> {
    let coverage = times.iter().filter_map(|time| time.coverage).min_by(f64::total_cmp)?;
    let mean = |bound: fn(&Interval) -> f64| {
        let logarithms: f64 = times.iter().map(|time| bound(time).ln()).sum();
        (logarithms / times.len() as f64).exp()
    };
    Some(Interval {
        low: mean(|time| time.low),
        median: mean(|time| time.median),
        high: mean(|time| time.high),
        coverage: Some(coverage),
    })
}

/// What changed in one contest.
#[derive(Clone, Debug, Serialize)]
pub struct ContestChange {
    /// The index of the contest in each run.
    pub contests: [usize; 2],
    /// What was compared, as in `read 64 MiB, cold`.
    pub title: String,
    /// The storage's path, where there are several.
    pub storage: Option<String>,
    /// The methods that both measured, in the order of the second run's medians.
    pub methods: Vec<MethodChange>,
    /// The reference method: the first of those with the most rounds in both; `None` where all are commands.
    pub reference: Option<String>,
    /// The recommended method, before and now.
    pub recommended: [Option<String>; 2],
    /// The fastest, before and now.
    pub best: [Option<String>; 2],
    /// For a sustained write, the course of the rate before and now, a sentence each: then nothing is recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sustained: Option<[String; 2]>,
    /// Methods that were measured in the second run, but unavailable in the first or not part of it.
    pub new: Vec<MissingMethod>,
    /// Methods that were measured in the first run and not in the second.
    pub gone: Vec<MissingMethod>,
}

impl ContestChange {
    /// How the time of the reference changed, or that of all commands where there is none, if both runs have enough rounds.
    fn time(&self) -> Option<Interval> {
        let is_counted = |method: &&MethodChange| {
            let Interval { low, median, high, .. } = method.time;
            let is_sound = [low, median, high].into_iter().all(|bound| sound(bound).is_some());
            let is_asked = self
                .reference
                .as_ref()
                .is_none_or(|reference| method.method == *reference);
            is_asked && method.change != Change::TooFewRounds && is_sound
        };
        let counted: Vec<Interval> = self
            .methods
            .iter()
            .filter(is_counted)
            .map(|method| method.time)
            .collect();
        geometric_mean(&counted)
    }
}

/// A method that only one of two runs measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingMethod {
    /// The method.
    pub method: String,
    /// Why the other did not.
    pub why: String,
}

/// What changed for one method.
#[derive(Clone, Debug, Serialize)]
pub struct MethodChange {
    /// The method.
    pub method: String,
    /// Bytes per second, before and now.
    pub bytes_per_second: [f64; 2],
    /// Valid rounds, before and now.
    pub rounds: [u32; 2],
    /// Seconds now over seconds before; `coverage` is at least this, and null if there are fewer than 6 rounds.
    pub time: Interval,
    /// The same of its seconds over those of the reference in the same rounds; null for the reference.
    pub beside_reference: Option<Interval>,
    /// Whether the time changed.
    pub change: Change,
}

/// The change that an interval shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is shown to take less time.
    Faster,
    /// It is shown to take more time.
    Slower,
    /// The interval contains 1.
    NoneShown,
    /// One has fewer than 6 rounds.
    TooFewRounds,
}

impl Change {
    /// The change that the interval of a ratio shows.
    #[must_use]
    pub fn of(ratio: &Interval) -> Self {
        match ratio.coverage {
            None => Self::TooFewRounds,
            Some(_) if ratio.high < 1.0 => Self::Faster,
            Some(_) if ratio.low > 1.0 => Self::Slower,
            Some(_) => Self::NoneShown,
        }
    }
}

/// Compares what two runs have in common, whatever their machines ([`objections`](crate::objections) checks these).
///
/// # Errors
/// If they have nothing in common.
pub fn compare(first: &Run, second: &Run) -> Result<RunComparison, NotComparable> {
    let (pairs, rest) = contest_pairs(first, second);
    if pairs.is_empty() {
        return Err(rest);
    }
    let mut trials = [first, second].map(sorted);
    let contests = pairs.into_iter().map(|(one, other)| {
        let trials = [(0, one), (1, other)].map(|(run, contest)| std::mem::take(&mut trials[run][contest]));
        contest([first, second], [one, other], trials)
    });
    let contests: Vec<ContestChange> = contests.collect();
    Ok(RunComparison {
        runs: [first.id.clone(), second.id.clone()],
        changed: changed(first, second),
        cautions: cautions(first, second),
        answer: ComparisonAnswer::of(&contests),
        contests,
        only_first: rest.only_first,
        only_second: rest.only_second,
    })
}

/// Differences of the setup, one line each. Devices are compared if both are known.
fn changed(first: &Run, second: &Run) -> Vec<String> {
    let runs = run_setup(first).into_iter().zip(run_setup(second));
    let storages = first.storages.iter().zip(storage_pairs(first, second));
    let storages = storages.filter_map(|(one, other)| Some((one, &second.storages[other?])));
    let storages = storages.flat_map(|(one, other)| storage_setup(one).into_iter().zip(storage_setup(other)));
    let different = runs.chain(storages).filter(|(one, other)| one != other);
    let word = |value: Option<String>| value.unwrap_or_else(|| "not recorded".to_owned());
    different
        .map(|((what, one), (_, other))| format!("{what}: {}, now {}", word(one), word(other)))
        .collect()
}

/// The speed of memory and of the generator says how fast the machine itself was; these are steady.
const STEADY_RATIO: f64 = 1.25;
/// The first touch of memory, and a trial that does nothing, vary more.
const UNSTEADY_RATIO: f64 = 2.0;

/// Signs that the machine was not the same, or not quiet.
fn cautions(first: &Run, second: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut speed = |what: &str, most: f64, of: fn(&LabCost) -> Option<f64>| {
        let Some((one, other)) = of(&first.lab_cost).zip(of(&second.lab_cost)) else {
            return;
        };
        let ratio = other / one;
        if ratio > most {
            found.push(format!("{what} was {ratio:.2}x faster in the second run"));
        } else if ratio < 1.0 / most {
            found.push(format!("{what} was {:.2}x slower in the second run", 1.0 / ratio));
        }
    };
    speed("generating test data", STEADY_RATIO, |cost| {
        cost.producer_bytes_per_second
    });
    speed("memory (second touch)", STEADY_RATIO, |cost| {
        cost.second_touch_bytes_per_second
    });
    speed("memory (first touch)", UNSTEADY_RATIO, |cost| {
        cost.first_touch_bytes_per_second
    });
    speed("a trial that does nothing", UNSTEADY_RATIO, |cost| {
        median(&cost.null_seconds).map(|seconds| 1.0 / seconds)
    });
    let mut part = |what: &str, most: f64, of: fn(&NoiseFloor) -> Option<f64>| {
        for (which, run) in [("first", first), ("second", second)] {
            if let Some(part) = of(&run.noise).filter(|part| *part > most) {
                found.push(format!("{:.0} % {what} in the {which} run", part * 100.0));
            }
        }
    };
    let stolen = "steal time";
    part(stolen, STOLEN, |noise| noise.stolen);
    let other_io = "of the bytes that the device read were for other processes";
    part(other_io, OTHER_IO, |noise| noise.other_io);
    let others = "of the processor time was used by other processes";
    part(others, OTHERS, |noise| noise.others);
    found
}

/// One contest of a run.
struct ContestSide<'a> {
    judged: JudgedContest<'a>,
    /// The first entry of each method.
    by_method: HashMap<Cow<'a, str>, usize>,
}

impl<'a> ContestSide<'a> {
    fn new(contest: &'a Contest, trials: Vec<Vec<&'a Trial>>) -> Self {
        let mut by_method = HashMap::new();
        for (entry, found) in contest.entries.iter().enumerate() {
            by_method.entry(found.name()).or_insert(entry);
        }
        Self {
            judged: JudgedContest::of(contest, trials),
            by_method,
        }
    }

    /// The entries that were measured.
    fn measured(&self) -> impl Iterator<Item = usize> {
        (0..self.judged.samples.len()).filter(|&entry| self.is_measured(entry))
    }

    fn is_measured(&self, entry: usize) -> bool {
        self.judged.samples[entry].rounds() > 0
    }

    /// The entry of a method, if it was measured.
    fn measured_as(&self, method: &str) -> Option<usize> {
        let entry = self.by_method.get(method).copied();
        entry.filter(|&entry| self.is_measured(entry))
    }

    fn seconds(&self, entry: usize) -> Vec<f64> {
        self.judged.samples[entry].by_round.values().copied().collect()
    }

    /// The seconds of an entry over those of another, round by round.
    fn beside(&self, entry: usize, reference: usize) -> Vec<f64> {
        let samples = &self.judged.samples;
        paired_ratios(&samples[entry].by_round, &samples[reference].by_round)
    }

    fn bytes_per_second(&self, entry: usize) -> f64 {
        summarize(&self.judged.trials[entry]).map_or(0.0, |summary| summary.bytes_per_second)
    }

    fn concluded(&self, what: fn(&Conclusion) -> &Option<String>) -> Option<String> {
        what(self.judged.contest.conclusion.as_ref()?).clone()
    }

    fn sentence(&self) -> String {
        let conclusion = self.judged.contest.conclusion.as_ref();
        conclusion
            .map_or("nothing was concluded", |found| &found.sentence)
            .to_owned()
    }
}

fn contest([first, second]: [&Run; 2], contests: [usize; 2], [one, other]: [Vec<Vec<&Trial>>; 2]) -> ContestChange {
    let sides = [
        ContestSide::new(&first.contests[contests[0]], one),
        ContestSide::new(&second.contests[contests[1]], other),
    ];
    let [before, now] = &sides;
    let mut common: Vec<(usize, usize)> = before
        .measured()
        .filter_map(|entry| Some((entry, now.measured_as(&before.judged.name(entry))?)))
        .collect();
    let reference = reference(&sides, &common);
    let seconds = |(_, entry): &(usize, usize)| median(&now.seconds(*entry)).unwrap_or(f64::INFINITY);
    common.sort_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    let methods = common
        .iter()
        .filter_map(|&(one, other)| method(&sides, one, other, reference));
    let storages = &second.storages;
    let storage = &storages[now.judged.contest.storage];
    ContestChange {
        contests,
        title: title(now.judged.contest),
        storage: (storages.len() > 1).then(|| {
            format!(
                "{} ({}, {})",
                storage.path,
                storage.file_system,
                DeviceKind::of(storage)
            )
        }),
        methods: methods.collect(),
        reference: reference.map(|(entry, _)| before.judged.name(entry)),
        recommended: [0, 1].map(|side: usize| sides[side].concluded(|conclusion| &conclusion.recommended)),
        best: [0, 1].map(|side: usize| sides[side].concluded(|conclusion| &conclusion.best)),
        sustained: now
            .judged
            .contest
            .sustained
            .then(|| sides.each_ref().map(ContestSide::sentence)),
        new: only_in(now, before),
        gone: only_in(before, now),
    }
}

/// The method with the most rounds in both, the first of equals; never a command.
fn reference(sides: &[ContestSide<'_>; 2], common: &[(usize, usize)]) -> Option<(usize, usize)> {
    let rounds = |&(one, other): &(usize, usize)| {
        let [before, now] = sides;
        before.judged.samples[one]
            .rounds()
            .min(now.judged.samples[other].rounds())
    };
    let methods = common
        .iter()
        .filter(|(one, _)| sides[0].judged.contest.entries[*one].command().is_none());
    // The first of the largest: max_by_key would give the last.
    methods.copied().rev().max_by_key(rounds)
}

fn method(
    sides: &[ContestSide<'_>; 2],
    one: usize,
    other: usize,
    reference: Option<(usize, usize)>,
) -> Option<MethodChange> {
    let [before, now] = sides;
    let (old, new) = (before.seconds(one), now.seconds(other));
    let time = unpaired_ratio(&new, &old)?;
    let beside_reference = reference
        .filter(|reference| *reference != (one, other))
        .and_then(|reference| unpaired_ratio(&now.beside(other, reference.1), &before.beside(one, reference.0)));
    Some(MethodChange {
        method: now.judged.name(other),
        bytes_per_second: [before.bytes_per_second(one), now.bytes_per_second(other)],
        rounds: [old.len() as u32, new.len() as u32],
        change: Change::of(&time),
        time,
        beside_reference,
    })
}

/// Methods that one side measured and the other did not, with the other's reason.
fn only_in(side: &ContestSide<'_>, other: &ContestSide<'_>) -> Vec<MissingMethod> {
    let missing = side.measured().filter_map(|entry| {
        let method = side.judged.name(entry);
        let why = match other.by_method.get(method.as_str()) {
            None => "not part of the other run".to_owned(),
            Some(&entry) if other.is_measured(entry) => return None,
            Some(&entry) => why_missing(&other.judged.contest.entries[entry], "no valid round"),
        };
        Some(MissingMethod { method, why })
    });
    missing.collect()
}

#[cfg(test)]
mod tests;
