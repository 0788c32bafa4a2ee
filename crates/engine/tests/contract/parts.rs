//! Ranges and open files: each mechanism moves exactly the bytes that std moves, or says why it cannot.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use seekless_sys::{Access, Opening};

use seekless_engine::method::{CachePolicy, Durability};
use seekless_engine::{
    Comparer, Copier, Destination, Error, FileRange, IoOptions, Method, Operation, Reader, Verdict, Writer, full_text,
};

use super::consumers::{Kept, in_order};
use super::pairs::is_long;
use super::{available, directories, each_method, file_of, methods, sample, with_block};

const FILE_BYTES: usize = 200_001;

/// Starts and lengths around the edges of blocks, pages and the file.
const RANGES: [(u64, u64); 12] = [
    (0, 0),
    (0, 1),
    (0, 4096),
    (4096, 16_384),
    (4096, 5000),
    (1, 16_383),
    (12_288, 100_000),
    (511, 70_000),
    (131_072, 1_000_000),
    (200_000, 1),
    (200_001, 10),
    (300_000, 10),
];

/// Where ranges are copied to: the start, within, aligned and not, across the end, and past it.
const AT: [u64; 5] = [0, 8192, 4097, 140_000, 160_001];

/// A file with data, a hole and data.
fn sparse(directory: &tempfile::TempDir, name: &str) -> (std::path::PathBuf, Vec<u8>) {
    let mut bytes = sample(FILE_BYTES);
    bytes[40_960..122_880].fill(0);
    let path = directory.path().join(name);
    let file = File::create_new(&path).unwrap();
    file.write_all_at(&bytes[..40_960], 0).unwrap();
    file.write_all_at(&bytes[122_880..], 122_880).unwrap();
    file.sync_all().unwrap();
    (path, bytes)
}

/// Small blocks, so that a range has several.
fn small(method: &Method) -> Method {
    with_block(method, 16 << 10).unwrap_or(*method)
}

fn is_direct(method: &Method) -> bool {
    method.options().cache() == CachePolicy::Direct
}

/// A file open for reading and writing, as a method needs it.
fn open_for(method: &Method, path: &Path) -> File {
    let mut how = Opening::plain(Access::Overwrite);
    how.direct = is_direct(method);
    how.write_through = method.options().durability() == Durability::WriteThrough;
    seekless_sys::open(path, how).unwrap().required().unwrap()
}

/// A file by its path, or open.
fn given<'a>(named: bool, path: &'a Path, file: &'a File) -> FileRange<'a> {
    if named {
        FileRange::whole(path)
    } else {
        FileRange::of_file(file)
    }
}

/// A range of bytes by std's slices.
fn cut(bytes: &[u8], start: u64, length: u64) -> &[u8] {
    let rest = &bytes[(start as usize).min(bytes.len())..];
    &rest[..rest.len().min(length as usize)]
}

/// Whether direct I/O may refuse an offset: as unavailable, and only if the offset is not aligned.
fn may_refuse(method: &Method, offsets: &[u64]) -> bool {
    is_direct(method) && offsets.iter().any(|offset| !offset.is_multiple_of(4096))
}

#[test]
fn read_of_ranges_is_as_std_by_every_method() {
    for directory in directories() {
        let (path, bytes) = sparse(&directory, "file");
        for method in methods(Operation::Read, directory.path()) {
            let method = small(&method);
            let mut reader = Reader::prepare_for(&method, FILE_BYTES as u64).unwrap();
            let mut file = open_for(&method, &path);
            file.seek(SeekFrom::Start(77)).unwrap();
            for (start, length) in RANGES {
                for part in [FileRange::whole(&path), FileRange::of_file(&file)] {
                    let case = format!("{method}: {length} from {start} of {part:?}");
                    let kept = Kept::default();
                    let read = match reader.read(part.range(start..start + length), &kept) {
                        Err(error) if may_refuse(&method, &[start]) => {
                            assert!(error.is_unavailable(), "{case}: {error}");
                            continue;
                        }
                        read => read.unwrap_or_else(|error| panic!("{case}: {error}")),
                    };
                    let expected = cut(&bytes, start, length);
                    assert_eq!(read.bytes, expected.len() as u64, "{case}");
                    assert!(kept.bytes() == expected, "{case}");
                }
            }
            assert_eq!(file.stream_position().unwrap(), 77, "{method} moved the position");
        }
    }
}

