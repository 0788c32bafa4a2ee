//! Rare cases that break walks: depth, width, loops, special files, and files that change meanwhile.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, openat};
use seekless_engine::files::read_some;
use seekless_engine::plan::LARGE_BYTES;

use super::super::large::Large;
use super::super::pair::{CompareContext, ComparedPair, OpenedPair};
use super::super::{ContentsDiffer, EntryDifference, Side, TreeFinding, TreeOptions, compare, same_size};
use super::{here, narrow, told};
use crate::Stop;
use crate::testing::long_or;
use seekless_engine::walk::FOUND_FILE;

fn pair() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let all = tempfile::tempdir().unwrap();
    let (one, other) = (all.path().join("one"), all.path().join("other"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    (all, one, other)
}

/// Makes nested directories, by handles, and returns the innermost.
fn nest(root: &Path, name: &CString, levels: usize) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        // This makes that level the one on which handles are needed again, after the levels below.
        mkdirat(&at, c"z", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, name, flags, Mode::empty()).unwrap();
    }
    at
}

#[test]
fn tree_may_be_deeper_than_a_path_may_be_long() {
    let (_all, one, other) = pair();
    let name = CString::new("n".repeat(200)).unwrap();
    let levels = 60;
    nest(&one, &name, levels);
    let innermost = nest(&other, &name, levels);
    mkdirat(&innermost, c"extra", Mode::from_raw_mode(0o755)).unwrap();
    for plan in [here(), narrow()] {
        let (summary, found) = told(plan, &one, &other, TreeOptions::default());
        let [(path, TreeFinding::Difference(EntryDifference::OnlyIn(Side::Right, FileType::Directory)))] =
            found.as_slice()
        else {
            panic!("{found:?}");
        };
        assert_eq!(path.as_os_str().len(), levels * 201 + "extra".len());
        assert_eq!(summary.directories as usize, 2 * levels + 1);
    }
}

#[test]
fn tree_may_have_a_hundred_thousand_entries() {
    let entries = long_or(100_000, 10_000);
    // In memory, if a file system is there, because that is quick.
    let all = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let roots = ["one", "other"].map(|name| all.path().join(name));
    for root in &roots {
        fs::create_dir(root).unwrap();
        let directory = openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for number in 0..entries {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            openat(&directory, format!("{number}"), flags, Mode::from_raw_mode(0o644)).unwrap();
        }
    }
    fs::write(roots[0].join("5"), b"x").unwrap();
    let last = (entries - 1).to_string();
    fs::remove_file(roots[1].join(&last)).unwrap();
    let (summary, found) = told(here(), &roots[0], &roots[1], TreeOptions::default());
    assert_eq!(summary.files, entries - 1);
    let names: Vec<_> = found.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(names, ["5", &last]);
}

#[test]
fn tree_follows_no_links_but_roots() {
    let (all, one, other) = pair();
    symlink("..", one.join("circle")).unwrap();
    symlink("..", other.join("circle")).unwrap();
    symlink("circle/circle", one.join("self")).unwrap();
    symlink("elsewhere", other.join("self")).unwrap();
    let root = all.path().join("root");
    symlink(&other, &root).unwrap();
    let (summary, found) = told(here(), &one, &root, TreeOptions::default());
    let targets = EntryDifference::Targets(["circle/circle".into(), "elsewhere".into()]);
    assert_eq!(found, [("self".into(), TreeFinding::Difference(targets))]);
    assert_eq!((summary.others, summary.directories), (2, 1));
}

