//! `seekless cmp -rq` compared with the system's `diff -rq --no-dereference`, if that is GNU's: the same lines, the same
//! exit code and the same paths that cannot be read, in random trees.
//!
//! What is not compared: diff calls two devices of one number equal if they were made in the same moment, and with -N it fails for
//! a symbolic link that only one side has.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use fastrand::Rng;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::place::{is_long, set_mode};
use crate::common::unprivileged::Common;

const CASES: u64 = 60;
const CASES_LONG: u64 = 200;
const NAMES: [&[u8]; 8] = [b"a", b"b", b"a.o", b"sub", b"x y", b"c\nd", b"\xff", b".hidden"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    Directory,
    Link,
    Fifo,
    Socket,
    Device,
}

fn kind(random: &mut Rng) -> Kind {
    match random.u8(..20) {
        0..9 => Kind::File,
        9..15 => Kind::Directory,
        15..17 => Kind::Link,
        17 => Kind::Fifo,
        18 => Kind::Socket,
        _ => Kind::Device,
    }
}

/// Makes an entry on each side that is given.
fn make(random: &mut Rng, paths: &[Option<PathBuf>; 2], depth: u32) {
    let one = kind(random);
    let kinds = [one, if random.u8(..8) == 0 { kind(random) } else { one }];
    if kinds == [Kind::Directory; 2] {
        return make_directory(random, paths, depth);
    }
    let content = random.usize(..5);
    let is_on_both = paths.iter().all(Option::is_some);
    for (path, kind) in paths
        .iter()
        .zip(kinds)
        .filter_map(|(path, kind)| Some((path.as_ref()?, kind)))
    {
        let special = |kind, number| {
            let _ = mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), number);
        };
        let content = if random.u8(..3) == 0 {
            random.usize(..5)
        } else {
            content
        };
        match kind {
            Kind::Directory => make_directory(random, &[Some(path.clone()), None], depth),
            Kind::Link => symlink(["a", "b", "nowhere", "sub/a", "."][content], path).unwrap(),
            Kind::Fifo => special(FileType::Fifo, 0),
            Kind::Socket => special(FileType::Socket, 0),
            // Without root, none is made.
            Kind::Device => special(FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
            Kind::File => {
                let long = vec![b'z'; 70_000];
                let bytes = [&b""[..], b"x", b"y", b"xy", &long][content];
                fs::write(path, bytes).unwrap();
                // With -N, diff takes an empty file without rights for a missing one.
                if is_on_both && !bytes.is_empty() && random.u8(..20) == 0 {
                    set_mode(path, 0o000);
                }
            }
        }
    }
}

fn make_directory(random: &mut Rng, paths: &[Option<PathBuf>; 2], depth: u32) {
    for path in paths.iter().flatten() {
        fs::create_dir(path).unwrap();
    }
    for name in NAMES {
        let sides = match random.u8(..12) {
            _ if depth == 0 => break,
            0..6 => [true, true],
            6 => [true, false],
            7 => [false, true],
            _ => continue,
        };
        let path = |side: usize| {
            Some(
                paths[side]
                    .as_ref()
                    .filter(|_| sides[side])?
                    .join(OsStr::from_bytes(name)),
            )
        };
        make(random, &[path(0), path(1)], depth - 1);
    }
    for path in paths.iter().flatten().filter(|_| depth < 3) {
        if random.u8(..30) == 0 {
            set_mode(path, 0o000);
        }
    }
}

/// Text with the names as seekless shows them.
fn shown(text: &[u8]) -> String {
    let text: Vec<u8> = text
        .iter()
        .flat_map(|byte| if *byte == 0xff { b"\\xff".to_vec() } else { vec![*byte] })
        .collect();
    String::from_utf8(text).unwrap().replace("c\nd", "c\\nd")
}

/// The path that is shown so.
fn hidden(shown: &str) -> PathBuf {
    let parts = shown.split("\\xff").map(|part| part.replace("\\n", "\n").into_bytes());
    let bytes = parts.collect::<Vec<_>>().join(&b"\xff"[..]);
    PathBuf::from(OsString::from_vec(bytes))
}

