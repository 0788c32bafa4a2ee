//! Comparing trees: exit codes, the forms of output, and what cannot be read.

use std::ffi::OsStr;
use std::fs::{self};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::common::disks::{attribute, set_modified};
use crate::common::place::{Place, set_mode, words};
use crate::common::unprivileged::Common;

/// Two trees that differ in a file, a name that is not UTF-8, and a link.
fn place() -> Place {
    let place = Place::new();
    for tree in ["one", "other"] {
        fs::create_dir_all(place.path(tree).join("inner")).unwrap();
        place.file(format!("{tree}/same"), b"the same");
        place.file(format!("{tree}/inner/file"), tree.as_bytes());
        symlink(tree, place.path(tree).join("link")).unwrap();
    }
    fs::write(place.path("other").join(OsStr::from_bytes(b"new\n\xff")), b"").unwrap();
    place
}

#[test]
fn cmp_trees_lists_differences_by_name_and_exits_1() {
    let ended = place().run("cmp -r one other");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let expected = [
        "Files one/inner/file and other/inner/file differ: byte 2",
        "Symbolic links one/link and other/link differ: one and other",
        "Only in other: new\\n\\xff",
    ];
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!((lines.as_slice(), ended.stderr.as_str()), (&expected[..], ""));
}

#[test]
fn cmp_trees_exits_0_if_equal_and_2_if_missing() {
    let place = place();
    for (words, sentence) in [
        ("cmp -r one one", ""),
        ("cmp -rq one one", ""),
        ("cmp -r --stats one one", "2 files, 11 B on each side, in 2 directories"),
        ("cmp -r --stats one/same other/same", "1 file, 8 B on each side"),
        ("cmp -r one/same one/same", ""),
    ] {
        let equal = place.succeeds(words);
        assert_eq!(equal.stdout, "", "{words:?}");
        let is_said = equal.stderr.starts_with(sentence) && equal.stderr.is_empty() == sentence.is_empty();
        assert!(is_said, "{words:?}: {}", equal.stderr);
    }
    place.refuses("cmp -r one gone", &["gone: cannot stat"]);
    place.refuses(
        "cmp -r one/same /dev/null",
        &["are neither directories nor regular files"],
    );
    let files = place.run("cmp -r one/inner/file other/inner/file");
    let expected = "Files one/inner/file and other/inner/file differ: byte 2\n";
    assert_eq!((files.code, files.stdout.as_str()), (Some(1), expected));
    let ended = place.run("cmp -r one/same other");
    assert_eq!(ended.code, Some(1), "a file against a directory is a difference");
}

#[test]
fn cmp_trees_ignores_the_order_of_access_list_entries() {
    let place = Place::new();
    // user::rw-, user:77:r--, user:78:rw-, group::---, mask::rw-, other::---
    let (user, more) = ((2_u16, 4_u16, 77), (2, 6, 78));
    for (tree, users) in [
        ("one", [user, more]),
        ("other", [more, user]),
        ("less", [user, (2, 4, 78)]),
    ] {
        let file = place.file(format!("{tree}/file"), b"same");
        set_modified(&file, 1_000_000_000);
        let entries = [
            (1, 6, u32::MAX),
            users[0],
            users[1],
            (4, 0, !0),
            (16, 6, !0),
            (32, 0, !0),
        ];
        let entries = entries.map(|(tag, rights, id): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        });
        let list = [&2_u32.to_le_bytes()[..], &entries.concat()].concat();
        if !attribute(&file, "system.posix_acl_access", &list) {
            return;
        }
    }
    place.succeeds("cmp -r --metadata one/file other/file");
    place.fails(1, "cmp -r --metadata one/file less/file");
}

#[test]
fn cmp_trees_jsonl_has_differences_and_a_summary() {
    let objects = place().fails(1, "cmp -r --jsonl one other").json_lines();
    let what: Vec<_> = objects.iter().map(|object| object["what"].as_str()).collect();
    assert_eq!(what, [Some("contents"), Some("target"), Some("only_in"), None]);
    assert_eq!(objects[0]["offset"], 1);
    assert_eq!(objects[2]["path_bytes"], "6f746865722f6e65770aff");
    let summary = &objects[3];
    assert_eq!(
        (&summary["kind"], &summary["differences"]),
        (&"summary".into(), &3.into())
    );
}