#[test]
fn tree_never_opens_what_is_no_file() {
    let (_all, one, other) = pair();
    for root in [&one, &other] {
        let _ = UnixListener::bind(root.join("socket")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    }
    let _ = UnixListener::bind(one.join("x")).unwrap();
    fs::write(other.join("x"), b"").unwrap();
    // One FIFO under both names.
    fs::hard_link(one.join("fifo"), one.join("linked")).unwrap();
    fs::hard_link(one.join("fifo"), other.join("linked")).unwrap();
    let (_, found) = told(narrow(), &one, &other, TreeOptions::default());
    let kinds = [
        ("fifo", [FileType::Fifo; 2]),
        ("socket", [FileType::Socket; 2]),
        ("x", [FileType::Socket, FileType::RegularFile]),
    ];
    let kinds = kinds.map(|(name, kinds)| (name.into(), TreeFinding::Difference(EntryDifference::Kinds(kinds))));
    assert_eq!(found, kinds);
}

#[test]
fn tree_tells_numbers_of_devices_that_differ() {
    let (_all, one, other) = pair();
    let make = |root: &Path, name: &str, minor| {
        let number = rustix::fs::makedev(1, minor);
        let kind = FileType::CharacterDevice;
        rustix::fs::mknodat(CWD, root.join(name), kind, Mode::from_raw_mode(0o644), number)
    };
    if make(&one, "same", 3).is_err() {
        println!("skipped: making devices needs root");
        return;
    }
    make(&other, "same", 3).unwrap();
    make(&one, "zero", 3).unwrap();
    make(&other, "zero", 5).unwrap();
    let (_, found) = told(here(), &one, &other, TreeOptions::default());
    let kind = FileType::CharacterDevice;
    let differences = [
        ("same", EntryDifference::Kinds([kind; 2])),
        ("zero", EntryDifference::Devices(kind, [(1, 3), (1, 5)])),
    ];
    assert_eq!(
        found,
        differences.map(|(name, found)| (name.into(), TreeFinding::Difference(found)))
    );
}

#[test]
fn tree_is_equal_to_itself_unread() {
    let (_all, one, other) = pair();
    fs::write(one.join("file"), b"bytes").unwrap();
    fs::hard_link(one.join("file"), other.join("file")).unwrap();
    let (summary, found) = told(here(), &one, &other, TreeOptions::default());
    assert_eq!((summary.identical, summary.bytes, found.len()), (1, 0, 0));
    fs::create_dir(one.join("directory")).unwrap();
    fs::write(one.join("directory/inner"), b"more bytes").unwrap();
    let (summary, found) = told(here(), &one, &one, TreeOptions::default());
    let counts = (summary.identical, summary.files, summary.bytes, found.len());
    assert_eq!(counts, (0, 2, 15, 0), "what is named twice is compared");
    let file = one.join("file");
    let (summary, found) = told(here(), &file, &file, TreeOptions::default());
    assert_eq!((summary.files, summary.bytes, found.len()), (1, 5, 0));
}

#[test]
fn tree_metadata_includes_extended_attributes() {
    let (_all, one, other) = pair();
    for root in [&one, &other] {
        fs::write(root.join("file"), b"bytes").unwrap();
        let file = File::open(root.join("file")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let set = |root: &Path, name: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(root.join("file"), name, value, flags)
    };
    if let Err(error) = set(&one, "user.alone", b"1") {
        println!("skipped: no extended attributes here: {error}");
        return;
    }
    set(&one, "user.same", &[5; 3000]).unwrap();
    set(&other, "user.same", &[5; 3000]).unwrap();
    set(&one, "user.value", b"1").unwrap();
    set(&other, "user.value", b"2").unwrap();
    let options = TreeOptions {
        metadata: true,
        ..TreeOptions::default()
    };
    let (_, found) = told(here(), &one, &other, options);
    let found: Vec<_> = found.iter().filter(|(path, _)| path == Path::new("file")).collect();
    let names = ["user.alone", "user.value"].map(|name| super::super::Attribute::Extended(name.into()));
    assert_eq!(
        found,
        [&(
            "file".into(),
            TreeFinding::Difference(EntryDifference::Metadata(names.to_vec()))
        )]
    );
}

fn open_at(path: &Path) -> std::io::Result<File> {
    Ok(File::from(openat(CWD, path, FOUND_FILE, Mode::empty())?))
}

/// Compares a pair that is changed between stat and reading.
fn after(bytes: usize, change: impl FnOnce(&Path)) -> Vec<TreeFinding> {
    let (_all, one, other) = pair();
    for root in [&one, &other] {
        fs::write(root.join("file"), vec![1; bytes]).unwrap();
    }
    let roots = [&one, &other];
    let mut compared = ComparedPair::default();
    let opened = OpenedPair::new(
        |side| open_at(&roots[side].join("file")),
        TreeOptions::default(),
        &mut compared,
    )
    .unwrap();
    change(&other.join("file"));
    let mut means = CompareContext {
        options: TreeOptions::default(),
        large: &Large::default(),
        stop: &Stop::default(),
        rest: [Vec::new(), Vec::new()],
    };
    let mut buffers = [vec![0; 1 << 16], vec![0; 1 << 16]];
    let lengths = [0, 1].map(|side: usize| read_some(&opened.files[side], &mut buffers[side], 0).unwrap());
    let heads = [&buffers[0][..lengths[0]], &buffers[1][..lengths[1]]];
    opened.compare(heads, &mut means, &mut compared);
    compared.found
}

fn set_len(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn tree_names_files_that_change_and_fails_those_that_vanish() {
    let large = LARGE_BYTES as usize + 5000;
    for bytes in [1000, 200_000, large] {
        for (word, change) in [("shrank", bytes as u64 / 2), ("grew", bytes as u64 * 2)] {
            let found = after(bytes, |path| set_len(path, change));
            let [TreeFinding::Failed { side, reason, .. }] = found.as_slice() else {
                panic!("{bytes} {word}: {found:?}");
            };
            assert!(
                *side == Side::Right && reason.contains(word),
                "{bytes} {word}: {reason}"
            );
        }
    }
    let found = after(200_000, |path| fs::write(path, vec![1; 200_000]).unwrap());
    assert!(
        matches!(found.as_slice(), [TreeFinding::Failed { reason, .. }] if reason.contains("written to")),
        "{found:?}"
    );
    let found = after(200_000, |path| fs::remove_file(path).unwrap());
    assert!(found.is_empty(), "what is open stays what it was: {found:?}");
    let (_all, one, other) = pair();
    fs::write(one.join("file"), b"").unwrap();
    let roots = [&one, &other];
    let open = || {
        let mut compared = ComparedPair::default();
        assert!(
            OpenedPair::new(
                |side| open_at(&roots[side].join("file")),
                TreeOptions::default(),
                &mut compared
            )
            .is_none()
        );
        let [
            TreeFinding::Failed {
                side: Side::Right,
                action,
                reason,
            },
        ] = compared.found.as_slice()
        else {
            panic!("{:?}", compared.found);
        };
        format!("{action}: {reason}")
    };
    assert!(open().contains("No such file"));
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(CWD, other.join("file"), FileType::Fifo, mode, 0).unwrap();
    assert!(open().contains("no longer a regular file"));
}

#[test]
fn tree_counts_bytes_up_to_the_exact_first_difference() {
    let (_all, one, other) = pair();
    // Beginnings are read together, the rest of each file alone.
    for bytes in [8192, 100_000, 300_000] {
        let mut contents = vec![1; bytes];
        fs::write(one.join("file"), &contents).unwrap();
        let compared = |contents: &[u8]| {
            fs::write(other.join("file"), contents).unwrap();
            told(here(), &one, &other, TreeOptions::default()).0.bytes
        };
        assert_eq!(compared(&contents), bytes as u64);
        assert_eq!(compared(&contents[..5000]), 5000);
        for at in [0, 4096, bytes - 1] {
            contents[at] = 2;
            assert_eq!(compared(&contents), at as u64 + 1);
            contents[at] = 1;
        }
    }
    let bytes = LARGE_BYTES as usize + 12_345;
    fs::write(one.join("file"), vec![1; bytes]).unwrap();
    for at in [0, 131_072, bytes - 1] {
        let mut contents = vec![1; bytes];
        contents[at] = 2;
        fs::write(other.join("file"), contents).unwrap();
        let (summary, found) = told(here(), &one, &other, TreeOptions::default());
        let contents = EntryDifference::Contents(ContentsDiffer::At(at as u64));
        assert_eq!(found, [("file".into(), TreeFinding::Difference(contents))]);
        assert_eq!(summary.bytes, at as u64 + 1);
    }
    fs::write(other.join("file"), vec![1; bytes + 1]).unwrap();
    let (_, found) = told(narrow(), &one, &other, TreeOptions::default());
    let contents = EntryDifference::Contents(ContentsDiffer::Ends(Side::Left, bytes as u64));
    assert_eq!(found, [("file".into(), TreeFinding::Difference(contents))]);
}

#[test]
fn tree_job_ends_where_its_stop_says_so() {
    let (_all, one, other) = pair();
    for number in 0..30 {
        for root in [&one, &other] {
            fs::create_dir_all(root.join(format!("{number}/inner"))).unwrap();
            fs::write(root.join(format!("{number}/inner/file")), b"bytes").unwrap();
        }
    }
    let stop = Stop::default();
    stop.stop();
    let summary = compare(&one, &other, &TreeOptions::default(), &stop).unwrap();
    assert!(summary.is_stopped);
}

#[test]
fn tree_counts_files_of_one_size_by_pairs() {
    let (_all, one, other) = pair();
    let write = |name: &str, bytes: usize, first: u8| {
        let mut contents = vec![1; bytes];
        contents[0] = first;
        fs::write(one.join(name), contents).unwrap();
    };
    for (name, first) in [("a", 1), ("b", 1), ("c", 2)] {
        write(name, 1 << 20, first);
    }
    write("alone", (1 << 20) + 1, 1);
    write("small", 100, 1);
    write("small too", 100, 1);
    fs::hard_link(one.join("a"), one.join("d")).unwrap();
    symlink("a", one.join("link")).unwrap();
    let result = same_size(&one, &Stop::default()).unwrap();
    assert_eq!(
        (result.files, result.sizes, result.pairs, result.equal_pairs),
        (4, 1, 2, 1)
    );
    assert_eq!(result.bytes, (1 << 20) + 1);
    // Several large ones, too.
    for number in 0..6_u8 {
        let mut content = vec![7; 9 << 20];
        content[(9 << 20) - 1] += number / 5;
        fs::write(other.join(number.to_string()), content).unwrap();
    }
    let result = same_size(&other, &Stop::default()).unwrap();
    assert_eq!(
        (result.sizes, result.pairs, result.equal_pairs, result.failures),
        (1, 5, 4, 0)
    );
}
