//! Random pairs of trees, compared with a walk that is as simple as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::{Attribute, ContentsDiffer, EntryDifference, Side, TreeFinding, TreeOptions};
use super::{here, narrow, told};
use crate::testing::cases;
use crate::walk::Globs;

/// An entry of a tree.
#[derive(Clone, Debug)]
enum Node {
    /// This many bytes of one value, with the byte at this offset changed, if there is one; a mode; seconds.
    File(usize, Option<usize>, u32, u64),
    Directory(BTreeMap<Vec<u8>, Node>, u32),
    Link(Vec<u8>),
    Fifo,
}

/// Few names, so that both sides share some.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&[u8]> = vec![b"a", b"b", b"c\nd", b"\xff\xfe", b"\x1b[2J", b" ", b"a.b", b"zz"];
    prop::sample::select(names).prop_map(<[u8]>::to_vec)
}

fn node() -> impl Strategy<Value = Node> {
    // Around the lengths of slots and of blocks.
    let lengths = vec![0, 1, 100, 16_383, 16_384, 16_385, 131_071, 131_072, 131_073, 300_000];
    let changed = prop::option::weighted(0.3, prop::sample::select(vec![0_usize, 50, 16_384, 131_072, 200_000]));
    let file = (
        prop::sample::select(lengths),
        changed,
        prop::sample::select(vec![0o644, 0o600]),
        1..3_u64,
    );
    let leaf = prop_oneof![
        6 => file.prop_map(|(length, changed, mode, time)| Node::File(length, changed, mode, time)),
        1 => name().prop_map(Node::Link),
        1 => Just(Node::Fifo),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        let entries = prop::collection::btree_map(name(), inner, 0..8);
        (entries, prop::sample::select(vec![0o755, 0o700])).prop_map(|(entries, mode)| Node::Directory(entries, mode))
    })
}

fn directory() -> impl Strategy<Value = Node> {
    prop::collection::btree_map(name(), node(), 0..8).prop_map(|entries| Node::Directory(entries, 0o755))
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::File(length, changed, mode, time) => {
            let mut bytes = vec![7; *length];
            if let Some(byte) = changed.and_then(|at| bytes.get_mut(at)) {
                *byte = 8;
            }
            fs::write(path, bytes).unwrap();
            fs::set_permissions(path, Permissions::from_mode(*mode)).unwrap();
            let file = fs::File::open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(*time, 5))
                .unwrap();
        }
        Node::Directory(entries, mode) => {
            fs::create_dir(path).unwrap();
            for (name, node) in entries {
                make(&path.join(OsStr::from_bytes(name)), node);
            }
            fs::set_permissions(path, Permissions::from_mode(*mode)).unwrap();
        }
        Node::Link(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
        Node::Fifo => mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
    }
}

fn kind(metadata: &fs::Metadata) -> FileType {
    let kind = metadata.file_type();
    if kind.is_file() {
        FileType::RegularFile
    } else if kind.is_dir() {
        FileType::Directory
    } else if kind.is_symlink() {
        FileType::Symlink
    } else if kind.is_fifo() {
        FileType::Fifo
    } else {
        FileType::Unknown
    }
}

/// Compares by whole paths, one entry after the other.
fn naive(one: &Path, other: &Path, below: &Path, options: TreeOptions<'_>, found: &mut Vec<(PathBuf, TreeFinding)>) {
    let (left, right) = (one.join(below), other.join(below));
    let (left, right) = (trimmed(&left), trimmed(&right));
    let metadata = [&left, &right].map(fs::symlink_metadata);
    let [Ok(a), Ok(b)] = metadata.each_ref().map(|metadata| metadata.as_ref()) else {
        let side = if metadata[0].is_ok() { Side::Left } else { Side::Right };
        let there = metadata.iter().find_map(|metadata| metadata.as_ref().ok()).unwrap();
        let difference = match kind(there) {
            FileType::Directory if options.new_files => {
                let path = [&left, &right][side as usize];
                let mut names: Vec<_> = fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect();
                names.sort();
                for name in names.iter().filter(|name| !is_excluded(name.as_bytes(), options)) {
                    naive(one, other, &below.join(name), options, found);
                }
                return;
            }
            FileType::RegularFile if options.new_files && there.len() == 0 => return,
            FileType::RegularFile if options.new_files => {
                EntryDifference::Contents(ContentsDiffer::Ends(Side::BOTH[1 - side as usize], 0))
            }
            kind => EntryDifference::OnlyIn(side, kind),
        };
        found.push((below.to_owned(), TreeFinding::Difference(difference)));
        return;
    };
    let mut push = |difference| found.push((below.to_owned(), TreeFinding::Difference(difference)));
    if kind(a) != kind(b) {
        push(EntryDifference::Kinds([kind(a), kind(b)]));
        return;
    }
    match kind(a) {
        FileType::RegularFile => {
            if let Some(contents) = contents([&left, &right], options) {
                push(EntryDifference::Contents(contents));
            }
        }
        FileType::Symlink => {
            let targets = [&left, &right].map(|path| fs::read_link(path).unwrap());
            if targets[0] != targets[1] {
                push(EntryDifference::Targets(targets));
            }
        }
        FileType::Fifo => push(EntryDifference::Kinds([FileType::Fifo; 2])),
        _ => {}
    }
    if options.metadata {
        let mut differ = Vec::new();
        if a.mode() != b.mode() {
            differ.push(Attribute::Mode([a.mode() & 0o7777, b.mode() & 0o7777]));
        }
        let modified = [a, b].map(|metadata| (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap()));
        if modified[0] != modified[1] {
            differ.push(Attribute::Modified(modified));
        }
        if !differ.is_empty() {
            push(EntryDifference::Metadata(differ));
        }
    }
    if kind(a) == FileType::Directory {
        let list = |path: &Path| {
            fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_vec())
        };
        let names: BTreeSet<Vec<u8>> = list(&left).chain(list(&right)).collect();
        for name in names.into_iter().filter(|name| !is_excluded(name, options)) {
            naive(one, other, &below.join(OsString::from_vec(name)), options, found);
        }
    }
}

