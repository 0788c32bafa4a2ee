//! Acting on equal directories: `--dirs` with `move` and `reflink`, at once, from reports and from plans.
//!
//! Whatever is done or refused, no content is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::act::{act_on, carry_out, lines_of, report};
use crate::common::disks::{blocks_bytes, bytes, disk, set_modified, sync};
use crate::common::place::{Place, assert_lacks, long_or, words};

/// Makes a file in directories that are made, too, with an mtime.
fn write(place: &Place, name: &str, bytes: &[u8], seconds: u64) {
    set_modified(&place.file(name, bytes), seconds);
}

/// Equal directories `b/long` (newest mtime 20), `a/x` (30) and `c` (10), and a directory `old` to move to.
fn three() -> Place {
    let place = Place::new();
    place.directories("old");
    for (directory, seconds) in [("b/long", 20), ("a/x", 30), ("c", 10)] {
        write(&place, &format!("{directory}/one"), b"one", seconds);
        write(&place, &format!("{directory}/sub/two"), b"two", 5);
        write(&place, &format!("{directory}/sub/none"), b"", 50);
    }
    write(&place, "other", b"other", 1);
    place
}

/// Which of the equal directories are where they were. The others are whole where they were moved to.
fn left(place: &Place) -> Vec<&'static str> {
    let mut left = Vec::new();
    for name in ["a/x", "b/long", "c"] {
        let moved = moved(place, name);
        let at = place.path(name);
        assert_ne!(at.exists(), moved.exists(), "{name}");
        let whole = if at.exists() { at } else { moved };
        assert_eq!(fs::read(whole.join("one")).unwrap(), b"one");
        assert_eq!(fs::read(whole.join("sub/two")).unwrap(), b"two");
        assert_eq!(fs::read(whole.join("sub/none")).unwrap(), b"");
        if whole.starts_with(place.path(name)) {
            left.push(name);
        }
    }
    assert_eq!(place.read("other"), b"other");
    left
}

fn moved(place: &Place, name: &str) -> PathBuf {
    let path = place.directory().canonicalize().unwrap().join(name);
    place.path("old").join(path.strip_prefix("/").unwrap())
}

const MOVE: &str = "dupes --dirs --action move --to old";

#[test]
fn which_directories_stay_follows_the_rules_and_undo_moves_the_others_back() {
    for (rules, expected) in [
        (&["newest"][..], &["a/x"][..]),
        (&["path:b/*", "name:c"], &["b/long", "c"]),
        (&["under:./b", "under:a/x"], &["a/x", "b/long"]),
        (&["at-least:3"], &["a/x", "b/long", "c"]),
    ] {
        let keep: Vec<&str> = rules.iter().flat_map(|rule| ["--keep", rule]).collect();
        for is_report in [false, true] {
            let place = three();
            let before = place.content();
            if is_report {
                let report = report(&place, &["--dirs", "a", "b", "c", "other"]);
                act_on(&place, &report, ("move --to old --yes", &keep)).succeeded();
            } else {
                place.succeeds((MOVE, "--yes a b c", &keep));
            }
            assert_eq!(left(&place), expected, "{rules:?}");
            if expected.len() < 3 {
                let ended = place.succeeds("dupes undo");
                let moved = 3 - expected.len();
                let told = format!("{} directories and {} files restored.", 2 * moved, 3 * moved);
                ended.says(&told);
            }
            assert_eq!(place.content(), before);
        }
    }
}

