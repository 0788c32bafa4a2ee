//! What is read back and acted on is this user's own: documents, journals, kept digests and directories that other users could
//! change are refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use rustix::fs::FileType;

use crate::common::place::{Ended, Place, assert_contains, is_root};
use crate::common::unprivileged::NOBODY;

#[test]
fn only_documents_that_nobody_else_can_have_written_are_acted_on() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.directories("tree shared sticky");
    for name in ["tree/a", "tree/b"] {
        place.file(name, b"same");
    }
    let report = place.file("report", place.run("dupes --json tree").stdout.as_bytes());
    let remove = ["dupes", "act", "remove", "--keep", "first", "--dry-run", "--from"];
    let act = |from: &str| place.run((&remove, &[from]));
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for (name, open) in [("shared", 0o777), ("sticky", 0o1777)] {
        mode(&place.path(name), open);
        symlink(place.directory(), place.path(name).join("to")).unwrap();
    }
    symlink("report", place.path("link")).unwrap();
    let theirs = place.path("sticky/theirs");
    symlink(&report, &theirs).unwrap();
    lchown(&theirs, Some(NOBODY), None).unwrap();
    // Nobody writes to it.
    let pipe = place.path("sticky/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, 0o644.into(), 0).unwrap();
    chown(&pipe, Some(NOBODY), None).unwrap();
    let (foreign, open) = ("belongs to another user", "other users may write");
    let refusals: [(&str, &dyn Fn(), &str); 8] = [
        ("report", &|| chown(&report, Some(NOBODY), None).unwrap(), foreign),
        ("report", &|| mode(&report, 0o666), open),
        ("report", &|| mode(&report, 0o1666), open),
        ("report", &|| mode(&place.path("."), 0o777), open),
        ("shared/to/report", &|| (), open),
        ("shared/../shared/to/link", &|| (), open),
        ("sticky/theirs", &|| (), foreign),
        ("sticky/pipe", &|| (), foreign),
    ];
    for (from, change, reason) in refusals {
        for from in ["report", "link", "sticky/to/report"] {
            let ended = act(from);
            assert_eq!(ended.code, Some(0), "{from}: {}", ended.stderr);
        }
        change();
        let said = act(from).refused();
        assert!(said.contains(reason), "{from}: {said}");
        chown(&report, Some(0), None).unwrap();
        mode(&report, 0o644);
        mode(&place.path("."), 0o755);
    }
    let mut piped = place.command_of("bash");
    let script = r#""$0" "$@" <(sleep 0.2; cat report) < /dev/null"#;
    piped
        .args(["-c", script])
        .arg(place.command().get_program())
        .args(remove);
    let ended = Ended::of(piped.spawn().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_run_of_another_user_is_not_run_again_and_runs_in_a_shared_directory_are_told() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let ended = place.bench("--dir .");
    assert!(!ended.stderr.contains("cannot be trusted"), "{}", ended.stderr);
    let runs = place.path("../data/seekless/runs");
    for entry in fs::read_dir(&runs)
        .unwrap()
        .chain(fs::read_dir(place.path("../data/seekless")).unwrap())
    {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().mode() & 0o077,
            0,
            "{}",
            entry.path().display()
        );
    }
    let own = runs.join(place.only_run().id + ".json");
    let foreign = place.file("foreign.json", &fs::read(&own).unwrap());
    for document in [&own, &foreign] {
        chown(document, Some(NOBODY), None).unwrap();
    }
    let foreign = foreign.to_str().unwrap();
    for how in [["--like", "latest"], ["--resume", "latest"], ["--resume", foreign]] {
        let said = place.run(("bench --budget 1s", &how)).refused();
        assert_contains(&said, &["belongs to another user"]);
    }
    chown(&own, Some(0), None).unwrap();
    fs::set_permissions(&runs, Permissions::from_mode(0o777)).unwrap();
    let ended = place.bench("--dir .");
    assert_contains(&ended.stderr, &["Saved runs cannot be trusted"]);
    assert_contains(&place.run("bench --like latest").refused(), &["not trusted"]);
}

