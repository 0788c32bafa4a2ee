//! The forms of a run: one document with all of it, a table of trials, a page.

use crate::common::place::{Ended, Place, SMALL_BENCH, assert_contains, words};

#[test]
fn bench_exports_write_all_forms_and_nothing_else() {
    let place = Place::new();
    place
        .bench("--cache both --methods */mmap --export-json a --export-csv b --export-markdown c")
        .succeeded();
    let names = place.content().into_keys();
    let names: Vec<_> = names.map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let [json, page] = ["a", "c"].map(|name| place.text(name));
    let run = seekless_record::from_json(json.as_bytes()).unwrap();
    assert_eq!(seekless_record::to_json(&run).unwrap(), json);
    let mut csv = csv::Reader::from_path(place.path("b")).unwrap();
    let names = csv.headers().unwrap().clone();
    assert!(
        ["method", "seconds"]
            .iter()
            .all(|wanted| names.iter().any(|name| name == *wanted))
    );
    let rows = csv.records().map(Result::unwrap).count();
    assert!(rows > 0 && rows == run.trials.len(), "{rows} rows");
    assert_contains(&page, &["\n| sync block=128K | "]);
    let sentence = run.contests[0].conclusion.as_ref().unwrap().sentence.as_str();
    assert_contains(&page, &[sentence.split(':').next().unwrap()]);
    assert_eq!(place.saved(), [run]);
}

#[test]
fn bench_keeps_its_budget_and_records_the_seed() {
    let place = Place::new();
    let arguments = "bench --tables --notes read write copy --methods */sync* --budget 2s --size 4M --seed 7";
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
fn bench_dirs_stand_side_by_side() {
    let place = Place::new();
    place.directories("one other");
    let ended = place.bench("--cache cold --dir one --dir other").succeeded();
    let heads = ended.stdout.lines().find(|line| line.trim_start().starts_with("one "));
    assert!(heads.is_some_and(|line| line.contains("other")), "{}", ended.stdout);
    assert_eq!(place.saved()[0].storages.len(), 2);
    // One directory may be measured twice.
    place.bench("--dir one --dir one").succeeded();
    let left: Vec<_> = place.content().into_keys().collect();
    assert_eq!(left, ["one", "other"].map(|name| place.path(name)));
}

#[test]
fn bench_that_cannot_save_shows_the_run_and_fails() {
    let place = Place::new();
    place.file("occupied", b"no directory");
    let mut command = place.command();
    command.env("XDG_DATA_HOME", place.path("occupied"));
    command.args(words(SMALL_BENCH)).arg("*/sync*");
    let ended = Ended::by(&mut command);
    assert_eq!(ended.code, Some(2));
    assert_contains(&ended.stdout, &["1 MiB, cold"]);
    assert_contains(&ended.stderr, &["cannot save the run"]);
}
