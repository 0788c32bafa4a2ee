//! Simulated disks: what the kernel makes of them, and that nothing of them stays, however they end. Needs root and loop devices.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;
use seekless_sys::Buffer;

use crate::common::disks::sync;
use crate::common::groups::{Groups, Names, Seen};
use crate::common::place::{Mount, assert_lacks, wait_for};
use crate::common::simulated::{self, DEVICES, SimulatedDisk, is_there, random};

#[test]
fn sim_disk_works_as_a_disk_and_leaves_nothing() {
    let Some(place) = simulated::place() else { return };
    let point = place.path("disk");
    let disk = SimulatedDisk::start(&place, &["null", "--size", "64M", "--at", point.to_str().unwrap()]);
    assert_eq!(disk.mount_point, point);
    let written = random(8 << 20);
    let path = point.join("file");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&written).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();

    let read_so_far = || seekless_sys::process_io().unwrap().available().unwrap().read_bytes;
    let before = read_so_far();
    let mut read = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == written, "other bytes");
    assert!(read_so_far() - before >= 8 << 20, "the bytes were not counted");
    let extents = seekless_sys::extents(&file, 0..8 << 20).unwrap().available().unwrap();
    assert!(!extents.is_empty(), "no addresses");

    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let direct = OpenOptions::new().read(true).custom_flags(direct).open(&path).unwrap();
    let mut buffer = Buffer::new(1 << 20, 4096).unwrap();
    direct.read_exact_at(&mut buffer, 1 << 20).unwrap();
    assert!(buffer[..] == written[1 << 20..2 << 20], "other bytes by direct I/O");

    let counters = disk.counters();
    for (name, least) in [("read_bytes", 9 << 20), ("written_bytes", 8 << 20), ("flushes", 1)] {
        assert!(counters[name].as_u64().unwrap() >= least, "{counters}");
    }

    let offered = place.run(&["suggest", "zsh", "seekless", "sim", "stop", ""]).stdout;
    let offer = format!("{}\text4 at {}", disk.name, point.display());
    assert!(offered.lines().any(|line| line.starts_with(&offer)), "{offered}");
    let stop = ("sim stop", &disk.name[..]);
    place.fails(2, stop).warns("is in use by");
    assert!(disk.is_there());
    drop((file, direct));
    assert_eq!(place.succeeds(stop).stdout, format!("{}: stopped\n", disk.name));
    assert!(!disk.is_there() && !point.exists());
}

#[test]
fn sim_disk_of_a_killed_server_goes_with_the_next_command() {
    let Some(place) = simulated::place() else { return };
    let disk = SimulatedDisk::start(&place, &["null", "--size", "64M"]);
    let file = File::create(disk.mount_point.join("open")).unwrap();
    fs::write(disk.mount_point.join("dirty"), random(1 << 20)).unwrap();
    disk.kill_server();
    assert_lacks(&place.run("sim list").stdout, &[&format!("{}: ", disk.name)]);
    // Another test's command may have been the next one.
    drop(file);
    wait_for("nothing of the disk", || !disk.is_there());
}

#[test]
fn sim_disk_below_a_mount_that_is_gone_goes_with_the_next_command() {
    let Some(place) = simulated::place() else { return };
    let disk = SimulatedDisk::start(&place, &["null", "--size", "64M"]);
    let device = Path::new("/sys/block").join(disk.block_device.file_name().unwrap());
    let fuse = Path::new(DEVICES).join(&disk.name).join("fuse");
    rustix::mount::unmount(&fuse, rustix::mount::UnmountFlags::DETACH).unwrap();
    disk.kill_server();
    wait_for("nothing of the disk", || {
        place.run("sim list");
        let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        !disk.is_there() && !backing.ends_with("device-0\n")
    });
}

#[test]
fn sim_disk_of_a_killed_start_ends_by_itself() {
    let Some(place) = simulated::place() else { return };
    let backing = place.path("backing");
    let mut start = place.command();
    start
        .args(["sim", "start", "null", "--size", "1G", "--backing"])
        .arg(&backing);
    let mut starting = start.spawn().unwrap();
    let is_own = |name: &String| {
        let state = fs::read_to_string(Path::new(DEVICES).join(name).join("state.json")).unwrap_or_default();
        state.contains(backing.to_str().unwrap())
    };
    let own = || {
        let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .find(is_own)
    };
    let mut name = None;
    wait_for("its directory", || {
        name = own();
        name.is_some()
    });
    starting.kill().unwrap();
    starting.wait().unwrap();
    let name = name.unwrap();
    wait_for("nothing of the disk", || {
        place.run("sim list");
        !is_there(&name) && !backing.exists()
    });
}

