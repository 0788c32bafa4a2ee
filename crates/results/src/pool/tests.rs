use seekless_record::{Conclusion, Interval, Sittings, StorageId};

use super::*;
use crate::between::fit;
use crate::model::Effect;
use crate::simulation::{self, Simulation};

const METHODS: [&str; 4] = [
    "read/sync,block=128K",
    "read/sync,block=1M",
    "read/mmap",
    "read/sync,direct,block=1M",
];

/// A sitting with these medians and a noise of 5 %, this many hours after the first.
fn sitting(simulation: &mut Simulation, medians: [f64; 4], hours: i64) -> Run {
    let named: Vec<(&str, f64)> = METHODS.into_iter().zip(medians).collect();
    let mut run = simulation::run(&named, 8);
    for trial in &mut run.trials {
        trial.seconds = simulation.lognormal(trial.seconds, 0.05);
    }
    let begin: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    let started = begin + SignedDuration::from_hours(hours);
    let run = simulation::sitting(run, format!("run-{hours}"), started.to_string());
    simulation::concluded(run)
}

fn conclusion(run: &Run) -> &Conclusion {
    run.contests[0].conclusion.as_ref().unwrap()
}

fn sittings_of(run: &Run) -> Sittings {
    conclusion(run).sittings.unwrap()
}

#[test]
fn pool_calls_no_method_best_that_loses_the_next_hour() {
    let mut simulation = Simulation::new(1);
    let mut hour = |direct, hours| sitting(&mut simulation, [1.0, 1.5, 1.5, direct], hours);
    let runs = [hour(0.6, 0), hour(1.4, 4), hour(1.3, 8)];
    assert_eq!(conclusion(&runs[0]).recommended.as_deref(), Some(METHODS[3]));
    let pooled = pool(&runs[2], &runs[..2]);
    let is_level = |entry: usize| {
        matches!(
            pooled.contests[0].entries[entry].verdict,
            EntryVerdict::Best(_) | EntryVerdict::Tie(_)
        )
    };
    assert!(is_level(0) && is_level(3));
    assert_eq!(sittings_of(&pooled).count, 3);
    assert!(sittings_of(&pooled).deviation > 0.08, "{:?}", sittings_of(&pooled));
    let sentence = &conclusion(&pooled).sentence;
    assert!(sentence.contains(" of 3 sittings"), "{sentence}");
}

#[test]
fn pool_of_agreeing_sittings_makes_a_claim_that_holds() {
    let mut simulation = Simulation::new(2);
    let runs: Vec<Run> = (0..4)
        .map(|at| sitting(&mut simulation, [1.0, 1.3, 1.5, 2.0], at * 4))
        .collect();
    let pooled = pool(&runs[3], &runs[..3]);
    let found = conclusion(&pooled);
    assert_eq!(found.recommended.as_deref(), Some(METHODS[0]));
    let sittings = sittings_of(&pooled);
    assert_eq!((sittings.count, sittings.agreeing, sittings.needed), (4, 4, None));
    let end = "Among the best in 4 of 4 sittings.";
    assert!(found.sentence.ends_with(end), "{}", found.sentence);
    assert_eq!(pooled.trials, runs[3].trials, "samples stay in their runs");
    let rounds = pooled.contests[0].entries[0].summary.as_ref().unwrap().rounds;
    assert_eq!(rounds, 32);
}

#[test]
fn pool_of_one_sitting_says_that_more_are_needed() {
    let run = sitting(&mut Simulation::new(3), [1.0, 1.3, 1.5, 2.0], 0);
    let pooled = pool(&run, &[]);
    let sittings = sittings_of(&pooled);
    assert_eq!(sittings.count, 1);
    assert!(sittings.needed.unwrap() >= 2, "{sittings:?}");
    let sittings = None;
    let mut alone = conclusion(&pooled).clone();
    alone.sittings = sittings;
    assert_eq!(&alone, conclusion(&run));
}

#[test]
fn pool_counts_an_hour_as_one_sitting_and_a_run_once() {
    let mut simulation = Simulation::new(4);
    let mut run = |hours| sitting(&mut simulation, [1.0, 1.02, 1.5, 2.0], hours);
    let (first, mut again) = (run(0), run(0));
    again.id = "again".to_owned();
    again.started = "2026-11-01T00:59:00Z".to_owned();
    let pooled = pool(&again, std::slice::from_ref(&first));
    assert_eq!(sittings_of(&pooled).count, 1);
    let summary = pooled.contests[0].entries[0].summary.as_ref().unwrap();
    assert_eq!(summary.rounds, 16, "and both count");
    let (own, whole) = (run(4), run(0));
    let mut half = whole.clone();
    half.trials.retain(|trial| trial.round < 4);
    let pooled = pool(&own, &[half, whole]);
    assert_eq!(pooled.contests[0].entries[0].summary.as_ref().unwrap().rounds, 16);
}

type RunChange = fn(&mut Run);

fn id(run: &mut Run) -> &mut StorageId {
    run.storages[0].id.as_mut().unwrap()
}

