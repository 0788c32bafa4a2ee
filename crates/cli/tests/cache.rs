//! `seekless cache`: how much of files is in memory, reading them into it, and dropping them from it.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use common::place::{Ended, Mount, Place, assert_contains, assert_lacks, prepared, wait_for};
use common::terminal::Terminal;
use common::unprivileged::Common;

/// The objects on the lines of an output.
fn objects(ended: &Ended) -> Vec<Value> {
    ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The total of all, which is the last line.
fn total(ended: &Ended) -> Value {
    let last = objects(ended).pop().unwrap();
    assert_eq!((&last["kind"], &last["path"]), (&Value::from("total"), &Value::Null));
    last
}

fn is_memory(place: &Place) -> bool {
    let is_memory = seekless::StorageFacts::of(place.directory()).unwrap().file_system == "tmpfs";
    if is_memory {
        println!("skipped: the temporary directory is memory, which drops nothing");
    }
    is_memory
}

#[test]
fn explaining_says_what_it_was_to_take_and_took() {
    let place = Place::new();
    place.file("file", &vec![1; 1_000_000]);
    let why = [("show", "file it holds"), ("drop", "to drop"), ("warm", "is read")];
    for (action, why) in why {
        let ended = place.run(&["cache", action, "file", "--explain", "--jsonl"]);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(
            lines[0].starts_with("seekless cache: ") && lines[0].contains(why),
            "{}",
            ended.stderr
        );
        assert!(
            lines[1].starts_with("  predicted ") && lines[1].contains(", took "),
            "{}",
            ended.stderr
        );
        assert!(
            lines.iter().any(|line| line.starts_with("  opening a file: ")),
            "{}",
            ended.stderr
        );
        assert!(!objects(&ended).is_empty(), "standard output stays what it is");
    }
    let scanned = place.run("holes dig --dry-run file --explain").succeeded();
    assert!(
        scanned.stderr.starts_with("seekless holes: scan: "),
        "{}",
        scanned.stderr
    );
    assert_contains(&scanned.stderr, &["\n  predicted "]);
}

#[test]
fn a_file_is_dropped_warmed_and_shown() {
    let place = Place::new();
    if is_memory(&place) {
        return;
    }
    place.file("file", &vec![1; 1_000_000]);
    let dropped = place.run("cache drop file --jsonl").succeeded();
    assert_eq!(total(&dropped)["resident_bytes"], 0);
    let shown = place.run("cache show file --jsonl").succeeded();
    let file = &objects(&shown)[0];
    assert_eq!(
        (&file["path"], &file["resident_bytes"]),
        (&"file".into(), &0.into()),
        "{file}"
    );
    assert_eq!(
        (&file["bytes"], &file["cacheable_bytes"]),
        (&1_000_000.into(), &1_003_520.into())
    );
    let warmed = place.run("cache warm file --jsonl").succeeded();
    let file = &objects(&warmed)[0];
    assert_eq!(
        (&file["resident_before_bytes"], &file["resident_bytes"]),
        (&0.into(), &1_003_520.into())
    );
    let text = place.run("cache show file").succeeded().stdout;
    assert_contains(&text, &["100 %", "  file\n"]);
    let text = place.run("cache drop file").succeeded().stdout;
    assert_contains(&text, &["Dropped 980 KiB of 1 file.\n"]);
}

#[test]
fn dirty_pages_are_written_back_and_dropped() {
    let place = Place::new();
    if is_memory(&place) {
        return;
    }
    let path = place.file("file", &vec![7; 300_000]);
    let dropped = place.run("cache drop file --jsonl").succeeded();
    assert_eq!(total(&dropped)["resident_bytes"], 0);
    assert_eq!(fs::read(path).unwrap(), vec![7; 300_000]);
}

#[test]
fn a_directory_is_a_total_unless_all_of_it_is_asked_for() {
    let place = Place::new();
    for n in 0..30 {
        place.file(format!("inner/{n}"), &vec![1; 5000 * n]);
    }
    symlink("inner/1", place.path("link")).unwrap();
    fs::hard_link(place.path("inner/2"), place.path("again")).unwrap();
    assert!(prepared("mkfifo", &[place.path("fifo").as_os_str()]));
    let shown = place.run("cache show . --jsonl").succeeded();
    assert_eq!(objects(&shown).len(), 2, "the directory's and the sum");
    let sum = total(&shown);
    let counts = ["files", "links", "special", "repeated", "failed"].map(|name| sum[name].as_u64().unwrap());
    assert_eq!(counts, [30, 1, 1, 1, 0]);
    let all = place.run("cache show . --jsonl --all").succeeded();
    assert_eq!(objects(&all).len(), 32);
    let top = place.run("cache show . --top 3").succeeded().stdout;
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
        for action in ["drop", "warm", "show"] {
            let ended = place.run(&["cache", action, path, "file", "--jsonl"]);
            assert_eq!(ended.code, Some(2), "{path}: {}", ended.stdout);
            let line = format!("seekless: {path}: {reason}");
            assert!(
                ended.stderr.starts_with(&line) && ended.stderr.lines().count() == 1,
                "{}",
                ended.stderr
            );
            let all = objects(&ended);
            assert_eq!((&all[0]["kind"], &all[0]["path"]), (&"failed".into(), &path.into()));
            assert!(all[0]["reason"].as_str().unwrap().starts_with(reason), "{}", all[0]);
            assert_eq!((&all[1]["kind"], &all[1]["path"]), (&"file".into(), &"file".into()));
            let sum = total(&ended);
            assert_eq!((&sum["files"], &sum["failed"]), (&1.into(), &1.into()));
            // No files give no output, and a missing file is not counted.
            place.run(&["cache", action, path]).refused();
        }
    }
}