#[test]
fn sim_disks_of_one_model_are_apart_and_backing_files_stay() {
    let Some(place) = simulated::place() else { return };
    let backing = place.path("backing");
    let kept = ["null", "--size", "64M", "--backing", backing.to_str().unwrap()];
    let one = SimulatedDisk::start(&place, &kept);
    let other = SimulatedDisk::start(&place, &["null", "--size", "64M", "--fs", "none"]);
    assert_ne!(one.name, other.name);
    fs::write(one.mount_point.join("file"), "one").unwrap();
    let block = OpenOptions::new().write(true).open(&other.block_device).unwrap();
    block.write_all_at(b"other", 0).unwrap();
    block.sync_all().unwrap();
    drop(block);
    let refused = place.run(&["sim", "start", "null", "--backing", backing.to_str().unwrap()]);
    refused.warns("is in use by another program or device");
    let mode = fs::metadata(&backing).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(one);
    let again = SimulatedDisk::start(&place, &kept);
    assert_eq!(fs::read_to_string(again.mount_point.join("file")).unwrap(), "one");
    let mut bytes = [0; 5];
    File::open(&other.block_device).unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"other");
}

#[test]
fn sim_model_is_one_storage_for_bench_on_not_for_other_disks() {
    let Some(place) = simulated::place() else { return };
    // No other test measures on it.
    let model = "ssd-2016";
    let bench = || {
        wait_for("no such disk", || !is_there(model));
        let words = "read --size 1M --rounds 3 --methods read/sync,block=1M --quiet";
        place.succeeds(("bench --on", model, words))
    };
    bench();
    let disk = SimulatedDisk::start(&place, &[model, "--size", "64M"]);
    let started = seekless_engine::identity(
        &disk.mount_point,
        &seekless_engine::StorageFacts::of(&disk.mount_point).unwrap(),
    );
    drop(disk);
    bench();
    let runs = place.saved();
    let ids: Vec<_> = runs.iter().map(|run| run.storages[0].id.clone().unwrap()).collect();
    assert!(ids[0].uuid.is_some() && ids[0] == ids[1], "{ids:?}");
    assert!(seekless_results::is_alike(&runs[0], &runs[1]));
    assert_ne!(ids[0].devices[1].serial, started.devices[1].serial);
}

#[test]
fn sim_disk_with_a_head_reads_duplicates_in_disk_order() {
    let Some(place) = simulated::place() else { return };
    let point = place.path("disk");
    // Far inside, and with long seeks.
    let size = ["hdd-nas", "--size", "1T", "--at", point.to_str().unwrap()];
    let disk = SimulatedDisk::start(&place, &size);
    let sizes = [9 << 10, 20 << 10, 300 << 10, 9 << 20];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut contents: HashMap<Vec<u8>, BTreeSet<Names>> = HashMap::new();
    for number in 0..200 {
        let directory = point.join(format!("d{}", number % 20));
        fs::create_dir_all(&directory).unwrap();
        let mut content = vec![0; sizes[if number < 12 { 3 } else { rng.usize(..3) }]];
        // Of two files of one size, many begin alike, and most of these differ at the end.
        content[0] = rng.u8(..20);
        *content.last_mut().unwrap() = rng.u8(..2);
        let path = directory.join(format!("f{number}"));
        fs::write(&path, &content).unwrap();
        let name = path.to_str().unwrap().to_owned();
        contents.entry(content).or_default().insert(Names::from([name]));
    }
    let expected: Groups = contents.into_values().filter(|group| group.len() > 1).collect();
    sync(&point);
    place.succeeds("cache drop --yes disk");
    let ended = place.run(&["dupes", "--json", "--explain", point.to_str().unwrap()]);
    assert_eq!(Seen::of(&ended).groups, expected);
    ended.warns("in the order of their places on the device");
    let cached = place.succeeds("cache show --json disk").json();
    assert_eq!(cached["summary"]["resident_bytes"], 0, "{cached}");
    drop(disk);
}

