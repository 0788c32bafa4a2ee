//! A user's file is read and never written; paths are bytes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::place::{Place, assert_contains, wait_for};

const READ: [&str; 8] = [
    "bench",
    "--tables",
    "--notes",
    "--rounds",
    "1",
    "--methods",
    "*/sync*",
    "--file",
];

fn arguments<'a>(first: &'a [&'a str], last: &'a OsStr) -> Vec<&'a OsStr> {
    first.iter().map(OsStr::new).chain([last]).collect()
}

#[test]
fn a_given_file_is_read_and_nothing_is_written() {
    let place = Place::new();
    let path = place.file("big", &vec![7; 3 << 20]);
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let before = place.content();
    let ended = place.run(&arguments(&READ, "big".as_ref())).succeeded();
    assert!(before == place.content(), "something was touched");
    assert!(!ended.stderr.contains("Writes at most"), "{}", ended.stderr);
    let run = place.saved().remove(0);
    assert!(!run.trials.is_empty() && run.trials.iter().all(|trial| trial.bytes == 3 << 20));
}

#[test]
fn a_small_given_file_is_read_as_a_whole_within_a_budget() {
    for (bytes, experiment) in [(1, "read"), (500_000, "read"), (500_000, "holes-2003")] {
        let place = Place::new();
        place.file("small", &vec![7; bytes]);
        let before = place.content();
        let words = ["bench", experiment, "--tables", "--budget", "1s", "--file", "small"];
        let ended = place.run(&words).succeeded();
        assert!(before == place.content(), "something was touched");
        let run = place.only_run();
        let is_whole = run.trials.iter().all(|trial| trial.bytes == bytes as u64);
        assert!(
            !run.trials.is_empty() && is_whole,
            "{bytes} {experiment}: {}",
            ended.stdout
        );
    }
}

/// Reads files of the directory by two methods, once.
const READ_ONCE: &str = "bench --tables --notes --rounds 3 --methods read/sync,block=1[26]*K --first-touch .";

#[test]
fn files_of_a_directory_are_read_once_and_nothing_is_written() {
    let place = Place::new();
    for index in 0..20_u8 {
        place.file(index.to_string(), &vec![index; (1 << 20) + usize::from(index) * 5000]);
    }
    symlink("0", place.path("link")).unwrap();
    let before = place.content();
    place.run("cache drop .").succeeded();
    let ended = place.run(READ_ONCE).succeeded();
    assert!(!ended.stderr.contains("Writes at most"), "{}", ended.stderr);
    assert_contains(&ended.stdout, &["first touch"]);
    let run = place.saved().remove(0);
    assert_eq!(run.contests.len(), 1);
    // Each file has a size of its own.
    let mut bytes: Vec<u64> = run.trials.iter().map(|trial| trial.bytes).collect();
    bytes.sort_unstable();
    bytes.dedup();
    assert!(run.trials.len() >= 6 && bytes.len() == run.trials.len(), "{bytes:?}");
    let of_contest = run.contests[0].size_bytes * u64::from(run.contests[0].files);
    assert!(run.trials.iter().all(|trial| trial.compared_bytes == Some(of_contest)));
    assert!(
        run.trials
            .iter()
            .all(|trial| trial.resident_before == Some(0.0) && trial.valid)
    );
    let seconds = run.trials[0].seconds * of_contest as f64 / run.trials[0].bytes as f64;
    assert!((run.trials[0].compared_seconds() / seconds - 1.0).abs() < 1e-9);
    assert!(before == place.content(), "something was touched");
    let resumed = place.run("bench --tables --notes --resume latest").refused();
    assert_contains(&resumed, &["each file only once"]);
    // Now they are in memory, as this test has read the directory.
    let refused = place.run(READ_ONCE).refused();
    assert_contains(&refused, &["20 in memory", "hint:"]);
}

#[test]
fn a_file_of_any_length_is_read() {
    let place = Place::new();
    for bytes in [1, 4097, (1 << 20) + 1] {
        place.file("file", &vec![7; bytes]);
        place.run("bench --tables --notes --rounds 1 --file file").succeeded();
    }
    for run in place.saved() {
        let wrong: Vec<_> = run.trials.iter().filter_map(|trial| trial.invalid.as_ref()).collect();
        assert!(wrong.iter().all(|why| !why.contains("wrong result")), "{wrong:?}");
    }
}

