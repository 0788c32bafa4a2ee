//! Blocks read and written at random: requests are timed one by one, and the result of each trial is checked.

use seekless_record::{RandomAccess, Run};

use crate::common::place::{Place, assert_contains};

const RANDOM: &str = r#"
name = "scattered"
about = "Beside each other: blocks in order, and at random at two depths"

[[contest]]
operation = "read"
sizes = ["5M"]
methods = [
    "read/sync,block=4K",
    "read/sync,block=4K,access=random",
    "read/sync,direct,block=4K,access=random",
    "read/posix-aio,block=4K,access=random",
    "read/io_uring,depth=8,block=4K,access=random",
]

[[contest]]
operation = "write"
target = "overwrite"
sizes = ["5M"]
methods = [
    "write/sync,block=4K,access=random",
    "write/posix-aio,block=4K,access=random,fsync",
    "write/io_uring,depth=1,block=4K,access=random,fsync",
]
"#;

/// For each contest that has trials: its mechanisms, and the requests and bytes of each trial.
fn trials(run: &Run, contest: usize) -> impl Iterator<Item = &seekless_record::Trial> {
    run.trials.iter().filter(move |trial| trial.contest == contest)
}

#[test]
fn bench_random_access_is_ranked_apart_timed_and_checked() {
    let place = Place::new();
    let (ended, run) = place.measured(RANDOM, "--rounds 4 --report run.html");
    let title = "4 KiB at random, depth 1";
    assert_contains(&ended.stdout, &[title, "p99.9", "IOPS"]);
    let kinds: Vec<_> = run
        .contests
        .iter()
        .map(|contest| contest.random.map(|random| random.depth))
        .collect();
    assert_eq!(
        kinds,
        [None, Some(1), Some(8), Some(1), Some(1)],
        "durability is another reason"
    );
    for (index, contest) in run.contests.iter().enumerate() {
        for trial in trials(&run, index) {
            assert!(trial.valid, "{:?}", trial.invalid);
            let Some(RandomAccess {
                block_bytes, requests, ..
            }) = contest.random
            else {
                assert_eq!((trial.latency, trial.bytes), (None, 5 << 20));
                continue;
            };
            let requests = u64::from(requests).min((5 << 20) / block_bytes);
            let latency = trial.latency.expect("its requests were timed");
            assert_eq!((latency.requests, trial.bytes), (requests, requests * block_bytes));
            let ascending = latency.percentiles().map(|(_, ns)| ns);
            assert!(ascending.is_sorted() && ascending[0] > 0, "{latency:?}");
            let is_checked_wholly = trial.round < 3 && contest.operation == seekless_engine::Operation::Write;
            assert!(!is_checked_wholly || trial.checked_bytes == Some(5 << 20));
        }
        let summaries = contest.entries.iter().filter_map(|entry| entry.summary.as_ref());
        for summary in summaries {
            assert_eq!(summary.latency.is_some(), contest.random.is_some());
            assert!(summary.p90_seconds >= Some(summary.seconds.median));
        }
    }
    let report = place.text("run.html");
    assert!(report.contains("Latency of requests: read 5 MiB"));
    let again = place.succeeds("bench --tables --notes --like latest --rounds 1");
    assert_contains(&again.stdout, &["4 KiB at random, depth 8"]);
}

#[test]
fn bench_random_access_of_a_given_file_is_checked() {
    let place = Place::new();
    let (reads, _) = RANDOM.split_once("[[contest]]\noperation = \"write\"").unwrap();
    let bytes = (0..3 << 20).map(|at: u32| (at.wrapping_mul(at) >> 7) as u8);
    place.file("given", &bytes.collect::<Vec<u8>>());
    let (_, run) = place.measured(reads, "--file given --rounds 1");
    let random = run.trials.iter().filter(|trial| trial.latency.is_some());
    assert!(random.clone().count() >= 3 && random.clone().all(|trial| trial.valid));
}

#[test]
fn bench_random_options_replace_those_of_the_experiment() {
    let place = Place::new();
    let bench = "bench --tables --notes random --size 4M --rounds 1 --block 8K --depth 4 --threads 4";
    let ended = place.succeeds(&format!("{bench} --mix 70/30"));
    assert_contains(
        &ended.stdout,
        &[
            "8 KiB at random, 70 % reads, depth 4",
            "read p50",
            "write p99.9",
            "threads=4",
            "io_uring",
        ],
    );
    let run = place.only_run();
    let mut mixes = run.contests.iter().map(|contest| contest.random.unwrap());
    assert!(mixes.all(|mix| mix.reads_percent == 70));
    assert!(!run.trials.is_empty());
    for trial in &run.trials {
        assert!(trial.valid, "{:?}", trial.invalid);
        let (reads, writes) = (trial.read_latency.unwrap().requests, trial.latency.unwrap().requests);
        assert!(
            reads + writes == 512 && (300..420).contains(&reads),
            "{reads} reads, {writes} writes"
        );
    }
}
