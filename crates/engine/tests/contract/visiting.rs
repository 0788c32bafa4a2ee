//! Blocks in random order: some of a file's, each once, and a time for each.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use seekless_engine::method::{AccessPattern, Durability, Operation, Preallocate};
use seekless_engine::{Error, Method, Reader, Visits, Writer};

use super::consumers::{Kept, repeated};
use super::{directories, each_method, file_of, methods, sample, with_block};

const BLOCK: u64 = 4096;
/// The last block is short.
const BYTES: usize = 100 * BLOCK as usize + 77;

/// The methods of an operation with random access, by a block of 4K.
fn at_random(operation: Operation, directory: &tempfile::TempDir) -> Vec<Method> {
    let all = methods(operation, directory.path()).into_iter();
    let random = all.filter(|method| method.options().access() == AccessPattern::Random);
    // Preallocation is for new files.
    let in_place = random.filter(|method| method.options().preallocate() == Preallocate::None);
    in_place.filter_map(|method| with_block(&method, BLOCK)).collect()
}

#[test]
fn visit_reads_each_drawn_block_once_and_timed() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(BYTES));
        let file = std::fs::File::open(&path).unwrap();
        for method in at_random(Operation::Read, &directory) {
            let mut reader = Reader::prepare_for(&method, BYTES as u64).unwrap();
            for (at_most, seed) in [(0, 1), (1, 2), (33, 3), (33, 4), (u32::MAX, 5)] {
                let visits = Visits::draw(BYTES as u64, BLOCK, at_most, seed);
                let expected = visits.ranges().map(|range| {
                    let mut bytes = vec![0; (range.end - range.start) as usize];
                    file.read_exact_at(&mut bytes, range.start).unwrap();
                    (range.start, bytes)
                });
                let expected: BTreeMap<u64, Vec<u8>> = expected.collect();
                // Twice, because earlier times are discarded.
                for _ in 0..2 {
                    let kept = Kept::default();
                    let transfer = reader.visit(&path, &visits, &kept).unwrap();
                    assert!(kept.chunks() == expected, "{method}");
                    assert_eq!(transfer.bytes, visits.bytes(), "{method}");
                    let latencies = visits.latencies_ns();
                    assert_eq!(latencies.len(), expected.len(), "{method}");
                    assert!(latencies.iter().all(|latency| (1..60_000_000_000).contains(latency)));
                }
            }
        }
    }
}

#[test]
fn visit_writes_drawn_blocks_only_and_reads_some_of_a_mix() {
    for directory in directories() {
        for method in at_random(Operation::Write, &directory) {
            let before = sample(BYTES);
            let path = file_of(&directory, "file", &before);
            let mut expected = before;
            let mut writer = Writer::prepare_for(&method, BYTES as u64).unwrap();
            for (at_most, seed) in [(0, 1_u8), (1, 2), (33, 3), (33, 4), (u32::MAX, 5)] {
                let visits = Visits::draw(BYTES as u64, BLOCK, at_most, seed.into());
                for range in visits.ranges() {
                    expected[range.start as usize..range.end as usize].fill(seed);
                }
                let transfer = writer.visit(&path, &visits, &repeated(seed)).unwrap();
                assert!(std::fs::read(&path).unwrap() == expected, "{method}");
                assert_eq!(transfer.bytes, visits.bytes(), "{method}");
                assert_eq!(visits.latencies_ns().len(), visits.ranges().count(), "{method}");
            }
            let Ok(mixed) = method.with(seekless_engine::method::Setting::reads_percent(30)) else {
                continue;
            };
            let mut expected = sample(BYTES);
            let path = file_of(&directory, "file", &expected);
            let visits = Visits::draw(BYTES as u64, BLOCK, u32::MAX, 7).mixed(30, 7);
            for range in visits.written() {
                expected[range.start as usize..range.end as usize].fill(9);
            }
            let (all, written) = (visits.ranges().count(), visits.written().count());
            assert!((15..45).contains(&(all - written)), "{written} of {all} are written");
            let visited = Writer::prepare(&mixed).unwrap().visit(&path, &visits, &repeated(9));
            let transfer = visited.unwrap();
            assert!(std::fs::read(&path).unwrap() == expected, "{mixed}");
            assert_eq!(transfer.bytes, BYTES as u64);
            let [timed, read] = [visits.latencies_ns().len(), visits.read_latencies_ns().len()];
            assert_eq!((timed, read), (written, all - written), "{mixed}");
        }
    }
}

#[test]
fn visit_appends_blocks_to_a_new_file_and_times_each() {
    for (directory, method) in each_method(Operation::Write) {
        let path = directory.path().join("appended");
        let bytes = sample(BYTES);
        let options = method.options();
        let is_timed = ["sync", "io_uring", "threads", "posix-aio"].contains(&method.mechanism().name);
        if options.access() == AccessPattern::Random || !is_timed {
            continue;
        }
        let method = with_block(&method, BLOCK).unwrap();
        let appends = Visits::appends(BYTES as u64, BLOCK);
        let mut writer = Writer::prepare_for(&method, BYTES as u64).unwrap();
        // Twice, because earlier times are discarded.
        for _ in 0..2 {
            let transfer = writer.visit(&path, &appends, &bytes.as_slice()).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes, "{method}");
            let all = (BYTES as u64, BYTES as u64);
            assert_eq!((transfer.bytes, appends.bytes()), all, "{method}");
            let blocks = BYTES.div_ceil(BLOCK as usize);
            assert_eq!(appends.latencies_ns().len(), blocks, "{method}");
            // A write and a sync each, except by a ring, which links them.
            let is_synced_by_call = options.durability() == Durability::FdatasyncEach && options.depth().is_none();
            assert!(!is_synced_by_call || transfer.calls >= 2 * blocks as u64, "{method}");
            let over = writer.visit(&path, &appends, &bytes.as_slice());
            assert!(over.is_err(), "{method} appended to a file that was there");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn visit_refuses_blocks_of_another_file_block_or_method() {
    for directory in directories() {
        let bytes = sample(BYTES);
        let path = file_of(&directory, "file", &bytes);
        let error = |read: &str, write: &str, visits: &Visits| {
            let read: Method = read.parse().unwrap();
            let write: Method = write.parse().unwrap();
            let read = Reader::prepare(&read).unwrap().visit(&path, visits, Kept::default());
            let write = Writer::prepare(&write).unwrap().visit(&path, visits, &repeated(0));
            [read.unwrap_err(), write.unwrap_err()]
        };
        let (read, write) = ("read/sync,block=4K,access=random", "write/sync,block=4K,access=random");
        for size in [BYTES as u64 - 1, BYTES as u64 + 1, 0] {
            for error in error(read, write, &Visits::draw(size, BLOCK, 10, 1)) {
                assert!(matches!(error, Error::Resized { .. }), "{error}");
            }
        }
        let fitting = Visits::draw(BYTES as u64, BLOCK, 10, 1);
        let larger = ("read/sync,block=8K,access=random", "write/sync,block=8K,access=random");
        for (read, write) in [larger, ("read/sync,block=4K", "write/sync,block=4K")] {
            assert!(error(read, write, &fitting).iter().all(Error::is_unavailable));
        }
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
