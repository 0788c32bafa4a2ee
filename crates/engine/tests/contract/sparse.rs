//! Files with holes: with `holes=skip`, every mechanism reads what std reads, and a copy has the holes of its source.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use seekless_engine::method::{CachePolicy, MECHANISMS, Operation, Setting};
use seekless_engine::{Chunk, Copier, Destination, Error, Method, Reader, sequential};
use seekless_sys as sys;
use tempfile::TempDir;

use super::consumers::{ForEach, Kept, in_order};
use super::marks::Marks;
use super::pairs::is_long;
use super::{available, directories, of_these, sample, with_block};

/// The methods that skip holes, with each cache policy, and with an odd and an even block.
fn skipping(operation: Operation, directory: &Path) -> Vec<Method> {
    let mechanisms = MECHANISMS.iter().filter(|mechanism| mechanism.operation == operation);
    let plain = mechanisms.map(Method::plain);
    let by_cache = plain.flat_map(|method| {
        CachePolicy::ALL
            .iter()
            .filter_map(move |&cache| method.with(cache).ok()?.with(Setting::holes_skipped(true)).ok())
    });
    let in_blocks = |method: Method| [8 << 10, 64 << 10].map(|block| with_block(&method, block).unwrap_or(method));
    let mut found: Vec<_> = available(directory, by_cache).into_iter().flat_map(in_blocks).collect();
    found.dedup();
    if found.is_empty() {
        println!("skipped: no holes in {}", directory.display());
    }
    found
}

/// The pieces of a file, in order: this many bytes of data, of a hole, or of blocks reserved and never written.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Data(u64),
    Hole(u64),
    Reserved(u64),
}

fn layouts() -> impl Strategy<Value = Vec<Piece>> {
    let blocks = |most: u64| (0..most).prop_map(|blocks| blocks * 4096);
    let odd = 1..20_000_u64;
    let bytes = prop_oneof![blocks(40), odd];
    let piece = (0..5, bytes).prop_map(|(kind, bytes)| match kind {
        0 | 1 => Piece::Data(bytes),
        2 | 3 => Piece::Hole(bytes),
        _ => Piece::Reserved(bytes),
    });
    proptest::collection::vec(piece, 0..9)
}

/// Makes the file, with its data dirty or on the device. Returns its bytes.
fn make(path: &Path, layout: &[Piece], is_synced: bool) -> Vec<u8> {
    let file = File::create(path).unwrap();
    let mut bytes = Vec::new();
    for &piece in layout {
        let at = bytes.len() as u64;
        match piece {
            Piece::Data(length) => {
                bytes.extend(sample(length as usize).iter().map(|&byte| byte | 1));
                file.write_all_at(&bytes[at as usize..], at).unwrap();
            }
            Piece::Hole(length) | Piece::Reserved(length) => bytes.resize((at + length) as usize, 0),
        }
        file.set_len(bytes.len() as u64).unwrap();
        if let Piece::Reserved(length @ 1..) = piece {
            // If the file system can; the holes before it are reserved as well.
            let _ = sys::allocate(&file, 0, at + length);
        }
    }
    if is_synced {
        file.sync_all().unwrap();
    }
    bytes
}

/// Bytes outside the data that the file system reports.
fn told_hole_bytes(path: &Path) -> u64 {
    let (file, mut at, mut holes) = (File::open(path).unwrap(), 0, 0);
    let bytes = file.metadata().unwrap().len();
    while at < bytes {
        let data = sys::next_data(&file, at).unwrap().available().unwrap().unwrap_or(bytes);
        holes += data.min(bytes) - at;
        at = sys::next_hole(&file, data).unwrap().available().unwrap();
    }
    holes
}

fn paths(directory: &TempDir) -> (PathBuf, PathBuf) {
    (directory.path().join("source"), directory.path().join("target"))
}

#[test]
fn read_of_holes_is_what_std_reads_by_every_method() {
    for directory in directories() {
        let (path, _) = paths(&directory);
        let methods = skipping(Operation::Read, directory.path());
        let run = |layout: Vec<Piece>, is_synced: bool| {
            let expected = make(&path, &layout, is_synced);
            assert!(std::fs::read(&path).unwrap() == expected);
            for method in &methods {
                let kept = Kept::default();
                let holes_before = told_hole_bytes(&path);
                let mut reader = Reader::prepare_for(method, expected.len() as u64).unwrap();
                let transfer = reader.read(&path, &kept).unwrap();
                prop_assert!(kept.bytes() == expected, "{method}");
                prop_assert_eq!(transfer.bytes, expected.len() as u64);
                // Direct I/O writes back dirty data, after which the file system may report more or fewer holes.
                if method.options().cache() == CachePolicy::Cached {
                    prop_assert_eq!(transfer.hole_bytes, holes_before, "{}", method);
                }
            }
            Ok(())
        };
        let mut runner = TestRunner::new(ProptestConfig::with_cases(24));
        runner.run(&(layouts(), any::<bool>()), |(l, s)| run(l, s)).unwrap();
    }
}

