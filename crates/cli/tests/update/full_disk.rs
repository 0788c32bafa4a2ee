//! `seekless update` where the disk, or what may be written, is full in the middle of it.

use std::fmt::Write;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use seekless_sys::Support;

use crate::common::place::{Ended, Mount, Place, assert_contains};

const MIB: u64 = 1 << 20;

/// Calls a test with an empty file system of about so many bytes, of each kind that can be made here.
fn on_small_disks(bytes: u64, mut test: impl FnMut(&Place, &Path, &str)) {
    for kind in ["ext3", "ext4", "xfs", "btrfs", "tmpfs"] {
        let place = Place::new();
        let directory = place.path("small");
        fs::create_dir(&directory).unwrap();
        let mounted = match kind {
            "tmpfs" => Mount::tmpfs(&directory, &format!("size={bytes}")),
            _ => Mount::image(kind, bytes, &place.path("image"), &directory),
        };
        if mounted.is_some() {
            test(&place, &directory, kind);
        } else {
            println!("skipped: {kind}");
        }
    }
}

#[test]
fn update_beyond_the_file_size_limit_names_the_file() {
    let place = Place::new();
    let (path, before) = (place.path("file"), vec![7; 5000]);
    place.file("changes", b"{\"offset\": 9999990, \"text\": \"x\"}\n");
    for method in [
        "auto",
        "update/sync",
        "update/mmap",
        "update/io_uring",
        "update/sync,preallocate=both",
    ] {
        for safety in ["in-place", "journal", "replace"] {
            fs::write(&path, &before).unwrap();
            let mut limited = place.command_after("ulimit -f 20");
            limited.args(["update", "file", "--grow", "--from", "changes"]);
            let ended = Ended::by(limited.args(["--method", method, "--safety", safety]));
            let said = format!("{method} {safety}: {:?}: {}", ended.code, ended.stderr);
            assert_eq!(ended.code, Some(2), "{said}");
            assert_contains(&said, &["File too large", "file"]);
            assert!(fs::read(&path).unwrap() == before, "{said}");
        }
    }
}

fn free_bytes(directory: &Path) -> u64 {
    // What is not on the device may not have its blocks yet.
    seekless_sys::sync_file_system(&fs::File::open(directory).unwrap()).unwrap();
    seekless_sys::file_system(directory).unwrap().free_bytes
}

#[test]
fn update_mmap_on_a_full_disk_undoes_or_tells_what_is_in() {
    const UPDATE: usize = 1_000_000;
    on_small_disks(320 * MIB, |place, directory, kind| {
        let path = directory.join("file");
        fs::write(&path, vec![7; (20 * MIB) as usize]).unwrap();
        // All but 10 MiB, and what is kept for root.
        let filling = free_bytes(directory).saturating_sub(10 * MIB);
        let mut other = fs::File::create(directory.join("other")).unwrap();
        if let Support::Unavailable(_) = seekless_sys::allocate(&other, 0, filling).unwrap() {
            io::copy(&mut io::repeat(1).take(filling), &mut other).unwrap();
        }
        drop(other);
        let offset = |n: usize| 15_000_000 + n * UPDATE;
        let mut changes = String::new();
        for n in 0..60 {
            writeln!(
                changes,
                "{{\"offset\": {}, \"text\": \"{}\"}}",
                offset(n),
                "x".repeat(UPDATE)
            )
            .unwrap();
        }
        place.file("changes", changes.as_bytes());
        let before = fs::read(&path).unwrap();
        let ended = place.run("update small/file --grow --from changes --method update/mmap");
        let (said, found) = (&ended.stderr, fs::read(&path).unwrap());
        println!("{kind}: {said}");
        assert!(
            ended.code == Some(2) && (said.contains("No space left") || said.contains("nearly full")),
            "{kind}: {said}"
        );
        let Some((told, _)) = said.split_once(" of 60 writes ") else {
            assert!(!said.contains("may be") && found == before, "{kind}: {said}");
            return;
        };
        // Where blocks cannot be allocated beforehand, a signal reports a page that finds none.
        let done: usize = told.rsplit(' ').next().unwrap().parse().unwrap();
        let are_in = found[offset(0)..offset(done)].iter().all(|byte| *byte == b'x');
        assert!(are_in && found.len() <= offset(done + 1), "{kind}: {said}");
    });
}

#[test]
fn update_preallocation_on_a_full_disk_is_freed_again() {
    on_small_disks(320 * MIB, |place, directory, kind| {
        let (path, before) = (directory.join("file"), vec![7; (5 * MIB) as usize]);
        place.file("changes", b"{\"offset\": 400000000, \"text\": \"x\"}\n");
        for method in [
            "update/sync,preallocate=both",
            "update/sync,preallocate=allocate",
            "update/mmap,preallocate=both",
        ] {
            fs::write(&path, &before).unwrap();
            let free = free_bytes(directory);
            let ended = place.run(("update small/file --grow --from changes --method", method));
            let said = &ended.stderr;
            assert_eq!(ended.code, Some(2), "{kind} {method}: {said}");
            assert!(
                (said.contains("cannot allocate blocks") || said.contains("is not available"))
                    && !said.contains("may be"),
                "{kind} {method}: {said}"
            );
            assert!(fs::read(&path).unwrap() == before, "{kind} {method}");
            let missing = free.saturating_sub(free_bytes(directory));
            assert!(missing < MIB, "{kind} {method}: {missing} bytes are not free any more");
        }
    });
}

#[test]
fn bench_most_written_bounds_and_refuses_writes() {
    let place = Place::new();
    let told = ["at most 100 MiB may be written", "larger --most-written"];
    for operation in ["read", "write"] {
        let words = format!("bench {operation} --size 1G --budget 1s --most-written 100M");
        place.refuses(&words, &told);
        assert!(place.saved().is_empty());
    }
    // Each of 10,000 updates changes a block.
    let words = ["bench", "update", "--budget", "1s", "--most-written", "60M"];
    place.refuses(&words, &["write 135 MiB"]);
    let words = "bench write --size 8M --budget 3s --most-written 60M --notes";
    let ended = place.succeeds(words);
    let run = place.only_run();
    let written: u64 = run.trials.iter().map(|trial| trial.bytes).sum();
    assert!((8 << 20..=36 << 20).contains(&written), "{written}: {}", ended.stderr);
    assert!(
        run.warnings.iter().any(|note| note.starts_with("Writing ended after")),
        "{:?}",
        run.warnings
    );
}

#[test]
fn bench_announces_files_that_outlast_the_budget() {
    let place = Place::new();
    let mut child = place.start("bench read --size 4G --budget 1s --methods read/sync,block=1M");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let is_told = lines.any(|line| line.contains("Preparing the test files and one trial take about"));
    Ended::interrupted(child);
    assert!(is_told);
}
