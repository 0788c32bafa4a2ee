//! `seekless storage` and `seekless cache` on real file systems: their output must agree with findmnt, losetup, cp,
//! fallocate and vmtouch.
//!
//! In a temporary directory, or in each of the directories of `SEEKLESS_TEST_DIRS` (separated by colons).

#![cfg(target_os = "linux")]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seekless_sys::{Advice, advise};
use serde_json::Value;

use common::disks::directories;
use common::place::prepared;

/// The output of a program; if it is missing or fails, prints why and returns `None`.
fn printed(program: &str, arguments: &[&OsStr]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        Ok(output) => {
            println!("skipped: {program}: {}", String::from_utf8_lossy(&output.stderr).trim());
            None
        }
        Err(error) => {
            println!("skipped: {program}: {error}");
            None
        }
    }
}

/// The output of the command; it may fail in part, as dropping on a tmpfs does.
fn seekless(arguments: &[&str], directory: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let output = command
        .args(arguments)
        .arg(directory)
        .output()
        .expect("the command starts");
    let code = output.status.code();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(code, Some(0 | 2)) && error.is_empty(), "{code:?} {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn storage(directory: &Path) -> Value {
    let all: Value = serde_json::from_str(&seekless(&["storage", "--json"], directory)).expect("it is JSON");
    all[0].clone()
}

/// One column of findmnt about the file system that holds a directory.
fn findmnt(column: &str, directory: &Path) -> Option<String> {
    let arguments = ["-n", "-o", column, "-T"].map(OsStr::new);
    printed("findmnt", &[&arguments[..], &[directory.as_os_str()]].concat())
}

#[test]
fn storage_agrees_with_findmnt_and_losetup() {
    for directory in directories() {
        let found = storage(directory.path());
        let Some(file_system) = findmnt("FSTYPE", directory.path()) else {
            continue;
        };
        println!("{file_system}: {}", found["device"]["name"]);
        assert_eq!(found["file_system"], file_system.as_str());
        let target = findmnt("TARGET", directory.path()).unwrap();
        assert_eq!(found["mount_point"], target);
        let options = found["mount_options"].as_str().unwrap();
        for option in findmnt("VFS-OPTIONS", directory.path()).unwrap().split(',') {
            assert!(options.split(',').any(|own| own == option), "{option}: {options}");
        }
        let source = findmnt("SOURCE", directory.path()).unwrap();
        if let Some(name) = source.strip_prefix("/dev/loop") {
            let device = &found["device"];
            assert_eq!(device["name"], format!("loop{name}"));
            assert_eq!(device["kind"], "loop");
            let file = printed("losetup", &["-n", "-O", "BACK-FILE", &source].map(OsStr::new)).unwrap();
            assert_eq!(device["backing_file"], file.trim());
            // The device below is that of the image's directory.
            let image = storage(Path::new(file.trim()).parent().unwrap());
            if image["device"] != Value::Null {
                assert_eq!(device["below"][0]["name"], image["device"]["name"]);
            }
        } else if file_system == "tmpfs" || file_system.starts_with("fuse") || file_system == "overlay" {
            assert_eq!(found["device"], Value::Null, "{found}");
        }
        if file_system == "overlay" {
            let below = found["takes_from"][0]["file_system"].as_str();
            assert!(below.is_some_and(|name| !name.is_empty()), "{found}");
        }
    }
}

/// The features of file systems, for kernels of 2024 and later.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "ext4",
        "available",
        "direct-read direct-write holes punch fallocate drop residency mmap",
    ),
    ("ext4", "unavailable", "reflink"),
    (
        "xfs",
        "available",
        "direct-read direct-write reflink holes punch fallocate drop",
    ),
    (
        "btrfs",
        "available",
        "direct-read reflink holes punch fallocate drop residency",
    ),
    ("btrfs", "unavailable", "direct-write"),
    ("tmpfs", "available", "holes punch fallocate mmap residency write-lease"),
    ("tmpfs", "unavailable", "direct-read direct-write drop reflink"),
    (
        "overlay",
        "available",
        "holes punch fallocate drop residency mmap write-lease",
    ),
    ("fuse", "unavailable", "write-lease"),
];

#[test]
fn storage_features_are_the_known_ones_and_those_of_programs() {
    for directory in directories() {
        let found = storage(directory.path());
        let state = |name: &str| {
            let features = found["features"].as_array().unwrap().iter();
            let feature = features.clone().find(|feature| feature["name"] == name).unwrap();
            feature["state"].as_str().unwrap().to_owned()
        };
        let file_system = found["file_system"].as_str().unwrap();
        for (_, wanted, names) in KNOWN.iter().filter(|(name, ..)| *name == file_system) {
            for name in names.split(' ') {
                assert_eq!(state(name), *wanted, "{file_system}: {name}: {found}");
            }
        }
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, vec![1; 1 << 20]).unwrap();
        let clone = [OsStr::new("--reflink=always"), one.as_os_str(), other.as_os_str()];
        let cloned = prepared("cp", &clone);
        assert_eq!(cloned, state("reflink") == "available", "{file_system}: reflink");
        if !prepared("fallocate", &[OsStr::new("--version")]) {
            println!("skipped: there is no fallocate to compare with");
            continue;
        }
        let punch = ["-p", "-l", "64K"].map(OsStr::new);
        let punched = prepared("fallocate", &[&punch[..], &[one.as_os_str()]].concat());
        assert_eq!(punched, state("punch") == "available", "{file_system}: punch");
        let fresh = directory.path().join("fresh");
        let allocated = prepared("fallocate", &[OsStr::new("-l"), OsStr::new("1M"), fresh.as_os_str()]);
        assert_eq!(allocated, state("fallocate") == "available", "{file_system}: fallocate");
        drop((fs::remove_file(&one), fs::remove_file(&other), fs::remove_file(&fresh)));
        let stayed = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(stayed, 0, "{file_system}: something stayed");
    }
}

