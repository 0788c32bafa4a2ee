//! From samples to verdicts: best, ties, slower, dropped, recommended. No I/O and no clock.
//!
//! The leader, the slower methods and the possible cost of a choice are estimated from all rounds together (the `model`). Two methods
//! alone are compared by the ratios of their common rounds, so what slows a whole round down (another guest, throttling) cancels.
//! The ranking excludes invalid trials, which were not in the intended state. Those that measure the winners again count like the others,
//! and what a conclusion says holds in them alone, too.

mod conclude;
mod effects;
mod judged;
mod sentence;

use std::collections::BTreeMap;

pub use conclude::{Judgement, conclude_all};
pub(crate) use conclude::{conclude_judged, tell_other_sizes, write_down};
pub(crate) use judged::JudgedContest;
use seekless_record::{DeviceCounters, EntryVerdict, Latency, RelativeResult, Summary, SystemUse, Trial};

use crate::model::ModelField;
use crate::samples::is_sound;
pub use crate::samples::{PairedRatio, Samples, TIE_RATIO};
use crate::statistics::{FEWEST_SAMPLES, deviation, mean, median, median_interval, percentile};

/// Nothing is dropped before this many rounds.
pub const FEWEST_ROUNDS_TO_DROP: usize = 3;

/// The verdict on each entry relative to the leader, from all rounds together; `None` without a common round. With fewer than 6
/// common rounds, the ratio is that of these rounds alone.
pub(crate) fn stand(samples: &[Samples], field: Option<&ModelField>) -> Vec<Option<EntryVerdict>> {
    let stand = |(entry, own): (usize, &Samples)| {
        let field = field?;
        let PairedRatio { ratio, pairs } = own.over(&samples[field.leader])?;
        let of_all = field.ratio(entry, field.leader).filter(|_| pairs >= FEWEST_SAMPLES);
        let result = RelativeResult {
            ratio: of_all.unwrap_or(ratio),
            pairs: pairs as u32,
        };
        Some(if entry == field.leader {
            EntryVerdict::Best(result)
        } else if field.slower[entry] {
            EntryVerdict::Slower(result)
        } else {
            EntryVerdict::Tie(result)
        })
    };
    samples.iter().enumerate().map(stand).collect()
}

/// Which active entries to measure no further. The reference entry runs to the end, because it shows the
/// drift. Nothing goes before 3 rounds.
#[must_use]
pub fn clearly_beaten(samples: &[Samples], active: &[bool], reference: Option<usize>) -> Vec<usize> {
    let is_active = |entry: usize| active.get(entry).copied().unwrap_or(false);
    let Some(field) = ModelField::of(samples, is_active) else {
        return Vec::new();
    };
    let is_beaten = |entry: &usize| {
        let rounds = samples[*entry]
            .over(&samples[field.leader])
            .map_or(0, |over| over.pairs);
        is_active(*entry) && Some(*entry) != reference && rounds >= FEWEST_ROUNDS_TO_DROP && field.slower[*entry]
    };
    (0..samples.len()).filter(is_beaten).collect()
}

/// The samples of the chosen entries; the others keep their place without any.
fn only(samples: &[Samples], chosen: impl Fn(usize) -> bool) -> Vec<Samples> {
    let keep = |(entry, own): (usize, &Samples)| if chosen(entry) { own.clone() } else { Samples::default() };
    samples.iter().enumerate().map(keep).collect()
}

