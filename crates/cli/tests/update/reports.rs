//! What `seekless update` reports about its work, and about another update of the same file.

use std::fs;

use super::changes::json;
use crate::common::place::{Ended, Place, assert_contains, wait_for};

#[test]
fn what_was_done_is_told_whatever_the_path_and_where_it_cannot_be_told() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff");
    let path = place.file(name, b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    let mut command = place.command();
    command.arg("update").arg(name).args(["--from", "good", "--json"]);
    let told = json(&Ended::of(command.spawn().unwrap()).succeeded());
    assert_eq!((&told["path"], &told["path_bytes"]), (&"\u{fffd}".into(), &"ff".into()));
    assert_eq!(fs::read(&path).unwrap(), b"xrecious");
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let failed = "cannot write the output: No space left on device";
    for (words, sentence) in [
        (&["--from", "good"][..], format!("is updated, but {failed}")),
        (&["--from", "good", "--json"], format!("is updated, but {failed}")),
        (&["--from", "good", "--dry-run"], format!("seekless: {failed}")),
        (&["--recover"], format!("seekless: {failed}")),
    ] {
        fs::write(&path, b"precious").unwrap();
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = place.command();
        command.arg("update").arg(name).args(words).stdout(full);
        let ended = Ended::of(command.spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{words:?}");
        assert!(ended.stderr.contains(&sentence), "{words:?}: {}", ended.stderr);
        let is_changed = fs::read(&path).unwrap() == b"xrecious";
        assert_eq!(is_changed, sentence.contains("updated"), "{words:?}");
    }
}

#[test]
fn a_signal_ends_the_writing_and_is_told_with_what_became_of_the_file() {
    let place = Place::new();
    let before = vec![7; 100_000];
    let mut changes = b"SKLSUPDT\x01\0\0\0".to_vec();
    for n in 0..100_000_u64 {
        changes.extend_from_slice(&n.to_le_bytes());
        changes.extend_from_slice(b"\x01\0\0\0x");
    }
    place.file("many", &changes);
    for (safety, words) in [
        ("in-place", "the first "),
        ("journal", "the file is unchanged"),
        ("replace", "file is unchanged"),
    ] {
        let path = place.file("file", &before);
        let mut command = place.command();
        command.args(["update", "file", "--from", "many", "--safety", safety]);
        // Each of these writes waits for the device.
        command.args(["--method", "in-order", "--durability", "through"]);
        let child = command.spawn().unwrap();
        wait_for("it is at it", || is_locked(&path));
        std::thread::sleep(std::time::Duration::from_millis(50));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        let ended = Ended::of(child);
        if ended.code == Some(0) {
            println!("skipped: it was done before the signal came");
            continue;
        }
        assert_eq!(ended.code, Some(130), "{safety}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("interrupted") && ended.stderr.contains(words),
            "{safety}: {}",
            ended.stderr
        );
        assert_eq!(fs::read(&path).unwrap() == before, safety != "in-place", "{safety}");
        assert_eq!(fs::read_dir(place.directory()).unwrap().count(), 2, "{safety}");
    }
}

#[test]
fn a_closed_output_is_no_failure() {
    let place = Place::new();
    let path = place.file("file", b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    let mut child = place.start("update file --from good");
    drop(child.stdout.take());
    let ended = Ended::of(child);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::read(path).unwrap(), b"xrecious");
}

#[test]
fn a_second_replacement_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let path = place.file("file", &vec![7; 32 << 20]);
    let mut changes = b"SKLSUPDT\x01\0\0\0".to_vec();
    for n in 0..200_000_u64 {
        changes.extend_from_slice(&(n * 160).to_le_bytes());
        changes.extend_from_slice(b"\x01\0\0\0x");
    }
    place.file("many", &changes);
    place.file("one", b"{\"offset\": 0, \"text\": \"y\"}\n");
    let many = [
        "update", "file", "--from", "many", "--safety", "replace", "--method", "in-order",
    ];
    let mut first = place.start(&many);
    let held = || is_locked(&path);
    wait_for("the first holds the file", || {
        held() || first.try_wait().unwrap().is_some()
    });
    let is_going = first.try_wait().unwrap().is_none();
    let second = place.run("update file --from one --safety replace");
    let is_going = is_going && first.try_wait().unwrap().is_none();
    Ended::of(first).succeeded();
    if is_going {
        assert_eq!(second.code, Some(2));
        assert_contains(&second.stderr, &["another update of this file is running"]);
    }
    assert_eq!(fs::read_dir(place.directory()).unwrap().count(), 3);
}

/// Whether an update holds the file, without opening it.
fn is_locked(path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(path).unwrap().ino();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks
        .lines()
        .any(|line| line.contains("FLOCK") && line.contains(&format!(":{inode} ")))
}
