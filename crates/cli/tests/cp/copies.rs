//! `seekless cp`: what it refuses, what a killed copy leaves, and trees that are deep or that change meanwhile. Who may read
//! copies is tested beside this, and so is that command lines mean what they mean to GNU's.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, mknodat};
use seekless_sys::Directory;

use crate::common::place::{Ended, Mount, Place, is_long, is_root, set_mode, wait_for};

/// What unfinished files are called.
const UNFINISHED: &[u8] = b".seekless-cp-";

/// Makes directories with this many files each, of these modes.
pub fn make_tree(top: &Path, directories: usize, files: usize, [directory_mode, file_mode]: [u32; 2]) {
    fs::create_dir(top).unwrap();
    for number in 0..directories {
        let directory = top.join(number.to_string());
        fs::create_dir(&directory).unwrap();
        for file in 0..files {
            let path = directory.join(file.to_string());
            let bytes = format!("{number} {file} ").repeat(1 + 331 * (file % 9));
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(file_mode)).unwrap();
        }
        fs::set_permissions(&directory, Permissions::from_mode(directory_mode)).unwrap();
    }
}

/// All that is below a directory, without following links.
pub fn below(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Checks that each file with a name of its own is whole, and returns the numbers of these and of unfinished ones.
fn check_whole(source: &Path, copy: &Path) -> [usize; 2] {
    let mut counts = [0; 2];
    for path in below(copy).into_iter().filter(|path| path.is_file()) {
        if path.file_name().unwrap().as_bytes().starts_with(UNFINISHED) {
            counts[1] += 1;
            continue;
        }
        counts[0] += 1;
        let from = source.join(path.strip_prefix(copy).unwrap());
        assert!(
            fs::read(&path).unwrap() == fs::read(&from).unwrap(),
            "{} is not whole",
            path.display()
        );
        let [is, was] = [&path, &from].map(|path| fs::metadata(path).unwrap());
        assert_eq!(
            (is.mode(), is.mtime_nsec()),
            (was.mode(), was.mtime_nsec()),
            "{}",
            path.display()
        );
    }
    counts
}

#[test]
fn cp_refuses_options_naming_the_command_that_has_them() {
    let place = Place::new();
    place.file("a", b"a");
    for (word, instead) in [
        ("-i", "cp -ai"),
        ("--interactive", "cp -ai"),
        ("-l", "cp -al"),
        ("--link", "cp -al"),
        ("-s", "cp -as"),
        ("--symbolic-link", "cp -as"),
        ("-b", "cp -a --backup"),
        ("--backup", "cp -a --backup"),
        ("--backup=numbered", "cp -a --backup"),
        ("--parents", "cp -a --parents"),
        ("--delete", "--delete"),
    ] {
        let ended = place.run(&["cp", word, "a", "b"]);
        assert_eq!(ended.code, Some(1), "{word}");
        assert!(ended.stderr.contains(instead), "{word}: {}", ended.stderr);
        assert!(!place.path("b").exists(), "{word}");
    }
}

#[test]
fn cp_takes_the_last_of_update_and_no_clobber() {
    let place = Place::new();
    for (words, replaced) in [
        (&["--update=older"][..], "old"),
        (&["-u", "--update=all"], "old new"),
        (&["--update=all", "-n"], ""),
        (&["-n", "--update=none"], ""),
    ] {
        for (name, seconds) in [("old", 0), ("source", 1000), ("new", 2000)] {
            place.file(name, name.as_bytes());
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::open(place.path(name)).unwrap().set_modified(time).unwrap();
        }
        for name in ["old", "new"] {
            place.succeeds(("cp", words, &["source", name]));
            let is_replaced = fs::read(place.path(name)).unwrap() == b"source";
            assert_eq!(is_replaced, replaced.contains(name), "{words:?} {name}");
        }
    }
}

#[test]
fn cp_verbose_to_a_full_device_is_an_error() {
    let place = Place::new();
    place.file("a", b"a");
    let ended = place.run_full("cp -v a b").unwrap();
    assert_eq!((ended.code, place.text("b").as_str()), (Some(1), "a"));
}

#[test]
fn cp_target_below_a_file_is_an_error() {
    let place = Place::new();
    place.file("a", b"a");
    let ended = place.run("cp a a/b");
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr.matches("Not a directory").count(), 1, "{}", ended.stderr);
}

#[test]
fn cp_names_the_working_directory_that_takes_no_journal() {
    let place = Place::new();
    place.file("tree/a", b"a");
    let Some(mount) = Mount::tmpfs(&place.path("disk"), "size=1m") else {
        return;
    };
    mount.read_only();
    let mut command = place.command();
    let ended = Ended::by(command.current_dir(place.path("disk")).args(["cp", "../tree", "copy"]));
    ended.failed_with(1, &["seekless: .: cannot open the journal"]);
}

