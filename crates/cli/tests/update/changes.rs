//! `seekless update`: many small changes of a file in few writes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::common::place::{Ended, Mount, Place, assert_contains, assert_lacks};

/// Every 100th of 10,000 integers, and the file with them changed.
fn integers(place: &Place) -> Vec<u8> {
    let before: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    place.file("numbers", &before);
    let (mut lines, mut after) = (Vec::new(), before);
    for n in (0..10_000_u32).step_by(100).rev() {
        let bytes = (2 * n).to_le_bytes();
        after[n as usize * 4..][..4].copy_from_slice(&bytes);
        let [a, b, c, d] = bytes;
        let hex = format!("{a:02x}{b:02x}{c:02x}{d:02x}");
        writeln!(lines, "{{\"offset\": {}, \"hex\": \"{hex}\"}}", n * 4).unwrap();
    }
    place.file("changes", &lines);
    after
}

/// The arguments of most of these tests.
const THROUGH: [&str; 7] = [
    "update",
    "numbers",
    "--from",
    "changes",
    "--json",
    "--durability",
    "through",
];

pub fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn every_100th_integer_is_changed_in_a_few_writes_whatever_the_safety() {
    for safety in ["in-place", "journal", "replace"] {
        let place = Place::new();
        let after = integers(&place);
        let arguments = ["update", "numbers", "--from", "changes", "--json", "--safety", safety];
        let ended = place.run((&arguments, "--durability through")).succeeded();
        let told = json(&ended);
        assert!(fs::read(place.path("numbers")).unwrap() == after, "{safety}: {told}");
        assert_eq!((&told["updates"], &told["requested_bytes"]), (&100.into(), &400.into()));
        assert_eq!(told["done"]["writes"], told["planned"]["writes"], "{told}");
        let beside = fs::read_dir(place.directory()).unwrap().count();
        assert_eq!(beside, 2, "{safety}: nothing is left beside the file");
    }
}

#[test]
fn a_dry_run_shows_both_ways_and_changes_nothing() {
    let place = Place::new();
    integers(&place);
    let before = place.content();
    let ended = place.run("update numbers --from changes --dry-run").succeeded();
    assert_contains(
        &ended.stdout,
        &[
            "one by one",
            "planned",
            "nothing was changed",
            "100 updates",
            " written; write amplification ",
            ", 1.0 times the 4 KiB blocks that change",
            "update/sync",
        ],
    );
    assert!(place.content() == before);
}

#[test]
fn the_amplification_is_bounded() {
    let place = Place::new();
    integers(&place);
    let dry = "update numbers --from changes --dry-run --max-amplification 1";
    let told = json(&place.run(&format!("{dry} --json")).succeeded());
    assert_eq!(
        (&told["planned"]["writes"], &told["planned"]["amplification"]),
        (&100.into(), &1.0.into())
    );
    let before = place.content();
    // Without the page cache, each block is written as a whole.
    for method in [
        "update/sync,order=rewrite",
        "update/sync,direct",
        "update/io_uring,direct",
    ] {
        let bounded = ["update", "numbers", "--from", "changes", "--max-amplification", "2"];
        let refused = place.run((&bounded, &["--method", method]));
        assert_eq!(refused.code, Some(2), "{method}: {}", refused.stdout);
        assert_contains(&refused.stderr, &["the write amplification of"]);
    }
    // A journal has 12 bytes for each update, twice the changed bytes, and its frame.
    for (most, code) in [("6", Some(2)), ("6.3", Some(0))] {
        let bounded = ["update", "numbers", "--from", "changes", "--max-amplification", most];
        let ended = place.run((&bounded, "--safety journal"));
        assert_eq!(ended.code, code, "{}{}", ended.stdout, ended.stderr);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert_contains(&told, &["write amplification", " 6.2"]);
        assert_eq!(place.content() == before, code == Some(2));
    }
}

#[test]
fn what_is_told_is_what_is_done_whatever_is_asked() {
    for safety in ["in-place", "journal", "replace"] {
        let place = Place::new();
        integers(&place);
        let asked = [&THROUGH[..], &["--safety", safety]].concat();
        let dry = json(&place.run((&asked, "--dry-run")).succeeded());
        let explained = place.run((&asked, "--explain")).succeeded();
        assert_contains(
            &explained.stderr,
            &[
                "seekless update: update/sync,",
                "predicted ",
                "took ",
                "flushing the device: ",
            ],
        );
        let told = json(&explained);
        let plain = json(&place.run(&asked).succeeded());
        for one in [&dry, &told] {
            assert_eq!((&one["method"], &one["why"]), (&plain["method"], &plain["why"]));
            assert_eq!(one["planned"]["amplification"], plain["done"]["amplification"]);
        }
    }
}