#[test]
fn cmp_trees_brief_and_zero_print_names_alone() {
    let place = place();
    for words in [&["-rq"][..], &["-r", "--brief"], &["-qr"], &["-r", "-q", "-x", "a"]] {
        let brief = place.run(("cmp", words, "one other"));
        let expected = "Files one/inner/file and other/inner/file differ\n\
            Symbolic links one/link and other/link differ\nOnly in other: new\\n\\xff\n";
        assert_eq!((brief.code, brief.stdout.as_str()), (Some(1), expected), "{words:?}");
    }
    let output = place.command().args(words("cmp -r -0 one other")).output().unwrap();
    assert_eq!(output.stdout, b"one/inner/file\0one/link\0other/new\n\xff\0");
    for option in ["-s", "--quiet", "--silent"] {
        let silent = place.run(&["cmp", "-r", option, "one", "other"]);
        assert_eq!(
            (silent.code, silent.stdout.as_str(), silent.stderr.as_str()),
            (Some(1), "", "")
        );
    }
}

#[test]
fn cmp_trees_names_unreadable_entries_and_does_the_rest() {
    let common = Common::new();
    for tree in ["one", "other"] {
        let path = |name: &str| common.directory().join("open").join(tree).join(name);
        fs::create_dir_all(path("shut")).unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::write(path("open/z"), tree).unwrap();
        fs::write(path("secret"), "bytes").unwrap();
    }
    let path = |name: &str| common.directory().join("open").join(name);
    set_mode(path("other/secret"), 0o000);
    set_mode(path("one/shut"), 0o000);
    let ended = common.run("cmp -r --jsonl open/one open/other");
    set_mode(path("one/shut"), 0o755);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for name in ["one/shut", "other/secret"] {
        ended.warns(&format!("seekless: open/{name}: cannot open: Permission denied"));
    }
    let objects = ended.json_lines();
    assert_eq!(objects.iter().filter(|object| object["kind"] == "failed").count(), 2);
    let differences: Vec<_> = objects.iter().filter(|object| object["kind"] == "difference").collect();
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!(differences[0]["path_one"], "open/one/open/z");
}

#[test]
fn cmp_trees_explain_counts_threads() {
    let ended = place().run("cmp -r --explain one other");
    ended.warns("threads listed directories ahead");
}

/// A directory with a dozen files and three directories like it, to this depth.
fn nested(place: &Place, path: &str, levels: u32) {
    fs::create_dir(place.path(path)).unwrap();
    for file in 0..12 {
        place.file(format!("{path}/file{file}"), &[b'x'; 5000]);
    }
    for child in (0..3).filter(|_| levels > 0) {
        nested(place, &format!("{path}/{child}"), levels - 1);
    }
}

#[test]
fn cmp_trees_with_few_open_files() {
    let place = Place::new();
    for tree in ["one", "other"] {
        nested(&place, tree, 5);
    }
    let ended = place.run_with_few_files(24, "cmp -r --stats one other");
    ended.succeeded().warns("4,368 files");
}

#[test]
fn cmp_trees_exclude_and_bad_patterns() {
    let place = place();
    place.file("patterns", b"new*  \n\nlink\n");
    let fed = place.run_fed(&["cmp", "-rX-", "-x", "inner/file", "one", "other"], b"link\nnew*\n");
    assert_eq!((fed.code, fed.stdout.as_str()), (Some(0), ""), "{}", fed.stderr);
    let ended = place.run("cmp -rq -Xpatterns one other");
    assert_eq!(ended.stdout, "Files one/inner/file and other/inner/file differ\n");
    let ended = place.run("cmp -rqxinner --exclude link --exclude=new* one other");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    for (words, expected) in [
        (["-x", "inner/[a"], "--exclude: "),
        (["-X", "gone"], "--exclude-from: gone: cannot read"),
    ] {
        place.refuses(("cmp -r", &words, "one other"), &[expected]);
    }
}