#[test]
fn copy_of_holes_keeps_bytes_and_holes_by_every_method() {
    for directory in directories() {
        let (source, target) = paths(&directory);
        let methods = skipping(Operation::Copy, directory.path());
        let run = |layout: Vec<Piece>, before: Option<u64>, is_synced: bool| {
            let expected = make(&source, &layout, is_synced);
            for method in &methods {
                let _ = std::fs::remove_file(&target);
                let destination = match before {
                    None => Destination::New,
                    Some(bytes) => {
                        std::fs::write(&target, vec![0xbb; bytes as usize]).unwrap();
                        Destination::Overwrite
                    }
                };
                let mut copier = Copier::prepare_for(method, expected.len() as u64).unwrap();
                let transfer = copier.copy(&source, &target, destination).unwrap();
                prop_assert!(std::fs::read(&target).unwrap() == expected, "{method} {destination:?}");
                prop_assert_eq!(transfer.bytes, expected.len() as u64);
                File::open(&target).unwrap().sync_all().unwrap();
                prop_assert!(
                    told_hole_bytes(&target) >= transfer.hole_bytes,
                    "{} {:?}: {} bytes of holes were skipped, {} are in the copy",
                    method,
                    destination,
                    transfer.hole_bytes,
                    told_hole_bytes(&target)
                );
            }
            Ok(())
        };
        let mut runner = TestRunner::new(ProptestConfig::with_cases(16));
        let inputs = (layouts(), proptest::option::of(0..300_000_u64), any::<bool>());
        runner.run(&inputs, |(l, b, s)| run(l, b, s)).unwrap();
    }
}

#[test]
fn sparse_large_file_is_read_and_copied_without_its_holes() {
    const BYTES: u64 = 1 << 36;
    for directory in directories() {
        let (source, target) = paths(&directory);
        let file = File::create(&source).unwrap();
        file.set_len(BYTES).unwrap();
        for block in 0..50 {
            file.write_all_at(&[0xff; 4096], block * (BYTES / 50) / 4096 * 4096)
                .unwrap();
        }
        file.sync_all().unwrap();
        for method in skipping(Operation::Read, directory.path()) {
            let marks = Marks::default();
            let transfer = Reader::prepare(&method).unwrap().read(&source, &marks).unwrap();
            assert_eq!(marks.found(), (50 * 4096, BYTES), "{method}");
            assert!(BYTES - transfer.hole_bytes < 50 << 20, "{method}: {transfer:?}");
        }
        let blocks = |path: &Path| std::fs::metadata(path).unwrap().blocks();
        for method in skipping(Operation::Copy, directory.path()) {
            let mut copier = Copier::prepare(&method).unwrap();
            copier.copy(&source, &target, Destination::New).unwrap();
            File::open(&target).unwrap().sync_all().unwrap();
            // A little for the file system's metadata.
            assert!(blocks(&target) <= blocks(&source) * 11 / 10 + 64, "{method}");
            std::fs::remove_file(&target).unwrap();
        }
    }
}

#[test]
fn sparse_read_has_dirty_data_and_no_reserved_blocks() {
    for directory in directories() {
        let (path, _) = paths(&directory);
        for method in skipping(Operation::Read, directory.path()) {
            let mut expected = make(&path, &[Piece::Reserved(1 << 20), Piece::Hole(1 << 20)], true);
            let file = File::options().write(true).open(&path).unwrap();
            for at in [300_000, 1_500_000] {
                file.write_all_at(b"waiting", at).unwrap();
                expected[at as usize..at as usize + 7].copy_from_slice(b"waiting");
            }
            let kept = Kept::default();
            let mut reader = Reader::prepare_for(&method, 2 << 20).unwrap();
            let transfer = reader.read(&path, &kept).unwrap();
            assert!(kept.bytes() == expected, "{method}");
            assert!(transfer.hole_bytes > 0, "{method}: {transfer:?}");
            make(&path, &[Piece::Data(70_000), Piece::Hole(1 << 20)], true);
            let consumer = ForEach(|data: Option<Chunk<'_>>| {
                if data.is_none() {
                    let file = File::options().write(true).open(&path).unwrap();
                    file.set_len(500_000).unwrap();
                }
                ControlFlow::Continue(())
            });
            let read = Reader::prepare_for(&method, 2 << 20).unwrap().read(&path, &consumer);
            assert!(matches!(read, Err(Error::Resized { .. })), "{method}: {read:?}");
        }
    }
}

