//! `seekless dupes --action`, `act` and `undo` as users see them: rules, plans read back, asking, exit codes.
//!
//! Whatever is refused, no content may be lost: each test that acts looks for it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::disks::set_modified;
use crate::common::place::{Ended, Mount, Place, Words, assert_fields, long_or, set_mode, words};
use crate::common::terminal::Terminal;

/// Equal files `b/long-name` (mtime 20), `a/x.raw` (30) and `c` (10), and another file.
fn three() -> Place {
    let place = Place::new();
    for (name, seconds) in [("b/long-name", 20), ("a/x.raw", 30), ("c", 10)] {
        set_modified(&place.file(name, b"same"), seconds);
    }
    place.file("other", b"other");
    place
}

/// Regular files below a directory that are no links, by path.
fn files(place: &Place) -> BTreeMap<String, Vec<u8>> {
    fn walk(at: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else if kind.is_file() {
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&place.directory(), "", &mut found);
    found
}

fn names(place: &Place) -> Vec<String> {
    files(place).into_keys().collect()
}

/// Which of the equal files are there.
fn left(place: &Place) -> Vec<String> {
    let same = files(place).into_iter().filter(|(_, content)| content == b"same");
    same.map(|(name, _)| name).collect()
}

pub fn report(place: &Place, arguments: &[&str]) -> Value {
    place.succeeds(("dupes --json", arguments)).json()
}

#[test]
fn what_stays_follows_the_rules() {
    for (rules, expected) in [
        (&["newest"][..], &["a/x.raw"][..]),
        (&["path:b/**", "name:*.raw"], &["a/x.raw", "b/long-name"]),
        (&["not-under b"], &["a/x.raw", "c"]),
        (&["under:./b/../b", "oldest"], &["b/long-name"]),
        (&["oldest", "at-least 3"], &["a/x.raw", "b/long-name", "c"]),
        (&["name:none"], &["a/x.raw"]),
    ] {
        let keep: Vec<&str> = rules.iter().flat_map(|rule| ["--keep", rule]).collect();
        let place = three();
        place.succeeds(("dupes --action remove --yes .", &keep));
        assert_eq!(left(&place), expected, "{rules:?}");
    }
    // The order of the paths that are given.
    let place = three();
    place.succeeds("dupes --action remove --yes -r --keep first c b a");
    assert_eq!(left(&place), ["c"]);
}

#[test]
fn a_dry_run_shows_what_stays_why_and_what_is_done_and_changes_nothing() {
    let place = three();
    place.hard_link("c", "link");
    let before = files(&place);
    let ended = place.succeeds("dupes --action remove --keep newest --dry-run .");
    let gain = seekless_results::bytes(2 * 512 * fs::metadata(place.path("c")).unwrap().blocks());
    let expected = format!(
        "Equal files of 4 B\n  keep      a/x.raw  (newest)\n  remove    b/long-name\n  remove    c\n  remove    link  (same file)\n\n\
         2 files to remove, {gain} to gain.\n"
    );
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (expected.as_str(), ""));
    assert_eq!(files(&place), before);
}

#[test]
fn without_yes_it_asks_on_a_terminal_and_only_yes_is_yes() {
    for (answer, is_done) in [
        ("y\n", true),
        ("YES\n", true),
        ("n\n", false),
        ("\n", false),
        ("yy\n", false),
        ("\u{4}", false),
    ] {
        let place = three();
        let words = "dupes --action remove --keep newest .";
        let (printed, code) = Terminal::answered(&place, words, answer);
        assert!(printed.contains("Remove 2 files? [y/N]"), "{printed}");
        assert!(printed.contains("a/x.raw"), "{printed}");
        assert_eq!(code, Some(i32::from(!is_done)), "{answer:?} {printed}");
        assert_eq!(left(&place).len(), if is_done { 1 } else { 3 }, "{answer:?}");
        assert_eq!(printed.contains("Nothing was done."), !is_done, "{printed}");
    }
}

#[test]
fn without_a_terminal_it_neither_asks_nor_acts() {
    let place = three();
    place.succeeds("dupes --action remove --keep newest --plan-file plan .");
    let before = files(&place);
    for words in ["dupes --action remove --keep newest .", "dupes act --plan plan"] {
        place.run(words).failed_with(2, &["use --yes"]);
    }
    for form in ["--json", "--jsonl"] {
        let ended = place.run(("dupes --action remove --keep newest .", form));
        ended.refused_with(&["do not ask"]);
    }
    assert_eq!(files(&place), before);
}

#[test]
fn nothing_is_done_without_a_rule_unless_there_is_a_reference() {
    let place = three();
    let refused = place.fails(2, "dupes --action remove --yes .");
    refused.warns("--keep RULE or --interactive to say which files stay; rules are newest, oldest");
    assert_eq!(left(&place).len(), 3);
    place.succeeds("dupes --action remove --yes --against a .");
    assert_eq!(left(&place), ["a/x.raw"]);
}

#[test]
fn everything_in_a_reference_stays() {
    let place = three();
    place.file("a/twin", b"same");
    place.hard_link("a/twin", "b/link");
    place.succeeds("dupes --action remove --yes --against a b c");
    assert_eq!(left(&place), ["a/twin", "a/x.raw", "b/link"]);
}

#[test]
fn a_copy_in_the_trash_is_not_the_last_one() {
    let trashed = |place: &Place| {
        fs::create_dir(place.path(".Trash-0")).unwrap();
        fs::rename(place.path("a/x.raw"), place.path(".Trash-0/x.raw")).unwrap();
    };
    let place = three();
    trashed(&place);
    let ended = place.succeeds("dupes --all --action remove --yes --keep newest .");
    assert_eq!(left(&place), [".Trash-0/x.raw", "b/long-name"]);
    ended.says("b/long-name  (last copy)");
    // Links rely on the copy that counts.
    let place = three();
    trashed(&place);
    place.succeeds("dupes --all --action symlink --yes --keep newest .");
    assert_eq!(fs::read_link(place.path("c")).unwrap(), Path::new("b/long-name"));
    // Also where the trash of a mount is in memory.
    let Some(_mount) = Mount::tmpfs(&place.path("mount"), "size=4m,mode=700") else {
        return;
    };
    let trash = format!("mount/.Trash-{}/files", rustix::process::geteuid().as_raw());
    fs::create_dir_all(place.path(&trash)).unwrap();
    place.file(format!("{trash}/a"), b"same");
    place.file("mount/b", b"same");
    place.succeeds("dupes --all --action remove --keep first --yes mount");
    assert!(place.path("mount/b").exists());
}

