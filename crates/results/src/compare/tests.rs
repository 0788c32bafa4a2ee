//! Changes are found, and nothing else.

use std::time::Duration;

use seekless_record::{Contest, Storage, Trial};

use seekless_record::{Command, EntryVerdict, ExitCode, Subject};

use super::*;
use crate::same::objections;
use crate::simulation::{self, FULL, Simulation};

/// A run of these methods whose seconds vary by 3 %.
fn noisy(seed: u64, methods: &[(&str, f64)], rounds: u32) -> Run {
    let mut simulation = Simulation::new(seed);
    let mut run = simulation::run(methods, rounds);
    for trial in &mut run.trials {
        trial.seconds = simulation.lognormal(trial.seconds, 0.03);
    }
    run
}

fn only(first: &Run, second: &Run) -> ContestChange {
    let mut contests = compare(first, second).unwrap().contests;
    assert_eq!(contests.len(), 1);
    contests.remove(0)
}

#[test]
fn compare_tells_faster_slower_and_neither_apart() {
    let names = ["read/sync,block=128K", "read/mmap", "read/sync,block=1M"];
    let taking = |seed, seconds: [f64; 3]| {
        let methods: Vec<_> = names.into_iter().zip(seconds).collect();
        noisy(seed, &methods, 12)
    };
    let contest = only(&taking(1, [0.1; 3]), &taking(2, [0.1, 0.05, 0.2]));
    let methods = contest.methods.iter();
    let changes: Vec<(&str, Change)> = methods.map(|method| (method.method.as_str(), method.change)).collect();
    let expected = [
        (names[1], Change::Faster),
        (names[0], Change::NoneShown),
        (names[2], Change::Slower),
    ];
    assert_eq!(changes, expected);
    let faster = &contest.methods[0];
    assert!(faster.time.low < 0.5 && 0.5 < faster.time.high, "{:?}", faster.time);
    assert_eq!(contest.reference.as_deref(), Some("read/sync,block=128K"));
    assert!(contest.methods[1].beside_reference.is_none());
}

/// Runs of contests whose only method takes these seconds.
fn of_contests(seed: u64, seconds: &[f64], rounds: u32) -> Run {
    let mut runs = seconds.iter().enumerate().map(|(at, &seconds)| {
        let mut run = noisy(seed + at as u64, &[("read/mmap", seconds)], rounds);
        run.contests[0].size_bytes = 1 << (20 + at);
        run.trials.iter_mut().for_each(|trial| trial.contest = at);
        run
    });
    let mut all = runs.next().unwrap();
    for run in runs {
        all.contests.extend(run.contests);
        all.trials.extend(run.trials);
    }
    all
}

#[test]
fn compare_counts_contests_and_claims_nothing_of_few_rounds() {
    let words = |first: &Run, second: &Run| compare(first, second).unwrap().answer_in_words();
    let before = of_contests(1, &[0.1, 0.1, 0.1], 12);
    let now = of_contests(50, &[0.05, 0.1, 0.06], 12);
    let comparison = compare(&before, &now).unwrap();
    let answer = &comparison.answer;
    assert_eq!((answer.faster, answer.slower, answer.contests), (2, 0, 3));
    let (time, expected) = (answer.time.unwrap(), (0.5_f64 * 0.6).cbrt());
    let is_between = time.low < expected && expected < time.high && time.high < 1.0;
    assert!(is_between, "{time:?}");
    let told = comparison.answer_in_words();
    assert!(told.starts_with("The second run takes 0.6"), "{told}");
    let end = ". Of 3 contests, it is faster in 2, slower in 0, not told apart in 1.";
    assert!(told.ends_with(end), "{told}");
    let same = words(&before, &of_contests(50, &[0.1, 0.1, 0.1], 12));
    assert!(same.starts_with("No difference is shown: "), "{same}");
    let few = of_contests(50, &[0.05, 0.05, 0.05], 5);
    let told = "Undecided: no method or command has 6 rounds in both runs.";
    assert_eq!(words(&before, &few), told);
}

