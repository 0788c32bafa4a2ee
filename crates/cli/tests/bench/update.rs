//! Measuring methods of updating: what they wrote is checked, what was planned is shown, and a run that was changed by
//! hand ends in an error.

use std::fs;

use seekless_record::{Draw, EntryVerdict, Subject};

use crate::common::place::{Place, assert_contains};

const DRAWS: &str = r#"
name = "draws"
about = "Every draw, one by one and as planned"

[[column]]
name = "Skipping ahead"
operation = "update"
draw = "ascending"
methods = "*as-given*"

[[contest]]
operation = "update"
sizes = ["40kB"]
methods = ["update/sync,order=as-given", "update/sync,order=rewrite", "update/sync,gap=4K", "update/planned"]

[[contest]]
operation = "update"
sizes = ["40kB"]
cache = ["warm", "cold"]
updates = { draw = "shuffled" }
methods = ["update/planned,write-through", "update/mmap,fsync", "update/io_uring,fsync"]

[[contest]]
operation = "update"
sizes = ["40kB"]
updates = { bytes = 8, every = 800, draw = "repeating" }
methods = ["update/sync,order=as-given,fsync", "update/planned,fsync"]
"#;

#[test]
fn bench_update_checks_every_draw_and_shows_predictions() {
    let place = Place::new();
    let (ended, run) = place.measured(DRAWS, "--rounds 2 --export-columns columns.tsv");
    let exported = place.text("columns.tsv");
    let lines: Vec<&str> = exported.lines().collect();
    assert_eq!(
        (lines.len(), lines[1]),
        (3, "Bytes\tSkipping ahead\tExtents"),
        "{exported}"
    );
    let milliseconds = lines[2].split('\t').nth(1).map(str::parse::<f64>);
    assert!(
        lines[2].starts_with("40000\t") && milliseconds.unwrap().unwrap() > 0.0,
        "{exported}"
    );
    place.succeeds("report latest --columns again.tsv");
    assert_eq!(place.text("again.tsv"), exported);
    fs::remove_file(place.path("columns.tsv")).unwrap();
    fs::remove_file(place.path("again.tsv")).unwrap();
    assert_contains(
        &ended.stdout,
        &["4 of every 400 bytes, shuffled", "  planned: update/sync"],
    );
    for trial in &run.trials {
        let contest = &run.contests[trial.contest];
        let method = &contest.entries[trial.entry].name();
        let updated = trial
            .updated
            .as_ref()
            .unwrap_or_else(|| panic!("{method} has no account"));
        assert!(
            !trial.invalid.as_deref().unwrap_or_default().contains("wrong result"),
            "{method}"
        );
        assert_eq!(trial.bytes, contest.size_bytes * u64::from(contest.files));
        assert!(updated.written_bytes >= updated.requested_bytes, "{method}");
        assert_eq!(
            trial.planned.is_some(),
            method.starts_with("update/planned"),
            "{method}"
        );
        let has_model = ["update/sync", "update/planned"]
            .iter()
            .any(|model| method.starts_with(model));
        assert_eq!(trial.predicted_seconds.is_some(), has_model, "{method}");
        let draw = contest.updates.unwrap().draw;
        match draw {
            Draw::Ascending | Draw::Shuffled => {
                assert_eq!((contest.files, updated.requested_bytes), (2, 2 * 100 * 4), "{method}");
            }
            // Some come twice, and are asked for once.
            Draw::Repeating => assert!(updated.requested_bytes < u64::from(contest.files) * 50 * 8, "{method}"),
        }
    }
    let entries = run.contests.iter().flat_map(|contest| &contest.entries);
    for entry in entries {
        match &entry.verdict {
            verdict if verdict.is_measured() => assert!(entry.summary.is_some(), "{}", entry.name()),
            // What a machine lacks, or tmpfs.
            EntryVerdict::Unavailable { .. } => {}
            other => panic!("{}: {other:?}", entry.name()),
        }
    }
    assert!(place.content().keys().all(|path| path.ends_with("experiment.toml")));
}

#[test]
fn bench_update_fails_runs_that_were_changed_by_hand() {
    let place = Place::new();
    let (_, mut run) = place.measured(DRAWS, "--rounds 1");
    let path = fs::read_dir(place.directory().join("../data/seekless/runs")).unwrap();
    let path = path
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "json"))
        .unwrap();
    let entry = &mut run.contests[0].entries[0];
    entry.subject = Subject::Method("compare/sync".to_owned());
    entry.verdict = EntryVerdict::Unmeasured(None);
    run.trials.retain(|trial| (trial.contest, trial.entry) != (0, 0));
    fs::write(&path, seekless_record::to_json(&run).unwrap()).unwrap();
    place.succeeds("bench --resume latest --budget 5s");
    let verdict = &place.only_run().contests[0].entries[0].verdict;
    assert!(
        matches!(verdict, EntryVerdict::Failed { why } if why.contains("does not update, but its contest requires that")),
        "{verdict:?}"
    );
    // Nor does a contest say that it updates without saying what.
    run.contests[0].updates = None;
    fs::write(&path, seekless_record::to_json(&run).unwrap()).unwrap();
    place.refuses(
        &["bench", "--resume", &path.to_string_lossy()],
        &["contests[0].updates"],
    );
}
