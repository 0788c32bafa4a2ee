//! A user's file is read and never written; paths are bytes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;

use seekless_record::Trial;

use crate::common::disks::disk;
use crate::common::place::{Ended, Place, assert_contains, assert_lacks, prepared, resize, set_mode, wait_for};

const READ: &str = "bench --tables --notes --rounds 1 --methods */sync* --file";

#[test]
fn bench_file_reads_a_given_file_and_writes_nothing() {
    let place = Place::new();
    let path = place.file("big", &vec![7; 3 << 20]);
    set_mode(&path, 0o444);
    symlink("big", place.path("link")).unwrap();
    let before = place.content();
    for name in ["big", "link"] {
        let ended = place.succeeds((READ, name));
        assert!(before == place.content(), "something was touched");
        assert_lacks(&ended.stderr, &["Writes at most"]);
    }
    for run in place.saved() {
        assert!(!run.trials.is_empty() && run.trials.iter().all(|trial| trial.bytes == 3 << 20));
    }
}

#[test]
fn bench_file_reads_small_files_of_any_length_whole() {
    for (bytes, words) in [
        (1, "read --budget 1s"),
        (500_000, "read --budget 1s"),
        (500_000, "holes-2003 --budget 1s"),
        (1, "--rounds 1"),
        (4097, "--rounds 1"),
        ((1 << 20) + 1, "--rounds 1"),
    ] {
        let place = Place::new();
        place.file("small", &vec![7; bytes]);
        let before = place.content();
        let ended = place.succeeds(("bench --tables --notes --file small", words));
        assert!(before == place.content(), "something was touched");
        let run = place.only_run();
        let is_whole = run.trials.iter().all(|trial| trial.bytes == bytes as u64);
        assert!(!run.trials.is_empty() && is_whole, "{bytes} {words}: {ended:?}");
        let mut wrong = run.trials.iter().filter_map(|trial| trial.invalid.as_ref());
        assert!(wrong.all(|why| !why.contains("wrong result")), "{bytes} {words}");
    }
}

/// Reads of a file that is not on the device as it is read say nothing about the device.
#[test]
fn bench_file_with_holes_or_compression_stays_out_of_sittings() {
    let place = Place::new();
    fs::File::create(place.path("holes")).unwrap().set_len(8 << 20).unwrap();
    assert!(prepared(
        "fallocate",
        &[OsStr::new("-l"), OsStr::new("8M"), place.path("reserved").as_os_str()]
    ));
    let mut files = vec![
        ("holes", "holes: of its 8.00 MiB, 8.00 MiB are holes."),
        (
            "reserved",
            "reserved: of its 8.00 MiB, 8.00 MiB are reserved, never written.",
        ),
    ];
    let disk = disk(&place, "btrfs");
    if disk.is_some() {
        assert!(prepared("chattr", &[OsStr::new("+c"), place.path("disk").as_os_str()]));
        place.file("disk/text", &b"compressible ".repeat(1 << 20));
        files.push(("disk/text", "are compressed or stored with the metadata"));
    }
    for (file, note) in files {
        for _ in 0..2 {
            let ended = place.succeeds((READ, file));
            let of_itself = "this run speaks for this file only";
            assert_contains(&ended.stdout.replace('\n', " "), &[note, of_itself]);
            assert_lacks(&ended.stdout, &["was not cold", "sittings"]);
            assert_lacks(&ended.stderr, &["will be combined"]);
        }
        let said = place.run(&["profile", file]).refused();
        assert!(said.contains("nothing was measured"), "{file}: {said}");
    }
    assert!(place.saved().iter().all(|run| run.alone));
    place.file("dense", &vec![7; 8 << 20]);
    place.succeeds((READ, "dense"));
    assert_eq!(place.saved().iter().filter(|run| !run.alone).count(), 1);
    assert!(place.succeeds("profile --json .").json()["sittings"] == 1);
}

#[test]
fn bench_takes_names_that_are_not_utf_8() {
    let place = Place::new();
    let odd = |name: &str| OsString::from_vec([name.as_bytes(), b"-\xff\n "].concat());
    place.file(odd("file"), &vec![7; 1 << 20]);
    fs::create_dir(place.path(odd("directory"))).unwrap();
    place.succeeds((READ, &[odd("file")]));
    place.bench(("--dir", &[odd("directory")])).succeeded();
    place.bench(("--export-json", &[odd("run")])).succeeded();
    let experiment =
        "name = \"x\"\nabout = \"\"\n[[contest]]\noperation = \"read\"\nmethods = [\"read/sync\"]\nsizes = [\"1M\"]\n";
    let experiment_name = OsString::from_vec(b"caf\xe9.toml".to_vec());
    place.file(&experiment_name, experiment.as_bytes());
    place.succeeds(("bench --rounds 1", &[experiment_name]));
    assert!(seekless_record::from_json(&fs::read(place.path(odd("run"))).unwrap()).is_ok());
    place.succeeds(("methods read/sync --dir", &[odd("directory")]));
    let missing = odd("missing");
    let sentence = place.run((READ, &[&missing])).refused();
    assert!(
        sentence.contains("missing-") && sentence.as_bytes() != missing.as_bytes(),
        "{sentence}"
    );
    assert_eq!(fs::read_dir(place.path(odd("directory"))).unwrap().count(), 0);
}

#[test]
fn bench_file_reads_parts_of_a_large_sparse_file() {
    let place = Place::new();
    place.sparse("large", 200 << 30);
    let before = names(&place);
    let line = "bench --tables --notes read --file large --methods read/sync,block=1M --budget 2s";
    let started = std::time::Instant::now();
    let ended = place.succeeds(line);
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    assert_contains(
        &ended.stdout,
        &[
            " of 200 GiB",
            "each round reads another",
            "large: of its 200 GiB, 200 GiB are holes.",
        ],
    );
    assert_eq!(names(&place), before, "nothing is written");
    let run = place.only_run();
    let mut parts = run.contests.iter().map(|contest| contest.part_of_bytes);
    assert!(parts.all(|part| part == Some(200 << 30)));
    let is_one = |trial: &Trial| trial.valid && trial.bytes == run.contests[0].size_bytes;
    assert!(run.trials.iter().all(is_one));
}

#[test]
fn bench_file_that_changes_during_the_run_is_named() {
    type Change = fn(&std::path::Path);
    let shrunk: Change = |path| resize(path, 5000);
    let removed: Change = |path| fs::remove_file(path).unwrap();
    let fifo: Change = |path| {
        // By a rename: at no moment is there no file of this name.
        let (beside, mode) = (path.with_extension("fifo"), rustix::fs::Mode::from_raw_mode(0o644));
        rustix::fs::mknodat(rustix::fs::CWD, &beside, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::rename(beside, path).unwrap();
    };
    for (change, told) in [
        (shrunk, "big: it shrank from 3145728 B to 5000 B during the run"),
        (removed, "big: it was removed during the run"),
        (fifo, "big: it was replaced by a FIFO during the run"),
    ] {
        let place = Place::new();
        let path = place.file("big", &vec![7; 3 << 20]);
        let child =
            place.start("bench read --file big --cache warm --methods read/{sync,mmap}* --rounds 900 --checkpoint 1s");
        wait_for("something is measured", || !place.saved().is_empty());
        change(&path);
        let ended = Ended::of(child);
        ended.failed_with(2, &[told, "hint: try again when nothing changes the file"]);
        // What was measured before is kept.
        assert!(place.only_run().trials.iter().any(|trial| trial.valid));
    }
}

/// The names in the place's directory.
fn names(place: &Place) -> Vec<OsString> {
    let entries = fs::read_dir(place.directory()).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}