#[test]
fn write_of_ranges_is_as_std_by_every_method() {
    for directory in directories() {
        let old = sample(FILE_BYTES);
        let new: Vec<u8> = sample(100_000).iter().map(|byte| !byte).collect();
        let path = file_of(&directory, "file", &old);
        for (turn, method) in methods(Operation::Write, directory.path()).into_iter().enumerate() {
            let method = small(&method);
            let mut writer = Writer::prepare_for(&method, FILE_BYTES as u64).unwrap();
            let ranges = RANGES.into_iter().enumerate();
            for (n, (start, length)) in ranges.filter(|(n, _)| is_long() || (turn + n / 2) % 2 == 0) {
                let written = &new[..(length as usize).min(new.len())];
                let end = start + written.len() as u64;
                fs::write(&path, &old).unwrap();
                let mut expected = old.clone();
                if !written.is_empty() {
                    expected.resize(expected.len().max(end as usize), 0);
                    expected[start as usize..end as usize].copy_from_slice(written);
                }
                let file = open_for(&method, &path);
                let part = given(n % 2 == 0, &path, &file);
                let case = format!("{method}: {length} from {start} of {part:?}");
                let done = writer.write(part.range(start..), Destination::New, written.len() as u64, &written);
                let may_refuse = may_refuse(&method, &[start]) || may_refuse(&method, &[end]) && end < old.len() as u64;
                match done {
                    Err(error) if may_refuse => {
                        assert!(error.is_unavailable(), "{case}: {error}");
                        assert!(fs::read(&path).unwrap() == old, "{case}: refused, and changed the file");
                    }
                    done => {
                        let done = done.unwrap_or_else(|error| panic!("{case}: {error}"));
                        assert_eq!(done.bytes, written.len() as u64);
                        assert!(fs::read(&path).unwrap() == expected, "{case}");
                    }
                }
            }
        }
    }
}

/// Copies as std does.
fn copied(from: &[u8], start: u64, length: u64, to: &[u8], at: u64) -> Vec<u8> {
    let moved = cut(from, start, length);
    let mut expected = to.to_vec();
    if !moved.is_empty() {
        let end = at as usize + moved.len();
        expected.resize(expected.len().max(end), 0);
        expected[at as usize..end].copy_from_slice(moved);
    }
    expected
}

/// Methods that can copy whole files only.
fn copies_whole_files_only(method: &Method) -> bool {
    ["reflink", "fcopyfile", "clonefile"].contains(&method.mechanism().name)
}

