//! What is concluded from runs whose figures are known.

use proptest::prelude::*;
use seekless_record::{Conclusion, Contest, EntryVerdict, Phase, Run};

use super::super::*;
use crate::simulation::{run, trial};

fn concluded(run: &Run) -> (Vec<Judgement>, Conclusion) {
    conclude_judged(&JudgedContest::new(run, 0))
}

fn sentence(run: &Run) -> String {
    concluded(run).1.sentence
}

#[test]
fn ranking_recommends_the_simplest_of_ties() {
    let [best, simplest] = ["read/io_uring,depth=8,direct,block=1M", "read/sync,direct,block=4M"];
    let others = [("read/sync,direct,block=1M", 1.02), ("read/sync,block=128K", 1.1)];
    let (judgements, conclusion) = concluded(&run(&[[(best, 1.0), (simplest, 1.02)], others].concat(), 6));
    assert_eq!(conclusion.best.as_deref(), Some(best));
    assert_eq!(conclusion.recommended.as_deref(), Some(simplest));
    assert_eq!(conclusion.best_overlapping, conclusion.best);
    assert_eq!(conclusion.best_synchronous.as_deref(), Some(simplest));
    assert!(matches!(judgements[3].1, Some(EntryVerdict::Slower(_))));
    let expected = "Use read/sync,direct,block=4M: at most 2 % slower than the best, and the simplest of 3 methods known to be within 5 % of the best. \
     Overlapping saves at most 3 % here.";
    assert_eq!(conclusion.sentence, expected);
}

#[test]
fn ranking_recommends_of_equally_simple_the_best_elsewhere() {
    let recommended = |at_other_size: [f64; 2]| {
        let names = ["read/sync,block=256K", "read/sync,block=1M"];
        let both = |seconds: [f64; 2]| run(&names.iter().copied().zip(seconds).collect::<Vec<_>>(), 6);
        let (mut small, large) = (both([1.0, 1.0]), both(at_other_size));
        let trials = large.trials.into_iter();
        small.trials.extend(trials.map(|trial| Trial { contest: 1, ..trial }));
        let contest = large.contests.into_iter().map(|contest| Contest {
            size_bytes: 1 << 30,
            ..contest
        });
        small.contests.extend(contest);
        conclude_all(&mut small);
        small.contests[0].conclusion.clone().unwrap().recommended.unwrap()
    };
    assert_eq!(recommended([1.0, 1.5]), "read/sync,block=256K");
    assert_eq!(recommended([1.5, 1.0]), "read/sync,block=1M");
}

#[test]
fn ranking_of_few_rounds_is_undecided() {
    let few = run(&[("read/sync,block=128K", 1.0), ("read/mmap", 1.3)], 5);
    let (_, conclusion) = concluded(&few);
    assert_eq!(conclusion.recommended, None);
    assert_eq!(conclusion.best.as_deref(), Some("read/sync,block=128K"));
    let sentence = &conclusion.sentence;
    assert!(sentence.starts_with("Undecided: 5 rounds are too few"), "{sentence}");
    let wanted = "6 are needed (read/sync,block=128K leads); 2 times the budget should decide it.";
    assert!(sentence.ends_with(wanted), "{sentence}");
}

#[test]
fn ranking_without_valid_trials_says_why() {
    let mut none = run(&[("read/mmap", 1.0), ("read/sync", 1.0)], 0);
    assert_eq!(sentence(&none), "Not measured yet.");
    none.contests[0].entries[0].verdict = EntryVerdict::unavailable("no ring");
    assert_eq!(sentence(&none), "Not measured yet.");
    none.contests[0].entries[1].verdict = EntryVerdict::failed("Input/output error");
    let failed = "Not measured: every method is unavailable or failed; the first: no ring.";
    assert_eq!(sentence(&none), failed);
    let mut invalid = run(&[("read/mmap", 1.0)], 3);
    let reasons = ["it swapped", "12 % in memory", "it swapped"];
    for (trial, why) in invalid.trials.iter_mut().zip(reasons) {
        (trial.valid, trial.invalid) = (false, Some(why.to_owned()));
    }
    assert_eq!(sentence(&invalid), "Undecided: no trial is valid: it swapped.");
}