#[test]
fn names_of_one_file_are_no_copies_and_go_together() {
    let place = Place::new();
    place.file("one", b"same");
    place.hard_link("one", "two");
    place
        .succeeds("dupes --action remove --yes --keep newest .")
        .says("Nothing to do");
    assert_eq!(left(&place), ["one", "two"]);
    place.file("zero", b"same");
    place.succeeds("dupes --action remove --yes --keep name:zero .");
    assert_eq!(left(&place), ["zero"]);
    place.succeeds("dupes undo");
    assert_eq!(left(&place), ["one", "two", "zero"]);
    let inode = |name| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("two"));
}

#[test]
fn names_of_one_file_are_reduced_to_one_by_the_rules_and_undo_links_them_again() {
    let named = || {
        let place = Place::new();
        fs::create_dir(place.path("d")).unwrap();
        place.file("d/one", b"same");
        for name in ["d/longer", "d/c"] {
            place.hard_link("d/one", name);
        }
        place.file("d/single", b"other");
        place
    };
    for (rule, stays) in [("first", "d/c"), ("longest", "d/longer"), ("name:on*", "d/one")] {
        let place = named();
        let ended = place.succeeds(("dupes --action remove --names --yes d --keep", rule));
        ended.says("1 file reduced to fewer names");
        assert_eq!(left(&place), [stays]);
        place.succeeds("dupes undo");
        assert_eq!(fs::metadata(place.path("d/one")).unwrap().nlink(), 3, "{rule}");
    }
    // By an edited plan, and beside equal files.
    let place = named();
    place.succeeds("dupes --action remove --names --keep first --plan-file plan d");
    let plan = place.text("plan");
    let (kept, other) = (plan.find("keep   ").unwrap(), plan.find("remove /").unwrap());
    assert!(kept < other, "{plan}");
    let none = plan.replace("keep   /", "remove /");
    place.file("plan", none.as_bytes());
    // One stays whatever a plan says.
    place.succeeds("dupes act --yes --plan plan");
    assert_eq!(left(&place), ["d/c"]);
    place.succeeds("dupes undo");
    place.file("plan", plan.as_bytes());
    place.succeeds("dupes act --yes --plan plan");
    assert_eq!(left(&place), ["d/c"]);
    let place = named();
    place.file("equal", b"same");
    place.succeeds("dupes --action remove --names --keep shortest --yes .");
    assert_eq!(left(&place), ["d/c", "equal"]);
}

#[test]
fn hard_links_outside_the_search_and_an_mtime_that_a_link_changes_are_told() {
    let place = three();
    place.hard_link("c", "outside");
    let told = "c  (1 hard link outside the search)\n";
    place.succeeds("dupes a b c").says(told);
    let path = &report(&place, &["a", "b", "c"])["groups"][0]["paths"][2];
    assert_eq!(path["links_elsewhere"], 1);
    let act = |action: &str| {
        place
            .succeeds(("dupes --keep newest --dry-run a b c --action", action))
            .stdout
    };
    let shown = act("remove");
    assert!(shown.contains(told) && !shown.contains("mtime"), "{shown}");
    let shown = act("hardlink");
    assert!(shown.contains("b/long-name  (loses its mtime)"), "{shown}");
}

#[test]
fn directories_that_acting_leaves_empty_are_removed_on_request_but_not_the_paths() {
    for action in ["remove", "move --to old"] {
        let place = three();
        let before = place.content();
        let ended = place.succeeds(("dupes --keep name:c --prune --yes b c . --action", action));
        let told = "1 directory and 2 files";
        ended.says(told);
        ended.says("Directories to remove if left empty");
        assert_eq!((place.path("a").exists(), place.path("b").exists()), (false, true));
        let undone = place.succeeds("dupes undo");
        undone.says(told);
        assert_eq!(place.content(), before);
    }
    // A plan does not say it, so the option does.
    let place = three();
    place.succeeds("dupes --action remove --keep name:c --plan-file plan .");
    place.succeeds("dupes act --plan plan --prune --yes");
    assert_eq!((place.path("a").exists(), place.path("b").exists()), (false, false));
}

#[test]
fn a_file_behind_a_symbolic_link_stays() {
    let place = three();
    fs::create_dir(place.path("searched")).unwrap();
    symlink("../a", place.path("searched/way")).unwrap();
    symlink("../c", place.path("searched/file")).unwrap();
    place.file("searched/own", b"same");
    let ended = place.succeeds("dupes -L --action remove --yes --keep at-least:1 searched");
    ended.says("behind a symbolic link");
    assert_eq!(left(&place), ["a/x.raw", "b/long-name", "c"]);
    // A link that was named itself leads to its target, which stays as well.
    let place = three();
    symlink("c", place.path("named")).unwrap();
    place.succeeds("dupes --action remove --yes --keep name:*.raw named a");
    assert_eq!(left(&place).len(), 3);
    // A directory that was named by a link is what the user meant.
    symlink("b", place.path("way")).unwrap();
    place.succeeds("dupes --action remove --yes --keep name:*.raw way a");
    assert_eq!(left(&place), ["a/x.raw", "c"]);
}

#[test]
fn each_action_does_what_it_says_and_is_undone() {
    // What becomes of each file is tested with the library.
    for (arguments, files_left) in [
        ("remove", 1),
        ("hardlink", 3),
        ("symlink", 1),
        ("symlink --absolute", 1),
        ("move --to away", 3),
    ] {
        let place = three();
        place.directories("away");
        let before = place.content();
        let ended = place.succeeds(("dupes --yes --keep name:c . --action", arguments));
        ended.says("To undo: seekless dupes undo");
        assert_eq!(left(&place).len(), files_left, "{arguments}");
        let target = fs::read_link(place.path("a/x.raw")).ok();
        assert_eq!(target.is_some(), arguments.starts_with("symlink"));
        assert_eq!(
            target.is_some_and(|path| path.is_absolute()),
            arguments.ends_with("absolute")
        );
        let listed = place.succeeds("dupes undo --list");
        listed.says(arguments.split(' ').next().unwrap());
        listed.says("done");
        let acted = place.content();
        let foreseen = place.succeeds("dupes undo --dry-run").stdout;
        assert!(foreseen.ends_with("2 files to restore.\n"), "{foreseen}");
        assert!(foreseen.contains("/b/long-name\n"), "{foreseen}");
        assert_eq!(place.content(), acted);
        place.succeeds("dupes undo").says("2 files restored.");
        assert_eq!(place.content(), before, "{arguments}");
        place.fails(2, "dupes undo").warns("nothing to undo");
    }
}

