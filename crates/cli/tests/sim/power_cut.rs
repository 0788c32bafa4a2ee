//! `seekless sim cut` on real file systems: what was synced survives, unless flushes lie.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::place::{Place, assert_lacks, is_long, prepared, wait_for};
use crate::common::simulated::{SimulatedDisk, is_skipped};

/// A disk with a file system; prints why and returns `None` where there is none.
fn start<'a>(place: &'a Place, file_system: &str, options: &[&str]) -> Option<SimulatedDisk<'a>> {
    if is_skipped() {
        return None;
    }
    if !prepared(&format!("mkfs.{file_system}"), &[OsStr::new("-V")]) {
        println!("skipped: there is no mkfs.{file_system}");
        return None;
    }
    let fixed = ["null", "--size", "1G", "--fs", file_system];
    Some(SimulatedDisk::start(place, &[&fixed[..], options].concat()))
}

fn write(disk: &SimulatedDisk, name: &str, is_synced: bool) {
    let path = disk.mount_point.join(name);
    fs::write(&path, name.repeat(10_000)).unwrap();
    if is_synced {
        File::open(path).unwrap().sync_all().unwrap();
    }
}

/// Whether a file is as it was written.
fn has(disk: &SimulatedDisk, name: &str) -> bool {
    fs::read_to_string(disk.mount_point.join(name)).is_ok_and(|text| text == name.repeat(10_000))
}

fn cut(place: &Place, disk: &SimulatedDisk, options: &[&str]) -> String {
    place.succeeds((&["sim", "cut", &disk.name], options)).stdout
}

/// sync(2) of another program would write what is not to be synced.
mod alone {
    use super::*;

    #[test]
    fn sim_cut_keeps_what_was_synced() {
        for file_system in ["ext4", "xfs", "btrfs"] {
            let place = Place::new();
            let Some(disk) = start(&place, file_system, &[]) else {
                return;
            };
            let mut synced = Vec::new();
            let ways = ["", "lost", "kept", "torn", "reordered"];
            let cuts = if is_long() { 8 } else { ways.len() };
            for (seed, lose) in (0..cuts).zip(ways.into_iter().cycle()) {
                let (name, seed) = (format!("synced {seed}"), seed.to_string());
                write(&disk, &name, true);
                synced.push(name);
                let unsynced = format!("unsynced {seed}");
                write(&disk, &unsynced, false);
                let options = ["--seed", &seed, "--lose", lose];
                cut(&place, &disk, &options[..if lose.is_empty() { 2 } else { 4 }]);
                for name in &synced {
                    assert!(has(&disk, name), "{file_system} lost {name} ({lose})");
                }
                assert!(!has(&disk, &unsynced), "{file_system} synced what nobody asked for");
            }
        }
    }
}

#[test]
fn sim_fault_lying_flush_loses_synced_files() {
    for file_system in ["ext4", "xfs", "btrfs"] {
        let place = Place::new();
        let Some(disk) = start(&place, file_system, &["--fault", "lying-flush"]) else {
            return;
        };
        write(&disk, "synced", true);
        let said = cut(&place, &disk, &["--lose", "lost"]);
        assert!(!has(&disk, "synced"), "{file_system}: flushes no longer lie: {said}");
    }
}

#[test]
fn sim_cut_completes_a_cut_of_a_fault() {
    let place = Place::new();
    let Some(disk) = disk_that_loses_power(&place) else {
        return;
    };
    write(&disk, "first", true);
    while_writing(&disk, || {
        cut(&place, &disk, &["--lose", "lost"]);
    });
    assert!(has(&disk, "first"));
}

#[test]
fn sim_cut_writes_nothing_below_the_mount_point() {
    let place = Place::new();
    place.directories("point");
    let at = place.path("point");
    let Some(disk) = start(&place, "ext4", &["--at", at.to_str().unwrap()]) else {
        return;
    };
    let is_over = AtomicBool::new(false);
    let synced = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let write = |path: PathBuf| fs::write(&path, "text").and_then(|()| File::open(&path)?.sync_all());
            let numbers = (0..).take_while(|_| !is_over.load(Ordering::Relaxed));
            numbers
                .filter(|number| write(at.join(number.to_string())).is_ok())
                .collect::<Vec<u32>>()
        });
        for _ in 0..if is_long() { 10 } else { 3 } {
            std::thread::sleep(std::time::Duration::from_millis(200));
            cut(&place, &disk, &["--lose", "kept"]);
        }
        is_over.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });
    let lost = synced
        .iter()
        .filter(|number| !at.join(number.to_string()).exists())
        .count();
    assert_eq!((lost, synced.len() > 10), (0, true), "of {}", synced.len());
    disk.kill_server();
    // Another test's command may be taking it down, and then this one leaves it alone.
    wait_for("nothing of the disk", || {
        place.run("sim list");
        !disk.is_there()
    });
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "nothing stays below");
    fs::write(at.join("file"), "it can be written to again").unwrap();
}

#[test]
fn sim_stop_ends_a_disk_without_power() {
    let place = Place::new();
    let Some(disk) = disk_that_loses_power(&place) else {
        return;
    };
    while_writing(&disk, || {
        place.succeeds(&["sim", "stop", "--force", &disk.name]);
    });
    let listed = place.succeeds("sim list").stdout;
    assert_lacks(&listed, &[&format!("{}: ", disk.name)]);
}

/// A disk whose power is cut soon.
fn disk_that_loses_power(place: &Place) -> Option<SimulatedDisk<'_>> {
    let options = ["--fault", "power-cut", "--fault-on", "flush", "--fault-nth", "20"];
    start(place, "ext4", &options)
}

/// Runs `and` while another thread writes and waits because the power is gone; the thread then gets an error.
fn while_writing(disk: &SimulatedDisk<'_>, and: impl FnOnce()) {
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let files = (0..).map(|number| disk.mount_point.join(number.to_string()));
            for path in files {
                fs::write(&path, "text")?;
                File::open(path)?.sync_all()?;
            }
            std::io::Result::Ok(())
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!writing.is_finished(), "requests wait while the power is gone");
        and();
        assert!(writing.join().unwrap().is_err());
    });
}

#[test]
fn sim_fault_refuses_requests_that_it_cannot_hit() {
    let reason = "--fault-on: this fault does not happen to such a request";
    Place::new().refuses("sim start null --fault lying-flush --fault-on write", &[reason]);
}
