//! What is read back and acted on is this user's own: documents, journals, kept digests and directories that other users could
//! change are refused.

use std::fs::{self};
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::Path;

use rustix::fs::FileType;

use crate::common::place::{Ended, Place, assert_contains, set_mode};
use crate::common::unprivileged::NOBODY;

#[test]
fn plan_that_others_may_have_written_is_not_acted_on() {
    let Some(place) = Place::of_root() else { return };
    place.directories("tree shared sticky");
    place.files("tree/a tree/b", b"same");
    place.succeeds("dupes --action remove --keep first --plan-file report tree");
    let report = place.path("report");
    let remove = "dupes act --dry-run --plan";
    let act = |from: &str| place.run((remove, from));
    for (name, open) in [("shared", 0o777), ("sticky", 0o1777)] {
        set_mode(place.path(name), open);
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
        ("report", &|| set_mode(&report, 0o666), open),
        ("report", &|| set_mode(&report, 0o1666), open),
        ("report", &|| set_mode(place.path("."), 0o777), open),
        ("shared/to/report", &|| (), open),
        ("shared/../shared/to/link", &|| (), open),
        ("sticky/theirs", &|| (), foreign),
        ("sticky/pipe", &|| (), foreign),
    ];
    for (from, change, reason) in refusals {
        for from in ["report", "link", "sticky/to/report"] {
            act(from).succeeded();
        }
        change();
        act(from).refused_with(&[reason]);
        chown(&report, Some(0), None).unwrap();
        set_mode(&report, 0o644);
        set_mode(place.path("."), 0o755);
    }
    let mut piped = place.command_of("bash");
    let script = r#""$0" "$@" <(sleep 0.2; cat report) < /dev/null"#;
    piped.args(["-c", script]).arg(place.command().get_program());
    Ended::by(piped.args(remove.split(' '))).succeeded();
}

#[test]
fn run_of_another_user_is_not_repeated_or_resumed() {
    let Some(place) = Place::of_root() else { return };
    let ended = place.bench("--dir .");
    assert!(!ended.stderr.contains("cannot be trusted"), "{}", ended.stderr);
    let runs = place.path("../data/seekless/runs");
    let [own, above] = [&runs, &place.path("../data/seekless")].map(|path| fs::read_dir(path).unwrap());
    for entry in own.chain(above).map(Result::unwrap) {
        let open = entry.metadata().unwrap().mode() & 0o077;
        assert_eq!(open, 0, "{}", entry.path().display());
    }
    let own = runs.join(place.only_run().id + ".json");
    let foreign = place.file("foreign.json", &fs::read(&own).unwrap());
    for document in [&own, &foreign] {
        chown(document, Some(NOBODY), None).unwrap();
    }
    let foreign = foreign.to_str().unwrap();
    for how in [["--like", "latest"], ["--resume", "latest"], ["--resume", foreign]] {
        place.refuses(("bench --budget 1s", &how), &["belongs to another user"]);
    }
    chown(&own, Some(0), None).unwrap();
    set_mode(&runs, 0o777);
    let ended = place.bench("--dir .");
    assert_contains(&ended.stderr, &["Saved runs cannot be trusted"]);
    place.refuses("bench --like latest", &["not trusted"]);
}

#[test]
fn undo_names_an_untrusted_journal_and_undoes_no_earlier_run() {
    let Some(place) = Place::of_root() else { return };
    let remove = |tree: &str| {
        place.files(&format!("{tree}/a {tree}/b"), b"same");
        place.succeeds(("dupes --action remove --keep first --yes", tree));
    };
    remove("one");
    remove("two");
    let journals = || fs::read_dir(place.path("../state/seekless/dupes")).unwrap();
    let newest = journals().map(|entry| entry.unwrap().path()).max().unwrap();
    chown(&newest, Some(NOBODY), None).unwrap();
    let said = place.run("dupes undo").refused();
    let name = newest.file_name().unwrap().to_str().unwrap();
    assert_contains(&said, &[name, "belongs to another user"]);
    assert!(!place.path("one/b").exists());
    place.succeeds("dupes undo --list").warns(name);
    chown(&newest, Some(0), None).unwrap();
    place.succeeds("dupes undo");
    assert!(place.path("two/b").exists() && !place.path("one/b").exists());
    // A later run that is undone changes nothing about that.
    remove("three");
    place.succeeds("dupes undo");
    let middle = journals().map(|entry| entry.unwrap().path()).max().unwrap();
    remove("four");
    place.succeeds("dupes undo");
    chown(&middle, Some(NOBODY), None).unwrap();
    place.refuses("dupes undo", &["belongs to another user"]);
    assert!(!place.path("one/b").exists());
    chown(&middle, Some(0), None).unwrap();
    // A link on the way that others can take away.
    place.directories("shared");
    set_mode(place.path("shared"), 0o777);
    symlink(place.path("../state"), place.path("shared/state")).unwrap();
    let mut command = place.command();
    command.args(["dupes", "--action", "remove", "--keep", "first", "--yes", "two"]);
    let ended = Ended::by(command.env("XDG_STATE_HOME", place.path("shared/state")));
    ended.failed_with(2, &["other users may write"]);
    assert!(place.path("two/b").exists());
}

#[test]
fn dupes_cache_is_private_and_follows_no_planted_link() {
    let place = Place::new();
    place.file("tree/a", b"same");
    let search = || place.run("dupes --cache --cache-file kept/digests tree");
    assert_eq!(search().code, Some(0));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("kept"), mode("kept/digests")), (0o700, 0o600));
    set_mode(place.path("kept/digests"), 0o644);
    assert_eq!(search().code, Some(0));
    assert_eq!(mode("kept/digests"), 0o600);
    let precious = place.file("precious", b"precious");
    fs::remove_file(place.path("kept/digests")).unwrap();
    symlink(&precious, place.path("kept/digests")).unwrap();
    search().warns("cannot open the cache of digests");
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
fn update_journal_that_a_list_lets_others_write_is_refused() {
    let Some(place) = Place::of_root() else { return };
    let file = place.file("file", &[7; 9000]);
    let journal = place.file(".file.seekless-journal", b"whatever");
    // Of the same mode as the file, so that only the list tells them apart.
    for path in [&file, &journal] {
        set_mode(path, 0o775);
    }
    if let_nobody_write(&journal) {
        place.refuses("update file --recover", &["other users"]);
    }
}

#[test]
fn access_list_that_lets_others_write_stops_symlinks() {
    let Some(place) = Place::of_root() else { return };
    place.directories("tree tree/keep tree/other");
    place.files("tree/keep/a tree/other/b", b"same");
    if !let_nobody_write(&place.path("tree/keep")) {
        return;
    }
    let link = place.fails(1, "dupes --action symlink --keep name:a --yes tree");
    link.says("access control list");
    assert!(!place.path("tree/other/b").is_symlink());
}
