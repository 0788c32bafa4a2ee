//! Contests of two files: both are made and brought into their state, and a wrong verdict is detected.

use seekless_record::{Contest, Differ, EntryVerdict};

use crate::common::place::{Place, assert_contains};

/// Every place of a difference; commands that compare, and commands that always say the same.
const PAIRS: &str = r#"
name = "pairs"
about = "Who tells two files apart?"

[[contest]]
operation = "compare"
methods = ["compare/sync,block=4K", "compare/mmap,differ=linewise"]
sizes = ["300K"]
cache = ["cold", "warm"]
differ = ["none", "first", "early", "middle", "last"]

[[contest.command]]
name = "cmp"
argv = ["cmp", "{one}", "{other}"]

[[contest.command]]
name = "always equal"
argv = ["sh", "-c", "exit 0", "{one}", "{other}"]

[[contest.command]]
name = "always different"
argv = ["sh", "-c", "exit 1", "{one}", "{other}"]

[[contest.command]]
name = "failing"
argv = ["sh", "-c", "exit 2", "{one}", "{other}"]

[[contest.command]]
name = "reads what was made before"
before = ["cp", "{one}", "{target}"]
argv = ["cmp", "{target}", "{one}"]
exit-code = "success"
note = "it has a copy made"

[[contest]]
operation = "compare"
methods = ["simple-compare,identity=ignore,holes=ignore", "cmp-2012"]
sizes = ["300K"]
cache = ["warm"]
differ = ["itself"]
"#;

fn verdict<'a>(contest: &'a Contest, name: &str) -> &'a EntryVerdict {
    let entry = contest.entries.iter().find(|entry| entry.name() == name);
    &entry.unwrap_or_else(|| panic!("{name} is missing")).verdict
}

fn is_wrong(contest: &Contest, name: &str) -> bool {
    matches!(verdict(contest, name), EntryVerdict::Failed { why } if why.starts_with("wrong result"))
}

#[test]
fn bench_compare_fails_entries_with_wrong_verdicts() {
    let place = Place::new();
    let (ended, run) = place.measured(PAIRS, "--rounds 1 --drop file");
    assert_contains(&ended.stdout, &["it has a copy made"]);
    assert_eq!(run.contests.len(), 11);
    for contest in &run.contests[..10] {
        let is_equal = contest.differ == Differ::None;
        for right in ["compare/sync,block=4K", "compare/mmap,differ=linewise", "command/cmp"] {
            assert!(verdict(contest, right).is_measured(), "{right}: {contest:?}");
        }
        assert_eq!(is_wrong(contest, "command/always equal"), !is_equal);
        assert_eq!(is_wrong(contest, "command/always different"), is_equal);
        assert!(
            matches!(verdict(contest, "command/failing"), EntryVerdict::Failed { why } if why.contains("exit status: 2"))
        );
        assert!(verdict(contest, "command/reads what was made before").is_measured());
    }
    let itself = &run.contests[10];
    assert_eq!(itself.differ, Differ::Itself);
    assert_eq!(itself.entries[1].label.as_deref(), Some("cmp-2012"));
    let mut trials = run.trials.iter().filter(|trial| trial.contest == 10);
    assert!(
        trials.clone().count() >= 2 && trials.all(|trial| trial.valid),
        "{run:?}"
    );
    assert_eq!(place.content().len(), 1, "only the experiment is left");
}

#[test]
fn bench_compare_other_puts_second_files_elsewhere_and_resumes() {
    let place = Place::new();
    place.directories("there");
    let arguments = "bench --tables --notes compare --size 64K --drop file --budget 2s --other there";
    place.succeeds(arguments);
    let run = place.only_run();
    assert_eq!(run.storages.len(), 2);
    let is_on_both = |contest: &Contest| (contest.storage, contest.other_storage) == (0, Some(1));
    assert!(run.contests.iter().all(is_on_both));
    assert!(run.trials.iter().any(|trial| trial.valid));
    place.succeeds("bench --tables --notes --resume latest --budget 2s");
    let resumed = place.only_run();
    assert!(resumed.trials.len() > run.trials.len());
    assert_eq!(resumed.storages.len(), 2);
}

#[test]
fn bench_preload_2009_and_cmp_2012_run_with_small_files() {
    let place = Place::new();
    for name in ["preload-2009", "cmp-2012"] {
        let words = "--tables --notes --size 64K --drop file --rounds 1 --report page.html";
        place.succeeds(("bench", name, words));
        let page = place.text("page.html");
        assert!(page.contains("Published, and here"), "{name}");
        for run in place.saved() {
            let entries = run.contests.iter().flat_map(|contest| &contest.entries);
            let failed: Vec<_> = entries
                .filter(|entry| matches!(entry.verdict, EntryVerdict::Failed { .. }))
                .collect();
            assert!(failed.is_empty(), "{name}: {failed:?}");
        }
    }
    let labels = place.saved().into_iter().flat_map(|run| run.contests);
    let labels = labels
        .flat_map(|contest| contest.entries)
        .filter_map(|entry| entry.label);
    for program in [
        "simple-compare",
        "block-compare-with-extra-read-4k",
        "block-compare-100M",
        "cmp-2012-stdin",
    ] {
        assert!(labels.clone().any(|label| label == program), "{program}");
    }
}