/// The figures of an entry's trials; `None` before the first valid one.
#[must_use]
pub fn summarize(trials: &[&Trial]) -> Option<Summary> {
    let ranked: Vec<&Trial> = trials.iter().copied().filter(|trial| is_sound(trial)).collect();
    let column = |figure: fn(&Trial) -> f64| ranked.iter().map(|trial| figure(trial)).collect::<Vec<f64>>();
    let known = |figure: &dyn Fn(&Trial) -> Option<f64>| {
        median(&ranked.iter().filter_map(|trial| figure(trial)).collect::<Vec<f64>>())
    };
    let all_seconds = column(Trial::compared_seconds);
    let seconds = median_interval(&all_seconds)?;
    Some(Summary {
        rounds: ranked.len() as u32,
        invalid: (trials.len() - ranked.len()) as u32,
        seconds,
        mean_seconds: mean(&all_seconds)?,
        deviation_seconds: deviation(&all_seconds),
        p90_seconds: percentile(&all_seconds, 90),
        bytes_per_second: median(&column(|trial| trial.compared_bytes.unwrap_or(trial.bytes) as f64))? / seconds.median,
        cpu_seconds: median(&column(cpu_seconds))?,
        fsync_seconds: median(&column(|trial| trial.fsync_seconds))?,
        setup_seconds: median(&column(|trial| trial.setup_seconds))?,
        user_seconds: median(&column(|trial| trial.user_seconds)),
        system_seconds: median(&column(|trial| trial.system_seconds)),
        calls: known(&|trial| trial.calls.map(|calls| calls as f64)),
        device_reads: known(&|trial| own_requests(trial).map(|device| device.reads as f64)),
        device_request_bytes: known(&|trial| {
            let device = own_requests(trial)?;
            (device.reads > 0).then(|| device.read_bytes as f64 / device.reads as f64)
        }),
        amplification: known(&|trial| {
            let updated = trial.updated.as_ref()?;
            Some(updated.written_bytes as f64 / updated.requested_bytes.max(1) as f64)
        }),
        predicted_seconds: known(&|trial| trial.predicted_seconds),
        planned: usual_plan(&ranked),
        latency: latency(&ranked, |trial| trial.latency),
        read_latency: latency(&ranked, |trial| trial.read_latency),
        system: system(&ranked),
    })
}

/// The median of each figure, except that the longest is the longest of all; `None` if no trial has any.
fn latency(trials: &[&Trial], of: impl Fn(&Trial) -> Option<Latency>) -> Option<Latency> {
    let told = || trials.iter().filter_map(|trial| of(trial));
    let column = |figure: fn(Latency) -> u64| {
        let mut figures: Vec<u64> = told().map(figure).collect();
        figures.sort_unstable();
        let (upper, lower) = (figures.get(figures.len() / 2)?, figures[(figures.len() - 1) / 2]);
        Some(u64::midpoint(lower, *upper))
    };
    Some(Latency {
        requests: column(|latency| latency.requests)?,
        mean_ns: column(|latency| latency.mean_ns)?,
        p50_ns: column(|latency| latency.p50_ns)?,
        p90_ns: column(|latency| latency.p90_ns)?,
        p99_ns: column(|latency| latency.p99_ns)?,
        p99_9_ns: column(|latency| latency.p99_9_ns)?,
        max_ns: told().map(|latency| latency.max_ns).max()?,
    })
}

/// The median of each column; `None` if no trial has any.
fn system(trials: &[&Trial]) -> Option<SystemUse> {
    let told: Vec<SystemUse> = trials.iter().filter_map(|trial| trial.system).collect();
    let column = |figure: fn(&SystemUse) -> Option<f64>| median(&told.iter().filter_map(figure).collect::<Vec<_>>());
    (!told.is_empty()).then(|| SystemUse {
        user: column(|system| system.user),
        system: column(|system| system.system),
        idle: column(|system| system.idle),
        wait: column(|system| system.wait),
        stolen: column(|system| system.stolen),
        switches_per_second: column(|system| system.switches_per_second),
        interrupts_per_second: column(|system| system.interrupts_per_second),
        blocks_in_kib_per_second: column(|system| system.blocks_in_kib_per_second),
        cache_growth_bytes: column(|system| system.cache_growth_bytes.map(|bytes| bytes as f64))
            .map(|bytes| bytes as i64),
    })
}

/// The method that was planned most often.
fn usual_plan(trials: &[&Trial]) -> Option<String> {
    let mut plans: BTreeMap<&String, u32> = BTreeMap::new();
    let planned = trials.iter().filter_map(|trial| trial.planned.as_ref());
    planned.for_each(|plan| *plans.entry(plan).or_default() += 1);
    plans
        .into_iter()
        .max_by_key(|&(_, times)| times)
        .map(|(plan, _)| plan.clone())
}