#[test]
fn copy_of_ranges_between_offsets_by_every_method() {
    for directory in directories() {
        let (source, bytes) = sparse(&directory, "source");
        let old: Vec<u8> = sample(150_000).iter().map(|byte| !byte).collect();
        let target = file_of(&directory, "target", &old);
        for (turn, method) in methods(Operation::Copy, directory.path()).into_iter().enumerate() {
            let method = small(&method);
            let mut copier = Copier::prepare_for(&method, FILE_BYTES as u64).unwrap();
            for (n, (start, length)) in RANGES.into_iter().enumerate() {
                // Each method copies each range to two places, or to one in the short run.
                let places = (n + turn..).step_by(2).map(|n| AT[n % AT.len()]);
                for at in places.take(if is_long() { 2 } else { 1 }) {
                    fs::write(&target, &old).unwrap();
                    let expected = copied(&bytes, start, length, &old, at);
                    let end = at + cut(&bytes, start, length).len() as u64;
                    let [from_file, to_file] = [&source, &target].map(|path| open_for(&method, path));
                    let from = given(n % 2 == 0, &source, &from_file);
                    let to = given(n % 3 > 0, &target, &to_file);
                    let case = format!("{method}: {length} from {start} to {at}");
                    let done = copier.copy(from.range(start..start + length), to.range(at..), Destination::New);
                    let refused = copies_whole_files_only(&method)
                        || may_refuse(&method, &[start, at])
                        || may_refuse(&method, &[end]) && end < old.len() as u64;
                    match done {
                        Err(error) if refused => {
                            assert!(error.is_unavailable(), "{case}: {error}");
                            let is_unchanged = fs::read(&target).unwrap() == old;
                            assert!(is_unchanged, "{case}: refused, and changed the target");
                        }
                        done => {
                            done.unwrap_or_else(|error| panic!("{case}: {error}"));
                            assert!(fs::read(&target).unwrap() == expected, "{case}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn copy_within_a_file_unless_ranges_overlap() {
    for (directory, method) in each_method(Operation::Copy) {
        let bytes = sample(FILE_BYTES);
        let path = file_of(&directory, "file", &bytes);
        if copies_whole_files_only(&method) {
            continue;
        }
        let method = small(&method);
        let mut copier = Copier::prepare_for(&method, FILE_BYTES as u64).unwrap();
        for (start, length, at) in [(0, 65_536, 65_536), (65_536, 65_536, 0), (131_072, 100_000, 204_800)] {
            fs::write(&path, &bytes).unwrap();
            let [from, to] = [
                FileRange::whole(&path).range(start..start + length),
                FileRange::whole(&path).range(at..),
            ];
            let done = copier.copy(from, to, Destination::New);
            done.unwrap_or_else(|error| panic!("{method}: {error}"));
            let expected = copied(&bytes, start, length, &bytes, at);
            assert!(fs::read(&path).unwrap() == expected, "{method}");
        }
        fs::write(&path, &bytes).unwrap();
        for at in [0, 4096, 61_440] {
            let [from, to] = [
                FileRange::whole(&path).range(..65_536),
                FileRange::whole(&path).range(at..),
            ];
            let overlapping = copier.copy(from, to, Destination::New);
            let is_refused = matches!(overlapping, Err(Error::Overlap { .. }));
            assert!(is_refused, "{method}: {overlapping:?}");
        }
        let is_unchanged = fs::read(&path).unwrap() == bytes;
        assert!(is_unchanged, "{method}: refused, and changed the file");
    }
}

#[test]
fn compare_of_parts_of_one_file_is_by_their_own_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = vec![b'A'; 4096];
    bytes.extend([b'B'; 8192]);
    bytes.extend([b'C'; 4096]);
    let path = file_of(&directory, "file", &bytes);
    for method in methods(Operation::Compare, directory.path()) {
        let method = small(&method);
        let file = open_for(&method, &path);
        let mut comparer = Comparer::prepare_for(&method, FILE_BYTES as u64).unwrap();
        for (one, other) in [
            (0..4096, 4096..8192),
            (4096..8192, 8192..12_288),
            (0..4096, 0..8192),
            (4096..12_288, 4096..8192),
            (0..0, 0..4096),
            (4096..8192, 4096..8192),
        ] {
            let cut = |range: &std::ops::Range<u64>| &bytes[range.start as usize..range.end as usize];
            let differs = cut(&one).iter().zip(cut(&other)).position(|(one, other)| one != other);
            let length = |range: &std::ops::Range<u64>| range.end - range.start;
            let shorter = length(&one).min(length(&other));
            let is_expected = |verdict: &Verdict| match (differs, verdict) {
                (Some(at), Verdict::Differ { offset }) => at as u64 == *offset,
                (None, Verdict::Ended { offset, .. }) => length(&one) != length(&other) && *offset == shorter,
                (None, Verdict::Equal) => length(&one) == length(&other),
                _ => false,
            };
            for part in [FileRange::of_file(&file), FileRange::whole(&path)] {
                match comparer.compare(part.clone().range(one.clone()), part.range(other.clone())) {
                    Ok(done) => assert!(is_expected(&done.verdict), "{method}: {one:?} {other:?}: {done:?}"),
                    Err(error) => assert!(error.is_unavailable(), "{method}: {error}"),
                }
            }
        }
    }
}

#[test]
fn copy_into_an_open_file_while_another_thread_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = sample(FILE_BYTES);
    let path = file_of(&directory, "file", &bytes);
    let source = file_of(&directory, "source", &vec![7; 65_536]);
    let at = FILE_BYTES as u64 / 2 / 4096 * 4096;
    for text in ["copy/sendfile,block=4K", "copy/sync,block=4K"] {
        let method: Method = text.parse().unwrap();
        let Ok(mut copier) = Copier::prepare_for(&method, FILE_BYTES as u64) else {
            continue;
        };
        let file = File::options().read(true).write(true).open(&path).unwrap();
        for _ in 0..20 {
            fs::write(&path, &bytes).unwrap();
            let is_done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut reader =
                        Reader::prepare_for(&"read/sync,block=4K".parse().unwrap(), FILE_BYTES as u64).unwrap();
                    while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                        let start = FileRange::of_file(&file).range(..4096);
                        reader.read(start, Kept::default()).unwrap();
                    }
                });
                let done = copier.copy(
                    FileRange::whole(&source),
                    FileRange::of_file(&file).range(at..),
                    Destination::New,
                );
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
                done.unwrap();
            });
            let is_right = fs::read(&path).unwrap() == copied(&vec![7; 65_536], 0, 65_536, &bytes, at);
            assert!(is_right, "{method}");
        }
    }
}

