//! `seekless storage`: the file system and devices of a path, the features that work there, and no files left by trying them.

mod common;

use serde_json::{Value, json};

use common::place::{Ended, Mount, Place, assert_contains, assert_fields, prepared, wait_for, words};
use common::unprivileged::Common;

fn described(ended: Ended) -> Vec<Value> {
    ended.succeeded().json().as_array().unwrap().clone()
}

fn state<'a>(described: &'a Value, name: &str) -> (&'a str, &'a Value) {
    let features = described["features"].as_array().unwrap();
    let feature = features.iter().find(|feature| feature["name"] == name).unwrap();
    (feature["state"].as_str().unwrap(), &feature["reason"])
}

#[test]
fn storage_of_a_file_its_directory_and_no_path_is_the_same() {
    let place = Place::new();
    place.file("file", b"bytes");
    let all = described(place.call("storage --json . file file"));
    assert_eq!(all.len(), 3);
    let alone = described(place.call("storage --json")).remove(0);
    assert_eq!(alone["path"], ".");
    for one in &all {
        for field in words("file_system mount_point block_bytes total_bytes device features") {
            assert_eq!(one[field], alone[field], "{field}");
        }
        assert!(one["free_bytes"].as_u64().unwrap() <= one["total_bytes"].as_u64().unwrap());
    }
    assert_eq!(place.content().len(), 1, "scratch files are gone");
}

#[test]
fn storage_of_a_tmpfs_has_no_device_and_its_features() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.directory(), "size=64m") else {
        return;
    };
    let one = described(place.call("storage --json")).remove(0);
    assert_eq!(one["file_system"], "tmpfs");
    assert!(one["mount_options"].as_str().unwrap().contains("size=65536k"), "{one}");
    assert_eq!(one["device"], Value::Null);
    for (names, wanted) in [
        ("direct-read drop reflink", "unavailable"),
        ("holes punch fallocate mmap", "available"),
    ] {
        for name in words(names) {
            assert_eq!(state(&one, name).0, wanted, "{name}: {one}");
        }
    }
    assert!(place.content().is_empty());
}

#[test]
fn storage_without_write_access_has_unknown_features() {
    let common = Common::new();
    let one = described(common.run("storage shut --json")).remove(0);
    assert!(!one["file_system"].as_str().unwrap().is_empty());
    let (state, reason) = state(&one, "punch");
    assert_eq!(state, "unknown");
    assert!(reason.as_str().unwrap().contains("Permission denied"), "{reason}");
    let text = common.run("storage shut").succeeded().stdout;
    assert_contains(&text, &["unknown: ", "Permission denied"]);
}

#[test]
fn storage_of_a_full_file_system_has_unknown_features() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.directory(), "size=64k") else {
        return;
    };
    let one = described(place.call("storage --json")).remove(0);
    let (state, reason) = state(&one, "punch");
    assert_eq!(state, "unknown");
    assert_contains(reason.as_str().unwrap(), &["No space left"]);
    assert!(place.content().is_empty());
}

#[test]
fn storage_names_paths_that_fail_and_does_the_rest() {
    let place = Place::new();
    assert!(prepared("mkfifo", &[place.path("fifo").as_os_str()]));
    for (path, reason) in [
        ("fifo", "not a file, directory or block device"),
        ("/dev/null", "not a file, directory or block device"),
        ("gone", "cannot stat: No such file or directory"),
        ("/proc", "not a storage file system (proc)"),
        ("/sys/kernel", "not a storage file system (sysfs)"),
    ] {
        let ended = place.call(&["storage", path, "."]).ended_with(2);
        let line = format!("seekless: {path}: {reason}");
        assert!(ended.stderr.starts_with(&line), "{}", ended.stderr);
        assert!(ended.stdout.starts_with(".\n"), "{}", ended.stdout);
        let all = place.call(&["storage", "--json", path, "."]).json();
        assert_fields(&all[0], &json!({"kind": "failed", "path": path}));
        assert!(all[0]["reason"].as_str().unwrap().starts_with(reason), "{all}");
        assert_fields(&all[1], &json!({"kind": "storage", "path": "."}));
        place.call(&["storage", path]).refused();
    }
    assert_eq!(place.content().len(), 1);
}

#[test]
fn storage_of_a_block_device_shows_what_is_on_it() {
    let place = Place::new();
    let (image, directory) = (place.path("image"), place.path("mounted"));
    let Some(_mount) = Mount::image("ext4", 64 << 20, &image, &directory) else {
        return;
    };
    let mounted = described(place.call("storage --json mounted")).remove(0);
    let device = format!("/dev/{}", mounted["device"]["name"].as_str().unwrap());
    let found = described(place.call(&["storage", "--json", &device])).remove(0);
    let device_of_both = &mounted["device"];
    let expected = json!({"kind": "device", "path": device, "device": device_of_both, "above": []});
    assert_fields(&found, &expected);
    let mount = json!({"file_system": "ext4", "mount_point": directory.to_str().unwrap()});
    assert_fields(&found["mounts"][0], &mount);
    assert!(found.get("features").is_none(), "{found}");
    let text = place.call(&["storage", &device]).succeeded().stdout;
    let on_it = format!("  On it        ext4 on {}\n", directory.display());
    assert!(text.contains(": loop on ") && text.ends_with(&on_it), "{text}");
}

#[test]
fn storage_stopped_leaves_nothing() {
    let place = Place::new();
    // Many paths, so that it takes long enough.
    let child = place.command().arg("storage").args([".."; 200]).spawn().unwrap();
    let parent = place.directory().parent().unwrap().to_owned();
    let entries = || std::fs::read_dir(&parent).unwrap().count();
    wait_for("the directory is made", || entries() > 1);
    Ended::interrupted(child);
    assert_eq!(entries(), 1);
}

#[test]
fn storage_of_an_overlay_file_with_another_device_number() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    place.directories("lower upper work mount");
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
    let described = described(place.call("storage --json mount/file")).remove(0);
    assert_eq!(state(&described, "holes").0, "available");
}