#[test]
fn ranking_of_noise_is_undecided_and_names_what_to_use() {
    let methods = [
        ("read/sync,block=128K", 1.0),
        ("read/mmap", 0.99),
        ("read/sync,direct", 1.0),
    ];
    let mut wide = run(&methods, 6);
    for trial in &mut wide.trials {
        trial.seconds *= [1.0, 1.5, 0.8, 1.2, 0.7, 1.1, 1.3][(trial.entry * 5 + trial.round as usize * 3) % 7];
    }
    let (_, conclusion) = concluded(&wide);
    assert_eq!(conclusion.recommended, None);
    let (cost, times) = (conclusion.costs_at_most.unwrap(), conclusion.decided_by_times.unwrap());
    let is_squared = (times - (cost / 0.1).powi(2)).abs() < 1e-9;
    assert!(cost > 0.1 && is_squared, "{cost} {times}");
    let used = conclusion.until_decided.unwrap();
    let until = format!("Undecided: 3 methods are not told apart. Until then, use {used}: at most ");
    let sentence = &conclusion.sentence;
    assert!(sentence.starts_with(&until), "{sentence}");
    assert!(sentence.contains("times the budget should decide it"), "{sentence}");
}

#[test]
fn ranking_says_that_methods_are_equal_where_shown() {
    let methods = [
        ("read/io_uring,depth=8", 1.0),
        ("read/sync,block=128K", 1.01),
        ("read/mmap", 1.02),
    ];
    let (_, conclusion) = concluded(&run(&methods, 6));
    assert_eq!(conclusion.recommended.as_deref(), Some("read/sync,block=128K"));
    let within = conclusion.equal_within.unwrap();
    assert!((within - 0.02).abs() < 0.01, "{within}");
    let sentence = &conclusion.sentence;
    let is_told = sentence.starts_with("Use read/sync,block=128K: all 3 methods are equal within ");
    assert!(is_told, "{sentence}");
}

/// Adds six fresh rounds, in which each entry takes these seconds.
fn with_fresh_rounds(mut run: Run, seconds: &[f64]) -> Run {
    for round in 6..12 {
        for (entry, &seconds) in seconds.iter().enumerate() {
            run.trials.push(Trial {
                phase: Phase::Confirming,
                ..trial(entry, round, seconds)
            });
        }
    }
    run
}

#[test]
fn ranking_claims_no_bound_that_fresh_rounds_refute() {
    let methods = [("read/sync,block=1M", 1.0), ("read/mmap", 1.02)];
    let cost = |fresh: &[f64]| {
        let (_, conclusion) = concluded(&with_fresh_rounds(run(&methods, 6), fresh));
        let used = conclusion.recommended.or(conclusion.until_decided).unwrap();
        (used, conclusion.costs_at_most.unwrap())
    };
    let (used, least) = cost(&[1.0, 1.02]);
    assert!(used == "read/sync,block=1M" && least < 0.03, "{used} {least}");
    // It was lucky in the first rounds: what is used now is not slower in the fresh ones than the bound says.
    let (used, least) = cost(&[1.3, 1.02]);
    let fresh = if used == "read/mmap" { 1.0 } else { 1.3 / 1.02 };
    assert!(least >= fresh - 1.0 - 1e-9, "{used} {least}");
}

#[test]
fn ranking_omits_null_failed_invalid_and_unclocked_figures() {
    let names = [
        "read/null",
        "read/mmap",
        "read/sync,block=1M",
        "read/sync,direct,block=1M",
    ];
    let methods: Vec<_> = names.into_iter().zip([1e-6, 0.1, 1.0, 0.2]).collect();
    let mut all = run(&methods, 7);
    all.contests[0].entries[1].verdict = EntryVerdict::failed("a wrong answer");
    for trial in all.trials.iter_mut().filter(|trial| trial.entry == 3) {
        trial.valid = false;
    }
    let (judgements, conclusion) = concluded(&all);
    assert_eq!(conclusion.recommended.as_deref(), Some("read/sync,block=1M"));
    assert!(judgements[0].1.is_none() && judgements[1].1.is_none());
    assert!(judgements[3].0.is_none() && conclusion.effects.is_empty());
    let sentence = &conclusion.sentence;
    assert!(sentence.contains("the only method measured"), "{sentence}");
    let methods = [
        ("read/sync,block=1M", 0.0),
        ("read/mmap", f64::NAN),
        ("read/sync,block=4K", 1.0),
    ];
    let mut damaged = run(&methods, 6);
    damaged.trials.push(Trial {
        contest: 9,
        ..trial(0, 0, 1.0)
    });
    damaged.trials.push(trial(99, 0, 1.0));
    assert_eq!(concluded(&damaged).1.recommended.as_deref(), Some("read/sync,block=4K"));
}

#[test]
fn ranking_counts_fresh_rounds_and_agrees_with_rates() {
    let methods = [("read/sync,block=1M", 1.0), ("read/mmap", 1.5)];
    let (judgements, _) = concluded(&with_fresh_rounds(run(&methods, 6), &[1.1, 1.5]));
    let [one, other] = [0, 1].map(|entry| judgements[entry].0.as_ref().unwrap());
    assert_eq!([one.rounds, one.invalid, other.rounds], [12, 0, 12]);
    let ratio = judgements[1].1.as_ref().unwrap().relative().unwrap().ratio.median;
    assert!((other.seconds.median / one.seconds.median - ratio).abs() < 1e-9);
    assert!((one.bytes_per_second / other.bytes_per_second - ratio).abs() < 1e-9);
}

