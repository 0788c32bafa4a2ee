//! A sustained write: files written one after the other without a pause, each of them timed. It shows how long a device keeps its
//! initial rate, and the rate afterwards.
//!
//! Rates are those of stretches of at least 0.2 s, because rate limits work in slices of 0.1 s. Levels are medians of stretches,
//! because single files stall or burst by factors of ten and more. A change is reported only if it is clear: see `change`. Not here:
//! why a rate changes. A full cache of an SSD, garbage collection and used-up credits of a cloud look alike.

use std::ops::Range;

use seekless_record::Trial;

use crate::statistics::{median, percentile};
use crate::units::{percent, rate, size, sound};

/// The shortest stretch, in seconds.
const STRETCH_SECONDS: f64 = 0.2;
/// Fewer stretches do not show how a rate changes.
const FEWEST: usize = 16;
/// A level is looked for in medians over at most this many parts of the stretches.
const MOST_PARTS: usize = 128;
/// The parts that a level has at least.
const SHORTEST_LEVEL: usize = 4;
/// Levels that differ by less are one: the logarithm of 1.25.
const STEP: f64 = 0.223;
/// Of the parts of a level, at most one in this many may be nearer to the neighboring level.
const ASTRAY: usize = 5;
/// The part of a step that happens at once, at least, from the median of this many parts before it to that of as many behind it: what
/// falls slowly has no step.
const AT_ONCE: f64 = 0.5;
const NEAR: usize = 8;
/// With more levels than this, the rate is unsteady.
const MOST_LEVELS: usize = 4;
/// Where 9 of 10 stretches are not within this part of the median, the rate is unsteady.
const UNSTEADY: f64 = 0.5;
/// If slow files add more than this part to the time, the mean is given, too.
const STALLED: f64 = 0.1;

/// The files of a sustained write.
#[derive(Clone, Copy, Debug)]
pub struct Sustained<'a> {
    file_bytes: f64,
    seconds: &'a [f64],
}

/// A part of what was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStretch {
    /// Bytes written before it.
    pub from_bytes: f64,
    /// The same, with it.
    pub to_bytes: f64,
    /// Its mean rate: bytes over seconds.
    pub bytes_per_second: f64,
    /// The rate of its slowest file.
    pub slowest_bytes_per_second: f64,
}

impl<'a> Sustained<'a> {
    /// What a trial wrote; `None` of one that is not a sustained write, or not valid.
    #[must_use]
    pub fn of(trial: &'a Trial) -> Option<Self> {
        let seconds = trial.segment_seconds.as_deref().filter(|_| trial.valid)?;
        let file_bytes = sound(trial.bytes as f64 / seconds.len() as f64)?;
        let all_are_sound = seconds.iter().all(|&seconds| sound(file_bytes / seconds).is_some());
        all_are_sound.then_some(Self { file_bytes, seconds })
    }

    /// What was written in this many stretches of about the same size; in fewer, where there are fewer files.
    #[must_use]
    pub fn stretches(&self, count: usize) -> Vec<RateStretch> {
        parts(self.seconds.len(), count)
            .map(|files| self.stretch(files))
            .collect()
    }

    fn stretch(&self, files: Range<usize>) -> RateStretch {
        let seconds = &self.seconds[files.clone()];
        let bytes = |files: usize| self.file_bytes * files as f64;
        RateStretch {
            from_bytes: bytes(files.start),
            to_bytes: bytes(files.end),
            bytes_per_second: bytes(files.len()) / seconds.iter().sum::<f64>(),
            slowest_bytes_per_second: self.file_bytes / seconds.iter().copied().fold(0.0, f64::max),
        }
    }

    /// What became of the rate.
    #[must_use]
    pub fn sentence(&self) -> String {
        let stretches: Vec<RateStretch> = stretches(self.seconds)
            .into_iter()
            .map(|files| self.stretch(files))
            .collect();
        let all = self.stretch(0..self.seconds.len());
        if stretches.len() < FEWEST {
            return format!(
                "Wrote {} at {} on average, too little to show how the rate changes: write more, or allow more time.",
                size(all.to_bytes),
                rate(all.bytes_per_second),
            );
        }
        let levels = levels(&stretches);
        match levels.as_slice() {
            [_] => one_level(&stretches, &all),
            [_, ..] if levels.len() <= MOST_LEVELS => steps(&levels) + &caveats(&levels, &all),
            _ => unsteady(&stretches, &all),
        }
    }
}