#[test]
fn compare_of_commands_answers_by_their_rows() {
    let of_commands = |seed, seconds: [f64; 2]| {
        let [one, other] = seconds;
        let mut run = noisy(seed, &[("read/mmap", one), ("read/sync,block=1M", other)], 12);
        for (entry, name) in run.contests[0].entries.iter_mut().zip(["one", "other"]) {
            entry.subject = Subject::Command(Command {
                name: name.to_owned(),
                argv: Vec::new(),
                before: Vec::new(),
                exit_code: ExitCode::default(),
                same_output: false,
                note: None,
            });
        }
        run
    };
    let told = |now: [f64; 2]| compare(&of_commands(1, [0.1; 2]), &of_commands(2, now)).unwrap();
    let slower = told([0.2, 0.2]);
    assert_eq!((slower.answer.slower, slower.answer.contests), (1, 1));
    let words = slower.answer_in_words();
    assert!(words.starts_with("The second run takes "), "{words}");
    // One row of two shows a difference.
    let words = told([0.1, 0.4]).answer_in_words();
    assert!(words.starts_with("The second run takes "), "{words}");
    let words = told([0.1, 0.1]).answer_in_words();
    assert!(words.starts_with("No difference is shown"), "{words}");
}

#[test]
fn compare_of_equal_runs_seldom_shows_a_difference() {
    for seconds in [&[0.1][..], &[0.1, 0.2, 0.1, 0.3]] {
        let runs = 200;
        let differ = (0..runs).filter(|&seed| {
            let [one, other] = [0, 10_000].map(|more| of_contests(seed * 10 + more, seconds, 8));
            let compared = compare(&one, &other).unwrap();
            let of_all = Change::of(&compared.answer.time.unwrap());
            let of_method = compared.contests[0].methods[0].change;
            of_all != Change::NoneShown || seconds.len() == 1 && of_method != Change::NoneShown
        });
        let differ = differ.count();
        assert!(differ <= 4, "{differ} of {runs}");
    }
}

#[test]
fn compare_of_few_rounds_shows_no_change() {
    let before = noisy(1, &[("read/mmap", 0.1)], 5);
    let now = noisy(2, &[("read/mmap", 0.9)], 20);
    let contest = only(&before, &now);
    assert_eq!(contest.methods[0].change, Change::TooFewRounds);
    assert_eq!(contest.methods[0].rounds, [5, 20]);
}

#[test]
fn compare_in_a_slower_hour_keeps_what_stands_by_the_reference() {
    let before = noisy(1, &[("read/sync,block=128K", 0.1), ("read/mmap", 0.2)], 12);
    let now = noisy(2, &[("read/sync,block=128K", 0.3), ("read/mmap", 0.6)], 12);
    let contest = only(&before, &now);
    assert!(contest.methods.iter().all(|method| method.change == Change::Slower));
    let beside = contest.methods[1].beside_reference.unwrap();
    assert!(beside.low < 1.0 && 1.0 < beside.high, "{beside:?}");
}

#[test]
fn compare_tells_why_what_became_available_was_not() {
    let mut before = noisy(1, &[("read/mmap", 0.1), ("read/sync,dontcache,block=1M", 0.1)], 6);
    before.trials.retain(|trial| trial.entry == 0);
    before.contests[0].entries[1].verdict = EntryVerdict::unavailable("not in this kernel");
    let mut now = noisy(2, &[("read/mmap", 0.1), ("read/sync,dontcache,block=1M", 0.1)], 6);
    now.machine.kernel = "6.14".to_owned();
    let contest = only(&before, &now);
    let expected = MissingMethod {
        method: "read/sync,dontcache,block=1M".to_owned(),
        why: "not available: not in this kernel".to_owned(),
    };
    assert_eq!((contest.new, contest.gone), (vec![expected], Vec::new()));
    let changed = compare(&before, &now).unwrap().changed;
    assert_eq!(changed, ["kernel: , now 6.14"]);
}