#[test]
fn a_file_that_somebody_maps_keeps_its_pages_and_is_counted() {
    let place = Place::new();
    if is_memory(&place) {
        return;
    }
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
    place.run("cache drop .").succeeded();
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
    let sentence = place.run("cache drop /").refused();
    assert_contains(&sentence, &["/: is the root of a file system; use --yes"]);
    let Some(_mount) = Mount::image("ext4", 16 << 20, &place.path("image"), &place.path("mount")) else {
        return;
    };
    place.file("mount/inner/file", &[1; 8192]);
    place.run("cache drop mount/inner/../inner").succeeded();
    for root in ["mount", "mount/inner/.."] {
        let is_warm = || {
            let sum = total(&place.run("cache show --jsonl mount").succeeded());
            sum["resident_bytes"] == 8192
        };
        place.run("cache warm mount/inner/file").succeeded();
        let words = ["cache", "drop", root, "mount/inner"];
        let sentence = place.run(&words).refused();
        assert_contains(&sentence, &["is the root of a file system"]);
        for answer in ["n\n", "y\n"] {
            assert!(is_warm(), "{answer:?}");
            let mut command = place.command();
            command.args(words);
            let (printed, code) = Terminal::of(100).answer(command, answer);
            assert_contains(&printed, &["Drop all that is cached of it? [y/N]"]);
            assert_eq!(code, Some(if answer == "y\n" { 0 } else { 2 }), "{printed}");
        }
        assert!(!is_warm());
    }
    place.run("cache drop --yes mount").succeeded();
}

#[test]
fn other_file_systems_are_entered_only_where_that_is_asked_for() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("mount"), "size=1m") else {
        return;
    };
    place.file("mount/file", b"bytes");
    let sum = total(&place.run("cache show . --jsonl").succeeded());
    assert_eq!((&sum["files"], &sum["other_file_systems"]), (&0.into(), &1.into()));
    let sum = total(&place.run("cache show . --jsonl --all-file-systems").succeeded());
    assert_eq!((&sum["files"], &sum["other_file_systems"]), (&1.into(), &0.into()));
}

