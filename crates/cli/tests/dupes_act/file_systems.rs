//! Acting where several file systems, subvolumes and mounts show files, and where one lacks what is asked for.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seekless_engine::files::shared_layout;

use crate::common::disks::{btrfs, bytes, disk, sync};
use crate::common::place::{Ended, Mount, Place, prepared, set_mode, words};
use crate::common::unprivileged::{Common, NOBODY};

/// Whether two files have the same blocks.
fn share(place: &Place, names: [&str; 2]) -> bool {
    let [one, other] = names.map(|name| {
        sync(&place.path(name));
        shared_layout(&fs::File::open(place.path(name)).unwrap()).unwrap()
    });
    one.is_some() && one == other
}

#[test]
fn files_of_two_subvolumes_share_blocks_and_one_in_a_read_only_snapshot_gives_them() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "btrfs") else { return };
    for name in ["disk/one", "disk/two", "disk/three"] {
        assert!(btrfs(&place, &["create", name]));
        place.file(format!("{name}/file"), &bytes(1, 300_000));
    }
    let acted = place.succeeds("dupes --action reflink --keep first --yes disk/one disk/two");
    acted.says("1 file now shares blocks, 296 KiB gained");
    assert!(share(&place, ["disk/one/file", "disk/two/file"]));
    // The file of the snapshot cannot be changed, so it is the one to keep, although another comes first.
    assert!(btrfs(&place, &["snapshot", "-r", "disk/three", "disk/frozen"]));
    fs::remove_file(place.path("disk/three/file")).unwrap();
    let acted = place.succeeds("dupes --action reflink --keep first --yes disk/one disk/two disk/frozen");
    acted.says("disk/frozen/file  (read-only)");
    acted.says("2 files now share blocks");
    for name in ["disk/one/file", "disk/two/file"] {
        assert!(share(&place, [name, "disk/frozen/file"]));
    }
    let again = place.succeeds("dupes --action reflink --keep first --yes disk/one disk/two disk/frozen");
    again.says("Nothing to do");
    // Of two that cannot be changed, one keeps its blocks, and that is said.
    place.file("disk/three/file", &bytes(1, 300_000));
    assert!(btrfs(&place, &["snapshot", "-r", "disk/three", "disk/frozen_too"]));
    fs::remove_file(place.path("disk/three/file")).unwrap();
    let left = place.fails(
        1,
        "dupes --action reflink --keep first --yes disk/frozen disk/frozen_too",
    );
    left.says("(nothing can be written there: a read-only mount or snapshot)");
    left.says("1 file left alone (296 KiB)");
}

#[test]
fn a_plan_lets_files_of_two_subvolumes_share_blocks() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "btrfs") else { return };
    for name in ["disk/one", "disk/two"] {
        assert!(btrfs(&place, &["create", name]));
        place.file(format!("{name}/file"), &bytes(1, 300_000));
    }
    place.succeeds("dupes --action reflink --keep first --plan-file plan disk/one disk/two");
    place.succeeds("dupes act --plan plan --yes");
    assert!(share(&place, ["disk/one/file", "disk/two/file"]));
    // Hard links cannot lead from one to the other.
    place.file("disk/two/file", &bytes(1, 300_000));
    let apart = place.succeeds("dupes --action hardlink --keep first --yes disk/one disk/two");
    apart.says("Nothing to do");
    apart.says("of equal files stay: they are on several file systems");
}

#[test]
fn a_user_lets_read_only_files_of_his_own_share_blocks_and_none_of_others() {
    let Some(place) = Place::of_root() else { return };
    let Some(_disk) = disk(&place, "btrfs") else { return };
    for directory in [place.directory().parent().unwrap(), &place.directory()] {
        set_mode(directory, 0o755);
    }
    let common = Common::new();
    for name in ["disk/a", "disk/b"] {
        let path = place.file(name, &bytes(1, 300_000));
        set_mode(&path, 0o444);
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let state = common.directory().join("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    let run = || {
        let mut command = common.command(common.directory().join("seekless"));
        command.args(words("dupes --action reflink --keep first --yes"));
        let command = command.arg(place.path("disk"));
        Ended::by(command.env("XDG_STATE_HOME", &state))
    };
    chown(place.path("disk/b"), Some(0), Some(0)).unwrap();
    run().ended_with(1);
    assert!(!share(&place, ["disk/a", "disk/b"]));
    chown(place.path("disk/b"), Some(NOBODY), Some(NOBODY)).unwrap();
    run().succeeded();
    assert!(share(&place, ["disk/a", "disk/b"]));
    assert_eq!(fs::metadata(place.path("disk/b")).unwrap().mode() & 0o777, 0o444);
}

#[test]
fn what_a_file_system_lacks_is_said_once_before_the_search_or_once_for_all_its_files() {
    let place = Place::new();
    let image = place.sparse("image", 48 << 20);
    if !prepared("mkfs.exfat", &[image.as_os_str()]) {
        return println!("skipped: no mkfs.exfat");
    }
    let Some(_mount) = Mount::exfat(&image, &place.path("stick")) else {
        return;
    };
    for number in 0..20 {
        let names = format!("stick/a{number} stick/b{number} here/a{number} here/b{number}");
        place.files(&names, &bytes(number, 9000));
    }
    let before = place.content();
    for action in ["hardlink", "reflink"] {
        for last in ["--yes", "--dry-run"] {
            let told = place.fails(2, ("dupes stick --keep first --action", action, last));
            assert_eq!(told.stderr.lines().count(), 2, "{}", told.stderr);
        }
    }
    assert_eq!(place.content(), before);
    place
        .run("dupes --action hardlink --keep first --yes stick")
        .warns("stick: cannot replace files with hard links: on its file system, inode numbers");
    // What can be done elsewhere is done.
    let acted = place.fails(2, "dupes --action hardlink --keep first --yes stick here");
    acted.says("20 files replaced with hard links");
    acted.warns("inode numbers do not identify files; it is not searched");
    assert_eq!(acted.stderr.lines().count(), 1, "{}", acted.stderr);
    let names = |name: &str| fs::metadata(place.path(name)).unwrap().nlink();
    assert_eq!((names("here/a1"), names("stick/a1")), (2, 1));
}

#[test]
fn that_an_xfs_was_made_without_reflinks_is_said_before_the_search() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "xfs -m reflink=0") else {
        return;
    };
    for number in 0..20 {
        place.files(&format!("disk/a{number} disk/b{number}"), &bytes(number, 9000));
    }
    let told = place.fails(2, "dupes --action reflink --keep first --yes disk");
    told.warns("disk: cannot reflink files: its file system cannot share blocks between files");
    assert_eq!(told.stdout, "");
    place.succeeds("dupes --action hardlink --keep first --yes disk");
}

