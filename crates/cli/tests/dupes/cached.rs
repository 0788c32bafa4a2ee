//! Digests that `seekless dupes --cache` keeps, also of drives, and what is told where they cannot be kept.
//!
//! When digests are trusted is tested with the library, where the time of a search is a parameter.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::common::disks::bytes;
use crate::common::groups::{Seen, groups};
use crate::common::place::{Ended, Mount, Place, prepared};
use crate::common::unprivileged::Common;

/// An ext4 image with equal files, whose time of change is in the past: digests are not kept of files that changed just now.
fn image(place: &Place, content: &[u8]) -> Option<PathBuf> {
    let image = place.directory().with_file_name("image");
    place.directories("disk copy");
    let mount = Mount::image("ext4", 16 << 20, &image, &place.path("disk"))?;
    place.files("disk/f disk/g", content);
    drop(mount);
    let set_old = |name: &str| {
        let command = format!("set_inode_field {name} ctime 20200101");
        let words = ["-w", "-R", &command].map(OsStr::new);
        prepared("debugfs", &[&words[..], &[image.as_os_str()]].concat())
    };
    let is_old = ["f", "g"].into_iter().all(set_old);
    if !is_old {
        println!("skipped: there is no debugfs");
    }
    is_old.then_some(image)
}

fn searched(place: &Place, paths: &[&str]) -> Ended {
    place.run(&[&["dupes", "--json", "--cache", "--cache-file", "digests"], paths].concat())
}

/// A copy of an image has its UUID, and the inode numbers and times of its files.
#[test]
fn dupes_cache_keeps_digests_of_a_drive_unless_a_copy_is_near() {
    let place = Place::new();
    let content = bytes(1, 30_000);
    let Some(image) = image(&place, &content) else { return };
    let copy = image.with_file_name("image of the copy");
    let mount = |image: &Path, to: &str| Mount::image_again(image, "noatime", &place.path(to));
    let Some(_disk) = mount(&image, "disk") else { return };
    let first = searched(&place, &["disk"]).succeeded();
    assert_eq!(Seen::of(&first).groups, groups(&["disk/f disk/g"]));
    let second = searched(&place, &["disk"]).succeeded();
    second.says("cached blake3");
    assert_eq!(Seen::of(&second).groups, Seen::of(&first).groups);
    let mut damaged = fs::read(&image).unwrap();
    for at in 0..damaged.len() - 100 {
        if damaged[at..].starts_with(&content[..100]) {
            damaged[at] ^= 1;
        }
    }
    fs::write(&copy, damaged).unwrap();
    let Some(_copy) = mount(&copy, "copy") else { return };
    for _ in 0..3 {
        let found = searched(&place, &["disk", "copy"]).succeeded();
        assert_eq!(Seen::of(&found).groups, groups(&["copy/f copy/g", "disk/f disk/g"]));
    }
}

#[test]
fn dupes_cache_that_cannot_be_used_is_told_and_passed_over() {
    let place = Place::new();
    place.files("a b", b"same");
    let failure = || {
        let ended = searched(&place, &["a", "b"]).succeeded();
        assert_eq!(Seen::of(&ended).groups, groups(&["a b"]));
        ended.stderr
    };
    let reason = "digests: cannot open the cache of digests: ";
    assert_eq!(failure(), "");
    let locked = File::options().read(true).write(true).open(place.path("digests"));
    let locked = locked.unwrap();
    locked.lock().unwrap();
    assert!(failure().contains(reason));
    drop(locked);
    assert_eq!(failure(), "");
    place.file("digests", b"no digests");
    assert!(failure().contains(reason));
    let common = Common::new();
    for name in ["a", "b"] {
        fs::write(common.directory().join("open").join(name), "same").unwrap();
    }
    let ended = common.run(&["dupes", "--cache", "--cache-file", "shut/below/digests", "open"]);
    ended.warns("Permission denied");
    ended.succeeded().says("2 files of 4 B");
}
