//! Plans promise nothing that acting then refuses, and nothing is acted on that undo cannot restore.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use crate::common::disks::disk;
use crate::common::place::{Ended, Loop, Mount, Place, is_root, prepared};
use crate::common::unprivileged::{Common, NOBODY};

/// Equal files `in/a` and `in/b`.
fn two(place: &Place) {
    fs::create_dir_all(place.path("in")).unwrap();
    for name in ["in/a", "in/b"] {
        place.file(name, &[b'x'; 5000]);
    }
}

fn done(program: &str, arguments: &[&str], place: &Place) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place.directory());
    let is_done = command.output().is_ok_and(|output| output.status.success());
    if !is_done {
        println!("skipped: {program} {arguments:?}");
    }
    is_done
}

/// Fails unless the plan leaves the file out, with a part of the reason, and acting does nothing.
fn require_left_out(place: &Place, arguments: &[&str], reason: &str) {
    require_left_out_by(place, arguments, reason, &|all| place.run(all));
}

fn require_left_out_by(place: &Place, arguments: &[&str], reason: &str, run: &dyn Fn(&[&str]) -> Ended) {
    let before = place.content();
    for last in ["--dry-run", "--yes"] {
        let all = [&["dupes", "--keep", "first", last][..], arguments].concat();
        let ended = run(&all);
        assert_eq!(ended.code, Some(1), "{all:?}: {}{}", ended.stdout, ended.stderr);
        ended.says("Nothing to do");
        ended.says(reason);
    }
    assert_eq!(place.content(), before);
}

#[test]
fn other_attributes_that_a_link_would_change_are_said_beforehand() {
    let place = Place::new();
    two(&place);
    if !done("setfattr", &["-n", "user.note", "-v", "1", "in/b"], &place) {
        return;
    }
    require_left_out(&place, &["--action", "hardlink", "in"], "extended attribute differs");
    let place = Place::new();
    two(&place);
    if !done("setfacl", &["-m", "u:1000:r", "in/b"], &place) {
        return;
    }
    for action in ["hardlink", "symlink"] {
        require_left_out(&place, &["--action", action, "in"], "access control list");
    }
}

#[test]
fn what_a_user_may_not_do_is_said_beforehand() {
    if !is_root() {
        return println!("skipped: not root");
    }
    let common = Common::new();
    let path = |name: &str| common.directory().join(name);
    let own = |name: &str, user: u32| chown(path(name), Some(user), Some(user)).unwrap();
    for name in ["in", "to"] {
        fs::create_dir(path(name)).unwrap();
        own(name, NOBODY);
    }
    for name in ["in/a", "in/b"] {
        fs::write(path(name), [b'x'; 5000]).unwrap();
    }
    own("in/b", NOBODY);
    let require = |arguments: &[&str], reason: &str| {
        let ended = common
            .run(&[&["dupes", "--keep", "first", "--dry-run", "--action"], arguments].concat())
            .ended_with(1);
        ended.says(reason);
    };
    for action in [&["remove"][..], &["move", "--to", "to"]] {
        require(&[action, &["in"]].concat(), "take a lease");
    }
    own("in/a", NOBODY);
    own("to", 0);
    require(&["move", "--to", "to", "in"], "may not change names");
    own("in", 0);
    require(&["remove", "in"], "may not change names");
}

/// As plans are that `seekless-fleet` makes of two catalogues.
#[test]
fn names_that_two_mounts_show_are_restored_once() {
    let place = Place::new();
    two(&place);
    let Some(_mount) = Mount::bind(&place.path("in"), &place.path("shown")) else {
        return;
    };
    for action in ["remove", "hardlink"] {
        let before = place.content();
        place.succeeds(&format!(
            "dupes --action {action} --keep first --plan-file plan in shown"
        ));
        let plan = place.text("plan");
        let twice = plan.lines().map(|line| {
            let again = line.starts_with(action).then(|| line.replace("/in/", "/shown/"));
            format!("{line}\n{}\n", again.unwrap_or_default())
        });
        fs::write(place.path("plan"), twice.collect::<String>()).unwrap();
        place.succeeds("dupes act --plan plan --yes");
        let undone = place.succeeds("dupes undo").stdout;
        assert!(undone.contains("1 file restored"), "{undone}");
        fs::remove_file(place.path("plan")).unwrap();
        assert_eq!(place.content(), before);
    }
}

/// Two devices with one image, of which the second may show an older state: its files look like others, and are not.
#[test]
fn a_file_that_another_device_shows_as_it_was_is_not_removed() {
    for has_uuid in [true, false] {
        let place = Place::new();
        place.directories("now then");
        let image = place.directory().parent().unwrap().join("image");
        let Some(now) = Mount::image("ext4", 16 << 20, &image, &place.path("now")) else {
            return;
        };
        drop(now);
        assert!(has_uuid || done("tune2fs", &["-U", "clear", "../image"], &place));
        let mount_loop = ["-o", "loop"].map(OsStr::new);
        let now = Mount::by(
            "mount",
            &[&mount_loop[..], &[image.as_os_str()]].concat(),
            &place.path("now"),
        );
        place.file("now/only", &[b'x'; 5000]);
        place.file("now/twin", &[b'x'; 5000]);
        assert!(done("sync", &["-f", "now"], &place));
        let then = Loop::attach(&image).and_then(|device| device.mount("noload", &place.path("then")));
        let (Some(_now), Some(_then)) = (now, then) else {
            return;
        };
        for name in ["now/only", "now/twin"] {
            fs::set_permissions(place.path(name), Permissions::from_mode(0o600)).unwrap();
        }
        let remove = "dupes --action remove --yes --keep under:then";
        for files in [&["now", "then"][..], &["now/only", "then/only"]] {
            let ended = place.run(&remove.split(' ').chain(files.iter().copied()).collect::<Vec<_>>());
            let is_refused = ended
                .stdout
                .contains("on the same file system, shown by another device");
            assert!(is_refused, "{has_uuid} {files:?}: {}{}", ended.stdout, ended.stderr);
        }
        let left = ["now/only", "now/twin"].map(|name| place.path(name).exists());
        assert!(left.contains(&true), "{has_uuid}: {left:?}");
    }
}

