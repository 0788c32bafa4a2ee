//! The recommendation in words. It says only what the intervals support; it omits what is undecided.

use std::collections::BTreeMap;

use seekless_record::{Interval, Sittings};

use super::TIE_RATIO;
use super::effects::MethodEffect;
use super::judged::{CHEAP, JudgedContest, PickReason};
use crate::answer::NOT_MEASURED;
use crate::samples::{is_faster, is_slower};
use crate::statistics::FEWEST_SAMPLES;
use crate::sustained::Sustained;
use crate::units::{DOUBLE, percent, plural, slower};

/// The smallest difference in processor use that is reported: five percentage points of one processor.
const CPU_POINTS_TOLD: f64 = 5.0;

/// How many options that slow a method down are named.
const PESSIMISATIONS_TOLD: usize = 2;

pub(super) fn sentence(judged: &JudgedContest<'_>, best: Option<usize>, effects: &[MethodEffect]) -> String {
    if let Some(sustained) = judged.trials.iter().flatten().copied().find_map(Sustained::of) {
        return sustained.sentence();
    }
    let Some(pick) = judged.pick() else {
        return too_few(judged, best);
    };
    let name = judged.name(pick.entry);
    let slower = behind(judged, pick.costs_at_most);
    let apart = judged.contenders().len();
    let mut parts = vec![match pick.why {
        PickReason::Best => match next(judged) {
            Some((next, ratio)) => format!("Use {name}: {slower}; the next best, {next}, takes {ratio:.2}x as long"),
            None => format!("Use {name}: the only method measured"),
        },
        PickReason::Equal { within } => format!(
            "Use {name}: all {apart} methods are equal within {}, and it is the simplest",
            percent(within)
        ),
        PickReason::Least => format!("Use {name}: {slower}; {apart} methods are not told apart"),
        PickReason::Simplest { of } => {
            let cheap = percent(CHEAP);
            format!("Use {name}: {slower}, and the simplest of {of} methods known to be within {cheap} of the best")
        }
        PickReason::Undecided => format!(
            "Undecided: {apart} methods are not told apart. Until then, use {name}: {slower}{}",
            settled_by(judged)
        ),
    }];
    parts.extend(faster_command(judged, pick.entry, best));
    parts.extend(overlapping(judged));
    parts.extend(merits(effects, pick.entry));
    parts.extend(pessimisations(effects));
    parts.extend(same(judged));
    parts.join(". ") + "."
}

fn too_few(judged: &JudgedContest<'_>, best: Option<usize>) -> String {
    let Some(leader) = judged.leader() else {
        return match best {
            None if judged.trials.iter().all(Vec::is_empty) => unmeasured(judged),
            None => format!("Undecided: no trial is valid{}.", why_invalid(judged)),
            Some(_) if (0..judged.samples.len()).any(|entry| judged.is_method(entry)) => {
                "Undecided: only commands were measured; name a method to compare.".to_owned()
            }
            Some(_) => "Commands are ranked, and none is recommended.".to_owned(),
        };
    };
    let rounds = plural(judged.samples[leader].rounds() as u64, "round is", "rounds are");
    let (leader, settled) = (judged.name(leader), settled_by(judged));
    format!("Undecided: {rounds} too few, {FEWEST_SAMPLES} are needed ({leader} leads){settled}.")
}

/// Why there is no trial: methods that work wait for their turn, or none works.
fn unmeasured(judged: &JudgedContest<'_>) -> String {
    let entries = judged.contest.entries.iter();
    let reasons: Option<Vec<&str>> = entries.map(|entry| entry.verdict.why_excluded()).collect();
    match reasons.and_then(|reasons| reasons.into_iter().next()) {
        Some(why) => format!("Not measured: every method is unavailable or failed; the first: {why}."),
        None => NOT_MEASURED.to_owned(),
    }
}

/// Why most trials are invalid.
fn why_invalid(judged: &JudgedContest<'_>) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let trials = judged.trials.iter().flatten();
    for reason in trials.filter_map(|trial| trial.invalid.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let most = reasons.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(reason, _)| format!(": {reason}"))
}

/// The number of sittings with the same answer.
fn same(judged: &JudgedContest<'_>) -> Option<String> {
    let Sittings { count, agreeing, .. } = judged.sittings()?;
    Some(format!("Among the best in {agreeing} of {count} sittings"))
}

/// The budget or the sittings that should decide it.
fn settled_by(judged: &JudgedContest<'_>) -> String {
    if let Some(sittings) = judged.sittings() {
        let needed = sittings.needed.map(|needed| needed - sittings.count);
        return needed.map_or_else(String::new, |more| {
            format!(
                "; {} should decide it",
                plural(more.into(), "more sitting", "more sittings")
            )
        });
    }
    let times = judged.decided_by_times().map(f64::ceil);
    times.map_or_else(String::new, |times| {
        let times = times.max(2.0);
        format!("; {times} times the budget should decide it")
    })
}