#[test]
fn the_plan_shows_directories_and_has_a_step_for_each_file() {
    let place = three();
    let before = place.content();
    let all = (MOVE, "--keep oldest --dry-run a b c");
    assert_eq!(
        place.succeeds(all).stdout,
        "Equal directories of 3 files, 6 B\n  keep      c/  (oldest)\n  move      a/x/\n  move      b/long/\n\n\
         4 directories and 6 files to move.\n"
    );
    let document = place.succeeds((all, "--json")).json();
    let steps = document["results"].as_array().unwrap();
    let directories = steps.iter().filter(|step| step["file"]["is_directory"] == true);
    assert_eq!((steps.len(), directories.count()), (10, 4));
    assert_eq!(
        (&steps[0]["outcome"], &steps[0]["file"]["bytes"]),
        (&json!("planned"), &json!(3))
    );
    assert_eq!(place.content(), before);
    let told = "4 directories and 6 files moved. To undo: seekless dupes undo\n";
    place.succeeds((MOVE, "--keep oldest --yes a b c")).says(told);
}

#[test]
fn directories_of_a_reference_stay() {
    let place = three();
    place.succeeds((MOVE, "--yes --against b a c"));
    assert_eq!(left(&place), ["b/long"]);
    let place = three();
    let before = place.content();
    let ended = place.succeeds((MOVE, "--yes --keep newest --against b a"));
    ended.says("Nothing to do");
    assert_eq!(place.content(), before);
}

#[test]
fn other_actions_refuse_whole_directories() {
    let place = three();
    let before = place.content();
    let report = report(&place, &["--dirs", "a", "b"]);
    for action in ["remove", "hardlink", "symlink"] {
        let ended = place.fails(2, ("dupes --dirs --keep first --yes . --action", action));
        ended.warns("only move and reflink");
        let ended = act_on(&place, &report, (action, "--keep first --yes"));
        let reason = "refused: group 1: whole directories cannot be acted on this way: search for files";
        ended.failed_with(2, &[reason]);
        assert_eq!(place.content(), before);
    }
}

#[test]
fn what_is_in_a_directory_that_moves_or_stays_is_not_acted_on_again() {
    let place = Place::new();
    fs::create_dir(place.path("old")).unwrap();
    // `a` equals `b`, and `a/sub` equals `c/sub`; `x` equals a file in all of them.
    for name in ["a/sub/one", "b/sub/one", "c/sub/one", "x"] {
        write(&place, name, b"one", 1);
    }
    write(&place, "c/more", b"more", 1);
    for keep in ["name:a", "name:b", "path:c/sub", "name:x", "first", "longest"] {
        let before = place.content();
        place.succeeds((MOVE, "--yes a b c x --keep", keep));
        let stays = |name: &str| place.path(name).exists();
        assert!(stays("a/sub/one") || stays("b/sub/one"), "{keep}");
        assert!(keep != "name:x" || stays("x"));
        for name in ["a", "b", "c/sub"] {
            let files = ["sub/one", "one"].map(|file| place.path(name).join(file).exists());
            assert_eq!(files.contains(&true), stays(name), "{keep}: {name} is empty");
        }
        place.succeeds("dupes undo");
        assert_eq!(place.content(), before, "{keep}");
        // The files were found equal, too.
        let groups = report(&place, &["--dirs", "a", "b", "c", "x"]);
        assert_eq!(groups["groups"].as_array().unwrap().len(), 3);
    }
}

/// The lines of a plan that are no comments.
fn planned(place: &Place) -> Vec<String> {
    let ended = place.succeeds((MOVE, "--keep name:c --plan-file plan a b c"));
    ended.says("4 directories and 6 files to move");
    lines_of(place)
}

#[test]
fn a_plan_of_directories_is_edited_and_carried_out() {
    let place = three();
    let lines = planned(&place);
    let is_of_other = |line: &&String| line.contains("/b/long");
    let some: Vec<String> = lines.iter().filter(|line| !is_of_other(line)).cloned().collect();
    let ended = carry_out(&place, &some, &[]).succeeded();
    ended.says("  move      a/x/sub/\n");
    ended.says("  move      a/x/\n");
    assert_eq!(left(&place), ["b/long", "c"]);
    // A directory that still has a file in it stays.
    let mut rest = lines.clone();
    let at = rest.iter().position(|line| line.ends_with("b/long/sub/two")).unwrap();
    rest[at] = rest[at].replacen("move", "keep", 1);
    let ended = carry_out(&place, &rest, &[]).ended_with(2);
    ended.warns("a/x: no longer exists");
    ended.warns("b/long/sub: left alone: it is not empty");
    ended.warns("b/long: left alone: it is not empty");
    assert_eq!(place.read("b/long/sub/two"), b"two");
    assert!(!place.path("b/long/one").exists());
    place.succeeds("dupes undo");
    assert_eq!(left(&place), ["b/long", "c"]);
}

