//! The lab measures itself: one method under two names ties, and a trial that does nothing takes next to no time.
//!
//! A small version of the experiment `peers/itself.toml`, which has the figures. Tests run in parallel, so the limits here are
//! wide: they find defects, not small regressions.

use std::path::PathBuf;

use seekless_engine::{Method, Operation};
use seekless_lab::experiment::{ContestPlan, Experiment, Size};
use seekless_lab::trial::LaunchStop;
use seekless_lab::{Bench, Event, RunWatch};
use seekless_record::DropScope;
use seekless_record::{Cache, Contest, EntryVerdict, Run};
use seekless_results::statistics::median;

/// With equal methods, at most 3.1 % of the contests end without a tie, so more than two of six do so once in 1,700 runs.
const CONTESTS: usize = 6;
const TIES: usize = 4;
const ROUNDS: u32 = 6;
/// The lab promises 10 microseconds if nothing else runs.
const NULL_SECONDS: f64 = 100e-6;

struct Silent;

impl RunWatch for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}

fn run(directory: PathBuf) -> Run {
    let method = Method::known("read/sync,block=128K");
    let contest = ContestPlan {
        caches: vec![Cache::Warm],
        ..ContestPlan::of(
            Operation::Read,
            vec![method.into(), method.into()],
            Size::Bytes(16 << 20),
        )
    };
    let experiment = Experiment {
        name: "itself".to_owned(),
        about: "One method under two names".to_owned(),
        contests: vec![contest; CONTESTS],
        published: Vec::new(),
        columns: Vec::new(),
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_seekless"));
    let bench = Bench {
        rounds: Some(ROUNDS),
        drop: Some(DropScope::File),
        ..Bench::new(vec![experiment], vec![directory], program, 1)
    };
    seekless_lab::run(&bench, &LaunchStop::default(), &mut Silent).expect("the temporary directory can be measured")
}

fn is_tie(contest: &Contest) -> bool {
    contest.entries.iter().all(|entry| {
        assert!(entry.verdict.relative().is_some(), "both names were measured");
        !matches!(entry.verdict, EntryVerdict::Slower(_))
    })
}

#[test]
fn bench_itself_ties_one_method_and_times_nothing_as_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = run(directory.path().to_owned());
    assert_eq!(run.contests.len(), CONTESTS);
    let ties = run.contests.iter().filter(|contest| is_tie(contest)).count();
    assert!(ties >= TIES, "{ties} ties in {CONTESTS} contests: {:#?}", run.contests);
    let null = median(&run.lab_cost.null_seconds).expect("the lab measures its own cost");
    assert!(
        null < NULL_SECONDS,
        "{null} seconds inside the clock of a trial that does nothing"
    );
}
