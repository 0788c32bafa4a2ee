//! The decider, asked by a simulated lab.

use super::*;
use crate::simulation::{self, Simulation};

/// What a trial takes: for a contest and an entry.
type Seconds = fn(usize, usize) -> f64;

/// A run with so many contests of two methods, each twice the size of the one before, and a group for each.
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
    let rounds: HashSet<_> = run
        .trials
        .iter()
        .map(|trial| (trial.contest, trial.entry, trial.round))
        .collect();
    assert_eq!(
        rounds.len(),
        run.trials.len(),
        "no two trials of an entry share a round"
    );
}

/// How many trials an entry had.
fn count(run: &Run, contest: usize, entry: usize) -> usize {
    let trials = run.trials.iter();
    trials
        .filter(|trial| (trial.contest, trial.entry) == (contest, entry))
        .count()
}

fn decider_for(run: &Run, groups: Vec<Group>, budget_seconds: u64) -> Decider {
    Decider::new(run, groups, None, Duration::from_secs(budget_seconds), 1)
}

#[test]
fn rounds_of_all_groups_take_turns_and_the_winners_are_measured_again() {
    let (mut run, groups) = contests(2, Duration::ZERO);
    let mut decider = Decider::new(&run, groups, Some(2), Duration::ZERO, 1);
    assert_eq!(
        decider.next(&mut run, Duration::ZERO, |_| true),
        Some(Next::Files(vec![0, 1]))
    );
    measure(&mut run, &mut decider, |_, entry| [1.0, 0.5][entry], f64::MAX);
    let rounds: Vec<(usize, u32, Phase)> = run
        .trials
        .chunks(2)
        .map(|round| (round[0].contest, round[0].round, round[0].phase))
        .collect();
    let (first, again) = (Phase::Screening, Phase::Confirming);
    assert_eq!(
        rounds,
        [
            (0, 0, first),
            (1, 0, first),
            (0, 1, first),
            (1, 1, first),
            (0, 2, again),
            (0, 3, again),
            (1, 2, again),
            (1, 3, again)
        ]
    );
}

#[test]
fn what_is_beaten_is_dropped_and_a_settled_contest_gets_no_more_rounds() {
    let (mut run, groups) = contests(1, Duration::from_mins(1));
    let mut decider = decider_for(&run, groups, 1000);
    // The reference runs in every round, so the slower one is the other.
    measure(&mut run, &mut decider, |_, entry| [1.0, 2.0][entry], f64::MAX);
    assert_eq!(count(&run, 0, 1), 3);
    assert!(
        matches!(&run.contests[0].entries[1].status, Status::Dropped(why) if why.ends_with("x the best after 3 rounds"))
    );
    assert_eq!(count(&run, 0, 0), (DECIDING_ROUNDS + CONFIRMING_ROUNDS) as usize);
    assert!(Group::remaining(&mut run).is_empty(), "nothing is left to resume");
}

#[test]
fn groups_take_turns_unless_the_budget_is_far_from_enough() {
    let (run, groups) = contests(2, Duration::from_mins(1));
    let is_one_by_one = |seconds| decider_for(&run, groups.clone(), seconds).one_by_one;
    assert!(!is_one_by_one(60) && is_one_by_one(59));
}

#[test]
fn what_was_begun_comes_first_and_then_the_smallest_files() {
    let (run, mut groups) = contests(3, Duration::from_mins(1));
    groups[2].rounds = 1;
    groups.swap(0, 1);
    let decider = decider_for(&run, groups, 1);
    let order: Vec<usize> = decider.groups.iter().map(|group| group.contests[0]).collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn one_after_the_other_each_is_decided_before_the_next_and_the_last_waits_for_a_longer_budget() {
    let (mut run, groups) = contests(4, Duration::from_secs(40));
    let mut decider = decider_for(&run, groups, 60);
    measure(&mut run, &mut decider, |_, entry| [1.0, 1.5][entry], f64::MAX);
    let rounds: Vec<usize> = (0..4).map(|contest| count(&run, contest, 0)).collect();
    assert_eq!(rounds, [12, 12, 0, 0], "after two of them, less than 40 s are left");
    conclude_now(&mut run);
    assert!(run.contests[1].conclusion.as_ref().unwrap().recommended.is_some());
    assert!(matches!(run.contests[2].entries[0].status, Status::Unmeasured(_)));
    let left: Vec<usize> = Group::remaining(&mut run)
        .iter()
        .map(|group| group.contests[0])
        .collect();
    assert_eq!(left, [2, 3]);
}

#[test]
fn a_run_that_was_stopped_is_resumed_where_it_was() {
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
fn a_stop_leaves_no_beaten_method_in_the_running() {
    let (mut run, groups) = contests(1, Duration::from_mins(1));
    let mut decider = decider_for(&run, groups, 1000);
    // Three rounds of both take 9 s.
    measure(&mut run, &mut decider, |_, entry| [1.0, 2.0][entry], 8.9);
    assert_eq!(count(&run, 0, 1), 3);
    assert!(matches!(run.contests[0].entries[1].status, Status::Dropped(_)));
}

#[test]
fn what_may_not_run_ends_the_run() {
    for seconds in [1, 1000] {
        let (mut run, groups) = contests(2, Duration::from_mins(1));
        let mut decider = decider_for(&run, groups, seconds);
        while let Some(next) = decider.next(&mut run, Duration::ZERO, |_| false) {
            assert!(matches!(next, Next::Files(_)));
        }
    }
}
