//! `seekless cp` on file systems that share blocks, lack something, do not number files reliably, or tell other sizes than files have.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};
use seekless_sys::Support;

use super::copies::below;
use crate::common::disks::{btrfs, bytes, disk, set_modified};
use crate::common::place::{Mount, Place, is_long, long_or, prepared, wait_for};

/// Whether a file shares blocks with another.
fn is_shared(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    match seekless_sys::extents(&file, 0..length).unwrap() {
        Support::Available(extents) => extents.iter().any(|extent| extent.flags.is_shared()),
        Support::Unavailable(reason) => panic!("{reason}"),
    }
}

fn blocks_are_shared_as_asked_on(kind: &str) {
    let place = Place::new();
    let Some(_mount) = disk(&place, kind) else { return };
    place.file("disk/file", &bytes(1, 3 << 20));
    place.succeeds("cp --reflink=never disk/file disk/apart");
    assert!(!is_shared(&place.path("disk/apart")), "asked never to share");
    for word in ["--reflink=auto", "--reflink=always", "--reflink"] {
        place.succeeds(&["cp", word, "disk/file", "disk/shares"]);
        assert!(is_shared(&place.path("disk/shares")), "{word}");
        fs::remove_file(place.path("disk/shares")).unwrap();
    }
    for name in ["apart", "file"] {
        assert!(
            fs::read(place.path("disk").join(name)).unwrap() == bytes(1, 3 << 20),
            "{name}"
        );
    }
}

fn holes_are_kept_as_asked_on(kind: &str) {
    let place = Place::new();
    let Some(_mount) = disk(&place, kind) else { return };
    let file = File::create(place.path("disk/file")).unwrap();
    file.set_len(8 << 20).unwrap();
    file.write_all_at(&bytes(2, 1 << 20), 3 << 20).unwrap();
    drop(file);
    for (words, blocks) in [
        ("--sparse=never --reflink=never", 16_384..20_000),
        ("--reflink=never", 2048..3000),
        ("--sparse=always", 2048..3000),
    ] {
        place.succeeds(&format!("cp disk/file disk/copy {words}"));
        let copy = File::open(place.path("disk/copy")).unwrap();
        copy.sync_all().unwrap();
        let allocated = copy.metadata().unwrap().blocks();
        assert!(blocks.contains(&allocated), "{words:?}: {allocated} blocks");
        assert!(fs::read(place.path("disk/copy")).unwrap() == fs::read(place.path("disk/file")).unwrap());
        fs::remove_file(place.path("disk/copy")).unwrap();
    }
}

#[test]
fn cp_shares_blocks_and_keeps_holes_as_asked() {
    for kind in ["xfs", "btrfs"] {
        blocks_are_shared_as_asked_on(kind);
        holes_are_kept_as_asked_on(kind);
    }
}

/// A tree that FUSE shows, which does not number files reliably.
fn fuse(place: &Place) -> Option<Mount> {
    place.directories("behind mounted");
    Mount::bindfs(&place.path("behind"), &place.path("mounted"), &[])
}

#[test]
fn cp_ends_at_link_loops_where_inodes_are_unreliable() {
    let place = Place::new();
    let Some(_mount) = fuse(&place) else { return };
    place.directories("behind/tree/sub");
    symlink("..", place.path("behind/tree/sub/up")).unwrap();
    let mut child = place.start("cp -L mounted/tree copy");
    let end = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // Nothing happens if it has ended.
    let _ = child.kill();
    assert_eq!(
        child.wait().unwrap().code(),
        Some(1),
        "killed after 10 seconds, or another code"
    );
}

#[test]
fn cp_keeps_or_tells_hard_links_where_inodes_are_unreliable() {
    let place = Place::new();
    let Some(_mount) = fuse(&place) else { return };
    for (name, kind) in [
        ("file", FileType::RegularFile),
        ("link", FileType::Symlink),
        ("fifo", FileType::Fifo),
    ] {
        let tree = place.path("behind").join(name);
        fs::create_dir(&tree).unwrap();
        match kind {
            FileType::Symlink => symlink("nowhere", tree.join("one")).unwrap(),
            _ => mknodat(CWD, tree.join("one"), kind, Mode::RUSR, 0).unwrap(),
        }
        fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
        let ended = place.run(&["cp", &format!("mounted/{name}"), "."]);
        let [one, two] = ["one", "two"].map(|file| fs::symlink_metadata(place.path(name).join(file)).unwrap());
        assert!(
            one.ino() == two.ino() || ended.code == Some(1),
            "two of {kind:?}, and nothing is said"
        );
    }
}