/// The median of the rates of some stretches.
fn typical(stretches: &[RateStretch]) -> f64 {
    let rates: Vec<f64> = stretches.iter().map(|stretch| stretch.bytes_per_second).collect();
    median(&rates).unwrap_or(f64::NAN)
}

fn end_of(stretches: &[RateStretch]) -> String {
    size(stretches.last().map_or(0.0, |last| last.to_bytes))
}

/// The stretches between which the rate clearly changes.
fn levels(stretches: &[RateStretch]) -> Vec<&[RateStretch]> {
    let parts: Vec<Range<usize>> = parts(stretches.len(), MOST_PARTS).collect();
    let logs: Vec<f64> = parts
        .iter()
        .map(|part| typical(&stretches[part.clone()]).ln())
        .collect();
    let changes = changes(&logs).into_iter().map(|part| parts[part].start);
    let ends: Vec<usize> = changes.chain([stretches.len()]).collect();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| &stretches[start..end]).collect()
}

fn steps(levels: &[&[RateStretch]]) -> String {
    let first = typical(levels[0]);
    let later = levels[1..].iter().map(|level| {
        let own = typical(level);
        format!(
            ", then {} ({:.0} %) up to {}",
            rate(own),
            100.0 * own / first,
            end_of(level)
        )
    });
    let later: String = later.collect();
    format!("Writes {} for the first {}{later}.", rate(first), end_of(levels[0]))
}

/// What is said where the rate does not change at once.
fn one_level(stretches: &[RateStretch], all: &RateStretch) -> String {
    let eighths: Vec<f64> = parts(stretches.len(), 8)
        .map(|eighth| typical(&stretches[eighth]))
        .collect();
    let pairs = (0..8).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let slower = pairs
        .filter(|&(earlier, later)| eighths[later] < eighths[earlier])
        .count();
    // Of 28 pairs.
    let goes = match slower {
        24.. => Some("Falls"),
        ..=4 => Some("Rises"),
        _ => None,
    };
    let written = size(all.to_bytes);
    if let Some(goes) = goes.filter(|_| (eighths[7] / eighths[0]).ln().abs() >= STEP) {
        return format!(
            "{goes} gradually from {} to {} over {written}.",
            rate(eighths[0]),
            rate(eighths[7])
        );
    }
    let middle = typical(stretches);
    let off: Vec<f64> = stretches
        .iter()
        .map(|stretch| (stretch.bytes_per_second / middle - 1.0).abs())
        .collect();
    match percentile(&off, 90) {
        Some(within) if within <= UNSTEADY => format!(
            "Writes {} throughout {written}, within {}.{}",
            rate(middle),
            percent(within),
            caveats(&[stretches], all)
        ),
        _ => unsteady(stretches, all),
    }
}

fn unsteady(stretches: &[RateStretch], all: &RateStretch) -> String {
    let rates: Vec<f64> = stretches.iter().map(|stretch| stretch.bytes_per_second).collect();
    let [slow, fast] = [10, 90].map(|part| rate(percentile(&rates, part).unwrap_or(f64::NAN)));
    let (written, mean) = (size(all.to_bytes), rate(all.bytes_per_second));
    format!("Unsteady over {written}: mostly {slow} to {fast}, {mean} on average.")
}

/// What is to be known beside levels.
fn caveats(levels: &[&[RateStretch]], all: &RateStretch) -> String {
    let of_level = |level: &&[RateStretch]| {
        let bytes: f64 = level.iter().map(|stretch| stretch.to_bytes - stretch.from_bytes).sum();
        bytes / typical(level)
    };
    let seconds: f64 = levels.iter().map(of_level).sum();
    let mean = all.bytes_per_second;
    let is_stalled = all.to_bytes / mean > seconds * (1.0 + STALLED);
    let stalls = is_stalled.then(|| format!(" Including the slowest files, the mean is {}.", rate(mean)));
    stalls
        .into_iter()
        .chain(levels.last().and_then(|last| slower_end(last)))
        .collect()
}

