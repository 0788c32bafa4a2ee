//! A sustained write: one trial of many files, ended by a bound, shown but not ranked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use seekless_record::{EntryVerdict, Run, Trial};

use crate::common::place::{Ended, Mount, Place, assert_contains, assert_lacks, wait_for};

/// A slow one: making its bytes takes most of the time.
const SLOW: &str = "bench --tables --notes sustained --size 64M --work 50000";

/// The trial, if direct I/O is to be had here.
fn trial(run: &Run) -> Option<&Trial> {
    if let EntryVerdict::Unavailable { why } = &run.contests[0].entries[0].verdict {
        println!("skipped: {why}");
        return None;
    }
    let [trial] = &run.trials[..] else {
        panic!("{} trials", run.trials.len())
    };
    assert!(trial.valid, "{:?}", trial.invalid);
    Some(trial)
}

#[test]
fn bench_sustained_writes_once_checks_and_removes() {
    let place = Place::new();
    let ended = place.succeeds("bench --tables --notes sustained --size 64M --report run.html");
    let run = place.only_run();
    let Some(trial) = trial(&run) else { return };
    assert_contains(&ended.stderr, &["Writes at most 64.0 MiB in total"]);
    let title = "write 64 MiB sustained in 64 x 1 MiB, new file, fsync";
    assert_contains(&ended.stdout, &[title, "slowest file", "\n  64.0 MiB  "]);
    assert_lacks(&ended.stdout, &["best", "Use ", "decided", "sitting"]);
    let seconds = trial.segment_seconds.as_ref().unwrap();
    assert_eq!((seconds.len(), trial.bytes), (64, 64 << 20));
    assert!(seconds.iter().sum::<f64>() <= trial.seconds);
    assert!((16 << 20..32 << 20).contains(&trial.checked_bytes.unwrap()));
    let page = place.text("run.html");
    assert!(page.contains("Rate over what was written: write 64 MiB sustained"));
    fs::remove_file(place.path("run.html")).unwrap();
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
    // A second run is shown beside it, and the two are not combined.
    let again = place
        .succeeds("bench --tables --notes --like latest --name again")
        .stdout;
    assert!(again.contains("write 64 MiB sustained in 64 x 1 MiB") && !again.contains("sittings"));
    let saved = place.saved();
    let names = [0, 1].map(|at: usize| saved[at].id.as_str());
    let compare = format!("runs compare {} {}", names[0], names[1]);
    assert_contains(&place.succeeds(&compare).stdout, &["Before: ", "Now: "]);
    for words in [
        &compare[..],
        "runs",
        "runs show latest",
        "runs table",
        &format!("{compare} --json"),
    ] {
        assert_lacks(&place.succeeds(words).stdout, &["undecided"]);
    }
    place.refuses("bench --tables --notes --resume latest", &["is complete"]);
}

#[test]
fn bench_sustained_ends_with_the_budget() {
    let place = Place::new();
    let ended = place.succeeds((SLOW, "--budget 2s"));
    let run = place.only_run();
    let Some(trial) = trial(&run) else { return };
    let files = trial.segment_seconds.as_ref().unwrap().len();
    assert!(
        (2..64).contains(&files) && trial.bytes == (files as u64) << 20,
        "{files} files"
    );
    assert!(trial.seconds < 2.0, "{}", trial.seconds);
    assert_contains(&ended.stdout, &["the time or the free space was used up"]);
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
}

/// The files written so far, in the directory of a run under way.
fn targets(directory: &Path) -> Vec<PathBuf> {
    let below = |directory: PathBuf| {
        fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    let all = below(directory.to_owned()).filter(|path| path.is_dir()).flat_map(below);
    all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("target-"))
        .collect()
}

#[test]
fn bench_sustained_killed_ends_and_the_next_run_cleans_up() {
    let place = Place::new();
    let mut child = place.start(SLOW);
    let count = || targets(&place.directory()).len();
    wait_for("some files are written", || count() > 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the trial ends with the run", || {
        let before = count();
        std::thread::sleep(std::time::Duration::from_millis(300));
        count() == before
    });
    assert!(count() > 2);
    place.bench("").succeeded();
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
}

/// A group of processes whose writes to a device are held to a rate.
struct Held {
    group: PathBuf,
    device: String,
}

impl Held {
    /// `None`, with a word about it, where there are no such groups, or without root.
    fn new(directory: &Path) -> Option<Self> {
        let name = format!("seekless-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/blkio", "/sys/fs/cgroup"].map(Path::new);
        let group = roots.into_iter().find(|root| root.is_dir())?.join(name);
        let number = fs::metadata(directory).unwrap().dev();
        let device = format!("{}:{}", major(number), minor(number));
        let held = fs::create_dir(&group).is_ok().then_some(Self { group, device });
        let held = held.filter(|held| held.write(60 << 20).is_ok());
        if held.is_none() {
            println!("skipped: holding a device to a rate needs root and the io controller of cgroups");
        }
        held
    }

    fn write(&self, bytes_per_second: u64) -> std::io::Result<()> {
        let old = self.group.join("blkio.throttle.write_bps_device");
        if old.exists() {
            return fs::write(old, format!("{} {bytes_per_second}", self.device));
        }
        fs::write(
            self.group.join("io.max"),
            format!("{} wbps={bytes_per_second}", self.device),
        )
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group);
    }
}

#[test]
fn bench_sustained_finds_where_a_disk_becomes_slower() {
    let place = Place::new();
    let directory = place.path("disk");
    let Some(_mount) = Mount::image("ext4", 400 << 20, &place.path("image"), &directory) else {
        return;
    };
    let Some(held) = Held::new(&directory) else { return };
    let mut command = place.command_after(&format!("echo $$ > {}/cgroup.procs", held.group.display()));
    command.args("bench --tables --notes sustained --size 256M --budget 7s --dir disk".split(' '));
    let child = command.spawn().unwrap();
    let mut before = 0;
    wait_for("some seconds are over", || {
        before = targets(&directory).len();
        before >= 24
    });
    held.write(12 << 20).unwrap();
    let after = targets(&directory).len();
    let ended = Ended::of(child).succeeded();
    let run = place.only_run();
    if trial(&run).is_none() {
        return;
    }
    let sentence = &run.contests[0].conclusion.as_ref().unwrap().sentence;
    let first = sentence
        .split_once(" for the first ")
        .and_then(|(_, rest)| rest.split_once(" MiB, then "));
    let first: f64 = first.unwrap_or_else(|| panic!("{}", ended.stdout)).0.parse().unwrap();
    let files = first / 4.0;
    assert!(
        (before as f64 - 3.0..=after as f64 + 3.0).contains(&files),
        "{files} files, and it was at {before} to {after}: {sentence}"
    );
    assert!(
        sentence.contains("(2") || sentence.contains("(1"),
        "about a fifth: {sentence}"
    );
}
