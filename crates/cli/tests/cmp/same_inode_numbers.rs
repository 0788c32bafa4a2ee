//! Different files with the same numbers: `st_dev`, `st_ino` and the places of their extents. They must be read before
//! they are called equal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_engine::method::{MECHANISMS, Operation};

use crate::common::place::{Mount, Place, prepared};

const IMAGE_BYTES: u64 = 320 << 20;
const HALF_BYTES: usize = 16 << 20;

/// Two new XFS, mounted on `one` and `other` of a directory: the same steps give their files the same numbers and places.
fn twins(place: &Place, below: &str) -> Option<[Mount; 2]> {
    let mount = |name: &str| {
        let directory = place.path(format!("{below}{name}"));
        fs::create_dir_all(&directory).unwrap();
        Mount::image("xfs", IMAGE_BYTES, &place.path(format!("image-{name}")), &directory)
    };
    Some([mount("one")?, mount("other")?])
}

/// The first half is the same in all files, as a check of claimed equality would read it; the second is one repeated byte.
fn bytes(byte: u8) -> Vec<u8> {
    [[b'x'; 2], [byte; 2]].map(|pair| pair.repeat(HALF_BYTES / 2)).concat()
}

/// A file of [`bytes`], and a reflink of it beside it.
fn cloned(directory: &Path, name: &str, byte: u8) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes(byte)).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let clone = directory.join(format!("clone-of-{name}"));
    assert!(prepared(
        "cp",
        &["--reflink=always".as_ref(), path.as_os_str(), clone.as_os_str()]
    ));
    path
}

/// Whether two files that differ in their second half are said to differ by all methods, and their trees too.
fn all_differ(place: &Place, one: &str, other: &str, trees: [&str; 2]) {
    let differ = |arguments: &[&str]| {
        place.run(arguments).ended_with(1);
    };
    differ(&["cmp", "-s", one, other]);
    differ(&["cmp", one, other]);
    differ(&["cmp", "-r", "-q", trees[0], trees[1]]);
    let here = MECHANISMS
        .iter()
        .filter(|mechanism| mechanism.operation == Operation::Compare);
    for mechanism in here.filter(|mechanism| mechanism.is_here()) {
        differ(&[
            "cmp",
            "-s",
            "--method",
            &format!("compare/{}", mechanism.name),
            one,
            other,
        ]);
    }
}

#[test]
fn same_extents_below_an_overlay_prove_no_equality() {
    let place = Place::new();
    let Some(_twins) = twins(&place, "") else { return };
    for (lower, directory, byte) in [("one", "a", b'a'), ("other", "b", b'b')] {
        fs::create_dir(place.path(lower).join(directory)).unwrap();
        cloned(&place.path(lower).join(directory), "file", byte);
    }
    let Some(_overlay) = Mount::layers(
        [&place.path("one"), &place.path("other")],
        "xino=on",
        &place.path("mount"),
    ) else {
        return;
    };
    all_differ(&place, "mount/a/file", "mount/b/file", ["mount/a", "mount/b"]);
    // Equal files are found to be equal.
    place.succeeds("cmp -s mount/a/file mount/a/clone-of-file");
}

#[test]
fn same_inode_numbers_on_fuse_are_no_identity() {
    let place = Place::new();
    let Some(_twins) = twins(&place, "source/") else { return };
    for (lower, byte) in [("one", b'a'), ("other", b'b')] {
        place.file(format!("source/{lower}/d/file"), &bytes(byte));
        let file = place.file(format!("source/{lower}/e/file"), &vec![1; 1 << 20]);
        fs::hard_link(&file, place.path(format!("source/{lower}/e/again"))).unwrap();
    }
    let Some(_fuse) = Mount::bindfs(&place.path("source"), &place.path("mount"), &[]) else {
        return;
    };
    let number = |path: &str| {
        let metadata = fs::metadata(place.path(path)).unwrap();
        (metadata.dev(), metadata.ino())
    };
    for name in ["d/file", "e/file"] {
        if number(&format!("mount/one/{name}")) != number(&format!("mount/other/{name}")) {
            println!("skipped: bindfs gives numbers of its own here");
            return;
        }
    }
    let files = ["mount/one/d/file", "mount/other/d/file"];
    all_differ(&place, files[0], files[1], ["mount/one", "mount/other"]);
    for command in [&["cache", "show"][..], &["cache", "drop"], &["holes", "show"]] {
        let told = place.succeeds(&[command, &files].concat()).stdout;
        assert!(files.iter().all(|file| told.contains(file)), "{command:?}: {told}");
    }
    // There, hard links cannot be distinguished from different files with one number: each name counts.
    for command in ["holes show -r mount", "cache show mount"] {
        place.succeeds(command).says("6 files");
    }
    place.run("cmp --same-size mount").says("6 files of 1 MiB or more");
    place.directories("above upper work");
    let layers = ["mount", "upper", "work"].map(|name| place.path(name));
    let Some(_overlay) = Mount::overlay([&layers[0], &layers[1], &layers[2]], &place.path("above")) else {
        return;
    };
    place.fails(1, "cmp -s above/one/d/file above/other/d/file");
    place.succeeds("dupes above/one/d above/other/d").says("0 groups");
}
