//! What `seekless update` reports about its work, and about another update of the same file.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::changes::good;
use crate::common::place::{Ended, Place, wait_for};

#[test]
fn update_tells_what_was_done_whatever_the_path() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff");
    let path = place.file(name, b"precious");
    good(&place);
    let named = [name];
    let update = |words: &'static str| ("update", &named, words);
    let told = place.succeeds(update("--from good --json")).json();
    assert_eq!((&told["path"], &told["path_bytes"]), (&"\u{fffd}".into(), &"ff".into()));
    assert_eq!(fs::read(&path).unwrap(), b"xrecious");
    let failed = "cannot write the output: No space left on device";
    for (words, sentence) in [
        ("--from good", format!("is updated, but {failed}")),
        ("--from good --json", format!("is updated, but {failed}")),
        ("--from good --dry-run", format!("seekless: {failed}")),
        ("--recover", format!("seekless: {failed}")),
    ] {
        fs::write(&path, b"precious").unwrap();
        let Some(ended) = place.run_full(update(words)) else {
            return;
        };
        ended.failed_with(2, &[&sentence]);
        let is_changed = fs::read(&path).unwrap() == b"xrecious";
        assert_eq!(is_changed, sentence.contains("updated"), "{words:?}");
    }
}

#[test]
fn update_refuses_more_than_fits_into_memory_and_applies_parts() {
    const COUNT: u32 = 1_000_000;
    let place = Place::new();
    let mut records = Vec::new();
    let mut after = vec![0; 4 * COUNT as usize];
    for n in 0..COUNT {
        let offset = (u64::from(n) * 7919) % 999_999 * 4;
        records.extend_from_slice(&offset.to_le_bytes());
        records.extend_from_slice(&4_u32.to_le_bytes());
        records.extend_from_slice(&n.to_le_bytes());
        after[offset as usize..offset as usize + 4].copy_from_slice(&n.to_le_bytes());
    }
    let binary = |records: &[u8]| [b"SKLSUPDT\x01\0\0\0", records].concat();
    let path = place.file("file", &vec![0; after.len()]);
    place.file("updates", &binary(&records));
    let refused = place.fails(2, "update file --from updates --memory 16M");
    refused.warns("apply them in parts, one after the other");
    assert!(fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
    for part in records.chunks(records.len() / 2) {
        place.file("part", &binary(part));
        place.succeeds("update file --from part --memory 16M");
    }
    assert!(fs::read(&path).unwrap() == after);
}

#[test]
fn update_stopped_by_a_signal_tells_what_became_of_the_file() {
    let place = Place::new();
    let before = vec![7; 100_000];
    let mut changes = b"SKLSUPDT\x01\0\0\0".to_vec();
    for n in 0..before.len() as u64 {
        changes.extend([&n.to_le_bytes()[..], b"\x01\0\0\0x"].concat());
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
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ended = Ended::of(child);
        if ended.code == Some(0) {
            println!("skipped: it was done before the signal came");
            continue;
        }
        ended.failed_with(130, &["interrupted", words]);
        assert_eq!(fs::read(&path).unwrap() == before, safety != "in-place", "{safety}");
        assert_eq!(fs::read_dir(place.directory()).unwrap().count(), 2, "{safety}");
    }
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
