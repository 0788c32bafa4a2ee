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
    let is_memory = seekless_engine::StorageFacts::of(place.directory())
        .unwrap()
        .file_system
        == "tmpfs";
    if is_memory {
        println!("skipped: the temporary directory is memory, which drops nothing");
    }
    (!is_memory).then_some(place)
}

#[test]
fn cache_explain_shows_predicted_and_measured_time() {
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
fn cache_drops_warms_and_shows_a_file() {
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
fn cache_show_sums_a_directory_unless_all_or_top() {
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
fn cache_names_paths_that_fail_and_does_the_rest() {
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
            // No files give no output, but that a device is in memory is told.
            if path != "/dev/null" {
                place.run((action, path)).refused();
            }
        }
    }
}

#[test]
fn cache_drop_counts_mapped_files_that_keep_pages() {
    let Some(place) = on_disk() else { return };
    let file = File::open(place.file("mapped", &vec![1; 100_000])).unwrap();
    place.file("free", &vec![1; 100_000]);
    file.sync_all().unwrap();
    seekless_engine::allow_mapping().unwrap();
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
fn cache_drop_says_that_a_tmpfs_keeps_its_files() {
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
fn cache_drop_of_a_file_system_needs_consent() {
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
fn cache_enters_other_file_systems_only_with_the_option() {
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
fn cache_walk_of_a_directory_bound_into_itself_ends() {
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
fn cache_takes_paths_longer_than_the_system_does() {
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
fn cache_walks_many_directories_with_few_open_files() {
    let place = Place::new();
    for n in 0..3000 {
        place.file(format!("{}/{n}/file", n / 100), b"");
    }
    let ended = place.run_with_few_files(48, "cache show . --jsonl");
    assert_fields(&total(&ended), &json!({"files": 3000, "failed": 0}));
}

#[test]
fn cache_lock_holds_files_in_memory_until_ctrl_c() {
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
fn cache_refuses_more_than_memory_or_the_lock_limit() {
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
fn cache_show_counts_pages_of_a_block_device() {
    let place = Place::new();
    let Some(_disk) = common::disks::disk(&place, "ext4") else {
        return;
    };
    let facts = seekless_engine::StorageFacts::of(place.path("disk")).unwrap();
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
fn cache_warm_that_is_stopped_says_how_far_it_came() {
    let Some(place) = on_disk() else { return };
    let path = place.sparse("large", 3 << 30);
    let child = place.start("cache warm --force large");
    let is_begun = || seekless_engine::cache::resident(&path).unwrap().part() > Some(0.0);
    wait_for("something is warm", is_begun);
    let ended = Ended::interrupted(child);
    assert_contains(&ended.stdout, &["Interrupted", "1 file incomplete"]);
}

#[test]
fn cache_show_names_unreadable_files_and_does_the_rest() {
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
fn cache_show_says_unknown_where_the_kernel_does_not_tell() {
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
fn cache_drop_system_needs_root() {
    let common = Common::new();
    common
        .run("cache drop --system")
        .refused_with(&["needs root", "sudo seekless"]);
    common
        .run("cache drop --system open")
        .refused_with(&["cannot be used with"]);
}
