//! `seekless dupes` where devices fail, files change meanwhile, and descriptors are few.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::disks::search;
use crate::common::disks::{bytes, disk, reflink, resident_bytes, sync};
use crate::common::groups::{Groups, Names, Seen, groups};
use crate::common::place::{Ended, Mount, Place, assert_contains, long_or, resize, wait_for};
use crate::common::unprivileged::{Common, NOBODY};

/// From this size on, pairs are compared by the methods of the engine.
const LARGE_BYTES: usize = 8 << 20;

/// What reading all of a tree tells.
#[derive(Default)]
struct Read {
    /// The files of each content.
    contents: BTreeMap<Vec<u8>, BTreeSet<String>>,
    failed_files: BTreeMap<String, u64>,
    failed_directories: BTreeSet<String>,
}

impl Read {
    fn below(top: &Path, directory: &Path, read: &mut Self) {
        let name = |path: &Path| path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        let Ok(entries) = fs::read_dir(directory) else {
            read.failed_directories.insert(name(directory));
            return;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                read.failed_directories.insert(name(directory));
                break;
            };
            let path = entry.path();
            let found = fs::symlink_metadata(&path);
            if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
                Self::below(top, &path, read);
            } else if let Ok(bytes) = fs::read(&path) {
                read.contents.entry(bytes).or_default().insert(name(&path));
            } else {
                let length = found.map_or(0, |metadata| metadata.len());
                read.failed_files.insert(name(&path), length);
            }
        }
    }

    fn groups(&self) -> Groups {
        let groups = self
            .contents
            .iter()
            .filter(|(bytes, files)| !bytes.is_empty() && files.len() > 1);
        let file = |name: &String| Names::from([name.clone()]);
        groups.map(|(_, files)| files.iter().map(file).collect()).collect()
    }
}

/// The paths that are named on standard error, with what is said of each.
fn told(seen: &Seen) -> BTreeMap<&str, &str> {
    let lines = seen
        .stderr
        .lines()
        .map(|line| line.strip_prefix("seekless dupes: ").expect(line));
    lines.map(|line| line.split_once(": ").expect(line)).collect()
}

#[test]
fn dupes_leave_out_a_file_with_an_unreadable_block() {
    const MIDDLE: usize = 150_000;
    const BLOCK: usize = 4096;
    let place = Place::new();
    // btrfs refuses to read what does not fit its checksum.
    let Some(mount) = disk(&place, "btrfs") else { return };
    let lengths = [
        ("small", 6000),
        ("medium", 300_000),
        ("large", LARGE_BYTES + 1),
        ("pair", LARGE_BYTES + 2),
    ];
    let mut expected = Vec::new();
    for (seed, (name, length)) in (1..).zip(lengths) {
        let content = bytes(seed, length);
        let copies: &[&str] = if name == "pair" { &["1"] } else { &["1", "2"] };
        for copy in copies.iter().chain(&["bad"]) {
            fs::write(place.path("disk").join(format!("{name}-{copy}")), &content).unwrap();
        }
        if name != "pair" {
            expected.push(format!("disk/{name}-1 disk/{name}-2"));
        }
    }
    sync(&place.path("disk"));
    // Where btrfs says that the copies lie is the order in which they lie on the device.
    let address = |name: &str| {
        let file = File::open(place.path("disk").join(name)).unwrap();
        seekless_engine::files::place(&file).unwrap().unwrap()
    };
    let ranks = lengths.map(|(name, _)| {
        let bad = address(&format!("{name}-bad"));
        let copies = ["1", "2"].map(|copy| format!("{name}-{copy}"));
        let copies = copies.iter().filter(|copy| place.path("disk").join(copy).exists());
        copies.filter(|copy| address(copy) < bad).count()
    });
    drop(mount);
    let image = place.directory().parent().unwrap().join("image");
    let device = File::options().read(true).write(true).open(&image).unwrap();
    for (seed, ((_, length), rank)) in (1..).zip(lengths.iter().zip(ranks)) {
        let at = (length / 2).min(MIDDLE) / BLOCK * BLOCK;
        let expected = &bytes(seed, *length)[at..(at + BLOCK).min(*length)];
        let is_copy = |at: &u64| {
            let mut block = vec![0; expected.len()];
            device.read_exact_at(&mut block, *at).is_ok() && block == expected
        };
        let ranges = seekless_engine::files::data_ranges(&device, 0..device.metadata().unwrap().len());
        let blocks = ranges.flat_map(|range| range.unwrap().step_by(BLOCK));
        let found = blocks.filter(is_copy).nth(rank).unwrap();
        device.write_all_at(&[!expected[0]], found).unwrap();
    }
    let Some(_mount) = Mount::image_again(&image, "ssd", &place.path("disk")) else {
        return;
    };
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let expected = groups(&expected);
    for arguments in [
        &["disk"][..],
        &["--paranoid", "disk"],
        &["--cache", "--cache-file", "cache", "disk"],
    ] {
        let seen = search(&place, arguments);
        assert_eq!((seen.code, &seen.groups), (Some(2), &expected), "{arguments:?}");
        let names: Vec<&str> = told(&seen).into_keys().collect();
        let bad = ["disk/large-bad", "disk/medium-bad", "disk/pair-bad", "disk/small-bad"];
        assert_eq!(names, bad, "{arguments:?}");
        for (path, reason) in told(&seen) {
            assert!(reason.starts_with("cannot "), "{path}: {reason}");
            assert_contains(reason, &["Input/output error"]);
            println!("{path}: {reason}");
        }
        assert_eq!(seen.summary["failed"], 4);
    }
    place.fails(2, "dupes disk").says("3 groups of equal files");
}