/// The paths of errors, without the program and what failed.
fn failed(text: &str, program: &str) -> BTreeSet<String> {
    let paths = text.lines().map(|line| {
        let line = line.strip_prefix(program).unwrap_or_else(|| panic!("{line}"));
        line.split(": ").next().unwrap().to_owned()
    });
    paths.collect()
}

/// Whether a line is of two devices.
fn is_of_devices(line: &str) -> bool {
    line.matches(" is a character special file").count() == 2
}

fn has_gnu_diff() -> bool {
    let version = Command::new("diff").arg("--version").output();
    let is_there = version.is_ok_and(|version| version.stdout.starts_with(b"diff (GNU diffutils)"));
    if !is_there {
        println!("skipped: there is no GNU diff");
    }
    is_there
}

/// Asserts that both print the same lines and have the same code; whether the trees are equal.
fn assert_as_diff(common: &Common, words: &[&str]) -> bool {
    let theirs = common.command("diff").args(words).env("LC_ALL", "C").output().unwrap();
    let ours = common.run(("cmp", words));
    assert_eq!(ours.stdout, shown(&theirs.stdout), "{words:?}");
    assert_eq!(ours.code, theirs.status.code(), "{words:?}: {}", ours.stderr);
    ours.code == Some(0)
}

fn make_files(common: &Common, names: &[&str]) {
    for name in names {
        let path = common.directory().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

#[test]
fn cmp_exclude_takes_patterns_as_diff() {
    if !has_gnu_diff() {
        return;
    }
    let common = Common::new();
    let names = r"a b Z 5 c5 x.o {a,b} [ ] \ .hid a*b { } - ! ^ ~ sub/a sub/n [a] [:digit:]".split(' ');
    let names: Vec<String> = names.map(|name| format!("one/{name}")).collect();
    make_files(&common, &names.iter().map(String::as_str).collect::<Vec<_>>());
    make_files(&common, &["one/d e", "other/sub/z"]);
    let parts: Vec<&str> = r"a b * ? [ ] ! ^ - \ { } , [:digit:] [:alpha:] [:x:] : 5 . ~"
        .split(' ')
        .collect();
    let known = r"{a,b} */ a/ sub/ sub// [[:digit:]] *[[:digit:]] [[:alpha:]]* [ { } \ \\ [b-a] [!b-a] * ? .* []] []-a] [!]a] [^a]
        [a-] [[] [\]] [[:punct:]] [[:space:]] *[[:blank:]]* [[:upper:][:digit:]] [[:x:]] [[:digit:] ~";
    let mut patterns: Vec<String> = known.split_whitespace().chain([""]).map(str::to_owned).collect();
    let mut random = Rng::with_seed(7);
    patterns.extend((0..if is_long() { 150 } else { 40 }).map(|_| {
        (0..random.usize(1..7))
            .map(|_| parts[random.usize(..parts.len())])
            .collect()
    }));
    let mut equal = 0;
    for pattern in patterns {
        equal += u32::from(assert_as_diff(&common, &["-rq", "-x", &pattern, "one", "other"]));
    }
    assert!(equal > 0, "`*` excludes all");
}

#[test]
fn cmp_trees_prints_roots_as_given() {
    if !has_gnu_diff() {
        return;
    }
    let common = Common::new();
    make_files(
        &common,
        &["one/top", "one/sub/file", "other/sub/more", "one/both", "other/both"],
    );
    for ending in ["", "/", "//", "/.", "/./"] {
        for beginning in ["", "./", ".//"] {
            let roots = ["one", "other"].map(|name| format!("{beginning}{name}{ending}"));
            assert!(!assert_as_diff(&common, &["-rq", &roots[0], &roots[1]]));
        }
    }
}

#[test]
fn cmp_new_file_takes_missing_files_as_empty() {
    if !has_gnu_diff() {
        return;
    }
    let common = Common::new();
    make_files(&common, &["file", "tree/file"]);
    fs::write(common.directory().join("empty"), "").unwrap();
    let names = ["file", "empty", "tree", "missing", "missing/below", "file/below"];
    let mut equal = 0;
    for options in [&["-rNq"][..], &["-rq", "--new-file"], &["-qN"], &["-rq"]] {
        for one in names {
            for other in names {
                // Ours compares a file with a directory, not with the file of its name in there.
                if [one, other].contains(&"tree") && [one, other].iter().any(|name| ["file", "empty"].contains(name)) {
                    continue;
                }
                equal += u32::from(assert_as_diff(&common, &[options, &[one, other]].concat()));
            }
        }
    }
    assert!(equal > 9, "{equal}");
}

#[test]
fn cmp_trees_prints_random_differences_as_diff() {
    if !has_gnu_diff() {
        return;
    }
    let common = Common::new();
    fs::write(common.directory().join("patterns"), "sub\n*.o  \n\n").unwrap();
    let (mut differences, mut equal, mut unread) = (0, 0, 0);
    let cases = if is_long() { CASES_LONG } else { CASES };
    for seed in 0..cases {
        let mut random = Rng::with_seed(seed);
        let all = common.directory().join("open/trees");
        let roots = ["one", "other"].map(|name| all.join(name));
        fs::create_dir_all(&all).unwrap();
        let mut words: Vec<&str> = [&["-rq"][..], &["-r", "--brief"], &["-r", "-q"]][random.usize(..3)].to_vec();
        let new_files = random.bool();
        if new_files {
            words.push(["-N", "--new-file"][random.usize(..2)]);
        }
        let excluding = [
            &[][..],
            &[],
            &["-x", "*.o"],
            &["-x[ab]", "--exclude=?"],
            &["-X", "patterns"],
            &["--exclude", "*"],
        ];
        words.extend(excluding[random.usize(..excluding.len())]);
        words.extend(["open/trees/one", "open/trees/other"]);
        let is_missing = new_files && random.u8(..10) == 0;
        let depth = random.u32(1..4);
        make_directory(
            &mut random,
            &roots
                .clone()
                .map(|root| Some(root).filter(|root| !is_missing || root.ends_with("one"))),
            depth,
        );
        let mut diff = common.command("diff");
        let theirs = diff
            .arg("--no-dereference")
            .args(&words)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let ours = common.run(("cmp", &words));

        let is_link = |line: &str| {
            let path = line.strip_prefix("Only in ").and_then(|line| line.split_once(": "));
            let path = path.map(|(directory, name)| hidden(&format!("{directory}/{name}")));
            new_files && path.is_some_and(|path| common.directory().join(path).is_symlink())
        };
        let expected = shown(&theirs.stdout);
        let expected: Vec<&str> = expected.lines().filter(|line| !is_of_devices(line)).collect();
        let devices = ours.stdout.lines().filter(|line| is_of_devices(line)).count();
        let others = ours.stdout.lines().filter(|line| !is_of_devices(line));
        let (links, found): (Vec<&str>, Vec<&str>) = others.partition(|line| is_link(line));
        assert_eq!(found, expected, "seed {seed}: {words:?}");
        let errors = shown(&theirs.stderr);
        let errors: Vec<&str> = errors
            .lines()
            .filter(|line| !line.ends_with(": No such file or directory"))
            .collect();
        let [expected_failed, found_failed] =
            [failed(&errors.join("\n"), "diff: "), failed(&ours.stderr, "seekless: ")];
        assert_eq!(found_failed, expected_failed, "seed {seed}: {words:?}");
        let code = match (errors.len(), found.len() + links.len() + devices) {
            (0, 0) => 0,
            (0, _) => 1,
            _ => 2,
        };
        assert_eq!(ours.code, Some(code), "seed {seed}: {words:?}");
        differences += found.len();
        equal += u32::from(code == 0);
        unread += errors.len();
        let opened = Command::new("chmod").args(["-R", "u+rwX"]).arg(&all).status().unwrap();
        assert!(opened.success());
        fs::remove_dir_all(all).unwrap();
    }
    let told = format!("{cases} cases: {differences} differences, {equal} equal, {unread} errors");
    println!("{told}");
    assert!(differences > 100 && equal > 1 && unread > 5, "{told}");
}
