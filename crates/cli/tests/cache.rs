//! `seekless cache`: how much of files is in memory, reading them into it, and dropping them from it.

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use common::place::{Ended, Mount, Place, assert_contains, assert_fields, assert_lacks, prepared, set_mode, wait_for};
use common::terminal::Terminal;
use common::unprivileged::Common;

/// The total of all, which is the last line.
fn total(ended: &Ended) -> Value {
    let last = ended.json_lines().pop().unwrap();
    assert_eq!((&last["kind"], &last["path"]), (&Value::from("total"), &Value::Null));
    last
}

/// A place from which pages can be dropped; prints why and returns `None` if it is memory.
fn on_disk() -> Option<Place> {
    let place = Place::new();
    let is_memory = seekless::StorageFacts::of(place.directory()).unwrap().file_system == "tmpfs";
    if is_memory {
        println!("skipped: the temporary directory is memory, which drops nothing");
    }
    (!is_memory).then_some(place)
}

#[test]
fn explaining_says_what_it_was_to_take_and_took() {
    let place = Place::new();
    place.file("file", &vec![1; 1_000_000]);
    for (action, why) in [("show", "file it holds"), ("drop", "to drop"), ("warm", "is read")] {
        let ended = place.run(&["cache", action, "file", "--explain", "--jsonl"]);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(lines[0].starts_with("seekless cache: "), "{}", ended.stderr);
        assert_contains(lines[0], &[why]);
        assert!(lines[1].starts_with("  predicted "), "{}", ended.stderr);
        assert_contains(lines[1], &[", took "]);
        ended.warns("\n  opening a file: ");
        assert!(!ended.json_lines().is_empty(), "standard output stays what it is");
    }
    let scanned = place.succeeds("holes dig --dry-run file --explain");
    assert!(scanned.stderr.starts_with("seekless holes: scan: "), "{scanned:?}");
    scanned.warns("\n  predicted ");
}

#[test]
fn a_file_is_dropped_warmed_and_shown() {
    let Some(place) = on_disk() else { return };
    let path = place.file("file", &vec![7; 1_000_000]);
    // Dirty pages are written back and dropped.
    let dropped = place.succeeds("cache drop file --jsonl");
    assert_eq!(total(&dropped)["resident_bytes"], 0);
    let shown = place.succeeds("cache show file --jsonl");
    let sizes = json!({"path": "file", "bytes": 1_000_000, "cacheable_bytes": 1_003_520, "resident_bytes": 0});
    assert_fields(&shown.json_lines()[0], &sizes);
    let warmed = place.succeeds("cache warm file --jsonl");
    let resident = json!({"resident_before_bytes": 0, "resident_bytes": 1_003_520});
    assert_fields(&warmed.json_lines()[0], &resident);
    let text = place.succeeds("cache show file").stdout;
    assert_contains(&text, &["100 %", "  file\n"]);
    place.succeeds("cache drop file").says("Dropped 980 KiB of 1 file.\n");
    assert_eq!(fs::read(path).unwrap(), vec![7; 1_000_000]);
}

#[test]
fn a_directory_is_a_total_unless_all_of_it_is_asked_for() {
    let place = Place::new();
    for n in 0..30 {
        place.file(format!("inner/{n}"), &vec![1; 5000 * n]);
    }
    symlink("inner/1", place.path("link")).unwrap();
    place.hard_link("inner/2", "again");
    assert!(prepared("mkfifo", &[place.path("fifo").as_os_str()]));
    let shown = place.succeeds("cache show . --jsonl");
    assert_eq!(shown.json_lines().len(), 2, "the directory's and the sum");
    let sum = total(&shown);
    assert_fields(
        &sum,
        &json!({"files": 30, "links": 1, "special": 1, "repeated": 1, "failed": 0}),
    );
    let all = place.succeeds("cache show . --jsonl --all");
    assert_eq!(all.json_lines().len(), 32);
    let top = place.succeeds("cache show . --top 3").stdout;
    let names: Vec<_> = top.lines().filter_map(|line| line.rsplit("  ").next()).collect();
    assert_eq!(names[1..4], ["./inner/29", "./inner/28", "./inner/27"], "{top}");
    assert_contains(&top, &["Left out: 1 additional hard link", "1 symbolic link"]);
}

#[test]
fn a_path_that_is_missing_or_no_file_is_named_and_the_rest_is_done() {
    let place = Place::new();
    place.file("file", &vec![1; 100_000]);
    assert!(prepared("mkfifo", &[place.path("fifo").as_os_str()]));
    for (path, reason) in [
        ("fifo", "is a FIFO"),
        ("/dev/null", "is a device"),
        ("gone", "cannot stat: No such file or directory"),
        ("/proc", "not a storage file system (proc)"),
        ("/sys", "not a storage file system (sysfs)"),
    ] {
        for action in ["cache drop", "cache warm", "cache show"] {
            place.goes_on_after(action, path, reason);
            // No files give no output, and a missing file is not counted.
            place.run((action, path)).refused();
        }
    }
}

