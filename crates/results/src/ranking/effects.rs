//! What an option gained or cost on its own: methods that differ in nothing else, paired by round.

use std::collections::BTreeMap;

use seekless_method::{Choice, Method, OptionId, differing_options};
use seekless_record::{Interval, OptionEffect, Trial};

use super::cpu_seconds;
use super::judged::JudgedContest;
use crate::samples::is_sound;
use crate::statistics::{median, median_interval, paired};

/// An option's effect, with what the sentence needs beside what is recorded.
pub(super) struct MethodEffect {
    /// The entry that has the option.
    pub with: usize,
    pub record: OptionEffect,
    /// Processors kept busy (1 is one of them) with the option, less without, paired by round.
    pub cpu_share: Option<Interval>,
}

/// The effects of cache policies, hints and preallocations: of every pair of methods that differ in only one of these,
/// with the default in one of them.
pub(super) fn effects(judged: &JudgedContest<'_>) -> Vec<MethodEffect> {
    let mut effects = Vec::new();
    let methods = judged.methods.iter().enumerate();
    let methods: Vec<(usize, &Method)> = methods
        .filter_map(|(entry, choice)| Some((entry, choice.as_ref().and_then(Choice::method)?)))
        .collect();
    for &(with, method) in &methods {
        effects.extend(methods.iter().filter_map(|&(without, base)| {
            let option = option_between(base, method)?;
            effect(judged, without, with, option)
        }));
    }
    effects
}

/// The option, as it is written, that the second method has in addition to those of the first.
fn option_between(without: &Method, with: &Method) -> Option<String> {
    if without.mechanism() != with.mechanism() {
        return None;
    }
    let row = match differing_options(without, with).as_slice() {
        ["cache"] => OptionId::Cache.row(),
        ["hint"] => OptionId::Hint.row(),
        ["preallocate"] => OptionId::Preallocate.row(),
        _ => return None,
    };
    let value = |method: &Method| method.options().get(row.id);
    let is_default = value(without) == value(&Method::plain(without.mechanism()));
    value(with).filter(|_| is_default).map(|value| row.text(value))
}

fn effect(judged: &JudgedContest<'_>, without: usize, with: usize, option: String) -> Option<MethodEffect> {
    let ratio = judged.compare(with, without)?;
    let cpu = |entry: usize| {
        let seconds: Vec<f64> = ranked(&judged.trials[entry]).map(cpu_seconds).collect();
        median(&seconds)
    };
    let share = |entry: usize| -> BTreeMap<u32, f64> {
        ranked(&judged.trials[entry])
            .map(|trial| (trial.round, cpu_seconds(trial) / trial.seconds))
            .collect()
    };
    let differences: Vec<f64> = paired(&share(with), &share(without))
        .map(|(with, without)| with - without)
        .collect();
    let record = OptionEffect {
        option,
        without: judged.name(without),
        with: judged.name(with),
        ratio,
        cpu_seconds_difference: cpu(with)? - cpu(without)?,
    };
    Some(MethodEffect {
        with,
        record,
        cpu_share: median_interval(&differences),
    })
}

fn ranked<'a>(trials: &[&'a Trial]) -> impl Iterator<Item = &'a Trial> {
    trials.iter().copied().filter(|trial| is_sound(trial))
}