#[test]
fn a_directory_that_is_bound_into_itself_is_walked_to_an_end() {
    let place = Place::new();
    place.directories("tree/inner/again");
    place.file("tree/inner/file", b"bytes");
    let Some(_mount) = Mount::bind(&place.path("tree"), &place.path("tree/inner/again")) else {
        return;
    };
    let sum = total(&place.run("cache show tree --jsonl").succeeded());
    assert_eq!((&sum["files"], &sum["repeated"]), (&1.into(), &1.into()), "by a root");
    let sum = total(&place.run("cache show . --jsonl").succeeded());
    assert_eq!(
        (&sum["files"], &sum["failed"]),
        (&2.into(), &0.into()),
        "by another directory"
    );
}

#[test]
fn a_file_is_found_by_a_path_that_is_too_long_for_the_system() {
    let place = Place::new();
    let length = place.deep_file(&[1; 10_000]);
    for action in ["warm", "show", "drop"] {
        let ended = place.run(&["cache", action, "--all", "--jsonl", "."]);
        let shown = objects(&ended);
        let file = shown.iter().find(|object| object["kind"] == "file").unwrap();
        assert_eq!(
            file["path"].as_str().unwrap().len(),
            "./".len() + length,
            "{}",
            ended.stderr
        );
        let sum = total(&ended);
        assert_eq!((&sum["files"], &sum["bytes"]), (&1.into(), &10_000.into()));
    }
}

#[test]
fn many_directories_are_walked_with_few_files_open() {
    let place = Place::new();
    for n in 0..3000 {
        fs::create_dir_all(place.path(format!("{}/{n}", n / 100))).unwrap();
        place.file(format!("{}/{n}/file", n / 100), b"");
    }
    let ended = place.run_with_few_files(48, &["cache", "show", ".", "--jsonl"]);
    let sum = total(&ended);
    assert_eq!(
        (&sum["files"], &sum["failed"]),
        (&3000.into(), &0.into()),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_would_drive_out_its_own_beginning_is_not_warmed() {
    let place = Place::new();
    File::create(place.path("huge")).unwrap().set_len(1 << 43).unwrap();
    let sentence = place.run("cache warm huge").refused();
    assert_contains(&sentence, &["8.00 TiB", "--force"]);
}

#[test]
fn what_is_locked_stays_in_memory_until_ctrl_c() {
    let place = Place::new();
    if is_memory(&place) {
        return;
    }
    place.file("in/file", &vec![1; 1_000_000]);
    place.file("in/empty", b"");
    let child = place.start("cache lock in");
    let status = format!("/proc/{}/status", child.id());
    let locked = || fs::read_to_string(&status).unwrap().contains("VmLck:\t     980 kB");
    wait_for("the file is locked", locked);
    let dropped = place.run("cache drop in/file --jsonl");
    assert_eq!(
        (dropped.code, &total(&dropped)["resident_bytes"]),
        (Some(2), &1_003_520.into())
    );
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("980 KiB to lock; ") && ended.stderr.contains(" of memory available; "));
    assert_contains(&ended.stdout, &["2 files locked in memory until Ctrl-C."]);
    let dropped = place.run("cache drop in/file --jsonl").succeeded();
    assert_eq!(total(&dropped)["resident_bytes"], 0);
}

#[test]
fn more_than_may_be_locked_is_refused() {
    let place = Place::new();
    File::create(place.path("huge")).unwrap().set_len(1 << 43).unwrap();
    let sentence = place.run("cache lock huge").refused();
    assert_contains(&sentence, &["8.00 TiB"]);
    assert_lacks(&sentence, &["locked in memory"]);
    let common = Common::new();
    fs::write(common.directory().join("file"), vec![1; 100_000]).unwrap();
    let mut command = common.command("sh");
    command.args(["-c", "ulimit -l 64 && exec ./seekless cache lock file"]);
    let sentence = Ended::of(command.spawn().unwrap()).refused();
    assert_contains(&sentence, &["may lock 64.0 KiB", "ulimit -l"]);
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
    let shown = place.run(&["cache", "show", "--jsonl", &device, "file"]).succeeded();
    let shown = objects(&shown);
    let of = |path: &str| {
        shown
            .iter()
            .find(|object| object["kind"] == "file" && object["path"] == path)
            .unwrap()
    };
    assert_eq!(
        (&of(&device)["bytes"], &of("file")["bytes"]),
        (&(512 << 20).into(), &5.into())
    );
    let resident = of(&device)["resident_bytes"].as_u64().unwrap();
    assert!((1 << 20..512 << 20).contains(&resident), "{resident}");
    assert!(place.run(&["cache", "drop", &device]).stderr.contains("is a device"));
    let ended = Common::new().run(&["cache", "show", &device]);
    ended.failed_with(2, &["Permission denied"]);
}

#[test]
fn warming_that_is_stopped_says_how_far_it_came() {
    let place = Place::new();
    if is_memory(&place) {
        return;
    }
    let path = place.path("large");
    File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let child = place.start("cache warm --force large");
    let is_begun = || seekless::cache::resident(&path).unwrap().part() > Some(0.0);
    wait_for("something is warm", is_begun);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_contains(&ended.stdout, &["Interrupted", "1 file incomplete"]);
}

#[test]
fn a_name_that_is_no_text_is_shown_and_kept() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"a\x1bb\xff");
    place.file(name, b"bytes");
    let show = |format: &[&str]| {
        let arguments = ["cache", "show"].iter().chain(format).map(OsStr::new);
        place.run(&arguments.chain([name]).collect::<Vec<_>>()).succeeded()
    };
    assert!(show(&[]).stdout.contains("  a\\u{1b}b\\xff\n"));
    assert_eq!(objects(&show(&["--jsonl"]))[0]["path_bytes"], "611b62ff");
    let missing = place.run(&["cache", "show", "\u{1b}[2J"]).refused();
    assert_contains(&missing, &["\\u{1b}[2J: cannot stat"]);
}