/// The journals, the newest first.
fn listed(place: &Place) -> Vec<Value> {
    let listed = place.succeeds("dupes undo --list --json").json();
    listed.as_array().unwrap().clone()
}

/// The path of the newest journal.
pub fn journal(place: &Place) -> PathBuf {
    listed(place)[0]["path"].as_str().unwrap().into()
}

#[test]
fn a_journal_is_named_listed_and_forgotten() {
    let place = three();
    place.succeeds("dupes undo --list").says("No journals");
    place.succeeds("dupes --action remove --yes --keep name:c .");
    let journal = &listed(&place)[0];
    assert_fields(journal, &json!({"action": "remove", "state": "done"}));
    let (name, path) = (journal["name"].as_str().unwrap(), journal["path"].as_str().unwrap());
    place.fails(2, "dupes undo no-such");
    place.fails(2, "dupes undo --forget");
    place.succeeds(&format!("dupes undo {name}"));
    assert_eq!(left(&place).len(), 3);
    place.succeeds(&format!("dupes undo --forget {name}"));
    assert!(!Path::new(path).exists());
}

/// Files with these names, and their names as content, in `one` and in `other`.
fn twice(names: &[&[u8]]) -> Place {
    let place = Place::new();
    for name in names {
        for directory in ["one", "other"] {
            place.file(Path::new(directory).join(OsStr::from_bytes(name)), name);
        }
    }
    place
}

/// Writes a plan that keeps `c` and acts on the others, and gives its lines that are no comments: the header, `keep`, and one for each
/// other file.
fn planned(place: &Place, action: impl Words) -> Vec<String> {
    let ended = place.succeeds(("dupes --keep name:c --plan-file plan a b c --action", action));
    assert!(ended.stdout.starts_with("2 files to "), "{}", ended.stdout);
    ended.says("the plan is plan. To act: ");
    lines_of(place)
}

/// The header, and the lines of groups, with an empty one between two of them.
pub fn lines_of(place: &Place) -> Vec<String> {
    let text = place.text("plan");
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let mut lines: Vec<String> = lines.collect();
    lines.dedup();
    lines.remove(1);
    lines
}

pub fn carry_out(place: &Place, lines: &[String], more: &[&str]) -> Ended {
    place.file("plan", (lines.join("\n") + "\n").as_bytes());
    place.run(("dupes act --plan plan --yes", more))
}

/// A line with another word at its start.
fn with_word(line: &str, word: &str) -> String {
    format!("{word} {}", line.split_once(' ').unwrap().1)
}

/// The word of a line, without its path.
fn until_path(line: &str) -> &str {
    &line[..line.find('/').unwrap()]
}

#[test]
fn a_plan_is_written_edited_and_carried_out() {
    let place = three();
    let lines = planned(&place, "remove");
    assert_eq!(left(&place).len(), 3);
    let words: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["plan", "keep", "remove", "remove"]);
    let ended = carry_out(&place, &lines[..3], &[]).succeeded();
    ended.says("keep      c  (chosen)");
    assert_eq!(left(&place), ["b/long-name", "c"]);
    // The other line still holds; the first is done.
    let ended = carry_out(&place, &lines, &[]).ended_with(2);
    ended.warns("refused: line 3, a/x.raw: no longer exists");
    assert_eq!(left(&place), ["c"]);
}

#[test]
fn words_of_a_plan_are_changed_by_hand() {
    type Edit = fn(&mut Vec<String>);
    let edits: [(Edit, &[&str]); 7] = [
        (|lines| lines[2] = with_word(&lines[2], "keep"), &["a/x.raw", "c"]),
        // Another file is kept.
        (
            |lines| {
                lines[1] = with_word(&lines[1], "remove");
                lines[3] = with_word(&lines[3], "keep");
            },
            &["b/long-name"],
        ),
        (|lines| drop(lines.remove(2)), &["a/x.raw", "c"]),
        (
            |lines| {
                lines.insert(0, "# mine".to_owned());
                lines.insert(2, String::new());
                lines.push("\t# more \r".to_owned());
            },
            &["c"],
        ),
        (|lines| lines[1..].reverse(), &["c"]),
        (
            |lines| {
                for line in &mut lines[1..] {
                    *line = format!("  {line} \r").replacen(' ', "\t", 3);
                }
            },
            &["c"],
        ),
        (
            |lines| {
                for line in &mut lines[1..] {
                    *line = with_word(line, "keep");
                }
            },
            &["a/x.raw", "b/long-name", "c"],
        ),
    ];
    for (number, (edit, expected)) in edits.into_iter().enumerate() {
        let place = three();
        let mut lines = planned(&place, "remove");
        edit(&mut lines);
        carry_out(&place, &lines, &[]).succeeded();
        assert_eq!(left(&place), expected, "{number}");
    }
    // Links lead to the first file that is kept.
    let place = three();
    let mut lines = planned(&place, "symlink");
    lines[1] = with_word(&lines[1], "symlink");
    lines[2] = with_word(&lines[2], "keep");
    carry_out(&place, &lines, &[]).succeeded();
    for (name, target) in [("c", "a/x.raw"), ("b/long-name", "../a/x.raw")] {
        assert_eq!(fs::read_link(place.path(name)).unwrap(), Path::new(target));
    }
}