/// What is said where the end is slower than its level, and too short to be one.
fn slower_end(level: &[RateStretch]) -> Option<String> {
    let own = typical(level);
    let is_slower = |stretch: &&RateStretch| (own / stretch.bytes_per_second).ln() >= STEP;
    let slower = level.iter().rev().take_while(is_slower).count();
    let rate = rate(typical(&level[level.len() - slower..]));
    (slower >= 2).then(|| format!(" At the end it wrote {rate}: writing more would show whether that lasts."))
}

/// Stretches that are written before it is asked whether the rate has settled.
const SETTLED_STRETCHES: usize = 48;
/// How far apart the parts of a settled rate are.
const SETTLED_WITHIN: f64 = 1.1;
/// By what the rate has fallen at least before it settles.
const SETTLED_BELOW: f64 = 1.5;

/// Whether the rate has fallen and then been steady for long enough that writing more is not worth the wear, by the seconds of
/// each file: in the last third of the stretches it stays within 10 %, it was nowhere lower before, and somewhere at least half as
/// much again.
#[must_use]
pub fn has_settled(seconds: &[f64]) -> bool {
    let stretches = stretches(seconds);
    if stretches.len() < SETTLED_STRETCHES {
        return false;
    }
    let of_file = |files: &Range<usize>| seconds[files.clone()].iter().sum::<f64>() / files.len() as f64;
    let of_files: Vec<f64> = stretches.iter().map(of_file).collect();
    let parts = parts(of_files.len(), 12).filter_map(|part| median(&of_files[part]));
    let parts: Vec<f64> = parts.collect();
    let (before, last) = parts.split_at(8);
    let slowest = |parts: &[f64]| parts.iter().copied().fold(0.0, f64::max);
    let fastest = |parts: &[f64]| parts.iter().copied().fold(f64::INFINITY, f64::min);
    slowest(last) <= SETTLED_WITHIN * fastest(last)
        && slowest(before) <= SETTLED_WITHIN * slowest(last)
        && fastest(before) * SETTLED_BELOW <= fastest(last)
}

/// The files of each stretch, by the seconds of all. What is left at the end belongs to the last.
fn stretches(seconds: &[f64]) -> Vec<Range<usize>> {
    let (mut stretches, mut start, mut took) = (Vec::new(), 0, 0.0);
    for (file, seconds) in seconds.iter().enumerate() {
        took += seconds;
        if took >= STRETCH_SECONDS {
            stretches.push(start..file + 1);
            (start, took) = (file + 1, 0.0);
        }
    }
    if let Some(last) = stretches.last_mut() {
        last.end = seconds.len();
    }
    stretches
}

/// This many items in parts of about the same size, at most one for each item.
fn parts(items: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let count = count.min(items);
    (0..count).map(move |part| part * items / count..(part + 1) * items / count)
}

/// The parts at which a rate changes, each given by the logarithm of its rate.
fn changes(logs: &[f64]) -> Vec<usize> {
    let Some(at) = change(logs) else { return Vec::new() };
    let (before, after) = logs.split_at(at);
    let after = changes(after).into_iter().map(|later| later + at);
    changes(before).into_iter().chain([at]).chain(after).collect()
}