#[test]
fn cp_copies_no_file_to_itself_where_inodes_are_unreliable() {
    let place = Place::new();
    let Some(_mount) = fuse(&place) else { return };
    place.file("behind/one", b"one");
    fs::hard_link(place.path("behind/one"), place.path("behind/two")).unwrap();
    for to in ["mounted/two", "mounted/one"] {
        let ended = place.run(&["cp", "mounted/one", to]);
        let [one, two] = ["behind/one", "behind/two"].map(|name| fs::metadata(place.path(name)).unwrap());
        assert_eq!((ended.code, one.ino()), (Some(1), two.ino()), "{to}");
    }
}

#[test]
fn cp_copies_a_file_system_to_one_mounted_in_it() {
    let place = Place::new();
    place.directories("root root/sub root/mounted");
    place.file("root/sub/file", b"file");
    let Some(_mount) = Mount::tmpfs(&place.path("root/mounted"), "size=8m") else {
        return;
    };
    place.succeeds("cp -x root root/mounted");
    let copy = place.path("root/mounted/root");
    assert_eq!(fs::read(copy.join("sub/file")).unwrap(), b"file");
    assert_eq!(fs::read_dir(copy.join("mounted")).unwrap().count(), 0);
}

#[test]
fn cp_copies_files_of_proc_as_they_read() {
    let place = Place::new();
    let mut tried = 0;
    for path in [
        "/proc/version",
        "/proc/self/limits",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let Ok(expected) = fs::read(path) else {
            println!("skipped: {path} is not here");
            continue;
        };
        place.succeeds(&["cp", "-T", path, "copy"]);
        let copied = fs::read(place.path("copy")).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&copied),
            String::from_utf8_lossy(&expected),
            "{path}"
        );
        tried += 1;
    }
    assert!(tried > 0);
}

/// Copies files with unusual times to `disk`. Times that are stored with less than two seconds of
/// difference are counted and no failure, others are one; and nothing is copied again.
fn unusual_times_are_stored_or_counted(place: &Place, kind: &str) {
    let times = [
        (1_000_000_001, 999_999_999),
        (-86_401, 1),
        (4_350_000_000, 5),
        (9_300_000_000, 7),
    ];
    for (seconds, nanoseconds) in times {
        let file = place.file(format!("times/{seconds}"), b"bytes");
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();
    }
    let directory = File::open(place.path("times")).unwrap();
    directory
        .set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000))
        .unwrap();
    let ended = place.run("cp -uT --json times disk/times");
    let [mut rounded, mut failures] = [0, 0];
    for (seconds, _) in times {
        let time = |directory: &str| {
            let found = fs::metadata(place.path(directory).join(seconds.to_string())).unwrap();
            (found.mtime(), found.mtime_nsec())
        };
        let (wanted, stored) = (time("times"), time("disk/times"));
        failures += u64::from((wanted.0 - stored.0).abs() > 1);
        rounded += u64::from(wanted != stored && (wanted.0 - stored.0).abs() <= 1);
    }
    println!("{kind}: {rounded} times rounded, {failures} not stored");
    let told = ended.json();
    let count = |what: &str| told["not_preserved"][what].as_u64().unwrap_or(0);
    assert_eq!(
        (count("exact times"), count("years")),
        (rounded, failures),
        "{kind}: {told}"
    );
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some((failures > 0).into()), ""),
        "{kind}"
    );
    for again in ["-u", "--compare=time"] {
        let told = place.run(&format!("cp {again} -T --json times disk/times")).json();
        assert_eq!(told["files"], 0, "{kind}: {again}: {told}");
    }
}

