//! The decider, asked by a simulated lab.

use super::*;
use crate::simulation::{self, Simulation};

/// The time of a trial of a contest and an entry.
type Seconds = fn(usize, usize) -> f64;

/// A run with this many contests of two methods, each twice the size of the one before, and a group for each.
fn contests(number: usize, expected: Duration) -> (Run, Vec<Group>) {
    let mut run = simulation::run(&[("read/sync,block=1M", 1.0), ("read/mmap", 1.0)], 0);
    let entries = run.contests[0].entries.clone();
    run.contests = (0..number)
        .map(|index| simulation::contest(1 << (20 + index), entries.clone()))
        .collect();
    let group = |contest| Group {
        contests: vec![contest],
        expected,
        ..Group::default()
    };
    (run, (0..number).map(group).collect())
}

/// Runs what the decider asks for until it asks no more, or until a stop is requested.
fn measure(run: &mut Run, decider: &mut Decider, seconds: Seconds, stop_at: f64) {
    let mut simulation = Simulation::new(1);
    let mut elapsed = 0.0;
    loop {
        let now = if elapsed < stop_at {
            Duration::from_secs_f64(elapsed)
        } else {
            Duration::MAX
        };
        match decider.next(run, now, |_| true) {
            None => break,
            Some(Next::Files(_)) => {}
            Some(Next::Trial(turn)) => {
                assert!(elapsed < stop_at, "no trial begins after a stop");
                let seconds = simulation.lognormal(seconds(turn.contest, turn.entry), 0.01);
                elapsed += seconds;
                run.trials.push(Trial {
                    contest: turn.contest,
                    phase: turn.phase,
                    ..simulation::trial(turn.entry, turn.round, seconds)
                });
            }
        }
    }
    let trials = run.trials.iter();
    let rounds: HashSet<_> = trials.map(|trial| (trial.contest, trial.entry, trial.round)).collect();
    let distinct = rounds.len();
    assert_eq!(distinct, run.trials.len(), "no two trials of an entry share a round");
}

/// How many trials an entry had.
fn count(run: &Run, contest: usize, entry: usize) -> usize {
    let is_its = |trial: &&Trial| (trial.contest, trial.entry) == (contest, entry);
    run.trials.iter().filter(is_its).count()
}

fn decider_for(run: &Run, groups: Vec<Group>, budget_seconds: u64) -> Decider {
    Decider::new(run, groups, None, Duration::from_secs(budget_seconds), 1)
}

#[test]
fn decider_groups_take_turns_and_winners_are_measured_again() {
    let (mut run, groups) = contests(2, Duration::ZERO);
    let mut decider = Decider::new(&run, groups, Some(2), Duration::ZERO, 1);
    let next = decider.next(&mut run, Duration::ZERO, |_| true);
    assert_eq!(next, Some(Next::Files(vec![0, 1])));
    measure(&mut run, &mut decider, |_, entry| [1.0, 0.5][entry], f64::MAX);
    let rounds = run.trials.iter().step_by(2);
    let rounds: Vec<_> = rounds
        .map(|trial| (trial.phase, [trial.contest, trial.round as usize]))
        .collect();
    let first = [[0, 0], [1, 0], [0, 1], [1, 1]].map(|round| (Phase::Screening, round));
    let again = [[0, 2], [0, 3], [1, 2], [1, 3]].map(|round| (Phase::Confirming, round));
    assert_eq!(rounds, [first, again].concat());
}

#[test]
fn decider_of_one_method_has_rounds_for_its_figure() {
    let (mut run, groups) = contests(1, Duration::ZERO);
    run.contests[0].entries[1].verdict = EntryVerdict::unavailable("not here");
    let mut decider = decider_for(&run, groups, 1000);
    measure(&mut run, &mut decider, |_, _| 1.0, f64::MAX);
    assert_eq!([0, 1].map(|entry| count(&run, 0, entry)), [DECIDING_ROUNDS as usize, 0]);
}

#[test]
fn decider_of_a_sustained_write_has_one_round() {
    for rounds in [None, Some(5)] {
        let (mut run, mut groups) = contests(1, Duration::from_mins(1));
        run.contests[0].sustained = true;
        groups[0].is_once = true;
        let mut decider = Decider::new(&run, groups, rounds, Duration::from_mins(10), 1);
        assert_eq!(Group::remaining(&mut run).len(), 1);
        measure(&mut run, &mut decider, |_, _| 1.0, f64::MAX);
        assert_eq!(count(&run, 0, 0), 1);
        assert!(Group::remaining(&mut run).is_empty());
    }
}

#[test]
fn decider_gives_undecided_contests_equal_time() {
    let (mut run, groups) = contests(2, Duration::from_secs(30));
    let mut decider = decider_for(&run, groups, 100);
    fastrand::seed(3);
    // Too noisy to be decided; a trial of the first contest takes a tenth of the time.
    let seconds: Seconds = |contest, _| [0.02, 0.2][contest] * (1.0 + fastrand::f64() * 20.0);
    measure(&mut run, &mut decider, seconds, f64::MAX);
    let contending = |contest: usize| {
        let trials = run.trials.iter().filter(move |trial| trial.contest == contest);
        let seconds = trials.filter(|trial| trial.phase == Phase::Contending && trial.round >= DECIDING_ROUNDS);
        seconds.map(|trial| trial.seconds).sum::<f64>()
    };
    let ratio = contending(0) / contending(1);
    assert!((0.7..1.4).contains(&ratio), "{ratio}");
    assert!(count(&run, 0, 0) > 40, "{}", count(&run, 0, 0));
}