#[test]
fn a_link_to_a_file_is_followed() {
    let place = Place::new();
    place.file("big", &vec![7; 1 << 20]);
    symlink("big", place.path("link")).unwrap();
    place.run(&arguments(&READ, "link".as_ref())).succeeded();
}

#[test]
fn names_that_are_not_utf_8_work() {
    let place = Place::new();
    let odd = |name: &str| OsString::from_vec([name.as_bytes(), b"-\xff\n "].concat());
    place.file(odd("file"), &vec![7; 1 << 20]);
    fs::create_dir(place.path(odd("directory"))).unwrap();
    place.run(&arguments(&READ, &odd("file"))).succeeded();
    place.bench(&arguments(&["--dir"], &odd("directory"))).succeeded();
    place.bench(&arguments(&["--export-json"], &odd("run"))).succeeded();
    assert!(seekless_record::from_json(&fs::read(place.path(odd("run"))).unwrap()).is_ok());
    place
        .run(&arguments(&["methods", "read/sync", "--dir"], &odd("directory")))
        .succeeded();
    let missing = odd("missing");
    let sentence = place.run(&arguments(&READ, &missing)).refused();
    assert!(
        sentence.contains("missing-") && sentence.as_bytes() != missing.as_bytes(),
        "{sentence}"
    );
    assert_eq!(fs::read_dir(place.path(odd("directory"))).unwrap().count(), 0);
}

#[test]
fn parts_of_a_large_file_are_read_and_a_sparse_file_is_said_to_be_sparse() {
    let place = Place::new();
    let file = fs::File::create(place.path("large")).unwrap();
    file.set_len(200 << 30).unwrap();
    let before = names(&place);
    let line = "bench --tables --notes read --file large --methods read/sync,block=1M --budget 2s";
    let started = std::time::Instant::now();
    let ended = place.run(line).succeeded();
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    assert_contains(
        &ended.stdout,
        &[
            " of 200 GiB",
            "each round reads another",
            "large is sparse: 0 B of its 200 GiB",
        ],
    );
    assert_eq!(names(&place), before, "nothing is written");
    let run = place.only_run();
    assert!(
        run.contests
            .iter()
            .all(|contest| contest.part_of_bytes == Some(200 << 30))
    );
    assert!(
        run.trials
            .iter()
            .all(|trial| trial.valid && trial.bytes == run.contests[0].size_bytes)
    );
}

#[test]
fn an_interrupt_ends_the_warming_of_a_large_file_at_once() {
    let place = Place::new();
    fs::File::create(place.path("large")).unwrap().set_len(2 << 40).unwrap();
    let mut child = place.start("bench read --file large --methods read/sync,block=1M --cache warm --rounds 1");
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it reads 2 TiB");
    let started = std::time::Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // A second, and as much for a busy machine.
    assert!(started.elapsed().as_secs_f64() < 2.0, "{:?}", started.elapsed());
}

#[test]
fn a_file_that_changes_during_the_run_ends_it_with_an_error_that_names_it() {
    type Change = fn(&std::path::Path);
    let shrunk: Change = |path| {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(5000)
            .unwrap();
    };
    let removed: Change = |path| fs::remove_file(path).unwrap();
    let fifo: Change = |path| {
        // By a rename: at no moment is there no file of this name.
        let (beside, mode) = (path.with_extension("fifo"), rustix::fs::Mode::from_raw_mode(0o644));
        rustix::fs::mknodat(rustix::fs::CWD, &beside, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::rename(beside, path).unwrap();
    };
    for (change, told) in [
        (shrunk, "it shrank from 3145728 B to 5000 B during the run"),
        (removed, "it was removed during the run"),
        (fifo, "it was replaced by a FIFO during the run"),
    ] {
        let place = Place::new();
        let path = place.file("big", &vec![7; 3 << 20]);
        let child =
            place.start("bench read --file big --cache warm --methods read/{sync,mmap}* --rounds 900 --checkpoint 1s");
        wait_for("something is measured", || !place.saved().is_empty());
        change(&path);
        let ended = crate::common::place::Ended::of(child);
        ended.failed_with(2, &[&format!("big: {told}")]);
        assert_contains(&ended.stderr, &["hint: try again when nothing changes the file"]);
        // What was measured before is kept.
        assert!(place.only_run().trials.iter().any(|trial| trial.valid));
    }
}

/// The names in the place's directory.
fn names(place: &Place) -> Vec<OsString> {
    let entries = fs::read_dir(place.directory()).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}
