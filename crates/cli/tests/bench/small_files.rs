//! Many small files as one trial: what is measured, checked and remembered, and the tools that go by it.

use std::fs;

use seekless::Operation;
use seekless::cache::CachedFile;

use crate::common::place::{Place, assert_contains};

const SCANS: &str = r#"
name = "small"
about = "Many small files"

[[contest]]
operation = "scan"
sizes = ["4K", "20K"]
files = 150
cache = ["cold", "warm"]
methods = ["scan/sync", "scan/sync,threads=3", "scan/io_uring,threads=2", "scan/planned"]
"#;

#[test]
fn a_scan_reads_all_files_in_one_trial_and_its_times_are_kept_for_the_storage() {
    let place = Place::new();
    place.file("small.toml", SCANS.as_bytes());
    let ended = place
        .run("bench --tables small.toml --rounds 3 --report run.html")
        .succeeded();
    assert_contains(&ended.stdout, &["scan 150 x 4 KiB, warm"]);
    let run = place.only_run();
    assert_eq!(run.contests.len(), 4);
    assert!(run.trials.len() >= 4 * 3 * 2, "{} trials", run.trials.len());
    for trial in &run.trials {
        let contest = &run.contests[trial.contest];
        assert_eq!(contest.operation, Operation::Scan);
        assert_eq!(trial.bytes, 150 * contest.size_bytes);
        // Another test may drop all caches meanwhile.
        let is_wrong = trial
            .invalid
            .as_ref()
            .is_some_and(|why| why.starts_with("wrong result"));
        assert!(!is_wrong, "{:?}", trial.invalid);
        assert!(trial.calls.is_some_and(|calls| calls >= 3 * 150), "{:?}", trial.calls);
    }
    let profile = place.run("profile").succeeded().stdout;
    assert_contains(&profile, &["\nscan of 1,000 files, warm\n"]);
    let advice = place
        .run("advise scan . --count 5000 --size 8K --warm")
        .succeeded()
        .stdout;
    assert!(
        advice.starts_with("scan ., 5,000 files of 8.00 KiB, 100 % in the page cache\nUse      scan/")
            && advice.contains("by 1 sitting on this storage"),
        "{advice}"
    );
    // Nothing is left of the trees.
    assert_eq!(
        fs::read_dir(place.path(".")).unwrap().count(),
        2,
        "the experiment and the report"
    );
}

const COLD: &str = r#"
name = "cold"
about = "Two numbers of threads, neither of which is the usual one"

[[contest]]
operation = "scan"
sizes = ["4K", "16K"]
methods = ["scan/sync,threads=3", "scan/sync,threads=5"]
"#;

#[test]
fn tools_read_small_files_as_was_measured_on_their_storage() {
    let place = Place::new();
    place.file("cold.toml", COLD.as_bytes());
    place.run("bench cold.toml --rounds 1 --quiet").succeeded();
    for (tree, files) in [("one", 300_u16), ("other", 300), ("few", 3)] {
        fs::create_dir(place.path(tree)).unwrap();
        for file in 0..files {
            place.file(format!("{tree}/{file}"), &file.to_le_bytes().repeat(2048));
        }
    }
    let explained = |words: &[&str]| {
        seekless_sys::sync_file_system(&fs::File::open(place.directory()).unwrap()).unwrap();
        for path in ["one", "other"].map(|tree| place.path(tree)) {
            for file in 0..300 {
                let file = CachedFile::open(path.join(file.to_string())).unwrap();
                file.drop_pages().unwrap();
            }
        }
        place.run(words).stderr
    };
    let is_cold = || {
        CachedFile::open(place.path("one/7"))
            .unwrap()
            .resident()
            .unwrap()
            .part()
            == Some(0.0)
    };
    explained(&["--version"]);
    if place.run("profile").code != Some(0) || !is_cold() {
        println!("skipped: nothing is cold here, or the read-ahead window was changed meanwhile");
        return;
    }
    for words in [
        &["dupes", "--explain", "one", "other"][..],
        &["cmp", "-r", "--explain", "one", "other"],
        &["cache", "warm", "--explain", "one"],
        &["holes", "dig", "-r", "--dry-run", "--explain", "one"],
    ] {
        let by_profile = explained(words);
        let is_by_profile = ["scan/sync,threads=3", "scan/sync,threads=5"].iter().any(|method| {
            by_profile.contains(&format!(
                "small files outside the page cache: {method},block=16K, by 1 sitting on this storage"
            ))
        });
        assert!(is_by_profile, "{words:?}: {by_profile}");
        let without = explained(&[words, &["--no-profile"]].concat());
        assert!(!without.contains("sitting"), "{words:?}: {without}");
    }
    let threads = explained(&["dupes", "--explain", "one", "other"]);
    assert!(
        threads.contains("; 3 threads read") || threads.contains("; 5 threads read"),
        "{threads}"
    );
    let few = explained(&["cmp", "-r", "--explain", "few", "few"]);
    assert!(!few.contains("sitting"), "a handful is not asked about: {few}");
}