#[test]
fn a_line_that_names_no_directory_that_was_searched_does_nothing() {
    type Change = fn(&mut String);
    let changes: [(Change, &str); 4] = [
        (|line| *line = line.replacen('-', "-0", 1), "its mark differs"),
        (|line| line.truncate(line.len() - 1), "not a regular file"),
        (|line| *line = line.replacen("move", "keep", 1), ""),
        (|line| line.push_str("../x/"), "symbolic link, or has"),
    ];
    for (change, reason) in changes {
        let place = three();
        let mut lines = planned(&place);
        let at = lines
            .iter()
            .position(|line| line.starts_with("move") && line.ends_with("/a/x/"))
            .unwrap();
        change(&mut lines[at]);
        let ended = carry_out(&place, &lines, &[]);
        ended.failed_with(if reason.is_empty() { 0 } else { 2 }, &[reason]);
        assert!(place.path("a/x").exists());
        place.succeeds("dupes undo");
        assert_eq!(left(&place), ["a/x", "b/long", "c"], "{reason}");
    }
}

#[test]
fn a_report_of_directories_that_changed_is_refused_in_these_parts() {
    type Edit = fn(&Place);
    let edits: [(Edit, &str); 5] = [
        (
            |place| write(place, "a/x/new", b"new", 1),
            "a/x: changed since the search",
        ),
        (
            |place| write(place, "a/x/one", b"One", 30),
            "a/x: changed since the search",
        ),
        (
            |place| fs::remove_file(place.path("a/x/sub/none")).unwrap(),
            "a/x: changed since the search",
        ),
        (
            |place| {
                fs::rename(place.path("a/x"), place.path("a/y")).unwrap();
                symlink("y", place.path("a/x")).unwrap();
            },
            "a/x: is not a directory",
        ),
        (
            |place| fs::rename(place.path("a/x"), place.path("a/y")).unwrap(),
            "a/x: no longer exists",
        ),
    ];
    for (edit, reason) in edits {
        let place = three();
        let report = report(&place, &["--dirs", "a", "b", "c"]);
        edit(&place);
        let ended = act_on(&place, &report, "move --to old --keep name:c --yes").ended_with(2);
        ended.warns(reason);
        assert!(!moved(&place, "a/x").exists() && moved(&place, "b/long/sub/two").exists());
    }
    let place = three();
    let mut report = report(&place, &["--dirs", "a", "b", "c"]);
    for path in report["groups"][0]["paths"].as_array_mut().unwrap() {
        path.as_object_mut().unwrap().remove("contents");
    }
    let before = place.content();
    let ended = act_on(&place, &report, "move --to old --keep name:c --yes");
    ended.warns("or a directory no `contents`");
    assert_eq!(place.content(), before);
}

#[test]
fn a_directory_with_a_symbolic_link_stays_and_its_files_may_share_blocks() {
    let place = three();
    for directory in ["a/x", "b/long", "c"] {
        symlink("one", place.path(directory).join("link")).unwrap();
    }
    let before = place.content();
    let ended = place.fails(1, (MOVE, "--keep name:c --yes a b c"));
    ended.says("x/link is a symbolic link, which may lead elsewhere");
    assert_eq!(place.content(), before);
}

#[test]
fn another_file_system_is_said_beforehand() {
    let place = three();
    let Some(_mount) = disk(&place, "xfs") else { return };
    let before = place.content();
    let all = "dupes --dirs --action move --to disk --keep name:c --yes a b c";
    place.fails(1, all).says("is on another file system");
    assert_eq!(place.content(), before);
}