#[test]
fn compare_cautions_of_another_speed_and_finds_itself_unchanged() {
    let before = seekless_record::from_json(FULL.as_bytes()).unwrap();
    let mut now = before.clone();
    assert_eq!(compare(&before, &now).unwrap().cautions, Vec::<String>::new());
    let speed = now.lab_cost.second_touch_bytes_per_second.as_mut().unwrap();
    *speed /= 2.0;
    now.noise.stolen = Some(0.2);
    now.noise.others = Some(0.4);
    let cautions = compare(&before, &now).unwrap().cautions;
    assert_eq!(cautions.len(), 3, "{cautions:?}");
    assert!(cautions[0].contains("2.00x slower") && cautions[1].contains("20 % steal time"));
    let expected = "40 % of the processor time was used by other processes in the second run";
    assert_eq!(cautions[2], expected);
    let comparison = compare(&before, &before).unwrap();
    assert_eq!(comparison.contests.len(), before.contests.len());
    assert!(comparison.changed.is_empty() && comparison.only_first.is_empty());
    let mut methods = comparison.contests.iter().flat_map(|contest| &contest.methods);
    assert!(methods.all(|method| (method.time.median - 1.0).abs() < 1e-12));
}

#[test]
fn compare_refuses_runs_with_nothing_in_common() {
    let first = noisy(1, &[("read/mmap", 0.1)], 6);
    let mut second = first.clone();
    second.contests[0].size_bytes = 1 << 20;
    let refusal = compare(&first, &second).unwrap_err().to_string();
    for words in ["read 64 MiB, cold", "read 1 MiB, cold"] {
        assert!(refusal.contains(words), "{refusal}");
    }
}

/// A run of this many storages, contests, and entries with a trial each, in this order or reversed.
fn large([storages, contests, entries]: [usize; 3], is_reversed: bool) -> Run {
    let order = |count| {
        let mut order: Vec<usize> = (0..count).collect();
        if is_reversed {
            order.reverse();
        }
        order
    };
    let methods: Vec<String> = order(entries).iter().map(|n| format!("command/{n}")).collect();
    let methods: Vec<(&str, f64)> = methods.iter().map(|method| (method.as_str(), 1.0)).collect();
    let mut run = simulation::run(&methods, 1);
    let storage = run.storages.remove(0);
    run.storages.extend(order(storages).iter().map(|n| Storage {
        path: format!("/data/{n}"),
        ..storage.clone()
    }));
    let first = run.storages.iter().position(|storage| storage.path == "/data/0");
    let (contest, trials) = (run.contests.remove(0), std::mem::take(&mut run.trials));
    for (index, &n) in order(contests).iter().enumerate() {
        run.contests.push(Contest {
            size_bytes: n as u64,
            storage: first.unwrap(),
            ..contest.clone()
        });
        run.trials.extend(trials.iter().map(|trial| Trial {
            contest: index,
            ..trial.clone()
        }));
    }
    run
}

/// The processor time of this thread, so that other work on the machine does not count; the least of three.
#[cfg(target_os = "linux")]
fn time_to_compare(counts: [usize; 3]) -> Duration {
    let (first, second) = (large(counts, false), large(counts, true));
    let times = (0..3).map(|_| {
        let started = processor_time();
        assert!(objections(&first, &second).is_empty());
        let compared = compare(&first, &second).unwrap();
        assert_eq!(compared.contests.len(), counts[1]);
        assert_eq!(compared.contests[0].methods.len(), counts[2]);
        processor_time().saturating_sub(started)
    });
    times.min().unwrap()
}

#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    // The kernel counts it at each tick, and when the thread gives way.
    std::thread::yield_now();
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(spent.split(' ').next().unwrap().parse().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn compare_takes_time_in_proportion_to_its_runs() {
    let few = if crate::is_long() { 1250 } else { 400 };
    for [small, large] in [
        [[few, 1, 1], [8 * few, 1, 1]],
        [[1, few, 1], [1, 8 * few, 1]],
        [[1, 1, few], [1, 1, 8 * few]],
        [[1, 20, few / 20], [1, 80, few / 10]],
    ] {
        let (short, long) = (time_to_compare(small), time_to_compare(large));
        println!("{small:?}: {short:?}, {large:?}: {long:?}");
        // With 8 times as many: 8 times as long if linear, about 10 if sorted, 64 if all pairs are compared.
        assert!(long < short * 28, "{small:?}: {short:?}, {large:?}: {long:?}");
    }
}