#[test]
fn planned_calls_take_open_files_and_leave_their_position() {
    for directory in directories() {
        let (path, bytes) = sparse(&directory, "file");
        let target = file_of(&directory, "target", &bytes);
        let open = |path: &Path| File::options().read(true).write(true).open(path).unwrap();
        let (mut from, mut to) = (open(&path), open(&target));
        from.seek(SeekFrom::Start(5)).unwrap();
        to.seek(SeekFrom::Start(6)).unwrap();
        let mut text = Vec::new();
        let read = IoOptions::new().read(FileRange::of_file(&from).range(40_000..50_000), in_order(&mut text));
        assert_eq!(read.unwrap().bytes, 10_000);
        assert!(text == bytes[40_000..50_000]);
        IoOptions::new()
            .write(FileRange::of_file(&to).range(10..), b"here")
            .unwrap();
        let part = || FileRange::of_file(&from).range(40_000..130_000);
        IoOptions::new()
            .copy(part(), FileRange::of_file(&to).range(20_000..))
            .unwrap();
        let mut expected = bytes.clone();
        expected[10..14].copy_from_slice(b"here");
        expected = copied(&bytes, 40_000, 90_000, &expected, 20_000);
        assert!(fs::read(&target).unwrap() == expected);
        let compared = IoOptions::new().compare(part(), FileRange::of_file(&to).range(20_000..110_000));
        assert_eq!(compared.unwrap().verdict, Verdict::Equal);
        assert_eq!((from.stream_position().unwrap(), to.stream_position().unwrap()), (5, 6));
        // A whole file into an open one, by the planned method.
        let whole = file_of(&directory, "whole", b"");
        let all = open(&whole);
        IoOptions::new().copy(&path, FileRange::of_file(&all)).unwrap();
        assert!(fs::read(&whole).unwrap() == bytes);
    }
}

