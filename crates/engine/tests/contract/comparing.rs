//! Comparing: the verdict is that of a loop over bytes, whatever the method, the sizes, the offsets and the limit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use seekless_engine::method::{CachePolicy, Differ, Operation, Setting};
use seekless_engine::{Comparer, Comparison, Error, FileRange, Method, Side, Verdict};
use tempfile::TempDir;

use crate::pairs::is_long;
use crate::{cases, directories, each_method, file_of, methods, sample, with_block};

/// The oracle: a loop over bytes.
fn naive(one: &[u8], other: &[u8]) -> Verdict {
    let differ = one.iter().zip(other).position(|(a, b)| a != b);
    let ended = |side, bytes: &[u8]| Verdict::Ended {
        side,
        offset: bytes.len() as u64,
    };
    match differ {
        Some(offset) => Verdict::Differ { offset: offset as u64 },
        None if one.len() < other.len() => ended(Side::Left, one),
        None if one.len() > other.len() => ended(Side::Right, other),
        None => Verdict::Equal,
    }
}

fn compare(method: &Method, one: &Path, other: &Path) -> Comparison {
    let compared = Comparer::prepare(method).and_then(|mut comparer| comparer.compare(one, other));
    compared.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Places at which the second file is made to differ: around every edge of a block.
fn places(size: usize, block: usize) -> Vec<Option<usize>> {
    let blocks = [block - 1, block, 2 * block, size.wrapping_sub(1)];
    let edges = [&[0, 1, 511, 512, 4095, 4096][..], &blocks].concat();
    let mut places: Vec<_> = edges.into_iter().filter(|&at| at < size).map(Some).collect();
    places.push(None);
    places.dedup();
    places
}

#[test]
fn compare_finds_the_first_difference_by_every_method() {
    for directory in directories() {
        let mut checked = 0;
        for method in methods(Operation::Compare, directory.path()) {
            for (method, size) in cases(&method) {
                let bytes = sample(size);
                let one = file_of(&directory, "one", &bytes);
                let block = method.options().block_bytes().unwrap_or(4096) as usize;
                let mut comparer = Comparer::prepare_for(&method, size as u64).unwrap();
                // In the short run, two methods of three leave a place to the next.
                let places = places(size, block).into_iter().enumerate();
                let shift = checked;
                for (_, place) in places.filter(|(at, _)| is_long() || (at + shift) % 3 == 0) {
                    let mut changed = bytes.clone();
                    if let Some(place) = place {
                        changed[place] ^= 1;
                        *changed.last_mut().unwrap() ^= 2;
                    }
                    let other = file_of(&directory, "other", &changed);
                    let found = comparer.compare(&one, &other);
                    let found = found.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
                    let expected = naive(&bytes, &changed);
                    assert_eq!(found.verdict, expected, "{method}, {size} bytes, {place:?}");
                    if method.options().differ() == Differ::Linewise {
                        let equal = &bytes[..found.bytes as usize];
                        let lines = equal.split(|&byte| byte == b'\n').count() - 1;
                        assert_eq!(found.newlines, Some(lines as u64), "{method}, {size} bytes");
                    }
                    checked += 1;
                }
            }
        }
        println!("{checked} comparisons in {}", directory.path().display());
    }
}

#[test]
fn compare_of_parts_begins_and_ends_as_told() {
    for (directory, method) in each_method(Operation::Compare) {
        let bytes = sample(200_000);
        for (one_bytes, other_bytes) in [(200_000, 131_072), (131_071, 200_000), (0, 1), (1, 0), (0, 0)] {
            let one = file_of(&directory, "one", &bytes[..one_bytes]);
            let other = file_of(&directory, "other", &bytes[..other_bytes]);
            let found = compare(&method, &one, &other);
            let expected = naive(&bytes[..one_bytes], &bytes[..other_bytes]);
            assert_eq!(found.verdict, expected, "{method}, {one_bytes} against {other_bytes}");
            assert_eq!(found.bytes, one_bytes.min(other_bytes) as u64);
        }
        let bytes = sample(300_000);
        let shifted = [&[7; 4097][..], &bytes].concat();
        let one = file_of(&directory, "one", &bytes);
        let other = file_of(&directory, "other", &shifted);
        let files = [&one, &other].map(|path| File::open(path).unwrap());
        let mut comparer = Comparer::prepare(&method).unwrap();
        let mut parts = |is_open: bool, one_start: u64, other_start: u64, limit| {
            let [one, other] = if is_open {
                files.each_ref().map(FileRange::of_file)
            } else {
                [FileRange::whole(&one), FileRange::whole(&other)]
            };
            comparer.compare(part(one, one_start, limit), part(other, other_start, limit))
        };
        if method.options().cache() == CachePolicy::Direct {
            // Only with aligned offsets, and these differ.
            let found = parts(false, 4096, 8192, Some(8192)).unwrap();
            let expected = naive(&bytes[4096..12_288], &shifted[8192..16_384]);
            assert_eq!(found.verdict, expected, "{method}");
            if let Err(error) = parts(false, 0, 4097, None) {
                assert!(error.is_unavailable(), "{method}: {error}");
            }
            assert!(parts(true, 10, 0, None).unwrap_err().is_unavailable());
            continue;
        }
        for (one_start, other_start, limit) in [
            (0, 4097, None),
            (100, 4197, None),
            (131_072, 135_169, Some(70_001)),
            (5, 4102, Some(0)),
            (299_999, 304_096, None),
            (300_000, 304_097, None),
            (400_000, 5, None),
            (u64::MAX, u64::MAX, None),
            (0, 4096, Some(1)),
        ] {
            let end = |bytes: &'_ [u8], start: u64| {
                let rest = bytes[(start as usize).min(bytes.len())..].to_vec();
                rest[..limit.map_or(rest.len(), |limit: u64| rest.len().min(limit as usize))].to_vec()
            };
            let expected = naive(&end(&bytes, one_start), &end(&shifted, other_start));
            for is_open in [false, true] {
                let case = format!("{method}: {one_start}, {other_start}, {limit:?}, {is_open}");
                let found = parts(is_open, one_start, other_start, limit);
                let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(found.verdict, expected, "{case}");
            }
        }
    }
}

