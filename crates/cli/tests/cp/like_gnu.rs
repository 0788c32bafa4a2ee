//! `seekless cp` compared with the system's `cp -a`, if that is GNU's: the same exit code, and the same trees afterwards, sources
//! included. Each deliberate difference has a reason; a case that has one and does not differ fails, too.
//!
//! What is not compared: what is printed, times of access, and times that the commands set to the present.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};

use crate::common::disks::{attribute, list_with_mask};
use crate::common::place::{Ended, Place};

/// What a copy that fails, or lacks something, exits with; as with GNU's.
const FAILED: i32 = 1;

/// A command line, and whether the two commands differ.
struct Case {
    words: &'static [&'static str],
    /// The options of GNU's command that mean the same as those here.
    gnu: &'static [&'static str],
    /// Why the two differ.
    differs: Option<&'static str>,
}

const fn same(words: &'static [&'static str]) -> Case {
    Case {
        words,
        gnu: &["-a"],
        differs: None,
    }
}

const fn by(gnu: &'static [&'static str], words: &'static [&'static str]) -> Case {
    Case { gnu, ..same(words) }
}

const fn other(differs: &'static str, words: &'static [&'static str]) -> Case {
    Case {
        differs: Some(differs),
        ..same(words)
    }
}

const REPLACED: &str = "a link of the target is replaced, never followed";

/// The operands are entries that [`lay_out`] makes.
const CASES: &[Case] = &[
    // What the target means.
    same(&["tree", "new"]),
    same(&["tree", "into"]),
    same(&["tree/", "into"]),
    same(&["tree/.", "into"]),
    same(&["tree/.", "new"]),
    same(&["tree", "new/"]),
    same(&["-T", "tree", "into"]),
    same(&["-T", "tree", "new"]),
    same(&["-T", "tree", "full/tree"]),
    same(&["-T", "tree", "."]),
    same(&["tree", "full"]),
    by(&["-a"], &["-a", "tree", "plain", "link", "fifo", "into"]),
    same(&["tree", "plain", "new"]),
    same(&["-t", "into", "plain", "tree"]),
    same(&["-t", "new", "plain"]),
    same(&["-t", "plain", "tree"]),
    same(&["plain", "new"]),
    same(&["plain", "new/"]),
    same(&["plain", "into"]),
    same(&["plain", "into/"]),
    same(&["-T", "plain", "into"]),
    same(&["-T", "plain", "."]),
    same(&["tree", "plain"]),
    same(&["plain/", "into"]),
    same(&["nothing", "into"]),
    same(&["nothing", "plain", "into"]),
    same(&["plain", "nothing/new"]),
    // Words that are done anyway.
    by(&["-a"], &["-a", "tree", "new"]),
    by(&["-a"], &["-R", "-p", "tree", "new"]),
    by(&["-a"], &["-rd", "tree", "new"]),
    by(&["-a"], &["-f", "tree", "full"]),
    by(&["-a"], &["-v", "tree", "full"]),
    by(&["-ax"], &["-x", "tree", "new"]),
    by(
        &["-a", "--remove-destination"],
        &["--remove-destination", "tree", "full"],
    ),
    by(
        &["-a", "--reflink=auto", "--reflink=never"],
        &["--reflink=auto", "--reflink=never", "plain", "new"],
    ),
    by(
        &["-a", "--reflink", "--sparse=never"],
        &["--reflink", "--sparse=never", "plain", "new"],
    ),
    // What exists in the target.
    other(
        "a file is replaced by another, not written over, so its directory changes",
        &["plain", "full/plain"],
    ),
    same(&["plain", "full/shared"]),
    same(&["-u", "tree", "full"]),
    same(&["-u", "plain", "full"]),
    same(&["link", "full/plain"]),
    by(&["-a"], &["-a", "fifo", "full/plain"]),
    by(&["-a"], &["-a", "fifo", "full/link"]),
    same(&["tree", "full/link"]),
    same(&["-T", "tree", "to_into"]),
    other(REPLACED, &["plain", "link"]),
    other(REPLACED, &["plain", "dangling"]),
    other(REPLACED, &["-T", "plain", "to_into"]),
    // Links of the source.
    same(&["link", "into"]),
    same(&["dangling", "into"]),
    same(&["to_into", "new"]),
    same(&["to_tree/", "into"]),
    by(&["-a", "-H"], &["-H", "link", "into"]),
    by(&["-a", "-H"], &["-H", "to_tree", "into"]),
    by(&["-a", "-H"], &["-a", "-H", "to_fifo", "into"]),
    by(&["-a", "-H"], &["-H", "dangling", "into"]),
    by(&["-a", "-L"], &["-L", "link", "into"]),
    by(&["-a", "-L"], &["-L", "to_tree", "into"]),
    by(&["-a", "-L"], &["-a", "-L", "to_fifo", "into"]),
    by(&["-a", "-L"], &["-L", "links", "into"]),
    by(&["-a", "-P"], &["-L", "-P", "link", "into"]),
    by(&["-La"], &["-La", "links", "into"]),
    by(&["-a", "-L"], &["-aL", "-L", "links", "into"]),
    by(&["-L", "-dR", "--preserve=all"], &["-L", "-dR", "links", "into"]),
    // Hard links.
    same(&["tree/one", "tree/two", "tree/sub/three", "into"]),
    same(&["tree/sub", "tree/one", "into"]),
    same(&["tree/one", "tree", "into"]),
    by(
        &["-a"],
        &[
            "-a",
            "tree/link",
            "tree/sub/link_too",
            "tree/fifo",
            "tree/fifo_too",
            "into",
        ],
    ),
    by(&["-a", "-L"], &["-a", "-L", "tree/fifo", "tree/fifo_too", "into"]),
    by(&["-a", "--no-preserve=links"], &["--no-preserve=links", "tree", "new"]),
    // One and the same.
    same(&["plain", "plain"]),
    same(&["link", "plain"]),
    same(&["tree/one", "tree/two"]),
    same(&["-T", "tree", "tree"]),
    other(
        "a tree that is copied into itself is refused before anything is made",
        &["tree", "tree/sub/new"],
    ),
    other(
        "a tree that is copied into itself is refused before anything is made",
        &["tree", "tree"],
    ),
    other("each name is copied once", &["plain", "./plain", "into"]),
    // What is kept.
    by(
        &["-a", "--no-preserve=mode,ownership,timestamps"],
        &["--no-preserve=mode,ownership,timestamps", "plain", "tree/set", "into"],
    ),
    by(
        &["-a", "--no-preserve=timestamps"],
        &["--no-preserve=timestamps", "tree", "new"],
    ),
    by(
        &["-a", "--no-preserve=ownership"],
        &["--no-preserve=ownership", "plain", "into"],
    ),
    by(
        &["-dR", "--preserve=timestamps"],
        &["--preserve=timestamps", "plain", "into"],
    ),
    // How bytes are copied.
    by(&["-a", "--sparse=always"], &["--sparse=always", "tree", "new"]),
    by(&["-a", "--sparse=never"], &["--sparse=never", "tree", "new"]),
    by(&["-a", "--reflink=never"], &["--reflink=never", "tree", "new"]),
];

/// 1,000,000,007 s and some nanoseconds after 1970.
fn old(nanoseconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, nanoseconds)
}

