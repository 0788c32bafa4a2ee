//! Refusals to users without privileges. If root runs the tests, the command is started as `nobody`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::disks::attribute;
use crate::common::place::{SMALL_BENCH, assert_contains};
use crate::common::unprivileged::{Common, NOBODY};

#[test]
fn a_directory_that_is_not_writable_is_refused() {
    let common = Common::new();
    for arguments in ["bench --dir shut", "methods --dir shut"] {
        let sentence = common.run(arguments).refused();
        assert_contains(&sentence, &["shut", "Permission denied"]);
    }
    let sentence = common.run("bench --dir open --export-json shut/run.json").refused();
    assert_contains(&sentence, &["shut/run.json", "Permission denied"]);
    let mut left = fs::read_dir(common.directory().join("open")).unwrap();
    // The store's directory has the lock by which benches take turns.
    assert!(left.all(|entry| entry.unwrap().file_name() == "data"));
}

#[test]
fn an_unreadable_file_is_refused() {
    let common = Common::new();
    for name in ["secret", "secret.toml"] {
        fs::write(common.directory().join(name), b"bytes").unwrap();
        fs::set_permissions(common.directory().join(name), Permissions::from_mode(0o000)).unwrap();
    }
    for arguments in ["bench --file secret", "bench secret.toml"] {
        let sentence = common.run(arguments).refused();
        assert_contains(&sentence, &["secret", "Permission denied"]);
    }
}

#[test]
fn a_file_that_is_protected_from_writing_is_not_replaced() {
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let sentence = common.run("bench --dir open --export-json open/run.json").refused();
    assert_contains(&sentence, &["Permission denied"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_copy_of_a_file_that_is_not_writable_keeps_its_attributes() {
    let common = Common::new();
    let [from, to] = ["open/from", "open/to"].map(|name| common.directory().join(name));
    fs::write(&from, b"bytes").unwrap();
    if !attribute(&from, "user.about", b"value") {
        println!("skipped: no extended attributes here");
        return;
    }
    fs::set_permissions(&from, Permissions::from_mode(0o444)).unwrap();
    common.run("cp open/from open/to").succeeded();
    let mut value = [0; 5];
    let length = rustix::fs::getxattr(&to, "user.about", &mut value).unwrap();
    assert_eq!(
        (&value[..length], fs::metadata(&to).unwrap().mode() & 0o777),
        (&b"value"[..], 0o444)
    );
}

#[test]
fn a_group_that_cannot_be_kept_gives_no_other_group_its_rights() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root makes files of other groups");
        return;
    }
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(0)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    let export = ["read/sync,block=1M", "--dir", "open", "--export-json", "open/run.json"];
    common.run((&SMALL_BENCH, &export)).succeeded();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY));
    assert_eq!(found.mode() & 0o777, 0o644, "read, as everybody may");
}

#[test]
fn emptying_the_system_s_cache_needs_root_and_says_so() {
    let common = Common::new();
    let sentence = common.run("bench --dir open --drop system").refused();
    assert_contains(&sentence, &["needs root"]);
}

#[test]
fn measuring_needs_no_privilege() {
    let common = Common::new();
    let small = "bench --size 1M --rounds 1 --methods */sync,block=1M*";
    let ended = common.run(&format!("{small} --dir open")).succeeded();
    assert_contains(&ended.stdout, &["1 MiB, cold"]);
}

#[test]
fn what_may_not_be_limited_is_not_measured_and_says_why() {
    let common = Common::new();
    let refusal = common
        .run((&SMALL_BENCH, "read/mmap --dir open --cache over"))
        .refused();
    assert_contains(&refusal, &["nothing was measured: read/mmap: not available: "]);
}
