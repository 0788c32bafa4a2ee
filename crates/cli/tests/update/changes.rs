//! `seekless update`: many small changes of a file in few writes.

use std::fs;
use std::io::Write;

use serde_json::json;

use crate::common::disks::attribute;
use crate::common::place::{Mount, Place, assert_contains, assert_fields, assert_lacks};

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
const THROUGH: &str = "update numbers --from changes --json --durability through";

/// One update of the first byte, in the file `good`.
pub fn good(place: &Place) {
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
}

#[test]
fn update_names_a_program_that_loses_its_capabilities() {
    let Some(place) = Place::of_root() else { return };
    good(&place);
    let program = place.file("program", b"bytes");
    // CAP_NET_RAW, permitted and effective: `struct vfs_cap_data` of linux/capability.h.
    let value = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    if !attribute(&program, "security.capability", &value) {
        return;
    }
    let kept = place.succeeds("update program --from good --safety replace");
    assert_lacks(&kept.stderr, &["lost"]);
    place
        .succeeds("update program --from good")
        .warns("program: lost its capabilities");
    let again = place.succeeds("update program --from good");
    assert_lacks(&again.stderr, &["lost"]);
}

#[test]
fn update_dry_run_shows_both_ways_and_changes_nothing() {
    let place = Place::new();
    integers(&place);
    let before = place.content();
    let shown = place.succeeds("update numbers --from changes --dry-run").stdout;
    assert_contains(
        &shown,
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
fn update_max_amplification_bounds_what_is_written() {
    let place = Place::new();
    integers(&place);
    let bounded = |most: &str, more: &str| {
        place.run(&format!(
            "update numbers --from changes --max-amplification {most} {more}"
        ))
    };
    let told = bounded("1", "--dry-run --json").succeeded().json();
    assert_fields(&told["planned"], &json!({"writes": 100, "amplification": 1.0}));
    let before = place.content();
    // Without the page cache, each block is written as a whole.
    for method in [
        "update/sync,order=rewrite",
        "update/sync,direct",
        "update/io_uring,direct",
    ] {
        bounded("2", &format!("--method {method}")).failed_with(2, &["the write amplification of"]);
    }
    // A journal has 12 bytes for each update, twice the changed bytes, and its header and end.
    for (most, code) in [("6.3", 2), ("6.5", 0)] {
        let ended = bounded(most, "--safety journal").ended_with(code);
        let told = ended.stdout + &ended.stderr;
        assert_contains(&told, &["write amplification", " 6.4"]);
        assert_eq!(place.content() == before, code == 2);
    }
}

#[test]
fn update_changes_every_100th_integer_in_few_writes() {
    for safety in ["in-place", "journal", "replace"] {
        let place = Place::new();
        let after = integers(&place);
        let asked = format!("{THROUGH} --safety {safety}");
        let dry = place.succeeds((&asked, "--dry-run")).json();
        let explained = place.succeeds((&asked, "--explain"));
        let times = ["predicted ", "took ", "flushing the device: "];
        assert_contains(&explained.stderr, &["seekless update: update/sync,"]);
        assert_contains(&explained.stderr, &times);
        let told = explained.json();
        assert!(place.read("numbers") == after, "{safety}: {told}");
        assert_fields(&told, &json!({"updates": 100, "requested_bytes": 400}));
        assert_eq!(told["done"]["writes"], told["planned"]["writes"], "{told}");
        let plain = place.succeeds(&asked).json();
        for one in [&dry, &told] {
            assert_fields(one, &json!({"method": plain["method"], "why": plain["why"]}));
            assert_eq!(one["planned"]["amplification"], plain["done"]["amplification"]);
        }
        let beside = fs::read_dir(place.directory()).unwrap().count();
        assert_eq!(beside, 2, "{safety}: nothing is left beside the file");
    }
}

#[test]
fn update_fills_no_hole_unless_a_method_is_named() {
    use std::os::unix::fs::MetadataExt;
    const UPDATES: u64 = 100;
    let place = Place::new();
    let path = place.path("sparse");
    let mut changes = Vec::new();
    for n in 0..UPDATES {
        writeln!(changes, "{{\"offset\": {}, \"text\": \"updated\"}}", n * 20_000).unwrap();
    }
    place.file("changes", &changes);
    let allocated = |method: &str| {
        place.sparse("sparse", 64 << 20);
        place.succeeds(&format!(
            "update sparse --from changes --durability through --method {method}"
        ));
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
fn update_reads_standard_input_and_the_last_wins() {
    let place = Place::new();
    place.file("file", b"0123456789");
    let lines = b"{\"offset\": 2, \"text\": \"first\"}\n{\"offset\": 4, \"base64\": \"bGFzdA==\"}\n{\"offset\": 12, \"text\": \"!\"}";
    place.run_fed("update file --grow", lines).succeeded();
    assert_eq!(place.read("file"), b"01filast89\0\0!");
}

#[test]
fn update_names_bad_input_and_changes_nothing() {
    let place = Place::new();
    place.file("file", b"precious");
    good(&place);
    place.file(
        "bad",
        b"{\"offset\": 0, \"text\": \"x\"}\n{\"offset\": -1, \"text\": \"x\"}\n",
    );
    place.file("far", b"{\"offset\": 9223372036854775800, \"text\": \"1234567890\"}\n");
    place.file("behind", b"{\"offset\": 8, \"text\": \"x\"}\n");
    for (words, told) in [
        ("file --from bad", "line 2 of the updates"),
        ("file --from far", "line 1 of the updates"),
        ("file --from behind", "ends at byte 9, past the end of the file at 8"),
        ("file --from behind --dry-run", "use --grow"),
        ("missing --from good", "missing"),
        (". --from good", "not a regular file"),
        ("/dev/null --from good", "not a regular file"),
        ("file --from nowhere", "nowhere"),
        ("file --from good --memory 16", "minimum is 16M"),
        (
            "file --from good --method write/sync",
            "`seekless methods update` lists",
        ),
        ("file --from good --max-amplification 0", "1 or more"),
    ] {
        place.refuses(&format!("update {words}"), &[told]);
        assert_eq!(place.read("file"), b"precious");
    }
}

#[test]
fn update_of_an_open_file_writes_only_what_changes() {
    let place = Place::new();
    let after = integers(&place);
    let reader = fs::File::open(place.path("numbers")).unwrap();
    let told = place.succeeds(THROUGH).json();
    assert_eq!(told["done"]["written_bytes"], 400, "{told}");
    assert!(place.read("numbers") == after);
    let forced = (THROUGH, "--method update/sync,gap=4K");
    place.fails(2, forced).warns("--unsafe");
    let told = place.succeeds((forced, "--unsafe")).json();
    assert_eq!(told["done"]["writes"], 1);
    drop(reader);
}

#[test]
fn update_needs_recover_with_a_journal_and_refuses_foreign_ones() {
    let place = Place::new();
    let path = place.file("file", b"precious");
    good(&place);
    place.succeeds("update file --recover").says("nothing to recover");
    let journal = seekless_engine::update::journal_path(&path);
    fs::write(&journal, [b'x'; 100]).unwrap();
    place.run("update file --from good").warns("--recover");
    place.fails(2, "update file --recover").warns("not a seekless journal");
    // A journal that was cut off before the file was touched.
    fs::write(&journal, b"SKLS").unwrap();
    place.succeeds("update file --recover").says("the file is unchanged");
    assert_eq!(fs::read(path).unwrap(), b"precious");
}

#[test]
fn update_on_a_read_only_mount_is_refused() {
    let place = Place::new();
    let Some(mount) = Mount::tmpfs(&place.path("mounted"), "size=1M") else {
        return;
    };
    let path = place.file("mounted/file", b"precious");
    good(&place);
    mount.read_only();
    for safety in ["in-place", "journal", "replace"] {
        let ended = place.fails(2, ("update mounted/file --grow --from good --safety", safety));
        ended.warns("Read-only file system");
        assert_eq!(fs::read(&path).unwrap(), b"precious", "{safety}");
    }
    place
        .run("update mounted/file --recover")
        .warns("Read-only file system");
}

#[test]
fn update_in_place_needs_no_room_in_the_directory() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("full"), "size=64K") else {
        return;
    };
    let path = place.file("full/file", &vec![7; 64 << 10]);
    good(&place);
    let ended = place.succeeds("update full/file --from good --explain");
    ended.warns("these costs are assumed");
    assert_eq!(fs::read(&path).unwrap()[..2], [b'x', 7]);
}
