//! Plans promise nothing that acting then refuses, and nothing is acted on that undo cannot restore.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use super::act::journal;
use crate::common::disks::disk;
use crate::common::place::{Ended, Loop, Mount, Place, is_root, prepared, set_mode, words};
use crate::common::unprivileged::{Common, NOBODY};

/// Equal files `in/a` and `in/b`.
fn two(place: &Place) {
    place.files("in/a in/b", &[b'x'; 5000]);
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
fn require_left_out(place: &Place, action: &str, reason: &str) {
    require_left_out_by(place, action, reason, &|all| place.run(all));
}

fn require_left_out_by(place: &Place, action: &str, reason: &str, run: &dyn Fn(&str) -> Ended) {
    let before = place.content();
    for last in ["--dry-run", "--yes"] {
        let ended = run(&format!("dupes --keep first {last} --action {action}")).ended_with(1);
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
    require_left_out(&place, "hardlink in", "extended attribute differs");
    let place = Place::new();
    two(&place);
    if !done("setfacl", &["-m", "u:1000:r", "in/b"], &place) {
        return;
    }
    for action in ["hardlink in", "symlink in"] {
        require_left_out(&place, action, "access control list");
    }
}

#[test]
fn what_a_user_may_not_do_is_said_beforehand() {
    if !is_root() {
        return;
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
    let require = |action: &str, reason: &str| {
        let ended = common.run(("dupes in --keep first --dry-run --action", action));
        ended.ended_with(1).says(reason);
    };
    for action in ["remove", "move --to to"] {
        require(action, "take a lease");
    }
    own("in/a", NOBODY);
    own("to", 0);
    require("move --to to", "may not change names");
    own("in", 0);
    require("remove", "may not change names");
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
        place.succeeds(("dupes --keep first --plan-file plan in shown --action", action));
        let plan = place.text("plan");
        let twice = plan.lines().map(|line| {
            let again = line.starts_with(action).then(|| line.replace("/in/", "/shown/") + "\n");
            format!("{line}\n{}", again.unwrap_or_default())
        });
        fs::write(place.path("plan"), twice.collect::<String>()).unwrap();
        place.succeeds("dupes act --plan plan --yes");
        place.succeeds("dupes undo").says("1 file restored");
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
        let words = ["-o".as_ref(), "loop".as_ref(), image.as_os_str()];
        let now = Mount::by("mount", &words, &place.path("now"));
        place.files("now/only now/twin", &[b'x'; 5000]);
        assert!(done("sync", &["-f", "now"], &place));
        let then = Loop::attach(&image).and_then(|device| device.mount("noload", &place.path("then")));
        let (Some(_now), Some(_then)) = (now, then) else {
            return;
        };
        for name in ["now/only", "now/twin"] {
            set_mode(place.path(name), 0o600);
        }
        for files in ["now then", "now/only then/only"] {
            let ended = place.run(("dupes --action remove --yes --keep under:then", files));
            ended.says("shown by an overlay or another device");
        }
        let left = ["now/only", "now/twin"].map(|name| place.path(name).exists());
        assert!(left.contains(&true), "{has_uuid}: {left:?}");
    }
}

#[test]
fn nothing_moves_to_where_something_is_and_no_name_crosses_a_mount() {
    let place = Place::new();
    two(&place);
    place.directories("to");
    place.succeeds("dupes --keep first --yes --action move --to to in");
    two(&place);
    require_left_out(&place, "move --to to in", "another file has its name");
    // Two names of one file, one of them behind a bind mount.
    let place = Place::new();
    place.directories("shown");
    place.files("base/a/kept base/b/file", b"same");
    place.hard_link("base/b/file", "base/a/name");
    let Some(_mount) = Mount::bind(&place.path("base/b"), &place.path("shown")) else {
        return;
    };
    let before = place.content();
    for action in ["remove", "hardlink"] {
        let ended = place.fails(1, ("dupes --keep name:kept --yes base/a shown --action", action));
        ended.says("on another mount");
        assert_eq!(place.content(), before);
    }
}

#[test]
fn a_directory_that_gives_files_another_project_is_left_alone() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "xfs") else { return };
    place.directories("disk/to");
    place.files("disk/in/a disk/in/p/b", &[b'x'; 9000]);
    if !done("xfs_io", &["-c", "chproj 7", "-c", "chattr +P", "disk/in/p"], &place) {
        return;
    }
    for action in ["remove", "hardlink", "symlink", "move --to disk/to"] {
        require_left_out(&place, &format!("{action} disk/in"), "gives its files project 7");
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
    set_mode(place.path("in"), 0o2775);
    let run = |all: &str| {
        let mut command = place.command_of("unshare");
        Ended::by(command.arg("-Ur").arg(place.command().get_program()).args(words(all)))
    };
    for action in ["remove --unsafe-owner in", "symlink --unsafe-owner in"] {
        require_left_out_by(&place, action, "has no ID in this user namespace", &run);
    }
    assert_eq!(fs::metadata(place.path("in/b")).unwrap().gid(), 2000);
}

#[test]
fn a_journal_of_another_user_namespace_is_refused() {
    let place = Place::new();
    two(&place);
    place.succeeds("dupes --action remove --keep first --yes in");
    let journal = journal(&place);
    let text = fs::read_to_string(&journal).unwrap();
    let records: Vec<&str> = text.lines().collect();
    // The payload of a record begins after its length and sum.
    let mut own: serde_json::Value = serde_json::from_str(&records[1][18..]).unwrap();
    if own["id_maps"].is_null() {
        return println!("skipped: /proc does not say how IDs are mapped");
    }
    // In lines as an earlier version wrote them.
    own["version"] = 2.into();
    own["id_maps"] = "0 1000 1; 0 1000 1".into();
    fs::write(&journal, format!("{own}\n{}\n", records[2][18..].trim())).unwrap();
    place.fails(2, "dupes undo").warns("another user namespace");
    fs::write(journal, text).unwrap();
    place.succeeds("dupes undo");
    assert!(place.path("in/b").exists());
}

#[test]
fn a_rule_that_is_the_path_of_a_file_keeps_it_whatever_characters_it_has() {
    for name in ["a{b,c}", "[b]x", "q?", "st*r"] {
        let place = Place::new();
        for directory in [name, "ab", "bx", "z"] {
            place.file(format!("t/{directory}/f"), b"same");
        }
        let rule = format!("path:t/{name}/f");
        place.succeeds(&format!("dupes --action remove --keep {rule} --yes t"));
        assert!(place.path("t").join(name).join("f").exists(), "{name}");
    }
}