#[test]
fn dupes_name_what_is_past_the_end_of_a_device() {
    const IMAGE_BYTES: u64 = 48 << 20;
    let place = Place::new();
    let image = place.directory().parent().unwrap().join("image");
    let Some(mount) = Mount::image("ext4", IMAGE_BYTES, &image, &place.path("disk")) else {
        return;
    };
    for directory in 0..24_u64 {
        let path = place.path("disk").join(format!("directory {directory}"));
        fs::create_dir(&path).unwrap();
        for (name, length) in [("a", 5000), ("b", 100_000), ("c", 400_000)] {
            fs::write(path.join(name), bytes(length + directory % 3, length as usize)).unwrap();
        }
        // Takes several blocks.
        for number in 0..60 {
            File::create(path.join(format!("{number:0>100}"))).unwrap();
        }
    }
    drop(mount);
    let device = File::options().write(true).open(&image).unwrap();
    let mut met = BTreeSet::new();
    for &part in long_or(&[13, 10, 7, 5, 4, 3, 2, 1][..], &[13, 5, 1]) {
        device.set_len(IMAGE_BYTES).unwrap();
        let Some(_mount) = Mount::image_again(&image, "noload", &place.path("disk")) else {
            return;
        };
        // The loop keeps its size, and what is not there cannot be read.
        device.set_len(IMAGE_BYTES * part / 16).unwrap();
        let cold = Seen::of(&place.run("dupes --json disk"));
        let mut read = Read::default();
        Read::below(&place.directory(), &place.path("disk"), &mut read);
        let warm = search(&place, &["disk"]);
        for seen in [&cold, &warm] {
            assert_eq!(seen.groups, read.groups(), "{part}");
            let is_any = !(read.failed_files.is_empty() && read.failed_directories.is_empty());
            assert_eq!(seen.code, Some(if is_any { 2 } else { 0 }), "{part}: {}", seen.stderr);
            for (path, reason) in told(seen) {
                let is_known = read.failed_files.contains_key(path) || read.failed_directories.contains(path);
                assert!(is_known, "{part}: {path}: {reason}");
                assert_contains(reason, &["Input/output error"]);
            }
            let require_told = |path: &str| {
                assert!(told(seen).contains_key(path), "{part}: {path}: {}", seen.stderr);
            };
            for path in &read.failed_directories {
                require_told(path);
            }
            // One that has two equal ones beside it is read until it fails.
            for (path, length) in &read.failed_files {
                let is_alike = |(bytes, files): (&Vec<u8>, &BTreeSet<String>)| {
                    let mut words = path.split(['/', ' ']);
                    let seed = words.find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
                    bytes[..] == crate::common::disks::bytes(length + seed % 3, *length as usize) && files.len() > 1
                };
                if *length > 0 && read.contents.iter().any(is_alike) {
                    require_told(path);
                }
            }
        }
        let lengths = read.failed_files.values();
        met.extend(lengths.map(|length| format!("file of {length} bytes")));
        met.extend((!read.failed_directories.is_empty()).then(|| "directory".to_owned()));
    }
    println!("could not be read: {met:?}");
    let expected = ["directory", "file of 400000 bytes"];
    assert!(expected.iter().all(|what| met.contains(*what)), "{met:?}");
}

