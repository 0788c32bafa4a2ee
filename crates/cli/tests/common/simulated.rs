//! Disks that `sim start` simulates. They need root and loop devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::place::{Place, wait_for};

pub const DEVICES: &str = "/run/seekless/sim";

/// Why no disk can be simulated here, if so.
pub fn is_skipped() -> bool {
    let reason = if !cfg!(target_os = "linux") {
        "needs Linux"
    } else if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !["/dev/fuse", "/dev/loop-control"]
        .iter()
        .all(|path| Path::new(path).exists())
    {
        "needs /dev/fuse and loop devices"
    } else {
        return false;
    };
    eprintln!("skipped: {reason}");
    true
}

/// A place for a test that simulates disks; `None` if [`is_skipped`].
pub fn place() -> Option<Place> {
    (!is_skipped()).then(Place::new)
}

/// A disk that ends when this is dropped.
pub struct SimulatedDisk<'a> {
    place: &'a Place,
    pub name: String,
    pub block_device: PathBuf,
    pub mount_point: PathBuf,
    /// The process that started it. Once it is gone, another test's disk may have its name.
    starter: Value,
}

impl<'a> SimulatedDisk<'a> {
    pub fn start(place: &'a Place, arguments: &[&str]) -> Self {
        let started = place.succeeds(("sim start", arguments)).stdout;
        let name = started.split(':').next().unwrap().to_owned();
        assert!(started.ends_with(&format!("seekless sim stop {name}\n")), "{started}");
        let path = |key: &str| PathBuf::from(state_of(&name).unwrap()[key].as_str().unwrap_or_default());
        Self {
            place,
            block_device: path("block_device"),
            mount_point: path("mount_point"),
            starter: state_of(&name).unwrap()["starter"].clone(),
            name,
        }
    }

    /// Its loop device, which changes when the power is cut.
    pub fn device_now(&self) -> PathBuf {
        PathBuf::from(state_of(&self.name).unwrap()["block_device"].as_str().unwrap())
    }

    /// Whether there is a mount, a loop device or a directory of it.
    pub fn is_there(&self) -> bool {
        !self.is_replaced() && is_there(&self.name)
    }

    fn is_replaced(&self) -> bool {
        state_of(&self.name).is_some_and(|state| state["starter"] != self.starter)
    }

    /// What was read and written so far.
    pub fn counters(&self) -> Value {
        // It fails if other devices there are broken.
        let listed = self.place.run("sim list --json").json();
        let devices = listed["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == self.name.as_str());
        own.unwrap()["report"]["counters"].clone()
    }

    pub fn kill_server(&self) {
        let words = format!("sim\0serve\0{}\0", self.name);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut servers = processes.filter(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).ends_with(&words)
        });
        let server = servers.next().expect("a server").file_name();
        let number = server.to_str().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
        wait_for("the end of the server", || {
            !Path::new("/proc").join(&server).join("fd/0").exists()
        });
    }
}

impl Drop for SimulatedDisk<'_> {
    fn drop(&mut self) {
        if self.is_replaced() {
            return;
        }
        let mut stop = self.place.command();
        stop.args(["sim", "stop", "--force", &self.name]).stderr(Stdio::null());
        let _ = stop.status();
    }
}

fn state_of(name: &str) -> Option<Value> {
    let text = fs::read(Path::new(DEVICES).join(name).join("state.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether there is a mount, a loop device or a directory of a disk.
pub fn is_there(name: &str) -> bool {
    let directory = Path::new(DEVICES).join(name);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let below = |text: &str| text.contains(&format!("{}/", directory.display()));
    let loops = fs::read_dir("/sys/block").unwrap().flatten();
    let mut backings =
        loops.map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default());
    let is_covered = mounts.contains(&format!("seekless-sim-{name} "));
    directory.exists() || is_covered || below(&mounts) || backings.any(|backing| below(&backing))
}

pub fn random(bytes: usize) -> Vec<u8> {
    let mut random = vec![0; bytes];
    fastrand::Rng::with_seed(7).fill(&mut random);
    random
}
