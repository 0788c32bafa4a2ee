//! `seekless storage`: what lies behind a path, what works there, and what is left of trying it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::place::{Ended, Mount, Place, prepared, wait_for};
use super::unprivileged::Common;

fn described(ended: Ended) -> Vec<Value> {
    let all: Value = serde_json::from_str(&ended.succeeded().stdout).unwrap();
    all.as_array().unwrap().clone()
}

fn state<'a>(described: &'a Value, name: &str) -> (&'a str, &'a Value) {
    let features = described["features"].as_array().unwrap();
    let feature = features.iter().find(|feature| feature["name"] == name).unwrap();
    (feature["state"].as_str().unwrap(), &feature["reason"])
}

#[test]
fn a_directory_a_file_and_no_path_at_all_have_the_same_storage() {
    let place = Place::new();
    place.file("file", b"bytes");
    let all = described(place.run(&["storage", "--json", ".", "file", "file"]));
    assert_eq!(all.len(), 3);
    let alone = described(place.run(&["storage", "--json"])).remove(0);
    assert_eq!(alone["path"], ".");
    for one in &all {
        for field in [
            "file_system",
            "mount_point",
            "block_bytes",
            "total_bytes",
            "device",
            "features",
        ] {
            assert_eq!(one[field], alone[field], "{field}");
        }
        assert!(one["free_bytes"].as_u64().unwrap() <= one["total_bytes"].as_u64().unwrap());
    }
    assert_eq!(place.content().len(), 1, "scratch files are gone");
}

#[test]
fn memory_is_told_from_a_disk() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.directory(), "size=64m") else {
        return;
    };
    let one = described(place.run(&["storage", "--json"])).remove(0);
    assert_eq!(one["file_system"], "tmpfs");
    assert!(one["mount_options"].as_str().unwrap().contains("size=65536k"), "{one}");
    assert_eq!(one["device"], Value::Null);
    for (name, wanted) in [
        ("direct-read", "unavailable"),
        ("drop", "unavailable"),
        ("reflink", "unavailable"),
        ("holes", "available"),
        ("punch", "available"),
        ("fallocate", "available"),
        ("mmap", "available"),
    ] {
        assert_eq!(state(&one, name).0, wanted, "{name}: {one}");
    }
    assert!(place.content().is_empty());
}

#[test]
fn where_nothing_can_be_written_features_are_unknown_and_the_rest_is_shown() {
    let common = Common::new();
    let ended = common.run(&["storage", "shut", "--json"]);
    let one = described(ended).remove(0);
    assert!(!one["file_system"].as_str().unwrap().is_empty());
    let (state, reason) = state(&one, "punch");
    assert_eq!(state, "unknown");
    assert!(reason.as_str().unwrap().contains("Permission denied"), "{reason}");
    let text = common.run(&["storage", "shut"]).succeeded().stdout;
    assert!(
        text.contains("unknown: ") && text.contains("Permission denied"),
        "{text}"
    );
}

#[test]
fn a_full_file_system_is_no_end() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.directory(), "size=64k") else {
        return;
    };
    let one = described(place.run(&["storage", "--json"])).remove(0);
    assert_eq!(state(&one, "punch").0, "unknown");
    assert!(
        state(&one, "punch").1.as_str().unwrap().contains("No space left"),
        "{one}"
    );
    assert!(place.content().is_empty());
}

#[test]
fn what_is_neither_file_nor_directory_is_refused_without_being_opened() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(prepared("mkfifo", &[fifo.as_os_str()]));
    for path in ["fifo", "/dev/null", "gone"] {
        let sentence = place.run(&["storage", ".", path]).refused();
        assert!(sentence.contains(path), "{sentence}");
    }
    assert_eq!(place.content().len(), 1);
}

#[test]
fn a_name_that_commands_a_terminal_is_written_out() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"\x1b[2J\xff");
    std::fs::create_dir(place.path(name)).unwrap();
    let text = place.run(&[OsStr::new("storage"), name]).succeeded().stdout;
    assert!(text.starts_with("\\u{1b}[2J\\xff\n"), "{text}");
    let one = described(place.run(&[OsStr::new("storage"), OsStr::new("--json"), name])).remove(0);
    assert_eq!(one["path_bytes"], "1b5b324aff");
}

#[test]
fn stopped_while_features_are_tried_it_leaves_nothing() {
    let place = Place::new();
    // Many paths, so that it is at work for long enough.
    let child = place.command().arg("storage").args([".."; 200]).spawn().unwrap();
    let parent = place.directory().parent().unwrap().to_owned();
    let entries = || std::fs::read_dir(&parent).unwrap().count();
    wait_for("the directory is made", || entries() > 1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(Ended::of(child).code, Some(130));
    assert_eq!(entries(), 1);
}

#[test]
fn features_are_tried_beside_a_file_whose_overlay_gives_it_another_number_than_its_directory() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    for name in ["lower", "upper", "work", "mount"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let path = |name| place.path(name);
    let Some(_lower) = Mount::tmpfs(&path("lower"), "size=1M") else {
        return;
    };
    place.file("lower/file", b"bytes");
    let Some(_mount) = Mount::overlay([&path("lower"), &path("upper"), &path("work")], &path("mount")) else {
        return;
    };
    let number = |name| std::fs::metadata(path(name)).unwrap().dev();
    if number("mount") == number("mount/file") {
        println!("skipped: the overlay gives all its files one number here");
        return;
    }
    let described = described(place.run(&["storage", "--json", "mount/file"])).remove(0);
    assert_eq!(state(&described, "holes").0, "available");
}