/// Searches again and again while another thread, which begins a moment earlier, changes something until it is to stop.
fn searched_while<T>(change: impl FnOnce(&AtomicBool) + Send, runs: usize, search: impl Fn(usize) -> T) -> Vec<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| change(&stop));
        std::thread::sleep(Duration::from_millis(100));
        let ended = (0..runs).map(search).collect();
        stop.store(true, Ordering::Relaxed);
        ended
    })
}

/// What a file held at each of its times of change, by its inode.
type History = HashMap<(u64, u64, i64), Vec<u8>>;

/// Changes files until it is to stop, each at most once in 20 ms.
fn change(tree: &Path, outside: &Path, stop: &AtomicBool, history: &Mutex<History>) {
    let mut random = fastrand::Rng::with_seed(7);
    let note = |path: &Path, content: &[u8]| {
        let metadata = fs::metadata(path).unwrap();
        let changed_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
        let key = (metadata.dev(), metadata.ino(), changed_ns);
        history.lock().unwrap().insert(key, content.to_owned());
    };
    let mut current: Vec<Vec<u8>> = (0..CHANGING).map(|_| bytes(1, 50_000)).collect();
    for (number, content) in current.iter().enumerate() {
        let path = tree.join(format!("changing {number}"));
        fs::write(&path, content).unwrap();
        note(&path, content);
    }
    while !stop.load(Ordering::Relaxed) {
        for (number, content) in current.iter_mut().enumerate() {
            let path = tree.join(format!("changing {number}"));
            let other = bytes(random.u64(1..4), 50_000);
            match random.u32(..6) {
                // Replaced by another file.
                0 => {
                    fs::write(outside, &other).unwrap();
                    fs::rename(outside, &path).unwrap();
                    *content = other;
                }
                // Gone, and there again.
                1 => {
                    fs::remove_file(&path).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                    fs::write(outside, &other).unwrap();
                    fs::rename(outside, &path).unwrap();
                    *content = other;
                }
                2 => {
                    let length = random.usize(40_000..=content.len().max(40_001));
                    content.resize(length, 0);
                    resize(&path, length as u64);
                }
                3 => {
                    let mut file = File::options().append(true).open(&path).unwrap();
                    let rest = &other[content.len().min(50_000)..];
                    if !rest.is_empty() {
                        std::io::Write::write_all(&mut file, rest).unwrap();
                        content.extend(rest);
                    }
                }
                // A byte, which is put back with the time by another turn, perhaps.
                _ => {
                    let at = random.usize(..content.len());
                    content[at] = random.u8(..2);
                    let file = File::options().write(true).open(&path).unwrap();
                    file.write_all_at(&content[at..=at], at as u64).unwrap();
                }
            }
            note(&path, content);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

const CHANGING: usize = 40;

#[test]
fn dupes_of_changing_files_are_told_or_by_what_they_held() {
    let place = Place::new();
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    // Enough for many changes while they are read.
    for number in 0..1200_u64 {
        fs::write(tree.join(format!("static {number}")), bytes(1 + number % 3, 50_000)).unwrap();
    }
    let (history, outside) = (Mutex::new(History::new()), place.path("outside"));
    let (mut is_told, mut grouped) = (0, 0);
    let modes = ["", "--paranoid", "--cache --cache-file cache", ""];
    let runs = searched_while(
        |stop| change(&tree, &outside, stop, &history),
        long_or(24, 4),
        |run| {
            let mode = modes[run % 4];
            (place.run(("dupes --json tree", mode)), mode)
        },
    );
    let history = history.into_inner().unwrap();
    let contents_of_static = [1, 2, 3].map(|seed| bytes(seed, 50_000));
    for (ended, mode) in runs {
        assert_eq!(ended.code, Some(0), "{mode}: {}", ended.stderr);
        let document = ended.json();
        let mut static_files = 0;
        for group in document["groups"].as_array().unwrap() {
            let mut contents = BTreeSet::new();
            for file in group["paths"].as_array().unwrap() {
                let path = file["path"].as_str().unwrap();
                let number = path.rsplit(' ').next().unwrap().parse::<usize>().unwrap();
                if path.contains("static") {
                    static_files += 1;
                    contents.insert(&contents_of_static[number % 3]);
                } else {
                    grouped += 1;
                    let numbers = ["device", "inode"].map(|key| file[key].as_u64().unwrap());
                    let key = (numbers[0], numbers[1], file["changed_ns"].as_i64().unwrap());
                    // What is not known was seen in the middle of a change: a file that is to be renamed.
                    if let Some(content) = history.get(&key) {
                        contents.insert(content);
                    }
                }
            }
            assert_eq!(contents.len(), 1, "{mode}: {group}");
        }
        assert_eq!(static_files, 1200, "{mode}");
        for line in ended.stderr.lines() {
            let is_note = [
                "changed during the search",
                "replaced by another file",
                "removed during the search",
                "truncated",
            ];
            assert_contains(line, &["changing "]);
            assert!(is_note.iter().any(|note| line.contains(note)), "{mode}: {line}");
            is_told += 1;
        }
    }
    println!("{is_told} files that changed were told, {grouped} were in groups");
    assert!(is_told > 0 && grouped > 0);
}

/// Lets files look as if they had been read before they were written.
fn age(path: &Path) -> (i64, i64) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 30);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_accessed(old)).unwrap();
    accessed(path)
}