/// Files to compare over; FUSE takes a millisecond to make one.
const FILES: u32 = 10_000;
const FILES_BY_FUSE: u32 = 1000;
/// The system may page something out between two checks; it does not do so each time.
const ATTEMPTS: usize = 5;

/// Files of many sizes, some whole in memory, some in part, some not at all, with links of both kinds.
fn populate(directory: &Path, files: u32, has_hard_links: bool) {
    for n in 0..files {
        let inner = directory.join(format!("directory {}", n % 40));
        if n < 40 {
            fs::create_dir(&inner).unwrap();
        }
        let path = inner.join(n.to_string());
        // A sequence without a pattern that could hide errors in the order of sizes.
        let mixed = n.wrapping_mul(2_654_435_761) >> 8;
        let bytes = [0, 1, 100, 4095, 4096, 4097, 20_000, 70_000][(mixed % 8) as usize];
        fs::write(&path, vec![1; bytes]).unwrap();
        match n % 100 {
            0 if has_hard_links => fs::hard_link(&path, directory.join(format!("hard {n}"))).unwrap(),
            1 => std::os::unix::fs::symlink(&path, directory.join(format!("soft {n}"))).unwrap(),
            _ => {}
        }
    }
    let everything = File::open(directory).unwrap();
    seekless_sys::sync_file_system(&everything).unwrap();
    for n in 0..files {
        let file = File::open(directory.join(format!("directory {}/{n}", n % 40))).unwrap();
        match (n / 7) % 3 {
            0 => {}
            1 => drop(advise(&file, Advice::DontNeed, 0, 0).unwrap()),
            _ => drop(advise(&file, Advice::DontNeed, 0, file.metadata().unwrap().len() / 2).unwrap()),
        }
    }
}

/// Pages resident and pages in all, by vmtouch.
fn vmtouch(directory: &Path) -> Option<(u64, u64)> {
    let text = printed("vmtouch", &[directory.as_os_str()])?;
    let line = text
        .lines()
        .find(|line| line.contains("Resident Pages:"))
        .expect("vmtouch counts pages");
    let pages = line.split_whitespace().nth(2).and_then(|pages| pages.split_once('/'));
    pages.and_then(|(resident, all)| Some((resident.parse().ok()?, all.parse().ok()?)))
}

/// The same by `seekless cache`, and the sum's other figures.
fn ours(action: &str, directory: &Path) -> ((u64, u64), Value) {
    let text = seekless(&["cache", action, "--jsonl"], directory);
    let sum: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let page = seekless_sys::page_bytes() as u64;
    let pages = |name: &str| sum[name].as_u64().unwrap() / page;
    ((pages("resident_bytes"), pages("cacheable_bytes")), sum)
}

#[test]
fn cache_residency_of_ten_thousand_files_is_that_of_vmtouch() {
    for directory in directories() {
        if vmtouch(directory.path()).is_none() {
            return;
        }
        let file_system = seekless_engine::StorageFacts::of(directory.path()).unwrap().file_system;
        let is_fuse = file_system.starts_with("fuse");
        let files = if is_fuse { FILES_BY_FUSE } else { FILES };
        // There, each name counts; vmtouch counts each inode.
        populate(directory.path(), files, !is_fuse);
        if is_fuse {
            // For a second, the kernel uses what it knew of a file under its old name.
            std::thread::sleep(Duration::from_millis(1500));
        }
        let mut looks = Vec::new();
        let agree = (0..ATTEMPTS).any(|_| {
            let (theirs, (found, sum)) = (vmtouch(directory.path()).unwrap(), ours("show", directory.path()));
            assert_eq!(sum["files"], files, "{file_system}");
            let (repeated, links) = (if is_fuse { 0 } else { files / 100 }, files / 100);
            assert_eq!(sum["repeated"], repeated, "{file_system}");
            assert_eq!(sum["links"], links, "{file_system}");
            looks.push((theirs, found));
            theirs == found
        });
        println!("{file_system}: {looks:?}");
        assert!(agree, "{file_system}: theirs and ours: {looks:?}");
        let (left, _) = ours("drop", directory.path());
        let theirs = vmtouch(directory.path()).unwrap();
        assert_eq!(theirs, left, "{file_system}: after dropping");
        if file_system != "tmpfs" {
            assert_eq!(left.0, 0, "{file_system}: after dropping");
        }
    }
}
