//! The walk through one tree, compared with a walk that is as simple as possible, also while the tree changes.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};

use super::*;

/// The results of a walk; files by their paths and bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MergedEntry {
    File(PathBuf, Vec<u8>),
    Failed(PathBuf, String),
}

fn read(file: &FileAt) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.open(OFlags::RDONLY).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn met(found: FoundFile) -> MergedEntry {
    match found {
        Ok(file) => MergedEntry::File(file.path().to_owned(), read(&file)),
        Err((path, reason)) => MergedEntry::Failed(path, reason),
    }
}

/// Enters everything, and counts the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Everything {
    links: u64,
    special: u64,
    is_stopped: bool,
}

impl WalkRules for Everything {
    fn enters(&mut self, _directory: &WalkDirectory<1>, _at: BorrowedFd<'_>, _facts: &StatFacts) -> bool {
        true
    }

    fn pass(&mut self, _directory: &WalkDirectory<1>, _name: &CStr, kind: FileType) {
        if kind == FileType::Symlink {
            self.links += 1;
        } else {
            self.special += 1;
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

fn walk_within(root: &Path, limit: &Arc<Limit<1>>) -> Walk<Everything> {
    Walk::within(limit, root, Everything::default())
}

/// Walks with this many open directories. With `kept`, each file is read after all were found.
fn walked(root: &Path, most_open: usize, kept: bool) -> (Vec<MergedEntry>, Everything) {
    let limit = Limit::new(most_open);
    let mut walk = walk_within(root, &limit);
    let all = if kept {
        let found: Vec<FoundFile> = walk.by_ref().collect();
        found.into_iter().map(met).collect()
    } else {
        walk.by_ref().map(met).collect()
    };
    assert_eq!(limit.open(), 0, "all directories are closed again");
    (all, walk.rules)
}

/// Lists by whole paths.
fn naive(directory: &Path, all: &mut Vec<MergedEntry>, left: &mut Everything) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            naive(&path, all, left);
        } else if kind.is_file() {
            all.push(MergedEntry::File(path.clone(), fs::read(&path).unwrap()));
        } else if kind.is_symlink() {
            left.links += 1;
        } else if kind.is_fifo() {
            left.special += 1;
        } else {
            panic!("{kind:?}")
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    File,
    Directory(Vec<Node>),
    Link,
    Fifo,
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![6 => Just(Node::File), 1 => Just(Node::Link), 1 => Just(Node::Fifo)];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop::collection::vec(inner, 0..8).prop_map(Node::Directory)
    })
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::File => fs::write(path, path.as_os_str().as_bytes()).unwrap(),
        Node::Link => symlink("..", path).unwrap(),
        Node::Fifo => make_fifo(path),
        Node::Directory(entries) => {
            fs::create_dir(path).unwrap();
            for (number, entry) in entries.iter().enumerate() {
                let mut name = number.to_string().into_bytes();
                name.extend(b"\xff\n");
                make(&path.join(OsStr::from_bytes(&name)), entry);
            }
        }
    }
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn walk_of_random_trees_is_that_of_a_naive_walk(
        entries in prop::collection::vec(node(), 0..8),
        most_open in 0_usize..4,
        kept: bool,
    ) {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().join("root");
        make(&root, &Node::Directory(entries));
        let mut expected = (Vec::new(), Everything::default());
        naive(&root, &mut expected.0, &mut expected.1);
        prop_assert_eq!(walked(&root, most_open, kept), expected);
    }
}

/// A directory in memory, if a file system is there, because that is quick.
fn quick() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).unwrap()
}