fn accessed(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.atime(), metadata.atime_nsec())
}

#[test]
fn dupes_keep_times_of_access_for_the_owner() {
    let place = Common::new();
    let open = place.directory().join("open");
    let lengths = [("a", 6000), ("b", 200_000), ("c", LARGE_BYTES + 1)];
    let mut paths: Vec<PathBuf> = Vec::new();
    for (name, length) in lengths {
        for copy in 0..3 {
            let path = open.join(format!("{name}{copy}"));
            fs::write(&path, bytes(length as u64, length)).unwrap();
            paths.push(path);
        }
    }
    if rustix::process::geteuid().is_root() {
        for path in &paths {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let before: Vec<_> = paths.iter().map(|path| age(path)).collect();
    for options in [&[][..], &["--paranoid"], &["--cache", "--cache-file", "open/digests"]] {
        place.run(("dupes open", options)).succeeded();
        let after: Vec<_> = paths.iter().map(|path| accessed(path)).collect();
        assert_eq!(after, before, "{options:?}");
    }
    // Reading them otherwise changes it, unless the mount keeps it.
    fs::read(&paths[0]).unwrap();
    let changes = accessed(&paths[0]) != before[0];
    println!("reading changes the time of access here: {changes}");
}

#[test]
fn dupes_keep_times_of_access_of_directories_and_ignore_files() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("tree"), "strictatime,size=8m") else {
        return;
    };
    fs::create_dir_all(place.path("tree/d/e")).unwrap();
    place.files("tree/d/a tree/d/e/b tree/d/e/c.o", b"same");
    place.file("tree/d/.gitignore", b"*.o\n");
    let names = ["tree", "tree/d", "tree/d/e", "tree/d/.gitignore"];
    let before = names.map(|name| accessed(&place.path(name)));
    for arguments in [&["tree"][..], &["--dirs", "tree/d"], &["tree/d/e", "--against", "tree"]] {
        let found = place.succeeds(("dupes --ignore-files", arguments)).stdout;
        assert!(!found.contains("c.o"), "{found}");
        assert_eq!(names.map(|name| accessed(&place.path(name))), before, "{arguments:?}");
    }
    // Reading them otherwise changes it.
    place.read("tree/d/.gitignore");
    assert_ne!(accessed(&place.path(names[3])), before[3]);
}

