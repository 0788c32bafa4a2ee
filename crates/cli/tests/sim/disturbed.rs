//! Simulated disks that somebody else changes, uses or kills: what is not theirs stays as it is, and nothing of them is left.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use seekless_sys::{Buffer, attach_loop, detach_loop};
use serde_json::Value;

use crate::common::place::{Ended, Mount, assert_contains, assert_lacks, wait_for};
use crate::common::simulated::{self, DEVICES, SimulatedDisk, is_there, random};

/// The file below a loop device.
fn backing_of(device: &Path) -> String {
    let path = Path::new("/sys/block").join(device.file_name().unwrap());
    fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default()
}

#[test]
fn sim_cut_leaves_a_foreign_loop_device_alone() {
    let Some(place) = simulated::place() else { return };
    let disk = SimulatedDisk::start(&place, &["null", "--fs", "none", "--size", "64M"]);
    let image = place.file("image", &random(1 << 20));
    let image = OpenOptions::new().read(true).write(true).open(image).unwrap();
    let attach = || attach_loop(&image, 512).unwrap().available().unwrap();
    detach_loop(&disk.block_device).unwrap();
    let other = attach();
    if other == disk.block_device {
        place.succeeds(&["sim", "cut", &disk.name]);
        assert!(backing_of(&other).ends_with("/image\n"), "{}", backing_of(&other));
        assert_ne!(disk.device_now(), other);
    } else {
        eprintln!("skipped: somebody else got the loop device");
    }
    detach_loop(&other).unwrap();
}

#[test]
fn sim_cuts_come_one_after_another() {
    let Some(place) = simulated::place() else { return };
    let disk = SimulatedDisk::start(&place, &["null", "--size", "64M"]);
    let cut = || place.start(&["sim", "cut", &disk.name, &disk.name]);
    for cut in [cut(), cut(), cut(), cut()] {
        Ended::of(cut).succeeded();
    }
    let below = format!("{DEVICES}/{}/", disk.name);
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let own: Vec<_> = devices
        .filter(|device| backing_of(&device.path()).starts_with(&below))
        .collect();
    assert_eq!(own.len(), 1, "{own:?}");
    fs::write(disk.mount_point.join("file"), "after").unwrap();
}

