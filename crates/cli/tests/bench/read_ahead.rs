//! The read-ahead window of a device after a run that set it was killed. Needs root, and a loop device to set it on.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::place::{Ended, Place, prepared, wait_for};
use crate::common::unprivileged::Common;

/// A file system on a loop device, unmounted when this is dropped.
struct Disk {
    place: Place,
    /// A directory that anybody may enter; so is the mount point.
    common: Common,
    mount: PathBuf,
    device: String,
}

impl Disk {
    fn new() -> Option<Self> {
        let place = Place::new();
        let image = place.sparse("image", 300 << 20);
        let common = Common::new();
        let mount = common.directory().join("shut");
        let loops = ["-o".as_ref(), "loop".as_ref(), image.as_os_str(), mount.as_os_str()];
        if !prepared("mkfs.ext4", &["-q".as_ref(), image.as_os_str()]) || !prepared("mount", &loops) {
            println!("skipped: no file system can be mounted on a loop device");
            return None;
        }
        let found = Command::new("findmnt")
            .args(["-n", "-o", "SOURCE"])
            .arg(&mount)
            .output()
            .unwrap();
        let device = String::from_utf8(found.stdout).unwrap();
        let device = device.trim().trim_start_matches("/dev/").to_owned();
        let disk = Self {
            place,
            common,
            mount,
            device,
        };
        fs::write(disk.window_file(), "128").unwrap();
        Some(disk)
    }

    fn window_file(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/read_ahead_kb", self.device))
    }

    fn window(&self) -> u64 {
        let text = fs::read_to_string(self.window_file()).unwrap();
        text.trim().parse().unwrap()
    }

    fn note(&self) -> PathBuf {
        PathBuf::from(format!("/run/seekless/{}.read-ahead", self.device))
    }

    /// The process that watches over the window.
    fn watcher(&self) -> Option<Pid> {
        let wanted = format!("watch-read-ahead\0{}\0", self.device);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let found = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .find(|process| {
                fs::read_to_string(format!("/proc/{process}/cmdline")).is_ok_and(|line| line.ends_with(&wanted))
            });
        found.and_then(Pid::from_raw)
    }

    /// A run in a process group of its own, which has set the window to 4 KiB.
    fn run_that_set_it(&self) -> Child {
        self.place.file(
            "ahead.toml",
            br#"
name = "ahead"
about = "What does read-ahead do?"

[[contest]]
operation = "read"
methods = ["read/sync"]
sizes = ["16M"]
read-ahead-kib = [4]
"#,
        );
        let mut command = self.place.command();
        command.args(["bench", "ahead.toml", "--rounds", "10000", "--dir"]);
        let child = command.arg(&self.mount).process_group(0).spawn().unwrap();
        wait_for("the window is set", || self.window() == 4);
        child
    }

    /// Has a run set the window to 4 KiB, and kills the run and its watcher.
    fn set_by_a_killed_run(&self) {
        let child = self.run_that_set_it();
        // Stopped during a trial: between two trials the window is the old one.
        wait_for("the run is stopped within a trial", || {
            kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let is_within = self.window() == 4 && self.watcher().is_some();
            if !is_within {
                kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
            }
            is_within
        });
        kill_process(self.watcher().unwrap(), Signal::KILL).unwrap();
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        Ended::of(child);
        // The watcher is not a child of this process, which therefore cannot wait for it.
        let lock = format!("/run/seekless/{}.lock", self.device);
        wait_for("the watcher has ended", || {
            fs::File::open(&lock).unwrap().try_lock().is_ok()
        });
    }

    fn storage(&self) -> Ended {
        self.place.succeeds(&["storage".as_ref(), self.mount.as_os_str()])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        prepared("umount", &[self.mount.as_os_str()]);
    }
}

#[test]
fn a_window_is_put_back_at_once_when_the_run_and_its_group_are_killed() {
    let Some(disk) = Disk::new() else { return };
    let child = disk.run_that_set_it();
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    Ended::of(child);
    wait_for("the window is put back", || disk.window() == 128);
    wait_for("the note is gone", || !disk.note().exists());
    wait_for("the watcher has ended", || disk.watcher().is_none());
    assert_eq!(disk.storage().stderr, "");
}

/// Any start of seekless restores the window, so another test may do so before this one.
#[test]
fn a_window_whose_watcher_was_killed_too_is_put_back_by_the_next_start_which_says_so() {
    let Some(disk) = Disk::new() else { return };
    let by_us = (0..20).any(|_| {
        disk.set_by_a_killed_run();
        let to_others = disk.common.run("storage shut").succeeded().stderr;
        let to_root = disk.storage().stderr;
        assert_eq!(disk.window(), 128);
        assert_eq!(disk.storage().stderr, "");
        let left = format!("{}: a killed run left the read-ahead window at 4 KiB", disk.device);
        to_others.contains(&format!("{left}; only root can set it to 128 KiB")) && to_root.contains(&left)
    });
    assert!(by_us);
}

#[test]
fn any_start_puts_a_window_back() {
    let Some(disk) = Disk::new() else { return };
    disk.place.file("one", b"one");
    for words in ["cmp one one", "cache show one", "runs"] {
        disk.set_by_a_killed_run();
        assert_eq!(disk.place.succeeds(words).stderr, "");
        assert_eq!(disk.window(), 128, "{words:?}");
    }
}

#[test]
fn a_run_that_ends_leaves_no_watcher_and_no_note() {
    let Some(disk) = Disk::new() else { return };
    let child = disk.run_that_set_it();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Ended::of(child);
    assert_eq!(disk.window(), 128);
    assert!(!disk.note().exists());
    assert_eq!(disk.watcher(), None);
    let mode = fs::metadata("/run/seekless").unwrap().permissions().mode();
    assert_eq!(Permissions::from_mode(mode & 0o7777), Permissions::from_mode(0o755));
}