#[test]
fn open_files_are_refused_with_a_reason_where_impossible() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"0123456789");
        let refused = |done: Result<(), Error>, of: &str| {
            let error = done.expect_err(of);
            let text = full_text(&error);
            assert!(text.contains(of), "{text}");
        };
        let append = File::options().append(true).open(&path).unwrap();
        refused(
            IoOptions::new().write(FileRange::of_file(&append), b"x").map(drop),
            "O_APPEND",
        );
        let reading = File::open(&path).unwrap();
        let written = IoOptions::new().write(FileRange::of_file(&reading).range(2..), b"x");
        assert!(matches!(written, Err(Error::System { .. })), "{written:?}");
        let writing = File::options().write(true).open(&path).unwrap();
        let read = IoOptions::new().read(FileRange::of_file(&writing), |_, _| ControlFlow::Continue(()));
        assert!(matches!(read, Err(Error::System { .. })), "{read:?}");
        for (range, bytes, words) in [
            (2..4, &b"three"[..], "5 B do not fit into a range of 2 B"),
            (2..2, b"x", "1 B do not fit into a range of 0 B"),
        ] {
            let written = IoOptions::new().write(FileRange::whole(&path).range(range), bytes);
            refused(written.map(drop), words);
        }
        let through: Method = "write/sync,write-through".parse().unwrap();
        let both = File::options().read(true).write(true).open(&path).unwrap();
        refused(
            IoOptions::method(through)
                .write(FileRange::of_file(&both), b"x")
                .map(drop),
            "O_DSYNC",
        );
        let direct: Method = "read/sync,direct,block=4K".parse().unwrap();
        for method in available(directory.path(), [direct]) {
            let read = IoOptions::method(method).read(FileRange::of_file(&both), |_, _| ControlFlow::Continue(()));
            refused(read.map(drop), "O_DIRECT");
            let opened = open_for(&method, &path);
            let read = IoOptions::method(Method::known("read/sync"))
                .read(FileRange::of_file(&opened), |_, _| ControlFlow::Continue(()));
            refused(read.map(drop), "O_DIRECT");
        }
        let (fifo, _other) = std::io::pipe().unwrap();
        let read = IoOptions::new().read(FileRange::of_file(&fifo).named("the pipe"), |_, _| {
            ControlFlow::Continue(())
        });
        let error = read.unwrap_err();
        let is_named = matches!(error, Error::NotRegular { .. }) && error.to_string().contains("the pipe");
        assert!(is_named, "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    }
}

#[test]
fn watch_of_a_range_has_its_own_progress_and_removes_no_part() {
    for directory in directories() {
        let bytes = sample(40 << 20);
        let source = file_of(&directory, "source", &bytes);
        let target = file_of(&directory, "target", b"kept");
        let told = Mutex::new(Vec::new());
        let tell = |done: u64, of: u64| {
            told.lock().unwrap().push((done, of));
            ControlFlow::Continue(())
        };
        let part = FileRange::whole(&source).range(1 << 20..35 << 20);
        let job = || IoOptions::method(Method::known("copy/sync"));
        let behind = || FileRange::whole(&target).range(4..);
        job().progress(&tell).copy(&part, behind()).unwrap();
        let told = told.into_inner().unwrap();
        assert_eq!(told.last(), Some(&(34 << 20, 34 << 20)), "{told:?}");
        let end = |_: u64, _: u64| ControlFlow::Break(());
        let stopped = job().progress(&end).copy(&part, behind());
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
        assert!(fs::read(&target).unwrap().starts_with(b"kept"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn copy_of_any_range_is_as_std(
        length in 0_usize..60_000, old in 0_usize..60_000, start in 0_u64..70_000, bytes in 0_u64..70_000, at in 0_u64..70_000,
        method in prop::sample::select(vec!["copy/sync,block=4K", "copy/sync,block=12K,holes=skip", "copy/copy_file_range", "copy/sendfile", "copy/splice", "copy/double-buffer,block=4K"]),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (sample(length), vec![7; old]);
        let source = file_of(&directory, "source", &from);
        let target = file_of(&directory, "target", &to);
        let method: Method = method.parse().unwrap();
        prop_assume!(super::is_available(&method, directory.path()));
        let done = IoOptions::method(method).copy(FileRange::whole(&source).range(start..start + bytes), FileRange::whole(&target).range(at..));
        prop_assert_eq!(done.unwrap().bytes, cut(&from, start, bytes).len() as u64);
        prop_assert!(fs::read(&target).unwrap() == copied(&from, start, bytes, &to, at));
    }
}