fn open(path: &Path) -> OwnedFd {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

#[test]
fn walk_goes_on_with_a_large_directory_closed_in_between() {
    let entries = if crate::is_long() { 20_000 } else { 3_000 };
    for place in [quick(), tempfile::tempdir().unwrap()] {
        for number in 0..entries {
            if number % 1000 == 7 {
                fs::create_dir(place.path().join(format!("{number}"))).unwrap();
                fs::write(place.path().join(format!("{number}/inner")), b"").unwrap();
            } else {
                fs::write(place.path().join(format!("{number}")), b"").unwrap();
            }
        }
        let mut expected = (Vec::new(), Everything::default());
        naive(place.path(), &mut expected.0, &mut expected.1);
        assert_eq!(expected.0.len(), entries);
        // With only one open directory, it is closed whenever another is entered.
        assert!(walked(place.path(), 0, false) == expected);
    }
}

#[test]
fn walk_holds_what_the_system_gives_at_a_call_and_no_more() {
    let place = quick();
    let directory = open(place.path());
    let entries = if crate::is_long() { 200_000 } else { 30_000 };
    for number in 0..entries {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        openat(&directory, format!("{number}"), flags, Mode::from_raw_mode(0o644)).unwrap();
    }
    let mut walk = walk_within(place.path(), &Limit::new(1));
    let mut names = BTreeSet::new();
    while let Some(found) = walk.next() {
        let Ok(file) = found else { panic!() };
        names.insert(file.path().file_name().unwrap().to_owned());
        assert!(walk.waiting() < 10_000, "{}", walk.waiting());
    }
    assert_eq!(names.len(), entries);
}

#[test]
fn walk_of_trees_deeper_than_a_path_may_be_long() {
    let place = quick();
    let name = CString::new("n".repeat(200)).unwrap();
    let mut at = open(place.path());
    let levels = 60;
    for _ in 0..levels {
        mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = openat(&at, c"file", flags, Mode::from_raw_mode(0o644));
        rustix::io::write(file.unwrap(), b"bytes").unwrap();
    }
    for (most_open, kept) in [(1, true), (1, false), (10, true), (1000, false)] {
        let (all, _) = walked(place.path(), most_open, kept);
        let lengths = all.iter().map(|met| match met {
            MergedEntry::File(path, bytes) if bytes == b"bytes" => path.as_os_str().len(),
            other => panic!("{other:?}"),
        });
        let below = place.path().as_os_str().len() + "/file".len();
        let expected: BTreeSet<_> = (1..=levels).map(|level| below + level * 201).collect();
        assert_eq!(lengths.collect::<BTreeSet<_>>(), expected);
    }
}

/// A tree with a file in an inner directory, and a secret beside the tree.
fn tree_and_secret() -> (tempfile::TempDir, PathBuf) {
    let all = tempfile::tempdir().unwrap();
    let root = all.path().join("root");
    for directory in [root.join("inner"), all.path().join("elsewhere")] {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), directory.file_name().unwrap().as_bytes()).unwrap();
    }
    (all, root)
}

/// The only file of a tree, found but not opened, and whether its directory was closed.
fn found_file(root: &Path, limit: &Arc<Limit<1>>) -> (Walk<Everything>, FileAt) {
    let mut walk = walk_within(root, limit);
    let file = walk.find_map(Result::ok).unwrap();
    (walk, file)
}

#[test]
fn walk_is_not_led_out_by_a_directory_that_becomes_a_link() {
    for most_open in [0, 100] {
        let (all, root) = tree_and_secret();
        let limit = Limit::new(most_open);
        let (mut walk, file) = found_file(&root, &limit);
        assert!(walk.next().is_none());
        fs::rename(root.join("inner"), all.path().join("moved")).unwrap();
        symlink(all.path().join("elsewhere"), root.join("inner")).unwrap();
        let stays_inside = || match file.open(OFlags::RDONLY) {
            Ok(_) => assert_eq!(read(&file), b"inner"),
            Err((action, _)) => assert_eq!((action, most_open), ("open its directory again", 0)),
        };
        stays_inside();
        // Another directory of the same name is not the one that was listed, either.
        fs::remove_file(root.join("inner")).unwrap();
        fs::rename(all.path().join("elsewhere"), root.join("inner")).unwrap();
        stays_inside();
    }
}

#[test]
fn walk_fails_at_a_directory_that_becomes_a_link_before_entry() {
    let (all, root) = tree_and_secret();
    fs::write(root.join("first"), b"").unwrap();
    fs::remove_dir_all(root.join("inner")).unwrap();
    // Some of these follow the file in any order. The first system call returned all of them.
    for number in 0..50 {
        fs::create_dir(root.join(format!("{number}"))).unwrap();
    }
    let (walk, _) = found_file(&root, &Limit::new(10));
    for number in 0..50 {
        fs::remove_dir(root.join(format!("{number}"))).unwrap();
        symlink(all.path().join("elsewhere"), root.join(format!("{number}"))).unwrap();
    }
    for found in walk {
        assert!(matches!(&found, Err((_, reason)) if reason.starts_with("cannot list: ")));
    }
}