#[test]
fn a_line_of_a_plan_that_is_changed_wrongly_is_refused_and_the_rest_is_done() {
    type Edit = fn(&str, &str) -> String;
    let edits: [(Edit, &str); 10] = [
        (
            |line, _| with_word(line, "delete"),
            "it begins with `delete`; write `keep` or `remove`",
        ),
        (|line, _| with_word(line, "hardlink"), "it begins with `hardlink`"),
        (|line, _| with_word(line, "Keep\u{1b}"), "`Keep\\u{1b}`"),
        (|line, _| until_path(line).to_owned(), "is not absolute"),
        (|line, _| line[..line.len() - 2].to_owned(), "no longer exists"),
        (|line, _| line.to_owned() + "/", "cannot stat"),
        (|line, _| line.replace("/a/", "/b/../a/"), "it stays"),
        (|line, _| until_path(line).to_owned() + "a/x.raw", "it stays"),
        (|line, _| line.to_owned() + "\\q", "begins no escape"),
        (|line, _| line.to_owned() + "\\x00", "begins no escape"),
    ];
    for (edit, reason) in edits {
        let place = three();
        let mut lines = planned(&place, "remove");
        lines[2] = edit(&lines[2], &lines[3]);
        lines.swap(2, 3);
        carry_out(&place, &lines, &[]).failed_with(2, &["refused: line 4", reason]);
        assert_eq!(left(&place), ["a/x.raw", "c"], "{reason}");
    }
}

#[test]
fn a_plan_never_acts_on_all_copies_or_on_a_file_that_a_line_keeps() {
    type Edit = fn(&mut Vec<String>);
    let edits: [(Edit, &[&str]); 4] = [
        (|lines| drop(lines.remove(1)), &["a/x.raw", "c"]),
        (|lines| lines[1] = with_word(&lines[1], "remove"), &["a/x.raw"]),
        (|lines| lines.push(with_word(&lines[1], "remove")), &["c"]),
        (|lines| lines.insert(1, with_word(&lines[2], "keep")), &["a/x.raw", "c"]),
    ];
    for (edit, expected) in edits {
        let place = three();
        let mut lines = planned(&place, "remove");
        edit(&mut lines);
        carry_out(&place, &lines, &[]).failed_with(2, &["it stays"]);
        assert_eq!(left(&place), expected);
    }
    // A blank line ends a group, and what a line of another group keeps is not acted on.
    let place = three();
    let lines = planned(&place, "remove");
    let [keep, one, other] = [&lines[1], &lines[2], &lines[3]].map(Clone::clone);
    let parts = [
        with_word(&other, "keep"),
        one.clone(),
        String::new(),
        keep.clone(),
        other,
        String::new(),
        keep,
        one,
    ];
    let parts = [&lines[..1], &parts[..]].concat();
    carry_out(&place, &parts, &[]).failed_with(2, &["b/long-name: it stays", "it is already acted on"]);
    assert_eq!(left(&place), ["b/long-name", "c"]);
}

#[test]
fn what_changed_between_a_plan_and_acting_is_left_alone_unless_it_is_still_equal() {
    type Change = fn(&Place);
    let changes: [(Change, i32, &str); 6] = [
        (
            |place| fs::write(place.path("a/x.raw"), "SAME").unwrap(),
            1,
            "differs from the kept file at byte 0",
        ),
        (
            |place| fs::write(place.path("a/x.raw"), "more than before").unwrap(),
            2,
            "it stays",
        ),
        (
            |place| fs::remove_file(place.path("a/x.raw")).unwrap(),
            2,
            "no longer exists",
        ),
        (
            |place| {
                fs::remove_file(place.path("a/x.raw")).unwrap();
                symlink("../c", place.path("a/x.raw")).unwrap();
            },
            2,
            "not a regular file",
        ),
        (
            |place| {
                fs::rename(place.path("a"), place.path("z")).unwrap();
                symlink("z", place.path("a")).unwrap();
            },
            2,
            "it stays",
        ),
        (
            |place| {
                fs::copy(place.path("a/x.raw"), place.path("a/new")).unwrap();
                fs::rename(place.path("a/new"), place.path("a/x.raw")).unwrap();
            },
            0,
            "",
        ),
    ];
    for (change, code, reason) in changes {
        let place = three();
        let lines = planned(&place, "remove");
        change(&place);
        carry_out(&place, &lines, &[]).failed_with(code, &[reason]);
        let names = ["a/x.raw", "b/long-name", "c"].map(|name| place.path(name).symlink_metadata().is_ok());
        assert_eq!(
            names,
            [code != 0 && reason != "no longer exists", false, true],
            "{reason}"
        );
    }
    let place = three();
    let lines = planned(&place, "remove");
    fs::write(place.path("c"), "SAME").unwrap();
    carry_out(&place, &lines, &[]).failed_with(1, &["differs from the kept file at byte 0"]);
    assert_eq!(left(&place), ["a/x.raw", "b/long-name"]);
}

#[test]
fn names_of_one_file_have_a_line_each_and_stay_or_go_together() {
    let place = three();
    place.hard_link("a/x.raw", "b/link");
    let lines = planned(&place, "remove");
    assert_eq!(lines.len(), 5);
    let at = lines.iter().position(|line| line.ends_with("b/link")).unwrap();
    let mut kept = lines.clone();
    kept[at] = with_word(&kept[at], "keep");
    carry_out(&place, &kept, &[]).warns("it stays");
    assert_eq!(left(&place), ["a/x.raw", "b/link", "c"]);
    carry_out(&place, &lines, &[]);
    assert_eq!(left(&place), ["c"]);
    place.succeeds("dupes undo").says("1 file restored");
    let inode = |name| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("a/x.raw"), inode("b/link"));
}

#[test]
fn a_plan_names_files_with_any_name() {
    let odd: [&[u8]; 4] = [b"x\ny", b"\xff\xfe", b"back\\x41slash", b" ends "];
    let more: [&[u8]; 3] = [b"caf\xc3\xa9", b"\xe2\x80\xae", b"tab\t#\r"];
    let place = twice(&[&odd[..], &more].concat());
    place.succeeds("dupes --action remove --keep first --plan-file plan one other");
    let lines = lines_of(&place);
    let printed = |line: &String| line.chars().all(|c| !c.is_control() && c != '\u{202e}');
    assert!(lines.iter().all(printed), "{lines:?}");
    for written in [
        "other/x\\x0ay",
        "\\xff\\xfe",
        "back\\\\x41slash",
        "/ ends\\x20",
        "café",
        "\\xe2\\x80\\xae",
        "tab\\x09#\\x0d",
    ] {
        assert!(lines.iter().any(|line| line.ends_with(written)), "{written}: {lines:?}");
    }
    carry_out(&place, &lines, &[]).succeeded();
    let names = |directory: &str| fs::read_dir(place.path(directory)).unwrap().count();
    assert_eq!((names("one"), names("other")), (7, 0));
}