#[test]
fn a_file_that_may_not_be_read_is_named_and_the_rest_goes_on() {
    let common = Common::new();
    let path = |name: &str| common.directory().join("open").join(name);
    for name in ["secret", "plain"] {
        fs::write(path(name), b"bytes").unwrap();
    }
    fs::set_permissions(path("secret"), Permissions::from_mode(0o000)).unwrap();
    let ended = common.run("cache show open --jsonl");
    ended.failed_with(2, &["secret", "Permission denied"]);
    let failed = objects(&ended)
        .into_iter()
        .find(|object| object["kind"] == "failed")
        .unwrap();
    assert_eq!(failed["path"], "open/secret");
    assert_eq!(
        (&total(&ended)["files"], &total(&ended)["failed"]),
        (&1.into(), &1.into())
    );
    let table = common.run("cache show open/secret open/plain");
    assert_eq!(table.code, Some(2), "{}", table.stderr);
    let line = |name: &str| {
        table
            .stdout
            .lines()
            .find(|line| line.ends_with(name))
            .map(str::trim_start)
    };
    assert!(
        line("open/secret").is_some_and(|line| line.starts_with("unknown")),
        "{}",
        table.stdout
    );
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
    let file = &objects(&ended)[0];
    assert_eq!(file["resident_bytes"], Value::Null, "{file}");
    assert!(file["unknown"].as_str().unwrap().contains("owner"), "{file}");
    let ended = common.run("cache show open/root's").succeeded();
    assert_contains(&ended.stdout, &["unknown", "The residency of 1 file is unknown"]);
}

#[test]
fn dropping_all_of_the_system_s_cache_needs_root_and_says_so() {
    let common = Common::new();
    let sentence = common.run("cache drop --system").refused();
    assert_contains(&sentence, &["needs root", "sudo seekless"]);
    let sentence = common.run("cache drop --system open").refused();
    assert_contains(&sentence, &["cannot be used with"]);
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let place = Place::new();
    for n in 0..300 {
        place.file(format!("{n}"), b"bytes");
    }
    let mut child = place.start("cache show --all .");
    drop(child.stdout.take());
    let ended = Ended::of(child);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
