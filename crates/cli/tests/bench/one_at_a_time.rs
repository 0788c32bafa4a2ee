//! Benches that take turns, are named, and are repeated.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::Duration;

use crate::common::place::{Ended, Place, SMALL_BENCH, assert_contains, wait_for, words};

/// A bench that measures until it is killed.
struct Endless(Child);

impl Endless {
    fn start(place: &Place) -> Self {
        let mut command = place.command();
        let words = ["bench", "read", "--size", "1M", "--rounds", "10000", "--quiet"];
        let child = command.args(words).spawn().unwrap();
        let lock = place.directory().join("../data/seekless/measuring.lock");
        let pid = format!("{}\n", child.id());
        wait_for("it measures", || {
            fs::read_to_string(&lock).is_ok_and(|text| text == pid)
        });
        Self(child)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bench that has said that it waits for another.
fn waiting(place: &Place, pid: u32) -> Child {
    let mut command = place.command();
    let mut child = command
        .args(words(SMALL_BENCH))
        .args(["read/mmap", "--quiet"])
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let expected = format!("Another bench is measuring (process {pid}): waiting until it ends.\n");
    assert_eq!(line, expected);
    // It must be able to continue writing.
    std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    child
}

#[test]
fn bench_waits_for_another_bench_and_for_a_killed_one() {
    let place = Place::new();
    let first = Endless::start(&place);
    place
        .bench("--no-wait")
        .refused_with(&[&format!("another bench is measuring (process {})", first.0.id())]);
    let stopped = waiting(&place, first.0.id());
    Ended::interrupted(stopped);
    let second = waiting(&place, first.0.id());
    drop(first);
    assert_eq!(Ended::of(second).code, Some(0));
    place.bench("--no-wait").succeeded();
}

/// What is said before, such as what earlier runs conclude, is lost; the run is not.
#[test]
fn bench_goes_on_with_a_full_standard_error() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("skipped: there is no /dev/full");
        return;
    }
    let place = Place::new();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let bench = || {
        let mut command = place.command();
        command.args(words(SMALL_BENCH)).args(["read/sync,block=128K"]);
        command.env("SEEKLESS_LOG", "debug").stderr(full()).spawn().unwrap()
    };
    let first = Endless::start(&place);
    let mut second = bench();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(second.try_wait().unwrap(), None, "it waits");
    drop(first);
    Ended::of(second).succeeded();
    assert_eq!(place.saved().len(), 1);
    let third = Ended::of(bench()).succeeded();
    assert_contains(&third.stdout, &["sync block=128K"]);
    let runs = place.saved();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| !run.trials.is_empty()));
    let mut export = place.command();
    let exported = Ended::by(export.args(["runs", "export", "latest"]).stderr(full()));
    assert!(exported.succeeded().stdout.starts_with('{'));
}

#[test]
fn bench_like_measures_a_named_run_again() {
    let place = Place::new();
    place.directories("elsewhere");
    let words = "bench copy --size 64K --size 1M --rounds 1 --cache warm";
    let chosen = "--methods copy/s* --methods copy/copy_file_range,fsync --name before-upgrade";
    let there = "--dir elsewhere";
    place.succeeds(&format!("{words} {chosen} {there}"));
    let before = place.only_run();
    assert!(before.id.ends_with("-copy-before-upgrade"), "{}", before.id);
    assert!(place.succeeds("runs").stdout.contains(&before.id));
    let again = "bench --like before-upgrade --rounds 1 --name after";
    place.succeeds(again);
    let mut saved = place.saved();
    saved.retain(|run| run.id != before.id);
    let [after] = saved.as_slice() else {
        panic!("{} more runs", saved.len())
    };
    assert!(after.id.ends_with("-copy-after"), "{}", after.id);
    assert_ne!(after.seed, before.seed);
    let measured = |run: &seekless_record::Run| -> Vec<String> {
        let contests = run.contests.iter();
        let described = contests.map(|contest| {
            let names: Vec<_> = contest.entries.iter().map(|entry| entry.name().into_owned()).collect();
            format!("{} {} {:?} {names:?}", contest.size_bytes, contest.files, contest.cache)
        });
        described.collect()
    };
    assert_eq!(measured(after), measured(&before));
    assert_eq!(after.storages[0].path, before.storages[0].path);
    place.succeeds("runs compare before-upgrade last");
}

#[test]
fn bench_name_is_a_file_name_and_like_runs_only_own_commands() {
    let place = Place::new();
    for name in ["", "a/b", "a b", "ü", &"x".repeat(61)] {
        place
            .bench(&["--name", name])
            .refused_with(&["a name is 1 to 60 letters"]);
    }
    let theirs = include_bytes!("../../../record/testdata/full-run.json");
    place.file("theirs.json", theirs);
    place.refuses("bench --like theirs.json", &["only commands of your own saved runs"]);
    place.succeeds("runs import theirs.json");
    place.run("bench --like imported-2026-11-20").refused();
}