#[test]
fn files_that_are_named_without_a_directory_are_found_again_by_a_plan() {
    let place = Place::new();
    place.files("a c", b"same");
    place.succeeds("dupes --action remove --keep first --plan-file plan a c");
    place.succeeds("dupes act --plan plan --yes");
    assert!(!place.path("c").exists());
}

/// A directory that a bind mount shows below another given path, too, and a copy between both.
#[test]
fn rules_know_all_paths_of_a_directory_that_a_bind_mount_shows_again() {
    let place = Place::new();
    place.directories("first/shown");
    place.files("last/own/file copies/file", b"same");
    let Some(_mount) = Mount::bind(&place.path("last/own"), &place.path("first/shown")) else {
        return;
    };
    let before = place.content();
    let same = ["first/shown/file", "last/own/file"].map(|name| place.path(name));
    for arguments in [
        "--keep first first copies last",
        "--keep path:first copies first last",
        "--keep under:first/shown copies last first",
        "--keep under:first/shown first/shown copies last/own",
        "--keep under:last/own first/shown copies last/own",
        // What is in a reference by one of its paths stays.
        "last copies --against first",
    ] {
        place.succeeds(("dupes --action remove --yes", arguments));
        assert!(same.iter().all(|path| path.exists()), "{arguments}");
        assert!(!place.path("copies/file").exists(), "{arguments}");
        place.succeeds("dupes undo");
        assert_eq!(place.content(), before);
    }
    // If it goes, it is removed, and restored, once.
    let acted = place.succeeds("dupes --action remove --yes --keep under:copies first copies last");
    acted.says("1 file removed");
    place.succeeds("dupes undo").says("1 file restored");
    assert_eq!(place.content(), before);
}

#[test]
fn two_paths_of_one_name_are_one_name_when_names_are_removed() {
    let place = Place::new();
    place.file("one/file", b"same");
    place.hard_link("one/file", "one/link");
    let Some(_mount) = Mount::bind(&place.path("one"), &place.path("shown")) else {
        return;
    };
    for (arguments, stays) in [("first one/file shown/file", true), ("name:file shown one", false)] {
        place.run(("dupes --action remove --names --yes --keep", arguments));
        let left = ["one/file", "one/link"].map(|name| place.path(name).exists());
        assert_eq!(left, [true, stays], "{arguments}");
    }
}

/// What is long takes minutes or hours; pipes without a writer, for ever.
#[test]
fn searching_and_acting_end_soon_after_a_signal_however_long_files_are_and_never_wait_for_pipes() {
    let place = Place::new();
    place.directories("long");
    for name in ["long/a", "long/b"] {
        let file = fs::File::create(place.path(name)).unwrap();
        if file.set_len(900 << 30).is_err() {
            return println!("skipped: no sparse files of 900 GiB here");
        }
    }
    for arguments in [
        "dupes --cache --cache-file cache long",
        "dupes --action remove --keep first --yes long",
        "dupes --action hardlink --keep first --yes long",
        "dupes catalogue --output catalogue long",
    ] {
        let child = place.start(arguments);
        std::thread::sleep(Duration::from_millis(400));
        let signalled = Instant::now();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        Ended::of(child);
        // Half a second, and room for a machine with much to do.
        assert!(signalled.elapsed() < Duration::from_secs(5), "{arguments}");
        assert!(place.path("long/b").exists());
    }
    for name in ["tree/a", "tree/b"] {
        place.file(name, b"same");
        assert!(prepared("mkfifo", &[place.path(format!("{name}.pipe")).as_os_str()]));
    }
    place.succeeds("dupes --dirs tree").says("1 group");
    place.succeeds("dupes --action remove --prune --keep first --yes tree");
    place.succeeds("dupes undo");
    assert!(place.path("tree/b").exists());
    place.run("dupes tree tree/a.pipe").warns("is a FIFO");
}