#[test]
fn walk_does_not_follow_or_await_what_a_file_becomes() {
    let (all, root) = tree_and_secret();
    let (_walk, file) = found_file(&root, &Limit::new(10));
    let path = root.join("inner/file");
    fs::remove_file(&path).unwrap();
    symlink(all.path().join("elsewhere/file"), &path).unwrap();
    let (action, error) = file.open(OFlags::RDONLY).unwrap_err();
    assert_eq!((action, error.raw_os_error()), ("open", Some(40)));
    assert_eq!(file.facts().unwrap().kind, FileType::Symlink);
    fs::remove_file(&path).unwrap();
    make_fifo(&path);
    let opened = file.open(OFlags::RDONLY).unwrap();
    assert!(opened.metadata().unwrap().file_type().is_fifo());
}

#[test]
fn walk_of_a_directory_removed_meanwhile_has_no_more_entries() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    for number in 0..3_000 {
        File::create(root.join(number.to_string())).unwrap();
    }
    let mut walk = walk_within(&root, &Limit::new(10));
    assert!(matches!(walk.next(), Some(Ok(_))));
    fs::remove_dir_all(&root).unwrap();
    let rest: Vec<_> = walk.collect();
    assert!(rest.len() < 2999);
    assert!(rest.iter().all(Result::is_ok));
}

#[test]
fn walk_that_ends_early_closes_what_it_opened() {
    let (_all, root) = tree_and_secret();
    let limit = Limit::new(10);
    let (walk, file) = found_file(&root, &limit);
    assert!(limit.open() > 0);
    drop((walk, file));
    assert_eq!(limit.open(), 0);
    let place = quick();
    chain(place.path(), 100);
    fs::write(place.path().join("file"), b"").unwrap();
    let limit = Limit::new(10);
    let rules = Everything {
        is_stopped: true,
        ..Everything::default()
    };
    assert_eq!(Walk::within(&limit, place.path(), rules).count(), 0);
    assert_eq!((limit.opened(), limit.open()), (0, 0));
}

/// Nested directories with this many levels.
fn chain(root: &Path, levels: usize) {
    let mut at = open(root);
    for _ in 0..levels {
        mkdirat(&at, c"d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, c"d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

/// How often a walk through a chain opens a directory.
fn openings(levels: usize, most_open: usize) -> u64 {
    let place = quick();
    chain(place.path(), levels);
    let limit = Limit::new(most_open);
    assert_eq!(walk_within(place.path(), &limit).count(), 0);
    limit.opened()
}

#[test]
fn walk_far_below_takes_no_longer_with_few_open_directories() {
    assert_eq!(openings(3000, 5000), 3000, "each once");
    for most_open in [1, 100] {
        // Once on the way down and once on the way up.
        let opened = openings(3000, most_open);
        assert!(opened < 6000, "{opened}");
    }
}

#[test]
fn walk_of_a_directory_moved_meanwhile_goes_on_with_the_rest() {
    for replaced in [false, true] {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().join("root");
        let middle = root.join("a/b");
        fs::create_dir_all(middle.join("c/d")).unwrap();
        fs::write(middle.join("c/d/file"), b"deep").unwrap();
        let limit = Limit::new(1);
        let (walk, file) = found_file(&root, &limit);
        fs::rename(middle.join("c"), all.path().join("moved")).unwrap();
        if replaced {
            // Directories above the one that was moved are missing, too.
            fs::rename(&middle, root.join("gone")).unwrap();
            fs::create_dir(&middle).unwrap();
        }
        assert_eq!(read(&file), b"deep", "it is open");
        let failed: Vec<_> = walk.filter_map(Result::err).collect();
        let moved = (middle, "cannot list: it was moved or removed meanwhile".to_owned());
        assert_eq!(failed, if replaced { vec![moved] } else { Vec::new() });
    }
}

#[test]
fn walk_opens_only_the_directory_that_was_seen() {
    let all = tempfile::tempdir().unwrap();
    let (path, other) = (all.path().join("directory"), all.path().join("other"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&other).unwrap();
    let seen = crate::files::FileId::of(&fs::symlink_metadata(&path).unwrap());
    assert!(open_seen(&path, seen).is_ok());
    fs::rename(&path, all.path().join("moved")).unwrap();
    symlink(&other, &path).unwrap();
    assert!(open_seen(&path, seen).is_err());
}
