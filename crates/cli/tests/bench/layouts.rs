//! Files with holes, and memory smaller than the file: experiments that name a layout.

use std::process::Command;

use seekless_record::{Cache, Contest, Entry, EntryVerdict, Run, Trial};

use crate::common::place::{Place, assert_contains};

const SPARSE: &str = r#"
name = "sparse"
about = "Holes beside zeros that were written"

[[contest]]
operation = "read"
methods = ["read/sync,block=64K", "read/mmap"]
kernel = "histogram"
cache = ["cold", "warm"]
layout = ["7M hole, 1M data", "7M zeros, 1M data", "dense"]
sizes = ["8M"]
"#;

const FRAGMENTED: &str = r#"
name = "fragmented"
about = "A file in many places of the device beside one in few"

[[contest]]
operation = "read"
methods = ["read/sync,block=64K"]
kernel = "histogram"
layout = ["fragmented", "dense"]
sizes = ["1000001"]
"#;

#[test]
fn layout_fragmented_has_many_extents_or_is_unavailable() {
    let place = Place::new();
    let (ended, run) = place.measured(FRAGMENTED, "--rounds 2");
    let (dense, of_dense) = contest(&run, None, Cache::Cold);
    let (fragmented, of_fragmented) = contest(&run, Some("fragmented"), Cache::Cold);
    if let EntryVerdict::Unavailable { why } = &fragmented.entries[0].verdict {
        println!("skipped: {why}");
        return;
    }
    assert_contains(&ended.stdout, &["cold, fragmented"]);
    assert_eq!(fragmented.size_bytes, dense.size_bytes);
    assert_eq!(fragmented.files, dense.files);
    assert!(of_fragmented.iter().all(|trial| trial.valid), "{of_fragmented:?}");
    let extents = |trials: &[&Trial]| trials[0].extents.expect("the file system tells");
    assert!(extents(&of_fragmented) >= 16 && extents(&of_dense) <= 8);
    place.succeeds("bench --tables --notes --like latest --rounds 1");
}

fn contest<'a>(run: &'a Run, layout: Option<&str>, cache: Cache) -> (&'a Contest, Vec<&'a Trial>) {
    let is_meant = |contest: &&Contest| contest.layout.as_deref() == layout && contest.cache == cache;
    let index = run.contests.iter().position(|contest| is_meant(&contest)).unwrap();
    let trials = run.trials.iter().filter(|trial| trial.contest == index);
    (&run.contests[index], trials.collect())
}

/// Those that are valid. Of the others, the system took pages from the cache between reading the file and the trial.
fn valid<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a Trial> {
    let (valid, others): (Vec<&Trial>, Vec<_>) = trials.into_iter().partition(|trial| trial.valid);
    for trial in &others {
        let reason = trial.invalid.as_deref().unwrap_or_default();
        assert_contains(reason, &["so it was not warm"]);
    }
    assert!(valid.len() >= others.len(), "{others:?}");
    valid
}

#[test]
fn layout_holes_are_cached_and_come_from_no_device() {
    let place = Place::new();
    let (ended, run) = place.measured(SPARSE, "--rounds 2 --export-csv run.csv --export-markdown run.md");
    assert_contains(&ended.stdout, &["read 8 MiB, cold, 7M hole, 1M data"]);
    assert_eq!(run.contests.len(), 6);
    let in_memory = run.storages[0].file_system == "tmpfs";
    for layout in [Some("7M hole, 1M data"), Some("7M zeros, 1M data"), None] {
        let (warm, trials) = contest(&run, layout, Cache::Warm);
        assert_eq!(warm.size_bytes, 8 << 20);
        assert!(trials.len() > 4, "2 rounds of each, and the winners again");
        for trial in valid(trials) {
            let held = trial.resident_before.unwrap_or(1.0);
            assert!(held > 0.99 || in_memory, "{held}: pages of holes are cached as well");
        }
    }
    // If nothing is cold, the tests' directory is in memory.
    let (cold, trials) = contest(&run, Some("7M hole, 1M data"), Cache::Cold);
    for trial in trials {
        assert!(trial.valid, "{:?}", trial.invalid);
        if let Some(read) = trial.source_bytes.filter(|_| cold.entries[0].verdict.is_measured()) {
            assert!((1 << 20..3 << 20).contains(&read), "{read} bytes for one megabyte");
            // What was a hole is in memory now.
            assert!(trial.resident_after.unwrap_or(1.0) > 0.9, "{trial:?}");
        }
    }
    assert_contains(&place.text("run.csv"), &["\"7M hole, 1M data\""]);
    assert_contains(&place.text("run.md"), &["## read 8 MiB, warm, 7M hole, 1M data"]);
}