#[test]
fn sim_disk_with_a_head_reads_trees_in_disk_order() {
    let Some(place) = simulated::place() else { return };
    let point = place.path("disk");
    let disk = SimulatedDisk::start(&place, &["hdd-nas", "--size", "1T", "--at", point.to_str().unwrap()]);
    let trees = ["one", "other"].map(|name| point.join(name));
    let mut expected = BTreeSet::new();
    for number in 0_usize..150 {
        let name = format!("d{}/f{number}", number % 8);
        let bytes = if number < 3 { 9 << 20 } else { 12_000 + 997 * number };
        let mut content = random(bytes);
        for tree in &trees {
            let path = tree.join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &content).unwrap();
            match number % 7 {
                0 => content[bytes - 1] ^= 1,
                1 => content.truncate(bytes - 1),
                _ => continue,
            }
            expected.insert(name.clone());
        }
    }
    sync(&point);
    place.succeeds("cache drop --yes disk");
    let [one, other] = trees.each_ref().map(|tree| tree.to_str().unwrap());
    let ended = place.run(&["cmp", "-r", "--explain", one, other]);
    ended.failed_with(1, &["in the order of their places on the device"]);
    let differ: BTreeSet<String> = (ended.stdout.lines())
        .map(|line| line.split(&[' ', ':'][..]).find(|word| word.contains("/f")).unwrap())
        .map(|path| path.trim_start_matches(one).trim_start_matches('/').to_owned())
        .collect();
    assert_eq!(differ, expected, "{}", ended.stdout);
    drop(disk);
}

#[test]
fn sim_disk_larger_than_its_backing_leaves_free_space() {
    let Some(place) = simulated::place() else { return };
    let free = |directory: &Path| {
        let space = rustix::fs::statvfs(directory).unwrap();
        space.f_bavail * space.f_frsize
    };
    let [small, large] = ["small", "large"].map(|name| place.path(name));
    let backing = large.join("backing");
    let start = ["null", "--size", "8G", "--backing", backing.to_str().unwrap()];
    let Some(_small) = Mount::tmpfs(&small, "size=300M") else {
        return println!("skipped: no tmpfs");
    };
    let refused = place.run("sim start null --size 8G --backing small/backing");
    refused.warns("0.5 GiB needed, 0.3 GiB free");
    let _large = Mount::tmpfs(&large, "size=600M").unwrap();
    let disk = SimulatedDisk::start(&place, &start);
    let path = disk.mount_point.join("file");
    let mut file = File::create_new(&path).unwrap();
    let written = random(8 << 20);
    let mut write = || file.write_all(&written).and_then(|()| file.sync_all());
    let pieces = (0..200).take_while(|_| write().is_ok()).count();
    assert!((20..44).contains(&pieces), "{pieces}");
    assert!(free(&large) >= 256 << 20, "{}", free(&large));
    // What has its place can still be changed.
    let block = OpenOptions::new().write(true).open(&disk.block_device).unwrap();
    block.write_all_at(&[7; 512], 0).unwrap();
    block.sync_all().unwrap();
}

#[test]
fn sim_start_refuses_impossible_disks_and_leaves_nothing() {
    let Some(place) = simulated::place() else { return };
    place.file("file", b"x");
    let refused = [
        (&["null", "--size", "1024T"][..], "File too large"),
        (&["null", "--at", "."], "is not an empty directory"),
        (&["null", "--backing", "file"], "not a multiple of 1 MiB"),
        (&["null", "--size", "16M", "--fs", "xfs"], "mkfs.xfs"),
    ];
    for (arguments, reason) in refused {
        place.run(("sim start", arguments)).failed_with(2, &[reason]);
    }
    place.run("sim stop no-such-disk").warns("no simulated device is named");
    let unprivileged = |command: &str| {
        let program = env!("CARGO_BIN_EXE_seekless");
        let setpriv = ["--reuid", "65534", "--clear-groups", program, "sim", command, "null"];
        Command::new("setpriv").args(setpriv).output()
    };
    for ended in ["start", "stop", "cut"].map(unprivileged).into_iter().flatten() {
        let told = String::from_utf8_lossy(&ended.stderr);
        let is_told = |reason| told.contains(reason);
        assert!(
            is_told("needs root privileges") || is_told("Permission denied"),
            "{told}"
        );
    }
}