#[test]
fn ranking_judges_options_against_the_method_without_them() {
    let mut all = run(
        &[
            ("read/sync,block=1M", 1.0),
            ("read/sync,direct,block=1M", 0.8),
            ("read/sync,direct,block=4M", 0.79),
            ("read/sync,block=1M,hint=sequential", 1.2),
            ("read/mmap", 1.5),
            ("read/mmap,hint=populate", 1.8),
        ],
        8,
    );
    for trial in all.trials.iter_mut().filter(|trial| trial.entry == 1) {
        (trial.user_seconds, trial.system_seconds) = (0.0, trial.seconds * 0.1);
    }
    let (_, conclusion) = concluded(&all);
    let effects = conclusion.effects.iter();
    let told: Vec<_> = effects
        .map(|effect| (&*effect.option, &*effect.without, effect.ratio.median))
        .collect();
    let expected = [
        ("direct", "read/sync,block=1M", 0.8),
        ("hint=sequential", "read/sync,block=1M", 1.2),
        ("hint=populate", "read/mmap", 1.8 / 1.5),
    ];
    assert_eq!(told, expected);
    assert!((conclusion.effects[0].cpu_seconds_difference - (0.08 - 0.5)).abs() < 1e-9);
    let expected = "Use read/sync,direct,block=1M: at most 2 % slower than the best, and the simplest of 2 methods known to be within 5 % of the best. Of its options, direct saves \
     20 % of the time and 40 percentage points of CPU. Slower here: hint=sequential (1.20x the time of \
     read/sync,block=1M), hint=populate (1.20x the time of read/mmap).";
    assert_eq!(conclusion.sentence, expected);
    let methods = [
        "write/mmap,preallocate=truncate,fsync",
        "write/mmap,preallocate=allocate,fsync",
    ];
    let (_, conclusion) = concluded(&run(&methods.map(|method| (method, 1.0)), 6));
    let told: Vec<&str> = conclusion.effects.iter().map(|effect| effect.option.as_str()).collect();
    assert_eq!(told, ["preallocate=allocate"]);
}

#[test]
fn ranking_tells_where_overlapping_pays_or_costs() {
    for (overlapping, words) in [
        (0.7, "Overlapping saves 30 % of the time"),
        (1.2, "Overlapping takes 1.20x the time"),
        (0.99, "Overlapping saves at most 3 % here"),
    ] {
        let methods = [
            ("read/sync,block=1M", 1.0),
            ("read/double-buffer,block=1M", overlapping),
        ];
        let sentence = sentence(&run(&methods, 6));
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn ranking_tells_a_faster_command_and_recommends_a_method() {
    let methods = [("command/cat", 0.5), ("read/sync,block=1M", 1.0), ("read/mmap", 1.5)];
    let both = run(&methods, 6);
    let (judgements, conclusion) = concluded(&both);
    assert_eq!(conclusion.best.as_deref(), Some("command/cat"));
    assert!(matches!(judgements[0].1, Some(EntryVerdict::Best(_))));
    assert_eq!(conclusion.best_synchronous.as_deref(), Some("read/sync,block=1M"));
    let expected = "Use read/sync,block=1M: the best; the next best, read/mmap, takes 1.50x as long. The command cat is faster: it takes 0.50x the \
     time.";
    assert_eq!(conclusion.sentence, expected);
    let alone = sentence(&run(&[("command/cat", 0.5)], 6));
    assert_eq!(alone, "Commands are ranked, and none is recommended.");
}

proptest! {
    #[test]
    fn ranking_of_no_trials_panics_nowhere(
        trials in proptest::collection::vec(
            (0usize..7, 0u32..12, prop_oneof![0.5f64..2.0, Just(f64::NAN), Just(0.0), Just(-1.0)], any::<bool>()),
            0..80,
        ),
    ) {
        let names = ["read/sync,block=1M", "read/sync,direct,block=1M", "read/null", "command/cat", "read/not-known-yet"];
        let mut run = run(&names.map(|name| (name, 1.0)), 0);
        run.trials = trials
            .into_iter()
            .map(|(entry, round, seconds, valid)| Trial { valid, ..trial(entry, round, seconds) })
            .collect();
        let (judgements, conclusion) = concluded(&run);
        prop_assert_eq!(judgements.len(), names.len());
        if let Some(name) = conclusion.recommended {
            prop_assert!(names[..2].contains(&name.as_str()), "{}", name);
        }
        prop_assert!(conclusion.sentence.ends_with('.'));
    }
}
