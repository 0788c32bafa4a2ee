//! The forms of a run: one document with all of it, a table of trials, a page.

use crate::common::place::{Place, SMALL_BENCH, assert_contains};

#[test]
fn the_exported_json_reads_back_and_is_the_saved_run() {
    let place = Place::new();
    place.bench("--export-json run.json").succeeded();
    let text = std::fs::read(place.path("run.json")).unwrap();
    let run = seekless_record::from_json(&text).unwrap();
    assert_eq!(seekless_record::to_json(&run).unwrap().as_bytes(), text);
    assert_eq!(place.saved(), [run]);
}

#[test]
fn the_exported_csv_has_a_row_for_each_trial() {
    let place = Place::new();
    place
        .bench("--cache both --methods */mmap --export-csv run.csv")
        .succeeded();
    let trials = place.saved()[0].trials.len();
    let mut csv = csv::Reader::from_path(place.path("run.csv")).unwrap();
    let names = csv.headers().unwrap().clone();
    assert!(names.iter().any(|name| name == "method") && names.iter().any(|name| name == "seconds"));
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert!(
        trials > 0 && rows.len() == trials,
        "{} rows, {trials} trials",
        rows.len()
    );
}

#[test]
fn the_exported_markdown_has_the_table_and_the_recommendation() {
    let place = Place::new();
    place.bench("--export-markdown run.md").succeeded();
    let page = std::fs::read_to_string(place.path("run.md")).unwrap();
    assert!(
        page.lines().any(|line| line.starts_with("| sync block=128K | ")),
        "{page}"
    );
    let run = place.saved().remove(0);
    let sentence = run.contests[0].conclusion.as_ref().unwrap().sentence.as_str();
    assert!(page.contains(sentence.split(':').next().unwrap()), "{page}");
}

#[test]
fn all_exports_may_be_written_at_once_and_only_they_are() {
    let place = Place::new();
    let exports = "--export-json a --export-csv b --export-markdown c";
    place.bench(exports).succeeded();
    let names: Vec<String> = place
        .content()
        .keys()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_budget_is_kept_and_a_seed_is_recorded() {
    let place = Place::new();
    let arguments = "bench --tables --notes read write copy --budget 2s --size 4M --seed 7";
    let start = std::time::Instant::now();
    let ended = place.call(arguments).succeeded();
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    assert_contains(&ended.stderr, &["Writes at most"]);
    // On a slow machine two seconds are not enough for all: then it says what is left.
    let has_copy = ended.stdout.contains("copy 4 MiB, cold") || ended.stdout.contains("not measured yet");
    assert!(
        ended.stdout.contains("read 4 MiB, cold") && has_copy,
        "{}",
        ended.stdout
    );
    assert_eq!(place.saved()[0].seed, 7);
    assert!(place.content().is_empty());
}

#[test]
fn several_storages_stand_side_by_side() {
    let place = Place::new();
    for name in ["one", "other"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let ended = place.bench("--cache cold --dir one --dir other").succeeded();
    let heads = ended.stdout.lines().find(|line| line.trim_start().starts_with("one "));
    assert!(heads.is_some_and(|line| line.contains("other")), "{}", ended.stdout);
    assert_eq!(place.saved()[0].storages.len(), 2);
}

#[test]
fn one_directory_may_be_measured_twice() {
    let place = Place::new();
    place.bench("--dir . --dir .").succeeded();
    assert!(place.content().is_empty());
}

#[test]
fn a_run_that_cannot_be_saved_is_shown_and_counts_as_failed() {
    let place = Place::new();
    place.file("occupied", b"no directory");
    let mut command = place.command();
    command.env("XDG_DATA_HOME", place.path("occupied"));
    command.args(SMALL_BENCH).arg("*/sync*");
    let ended = crate::common::place::Ended::of(command.spawn().unwrap());
    assert_eq!(ended.code, Some(2));
    assert_contains(&ended.stdout, &["1 MiB, cold"]);
    assert_contains(&ended.stderr, &["cannot save the run"]);
}
