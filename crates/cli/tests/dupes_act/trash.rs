//! `--action trash`: what it leaves is what other programs read and restore.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::place::Place;

/// Equal files `kept` and `d/NAME`.
fn two(name: &OsStr) -> (Place, PathBuf) {
    let place = Place::new();
    fs::create_dir(place.path("d")).unwrap();
    // Other programs ask on which file system it is.
    fs::create_dir(place.directory().with_file_name("home")).unwrap();
    place.file("kept", b"same");
    let file = place.file(place.path("d").join(name), b"same");
    (place, file)
}

/// The trash of the place's user.
fn trash(place: &Place) -> PathBuf {
    place.directory().with_file_name("data").join("Trash")
}

/// What the only file in the trash is said to have been.
fn described(place: &Place) -> Vec<String> {
    let infos = fs::read_dir(trash(place).join("info")).into_iter().flatten();
    let texts = infos.map(|info| fs::read_to_string(info.unwrap().path()).unwrap());
    texts.collect()
}

fn to_trash(place: &Place) {
    let all = ["dupes", "--action", "trash", "--keep", "name:kept", "--yes", "."];
    let ended = place.succeeds(&all);
    ended.says("1 file moved to the trash.");
}

#[test]
fn undo_restores_a_file_from_the_trash_and_leaves_nothing_there() {
    let (place, file) = two(OsStr::new("copy"));
    fs::create_dir_all(place.directory().with_file_name("data")).unwrap();
    let before = place.content();
    to_trash(&place);
    assert!(!file.exists());
    assert_eq!(described(&place).len(), 1);
    let found = place.succeeds("dupes .");
    found.says("0 groups");
    place.succeeds("dupes undo");
    assert_eq!(place.content(), before);
    assert!(!trash(&place).exists());
}

#[test]
fn the_trash_says_where_a_file_was_as_gio_does() {
    for name in [&b"copy"[..], b"a b%+~.jpg", "\u{e9}\u{4e2d}".as_bytes(), b"\xff\n'\"&;"] {
        let (place, file) = two(OsStr::from_bytes(name));
        let gio = place.command_of("gio").arg("trash").arg(&file).output();
        if !gio.is_ok_and(|output| output.status.success()) {
            println!("skipped: gio cannot trash a file here");
            return;
        }
        let line = |text: &str| text.lines().find(|line| line.starts_with("Path=")).map(str::to_owned);
        let expected = described(&place);
        fs::remove_dir_all(trash(&place)).unwrap();
        fs::write(&file, b"same").unwrap();
        to_trash(&place);
        let own = described(&place);
        assert_eq!(line(&own[0]), line(&expected[0]));
        let shape = |text: &str| {
            text.lines()
                .map(|line| line.split('=').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&own[0]), shape(&expected[0]));
    }
}

#[test]
fn other_programs_list_and_restore_what_is_in_the_trash() {
    for name in ["copy", "a b%\u{e9}.jpg"] {
        let (place, file) = two(OsStr::new(name));
        to_trash(&place);
        let Ok(listed) = place.command_of("trash-list").output() else {
            println!("skipped: there is no trash-list (trash-cli)");
            return;
        };
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.trim_end().ends_with(&file.display().to_string()), "{listed}");
        let mut restore = place.command_of("trash-restore");
        restore.arg(&file).stdin(Stdio::piped());
        let mut restoring = restore.spawn().unwrap();
        std::io::Write::write_all(&mut restoring.stdin.take().unwrap(), b"0\n").unwrap();
        restoring.wait().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"same", "{name}");
        assert_eq!(described(&place).len(), 0);
        // It is back, so there is nothing to move.
        place.succeeds("dupes undo");
        assert_eq!(fs::read(&file).unwrap(), b"same", "{name}");
    }
}