/// Whether the patterns that [`tree_differs_where_a_naive_walk_says`] excludes match a name.
fn is_excluded(name: &[u8], options: TreeOptions<'_>) -> bool {
    options.exclude.is_some() && (name == b"a" || name.ends_with(b".b"))
}

/// Joining nothing leaves a slash behind.
fn trimmed(path: &Path) -> PathBuf {
    path.components().collect()
}

fn contents(paths: [&Path; 2], options: TreeOptions<'_>) -> Option<ContentsDiffer> {
    let [one, other] = paths.map(|path| fs::read(path).unwrap());
    let sizes = [one.len() as u64, other.len() as u64];
    if options.brief && one.len() != other.len() && !sizes.contains(&0) {
        return Some(ContentsDiffer::Sizes(sizes));
    }
    let at = one.iter().zip(&other).position(|(one, other)| one != other);
    match (at, one.len().cmp(&other.len())) {
        (Some(at), _) => Some(ContentsDiffer::At(at as u64)),
        (None, std::cmp::Ordering::Less) => Some(ContentsDiffer::Ends(Side::Left, sizes[0])),
        (None, std::cmp::Ordering::Greater) => Some(ContentsDiffer::Ends(Side::Right, sizes[1])),
        (None, std::cmp::Ordering::Equal) => None,
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn tree_differs_where_a_naive_walk_says(
        one in directory(),
        other in directory(),
        metadata: bool,
        brief: bool,
        new_files: bool,
        excludes: bool,
        is_narrow: bool,
    ) {
        let all = tempfile::tempdir().unwrap();
        let (left, right) = (all.path().join("one"), all.path().join("other"));
        make(&left, &one);
        make(&right, &other);
        let globs = Globs::new(&["a", "*.b"], &[]).unwrap();
        let options = TreeOptions { metadata, brief, new_files, exclude: excludes.then_some(&globs), ..TreeOptions::default() };
        let mut expected = Vec::new();
        naive(&left, &right, Path::new(""), options, &mut expected);
        let plan = if is_narrow { narrow() } else { here() };
        let (summary, found) = told(plan.clone(), &left, &right, options);
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!((summary.differences, summary.failures), (expected.len() as u64, 0));
        let twin = all.path().join("twin");
        make(&twin, &one);
        let mut found = told(plan, &left, &twin, TreeOptions::default()).1;
        found.retain(|(_, found)| *found != TreeFinding::Difference(EntryDifference::Kinds([FileType::Fifo; 2])));
        prop_assert_eq!(found, vec![]);
    }

    /// By a plan that lists 8 entries at a time.
    #[test]
    fn tree_listed_in_parts_differs_where_a_naive_walk_says(
        nodes in prop::collection::vec((0..6_u8, any::<u8>()), 0..60),
    ) {
        let all = tempfile::tempdir().unwrap();
        let roots = ["one", "other"].map(|name| all.path().join(name));
        for root in &roots {
            fs::create_dir_all(root.join("inner")).unwrap();
        }
        for (kind, name) in &nodes {
            let [left, right] = roots.each_ref().map(|root| root.join(format!("inner/{name}")));
            let make = |path: &Path, bytes: &[u8]| drop(fs::write(path, bytes));
            match kind {
                0 => make(&left, b"one"),
                1 => make(&right, b"other"),
                2 => drop(fs::create_dir(left)),
                3 => drop([left, right].map(|path| fs::create_dir_all(path.join("inner")))),
                4 => drop([left, right].map(|path| make(&path, b"same"))),
                _ => drop([left, right].map(|path| make(&path, path.as_os_str().as_bytes()))),
            }
        }
        let mut expected = Vec::new();
        naive(&roots[0], &roots[1], Path::new(""), TreeOptions::default(), &mut expected);
        let (summary, found) = told(narrow(), &roots[0], &roots[1], TreeOptions::default());
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!((summary.differences, summary.failures), (expected.len() as u64, 0));
    }
}