#[test]
fn layout_ranks_methods_that_skip_holes_apart() {
    let place = Place::new();
    let skipping = SPARSE.replace(
        "\"read/mmap\"",
        "\"read/mmap,holes=skip\", \"read/sync,block=64K,holes=skip\"",
    );
    let (ended, run) = place.measured(&skipping, "--rounds 2 --cache warm --export-csv run.csv");
    assert_contains(&ended.stdout, &["7M hole, 1M data, holes skipped"]);
    let (_, apart) = ended.stdout.split_once("holes skipped").expect("its table");
    let table: Vec<&str> = apart.lines().skip(1).take(2).collect();
    let skips = |row: &&str| row.contains("holes=skip") && !row.contains("B/s");
    assert!(table.iter().all(skips), "{table:?}");
    for (index, contest) in run.contests.iter().enumerate() {
        let is_sparse = contest.layout.as_deref() == Some("7M hole, 1M data");
        assert!(is_sparse || !contest.holes_skipped, "{contest:?}");
        for entry in &contest.entries {
            let skips = entry.name().contains("holes=skip");
            let is_elsewhere =
                matches!(&entry.verdict, EntryVerdict::Unavailable { why } if why.contains("ranked apart"));
            assert_eq!(is_elsewhere, is_sparse && skips && !contest.holes_skipped, "{entry:?}");
        }
        for trial in valid(run.trials.iter().filter(|trial| trial.contest == index)) {
            let skipped = if contest.holes_skipped { 7 << 20 } else { 0 };
            assert_eq!((trial.bytes, trial.hole_bytes), (8 << 20, Some(skipped)));
        }
    }
    let apart = run.contests.iter().find(|contest| contest.holes_skipped).unwrap();
    assert_eq!(apart.entries.len(), 2);
    assert_eq!(apart.mode, run.contests[0].mode, "the same bytes, found in another way");
    assert!(apart.entries.iter().all(|entry| entry.summary.is_some()));
    let csv = place.text("run.csv");
    assert_contains(&csv, &["holes_skipped", "hole_bytes"]);
}

#[test]
fn layout_and_memory_scale_with_the_size() {
    let place = Place::new();
    let over = SPARSE
        .replace("cache = [\"cold\", \"warm\"]", "cache = [\"over\"]\nmemory = \"512M\"")
        .replace("\"7M zeros, 1M data\", \"dense\"", "\"dense\"")
        .replace("7M hole, 1M data", "1023M hole, 1M data")
        .replace("sizes = [\"8M\"]", "sizes = [\"1G\"]");
    place.file("over.toml", over.as_bytes());
    let bench = "bench --tables --notes over.toml --rounds 1 --size";
    let small = place.run((bench, "16M")).refused();
    let too_small = "the files (16M) do not exceed the memory allowed (32M)";
    if !small.contains(too_small) {
        println!("skipped: {small}");
        return;
    }
    let ended = place.succeeds((bench, "96M"));
    let run = place.only_run();
    let sparse = run.contests.iter().find(|contest| contest.layout.is_some()).unwrap();
    assert_eq!(sparse.layout.as_deref(), Some("98208K hole, 96K data"));
    assert_eq!((sparse.size_bytes, sparse.memory_bytes), (96 << 20, Some(48 << 20)));
    let is_lacking = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Unavailable { .. });
    if sparse.entries.iter().any(is_lacking) {
        println!("skipped: {}", ended.stdout);
        return;
    }
    for trial in &run.trials {
        assert!(trial.valid, "{:?}", trial.invalid);
        let held = trial.resident_before.unwrap_or(0.0);
        assert!(held <= 0.5, "{held} of the file was in half of its size");
    }
}

#[test]
fn layout_sparse_on_tmpfs_is_never_cold() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: there is no /dev/shm");
        return;
    };
    let name = Command::new("stat")
        .args(["-f", "-c", "%T"])
        .arg(directory.path())
        .output();
    if name.is_ok_and(|name| name.stdout != b"tmpfs\n") {
        println!("skipped: /dev/shm is no tmpfs");
        return;
    }
    let place = Place::new();
    let over = SPARSE.replace("\"cold\", ", "\"cold\", \"over\", ");
    let (_, run) = place.measured(&over, ("--rounds 1 --dir", &[directory.path()]));
    let (cold, trials) = contest(&run, Some("7M hole, 1M data"), Cache::Cold);
    assert!(trials.is_empty());
    let (over, _) = contest(&run, Some("7M hole, 1M data"), Cache::Over);
    for (contest, reason) in [(cold, "so nothing is cold"), (over, "no file exceeds")] {
        let is_said =
            |entry: &Entry| matches!(&entry.verdict, EntryVerdict::Unavailable { why } if why.contains(reason));
        assert!(contest.entries.iter().all(is_said), "{:?}", contest.entries);
    }
    let (_, trials) = contest(&run, Some("7M hole, 1M data"), Cache::Warm);
    assert!(!trials.is_empty() && trials.iter().all(|trial| trial.valid));
}
