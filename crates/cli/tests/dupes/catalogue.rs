//! `seekless dupes catalogue`, and searching against catalogues.

use std::fs;
use std::time::Duration;

use crate::common::place::{Ended, Place, assert_contains, wait_for};

/// Writes `c.parquet`.
const CATALOGUE: &str = "dupes catalogue files --output c.parquet --digest all --quiet";

/// Files of 1 MiB in `files`, some of them equal.
fn filled(place: &Place, files: usize) {
    for number in 0..files {
        let bytes = vec![(number % 7) as u8; 1 << 20];
        place.file(format!("files/{number}"), &bytes);
    }
}

#[test]
fn catalogue_of_a_killed_run_is_the_older_one() {
    let place = Place::new();
    filled(&place, 60);
    place.succeeds(CATALOGUE);
    filled(&place, 70);
    for milliseconds in [5, 10, 20, 40, 60, 80, 120, 160] {
        let mut running = place.start(CATALOGUE);
        std::thread::sleep(Duration::from_millis(milliseconds));
        running.kill().unwrap();
        running.wait().unwrap();
        place.succeeds("dupes --against c.parquet files");
    }
    place.succeeds(CATALOGUE).says("70 files");
    let entries = fs::read_dir(place.directory()).unwrap();
    let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["c.parquet", "files"]);
}

#[test]
fn catalogue_is_written_by_one_run_at_a_time() {
    let place = Place::new();
    filled(&place, 400);
    let first = place.start(CATALOGUE);
    wait_for("its journal", || place.path("c.parquet.part").exists());
    let second = place.run(CATALOGUE);
    Ended::of(first).succeeded();
    // It may have waited for a slow machine until the first was done.
    assert!(
        second.code == Some(0) || second.stderr.contains("cannot write the catalogue"),
        "{}",
        second.stderr
    );
}

#[test]
fn catalogue_matches_are_told_and_never_acted_on() {
    let place = Place::new();
    filled(&place, 8);
    place.succeeds("dupes catalogue files --output c.parquet --host drive");
    place.file("here/other", b"other");
    fs::copy(place.path("files/0"), place.path("here/copy")).unwrap();
    let found = place.succeeds("dupes --against c.parquet here").stdout;
    let first = "here/copy\n  same digest, 1.00 MiB: drive:/";
    assert!(found.starts_with(first), "{found}");
    assert_contains(&found, &["1 of 2 files have the same digest there, 1.00 MiB."]);
    let json = place.succeeds("dupes --against c.parquet --json here").json();
    assert_eq!(json["summary"]["same"], 1);
    assert_eq!(json["matches"][0]["same"].as_array().unwrap().len(), 2, "files 0 and 7");
    for action in ["remove", "hardlink", "trash"] {
        let words = format!("dupes --against c.parquet --action {action} --yes here");
        place.refuses(&words, &["a catalogue has digests and no files"]);
    }
    assert!(place.path("here/copy").exists());
    let mixed = "dupes --against c.parquet --against files here";
    place.refuses(mixed, &["not a catalogue"]);
    // Files 0 and 7 are equal; of the others, the catalogue has only themselves.
    let own = place.succeeds("dupes --against c.parquet files").stdout;
    assert_eq!(own.matches("perhaps this file itself").count(), 8, "{own}");
    assert!(own.contains("2 of 8 files have the same digest there"), "{own}");
}

#[test]
fn catalogue_paths_have_no_links_and_dots() {
    let place = Place::new();
    filled(&place, 2);
    std::os::unix::fs::symlink("files", place.path("link")).unwrap();
    let real = place.path("files/0").canonicalize().unwrap();
    for given in ["link", "files/../files", "link/0"] {
        let _ = fs::remove_file(place.path("c.parquet"));
        place.succeeds(&format!("dupes catalogue {given} --output c.parquet"));
        let found = place.succeeds("dupes --against c.parquet files/0").stdout;
        assert!(found.contains(&format!(":{}\n", real.display())), "{given}: {found}");
    }
}

#[test]
fn catalogue_of_another_version_or_columns_is_refused() {
    let place = Place::new();
    filled(&place, 2);
    place.succeeds("dupes catalogue files --output c.parquet");
    let good = place.read("c.parquet");
    let changed = |from: &[u8], at: usize, to: u8| {
        let mut bytes = good.clone();
        for start in 0..good.len() - from.len() {
            if good[start..].starts_with(from) {
                bytes[start + at] = to;
            }
        }
        bytes
    };
    let mark = b"seekless.catalogue\x18\x011";
    for (bytes, why) in [
        (
            changed(mark, mark.len() - 1, b'2'),
            "version 2 of catalogues is not known",
        ),
        (
            changed(b"size", 3, b'f'),
            "its column `size` is not that of a catalogue",
        ),
    ] {
        fs::write(place.path("other.parquet"), bytes).unwrap();
        place.refuses("dupes --against other.parquet files", &[why]);
    }
}