fn shared_on(kind: &str) {
    let place = Place::new();
    let Some(_mount) = disk(&place, kind) else { return };
    for directory in ["disk/a", "disk/b", "disk/c/d"] {
        for (number, name) in ["one", "sub/two", "sub/deep/three"].iter().enumerate() {
            let (name, number) = (format!("{directory}/{name}"), number as u64);
            write(&place, &name, &bytes(number, 200_000), number);
        }
        write(&place, &format!("{directory}/none"), b"", 1);
        symlink("none", place.path(directory).join("link")).unwrap();
    }
    sync(&place.path("disk"));
    let before = place.content();
    for plan in ["--dry-run", "--yes"] {
        let ended = place.succeeds(("dupes --dirs --action reflink --keep name:a disk", plan));
        ended.says("Equal directories of 4 files, 586 KiB\n  keep      disk/a/");
        ended.says("6 files to reflink, up to 1.15 MiB to gain.");
        assert_eq!(place.content(), before);
        if plan == "--yes" {
            ended.says("6 files now share blocks, 1.1");
        }
    }
    sync(&place.path("disk"));
    let report = report(&place, &["--dirs", "disk"]);
    assert_eq!(report["groups"][0]["gain_bytes"], 0);
    // From a report, and again.
    let ended = act_on(&place, &report, "reflink --keep name:a --yes").succeeded();
    ended.says("6 files left out: all blocks are shared");
    assert_eq!(place.content(), before);
}

#[test]
fn files_of_directories_share_blocks() {
    ["xfs", "btrfs"].into_iter().for_each(shared_on);
}

/// What is in a directory, for comparing by the simplest means: by path from there, the bytes, or none of a directory.
fn inside(at: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            let below = inside(&path).into_iter();
            found.extend(below.map(|(below, bytes)| (name.join(below), bytes)));
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
    found
}

/// Makes random directories, many of which are equal.
fn grow(at: &Path, random: &mut fastrand::Rng, depth: usize) {
    fs::create_dir_all(at).unwrap();
    for name in ["a", "b", "c"] {
        let path = at.join(name);
        match random.u8(..6) {
            0 | 1 => fs::write(path, [b'x' + random.u8(..2)].repeat(3)).unwrap(),
            2 if random.u8(..4) == 0 => fs::write(path, "").unwrap(),
            3 if depth > 0 => grow(&path, random, depth - 1),
            // One of a few, which are the same wherever they are.
            4 | 5 if depth > 0 => grow(&path, &mut fastrand::Rng::with_seed(random.u64(..4)), depth - 1),
            _ => {}
        }
    }
}