fn write_file(path: impl AsRef<Path>, bytes: &[u8], mode: u32) {
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn directory(path: &Path) -> &Path {
    fs::create_dir(path).unwrap();
    path
}

/// Makes entries of all kinds, the same each time. No link leads out of the directory: some cases follow all links.
fn lay_out(top: &Path) {
    let tree = directory(&top.join("tree")).to_owned();
    write_file(tree.join("file"), &b"some bytes ".repeat(30_000), 0o640);
    write_file(tree.join("empty"), b"", 0o400);
    write_file(tree.join("set"), b"#!", 0o6755);
    write_file(tree.join("listed"), b"for 77, too", 0o600);
    attribute(&tree.join("listed"), "system.posix_acl_access", &list_with_mask(4));
    attribute(&tree.join("file"), "user.about", b"\0value");
    write_file(tree.join("one"), b"three names", 0o644);
    fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
    directory(&tree.join("sub"));
    fs::hard_link(tree.join("one"), tree.join("sub/three")).unwrap();
    write_file(
        tree.join("sub").join(std::ffi::OsStr::from_bytes(b"\xff\n")),
        b"odd",
        0o644,
    );
    let holes = File::create(tree.join("holes")).unwrap();
    holes.set_len(6 << 20).unwrap();
    holes.write_all_at(&vec![7; 100_000], 2 << 20).unwrap();
    symlink("file", tree.join("link")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    fs::hard_link(tree.join("link"), tree.join("sub/link_too")).unwrap();
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        mknodat(CWD, tree.join(name), kind, Mode::from_raw_mode(0o620), 0).unwrap();
    }
    fs::hard_link(tree.join("fifo"), tree.join("fifo_too")).unwrap();
    if rustix::process::geteuid().is_root() {
        mknodat(
            CWD,
            tree.join("device"),
            FileType::BlockDevice,
            Mode::from_raw_mode(0o604),
            makedev(7, 200),
        )
        .unwrap();
        std::os::unix::fs::lchown(tree.join("file"), Some(12), Some(34)).unwrap();
        std::os::unix::fs::lchown(tree.join("link"), Some(56), Some(78)).unwrap();
    }
    directory(&tree.join("closed"));
    write_file(tree.join("closed/in"), b"in", 0o444);
    attribute(&tree.join("closed"), "system.posix_acl_default", &list_with_mask(7));
    fs::set_permissions(tree.join("closed"), Permissions::from_mode(0o2550)).unwrap();

    let plain = top.join("plain");
    write_file(&plain, b"plain", 0o750);
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for (name, target) in [
        ("link", "plain"),
        ("dangling", "nowhere"),
        ("to_into", "into"),
        ("to_tree", "tree"),
        ("to_fifo", "fifo"),
    ] {
        symlink(target, top.join(name)).unwrap();
    }
    let links = directory(&top.join("links")).to_owned();
    for (name, target) in [
        ("a", "../plain"),
        ("b", "../plain"),
        ("c", "../fifo"),
        ("d", "../tree/sub"),
    ] {
        symlink(target, links.join(name)).unwrap();
    }
    directory(&top.join("into"));
    let full = directory(&top.join("full")).to_owned();
    directory(&full.join("tree"));
    directory(&full.join("tree/sub"));
    write_file(full.join("tree/file"), b"older", 0o777);
    write_file(full.join("tree/extra"), b"extra", 0o666);
    write_file(full.join("plain"), b"newer", 0o600);
    write_file(full.join("shared"), b"shared", 0o600);
    fs::hard_link(full.join("shared"), full.join("shared_too")).unwrap();
    symlink("nowhere", full.join("link")).unwrap();
    age(top, &mut 1);
    let newer = FileTimes::new().set_modified(old(0) + Duration::from_secs(99));
    File::open(full.join("plain")).unwrap().set_times(newer).unwrap();
}

/// Gives everything in a directory a different time in the past.
fn age(directory: &Path, nanoseconds: &mut u32) {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            age(&path, nanoseconds);
        }
        *nanoseconds += 1_000_003;
        let time = Timespec {
            tv_sec: 1_000_000_007,
            tv_nsec: (*nanoseconds).into(),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// What is below a directory: a line for each path.
fn seen(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut inodes = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    let mut paths = Vec::new();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                left.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let found = fs::symlink_metadata(&path).unwrap();
        let kind = found.file_type();
        let name = path.strip_prefix(top).unwrap().to_owned();
        let is_present = found.modified().unwrap() > old(0) + Duration::from_secs(1000);
        let modified = if is_present {
            (0, 0)
        } else {
            (found.mtime(), found.mtime_nsec())
        };
        let mut line = format!("{:o} {}:{} {modified:?}", found.mode(), found.uid(), found.gid());
        if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            write!(line, " -> {}", target.display()).unwrap();
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            write!(line, " {} bytes, crc {:x}", bytes.len(), crc(&bytes)).unwrap();
            if found.len() > 1 << 20 {
                // Blocks of the tree of extents may differ.
                write!(line, " {} units of 64K", found.blocks() / 128).unwrap();
            }
        } else if kind.is_block_device() || kind.is_char_device() {
            write!(line, " device {:x}", found.rdev()).unwrap();
        }
        if !kind.is_dir() {
            let first = inodes.entry(found.ino()).or_insert_with(|| name.clone());
            write!(line, " {} names, {}", found.nlink(), first.display()).unwrap();
        }
        line += &attributes(&path);
        seen.insert(name, line);
    }
    seen
}

