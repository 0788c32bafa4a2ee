//! The lab measures itself: one method under two names ties, and a trial that does nothing takes next to no time.
//!
//! A small version of `cargo xtask peers self`, which has the figures. Tests run side by side, so the limits here are
//! wide: they find what is broken, not what is a little worse.

use std::path::PathBuf;
use std::time::Duration;

use seekless::{Method, Operation};
use seekless_lab::experiment::{ContestPlan, Experiment, Layout, Size};
use seekless_lab::trial::Stop;
use seekless_lab::{Bench, Event, Kernel, Watch};
use seekless_record::Drop;
use seekless_record::{Cache, Contest, Differ, Run, Target, Verdict};
use seekless_results::statistics::median;

/// Of equal methods at most 3.1 % of the contests end without a tie, so more than two of six come once in 1,700 runs.
const CONTESTS: usize = 6;
const TIES: usize = 4;
const ROUNDS: u32 = 6;
/// The lab promises 10 microseconds where nothing else runs.
const NULL_SECONDS: f64 = 100e-6;

struct Silent;

impl Watch for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}

fn run(folder: PathBuf) -> Run {
    let method = Method::known("read/sync,block=128K");
    let contest = ContestPlan {
        operation: Operation::Read,
        methods: vec![method.into(), method.into()],
        labels: Vec::new(),
        commands: Vec::new(),
        differs: vec![Differ::None],
        read_ahead_kib: vec![None],
        updates: None,
        layouts: vec![Layout::Dense],
        memory_bytes: None,
        sizes: vec![Size::Bytes(16 << 20)],
        caches: vec![Cache::Warm],
        target: Target::Fresh,
        kernel: Kernel::Count,
        work_ns_per_kib: 0,
    };
    let bench = Bench {
        name: None,
        experiments: vec![Experiment {
            name: "itself".to_owned(),
            about: "One method under two names".to_owned(),
            contests: vec![contest; CONTESTS],
            published: Vec::new(),
            columns: Vec::new(),
        }],
        folders: vec![folder],
        other: None,
        budget: Duration::from_mins(1),
        rounds: Some(ROUNDS),
        sizes: Vec::new(),
        caches: Vec::new(),
        seed: 1,
        work_ns_per_kib: None,
        drop: Some(Drop::File),
        file: None,
        first_touch: None,
        program: PathBuf::from(env!("CARGO_BIN_EXE_seekless")),
        checkpoint: Duration::from_mins(2),
        earlier: Vec::new(),
        yields: false,
        resume: None,
    };
    seekless_lab::run(&bench, &Stop::default(), &mut Silent).expect("the temporary folder can be measured")
}

fn is_tie(contest: &Contest) -> bool {
    contest.entries.iter().all(|entry| {
        let standing = entry.standing.as_ref().expect("both names were measured");
        standing.verdict != Verdict::Slower
    })
}

#[test]
fn one_method_under_two_names_ties_and_nothing_costs_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = run(folder.path().to_owned());
    assert_eq!(run.contests.len(), CONTESTS);
    let ties = run.contests.iter().filter(|contest| is_tie(contest)).count();
    assert!(ties >= TIES, "{ties} ties in {CONTESTS} contests: {:#?}", run.contests);
    let null = median(&run.lab_cost.null_seconds).expect("the lab measures its own cost");
    assert!(
        null < NULL_SECONDS,
        "{null} seconds inside the clock of a trial that does nothing"
    );
}