#[test]
fn sim_start_refuses_files_of_others() {
    let Some(place) = simulated::place() else { return };
    place.file("other", b"other");
    let used = place.file("used", &random(1 << 20));
    let _user = File::open(used).unwrap();
    place.file("empty", b"");
    mknodat(CWD, place.path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let before = place.content();
    let refused = [
        (&["--trace", "other"][..], "is not a trace, so it is not overwritten"),
        (&["--trace", "fifo"], "is not a regular file"),
        (&["--trace", "new", "--backing", "new"], "named twice"),
        (
            &["--trace", "empty", "--backing", "used"],
            "is in use by another program",
        ),
    ];
    for (arguments, reason) in refused {
        let start = "sim start null --fs none --size 64M";
        place.run((start, arguments)).refused_with(&[reason]);
    }
    let odd = std::ffi::OsStr::from_bytes(b"x\xff");
    place
        .run(("sim start null --at", &[odd]))
        .refused_with(&["is not UTF-8"]);
    assert_eq!(place.content(), before);
    for name in ["lock", "no-such-disk"] {
        place.refuses(&["sim", "cut", name], &["no simulated device is named"]);
    }
}

#[test]
fn sim_starts_with_one_backing_file_give_it_to_one_disk() {
    let Some(place) = simulated::place() else { return };
    for round in 0..4 {
        let backing = format!("backing-{round}");
        let start = || place.start(("sim start null --fs none --size 64M --backing", &backing));
        let ended = [start(), start(), start(), start()].map(Ended::of);
        let running: Vec<&Ended> = ended.iter().filter(|one| one.code == Some(0)).collect();
        assert!(running.len() <= 1, "{ended:?}");
        assert_eq!(place.path(&backing).exists(), running.len() == 1, "{ended:?}");
        for started in running {
            let name = started.stdout.split(':').next().unwrap();
            place.succeeds(&["sim", "stop", name]);
            assert_eq!(fs::metadata(place.path(&backing)).unwrap().len(), 64 << 20);
        }
    }
}

#[test]
fn sim_cut_and_force_end_a_slow_or_used_disk() {
    let Some(place) = simulated::place() else { return };
    // Its pages would take minutes.
    let disk = SimulatedDisk::start(&place, &["hdd-2003", "--speed", "0.01x", "--size", "64M"]);
    let dirty = || fs::write(disk.mount_point.join("dirty"), random(8 << 20)).unwrap();
    dirty();
    // Without power, nothing of it is waited for.
    place.succeeds(&["sim", "cut", &disk.name, "--lose", "lost"]);
    dirty();
    place.succeeds(&["sim", "stop", "--force", &disk.name]);
    assert!(!disk.is_there());

    let disk = SimulatedDisk::start(&place, &["null", "--size", "64M"]);
    let user = File::create(disk.mount_point.join("file")).unwrap();
    let stopped = place.succeeds(&["sim", "stop", "--force", &disk.name]).stdout;
    assert_contains(&stopped, &["detached; it ends when"]);
    assert!(!disk.mount_point.join("file").exists());
    drop(user);
    wait_for("nothing of the disk", || {
        let told = place.run("sim list").stderr;
        assert!(!told.contains(&format!("{}: its server had died", disk.name)), "{told}");
        !disk.is_there()
    });
}

#[test]
fn sim_disk_of_a_killed_bench_ends_and_is_not_resumed() {
    for signal in [Signal::KILL, Signal::INT] {
        let Some(place) = simulated::place() else { return };
        let bench = place.start("bench --on null read --size 1M --budget 60s --checkpoint 1s");
        let (name, point) = disk_of(bench.id());
        let has_files = || fs::read_dir(&point).is_ok_and(|entries| entries.count() > 1);
        wait_for("the files of the bench", has_files);
        if signal == Signal::INT {
            wait_for("something is measured", || !place.saved().is_empty());
        }
        kill_process(Pid::from_child(&bench), signal).unwrap();
        let ended = Ended::of(bench);
        assert_lacks(&(ended.stdout + &ended.stderr), &["--resume"]);
        wait_for("nothing of the disk", || !is_there(&name));
    }
}

/// The name of the disk that a process started, and where it is mounted.
fn disk_of(process: u32) -> (String, PathBuf) {
    let is_own = |name: &String| {
        let state = fs::read(Path::new(DEVICES).join(name).join("state.json")).unwrap_or_default();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        state["starter"] == process && state["block_device"].is_string()
    };
    let mut name = None;
    wait_for("its disk", || {
        let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        name = names.find(is_own);
        name.is_some()
    });
    let name = name.unwrap();
    let point = Path::new(DEVICES).join(&name).join("mnt");
    (name, point)
}

#[test]
fn sim_trace_without_room_is_told_and_not_replayed() {
    let Some(place) = simulated::place() else { return };
    let small = place.path("small");
    let Some(_small) = Mount::tmpfs(&small, "size=32K") else {
        return println!("skipped: no tmpfs");
    };
    for trace in ["small/trace", "trace"] {
        let is_whole = trace == "trace";
        let disk = SimulatedDisk::start(&place, &["null", "--fs", "none", "--size", "64M", "--trace", trace]);
        let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(direct);
        let block = options.open(&disk.block_device).unwrap();
        let mut buffer = Buffer::new(4096, 4096).unwrap();
        for place in 0..2500 {
            block.read_exact_at(&mut buffer, place << 12).unwrap();
        }
        drop(block);
        let listed = place.run("sim list").stdout;
        let own = listed.split(&format!("{}: ", disk.name)).nth(1).unwrap();
        let served = own.lines().nth(1).unwrap();
        assert_eq!(served.contains("it lacks"), !is_whole, "{listed}");
        let stopped = place.run(&["sim", "stop", &disk.name]).stderr;
        assert_eq!(stopped.contains("lacks the last requests"), !is_whole, "{stopped}");
        assert!(!disk.is_there());
        let shown = place.run(&["sim", "show", "--virtual", trace, "null"]);
        assert_eq!(shown.stderr.contains("cut off"), !is_whole, "{}", shown.stderr);
    }
    let mut again = OpenOptions::new().append(true).open(place.path("trace")).unwrap();
    again.write_all(b"0 write 0 0 0\n").unwrap();
    place.refuses("sim show --virtual trace", &["impossible: it has no bytes"]);
}