#[test]
fn a_journal_that_cannot_be_trusted_is_named_and_no_earlier_run_is_undone_instead() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let remove = |tree: &str| {
        fs::create_dir(place.path(tree)).unwrap();
        for name in ["a", "b"] {
            place.file(format!("{tree}/{name}"), b"same");
        }
        place.run(&["dupes", "--action", "remove", "--keep", "first", "--yes", tree])
    };
    remove("one").succeeded();
    remove("two").succeeded();
    let journals = || fs::read_dir(place.path("../state/seekless/dupes")).unwrap();
    let newest = journals().map(|entry| entry.unwrap().path()).max().unwrap();
    chown(&newest, Some(NOBODY), None).unwrap();
    let said = place.run("dupes undo").refused();
    let name = newest.file_name().unwrap().to_str().unwrap();
    assert_contains(&said, &[name, "belongs to another user"]);
    assert!(!place.path("one/b").exists());
    let listed = place.run("dupes undo --list");
    assert!(
        listed.stderr.contains(name) && listed.code == Some(0),
        "{}",
        listed.stderr
    );
    chown(&newest, Some(0), None).unwrap();
    place.run("dupes undo").succeeded();
    assert!(place.path("two/b").exists() && !place.path("one/b").exists());
    // A later run that is undone changes nothing about that.
    remove("three").succeeded();
    place.run("dupes undo").succeeded();
    let middle = journals().map(|entry| entry.unwrap().path()).max().unwrap();
    remove("four").succeeded();
    place.run("dupes undo").succeeded();
    chown(&middle, Some(NOBODY), None).unwrap();
    assert_contains(&place.run("dupes undo").refused(), &["belongs to another user"]);
    assert!(!place.path("one/b").exists());
    chown(&middle, Some(0), None).unwrap();
    // A link on the way that others can take away.
    place.directories("shared");
    fs::set_permissions(place.path("shared"), Permissions::from_mode(0o777)).unwrap();
    symlink(place.path("../state"), place.path("shared/state")).unwrap();
    let mut command = place.command();
    command.args(["dupes", "--action", "remove", "--keep", "first", "--yes", "two"]);
    let child = command.env("XDG_STATE_HOME", place.path("shared/state")).spawn();
    let ended = Ended::of(child.unwrap());
    ended.failed_with(2, &["other users may write"]);
    assert!(place.path("two/b").exists());
}

#[test]
fn kept_digests_are_private_and_no_planted_link_is_followed() {
    let place = Place::new();
    place.file("tree/a", b"same");
    let search = || place.run("dupes --cache --cache-file kept/digests tree");
    assert_eq!(search().code, Some(0));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("kept"), mode("kept/digests")), (0o700, 0o600));
    fs::set_permissions(place.path("kept/digests"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(search().code, Some(0));
    assert_eq!(mode("kept/digests"), 0o600);
    let precious = place.file("precious", b"precious");
    fs::remove_file(place.path("kept/digests")).unwrap();
    symlink(&precious, place.path("kept/digests")).unwrap();
    let said = search().stderr;
    assert_contains(&said, &["cannot open the cache of digests"]);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

/// Gives a file or directory the list `user::rwx user:NOBODY:rwx group::r-x mask::rwx other::r-x`.
fn let_nobody_write(path: &Path) -> bool {
    let entries: [(u16, u16, u32); 5] = [(1, 7, !0), (2, 7, NOBODY), (4, 5, !0), (16, 7, !0), (32, 5, !0)];
    let list = entries
        .map(|(tag, permissions, id)| [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat());
    let list = [&2_u32.to_le_bytes()[..], &list.concat()].concat();
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags);
    if let Err(error) = set {
        println!("skipped: no access control lists here: {error}");
    }
    set.is_ok()
}

#[test]
fn a_journal_of_an_update_that_a_list_lets_others_write_is_refused() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let file = place.file("file", &[7; 9000]);
    let journal = place.file(".file.seekless-journal", b"whatever");
    // Of the same mode as the file, so that only the list tells them apart.
    for path in [&file, &journal] {
        fs::set_permissions(path, Permissions::from_mode(0o775)).unwrap();
    }
    if let_nobody_write(&journal) {
        let said = place.run("update file --recover").refused();
        assert_contains(&said, &["other users"]);
    }
}

#[test]
fn an_access_control_list_that_lets_others_write_is_seen() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.directories("tree tree/keep tree/other");
    for name in ["tree/keep/a", "tree/other/b"] {
        place.file(name, b"same");
    }
    if !let_nobody_write(&place.path("tree/keep")) {
        return;
    }
    let link = "dupes --action symlink --keep name:a --yes tree";
    let ended = place.run(link);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_contains(&ended.stdout, &["access control list"]);
    assert!(!place.path("tree/other/b").is_symlink());
}
