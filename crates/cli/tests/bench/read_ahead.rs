//! The read-ahead window of a device after a run that set it was stopped or killed. Needs root, and a loop device to set it on.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::disks::disk;
use crate::common::place::{Ended, Place, wait_for};

/// The name of the device of a mount point.
fn device(mount: &Path) -> String {
    let mut command = Command::new("findmnt");
    let found = command.args(["-n", "-o", "SOURCE"]).arg(mount).output().unwrap();
    let device = String::from_utf8(found.stdout).unwrap();
    device.trim().trim_start_matches("/dev/").to_owned()
}

fn window(device: &str) -> u64 {
    let text = fs::read_to_string(window_file(device)).unwrap();
    text.trim().parse().unwrap()
}

fn window_file(device: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/{device}/queue/read_ahead_kb"))
}

fn has_note(device: &str) -> bool {
    Path::new("/run/seekless/read-ahead").join(device).exists()
}

/// A run in a process group of its own, stopped during a trial for which it set the window to 4 KiB.
fn run_that_set_it(place: &Place, device: &str) -> Child {
    let experiment = r#"
name = "ahead"
about = "What does read-ahead do?"

[[contest]]
operation = "read"
methods = ["read/sync"]
sizes = ["16M"]
read-ahead-kib = [4]
"#;
    place.file("ahead.toml", experiment.as_bytes());
    let mut command = place.command();
    command.args(["bench", "ahead.toml", "--rounds", "10000", "--dir", "disk"]);
    let child = command.process_group(0).spawn().unwrap();
    wait_for("the run is stopped within a trial", || {
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        // Between two trials, the window is the old one.
        let is_within = window(device) == 4 && has_note(device);
        if !is_within {
            kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        }
        is_within
    });
    child
}

#[test]
fn read_ahead_window_is_restored_after_a_signal_or_a_kill() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "ext4") else { return };
    let device = &device(&place.path("disk"));
    fs::write(window_file(device), "128").unwrap();
    let child = run_that_set_it(&place, device);
    for signal in [Signal::INT, Signal::CONT] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    Ended::of(child);
    assert_eq!((window(device), has_note(device)), (128, false));
    let child = run_that_set_it(&place, device);
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    Ended::of(child);
    place.file("one", b"one");
    // Another test may run a bench before this one.
    place.succeeds("bench read --file one --methods read/sync,block=1M --rounds 1");
    assert_eq!((window(device), has_note(device)), (128, false));
}