#[test]
fn pool_leaves_out_what_was_made_otherwise_or_elsewhere() {
    let mut simulation = Simulation::new(5);
    let mut run = |hours| sitting(&mut simulation, [1.0, 1.3, 1.5, 2.0], hours);
    let (own, other) = (run(4), run(0));
    let (alike, unlike) = (2, 1);
    let changes: [(&str, RunChange, u32); 13] = [
        ("nothing", |_| {}, alike),
        ("the run itself", |run| run.id = "run-4".to_owned(), unlike),
        ("no revision", |run| run.revision = None, unlike),
        ("protocol", |run| run.revision.as_mut().unwrap().protocol = 2, unlike),
        ("drop", |run| run.drop = seekless_record::DropScope::System, unlike),
        ("processors", |run| run.machine.processors += 1, unlike),
        ("no identity", |run| run.storages[0].id = None, unlike),
        ("kernel", |run| id(run).kernel = "7.0".to_owned(), unlike),
        ("no devices", |run| id(run).devices.clear(), unlike),
        // A serial number identifies the disk.
        ("a disk's name", |run| id(run).devices[0].name = "vdb".to_owned(), alike),
        ("size", |run| run.contests[0].size_bytes *= 2, unlike),
        ("time", |run| run.started = "yesterday".to_owned(), unlike),
        ("a path", |run| run.storages[0].path = "/elsewhere".to_owned(), alike),
    ];
    for (name, change, count) in changes {
        let mut other = other.clone();
        change(&mut other);
        assert_eq!(sittings_of(&pool(&own, &[other])).count, count, "{name}");
    }
}

#[test]
fn pool_fit_is_exact_and_weighs_old_sittings_less() {
    let effect = |seconds: f64| {
        Some(Effect {
            log_seconds: seconds.ln(),
            variance: 1e-6,
            between: 0.0,
        })
    };
    let hours = |ratios: [f64; 2], weight| Sitting {
        runs: 1,
        effects: vec![effect(ratios[0]), effect(ratios[1]), None],
        contenders: Vec::new(),
        weight,
    };
    let ratio = |sittings: &[Sitting]| {
        let effects = fit(sittings).model.effects;
        (effects[1].unwrap().log_seconds - effects[0].unwrap().log_seconds).exp()
    };
    // The second sitting is twice as slow throughout.
    let same = [hours([1.0, 1.2], 1.0), hours([2.0, 2.4], 1.0)];
    assert!((ratio(&same) - 1.2).abs() < 1e-3);
    assert!(fit(&same).model.effects[2].is_none());
    let even = ratio(&[hours([1.0, 1.2], 1.0), hours([1.0, 1.0], 1.0)]);
    let aged = ratio(&[hours([1.0, 1.2], 0.5), hours([1.0, 1.0], 1.0)]);
    assert!((even - 1.2_f64.sqrt()).abs() < 1e-3, "{even}");
    assert!(aged < even && aged > 1.0, "{aged}");
    assert!(fit(&[]).model.effects.is_empty());
}

/// If each sitting deviates by 8 %, the interval for the mean over sittings contains the truth as often as it claims,
/// and the deviation is found.
#[test]
fn pool_intervals_hold_the_truth() {
    let mut simulation = Simulation::new(6);
    let (mut held, mut all, mut deviations) = (0, 0, 0.0);
    for _ in 0..100 {
        let mut effect = || Effect {
            log_seconds: simulation.lognormal(1.0, 0.08).ln() + simulation.lognormal(1.0, 0.03).ln(),
            variance: 0.03_f64.powi(2),
            between: 0.0,
        };
        let sittings = [(); 4].map(|()| Sitting {
            runs: 1,
            effects: [(); 12].map(|()| Some(effect())).to_vec(),
            contenders: Vec::new(),
            weight: 1.0,
        });
        let pooled = fit(&sittings);
        deviations += pooled.deviation / 100.0;
        let seconds: Vec<_> = (0..12).map(|entry| pooled.model.seconds(entry).unwrap()).collect();
        let usual = seconds.iter().map(|seconds| seconds.median.ln()).sum::<f64>() / 12.0;
        all += seconds.len();
        let holds = |seconds: &&Interval| seconds.low.ln() <= usual && usual <= seconds.high.ln();
        held += seconds.iter().filter(holds).count();
    }
    assert!((0.065..0.095).contains(&deviations), "{deviations}");
    assert!(held * 100 >= all * 93, "{held} of {all}");
}

#[test]
fn pool_seconds_and_rates_are_those_of_a_usual_sitting() {
    let mut simulation = Simulation::new(9);
    let medians = [0.01, 0.012, 0.02, 0.04];
    let mut run = |hours, times| sitting(&mut simulation, medians.map(|seconds| seconds * times), hours);
    // The second hour is twice as slow.
    let (first, second) = (run(0, 1.0), run(4, 2.0));
    let pooled = pool(&second, &[first]);
    let summary = pooled.contests[0].entries[0].summary.as_ref().unwrap();
    let seconds = summary.seconds;
    assert!((0.0135..0.0150).contains(&seconds.median), "{seconds:?}");
    let is_ascending = [seconds.low, seconds.median, seconds.high, 0.03].is_sorted_by(|one, next| one < next);
    assert!(is_ascending, "{seconds:?}");
    let rate = summary.bytes_per_second * seconds.median / f64::from(64 << 20);
    assert!((rate - 1.0).abs() < 1e-6, "{rate}");
}

#[test]
fn pool_takes_no_harm_of_rounds_without_bounds() {
    let mut simulation = Simulation::new(10);
    let mut run = |hours| sitting(&mut simulation, [1.0, 1.3, 1.5, 2.0], hours);
    let (own, mut damaged) = (run(8), [run(0), run(4)]);
    for trial in damaged.iter_mut().flat_map(|run| &mut run.trials) {
        trial.round = u32::MAX;
    }
    let pooled = pool(&own, &damaged);
    assert!(conclusion(&pooled).sittings.is_some());
}