/// What others read and write may take pages from the page cache.
mod alone {
    use super::*;

    #[test]
    fn dupes_leave_the_page_cache_as_it_was_unless_keep_cached() {
        let place = Place::new();
        let Some(_mount) = disk(&place, "ext4") else { return };
        let mut paths = Vec::new();
        // Equal in pairs and in threes, and alike at the start only; more of them than are open side by side.
        for (name, length, copies) in [
            ("small", 3000, 3),
            ("medium", 300_000, 3),
            ("large", LARGE_BYTES + 1, 3),
            ("pair", LARGE_BYTES + 9, 2),
            ("many", 20_000, 80),
        ] {
            for copy in 0..copies {
                let path = place.path("disk").join(format!("{name} {copy}"));
                let mut content = bytes(length as u64, length);
                if copy == 1 && name != "pair" {
                    content[length - 1] ^= 1;
                }
                fs::write(&path, content).unwrap();
                paths.push(path);
            }
        }
        sync(&place.path("disk"));
        let resident = |path: &PathBuf| resident_bytes(path);
        for &warm_every in long_or(&[0, 2][..], &[2]) {
            for options in [
                &[][..],
                &["--paranoid"],
                &["--cache", "--cache-file", "cache"],
                &["--keep-cached"],
            ] {
                for (number, path) in paths.iter().enumerate() {
                    seekless_engine::cache::drop_file(path).unwrap();
                    if warm_every > 0 && number % warm_every == 0 {
                        seekless_engine::cache::warm_file(path).unwrap();
                    }
                }
                let before: Vec<_> = paths.iter().map(resident).collect();
                let seen = Seen::of(&place.succeeds(("dupes --json disk", options)));
                assert_eq!(seen.groups.len(), 5, "{options:?}");
                let after: Vec<_> = paths.iter().map(resident).collect();
                for (path, (before, after)) in paths.iter().zip(before.iter().zip(&after)) {
                    let is_right = if options == ["--keep-cached"] {
                        *after > 0
                    } else {
                        // The system may have evicted a page of a file that was warmed.
                        (*before > 0 && after >= before) || (*before == 0 && *after == 0)
                    };
                    let name = path.display();
                    assert!(is_right, "{options:?} {name}: {before} before, {after} after");
                }
            }
            fs::remove_file(place.path("cache")).unwrap();
        }
    }
}

/// Drops a file from the page cache, once it is written.
fn drop_written(path: &Path) {
    seekless_sys::sync(&File::open(path).unwrap()).unwrap();
    seekless_engine::cache::drop_file(path).unwrap();
}

#[test]
fn dupes_stopped_by_ctrl_c_drop_what_they_read() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "ext4") else { return };
    let content = bytes(1, 100 << 20);
    place.files("disk/a disk/b disk/c", &content);
    for name in ["a", "b", "c"] {
        drop_written(&place.path("disk").join(name));
    }
    let child = place.command().args(["dupes", "-q", "disk"]).spawn().unwrap();
    let resident = || ["a", "b", "c"].map(|name| resident_bytes(&place.path("disk").join(name)));
    wait_for("a file is read", || resident()[0] > 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let ended = Ended::of(child);
    println!("{:?}: {}", ended.code, ended.stdout);
    assert_eq!(resident(), [0; 3]);
}

/// Moves, removes and makes directories with files until it is to stop.
fn move_directories(tree: &Path, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(3);
    let path = |number: usize| tree.join(format!("moving {number}"));
    while !stop.load(Ordering::Relaxed) {
        let (one, other) = (path(random.usize(..30)), path(random.usize(..30)));
        match random.u32(..3) {
            0 => drop(fs::rename(one, other)),
            1 => drop(fs::remove_dir_all(one)),
            _ => {
                // It may be there.
                let _ = fs::create_dir_all(one.join("below"));
                for name in ["a", "b", "below/c"] {
                    let _ = fs::write(one.join(name), bytes(1, 9000));
                }
            }
        }
    }
}