fn part(whole: FileRange<'_>, start: u64, limit: Option<u64>) -> FileRange<'_> {
    match limit {
        None => whole.range(start..),
        Some(limit) => whole.range(start..start + limit),
    }
}

#[test]
fn compare_with_itself_is_equal_at_once_unless_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let one = file_of(&directory, "one", &sample(100_000));
    let link = directory.path().join("link");
    std::fs::hard_link(&one, &link).unwrap();
    for (method, unread_bytes) in [("compare/sync", 100_000), ("compare/sync,identity=ignore", 0)] {
        let found = compare(&Method::known(method), &one, &link);
        assert_eq!((found.verdict, found.unread_bytes), (Verdict::Equal, unread_bytes));
    }
}

/// A sparse file: `bytes` long, with data at these places.
fn sparse(directory: &TempDir, name: &str, bytes: u64, data: &[(u64, &[u8])]) -> std::path::PathBuf {
    let path = directory.path().join(name);
    let file = File::create(&path).unwrap();
    file.set_len(bytes).unwrap();
    for (at, bytes) in data {
        file.write_all_at(bytes, *at).unwrap();
    }
    path
}

#[test]
fn compare_of_holes_is_equal_to_holes_and_zeros_only() {
    const PART: u64 = 256 << 10;
    const BYTES: u64 = 3 * PART;
    let zeros = vec![0; PART as usize - 4096];
    let data = sample(64 << 10);
    let mut nearly = zeros.clone();
    nearly[200_001] = 1;
    for directory in directories() {
        let one = sparse(&directory, "one", BYTES, &[(PART, &data)]);
        let same = sparse(&directory, "same", BYTES, &[(PART, &data), (2 * PART, &zeros)]);
        let unlike = sparse(&directory, "unlike", BYTES, &[(PART, &data), (2 * PART, &nearly)]);
        let early = sparse(&directory, "early", BYTES, &[(4096, b"x")]);
        for method in methods(Operation::Compare, directory.path()) {
            for ignored in [false, true] {
                let method = method.with(Setting::holes_ignored(ignored)).unwrap();
                for (a, b) in [(&one, &same), (&same, &one)] {
                    let found = compare(&method, a, b);
                    assert_eq!(found.verdict, Verdict::Equal, "{method}");
                    assert!(!ignored || found.unread_bytes == 0, "{method}: {found:?}");
                }
                let at = 2 * PART + 200_001;
                for (a, b, offset) in [(&one, &unlike, at), (&unlike, &one, at), (&early, &one, 4096)] {
                    let found = compare(&method, a, b).verdict;
                    assert_eq!(found, Verdict::Differ { offset }, "{method}");
                }
            }
        }
        let found = compare(&Method::known("compare/sync"), &one, &same);
        let (place, unread) = (directory.path().display(), found.unread_bytes);
        println!("{place}: {unread} of {BYTES} bytes unread");
    }
}