fn crc(bytes: &[u8]) -> u64 {
    bytes.iter().fold(1, |sum, byte| {
        (sum.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

fn attributes(path: &Path) -> String {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let mut names: Vec<&[u8]> = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    let value = |name: &&[u8]| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, *name, &mut value).unwrap_or(0);
        format!(" {}={:?}", String::from_utf8_lossy(name), &value[..length])
    };
    names.iter().map(value).collect()
}

fn is_gnu() -> bool {
    let output = Command::new("cp").arg("--version").output();
    let is_gnu = output.is_ok_and(|output| output.stdout.starts_with(b"cp (GNU coreutils)"));
    if !is_gnu {
        println!("skipped: cp is not GNU's");
    }
    is_gnu
}

/// Runs a command in a directory that is laid out as each time.
fn ended(program: &str, words: &[&str]) -> (Option<i32>, BTreeMap<PathBuf, String>, String) {
    let place = Place::new();
    lay_out(&place.directory());
    let ended = Ended::of(place.command_of(program).args(words).spawn().unwrap());
    let seen = seen(&place.directory());
    (ended.code, seen, ended.stderr)
}

/// How the commands differ in a case.
fn difference(case: &Case) -> Option<String> {
    let ours = [&["cp"], case.words].concat();
    let ours = ended(env!("CARGO_BIN_EXE_seekless"), &ours);
    let gnu = ended("cp", &[case.gnu, case.words].concat());
    let mut differences = Vec::new();
    if ours.0 != gnu.0 || ours.0.is_none_or(|code| code != 0 && code != FAILED) {
        differences.push(format!(
            "exit code: {:?}, GNU's {:?}\n{}{}",
            ours.0, gnu.0, ours.2, gnu.2
        ));
    }
    let paths = ours
        .1
        .keys()
        .chain(gnu.1.keys().filter(|path| !ours.1.contains_key(*path)));
    for path in paths {
        let [ours, gnu] = [&ours, &gnu].map(|ended| ended.1.get(path));
        if ours != gnu {
            differences.push(format!("{}:\n  ours {ours:?}\n  gnu  {gnu:?}", path.display()));
        }
    }
    (!differences.is_empty()).then(|| differences.join("\n"))
}

#[test]
fn cp_command_lines_do_what_gnu_cp_does() {
    if !is_gnu() {
        return;
    }
    let mut wrong = Vec::new();
    for case in CASES {
        let words = case.words.join(" ");
        match (difference(case), case.differs) {
            (Some(difference), None) => wrong.push(format!("seekless cp {words}: {difference}")),
            (None, Some(reason)) => wrong.push(format!("seekless cp {words}: no longer differs ({reason})")),
            _ => {}
        }
    }
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} of {} cases:\n{}",
        CASES.len(),
        wrong.join("\n")
    );
}