#[test]
fn after_acting_on_random_trees_all_content_is_there_and_a_copy_of_each_stays() {
    let mut directories_moved = 0;
    for seed in 0..long_or(120, 4) {
        let mut random = fastrand::Rng::with_seed(seed);
        let place = Place::new();
        fs::create_dir(place.path("old")).unwrap();
        for name in ["one", "two"] {
            grow(&place.path(name), &mut random, 3);
        }
        let rule = words("first shortest longest newest name:a path:two/** at-least:2");
        let rule = rule[random.usize(..rule.len())];
        let trees = if random.bool() { "--against two one" } else { "one two" };
        let (snapshot, before) = (place.content(), inside(&place.directory()));
        place.succeeds((MOVE, trees, ("--yes --keep", rule)));
        let after = inside(&place.directory());
        let root = place.directory().canonicalize().unwrap();
        let target = Path::new("old").join(root.strip_prefix("/").unwrap());
        let origin = |path: &Path| path.strip_prefix(&target).unwrap_or(path).to_owned();
        // All is there, with its bytes, at its old place or below the target.
        for (path, content) in before.iter().filter(|(path, _)| !path.starts_with("old")) {
            let places = [path.clone(), target.join(path)];
            let there: Vec<_> = places.iter().filter_map(|path| after.get(path)).collect();
            let is_right = !there.is_empty() && there.iter().all(|found| *found == content);
            assert!(is_right, "{seed}: {}: {there:?}", path.display());
            let is_twice = there.len() > 1 && content.is_some();
            assert!(!is_twice, "{seed}: {} is there twice", path.display());
        }
        for (path, content) in after
            .iter()
            .filter(|(path, content)| path.starts_with(&target) && content.is_some())
        {
            assert_eq!(before.get(&origin(path)), Some(content), "{seed}");
            // A copy stays where it was.
            let mut stays = after.iter().filter(|(path, _)| !path.starts_with("old"));
            assert!(stays.any(|(_, other)| other == content), "{seed}: {}", path.display());
        }
        // What was moved as a whole is whole, and one that equals it stays.
        let journals = place.succeeds("dupes undo --list --json").json();
        let journal = journals[0]["path"].as_str();
        let text = journal.map_or_else(String::new, |path| fs::read_to_string(path).unwrap());
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        for line in lines.filter(|line| line["file"]["is_directory"] == true) {
            directories_moved += 1;
            let path = |value: &Value| PathBuf::from(value["path"].as_str().unwrap());
            let (from, keep) = (path(&line["file"]["paths"][0]), path(&line["keep"]));
            assert!(!from.exists(), "{seed}");
            let there = place.path("old").join(from.strip_prefix("/").unwrap());
            let was: BTreeMap<_, _> = before
                .iter()
                .filter_map(|(path, content)| {
                    let below = root.join(path).strip_prefix(&from).ok()?.to_owned();
                    (!below.as_os_str().is_empty()).then(|| (below, content.clone()))
                })
                .collect();
            assert_eq!(inside(&there), was, "{seed}");
            assert_eq!(inside(&keep), was, "{seed}");
        }
        if !text.is_empty() {
            place.succeeds("dupes undo");
        }
        assert_eq!(place.content(), snapshot, "{seed}");
    }
    assert!(directories_moved > long_or(100, 0), "{directories_moved}");
}

#[test]
fn a_directory_that_another_contains_is_told_with_what_that_has_more_and_is_not_acted_on() {
    let place = Place::new();
    for (name, bytes) in [
        ("card/100/a", "one"),
        ("card/100/b", "two"),
        ("card/101/c", "alone"),
        ("photos/here/sea", "one"),
        ("photos/here/hill", "two"),
        ("photos/here/new", "three"),
    ] {
        write(&place, name, bytes.as_bytes(), 1);
    }
    let ended = place.succeeds("dupes --dirs card photos");
    let gain = seekless_results::bytes(2 * blocks_bytes(&place.path("card/100/a")));
    let expected = format!(
        "1 directory of 2 files, 6 B, in another: {gain} to gain\n  card/100/\n  photos/here/  (has 1 file, 5 B, with other contents)\n\n\
         card: 55 % of its bytes and 67 % of its files are also in photos.\n\
         photos: 55 % of its bytes and 67 % of its files are also in card.\n6 files, 2 groups"
    );
    ended.says(&expected);
    // A third path makes it no pair, and a part of the trees is no less contained.
    for (paths, says, lacks) in [
        ("card --against photos", "photos/here/  (reference, has 1 file", &[][..]),
        ("photos --against card", "card: 55 %", &["in another"]),
        ("card/100 card/101 photos", "in another", &[" % "]),
    ] {
        let found = place.succeeds(("dupes --dirs", paths));
        found.says(says);
        assert_lacks(&found.stdout, lacks);
    }
    let whole = report(&place, &["--dirs", "card", "photos"]);
    let moved = act_on(&place, &whole, "move --to old --keep path:photos --dry-run").succeeded();
    moved.says("\n2 files to move.\n");
    assert_eq!(moved.stderr, "");
}