#[test]
fn whatever_is_done_to_the_lines_of_a_plan_no_content_is_lost() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut acted = 0;
    for round in 0..long_or(40, 8) {
        let place = Place::new();
        // Contents of one size, so that only bytes tell them apart.
        for number in 0..9 {
            place.file(format!("all/{number}"), [b"one", b"two", b"3rd"][number % 3]);
        }
        place.hard_link("all/0", "all/link");
        let action = ["remove", "hardlink", "symlink", "move"][round % 4];
        let to = if action == "move" { "--to to" } else { "" };
        place.succeeds(("dupes --keep first --plan-file plan all --action", action, to));
        let mut lines = lines_of(&place);
        for _ in 0..=random.usize(..6) {
            let [one, other] = [(); 2].map(|()| random.usize(1..lines.len()));
            let parts = |line: &str| {
                let (word, path) = line.split_once(' ').unwrap_or_default();
                [word.to_owned(), path.trim_start().to_owned()]
            };
            let (mut changed, from) = (parts(&lines[one]), parts(&lines[other]));
            match random.usize(..8) {
                0 => changed[0] = ["keep", action, "delete"][random.usize(..3)].to_owned(),
                1 => lines.insert(one, String::new()),
                2 => changed[1] = from[1].clone(),
                3 => changed[0] = if changed[0] == "keep" { action } else { "keep" }.to_owned(),
                4 => {
                    lines.insert(one, lines[other].clone());
                    continue;
                }
                5 if lines.len() > 3 => {
                    lines.remove(one);
                    continue;
                }
                6 => {
                    let end = random.usize(..=lines[one].len());
                    lines[one].truncate(end.max(8));
                    continue;
                }
                _ => {
                    fs::write(place.path("all").join(["1", "4", "8"][random.usize(..3)]), "new").unwrap();
                    continue;
                }
            }
            lines[one] = changed.join(" ");
        }
        let contents = || {
            let others = files(&place).into_iter().filter(|(name, _)| name != "plan");
            others.map(|(_, content)| content).collect::<BTreeSet<_>>()
        };
        let before = contents();
        let ended = carry_out(&place, &lines, &[]);
        assert!(ended.code.is_some_and(|code| code < 3), "{lines:?} {}", ended.stderr);
        assert_eq!(contents(), before, "{round} {lines:?} {ended:?}");
        for entry in fs::read_dir(place.path("all")).unwrap() {
            let path = entry.unwrap().path();
            let is_dangling = fs::metadata(&path).is_err();
            assert!(!is_dangling, "{}: a link that leads to nothing", path.display());
        }
        let done = [" removed", " replaced", " moved"];
        acted += usize::from(done.iter().any(|word| ended.stdout.contains(word)));
    }
    assert!(acted > long_or(10, 1), "{acted}");
}

#[test]
fn a_plan_replaces_a_plan_and_no_other_file() {
    let place = three();
    let plan = |file: &str| place.run(("dupes --action remove --keep newest a b c --plan-file", file));
    plan("plan").succeeded();
    plan("plan").succeeded();
    plan("c").failed_with(2, &["c: exists and is not a plan"]);
    assert_eq!(left(&place).len(), 3);
}

#[test]
fn a_file_that_a_killed_run_set_aside_is_not_the_last_copy() {
    let place = three();
    fs::rename(place.path("c"), place.path("a/.seekless-dupes-1-2-3-0")).unwrap();
    place.succeeds("dupes --action remove --keep path:a/.* --yes a b");
    assert_eq!(left(&place).len(), 2, "{:?}", left(&place));
}

#[test]
fn a_plan_with_another_header_does_nothing() {
    let with_header = |change: &dyn Fn(&str) -> String, reason: &str| {
        let place = three();
        let mut lines = planned(&place, "remove");
        lines[0] = change(&lines[0]);
        carry_out(&place, &lines, &[]).failed_with(2, &[reason]);
        assert_eq!(left(&place).len(), 3);
    };
    for (from, to, reason) in [
        (
            "remove",
            "hardlink",
            "it begins with `remove`; write `keep` or `hardlink`",
        ),
        ("\"remove\"", "\"move\",\"to\":\"tmp\"", "not an absolute path"),
        ("\"machine\":\"", "\"machine\":\"x", "another machine"),
        ("\"is_reference\":false", "\"is_reference\":true", "it stays"),
        ("\"version\":2", "\"version\":1", "version 1"),
    ] {
        with_header(&|header| header.replace(from, to), reason);
    }
    with_header(&|_| String::new(), "header");
    with_header(&|header| header[..40].to_owned(), "not JSON");
    let place = three();
    let mut lines = planned(&place, "remove");
    lines.swap(0, 1);
    carry_out(&place, &lines, &[]).failed_with(2, &["header"]);
    let place = three();
    let lines = planned(&place, "remove");
    for more in ["--keep newest", "--to a", "--absolute", "--plan-file x"] {
        carry_out(&place, &lines, &words(more)).ended_with(2);
    }
    assert_eq!(left(&place).len(), 3);
    // Options that its action does not take.
    let lines = planned(&place, "hardlink");
    for (more, reason) in [
        ("--without-leases", "take --without-leases"),
        ("--prune", "take --prune"),
    ] {
        carry_out(&place, &lines, &[more]).failed_with(2, &[reason]);
    }
    // Removing without leases is moving.
    let lines = planned(&place, "remove");
    let _open = File::options().append(true).open(place.path("a/x.raw")).unwrap();
    carry_out(&place, &lines, &["--without-leases"]).says("2 files moved to .seekless-trash-");
    assert!(!place.path("a/x.raw").exists() && left(&place).len() == 3);
}