/// What the device did for a trial, where nobody else used it meanwhile.
fn own_requests(trial: &Trial) -> Option<DeviceCounters> {
    trial.device.filter(|device| device.reliable)
}

fn cpu_seconds(trial: &Trial) -> f64 {
    trial.user_seconds + trial.system_seconds
}

#[cfg(test)]
mod tests {
    mod concluded;
    mod simulated;

    use super::*;

    fn samples(seconds: &[f64]) -> Samples {
        Samples {
            by_round: (0..).zip(seconds.iter().copied()).collect(),
        }
    }

    fn verdicts(samples: &[Samples]) -> Vec<Option<EntryVerdict>> {
        stand(samples, ModelField::of(samples, |_| true).as_ref())
    }

    fn words(samples: &[Samples]) -> Vec<&'static str> {
        let word = |verdict: &Option<EntryVerdict>| match verdict {
            Some(EntryVerdict::Best(_)) => "best",
            Some(EntryVerdict::Tie(_)) => "tie",
            Some(EntryVerdict::Slower(_)) => "slower",
            _ => "",
        };
        verdicts(samples).iter().map(word).collect()
    }

    #[test]
    fn the_fastest_leads_and_what_is_within_a_tie_of_it_ties() {
        let measured = [1.05, 1.0, 1.03].map(|seconds| samples(&[seconds; 8]));
        let entries = [&measured[..], &[Samples::default()]].concat();
        assert_eq!(words(&entries), ["slower", "best", "tie", ""]);
        let RelativeResult { ratio, pairs } = verdicts(&entries)[1].as_ref().unwrap().relative().unwrap();
        assert_eq!((pairs, ratio.low, ratio.high), (8, 1.0, 1.0));
    }

    #[test]
    fn ranking_takes_no_lucky_dropped_method_for_the_best() {
        // The device is throttled from round 3 on.
        let dropped = samples(&[1.2; 3]);
        let fast = samples(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(words(&[dropped, fast]), ["slower", "best"]);
    }

    #[test]
    fn a_lost_round_neither_loses_the_title_nor_wins_it() {
        let mut fast = samples(&[1.0; 8]);
        fast.by_round.remove(&4);
        let found = words(&[samples(&[1.2; 8]), fast]);
        assert_eq!(found, ["slower", "best"]);
        // Without its one slow round the second has the smaller median, but not on the rounds that both have.
        let first = samples(&[1.0, 1.0, 3.0, 3.0]);
        let mut second = samples(&[1.1, 1.1, 3.1, 3.1]);
        second.by_round.remove(&3);
        assert_eq!(words(&[second, first])[1], "best");
    }

    #[test]
    fn ranking_drops_none_before_three_rounds_nor_the_reference() {
        let after = |rounds: usize, reference| {
            let entries = [samples(&vec![1.0; rounds]), samples(&vec![1.75; rounds])];
            clearly_beaten(&entries, &[true, true], reference)
        };
        assert!(after(2, None).is_empty());
        assert_eq!(after(3, None), [1]);
        assert!(after(3, Some(1)).is_empty());
    }

    #[test]
    fn what_is_dropped_is_slower_by_more_than_noise_and_a_tie() {
        let drops = |seconds: &[f64]| {
            let best = samples(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99]);
            !clearly_beaten(&[best, samples(seconds)], &[true, true], None).is_empty()
        };
        assert!(!drops(&[1.0, 2.0, 1.9, 1.1, 2.1, 2.0]), "two rounds speak for it");
        assert!(!drops(&[1.02; 6]), "it ties");
        assert!(drops(&[1.2, 1.21, 1.19, 1.2, 1.2, 1.2]));
    }

    #[test]
    fn the_best_is_sought_among_the_active() {
        let entries = [samples(&[1.0; 4]), samples(&[2.0; 4]), samples(&[2.04; 4])];
        assert!(clearly_beaten(&entries, &[false, true, true], None).is_empty());
        assert!(clearly_beaten(&entries, &[], None).is_empty());
    }
}
