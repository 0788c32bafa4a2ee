//! Resuming a run: the measurements stay, the rest is measured, and nothing else may differ.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use seekless_record::{Ended as EndedHow, EntryVerdict, Run, Trial};

use crate::common::place::{Ended, Place, assert_contains, wait_for};

/// More than a second of work, so the larger files are left.
const SIZES: &str = r#"
name = "sizes"
about = "Files of several sizes"

[[contest]]
operation = "read"
methods = ["read/sync,block=128K", "read/mmap"]
sizes = ["1M", "8M", "16M"]
cache = ["warm"]

[[contest]]
operation = "write"
methods = ["write/sync,block=128K", "write/sync,block=1M"]
sizes = ["1M", "8M", "16M"]
"#;

/// A run whose budget ended before everything was measured.
fn begun(place: &Place) -> Run {
    place.file("sizes.toml", SIZES.as_bytes());
    let ended = place.succeeds("bench sizes.toml --budget 1s");
    assert_contains(
        &ended.stderr,
        &["6 contests with 12 methods need about", "Writes at most"],
    );
    assert_contains(&ended.stdout, &["--resume"]);
    fs::remove_file(place.path("sizes.toml")).unwrap();
    place.only_run()
}

fn waiting(run: &Run) -> usize {
    let entries = run.contests.iter().flat_map(|contest| &contest.entries);
    entries
        .filter(|entry| entry.verdict == EntryVerdict::Unmeasured(None))
        .count()
}

#[test]
fn resume_measures_the_rest_and_keeps_the_trials() {
    let place = Place::new();
    let before = begun(&place);
    assert!(waiting(&before) > 0, "the budget was enough for all");
    let mut last = before.clone();
    for _ in 0..20 {
        let ended = place.run("bench --resume latest --budget 4s");
        if ended.code == Some(2) {
            assert_contains(&ended.stderr, &["is complete"]);
            break;
        }
        ended.succeeded();
        last = place.only_run();
    }
    assert_eq!(waiting(&last), 0);
    assert_eq!(last.id, before.id);
    assert_eq!(last.trials[..before.trials.len()], before.trials);
    assert_eq!(last.resumed_at_seconds[0].to_bits(), before.elapsed_seconds.to_bits());
    assert!(last.elapsed_seconds > before.elapsed_seconds);
    let times: Vec<f64> = last.trials.iter().map(|trial| trial.at_seconds).collect();
    assert!(times.is_sorted(), "time goes on");
    let turn = |trial: &Trial| (trial.contest, trial.entry, trial.round);
    let turns: BTreeSet<_> = last.trials.iter().map(turn).collect();
    assert_eq!(
        turns.len(),
        last.trials.len(),
        "no two trials of an entry share a round"
    );
    assert!(last.contests.iter().all(|contest| contest.conclusion.is_some()));
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
}

#[test]
fn resume_continues_a_killed_run_from_its_checkpoint() {
    let place = Place::new();
    place.file("sizes.toml", SIZES.as_bytes());
    let arguments = ["bench", "sizes.toml", "--budget", "60s", "--checkpoint", "1s"];
    let mut child = place.start(&arguments);
    wait_for("something is saved", || !place.saved().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let before = place.only_run();
    assert_eq!(before.ended, EndedHow::Interrupted);
    assert!(!before.trials.is_empty());
    fs::remove_file(place.path("sizes.toml")).unwrap();
    place.succeeds(&["bench", "--resume", &before.id, "--budget", "20s"]);
    let after = place.only_run();
    assert_eq!(after.trials[..before.trials.len()], before.trials);
    assert_eq!((waiting(&after), after.ended), (0, EndedHow::Complete));
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
}

#[test]
fn resume_that_is_interrupted_keeps_both_parts() {
    let place = Place::new();
    let before = begun(&place);
    let child = place.start("bench --resume latest --checkpoint 1s");
    wait_for("more is saved", || {
        place.saved().iter().any(|run| run.trials.len() > before.trials.len())
    });
    Ended::interrupted(child);
    let after = place.only_run();
    assert_eq!(after.trials[..before.trials.len()], before.trials);
    assert!(after.trials.len() > before.trials.len());
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
}

/// A file with a run that differs from what was measured here.
fn changed(place: &Place, run: &Run, change: impl FnOnce(&mut Run)) -> PathBuf {
    let mut other = run.clone();
    change(&mut other);
    place.file("changed.json", seekless_record::to_json(&other).unwrap().as_bytes())
}

#[test]
fn resume_under_other_conditions_is_refused() {
    let place = Place::new();
    let run = begun(&place);
    let refused = |change: fn(&mut Run)| {
        let path = changed(&place, &run, change);
        let before = place.content();
        let sentence = place
            .run(&["bench".as_ref(), "--resume".as_ref(), path.as_os_str()])
            .refused();
        assert_eq!(place.content(), before);
        sentence
    };
    assert!(refused(|run| run.machine.kernel = "2.6.32".to_owned()).contains("kernel was 2.6.32"));
    assert!(refused(|run| run.machine.host = Some("elsewhere".to_owned())).contains("elsewhere"));
    assert!(refused(|run| run.seekless = "0.0.1".to_owned()).contains("0.0.1"));
    assert!(refused(|run| run.storages[0].file_system = "minix".to_owned()).contains("minix"));
    assert!(refused(|run| run.storages[0].path = "/nowhere/at/all".to_owned()).contains("/nowhere"));
    place.refuses("bench --resume 2001", &["is not a run"]);
    place.refuses("bench read --resume latest", &["cannot be used with"]);
}

#[test]
fn resume_of_a_given_file_takes_no_other_file() {
    let place = Place::new();
    let file = place.file("mine", &vec![7; 5 << 20]);
    let arguments = "bench read --file mine --rounds 1 --methods read/sync*";
    place.succeeds(arguments);
    let before = place.only_run();
    place.succeeds("bench --resume latest --budget 1s");
    assert!(place.only_run().trials.len() > before.trials.len());
    assert_eq!(fs::read(&file).unwrap(), vec![7; 5 << 20]);
    place.refuses("bench --resume latest --dir .", &["omit --dir"]);
    place.file("mine", &vec![7; 6 << 20]);
    place.refuses("bench --resume latest", &["the file has changed"]);
    assert_eq!(place.content().len(), 1);
}