#[test]
fn cp_refuses_an_empty_target_name() {
    let place = Place::new();
    let source = place.directory().join("..").join("file");
    fs::write(&source, b"file").unwrap();
    let source = source.to_str().unwrap();
    for words in [
        &["cp", source, ""][..],
        &["cp", "-t", "", source],
        &["cp", "-T", source, ""],
    ] {
        assert_ne!(place.run(words).code, Some(0), "{words:?}");
        assert!(below(&place.directory()).is_empty(), "{words:?}");
    }
}

#[test]
fn cp_replaces_no_special_file() {
    let place = Place::new();
    place.file("a", b"a");
    symlink("a", place.path("link")).unwrap();
    let mut kinds = vec![FileType::Fifo, FileType::Socket];
    if is_root() {
        kinds.push(FileType::CharacterDevice);
    }
    for kind in kinds {
        let path = place.path("special");
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), rustix::fs::makedev(1, 3)).unwrap();
        let before = fs::symlink_metadata(&path).unwrap();
        // A FIFO has no reader, and a socket cannot be opened. What is written to the null device is gone.
        let is_written = kind == FileType::CharacterDevice;
        for (words, code) in [("cp a special", i32::from(!is_written)), ("cp link special", 1)] {
            let ended = place.run(words);
            let after = fs::symlink_metadata(&path).unwrap();
            assert_eq!(
                (after.ino(), after.mode()),
                (before.ino(), before.mode()),
                "{words} {kind:?}"
            );
            assert_eq!(ended.code, Some(code), "{words} {kind:?}: {}", ended.stderr);
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn cp_reads_and_writes_named_streams() {
    let place = Place::new();
    place.file("a", b"bytes");
    for (name, descriptor) in [("in", 0), ("out", 1)] {
        symlink(format!("/proc/self/fd/{descriptor}"), place.path(name)).unwrap();
    }
    mknodat(CWD, place.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let bytes = vec![7; 1 << 20];
    let written = thread::spawn({
        let (fifo, bytes) = (place.path("fifo"), bytes.clone());
        move || fs::write(fifo, bytes)
    });
    place.succeeds("cp fifo copied");
    written.join().unwrap().unwrap();
    assert!(place.read("copied") == bytes);
    place.run_fed("cp in copied", b"input").succeeded();
    assert_eq!(place.read("copied"), b"input");
    assert_eq!(place.succeeds("cp a out").stdout, "bytes");
    assert!(fs::symlink_metadata(place.path("out")).unwrap().is_symlink());
    if place.device("null", "c 1 3") {
        place.succeeds("cp null copied");
        assert_eq!(place.read("copied"), b"");
        place.succeeds("cp -a null device");
        assert!(!fs::metadata(place.path("device")).unwrap().is_file());
        place.fails(1, "cp null null");
    }
    // A copy that waits for its writer ends when it is told to.
    let (waiting, mut writer) = (place.start("cp fifo copied"), None);
    wait_for("the reader of the FIFO", || {
        let mut options = File::options();
        options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        writer = options.open(place.path("fifo")).ok();
        writer.is_some()
    });
    Ended::interrupted(waiting);
}

/// Copies `tree` to `copy` and kills that at many moments; each time, whatever has its name is whole.
fn kill_often(place: &Place, copy: &Path) {
    let copy_all = || -> Child {
        let mut command = place.command();
        command.args(["cp", "-T", "tree"]).arg(copy).spawn().unwrap()
    };
    let started = Instant::now();
    Ended::of(copy_all()).succeeded();
    let whole = started.elapsed();
    let files = check_whole(&place.path("tree"), copy)[0];
    let rounds = if is_long() { 30 } else { 10 };
    let (mut killed, mut partial) = (0, 0);
    for round in 0..rounds {
        // Every third copy replaces all files.
        if round % 3 != 0 {
            let _ = fs::remove_dir_all(copy);
        }
        let mut child = copy_all();
        thread::sleep(whole * round / rounds);
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        let [whole, unfinished] = if copy.exists() {
            check_whole(&place.path("tree"), copy)
        } else {
            [0; 2]
        };
        // A new tree has no name before it is complete.
        let mut beside = fs::read_dir(copy.parent().unwrap()).unwrap().flatten();
        let is_staged = beside.any(|entry| entry.file_name().to_string_lossy().starts_with(".seekless-cp-tree-"));
        assert!(!(is_staged && copy.exists()), "a part of a tree has its name");
        partial += u32::from(is_staged || whole > 0 && whole < files);
        assert!(unfinished <= 64, "{unfinished} unfinished files");
    }
    println!("{killed} of {rounds} were killed, {partial} with a part of the files");
    assert!(partial > rounds / 10, "too few were killed in the middle: {partial}");
    Ended::of(copy_all()).succeeded();
    assert_eq!(check_whole(&place.path("tree"), copy)[0], files);
}

#[test]
fn cp_killed_leaves_no_partial_file() {
    let place = Place::new();
    make_tree(&place.path("tree"), 12, 80, [0o755, 0o644]);
    kill_often(&place, &place.path("copy"));
    place.directories("behind mounted");
    // It has no unnamed files.
    if let Some(_mount) = Mount::bindfs(&place.path("behind"), &place.path("mounted"), &[]) {
        kill_often(&place, &place.path("mounted/copy"));
    }
}

#[test]
fn cp_killed_leaves_no_link_or_fifo_without_owner_and_times() {
    let Some(place) = Place::of_root() else { return };
    let (count, rounds) = (500, if is_long() { 50 } else { 8 });
    place.directories("tree");
    for number in 0..count {
        let path = place.path(format!("tree/{number}"));
        match number % 10 {
            0 => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
            _ => symlink("nowhere", &path).unwrap(),
        }
        lchown(&path, Some(77), Some(77)).unwrap();
    }
    let facts = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        (found.mode(), found.uid(), found.mtime(), found.mtime_nsec())
    };
    let check = |copy: &Path| -> [usize; 2] {
        let is_unfinished = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(UNFINISHED);
        let (unfinished, whole): (Vec<_>, Vec<_>) = below(copy).into_iter().partition(is_unfinished);
        for path in &whole {
            let from = place.path("tree").join(path.file_name().unwrap());
            assert_eq!(facts(path), facts(&from), "{}", path.display());
        }
        [whole.len(), unfinished.len()]
    };
    let (mut partial, mut whole_time) = (0, None);
    for round in 0..=rounds {
        let copy = place.path(format!("copy{round}"));
        fs::create_dir(&copy).unwrap();
        let started = Instant::now();
        let mut child = place.command().args(["cp", "-T", "tree"]).arg(&copy).spawn().unwrap();
        match whole_time {
            None => {
                assert!(child.wait().unwrap().success());
                whole_time = Some(started.elapsed());
            }
            Some(time) => {
                thread::sleep(time * round / rounds);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        partial += u32::from((1..count).contains(&check(&copy)[0]));
        // Nothing of what was left stays.
        place
            .run(&["cp", "-u", "-T", "tree", copy.to_str().unwrap()])
            .succeeded();
        assert_eq!(check(&copy), [count, 0]);
    }
    assert!(partial > rounds / 10, "too few were killed in the middle: {partial}");
}

#[test]
fn cp_copies_a_deep_tree_with_few_open_files() {
    // Its path is longer than the system takes.
    const DEPTH: usize = 500;
    let place = Place::new();
    // Paths are longer than the system takes, so neither tree is made or read by paths.
    let mut at = Directory::open(&place.directory()).unwrap();
    at = at.create_directory("deep".as_ref(), 0o755).unwrap();
    for level in 0..DEPTH {
        let mut file = at.create_file("file".as_ref(), 0o644).unwrap();
        file.write_all(&level.to_le_bytes()).unwrap();
        at = at.create_directory("directory".as_ref(), 0o700).unwrap();
    }
    place.run_with_few_files(64, &["cp", "deep", "copy"]).succeeded();
    let open = |above: &File, name: &str| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        rustix::fs::openat(above, name, flags, Mode::empty()).map(File::from)
    };
    let mut at = File::open(place.path("copy")).unwrap();
    for level in 0..DEPTH {
        let mut bytes = Vec::new();
        open(&at, "file").unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, level.to_le_bytes(), "level {level}");
        at = open(&at, "directory").unwrap();
    }
    assert!(open(&at, "file").is_err());
}

#[test]
fn cp_copies_a_long_directory_with_few_open_files() {
    let place = Place::new();
    let long = place.path("long");
    fs::create_dir(&long).unwrap();
    for number in 0..10_000 {
        // Links are made faster than files.
        symlink(number.to_string(), long.join(number.to_string())).unwrap();
    }
    for number in 0..200 {
        fs::create_dir_all(long.join(format!("d{number}/e"))).unwrap();
    }
    place.run_with_few_files(24, &["cp", "long", "copy"]).succeeded();
    let names = |top: &Path| -> BTreeSet<(PathBuf, Option<PathBuf>)> {
        let relative = |path: PathBuf| (path.strip_prefix(top).unwrap().to_owned(), fs::read_link(&path).ok());
        below(top).into_iter().map(relative).collect()
    };
    assert!(names(&long) == names(&place.path("copy")));
}

#[test]
fn cp_follows_no_link_swapped_for_a_target_directory() {
    let place = Place::new();
    make_tree(&place.path("tree"), 8, 60, [0o755, 0o644]);
    make_tree(&place.path("copy"), 8, 0, [0o755, 0o644]);
    place.directories("precious");
    let (is_over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let [precious, copy] = ["precious", "copy"].map(|name| place.path(name));
            while !is_over.load(Ordering::Relaxed) {
                for number in 0..8 {
                    let [there, aside] = [number.to_string(), format!("aside{number}")].map(|name| copy.join(name));
                    if fs::rename(&there, &aside).is_ok() && symlink(&precious, &there).is_ok() {
                        swaps.fetch_add(1, Ordering::Relaxed);
                        let _ = fs::remove_file(&there);
                    }
                    let _ = fs::rename(&aside, &there);
                }
            }
        });
        for _ in 0..if is_long() { 15 } else { 4 } {
            place.run("cp -T tree copy");
            place.run_with_few_files(24, &["cp", "-T", "tree", "copy"]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(swaps.load(Ordering::Relaxed) > 100);
    let followed = below(&place.path("precious"));
    assert!(followed.is_empty(), "{followed:?}");
}

#[test]
fn cp_leaves_mode_and_owner_of_a_file_moved_over_a_new_fifo() {
    let place = Place::new();
    place.directories("tree");
    for number in 0..100 {
        let path = place.path(format!("tree/{number}"));
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        if is_root() {
            lchown(&path, Some(77), Some(77)).unwrap();
        }
    }
    let mut moves = 0;
    for trial in 0..if is_long() { 200 } else { 10 } {
        let (copy, victim) = (place.path(format!("copy{trial}")), place.path(format!("victim{trial}")));
        fs::create_dir(&copy).unwrap();
        match trial % 2 {
            0 => fs::write(&victim, b"precious").unwrap(),
            _ => mknodat(CWD, &victim, FileType::Fifo, Mode::RUSR, 0).unwrap(),
        }
        set_mode(&victim, 0o600);
        let old = Timestamps {
            last_access: Timespec { tv_sec: 1, tv_nsec: 0 },
            last_modification: Timespec { tv_sec: 1, tv_nsec: 0 },
        };
        rustix::fs::utimensat(CWD, &victim, &old, AtFlags::empty()).unwrap();
        let before = fs::metadata(&victim).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let attacker = scope.spawn(|| {
                // It goes from each new name to the next one.
                let (mut at, mut seen, mut moves) = (victim.clone(), BTreeSet::new(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let entries: Vec<_> = fs::read_dir(&copy).unwrap().flatten().collect();
                    if let Some(renamed) = entries.iter().find(|entry| entry.ino() == before.ino()) {
                        at = renamed.path();
                    }
                    let is_new = |entry: &&fs::DirEntry| entry.ino() != before.ino() && seen.insert(entry.path());
                    if let Some(entry) = entries.iter().find(is_new)
                        && fs::rename(&at, entry.path()).is_ok()
                    {
                        at = entry.path();
                        moves += 1;
                    }
                }
                moves
            });
            place.run(&["cp", "-T", "tree", copy.to_str().unwrap()]);
            is_over.store(true, Ordering::Relaxed);
            moves += attacker.join().unwrap();
        });
        let mut found = below(&place.directory())
            .into_iter()
            .map(|path| fs::symlink_metadata(path).unwrap());
        let after = found
            .find(|found| found.ino() == before.ino())
            .expect("the file that was moved");
        assert_eq!(
            (after.uid(), after.mode()),
            (before.uid(), before.mode()),
            "trial {trial}"
        );
    }
    assert!(moves > 10, "moved too seldom: {moves}");
}

#[test]
fn cp_follows_no_link_swapped_for_a_named_source() {
    let place = Place::new();
    place.directories("tree precious");
    place.file("precious/file", b"precious");
    symlink("precious", place.path("link")).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let here = Directory::open(&place.directory()).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                here.exchange("tree".as_ref(), "link".as_ref()).unwrap();
            }
        });
        for number in 0..if is_long() { 400 } else { 40 } {
            place.run(&["cp", "-T", "tree", &format!("copy{number}")]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let copies = below(&place.directory())
        .into_iter()
        .filter(|path| path.ends_with("file"));
    let followed: Vec<_> = copies
        .filter(|path| path.symlink_metadata().is_ok() && !path.parent().unwrap().ends_with("precious"))
        .collect();
    assert!(followed.is_empty(), "{followed:?}");
}
