//! Many small files as one trial: what is measured, checked and remembered, and the tools that go by it.

use std::fs;

use seekless_engine::Operation;
use seekless_engine::cache;

use crate::common::disks::{resident_bytes, sync};
use crate::common::place::{Place, assert_contains, assert_lacks};

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
fn bench_scan_reads_all_files_in_a_trial_and_keeps_its_times() {
    let place = Place::new();
    let (ended, run) = place.measured(SCANS, "--rounds 3 --report run.html");
    assert_contains(&ended.stdout, &["scan 150 x 4 KiB, warm"]);
    assert_eq!(run.contests.len(), 4);
    assert!(run.trials.len() >= 4 * 3 * 2, "{} trials", run.trials.len());
    for trial in &run.trials {
        let contest = &run.contests[trial.contest];
        assert_eq!(contest.operation, Operation::Scan);
        assert_eq!(trial.bytes, 150 * contest.size_bytes);
        // Another test may drop all caches meanwhile.
        assert_lacks(trial.invalid.as_deref().unwrap_or_default(), &["wrong result"]);
        assert!(trial.calls.is_some_and(|calls| calls >= 3 * 150), "{:?}", trial.calls);
    }
    let profile = place.succeeds("profile").stdout;
    assert_contains(&profile, &["\nscan of 1,000 files, warm\n"]);
    let advice = place.succeeds("advise scan . --count 5000 --size 8K --warm").stdout;
    let title = "scan ., 5,000 files of 8.00 KiB, 100 % in the page cache\nUse      scan/";
    assert!(advice.starts_with(title), "{advice}");
    assert_contains(&advice, &["by 1 sitting on this storage"]);
    // The experiment and the report: nothing is left of the trees.
    assert_eq!(fs::read_dir(place.directory()).unwrap().count(), 2);
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
fn scan_profile_plans_dupes_cmp_cache_and_holes() {
    let place = Place::new();
    place.measured(COLD, "--rounds 1 --quiet");
    for (tree, files) in [("one", 300_u16), ("other", 300), ("few", 3)] {
        for file in 0..files {
            place.file(format!("{tree}/{file}"), &file.to_le_bytes().repeat(2048));
        }
    }
    let explained = |words: &[&str]| {
        sync(&place.directory());
        for path in ["one", "other"].map(|tree| place.path(tree)) {
            for file in 0..300 {
                cache::drop_file(path.join(file.to_string())).unwrap();
            }
        }
        place.run(words).stderr
    };
    let is_cold = || resident_bytes(&place.path("one/7")) == 0;
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