#[test]
fn a_plan_cannot_be_turned_against_a_reference_or_the_trash() {
    let plan = |place: &Place, more: &str| {
        place.succeeds(("dupes --action remove --plan-file plan", more));
        lines_of(place)
    };
    let turned = |lines: &[String]| -> Vec<String> {
        let turn = |line: &String| match line.split(' ').next() {
            Some("keep") => with_word(line, "remove"),
            Some("remove") => with_word(line, "keep"),
            _ => line.clone(),
        };
        lines.iter().map(turn).collect()
    };
    let place = three();
    let lines = plan(&place, "--against c a b");
    let ended = carry_out(&place, &turned(&lines), &[]).ended_with(2);
    ended.warns("c: it stays");
    assert_eq!(left(&place).len(), 3);

    let trashed = || {
        let place = three();
        fs::create_dir(place.path(".Trash-0")).unwrap();
        fs::rename(place.path("a/x.raw"), place.path(".Trash-0/x")).unwrap();
        place
    };
    let place = trashed();
    let lines = plan(&place, "--all --keep name:c .");
    let ended = carry_out(&place, &turned(&lines), &[]);
    // The other file that is kept then is no worse.
    assert_eq!(left(&place), [".Trash-0/x", "b/long-name"], "{}", ended.stderr);
    let place = trashed();
    let mut lines = turned(&plan(&place, "--all --keep name:c ."));
    lines.retain(|line| !line.ends_with("long-name"));
    carry_out(&place, &lines, &[]).warns("c: it stays");
    assert_eq!(left(&place).len(), 3);
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_is_searched() {
    let place = three();
    for (options, reason) in [
        ("--action move --keep newest --yes", "move needs --to"),
        ("--action move --keep newest --to none/.. --yes", "cannot find"),
        ("--action move --keep newest --to c/x --yes", "c/x: cannot find it"),
        ("--action move --keep newest --to c --yes", "not a directory"),
        ("--action remove --keep newest --to a --yes", "only move takes --to"),
        ("--action remove --keep newest --absolute --yes", "only symlink"),
        ("--action hardlink --keep newest --without-leases --yes", "only remove"),
        ("--action remove --keep newest --dirs --yes", "omit --dirs"),
        ("--action remove --keep not-under:none --yes", "cannot find"),
        ("--action remove --keep under:none --yes", "cannot find"),
        ("--action remove --keep biggest --yes", "rules are newest"),
        ("--action remove --keep newest --unique --yes", "cannot be used with"),
        (
            "--action remove --keep newest --plan-file p --json",
            "a text of its own",
        ),
        ("--action burn --keep newest --yes", "possible values"),
        (
            "--action move --to a --keep newest --names --yes",
            "only remove takes --names",
        ),
        (
            "--action symlink --keep newest --prune --yes",
            "move and trash take --prune",
        ),
        ("--keep newest --yes", "required"),
        ("--yes", "required"),
    ] {
        place.refuses(("dupes .", options), &[reason]);
    }
    assert_eq!(left(&place).len(), 3);
}

#[test]
fn directories_named_like_commands_are_searched() {
    let place = Place::new();
    place.files("act/file undo/file help/file", b"same");
    for paths in ["./act undo", "help act", "-- act undo"] {
        place.succeeds(("dupes", paths)).says("2 files of 4 B");
    }
}

#[test]
fn words_of_other_programs_are_answered_with_those_of_this_one() {
    let place = three();
    for (words, here) in [
        ("group .", "hint: to list groups of equal files: seekless dupes PATH"),
        (
            "remove --keep newest .",
            "seekless dupes --action remove --keep RULE PATH",
        ),
        ("link --soft .", "--action hardlink"),
        ("dedupe", "--action reflink"),
        ("move target", "--action move --to DIR"),
        ("-r -d .", "has no option `-d`"),
        ("-rdN .", "--action remove"),
        ("-makehardlinks true .", "--action hardlink"),
    ] {
        place.refuses(("dupes", words), &[here]);
    }
    // A file of that name is what is meant.
    for name in ["link", "group"] {
        fs::write(place.path(name), "same").unwrap();
        place.succeeds(("dupes c", name)).says("2 files of 4 B");
    }
    let found = place.succeeds("dupes -r .");
    assert_eq!(found.stdout, place.succeeds("dupes --recurse .").stdout);
    found.says("5 files of 4 B");
}

#[test]
fn json_tells_each_step_and_the_sum() {
    let place = three();
    let dry = place.succeeds("dupes --action remove --keep oldest --dry-run --json .");
    let document = dry.json();
    let mut steps = document["results"].as_array().unwrap().iter();
    assert!(steps.all(|step| step["outcome"] == "planned"), "{document}");
    assert_fields(&document["summary"], &json!({"planned": 2, "done": 0}));
    let done = place.succeeds("dupes --action remove --keep oldest --yes --jsonl .");
    let [one, other, sum] = &done.json_lines()[..] else {
        panic!("{done:?}")
    };
    for step in [one, other] {
        assert!(step["outcome"] == "done" && step["gained_bytes"].is_u64(), "{step}");
    }
    assert_eq!(sum["done"], 2);
    assert!(PathBuf::from(sum["journal"].as_str().unwrap()).exists());
    let none = place
        .succeeds("dupes --action remove --keep oldest --yes --json .")
        .json();
    assert_eq!(none["results"], json!([]));
    assert_eq!(none["summary"]["done"], 0);
}

#[test]
fn a_file_in_use_or_with_other_rights_is_left_alone_with_exit_code_1() {
    let place = three();
    let open = File::options().append(true).open(place.path("a/x.raw")).unwrap();
    let all = "dupes --action remove --keep oldest --yes .";
    place.fails(1, all).warns("a/x.raw");
    assert_eq!(left(&place), ["a/x.raw", "c"]);
    place.succeeds((all, "--without-leases"));
    assert!(!place.path("a/x.raw").exists() && left(&place).len() == 2);
    drop(open);
    let place = three();
    set_mode(place.path("c"), 0o666);
    let all = "dupes --action symlink --keep name:c --yes a c";
    place.fails(1, all).says("a symbolic link would give the rights");
    assert!(!place.path("a/x.raw").is_symlink());
}

#[test]
fn a_line_of_a_plan_for_a_file_that_nobody_searched_is_refused() {
    let place = three();
    let mut lines = planned(&place, "remove");
    // Another name of a file that was found.
    place.hard_link("a/x.raw", "outside");
    lines[2] = format!(
        "{}{}",
        until_path(&lines[2]),
        fs::canonicalize(place.path("outside")).unwrap().display()
    );
    carry_out(&place, &lines, &[]).warns("line 3, outside: it stays");
    assert_eq!(left(&place), ["a/x.raw", "c", "outside"]);
}

#[test]
fn the_directory_to_move_to_is_made_for_the_first_file_and_removed_by_undo() {
    let place = three();
    let all = "dupes . --action move --to away/old --keep";
    for (more, code) in [
        ("oldest --dry-run", 0),
        ("oldest --plan-file plan", 0),
        ("name:* --yes", 0),
        ("oldest", 2),
    ] {
        place.run((all, more)).ended_with(code);
        assert!(!place.path("away").exists(), "{more:?}");
    }
    fs::remove_file(place.path("plan")).unwrap();
    let before = names(&place);
    place.succeeds((all, "oldest --yes"));
    let moved = left(&place).into_iter().filter(|name| name.starts_with("away/old/"));
    assert_eq!(moved.count(), 2);
    for made in ["away", "away/old"] {
        let mode = fs::metadata(place.path(made)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "{made}");
    }
    place.succeeds("dupes undo");
    assert_eq!(names(&place), before);
    assert!(!place.path("away").exists());
    // A directory that was there stays, and so does what another program put into one that was made.
    for (existing, expected) in [("away", "away"), ("away/old", "away/old"), ("", "away/old/other")] {
        if !existing.is_empty() {
            fs::create_dir_all(place.path(existing)).unwrap();
        }
        place.succeeds((all, "oldest --yes"));
        if existing.is_empty() {
            place.file("away/old/other", b"");
        }
        place.succeeds("dupes undo");
        assert!(place.path(expected).exists(), "{existing:?}");
        assert_eq!(left(&place).len(), 3);
        assert!(!place.path("away/old").exists() || expected != "away", "{existing:?}");
        fs::remove_dir_all(place.path("away")).unwrap();
    }
    // A link that leads to nothing is not a missing directory.
    symlink("none", place.path("link")).unwrap();
    place
        .fails(2, "dupes --action move --to link --keep oldest --yes .")
        .warns("--to: link: cannot find it");
}

#[test]
fn what_was_moved_is_not_moved_again() {
    let place = three();
    fs::create_dir(place.path("away")).unwrap();
    let all = "dupes --action move --to away --keep oldest --yes .";
    place.succeeds(all);
    let moved = names(&place);
    place.succeeds(all).says("Nothing to do");
    assert_eq!(names(&place), moved);
}

#[test]
fn nothing_is_done_if_the_plan_cannot_be_printed() {
    let place = three();
    let mut command = place.command_of("bash");
    let line = "\"$0\" dupes --action remove --keep newest --yes . | true; exit ${PIPESTATUS[0]}";
    let path = place.command().get_program().to_owned();
    let output = command.args(["-c", line]).arg(path).output().unwrap();
    // The reader may end after it was written to.
    if output.status.code() == Some(2) {
        assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was done"));
        assert_eq!(left(&place).len(), 3);
    } else {
        assert_eq!(left(&place), ["a/x.raw"]);
    }
}

#[test]
fn files_of_hundreds_of_directories_and_these_are_acted_on_where_few_files_may_be_open() {
    let count = long_or(300, 60);
    let directories = format!("{} directories and ", 2 * (count - 1));
    for (options, moved) in [("--keep first", ""), ("--prune --keep first", &directories)] {
        let place = Place::new();
        fs::create_dir(place.path("moved")).unwrap();
        for number in 0..count {
            place.file(format!("all/{number}/sub/file"), b"same");
        }
        let before = place.content();
        // The hard limit as well, or it would be raised.
        place
            .run_with_few_files(48, ("dupes --action move --to moved --yes all", options))
            .succeeded()
            .says(&format!("{moved}{} files moved.", count - 1));
        assert_eq!(left(&place).len(), count);
        place.succeeds("dupes undo");
        assert_eq!(place.content(), before);
    }
}

#[test]
fn ctrl_c_is_an_answer() {
    let place = three();
    let mut command = place.command();
    command.args(["dupes", "--action", "remove", "--keep", "newest", "."]);
    let terminal = Terminal::of(100);
    let mut child = terminal.waiting(command);
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it waits for an answer");
    Ended::interrupted(child);
    assert_eq!(left(&place).len(), 3);
}

#[test]
fn undo_counts_files_as_acting_did_and_tells_an_interrupted_run_from_one_that_is_done() {
    let place = three();
    place.hard_link("a/x.raw", "a/more");
    let all = "dupes --action remove --keep name:c --yes .";
    place.succeeds(all).says("2 files removed");
    let list = || listed(&place);
    let [journal] = &list()[..] else { panic!() };
    assert_fields(journal, &json!({"files": 2, "state": "done"}));
    for words in ["dupes undo --dry-run", "dupes undo"] {
        place.succeeds(words).says("2 files ");
    }
    assert_eq!(list()[0]["state"], "undone");
    // As Ctrl-C leaves it.
    let path = Path::new(journal["path"].as_str().unwrap());
    place.succeeds(all);
    let stopped = list()[0]["path"].as_str().unwrap().to_owned();
    let text = fs::read_to_string(&stopped).unwrap();
    fs::write(&stopped, text.replace("\"is_stopped\":false", "\"is_stopped\":true")).unwrap();
    assert_eq!(list()[0]["state"], "interrupted");
    // As a kill leaves it; the next run settles it, and it stays one that was interrupted.
    place.succeeds("dupes undo");
    kill_in_the_first_step(&place);
    assert_eq!(list()[0]["state"], "interrupted");
    place.run(all);
    assert_eq!(list()[1]["state"], "interrupted", "{:?}", list());
    assert!(path.exists());
}

#[test]
fn undo_foresees_what_it_cannot_restore() {
    let place = three();
    place.succeeds("dupes --action remove --keep name:c --yes .");
    place.file("b/long-name", b"another");
    let foreseen = place.fails(2, "dupes undo --dry-run");
    foreseen.warns("b/long-name: would not be restored: another file has its name now");
    foreseen.says("1 file to restore, 1 that would not be restored.\n");
    fs::write(place.path("c"), "other content").unwrap();
    let foreseen = place.run("dupes undo --dry-run");
    foreseen.warns("has changed since");
    foreseen.says("Nothing to restore, 2 that would not be restored.\n");
    place.fails(2, "dupes undo --dry-run --list");
}

#[test]
fn undo_says_which_files_are_restored_apart_from_their_other_names() {
    let place = three();
    place.files("searched/one searched/two", b"searched");
    place.hard_link("searched/two", "elsewhere");
    place.succeeds("dupes --action remove --keep name:one --yes searched");
    let ended = place.succeeds("dupes undo");
    ended.warns("searched/two: restored as a file of its own: it had 1 hard link outside the search");
    ended.says("1 file restored.");
}

#[test]
fn a_run_of_which_nothing_can_be_restored_does_not_keep_older_ones_from_being_undone() {
    let place = Place::new();
    for directory in ["old", "new"] {
        place.files(&format!("{directory}/1 {directory}/2"), directory.as_bytes());
        place.succeeds(("dupes --action remove --keep first --yes", directory));
    }
    fs::rename(place.path("new"), place.path("away")).unwrap();
    place.fails(2, "dupes undo").warns("new/2: not restored");
    place.succeeds("dupes undo --list").says("undo failed");
    place.succeeds("dupes undo").warns("skipped, because");
    assert!(place.path("old/2").exists());
    // It is tried again once it is the only one.
    place.fails(2, "dupes undo");
    fs::rename(place.path("away"), place.path("new")).unwrap();
    place.succeeds("dupes undo");
    assert!(place.path("new/2").exists());
}

#[test]
fn a_run_whose_journal_is_removed_does_not_promise_an_undo() {
    let place = Place::new();
    // So many are left alone that the run waits for the reader of its messages.
    for number in 0..520 {
        place.file(format!("a{number:04}"), b"same");
    }
    for number in 0..1500 {
        place.file(format!("b{number:04}"), b"SAME");
    }
    place.succeeds("dupes --action remove --keep name:a0000 --plan-file plan .");
    // All in one group, whatever their bytes are.
    let mut lines = lines_of(&place);
    let of_kept = lines
        .iter()
        .position(|line| line.starts_with("keep") && line.ends_with("a0000"))
        .unwrap();
    lines.swap(1, of_kept);
    lines.retain(|line| !line.is_empty());
    for line in lines[2..].iter_mut().filter(|line| line.starts_with("keep")) {
        *line = with_word(line, "remove");
    }
    lines[2..].sort();
    place.file("plan", lines.join("\n").as_bytes());
    let mut command = place.command();
    command.args(words("dupes act --plan plan --yes"));
    let shown = File::create(place.path("shown")).unwrap();
    let mut child = command.stdout(shown).stderr(Stdio::piped()).spawn().unwrap();
    while place.path("a0001").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(journal(&place)).unwrap();
    let ended = child.wait_with_output().unwrap();
    let printed = place.text("shown") + &String::from_utf8_lossy(&ended.stderr);
    assert!(printed.contains("annot be undone"), "{printed}");
    assert!(!printed.contains("To undo"), "{printed}");
}

/// Leaves all as a kill after the first rename would, and a file that another program saved meanwhile.
fn kill_in_the_first_step(place: &Place) {
    place.succeeds("dupes --action remove --keep name:c --yes .");
    let journal = journal(place);
    // As a kill leaves it after the first file was renamed.
    let text = fs::read_to_string(&journal).unwrap();
    let records: Vec<&str> = text.lines().take(4).collect();
    fs::write(journal, records.join("\n") + "\n").unwrap();
    // The payload of a record begins after its length and sum.
    let step: Value = serde_json::from_str(&records[2][18..]).unwrap();
    let path = Path::new(step["file"]["paths"][0]["path"].as_str().unwrap());
    let temporary = step["names"][0]["temporary"].as_str().unwrap();
    fs::write(path.with_file_name(temporary), "same").unwrap();
    fs::write(path, "saved meanwhile").unwrap();
}

#[test]
fn what_a_killed_run_left_is_told_by_the_next_also_if_that_has_nothing_to_do() {
    for has_more in [true, false] {
        let place = three();
        kill_in_the_first_step(&place);
        for name in ["v", "w"] {
            place.file(name, if has_more { b"more" } else { name.as_bytes() });
        }
        let again = "dupes --action remove --keep name:v --yes v w";
        let ended = place.succeeds(again);
        assert_eq!(ended.stdout.contains("removed"), has_more, "{}", ended.stdout);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let [file, run] = &lines[..] else { panic!("{lines:?}") };
        let why = "not settled after an earlier run was killed: another program replaced";
        assert!(file.contains(why), "{file}");
        let sum = "earlier run was killed: 1 file done, 0 put back or not begun, 1 not settled";
        assert!(run.ends_with(sum), "{run}");
        place.file("w", b"more");
        assert_eq!(place.succeeds(again).stderr, "");
    }
}

#[test]
fn moving_with_few_open_files_leaves_no_empty_directories() {
    for limit in (10..24).step_by(long_or(1, 6)) {
        let place = Place::new();
        place.directories("to");
        for number in 0..20 {
            place.file(format!("tree/one/{number}"), format!("{number}").as_bytes());
            place.file(format!("tree/two/{number}"), format!("{number}").as_bytes());
        }
        place.succeeds("dupes --action move --to to --keep path:tree/one/* --plan-file plan tree");
        let ended = place.run_with_few_files(limit, "dupes act --plan plan --yes");
        let mut find = place.command_of("find");
        let empty = Ended::by(find.args(words("to -mindepth 1 -type d -empty")));
        assert_eq!(empty.stdout, "", "{limit} {ended:?}");
        let is_ours = |name: &String| name.contains("/one/") || name.contains("/two/");
        assert_eq!(files(&place).into_keys().filter(is_ours).count(), 40);
    }
}

#[test]
fn directories_that_are_made_for_moved_files_are_usable_by_their_owner_whatever_the_umask() {
    let place = three();
    let mut command = place.command_after("umask 0777");
    command.args(words("dupes --action move --to new/away --keep newest --yes ."));
    Ended::by(&mut command).succeeded();
    let modes = ["new", "new/away"].map(|name| fs::metadata(place.path(name)).unwrap().mode() & 0o7777);
    assert_eq!(modes, [0o700; 2]);
    assert_eq!(left(&place).len(), 3);
}