#[test]
fn dupes_of_directories_that_are_moved_or_removed_do_not_fail() {
    let place = Place::new();
    let tree = place.path("tree");
    let mut expected = BTreeSet::new();
    for directory in 0..40_u64 {
        let path = tree.join(format!("static {directory}"));
        fs::create_dir_all(&path).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(path.join(name), bytes(1, 9000)).unwrap();
            expected.insert(format!("tree/static {directory}/{name}"));
        }
    }
    let arguments = ["dupes", "--json", "tree"];
    let ended = searched_while(
        |stop| move_directories(&tree, stop),
        long_or(60, 9),
        |run| match run % 3 {
            // With few open files, directories are opened again and again.
            0 => place.run_with_few_files(24, &arguments),
            1 => place.run("dupes --json --dirs tree"),
            _ => place.run(&arguments),
        },
    );
    let mut told = BTreeSet::new();
    for (run, ended) in ended.into_iter().enumerate() {
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for line in ended.stderr.lines() {
            assert!(line.contains("tree/moving "), "{line}");
            told.insert(line.split_once(": ").unwrap().1.split_once(": ").unwrap().1.to_owned());
        }
        if run % 3 != 1 {
            let seen = Seen::of(&ended);
            let [group] = &Vec::from_iter(&seen.groups)[..] else {
                panic!("{:?}", seen.groups);
            };
            let names: BTreeSet<String> = group.iter().flatten().cloned().collect();
            assert!(names.is_superset(&expected));
        }
    }
    println!("told: {told:?}");
}

#[test]
fn dupes_of_a_file_that_loses_shared_blocks_stay_right() {
    const LENGTH: usize = 256 << 10;
    let place = Place::new();
    let Some(_mount) = disk(&place, "xfs") else { return };
    let path = |number: u64, name: &str| place.path("disk").join(format!("{number} {name}"));
    // Of one beginning: a file that changes, one that shares all with it, a copy, and two of what it changes to.
    let old = |number: u64| bytes(number, LENGTH);
    let new = |number: u64| {
        let mut new = bytes(number, LENGTH);
        new[5000..].reverse();
        new
    };
    for number in 0..20 {
        fs::write(path(number, "changing"), old(number)).unwrap();
        reflink(&path(number, "changing"), &path(number, "twin"));
        fs::write(path(number, "copy"), old(number)).unwrap();
        for name in ["other", "another"] {
            fs::write(path(number, name), new(number)).unwrap();
        }
    }
    sync(&place.path("disk"));
    let modes = [&[][..], &["--paranoid"]];
    let change = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            for number in 0..20 {
                let file = File::options().write(true).open(path(number, "changing")).unwrap();
                file.write_all_at(&new(number), 0).unwrap();
                let twin = File::open(path(number, "twin")).unwrap();
                rustix::fs::ioctl_ficlone(&file, &twin).unwrap();
            }
        }
    };
    let ended = searched_while(change, long_or(30, 10), |run| {
        place.run(("dupes --json disk", modes[run % 2]))
    });
    let mut told = 0;
    for ended in &ended {
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        told += ended.stderr.lines().count();
        let groups = Seen::of(ended).groups;
        for number in 0..20 {
            let file = |name: &str| Names::from([format!("disk/{number} {name}")]);
            let are_together = |one: &str, other: &str| {
                let mut with_one = groups.iter().filter(|group| group.contains(&file(one)));
                with_one.any(|group| group.contains(&file(other)))
            };
            for (one, other, expected) in [
                ("twin", "copy", true),
                ("other", "another", true),
                ("twin", "other", false),
            ] {
                let case = format!("{number} {one} {other}: {}", ended.stderr);
                assert_eq!(are_together(one, other), expected, "{case}");
            }
        }
    }
    println!("{told} were told");
    assert!(told > 0);
}
