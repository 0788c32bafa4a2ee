//! `seekless dupes catalogue`, and searching against catalogues.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use super::place::{Place, wait_for};

/// Writes `c.parquet`.
const CATALOGUE: [&str; 8] = [
    "dupes",
    "catalogue",
    "files",
    "--output",
    "c.parquet",
    "--digest",
    "all",
    "--quiet",
];

/// Files of 1 MiB in `files`, some of them equal.
fn filled(place: &Place, files: usize) {
    for number in 0..files {
        let bytes = vec![(number % 7) as u8; 1 << 20];
        fs::create_dir_all(place.path("files")).unwrap();
        fs::write(place.path(format!("files/{number}")), bytes).unwrap();
    }
}

#[test]
fn a_run_that_is_killed_leaves_the_older_catalogue_and_the_next_one_is_complete() {
    let place = Place::new();
    filled(&place, 60);
    place.run(&CATALOGUE).succeeded();
    filled(&place, 70);
    for milliseconds in [5, 10, 20, 40, 60, 80, 120, 160] {
        let mut command = place.command();
        let mut running = command.args(CATALOGUE).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        running.kill().unwrap();
        running.wait().unwrap();
        place.run(&["dupes", "--against", "c.parquet", "files"]).succeeded();
    }
    let told = place.run(&CATALOGUE).succeeded().stdout;
    assert!(told.contains("70 files"), "{told}");
    let mut left: Vec<_> = fs::read_dir(place.directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["c.parquet", "files"]);
}

#[test]
fn one_run_at_a_time_writes_a_catalogue() {
    let place = Place::new();
    filled(&place, 400);
    let first = place.command().args(CATALOGUE).stdout(Stdio::null()).spawn().unwrap();
    wait_for("its journal", || place.path("c.parquet.part").exists());
    let second = place.run(&CATALOGUE);
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success());
    // It may have waited for a slow machine until the first was done.
    assert!(
        second.code == Some(0) || second.stderr.contains("cannot write the catalogue"),
        "{}",
        second.stderr
    );
}

#[test]
fn what_a_catalogue_has_is_told_and_never_acted_on() {
    let place = Place::new();
    filled(&place, 8);
    place
        .run(&[
            "dupes",
            "catalogue",
            "files",
            "--output",
            "c.parquet",
            "--host",
            "drive",
        ])
        .succeeded();
    fs::create_dir(place.path("here")).unwrap();
    fs::copy(place.path("files/0"), place.path("here/copy")).unwrap();
    fs::write(place.path("here/other"), "other").unwrap();
    let found = place
        .run(&["dupes", "--against", "c.parquet", "here"])
        .succeeded()
        .stdout;
    assert!(
        found.starts_with("here/copy\n  same digest, 1.00 MiB: drive:/"),
        "{found}"
    );
    assert!(
        found.contains("1 file of 2 with the same digest there, 1.00 MiB."),
        "{found}"
    );
    let json = place
        .run(&["dupes", "--against", "c.parquet", "--json", "here"])
        .succeeded()
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"]["same"], 1);
    assert_eq!(json["matches"][0]["same"].as_array().unwrap().len(), 2, "files 0 and 7");
    for action in ["remove", "hardlink", "trash"] {
        let refused = place
            .run(&["dupes", "--against", "c.parquet", "--action", action, "--yes", "here"])
            .refused();
        assert!(refused.contains("a catalogue has digests and no files"), "{refused}");
    }
    assert!(place.path("here/copy").exists());
    let mixed = place
        .run(&["dupes", "--against", "c.parquet", "--against", "files", "here"])
        .refused();
    assert!(mixed.contains("not a catalogue"), "{mixed}");
}