#[test]
fn a_file_that_somebody_maps_keeps_its_pages_and_is_counted() {
    let Some(place) = on_disk() else { return };
    let file = File::open(place.file("mapped", &vec![1; 100_000])).unwrap();
    place.file("free", &vec![1; 100_000]);
    file.sync_all().unwrap();
    seekless::allow_mapping().unwrap();
    let map = seekless_sys::Map::new(&file, 0, 100_000, seekless_sys::MapMode::Read);
    let Ok(map) = map else {
        panic!("the file cannot be mapped: {map:?}");
    };
    map.advise(seekless_sys::MapAdvice::PopulateRead).unwrap();
    let ended = place.run("cache drop .");
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert_contains(&ended.stdout, &["1 file keeps 100 KiB (mapped, in use"]);
    drop(map);
    place.succeeds("cache drop .");
}

#[test]
fn memory_keeps_its_files_and_says_so() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.directory(), "size=16m") else {
        return;
    };
    place.file("file", &vec![1; 100_000]);
    let ended = place.run("cache drop --yes .");
    assert_eq!(ended.code, Some(2));
    assert_contains(&ended.stdout, &["on a tmpfs"]);
}

#[test]
fn all_of_a_file_system_is_dropped_only_by_one_who_agrees() {
    let place = Place::new();
    place.refuses("cache drop /", &["/: is the root of a file system; use --yes"]);
    let Some(_mount) = Mount::image("ext4", 16 << 20, &place.path("image"), &place.path("mount")) else {
        return;
    };
    place.file("mount/inner/file", &[1; 8192]);
    place.succeeds("cache drop mount/inner/../inner");
    for root in ["mount", "mount/inner/.."] {
        let is_warm = || {
            let sum = total(&place.succeeds("cache show --jsonl mount"));
            sum["resident_bytes"] == 8192
        };
        place.succeeds("cache warm mount/inner/file");
        let words = ["cache", "drop", root, "mount/inner"];
        place.refuses(&words, &["is the root of a file system"]);
        for answer in ["n\n", "y\n"] {
            assert!(is_warm(), "{answer:?}");
            let (printed, code) = Terminal::answered(&place, &words, answer);
            assert_contains(&printed, &["Drop all that is cached of it? [y/N]"]);
            assert_eq!(code, Some(if answer == "y\n" { 0 } else { 2 }), "{printed}");
        }
        assert!(!is_warm());
    }
    place.succeeds("cache drop --yes mount");
}

#[test]
fn other_file_systems_are_entered_only_where_that_is_asked_for() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("mount"), "size=1m") else {
        return;
    };
    place.file("mount/file", b"bytes");
    let sum = total(&place.succeeds("cache show . --jsonl"));
    assert_fields(&sum, &json!({"files": 0, "other_file_systems": 1}));
    let sum = total(&place.succeeds("cache show . --jsonl --all-file-systems"));
    assert_fields(&sum, &json!({"files": 1, "other_file_systems": 0}));
}

#[test]
fn a_directory_that_is_bound_into_itself_is_walked_to_an_end() {
    let place = Place::new();
    place.directories("tree/inner/again");
    place.file("tree/inner/file", b"bytes");
    let Some(_mount) = Mount::bind(&place.path("tree"), &place.path("tree/inner/again")) else {
        return;
    };
    // By a root, and by another directory.
    for (path, expected) in [
        ("tree", json!({"files": 1, "repeated": 1})),
        (".", json!({"files": 2, "failed": 0})),
    ] {
        assert_fields(&total(&place.succeeds(&["cache", "show", path, "--jsonl"])), &expected);
    }
}

#[test]
fn a_file_is_found_by_a_path_that_is_too_long_for_the_system() {
    let place = Place::new();
    let length = place.deep_file(&[1; 10_000]);
    for action in ["warm", "show", "drop"] {
        let ended = place.run(&["cache", action, "--all", "--jsonl", "."]);
        let shown = ended.json_lines();
        let file = shown.iter().find(|object| object["kind"] == "file").unwrap();
        assert_eq!(file["path"].as_str().unwrap().len(), "./".len() + length);
        assert_fields(&total(&ended), &json!({"files": 1, "bytes": 10_000}));
    }
}

#[test]
fn many_directories_are_walked_with_few_files_open() {
    let place = Place::new();
    for n in 0..3000 {
        place.file(format!("{}/{n}/file", n / 100), b"");
    }
    let ended = place.run_with_few_files(48, "cache show . --jsonl");
    assert_fields(&total(&ended), &json!({"files": 3000, "failed": 0}));
}