#[test]
fn nothing_moves_to_where_something_is_and_no_name_crosses_a_mount() {
    let place = Place::new();
    two(&place);
    fs::create_dir(place.path("to")).unwrap();
    let moved = ["--action", "move", "--to", "to", "in"];
    place.succeeds(&[&["dupes", "--keep", "first", "--yes"][..], &moved].concat());
    two(&place);
    require_left_out(&place, &moved, "exists");
    // Two names of one file, one of them behind a bind mount.
    let place = Place::new();
    place.directories("shown");
    place.file("base/a/kept", b"same");
    place.file("base/b/file", b"same");
    place.hard_link("base/b/file", "base/a/name");
    let Some(_mount) = Mount::bind(&place.path("base/b"), &place.path("shown")) else {
        return;
    };
    let before = place.content();
    for action in ["remove", "hardlink"] {
        let all = [
            "dupes",
            "--action",
            action,
            "--keep",
            "name:kept",
            "--yes",
            "base/a",
            "shown",
        ];
        let ended = place.run(&all).ended_with(1);
        ended.says("on several mounts");
        assert_eq!(place.content(), before);
    }
}

#[test]
fn a_directory_that_gives_files_another_project_is_left_alone() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "xfs") else { return };
    place.directories("disk/in disk/in/p disk/to");
    for name in ["disk/in/a", "disk/in/p/b"] {
        place.file(name, &[b'x'; 9000]);
    }
    if !done("xfs_io", &["-c", "chproj 7", "-c", "chattr +P", "disk/in/p"], &place) {
        return;
    }
    for action in [
        &["remove"][..],
        &["hardlink"],
        &["symlink"],
        &["move", "--to", "disk/to"],
    ] {
        let all = [&["--action"], action, &["disk/in"]].concat();
        require_left_out(&place, &all, "gives its files project 7");
    }
}

#[test]
fn a_group_without_a_number_in_a_user_namespace_is_left_alone() {
    let place = Place::new();
    if !is_root() || !prepared("unshare", &["-Ur".as_ref(), "true".as_ref()]) {
        return println!("skipped: no user namespace");
    }
    two(&place);
    // What is made in a directory with the set-group-ID bit gets its group, which has no number either.
    chown(place.path("in/b"), None, Some(2000)).unwrap();
    chown(place.path("in"), None, Some(3000)).unwrap();
    let mut permissions = fs::metadata(place.path("in")).unwrap().permissions();
    PermissionsExt::set_mode(&mut permissions, 0o2775);
    fs::set_permissions(place.path("in"), permissions).unwrap();
    let run = |all: &[&str]| {
        let mut command = place.command_of("unshare");
        command.args(["-Ur"]).arg(place.command().get_program()).args(all);
        Ended::of(command.spawn().unwrap())
    };
    for action in ["remove", "symlink"] {
        let all = ["--action", action, "--unsafe-owner", "in"];
        require_left_out_by(&place, &all, "has no ID in this user namespace", &run);
    }
    assert_eq!(fs::metadata(place.path("in/b")).unwrap().gid(), 2000);
}

#[test]
fn a_journal_of_another_user_namespace_is_refused() {
    let place = Place::new();
    two(&place);
    place.succeeds("dupes --action remove --keep first --yes in");
    let listed = place.succeeds("dupes undo --list --json").stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let journal = listed[0]["path"].as_str().unwrap();
    let text = fs::read_to_string(journal).unwrap();
    let own: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let Some(maps) = own["id_maps"].as_str() else {
        return println!("skipped: /proc does not say how IDs are mapped");
    };
    fs::write(journal, text.replace(maps, "0 1000 1; 0 1000 1")).unwrap();
    let ended = place.fails(2, "dupes undo");
    ended.warns("another user namespace");
    fs::write(journal, text).unwrap();
    place.succeeds("dupes undo");
    assert!(place.path("in/b").exists());
}

#[test]
fn a_rule_that_is_the_path_of_a_file_keeps_it_whatever_characters_it_has() {
    for name in ["a{b,c}", "[b]x", "q?", "st*r"] {
        let place = Place::new();
        for directory in [name, "ab", "bx", "z"] {
            fs::create_dir_all(place.path("t").join(directory)).unwrap();
            place.file(format!("t/{directory}/f"), b"same");
        }
        let rule = format!("path:t/{name}/f");
        place.succeeds(&format!("dupes --action remove --keep {rule} --yes t"));
        assert!(place.path("t").join(name).join("f").exists(), "{name}");
    }
}