#[test]
fn sparse_read_in_order_has_holes_in_order_and_may_end_there() {
    for directory in directories() {
        let (path, _) = paths(&directory);
        let layout = [
            Piece::Data(70_000),
            Piece::Hole(1 << 20),
            Piece::Data(5000),
            Piece::Hole(300_000),
        ];
        let expected = make(&path, &layout, true);
        for method in skipping(Operation::Read, directory.path()) {
            if method.mechanism().name == "threads" {
                continue;
            }
            let mut reader = Reader::prepare_for(&method, 2 << 20).unwrap();
            let mut kept = Vec::new();
            reader.read(&path, sequential(in_order(&mut kept))).unwrap();
            assert!(kept == expected, "{method}");
            let mut seen = 0;
            let consumer = sequential(|offset, bytes| {
                seen = offset + bytes.len() as u64;
                if seen > 500_000 {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            assert!(reader.read(&path, &consumer).unwrap().stopped, "{method}");
            assert!(seen < 600_000, "{method} went on to {seen}");
        }
    }
}

/// The variable by which the test below tells its child what to do, in words separated by tabs.
const CHILD: &str = "SEEKLESS_TEST_COPY";
const KILLED: &str = "copy/sync,block=4K,write-through,holes=skip copy/mmap,block=64K,holes=skip \
    copy/io_uring,depth=4,block=4K,write-through,holes=skip";

/// Not a test of its own, but the child of the test below.
#[test]
fn child_that_copies() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = words.split('\t').collect();
    let [method, source, target] = words.as_slice() else {
        panic!("{words:?}")
    };
    seekless_engine::allow_mapping().unwrap();
    let mut copier = Copier::prepare(&method.parse().unwrap()).unwrap();
    copier
        .copy(Path::new(source), Path::new(target), Destination::Overwrite)
        .unwrap();
}

/// Kills that must come in the middle of a copy by each method, and how often that is tried.
const KILLS_LONG: u32 = 3;
const ATTEMPTS: u32 = 60;

#[test]
fn copy_that_is_killed_leaves_old_or_source_bytes() {
    const PIECE_BYTES: usize = 64 << 10;
    let pieces = [Piece::Data(PIECE_BYTES as u64), Piece::Hole(PIECE_BYTES as u64)];
    let layout = pieces.repeat(64);
    let most = if is_long() { KILLS_LONG } else { 1 };
    for directory in directories() {
        let (source, target) = paths(&directory);
        let expected = make(&source, &layout, true);
        for method in of_these(KILLED, directory.path()) {
            let mut kills = 0;
            for attempt in 0..ATTEMPTS {
                let wait = Duration::from_millis(u64::from(attempt % 5));
                let is_whole = copied_and_killed(method, [&source, &target], expected.len(), wait);
                let found = std::fs::read(&target).unwrap();
                // The end of the source is a hole, which is made by truncating the target there.
                let mut pieces = found.chunks(PIECE_BYTES).zip(expected.chunks(PIECE_BYTES));
                let is_so = |(&found, &expected): (&u8, &u8)| found == expected || (found == 0xbb && !is_whole);
                let is_right =
                    pieces.all(|(found, expected)| found == expected || found.iter().zip(expected).all(is_so));
                assert!(is_right, "{method}, attempt {attempt}");
                kills += u32::from(!is_whole);
                if kills == most {
                    break;
                }
            }
            assert_eq!(kills, most, "{method}: killed in the middle, of {ATTEMPTS} attempts");
            let mut again = Copier::prepare(&method.parse().unwrap()).unwrap();
            let transfer = again.copy(&source, &target, Destination::Overwrite).unwrap();
            assert_eq!(transfer.hole_bytes, 64 * PIECE_BYTES as u64);
            assert!(std::fs::read(&target).unwrap() == expected, "{method} again");
        }
    }
}

/// Copies over a file of `0xbb` in a child that is killed some time after its first byte has arrived. Returns whether
/// it was done.
fn copied_and_killed(method: &str, [source, target]: [&Path; 2], bytes: usize, wait: Duration) -> bool {
    std::fs::write(target, vec![0xbb; bytes]).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sparse::child_that_copies"])
        .env(CHILD, format!("{method}\t{}\t{}", source.display(), target.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let target = File::open(target).unwrap();
    let mut first = [0xbb];
    while first == [0xbb] {
        let has_ended = child.try_wait().unwrap().is_some();
        target.read_exact_at(&mut first, 0).unwrap();
        assert!(!has_ended || first != [0xbb], "it copied nothing");
    }
    std::thread::sleep(wait);
    child.kill().unwrap();
    child.wait().unwrap().success()
}
