//! The bounds of single values, and the words in which one beyond them is refused.

use std::fmt::Display;

use super::Problem;
use crate::{Interval, SystemUse};

/// The longest text, in bytes.
pub(super) const LONGEST_TEXT: usize = 64 << 10;
/// The longest name of what is compared, in bytes: a table makes all lines as wide as the widest.
pub(super) const LONGEST_NAME: usize = 4 << 10;
/// The most of what is read one by one: experiments, storages, contests, entries of one, warnings, facts.
pub(super) const MOST_ITEMS: usize = 10_000;
/// The most pairs of methods that differ in one option.
pub(super) const MOST_EFFECTS: usize = 100_000;
/// The most trials.
pub(super) const MOST_TRIALS: usize = 1_000_000;
/// 30 years: no run and no trial takes longer.
pub(super) const MOST_SECONDS: f64 = 1e9;
/// 2^60: no file, memory or counter of bytes holds more.
pub(super) const MOST_COUNT: u64 = 1 << 60;
/// Rates and ratios: the largest file in [`LEAST_TIMED`], and the longest trial over the shortest, are less.
pub(super) const MOST_RATIO: f64 = 1e30;
/// Clocks tick in nanoseconds.
pub(super) const LEAST_TIMED: f64 = 1e-10;

pub(super) type Checked = Result<(), Problem>;

pub(super) fn problem(field: impl Display, why: impl Into<String>) -> Checked {
    Err(Problem {
        field: field.to_string(),
        why: why.into(),
    })
}

pub(super) fn for_some<T>(value: Option<T>, check: impl FnOnce(T) -> Checked) -> Checked {
    value.map_or(Ok(()), check)
}

pub(super) fn texts(field: &str, texts: &[String]) -> Checked {
    length(field, texts.len(), MOST_ITEMS)?;
    texts.iter().try_for_each(|text| short(field, text))
}

/// A name of what is compared.
pub(super) fn name(field: &str, text: &str) -> Checked {
    if text.len() > LONGEST_NAME {
        return problem(
            field,
            format!("is a name of {} bytes; the longest has {LONGEST_NAME}", text.len()),
        );
    }
    Ok(())
}

pub(super) fn short(field: &str, text: &str) -> Checked {
    if text.len() > LONGEST_TEXT {
        return problem(
            field,
            format!("is a text of {} bytes; the longest has {LONGEST_TEXT}", text.len()),
        );
    }
    Ok(())
}

pub(super) fn length(field: &str, found: usize, most: usize) -> Checked {
    if found > most {
        return problem(field, format!("has {found} items; the most is {most}"));
    }
    Ok(())
}

pub(super) fn index(field: &str, index: usize, count: usize, of: &str) -> Checked {
    if index >= count {
        return problem(field, format!("is {index}, and there are {count} {of}"));
    }
    Ok(())
}

pub(super) fn count(field: &str, value: u64) -> Checked {
    if value > MOST_COUNT {
        return problem(field, format!("is {value}; no measurement has more than {MOST_COUNT}"));
    }
    Ok(())
}

pub(super) fn seconds(field: &str, value: f64) -> Checked {
    figure(field, value, 0.0, MOST_SECONDS)
}

pub(super) fn part(field: &str, value: f64) -> Checked {
    figure(field, value, 0.0, 1.0)
}

pub(super) fn interval(field: &str, interval: &Interval, most: f64) -> Checked {
    for value in [interval.low, interval.median, interval.high] {
        figure(field, value, 0.0, most)?;
    }
    if interval.low > interval.median || interval.median > interval.high {
        return problem(field, "its ends do not lie around its median");
    }
    for_some(interval.coverage, |coverage| {
        part(&format!("{field}.coverage"), coverage)
    })
}

pub(super) fn figure(field: &str, value: f64, least: f64, most: f64) -> Checked {
    if value >= least && value <= most {
        return Ok(());
    }
    problem(
        field,
        format!("is {value:e}; a measurement gives {least:e} to {most:e}"),
    )
}

/// Parts of the processors' time, rates, and a growth that may be less than 0.
pub(super) fn system(field: &str, system: &SystemUse) -> Checked {
    for value in [system.user, system.system, system.idle, system.wait, system.stolen] {
        for_some(value, |value| part(field, value))?;
    }
    for value in [
        system.switches_per_second,
        system.interrupts_per_second,
        system.blocks_in_kib_per_second,
    ] {
        for_some(value, |value| figure(field, value, 0.0, MOST_RATIO))?;
    }
    for_some(system.cache_growth_bytes, |value| count(field, value.unsigned_abs()))
}