#[test]
fn no_hole_between_updates_is_filled_unless_a_method_is_named() {
    use std::os::unix::fs::MetadataExt;
    const UPDATES: u64 = 100;
    let place = Place::new();
    let path = place.file("sparse", b"");
    let mut changes = Vec::new();
    for n in 0..UPDATES {
        writeln!(changes, "{{\"offset\": {}, \"text\": \"updated\"}}", n * 20_000).unwrap();
    }
    place.file("changes", &changes);
    let allocated = |method: &str| {
        fs::write(&path, b"").unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        let arguments = [
            "update",
            "sparse",
            "--from",
            "changes",
            "--durability",
            "through",
            "--method",
            method,
        ];
        place.run(&arguments).succeeded();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.len(), 64 << 20);
        found.blocks() * 512
    };
    if allocated("update/sync") > UPDATES * 3 * 4096 {
        println!("skipped: there are no holes here, or blocks are large");
        return;
    }
    let (planned, filled) = (allocated("auto"), allocated("update/sync,gap=64K"));
    assert!(planned <= UPDATES * 3 * 4096, "{planned} bytes");
    assert!(filled > UPDATES * 19_000, "{filled} bytes: a method does what it says");
}

#[test]
fn updates_come_from_standard_input_and_the_last_wins() {
    let place = Place::new();
    place.file("file", b"0123456789");
    let mut child = place
        .command()
        .args(["update", "file", "--grow"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"{\"offset\": 2, \"text\": \"first\"}\n{\"offset\": 4, \"base64\": \"bGFzdA==\"}\n{\"offset\": 12, \"text\": \"!\"}";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    Ended::of(child).succeeded();
    assert_eq!(fs::read(place.path("file")).unwrap(), b"01filast89\0\0!");
}

#[test]
fn bad_input_is_named_and_changes_nothing() {
    let place = Place::new();
    place.file("file", b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    place.file(
        "bad",
        b"{\"offset\": 0, \"text\": \"x\"}\n{\"offset\": -1, \"text\": \"x\"}\n",
    );
    place.file("far", b"{\"offset\": 9223372036854775800, \"text\": \"1234567890\"}\n");
    place.file("behind", b"{\"offset\": 8, \"text\": \"x\"}\n");
    let table: [(&[&str], &str); 11] = [
        (&["file", "--from", "bad"], "line 2 of the updates"),
        (&["file", "--from", "far"], "line 1 of the updates"),
        (
            &["file", "--from", "behind"],
            "ends at byte 9, past the end of the file at 8",
        ),
        (&["file", "--from", "behind", "--dry-run"], "use --grow"),
        (&["missing", "--from", "good"], "missing"),
        (&[".", "--from", "good"], "not a regular file"),
        (&["/dev/null", "--from", "good"], "not a regular file"),
        (&["file", "--from", "nowhere"], "nowhere"),
        (&["file", "--from", "good", "--memory", "16"], "minimum is 16M"),
        (
            &["file", "--from", "good", "--method", "write/sync"],
            "`seekless methods update` lists",
        ),
        (&["file", "--from", "good", "--max-amplification", "0"], "1 or more"),
    ];
    for (arguments, words) in table {
        let ended = place.run(("update", arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
        assert_eq!(fs::read(place.path("file")).unwrap(), b"precious");
    }
}

#[test]
fn a_file_that_may_not_be_written_is_left_alone() {
    let place = Place::new();
    let path = place.file("file", b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write to any file");
        return;
    }
    for safety in ["in-place", "journal", "replace"] {
        let ended = place.run(&["update", "file", "--from", "good", "--safety", safety]);
        assert_eq!(ended.code, Some(2), "{safety}");
        assert_contains(&ended.stderr, &["open for writing"]);
    }
}

#[test]
fn where_others_have_the_file_open_only_what_changes_is_written_unless_told_otherwise() {
    let place = Place::new();
    let after = integers(&place);
    let reader = fs::File::open(place.path("numbers")).unwrap();
    let told = json(&place.run(&THROUGH).succeeded());
    assert_eq!(told["done"]["written_bytes"], 400, "{told}");
    assert!(fs::read(place.path("numbers")).unwrap() == after);
    let forced = [&THROUGH[..], &["--method", "update/sync,gap=4K"]].concat();
    let refused = place.run(&forced);
    assert_eq!(refused.code, Some(2));
    assert_contains(&refused.stderr, &["--unsafe"]);
    let told = json(&place.run((&forced, "--unsafe")).succeeded());
    assert_eq!(told["done"]["writes"], 1);
    drop(reader);
}

#[test]
fn a_journal_that_is_left_must_be_recovered_and_a_foreign_one_is_refused() {
    let place = Place::new();
    let path = place.file("file", b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    let nothing = place.run("update file --recover").succeeded();
    assert_contains(&nothing.stdout, &["nothing to recover"]);
    let journal = seekless::update::journal_path(&path);
    fs::write(&journal, [b'x'; 100]).unwrap();
    let refused = place.run("update file --from good");
    assert_contains(&refused.stderr, &["--recover"]);
    let refused = place.run("update file --recover");
    assert_eq!(refused.code, Some(2));
    assert_contains(&refused.stderr, &["not a seekless journal"]);
    // A journal that was cut off before the file was touched.
    fs::write(&journal, b"SKLS").unwrap();
    let undone = place.run("update file --recover").succeeded();
    assert_contains(&undone.stdout, &["the file is unchanged"]);
    assert_eq!(fs::read(path).unwrap(), b"precious");
}

#[test]
fn a_full_disk_leaves_the_file_as_before_or_is_told_exactly() {
    let place = Place::new();
    let small = place.path("small");
    let Some(_mount) = Mount::tmpfs(&small, "size=1M") else {
        return;
    };
    let (path, before) = (small.join("file"), vec![7; 300_000]);
    let mut changes = Vec::new();
    for offset in (0..3_000_000).step_by(1000) {
        writeln!(changes, "{{\"offset\": {offset}, \"text\": \"updated\"}}").unwrap();
    }
    place.file("changes", &changes);
    for safety in ["in-place", "journal", "replace"] {
        fs::write(&path, &before).unwrap();
        let arguments = ["--from", "changes", "--safety", safety, "--method", "update/sync"];
        let ended = place.run((&["update", path.to_str().unwrap(), "--grow"], &arguments));
        assert_eq!(ended.code, Some(2), "{safety}");
        assert_contains(&ended.stderr, &["No space left"]);
        if safety == "in-place" {
            assert_contains(&ended.stderr, &["of 3000 writes"]);
        } else {
            assert!(fs::read(&path).unwrap() == before, "{safety}");
            assert_contains(&ended.stderr, &["file is unchanged"]);
        }
        assert_eq!(fs::read_dir(&small).unwrap().count(), 1, "{safety}");
    }
}

#[test]
fn a_file_on_a_read_only_mount_is_left_alone_and_the_reason_told() {
    let place = Place::new();
    let directory = place.path("mounted");
    let Some(_mount) = Mount::tmpfs(&directory, "size=1M") else {
        return;
    };
    let path = directory.join("file");
    fs::write(&path, b"precious").unwrap();
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    let remounted = std::process::Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&directory)
        .status();
    assert!(remounted.unwrap().success());
    for safety in ["in-place", "journal", "replace"] {
        let arguments = ["--from", "good", "--safety", safety];
        let ended = place.run((&["update", path.to_str().unwrap(), "--grow"], &arguments));
        assert_eq!(ended.code, Some(2), "{safety}");
        assert_contains(&ended.stderr, &["Read-only file system"]);
        assert_eq!(fs::read(&path).unwrap(), b"precious", "{safety}");
    }
    let ended = place.run(&["update", path.to_str().unwrap(), "--recover"]);
    assert_contains(&ended.stderr, &["Read-only file system"]);
}

#[test]
fn blocks_that_cannot_be_allocated_are_no_partial_update() {
    let place = Place::new();
    let directory = place.path("mounted");
    fs::create_dir(&directory).unwrap();
    // It has no fallocate.
    let Some(_mount) = Mount::ramfs(&directory) else {
        return;
    };
    let path = directory.join("file");
    fs::write(&path, b"precious").unwrap();
    place.file("good", b"{\"offset\": 100, \"text\": \"x\"}\n");
    let arguments = ["--from", "good", "--method", "update/sync,preallocate=allocate"];
    let sentence = place
        .run((&["update", path.to_str().unwrap(), "--grow"], &arguments))
        .refused();
    assert_contains(&sentence, &["has no fallocate"]);
    assert_lacks(&sentence, &["of 1 writes"]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_directory_that_takes_no_file_is_no_reason_not_to_write_in_place() {
    let place = Place::new();
    let directory = place.path("full");
    let Some(_mount) = Mount::tmpfs(&directory, "size=64K") else {
        return;
    };
    let path = directory.join("file");
    fs::write(&path, vec![7; 64 << 10]).unwrap();
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    let ended = place
        .run(&["update", path.to_str().unwrap(), "--from", "good", "--explain"])
        .succeeded();
    assert_contains(&ended.stderr, &["these costs are assumed"]);
    assert_eq!(fs::read(&path).unwrap()[..2], [b'x', 7]);
}

#[test]
fn a_plan_is_made_of_measured_costs_by_whichever_name_it_is_asked_for() {
    let place = Place::new();
    place.file("file", &vec![1; 4_000_000]);
    // At distances at which the cost of a write decides whether they share one.
    let updates: String = (0..40).fold(String::new(), |lines, n| {
        format!("{lines}{{\"offset\": {}, \"hex\": \"2a\"}}\n", n * 100_000)
    });
    place.file("updates", updates.as_bytes());
    let why = |method: &str| {
        let arguments = [
            "update",
            "file",
            "--from",
            "updates",
            "--json",
            "--durability",
            "through",
        ];
        let ended = place.run((&arguments, &["--method", method])).succeeded();
        json(&ended)["why"].as_str().unwrap().to_owned()
    };
    for method in ["auto", "update/planned"] {
        let why = why(method);
        // Assumed costs are 2 microseconds and a flush of a millisecond.
        assert!(
            why.starts_with("a write costs ") && !why.contains(" 1002.0 "),
            "{method}: {why}"
        );
    }
}
