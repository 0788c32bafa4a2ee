//! Tests of test files.

use std::fs::{self, File};

use seekless_engine::method::Durability;
use seekless_record::Differ;

use super::check::*;
use super::set::*;
use super::*;
use crate::layout::Layout;

/// A file of a set of one.
fn made(path: &Path, bytes: u64, seed: u64, role: TestFileRole) -> TestFile {
    let mut set = TestFileSet::single(bytes);
    set.role = role;
    set.create(path, seed, &|| false).unwrap().unwrap()
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').count() as u64 - 1
}

/// Fails unless a file that was made has the answers of reading it, as a whole and in blocks.
fn has_answers(made: &TestFile, bytes: u64) {
    let found = TestFile::existing(&made.path, bytes);
    let [some, all] = [20, u32::MAX].map(|at_most| Visits::draw(bytes, 12_288, at_most, 1));
    for kernel in Kernel::ALL {
        let expected = found.answer(kernel, &|| false).unwrap();
        assert_eq!(made.answer(kernel, &|| false).unwrap(), expected, "{kernel}");
        let answer = |file: &TestFile, visits| file.answer_of(kernel, visits).unwrap();
        assert_eq!(answer(made, &some), answer(&found, &some), "{kernel}");
        assert_eq!(answer(made, &all), expected, "{kernel}");
    }
}

#[test]
fn testfile_has_the_answers_of_reading_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let bytes = CHECK_BYTES as u64 + 5000;
    let made = made(&path("made"), bytes, 7, TestFileRole::Source);
    has_answers(&made, bytes);
    let mut tree = TestFileSet::single(bytes);
    tree.is_tree = true;
    let of_tree = tree.create(&path("tree/0000/00"), 7, &|| false).unwrap().unwrap();
    assert_eq!(fs::read(&made.path).unwrap(), fs::read(&of_tree.path).unwrap());
    let layout: Layout = "64K hole, 8K data, 3 x (64K hole, 4K zeros, 128K data), 64K hole"
        .parse()
        .unwrap();
    let mut set = TestFileSet::single(layout.bytes());
    set.layout = layout.clone();
    let made = set.create(&path("file"), 9, &|| false).unwrap().unwrap();
    has_answers(&made, layout.bytes());
}

#[test]
fn testfile_second_differs_in_the_given_byte_only() {
    let directory = tempfile::tempdir().unwrap();
    let first = directory.path().join("original");
    made(&first, 5000, 7, TestFileRole::Source);
    let bytes = fs::read(&first).unwrap();
    for differ in [Differ::None, Differ::First, Differ::Early, Differ::Middle, Differ::Last] {
        let path = directory.path().join(differ.name());
        let other = made(&path, 5000, 7, TestFileRole::Second(differ));
        let found = fs::read(&path).unwrap();
        let differing: Vec<usize> = (0..5000).filter(|&at| bytes[at] != found[at]).collect();
        let expected: Vec<usize> = other.difference.iter().map(|&at| at as usize).collect();
        assert_eq!(differing, expected, "{}", differ.name());
        let equal = &bytes[..expected.first().copied().unwrap_or(5000)];
        assert_eq!(other.equal_lines().unwrap(), lines_in(equal), "{}", differ.name());
    }
    for differ in [Differ::First, Differ::Early, Differ::Middle, Differ::Last] {
        assert_eq!(offset_of(differ, 1), Some(0));
    }
}

#[test]
fn testfile_update_check_finds_one_missing_or_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let bytes = CHECK_BYTES as u64 + 5000;
    made(&path, bytes, 3, TestFileRole::Source);
    // One lies across the border of two pieces.
    let places = [0, 4000, CHECK_BYTES as u64 - 2, bytes - 4];
    let updates: BTreeMap<u64, Vec<u8>> = places.iter().map(|&at| (at, vec![9, 8, 7, 6])).collect();
    let checked = || check_updated(&path, bytes, 3, &updates, TestPart::Whole).unwrap();
    assert_eq!(checked(), Err("byte 0 is wrong".to_owned()), "nothing was done");
    let file = File::options().write(true).open(&path).unwrap();
    for (at, update) in &updates {
        assert!(checked().is_err(), "before the one at {at}");
        file.write_all_at(update, *at).unwrap();
    }
    assert_eq!(checked(), Ok(bytes));
    change_byte(&path, 12_345).unwrap();
    assert_eq!(checked(), Err("byte 12345 is wrong".to_owned()));
}

#[test]
fn testfile_overwrite_check_finds_one_missing_or_too_many() {
    let directory = tempfile::tempdir().unwrap();
    // Blocks lie across the border of two pieces, and the last is short.
    let (bytes, block_bytes) = (2 * CHECK_BYTES as u64 + 5000, 12_000);
    let path = directory.path().join("file");
    let mut file = made(&path, bytes, 3, TestFileRole::Overwritten(block_bytes));
    let checked = |file: &TestFile| file.check(TestPart::Whole).unwrap();
    assert_eq!(checked(&file), Ok(bytes));
    let writer = File::options().write(true).open(&file.path).unwrap();
    for seed in [4, 5] {
        let visits = Visits::draw(bytes, block_bytes, 10, seed);
        file.written(&visits, seed);
        for range in visits.ranges() {
            assert!(checked(&file).is_err(), "before the one at {}", range.start);
            let mut block = vec![0; (range.end - range.start) as usize];
            Generator::new(seed).fill(range.start, &mut block);
            writer.write_all_at(&block, range.start).unwrap();
        }
        assert_eq!(checked(&file), Ok(bytes));
    }
    change_byte(&file.path, 12_345).unwrap();
    assert_eq!(checked(&file), Err("byte 12345 is wrong".to_owned()));
}

#[test]
fn testfile_sample_has_both_ends_and_other_pieces_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let pieces = 64;
    let bytes = pieces * CHECK_BYTES as u64 + 5;
    write_stream(Durability::Fsync, &path, bytes, 3, &|| false).unwrap();
    let checked = |part| check_updated(&path, bytes, 3, &BTreeMap::new(), part).unwrap();
    assert_eq!(checked(TestPart::Whole), Ok(bytes));
    let sampled: Vec<u64> = (0..20).map(|seed| checked(TestPart::Sample(seed)).unwrap()).collect();
    let mean = sampled.iter().sum::<u64>() / 20;
    assert!((bytes / 32..bytes / 8).contains(&mean), "{sampled:?}");
    // Whichever byte is wrong, some sample finds it; at an end, every one does.
    for (at, always) in [(0, true), (bytes / 2, false), (bytes - 1, true)] {
        change_byte(&path, at).unwrap();
        let wrong = Err(format!("byte {at} is wrong"));
        assert_eq!(checked(TestPart::Whole), wrong);
        let most = if crate::is_long() { 200 } else { 60 };
        let found = (0..most)
            .filter(|&seed| checked(TestPart::Sample(seed)) == wrong)
            .count() as u64;
        let is_right = if always {
            found == most
        } else {
            (1..most / 5).contains(&found)
        };
        assert!(is_right, "{found} at {at}");
        change_byte(&path, at).unwrap();
    }
}
