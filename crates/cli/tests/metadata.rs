//! What is cold of small files if root measures. This drops all caches of the system, so it is a program of its own:
//! tests that run at the same time would find theirs empty.

mod common;

use common::place::{Place, is_root};

/// Root drops the metadata of small files with all caches of the system. Afterwards it has to come from the device, too.
#[test]
fn bench_cold_metadata_of_small_files_is_cold_for_root() {
    let bytes_read = |drop: &str| {
        let place = Place::new();
        let small = "bench read --size 4K --cache cold --rounds 5 --methods read/sync,block=16K";
        place.succeeds((small, drop));
        let run = place.only_run();
        let valid = run.trials.iter().filter(|trial| trial.valid);
        // The device counts what other processes read, too, so the least is nearest to what the trial read.
        let bytes = valid.filter_map(|trial| trial.source_bytes).min();
        let is_told = run.warnings.iter().any(|warning| warning.contains("Root can drop it"));
        (run.contests[0].cold_metadata, is_told, bytes.unwrap_or(0))
    };
    let (cold, is_told, data) = bytes_read("--drop file");
    assert_eq!((cold, is_told), (false, true));
    if !is_root() {
        return;
    }
    let (cold, is_told, all) = bytes_read("");
    assert_eq!((cold, is_told), (true, false));
    assert!(all > data, "{data} bytes of data, {all} with the metadata");
}

const COUNTED: &str = r#"
name = "counted"
about = "How often is a command run?"

[[contest]]
operation = "read"
files = 20
sizes = ["1M"]
cache = ["warm", "cold"]

[[contest.command]]
name = "one"
argv = ["sh", "-c", 'echo >> runs', "{tree}"]

[[contest.command]]
name = "other"
argv = ["sh", "-c", 'echo >> runs', "{tree}"]
"#;

/// Dropping all caches drops the programs, too. They are read again before a warm trial of them is timed.
#[test]
fn bench_runs_dropped_programs_untimed_before_warm_trials() {
    let place = Place::new();
    place.file("counted.toml", COUNTED.as_bytes());
    place.succeeds("bench counted.toml --rounds 3");
    let run = place.only_run();
    let runs = place.text("runs").lines().count();
    let (mut in_memory, mut untimed) = (vec![0, 1], 0);
    for trial in &run.trials {
        if run.contests[trial.contest].cold_metadata {
            in_memory.clear();
        } else if !in_memory.contains(&trial.entry) {
            untimed += 1;
        }
        in_memory.push(trial.entry);
    }
    assert_eq!(runs, run.trials.len() + untimed);
    assert_eq!(untimed > 0, is_root(), "only root drops all caches");
}