#[test]
fn compare_of_a_clone_is_equal_unread_until_it_is_written_to() {
    for directory in directories() {
        let bytes = sample(1 << 20);
        let one = file_of(&directory, "one", &bytes);
        let clone = directory.path().join("clone");
        let reflink = seekless_engine::Copier::prepare(&Method::known("copy/reflink")).unwrap();
        if let Err(error) = { reflink }.copy(&one, &clone, seekless_engine::Destination::New) {
            println!("skipped: no clones in {}: {error}", directory.path().display());
            continue;
        }
        File::open(&one).unwrap().sync_all().unwrap();
        let method = Method::known("compare/sync");
        let found = compare(&method, &one, &clone);
        assert_eq!(found.verdict, Verdict::Equal);
        let place = directory.path().display();
        assert!(found.unread_bytes > 1 << 19, "{found:?} in {place}");
        let ignoring = Method::known("compare/sync,holes=ignore");
        assert_eq!(compare(&ignoring, &one, &clone).unread_bytes, 0);
        // Without FIEMAP_FLAG_SYNC the file system still reports the extent from before.
        let file = File::options().write(true).open(&clone).unwrap();
        file.write_all_at(&[bytes[500_000] ^ 1], 500_000).unwrap();
        let found = compare(&method, &one, &clone).verdict;
        assert_eq!(found, Verdict::Differ { offset: 500_000 });
    }
}

#[test]
fn compare_names_a_file_that_changes_its_size() {
    let directory = tempfile::tempdir().unwrap();
    seekless_engine::allow_mapping().unwrap();
    let bytes = sample(3 << 20);
    let rounds = if is_long() { 5 } else { 1 };
    for method in methods(Operation::Compare, directory.path()) {
        let method = with_block(&method, 16 << 10).unwrap_or(method);
        let one = file_of(&directory, "one", &bytes);
        let other = file_of(&directory, "other", &bytes);
        // A FIFO would be more exact; a regular file needs a thread that changes it while it is read.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(&other).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    file.set_len(1 << 20).unwrap();
                    file.write_all_at(&bytes[1 << 20..], 1 << 20).unwrap();
                }
            });
            let mut comparer = Comparer::prepare(&method).unwrap();
            let found: Vec<_> = (0..rounds).map(|_| comparer.compare(&one, &other)).collect();
            // Before any assertion: after a panic, the other thread would never end.
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            for found in found {
                match found {
                    // If a map lost a page for a moment, the system's error names the file as well.
                    Err(Error::Resized { path, .. } | Error::System { path, .. }) => {
                        assert_eq!(path, other, "{method}");
                    }
                    Err(error) => panic!("{method}: {error}"),
                    // Sizes that the other thread gave it, and its bytes, which may be zeros for a moment.
                    Ok(found) => assert_ne!(found.verdict, Verdict::Differ { offset: 0 }, "{method}"),
                }
            }
        });
    }
}