#[test]
fn what_is_locked_stays_in_memory_until_ctrl_c() {
    let Some(place) = on_disk() else { return };
    place.file("in/file", &vec![1; 1_000_000]);
    place.file("in/empty", b"");
    let child = place.start("cache lock in");
    let status = format!("/proc/{}/status", child.id());
    let locked = || fs::read_to_string(&status).unwrap().contains("VmLck:\t     980 kB");
    wait_for("the file is locked", locked);
    let dropped = place.run("cache drop in/file --jsonl").ended_with(2);
    assert_eq!(total(&dropped)["resident_bytes"], 1_003_520);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("980 KiB to lock; ") && ended.stderr.contains(" of memory available; "));
    ended.says("2 files locked in memory until Ctrl-C.");
    let dropped = place.succeeds("cache drop in/file --jsonl");
    assert_eq!(total(&dropped)["resident_bytes"], 0);
}

#[test]
fn more_than_fits_into_memory_is_not_warmed_and_more_than_may_be_locked_is_not_locked() {
    let place = Place::new();
    place.sparse("huge", 1 << 43);
    place.refuses("cache warm huge", &["8.00 TiB", "--force"]);
    let sentence = place.run("cache lock huge").refused();
    assert_contains(&sentence, &["8.00 TiB"]);
    assert_lacks(&sentence, &["locked in memory"]);
    let common = Common::new();
    fs::write(common.directory().join("file"), vec![1; 100_000]).unwrap();
    let mut command = common.command("sh");
    command.args(["-c", "ulimit -l 64 && exec ./seekless cache lock file"]);
    Ended::of(command.spawn().unwrap()).refused_with(&["may lock 64.0 KiB", "ulimit -l"]);
}

#[test]
fn pages_of_a_block_device_are_shown_beside_files() {
    let place = Place::new();
    let Some(_disk) = common::disks::disk(&place, "ext4") else {
        return;
    };
    let facts = seekless::StorageFacts::of(place.path("disk")).unwrap();
    let device = format!("/dev/{}", facts.device.unwrap().name);
    File::open(&device).unwrap().read_exact(&mut vec![0; 1 << 20]).unwrap();
    place.file("file", b"bytes");
    let shown = place
        .succeeds(&["cache", "show", "--jsonl", &device, "file"])
        .json_lines();
    assert_fields(&shown[0], &json!({"kind": "file", "path": device, "bytes": 512 << 20}));
    assert_fields(&shown[1], &json!({"kind": "file", "path": "file", "bytes": 5}));
    let resident = shown[0]["resident_bytes"].as_u64().unwrap();
    assert!((1 << 20..512 << 20).contains(&resident), "{resident}");
    assert!(place.run(&["cache", "drop", &device]).stderr.contains("is a device"));
    let ended = Common::new().run(&["cache", "show", &device]);
    ended.failed_with(2, &["Permission denied"]);
}

#[test]
fn warming_that_is_stopped_says_how_far_it_came() {
    let Some(place) = on_disk() else { return };
    let path = place.sparse("large", 3 << 30);
    let child = place.start("cache warm --force large");
    let is_begun = || seekless::cache::resident(&path).unwrap().part() > Some(0.0);
    wait_for("something is warm", is_begun);
    let ended = Ended::interrupted(child);
    assert_contains(&ended.stdout, &["Interrupted", "1 file incomplete"]);
}

#[test]
fn a_file_that_may_not_be_read_is_named_and_the_rest_goes_on() {
    let common = Common::new();
    let path = |name: &str| common.directory().join("open").join(name);
    for name in ["secret", "plain"] {
        fs::write(path(name), b"bytes").unwrap();
    }
    set_mode(path("secret"), 0o000);
    let ended = common.run("cache show open --jsonl");
    ended.failed_with(2, &["secret", "Permission denied"]);
    assert_fields(
        &ended.json_lines()[0],
        &json!({"kind": "failed", "path": "open/secret"}),
    );
    assert_fields(&total(&ended), &json!({"files": 1, "failed": 1}));
    let table = common.run("cache show open/secret open/plain").ended_with(2);
    let line = |name: &str| table.stdout.lines().find(|line| line.ends_with(name));
    let secret = line("open/secret").unwrap().trim_start();
    assert!(secret.starts_with("unknown"), "{secret}");
    assert!(line("open/plain").is_some(), "the rest goes on: {}", table.stdout);
}

#[test]
fn what_the_kernel_does_not_tell_is_unknown() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root, to have a file that is another's");
        return;
    }
    let common = Common::new();
    fs::write(common.directory().join("open/root's"), vec![1; 10_000]).unwrap();
    let ended = common.run("cache show open/root's --jsonl").succeeded();
    let file = &ended.json_lines()[0];
    assert_eq!(file["resident_bytes"], Value::Null, "{file}");
    assert!(file["unknown"].as_str().unwrap().contains("owner"), "{file}");
    let ended = common.run("cache show open/root's").succeeded();
    assert_contains(&ended.stdout, &["unknown", "The residency of 1 file is unknown"]);
}

#[test]
fn dropping_all_of_the_system_s_cache_needs_root_and_says_so() {
    let common = Common::new();
    common
        .run("cache drop --system")
        .refused_with(&["needs root", "sudo seekless"]);
    common
        .run("cache drop --system open")
        .refused_with(&["cannot be used with"]);
}