/// The part at which two levels meet that fit best, by the sum of absolute deviations, where the change is clear: by a quarter
/// and more, with 4 of 5 parts of each level on its side of the middle, and at least half of it at once.
fn change(logs: &[f64]) -> Option<usize> {
    let off = |level: &[f64]| {
        let middle = median(level).unwrap_or(0.0);
        level.iter().map(|log| (log - middle).abs()).sum::<f64>()
    };
    let off_both = |at: &usize| off(&logs[..*at]) + off(&logs[*at..]);
    let last = logs.len().checked_sub(SHORTEST_LEVEL)?;
    let at = (SHORTEST_LEVEL..=last).min_by(|one, other| off_both(one).total_cmp(&off_both(other)))?;
    let (before, after) = logs.split_at(at);
    let (from, to) = (median(before)?, median(after)?);
    let middle = from.midpoint(to);
    let is_level = |level: &[f64], of: f64| {
        let astray = level
            .iter()
            .filter(|&&log| (log - middle) * (of - middle) <= 0.0)
            .count();
        astray * ASTRAY <= level.len()
    };
    let (near_before, near_after) = (before.len().saturating_sub(NEAR), after.len().min(NEAR));
    let at_once = median(&after[..near_after])? - median(&before[near_before..])?;
    let is_clear = (to - from).abs() >= STEP && is_level(before, from) && is_level(after, to);
    (is_clear && at_once / (to - from) >= AT_ONCE).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{self, Simulation, trial};

    const MIB: f64 = (1 << 20) as f64;

    /// The seconds of files of 512 MiB that are written at these rates in MiB/s, with noise: each is a stretch.
    fn written(rates: impl IntoIterator<Item = f64>, noise: f64, seed: u64) -> Vec<f64> {
        let mut simulation = Simulation::new(seed);
        let rates = rates.into_iter();
        rates.map(|rate| simulation.lognormal(512.0 / rate, noise)).collect()
    }

    fn of(seconds: &[f64]) -> Sustained<'_> {
        let file_bytes = 512.0 * MIB;
        Sustained { file_bytes, seconds }
    }

    /// This many files at each rate.
    fn at(levels: &[(usize, f64)]) -> Vec<f64> {
        let files = levels
            .iter()
            .flat_map(|&(files, rate)| std::iter::repeat_n(rate, files));
        files.collect()
    }

    /// In how many of a hundred simulated writes something is so; a part of them is simulated in the short run.
    fn percent(is_so: impl Fn(&[f64]) -> bool, write: impl Fn(u64) -> Vec<f64>) -> usize {
        let seeds = if crate::is_long() { 100 } else { 20 };
        (0..seeds).filter(|&seed| is_so(&write(seed))).count() * 100 / seeds as usize
    }

    /// In how many of a hundred simulated writes something is said.
    fn told(says: &str, write: impl Fn(u64) -> Vec<f64>) -> usize {
        percent(|seconds| of(seconds).sentence().contains(says), write)
    }

    #[test]
    fn a_steady_rate_is_told_with_how_steady_it_is() {
        let sentence = of(&written(at(&[(256, 1000.0)]), 0.0, 1)).sentence();
        assert_eq!(sentence, "Writes 1.05 GB/s throughout 128 GiB, within 1 %.");
        for files in [16, 40, 64, 200, 500] {
            let known = told("throughout", |seed| written(at(&[(files, 800.0)]), 0.13, seed));
            assert!(known >= 99, "{files} files: {known}");
        }
    }

    #[test]
    fn files_that_a_limit_lets_pass_in_slices_are_steady_together() {
        let seconds: Vec<f64> = (0..256).map(|file| if file % 2 == 0 { 0.005 } else { 0.095 }).collect();
        let sentence = of(&seconds).sentence();
        assert!(sentence.contains("Writes 10.7 GB/s throughout"), "{sentence}");
    }

    #[test]
    fn bursts_and_stalls_of_single_files_are_no_levels() {
        for factor in [1.0 / 15.0, 15.0] {
            let burst = |levels: &[(usize, f64)], seed| {
                let mut seconds = written(at(levels), 0.13, seed);
                let mut rng = fastrand::Rng::with_seed(seed);
                for _ in 0..12 {
                    seconds[rng.usize(..256)] *= factor;
                }
                seconds
            };
            let known = told("throughout", |seed| burst(&[(256, 800.0)], seed));
            assert!(known >= 98, "{factor}: {known}");
            let known = told("for the first 5", |seed| burst(&[(108, 800.0), (148, 300.0)], seed));
            assert!(known >= 98, "{factor}: {known}");
            let stalled = told("Including the slowest files, the mean is", |seed| {
                burst(&[(256, 800.0)], seed)
            });
            assert_eq!(stalled, if factor > 1.0 { 100 } else { 0 });
        }
    }

    #[test]
    fn a_full_cache_is_found_where_it_is_full() {
        let sentence = of(&written(at(&[(176, 1800.0), (80, 430.0)]), 0.0, 1)).sentence();
        let expected = "Writes 1.89 GB/s for the first 88.0 GiB, then 451 MB/s (24 %) up to 128 GiB.";
        assert_eq!(sentence, expected);
        for (before, after) in [(16, 240), (60, 68), (200, 56), (30, 30)] {
            for part in [0.1, 0.5] {
                let is_found = |seconds: &[f64]| {
                    let stretches: Vec<RateStretch> = (0..seconds.len())
                        .map(|file| of(seconds).stretch(file..file + 1))
                        .collect();
                    let levels = levels(&stretches);
                    levels.len() == 2 && levels[0].len().abs_diff(before) <= (before + after) / 64 + 1
                };
                let found = percent(is_found, |seed| {
                    written(at(&[(before, 900.0), (after, 900.0 * part)]), 0.13, seed)
                });
                assert!(found >= 95, "{before} files, then {after} at {part}: {found}");
            }
        }
    }

    #[test]
    fn sustained_tells_several_levels_and_a_short_slower_end() {
        let sentence = of(&written(at(&[(80, 2000.0), (80, 800.0), (96, 100.0)]), 0.05, 1)).sentence();
        let is_told =
            sentence.contains("for the first 40.0 GiB, then") && sentence.contains("(40 %) up to 80.0 GiB, then 10");
        assert!(is_told, "{sentence}");
        let ended = of(&written(at(&[(250, 1000.0), (6, 200.0)]), 0.05, 1)).sentence();
        let is_told = ended.contains("throughout") && ended.contains("At the end it wrote 2");
        assert!(is_told, "{ended}");
    }

    #[test]
    fn a_slow_decline_has_no_step_and_a_sawtooth_no_level() {
        let rates = || (0..256).map(|file| 1200.0 - 3.0 * f64::from(file));
        let known = told("Falls gradually from 1.", |seed| written(rates(), 0.1, seed));
        assert!(known >= 95, "{known}");
        for period in [2, 8, 40, 128] {
            let rates = || (0..256).map(|file| if file % period < period / 2 { 1200.0 } else { 200.0 });
            let known = told("Unsteady", |seed| written(rates(), 0.1, seed));
            assert!(known >= 95, "{period}: {known}");
        }
    }

    #[test]
    fn a_short_write_and_a_damaged_one_claim_nothing() {
        for seconds in [vec![0.3; 15], vec![0.001; 500]] {
            let sentence = of(&seconds).sentence();
            let is_told = sentence.contains("too little to show how the rate changes");
            assert!(is_told, "{sentence}");
        }
        for seconds in [None, Some(Vec::new()), Some(vec![0.0; 20])] {
            let mut damaged = trial(0, 0, 1.0);
            damaged.segment_seconds = seconds;
            assert!(Sustained::of(&damaged).is_none());
        }
    }

    #[test]
    fn a_rate_has_settled_when_it_has_fallen_and_stays() {
        let settled = |levels: &[(usize, f64)]| has_settled(&written(at(levels), 0.02, 1));
        assert!(settled(&[(40, 1000.0), (40, 300.0)]));
        assert!(!settled(&[(200, 1000.0)]), "a plateau may be a cache");
        assert!(!settled(&[(100, 1000.0), (30, 300.0)]), "for too short a time");
        assert!(!settled(&[(10, 1000.0), (20, 300.0)]), "too few files");
        assert!(!settled(&[(20, 1000.0), (20, 100.0), (60, 300.0)]), "it was lower");
        let falling = (0..200).map(|file| 1000.0 - 4.0 * f64::from(file));
        assert!(!has_settled(&written(falling, 0.02, 1)), "it still falls");
    }

    #[test]
    fn stretches_cover_all_that_was_written() {
        let seconds = written(at(&[(33, 100.0)]), 0.0, 1);
        let stretches = of(&seconds).stretches(10);
        assert_eq!((stretches.len(), stretches[9].to_bytes), (10, 33.0 * 512.0 * MIB));
        for pair in stretches.windows(2) {
            assert!(pair[0].to_bytes.total_cmp(&pair[1].from_bytes).is_eq());
        }
        assert_eq!(of(&seconds).stretches(100).len(), 33);
    }

    #[test]
    fn a_sustained_write_is_told_and_never_ranked() {
        let mut run = simulation::run(&[("write/sync", 1.0)], 1);
        run.contests[0].sustained = true;
        run.trials[0].segment_seconds = Some(vec![0.3; 64]);
        crate::ranking::conclude_all(&mut run);
        let contest = &run.contests[0];
        let conclusion = contest.conclusion.as_ref().unwrap();
        let sentence = &conclusion.sentence;
        assert!(sentence.contains("throughout 64.0 MiB"), "{sentence}");
        let ranked = [&conclusion.best, &conclusion.recommended, &conclusion.until_decided];
        assert_eq!(ranked, [&None, &None, &None]);
        assert!(contest.entries[0].summary.is_some() && contest.entries[0].verdict.relative().is_none());
    }
}