#[test]
fn cp_stores_or_counts_unusual_times_once() {
    let kinds = [
        "ext2",
        "ext4 -I 128",
        "xfs -m bigtime=0",
        "xfs -m bigtime=1",
        "btrfs",
        "tmpfs",
        "exfat",
        "ntfs -F -Q",
    ];
    for kind in kinds {
        let place = Place::new();
        let (image, directory) = (place.directory().parent().unwrap().join("image"), place.path("disk"));
        let mounted = match kind {
            "tmpfs" => Mount::tmpfs(&directory, "size=8m"),
            _ => Mount::image(kind, 320 << 20, &image, &directory),
        };
        if mounted.is_some() {
            unusual_times_are_stored_or_counted(&place, kind);
        }
    }
}

/// A target that finds `A` by the name `a`.
fn ignores_case(place: &Place, kind: &str) -> Option<Mount> {
    let image = place.sparse("image", 64 << 20);
    let (make, words): (_, &[&str]) = match kind {
        "exfat" => ("mkfs.exfat", &[]),
        _ => ("mkfs.ntfs", &["-Q", "-F", "-q"]),
    };
    let words: Vec<_> = words.iter().map(OsStr::new).chain([image.as_os_str()]).collect();
    if !prepared(make, &words) {
        println!("skipped: no {make}");
        return None;
    }
    if kind == "exfat" {
        return Mount::exfat(&image, &place.path("disk"));
    }
    let words = ["-o", "ignore_case,permissions,streams_interface=xattr"].map(OsStr::new);
    Mount::by(kind, &[&words[..], &[image.as_os_str()]].concat(), &place.path("disk"))
}

#[test]
fn cp_of_two_sources_with_one_target_name_fails_each_time() {
    for kind in ["exfat", "lowntfs-3g"] {
        let place = Place::new();
        place.directories("tree tree/D tree/d one");
        for (name, text) in [("A", "first"), ("a", "other"), ("D/f", "in D"), ("d/f", "in d")] {
            place.file(format!("tree/{name}"), text.as_bytes());
        }
        place.files("tree/1/ПРИВЕТ tree/1/привет", b"no letter of ASCII");
        place.file("one/a", b"alone");
        let Some(_mount) = ignores_case(&place, kind) else {
            continue;
        };
        place.directories("disk/there disk/named disk/killed disk/alone disk/empty/1");
        place.file("disk/empty/1/ПРИВЕТ", b"old");
        place.succeeds("cp --preserve=mode tree/A disk/named");
        place.succeeds("cp --preserve=mode tree/A disk/alone");
        for round in 0..3 {
            for (words, failures) in [
                (&["-T", "tree", "disk/new"][..], 2),
                (&["-T", "tree", "disk/there"], 2),
                (&["tree/A", "tree/a", "disk/named"], 1),
                (&["tree/D", "tree/d", "disk/named"], 1),
                (&["-T", "tree/1", "disk/empty/1"], 1),
                (&["-T", "tree", "disk/killed"], 2),
            ] {
                if words[2] == "disk/killed" {
                    let mut child = place.start(("cp --preserve=mode", words));
                    thread::sleep(Duration::from_millis(4 * round));
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
                let ended = place.run(("cp --preserve=mode", words));
                assert_eq!(ended.code, Some(1), "{kind} {words:?} {round}: {ended:?}");
                let told = ended.stderr.lines().count();
                assert!(told >= failures, "{kind} {words:?} {round}: {ended:?}");
            }
        }
        // Threads copy both sources at once, so that either may come first.
        for (name, texts) in [
            ("new/A", ["first", "other"]),
            ("there/A", ["first", "other"]),
            ("there/D/f", ["in D", "in d"]),
            ("named/A", ["first", "other"]),
            ("named/D/f", ["in D", "in d"]),
            ("killed/A", ["first", "other"]),
        ] {
            let found = place.text(format!("disk/{name}"));
            assert!(texts.contains(&&*found), "{kind}: {name}: {found}");
        }
        // A source that is alone replaces a file that has its name in other case.
        place.succeeds("cp --preserve=mode one/a disk/alone");
        place.succeeds("cp --preserve=mode -T one disk/there");
        let names = fs::read_dir(place.path("disk/there"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let alone = names.filter(|path| path.to_string_lossy().to_lowercase().ends_with("/a"));
        let texts: Vec<_> = alone.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts, ["alone"], "{kind}");
    }
}

/// Kills a copy as soon as something is so.
fn kill_when(place: &Place, words: &str, what: &str, holds: impl Fn() -> bool) {
    let mut child = place.start(words);
    wait_for(what, || holds() || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "{words}: it ended before {what}");
}

/// The names of this copy's own files in a directory and below.
fn own_names(top: &Path) -> Vec<PathBuf> {
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".seekless-cp-");
    below(top).into_iter().filter(is_own).collect()
}

#[test]
fn cp_resume_refuses_another_snapshot() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "btrfs") else { return };
    if !btrfs(&place, &["create", "disk/one"]) {
        return println!("skipped: no program for subvolumes");
    }
    let fill = |top: &str, byte: u8| {
        for number in 0..400 {
            let path = place.file(format!("disk/{top}/{number}"), &[byte; 5000]);
            set_modified(&path, 1_000_000_000);
        }
    };
    fill("one", 1);
    assert!(btrfs(&place, &["snapshot", "disk/one", "disk/two"]));
    fill("two", 2);
    let words = "cp --fsync -T from copy";
    let shown = Mount::bind(&place.path("disk/one"), &place.path("from")).expect("root may bind");
    kill_when(&place, words, "files are copied", || {
        let is_long = |path: &PathBuf| path.is_dir() && fs::read_dir(path).is_ok_and(|names| names.count() > 20);
        own_names(&place.directory()).iter().any(is_long)
    });
    drop(shown);
    let _shown = Mount::bind(&place.path("disk/two"), &place.path("from")).expect("root may bind");
    place
        .run(words)
        .failed_with(1, &["is not the directory that an interrupted copy began with"]);
}

