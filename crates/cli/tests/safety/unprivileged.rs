//! Refusals to users without privileges. If root runs the tests, the command is started as `nobody`.

use std::fs::{self};
use std::os::unix::fs::MetadataExt;

use seekless_record::EntryVerdict;

use crate::common::disks::{attribute, list_with_mask};
use crate::common::place::{SMALL_BENCH, is_root, set_mode};
use crate::common::unprivileged::{Common, NOBODY};

#[test]
fn unwritable_directory_is_refused() {
    let common = Common::new();
    for arguments in ["bench --dir shut", "methods --dir shut"] {
        common.run(arguments).refused_with(&["shut", "Permission denied"]);
    }
    common
        .run("bench --dir open --export-json shut/run.json")
        .refused_with(&["shut/run.json", "Permission denied"]);
    let mut left = fs::read_dir(common.directory().join("open")).unwrap();
    // The store's directory has the lock by which benches take turns.
    assert!(left.all(|entry| entry.unwrap().file_name() == "data"));
}

#[test]
fn unreadable_file_is_refused() {
    let common = Common::new();
    for name in ["secret", "secret.toml"] {
        fs::write(common.directory().join(name), b"bytes").unwrap();
        set_mode(common.directory().join(name), 0o000);
    }
    for arguments in ["bench --file secret", "bench secret.toml"] {
        common.run(arguments).refused_with(&["secret", "Permission denied"]);
    }
}

#[test]
fn write_protected_file_is_neither_replaced_nor_updated() {
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    set_mode(&path, 0o444);
    fs::write(common.directory().join("good"), "{\"offset\": 0, \"text\": \"x\"}\n").unwrap();
    let export = common.run("bench --dir open --export-json open/run.json");
    export.refused_with(&["Permission denied"]);
    for safety in ["in-place", "journal", "replace"] {
        let update = common.run(&format!("update open/run.json --from good --safety {safety}"));
        update.refused_with(&["open for writing"]);
    }
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn cp_of_a_read_only_file_keeps_its_attributes() {
    let common = Common::new();
    let [from, to] = ["open/from", "open/to"].map(|name| common.directory().join(name));
    fs::write(&from, b"bytes").unwrap();
    if !attribute(&from, "user.about", b"value") {
        println!("skipped: no extended attributes here");
        return;
    }
    // By it, the copy is not writable before it has its mode.
    attribute(&from, "system.posix_acl_access", &list_with_mask(4));
    set_mode(&from, 0o444);
    common.run("cp open/from open/to").succeeded();
    let mut value = [0; 5];
    let length = rustix::fs::getxattr(&to, "user.about", &mut value).unwrap();
    assert_eq!(
        (&value[..length], fs::metadata(&to).unwrap().mode() & 0o777),
        (&b"value"[..], 0o444)
    );
}

#[test]
fn export_that_cannot_keep_the_group_drops_its_rights() {
    if !is_root() {
        return;
    }
    let common = Common::new();
    let path = common.directory().join("open/run.json");
    fs::write(&path, b"old").unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(0)).unwrap();
    set_mode(&path, 0o664);
    let export = "read/sync,block=1M --dir open --export-json open/run.json";
    common.run((SMALL_BENCH, export)).succeeded();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY));
    assert_eq!(found.mode() & 0o777, 0o644, "read, as everybody may");
}

#[test]
fn bench_without_root_says_what_it_cannot_do() {
    let common = Common::new();
    let emptied = common.run("bench --dir open --drop system");
    emptied.refused_with(&["needs root"]);
    let limited = common.run((SMALL_BENCH, "read/mmap --dir open --cache over"));
    limited.refused_with(&["nothing was measured: read/mmap: not available: "]);
    let ahead = common.run("bench read-ahead --size 1M --rounds 1 --dir open --json");
    let run = seekless_record::from_json(ahead.succeeded().stdout.as_bytes()).unwrap();
    let mut entries = run.contests.iter().flat_map(|contest| &contest.entries);
    assert!(entries.any(|entry| matches!(entry.verdict, EntryVerdict::Unavailable { .. })));
}