/// How much slower than the best it can be.
fn behind(judged: &JudgedContest<'_>, costs_at_most: f64) -> String {
    let over = judged
        .sittings()
        .map_or_else(String::new, |sittings| format!(" over {} sittings", sittings.count));
    if judged.contenders().len() == 1 {
        return format!("the best{over}");
    }
    let than = if costs_at_most < DOUBLE { "than" } else { "of" };
    format!("at most {} {than} the best{over}", slower(costs_at_most))
}

/// The fastest of the other methods, all of which are slower.
fn next(judged: &JudgedContest<'_>) -> Option<(String, f64)> {
    let field = judged.field()?;
    let next = judged.by_speed().nth(1)?;
    Some((judged.name(next), field.ratio(next, field.leader)?.median))
}

/// A command that is the best of all, if it is shown to be faster than the method to use.
fn faster_command(judged: &JudgedContest<'_>, used: usize, best: Option<usize>) -> Option<String> {
    let command = best.filter(|&best| !judged.is_method(best))?;
    let ratio = judged.compare(command, used).filter(is_faster)?;
    Some(format!(
        "The command {} is faster: it takes {:.2}x the time",
        judged.name(command).trim_start_matches("command/"),
        ratio.median
    ))
}

/// Whether overlapping pays off, leader against leader, if all rounds together show it.
fn overlapping(judged: &JudgedContest<'_>) -> Option<String> {
    let field = judged.field()?;
    let (overlapping, synchronous) = (judged.leader_where(true)?, judged.leader_where(false)?);
    let has_enough = |entry: usize| judged.samples[entry].rounds() >= FEWEST_SAMPLES;
    let ratio = field.ratio(overlapping, synchronous)?;
    if !has_enough(overlapping) || !has_enough(synchronous) {
        None
    } else if field.model.is_slower(synchronous, overlapping) {
        Some(format!("Overlapping {}", saving(ratio)))
    } else if field.model.is_slower(overlapping, synchronous) {
        Some(format!("Overlapping takes {:.2}x the time", ratio.median))
    } else {
        (ratio.low >= 2.0 - TIE_RATIO).then(|| "Overlapping saves at most 3 % here".to_owned())
    }
}

fn saving(ratio: Interval) -> String {
    format!("saves {:.0} % of the time", (1.0 - ratio.median) * 100.0)
}

/// What the options of the recommended method save or cost.
fn merits(effects: &[MethodEffect], recommended: usize) -> Option<String> {
    let own = effects.iter().filter(|effect| effect.with == recommended);
    let told = own.filter_map(|effect| {
        let ratio = effect.record.ratio;
        let time = is_faster(&ratio).then(|| saving(ratio));
        let merit = match (time, effect.cpu_share.and_then(cpu_points)) {
            (Some(time), Some(("saves", points))) => format!("{time} and {points}"),
            (Some(time), Some((verb, points))) => format!("{time}, but {verb} {points}"),
            (Some(time), None) => time,
            (None, Some((verb, points))) => format!("{verb} {points}"),
            (None, None) => return None,
        };
        Some(format!("{} {merit}", effect.record.option))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Of its options, {}", told.join("; ")))
}

fn cpu_points(share: Interval) -> Option<(&'static str, String)> {
    let points = share.median * 100.0;
    let is_sure = share.coverage.is_some() && (share.high < 0.0 || share.low > 0.0);
    let verb = if points < 0.0 { "saves" } else { "costs" };
    (is_sure && points.abs() >= CPU_POINTS_TOLD)
        .then(|| (verb, format!("{:.0} percentage points of CPU", points.abs())))
}

/// The options meant to help that do the opposite, the worst first, each once.
fn pessimisations(effects: &[MethodEffect]) -> Option<String> {
    let mut slower: Vec<&MethodEffect> = effects
        .iter()
        .filter(|effect| is_slower(&effect.record.ratio))
        .collect();
    slower.sort_by(|a, b| b.record.ratio.median.total_cmp(&a.record.ratio.median));
    let mut told: Vec<&MethodEffect> = Vec::new();
    for effect in slower {
        if told.iter().all(|other| other.record.option != effect.record.option) {
            told.push(effect);
        }
    }
    told.truncate(PESSIMISATIONS_TOLD);
    let in_words = told.iter().map(|effect| {
        let record = &effect.record;
        format!(
            "{} ({:.2}x the time of {})",
            record.option, record.ratio.median, record.without
        )
    });
    let in_words: Vec<String> = in_words.collect();
    (!in_words.is_empty()).then(|| format!("Slower here: {}", in_words.join(", ")))
}
