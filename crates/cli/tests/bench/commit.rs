//! `bench commit`: each append is durable by the call that its method names, timed, and checked.

use seekless_engine::method::Durability;
use seekless_record::Target;

use crate::common::place::{Place, assert_contains};

#[test]
fn bench_commit_ranks_appends_by_block_and_number_of_writers() {
    let place = Place::new();
    let ended = place.succeeds("bench --tables --notes commit --size 256K --rounds 1");
    let title = "write 64 appends, each durable, 4 KiB by 4 writers";
    assert_contains(&ended.stdout, &[title]);
    assert_contains(
        &ended.stdout,
        &[
            "commits/s",
            "p99.9",
            "sync fdatasync-each",
            "sync write-through",
            "threads=4 write-through",
        ],
    );
    let run = place.only_run();
    let kinds = run.contests.iter().filter_map(|contest| contest.random);
    let kinds: Vec<_> = kinds
        .map(|random| (random.block_bytes >> 10, random.depth, random.requests))
        .collect();
    assert_eq!(
        kinds,
        [(4, 1, 64), (4, 4, 64), (16, 1, 16), (16, 4, 16), (64, 1, 4), (64, 4, 4)]
    );
    for contest in &run.contests {
        assert_eq!(contest.target, Target::Append);
        assert_eq!(contest.durability, Durability::WriteThrough);
        let entries = if contest.random.unwrap().depth == 1 { 8 } else { 6 };
        assert_eq!(contest.entries.len(), entries);
    }
    assert!(run.trials.len() >= 30, "{}", run.trials.len());
    for trial in &run.trials {
        let appends = run.contests[trial.contest].random.unwrap();
        assert!(trial.valid, "{:?}", trial.invalid);
        assert_eq!(trial.latency.unwrap().requests, u64::from(appends.requests));
        assert_eq!((trial.bytes, trial.checked_bytes), (256 << 10, Some(256 << 10)));
    }
    let again = place.succeeds("bench --tables --notes --like latest --rounds 1");
    assert_contains(&again.stdout, &[title]);
}

#[test]
fn bench_commit_says_that_large_blocks_are_few() {
    let place = Place::new();
    let words =
        "bench commit --block 64M --methods write/sync,block=64M,write-through --notes --budget 5s --most-written 2G";
    let ended = place.succeeds(words);
    let run = place.only_run();
    let appends: Vec<_> = run.contests.iter().filter_map(|contest| contest.random).collect();
    assert!(appends.iter().all(|appends| appends.requests == 1), "{appends:?}");
    let choice = "128 to 8,192; of large blocks, fewer: at most 128 MiB in a trial";
    assert_contains(&run.choices.concat(), &[choice]);
    assert_contains(&ended.stderr, &["Writes at most"]);
}