#[test]
fn cp_killed_leaves_nothing_where_files_have_no_modes() {
    for kind in ["exfat", "ntfs -F -Q"] {
        let place = Place::new();
        let image = place.directory().parent().unwrap().join("image");
        let Some(_mount) = Mount::image(kind, 320 << 20, &image, &place.path("disk")) else {
            continue;
        };
        for number in 0..3 {
            place.file(format!("tree/{number}"), &bytes(number, 8 << 20));
        }
        if is_long() {
            place.file("large", &bytes(1, 70 << 20));
        }
        let cases = ["cp -T --preserve=mode tree disk/tree", "cp --preserve=mode large disk"];
        for words in &cases[..long_or(2, 1)] {
            let is_partial = |path: &PathBuf| path.is_file() && !path.to_string_lossy().contains("journal");
            let has_partial = || own_names(&place.path("disk")).iter().any(is_partial);
            kill_when(&place, words, "a file is copied", has_partial);
            assert!(has_partial(), "{kind}: {words}");
            // The next one is killed when it begins.
            kill_when(&place, words, "it begins", || true);
            place.run(*words);
            assert_eq!(own_names(&place.path("disk")), [] as [PathBuf; 0], "{kind}: {words}");
        }
    }
}

#[test]
fn cp_into_itself_through_a_mount_omits_its_own_files() {
    let place = Place::new();
    place.directories("tree tree/below");
    place.files("tree/file tree/below/file", b"file");
    let Some(_mount) = Mount::bind(&place.path("tree/below"), &place.path("shown")) else {
        return;
    };
    place.run("cp tree shown/copy");
    let copied = below(&place.path("shown"));
    assert_eq!(copied.len(), 5, "{copied:?}");
    assert_eq!(place.text("shown/copy/below/file"), "file");
}

#[test]
fn cp_leaves_nothing_in_an_append_only_directory() {
    let place = Place::new();
    place.directories("tree fixed");
    place.files("tree/new tree/file fixed/file", b"file");
    for name in ["tree/link", "fixed/link"] {
        symlink(name, place.path(name)).unwrap();
    }
    let chattr = |word| prepared("chattr", &[OsStr::new(word), place.path("fixed").as_os_str()]);
    if !chattr("+a") {
        return println!("skipped: no append-only directories here");
    }
    let codes =
        ["cp -T tree fixed", "cp tree/file tree/link fixed", "cp tree fixed"].map(|words| place.run(words).code);
    assert!(chattr("-a"));
    assert_eq!(codes, [Some(1), Some(1), Some(0)]);
    assert_eq!(
        below(&place.path("fixed")).len(),
        7,
        "{:?}",
        below(&place.path("fixed"))
    );
}