#[test]
fn decider_passes_time_on_from_what_may_no_longer_run() {
    let (mut run, groups) = contests(2, Duration::from_secs(30));
    let mut decider = decider_for(&run, groups, 1000);
    fastrand::seed(3);
    let mut elapsed = 0.0;
    while let Some(next) = decider.next(&mut run, Duration::from_secs_f64(elapsed), |contest| {
        contest.size_bytes > 1 << 20 || elapsed < 100.0
    }) {
        let Next::Trial(turn) = next else { continue };
        let seconds = 1.0 + fastrand::f64() * 20.0;
        elapsed += seconds;
        run.trials.push(Trial {
            contest: turn.contest,
            phase: turn.phase,
            ..simulation::trial(turn.entry, turn.round, seconds)
        });
    }
    assert!(elapsed > 800.0 && count(&run, 1, 0) > count(&run, 0, 0), "{elapsed}");
}

#[test]
fn decider_drops_what_is_beaten_and_ends_settled_contests() {
    let (mut run, groups) = contests(1, Duration::from_mins(1));
    let mut decider = decider_for(&run, groups, 1000);
    // The reference runs in every round, so the slower one is the other.
    measure(&mut run, &mut decider, |_, entry| [1.0, 2.0][entry], f64::MAX);
    assert_eq!(count(&run, 0, 1), 3);
    assert_eq!(run.contests[0].entries[1].verdict, EntryVerdict::Dropped(None));
    assert_eq!(count(&run, 0, 0), (DECIDING_ROUNDS + CONFIRMING_ROUNDS) as usize);
    assert!(Group::remaining(&mut run).is_empty(), "nothing is left to resume");
    // A stop leaves none in the running, either. Three rounds of both take 9 s.
    let (mut run, groups) = contests(1, Duration::from_mins(1));
    let mut decider = decider_for(&run, groups, 1000);
    measure(&mut run, &mut decider, |_, entry| [1.0, 2.0][entry], 8.9);
    assert_eq!(count(&run, 0, 1), 3);
    assert_eq!(run.contests[0].entries[1].verdict, EntryVerdict::Dropped(None));
}

#[test]
fn decider_takes_small_files_first_on_a_short_budget() {
    let (run, groups) = contests(2, Duration::from_mins(1));
    let is_one_by_one = |seconds| decider_for(&run, groups.clone(), seconds).one_by_one;
    assert!(!is_one_by_one(60) && is_one_by_one(59));
    let (run, mut groups) = contests(3, Duration::from_mins(1));
    groups[2].rounds = 1;
    groups.swap(0, 1);
    let decider = decider_for(&run, groups, 1);
    let order: Vec<usize> = decider.groups.iter().map(|group| group.contests[0]).collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn decider_in_order_settles_each_before_the_next() {
    let (mut run, groups) = contests(4, Duration::from_secs(40));
    let mut decider = decider_for(&run, groups, 60);
    measure(&mut run, &mut decider, |_, entry| [1.0, 1.5][entry], f64::MAX);
    let rounds: Vec<usize> = (0..4).map(|contest| count(&run, contest, 0)).collect();
    assert_eq!(rounds, [12, 12, 0, 0], "after two of them, less than 40 s are left");
    conclude_now(&mut run);
    assert!(run.contests[1].conclusion.as_ref().unwrap().recommended.is_some());
    assert_eq!(run.contests[2].entries[0].verdict, EntryVerdict::Unmeasured(None));
    let left = Group::remaining(&mut run);
    assert!(left.iter().map(|group| group.contests[0]).eq([2, 3]));
}

#[test]
fn decider_resumes_a_stopped_run_where_it_was() {
    let (mut run, groups) = contests(2, Duration::from_mins(1));
    let mut decider = decider_for(&run, groups, 1000);
    measure(&mut run, &mut decider, |_, entry| [1.0, 1.01][entry], 10.5);
    conclude_now(&mut run);
    let before = run.trials.len();
    assert!(before < 12);
    let groups = Group::remaining(&mut run);
    assert_eq!(groups.len(), 2);
    let mut decider = decider_for(&run, groups, 1000);
    measure(&mut run, &mut decider, |_, entry| [1.0, 1.01][entry], f64::MAX);
    assert!(run.trials[..before].iter().all(|trial| trial.phase == Phase::Screening));
    assert!((0..2).all(|contest| count(&run, contest, 0) >= 12));
    assert!(Group::remaining(&mut run).is_empty());
}

#[test]
fn decider_ends_the_run_when_nothing_may_run() {
    for seconds in [1, 1000] {
        let (mut run, groups) = contests(2, Duration::from_mins(1));
        let mut decider = decider_for(&run, groups, seconds);
        while let Some(next) = decider.next(&mut run, Duration::ZERO, |_| false) {
            assert!(matches!(next, Next::Files(_)));
        }
    }
}

#[test]
fn decider_of_commands_finds_the_leader_or_a_tie() {
    let measured = |seconds: Seconds| {
        let mut run = simulation::run(&[("command/one", 1.0), ("command/other", 1.0)], 0);
        let group = Group {
            contests: vec![0],
            expected: Duration::from_secs(30),
            ..Group::default()
        };
        let mut decider = decider_for(&run, vec![group], 1000);
        measure(&mut run, &mut decider, seconds, f64::MAX);
        let again = run.trials.iter().any(|trial| trial.phase == Phase::Confirming);
        assert!(!again, "nothing is recommended, so nothing is measured again");
        assert!(Group::remaining(&mut run).is_empty(), "nothing is left to resume");
        [0, 1].map(|entry| count(&run, 0, entry))
    };
    let [leader, slower] = measured(|_, entry| [1.0, 1.5][entry]);
    assert!((6..12).contains(&leader) && slower <= leader, "{leader} {slower}");
    assert!(measured(|_, _| 1.0).iter().all(|rounds| (6..24).contains(rounds)));
}
