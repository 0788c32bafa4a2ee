//! Signals in the middle of a run: the measurements are kept, and no files are left.

use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use seekless_record::Ended as EndedHow;

use crate::common::place::{Ended, Place, SMALL_BENCH, assert_contains, is_long, wait_for, words};

/// A run whose second round never ends: the command beside the method writes its process number and sleeps. The file is
/// too large for a discarded first trial, which would otherwise be the second round.
const STUCK: &str = r#"
name = "stuck"
about = "A command that hangs in its second round"

[[contest]]
operation = "read"
methods = ["read/sync,block=128K"]
sizes = ["16M"]
cache = ["warm"]

[[contest.command]]
name = "sleeper"
argv = ["sh", "-c", "if [ -e once ]; then echo $$ > pid.new; mv pid.new pid; exec sleep 50; fi; touch once", "{file}"]
"#;

/// A run that has measured something and hangs.
struct Stuck {
    child: Child,
    sleeper: Pid,
}

impl Stuck {
    fn start(place: &Place) -> Self {
        Self::by(place, place.command())
    }

    /// Started by this command, which may be a shell that gets the program.
    fn by(place: &Place, mut command: Command) -> Self {
        place.file("stuck.toml", STUCK.as_bytes());
        // A group of its own, as a terminal's shell makes one.
        let child = command
            .args(["bench", "stuck.toml", "--rounds", "3"])
            .process_group(0)
            .spawn()
            .unwrap();
        wait_for("the command hangs", || place.path("pid").exists());
        let number = place.text("pid");
        let sleeper = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
        for name in ["once", "pid", "stuck.toml"] {
            fs::remove_file(place.path(name)).unwrap();
        }
        Self { child, sleeper }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = kill_process(self.sleeper, Signal::KILL);
    }
}

fn scratch_directories(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.directory())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Stops a run by a signal and checks what is left and what is kept.
fn stops_cleanly(signal: Signal, code: i32, send: fn(Pid, Signal) -> rustix::io::Result<()>) {
    let place = Place::new();
    let mut stuck = Stuck::start(&place);
    assert_eq!(scratch_directories(&place).len(), 1);
    send(stuck.pid(), signal).unwrap();
    let child = std::mem::replace(&mut stuck.child, Command::new("true").spawn().unwrap());
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert_contains(&ended.stdout, &["Interrupted", "Saved"]);
    let told = format!(
        "seekless: interrupted; what was measured is saved\nhint: `seekless bench --resume {}` measures the rest\n",
        place.only_run().id
    );
    assert!(ended.stderr.ends_with(&told), "{}", ended.stderr);
    assert_contains(&ended.stdout, &["sync block=128K"]);
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
    let run = place.saved().remove(0);
    assert_eq!(run.ended, EndedHow::Interrupted);
    assert!(run.trials.len() >= 2, "{} trials", run.trials.len());
    let entries = &run.contests[0].entries;
    assert!(entries.iter().all(|entry| entry.verdict.is_measured()), "{entries:?}");
    wait_for("the external command ends with the run", || {
        test_kill_process(stuck.sleeper).is_err()
    });
}

#[test]
fn bench_saves_and_reports_a_run_that_a_signal_stops() {
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        stops_cleanly(signal, code, kill_process);
    }
}

#[test]
fn bench_takes_a_signal_to_the_group_or_twice_as_one() {
    for _ in 0..if is_long() { 3 } else { 1 } {
        // Ctrl+C of a terminal.
        stops_cleanly(Signal::INT, 130, kill_process_group);
    }
    stops_cleanly(Signal::INT, 130, twice);
    stops_cleanly(Signal::TERM, 143, twice);
}

/// As nohup and scripts with a trap ask.
#[test]
fn bench_ignores_signals_that_were_ignored_at_its_start() {
    let place = Place::new();
    let mut stuck = Stuck::by(&place, place.command_after("trap '' INT HUP"));
    for signal in [Signal::INT, Signal::HUP] {
        kill_process_group(stuck.pid(), signal).unwrap();
    }
    sleep(Duration::from_millis(300));
    assert!(stuck.child.try_wait().unwrap().is_none(), "it goes on");
    kill_process(stuck.pid(), Signal::TERM).unwrap();
    let child = std::mem::replace(&mut stuck.child, Command::new("true").spawn().unwrap());
    assert_eq!(Ended::of(child).code, Some(143));
    assert_eq!(place.only_run().ended, EndedHow::Interrupted);
}

/// As timeout(1) does: to the process, and at once to its group.
fn twice(pid: Pid, signal: Signal) -> rustix::io::Result<()> {
    kill_process(pid, signal)?;
    kill_process_group(pid, signal)
}

#[test]
fn bench_removes_test_files_at_a_later_signal() {
    let place = Place::new();
    // It waits until its first words are read; its directory exists.
    let (unread, mut stderr) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&stderr, rustix::fs::OFlags::NONBLOCK).unwrap();
    while stderr.write(&[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&stderr, rustix::fs::OFlags::empty()).unwrap();
    let mut command = place.command();
    command.args(["bench", "read", "--rounds", "1"]).stderr(stderr);
    let mut child = command.spawn().unwrap();
    wait_for("the directory is made", || !scratch_directories(&place).is_empty());
    let pid = Pid::from_child(&child);
    for _ in 0..2 {
        kill_process(pid, Signal::INT).unwrap();
        sleep(Duration::from_millis(100));
    }
    assert!(child.try_wait().unwrap().is_none(), "two signals at once are one");
    sleep(Duration::from_millis(500));
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert!(place.content().is_empty(), "{:?}", place.content().keys());
    drop(unread);
}

#[test]
fn signals_in_any_number_leave_no_test_directory() {
    let mut rng = fastrand::Rng::with_seed(7);
    let commands: [&[&str]; 6] = [
        &["bench", "read", "copy", "--quiet", "--size", "16M", "--budget", "20s"],
        &["bench", "sustained", "--size", "64M", "--work", "50000"],
        &["storage", "."],
        &["methods"],
        &["update", "file", "--from", "updates", "--safety", "replace"],
        &["holes", "dig", "file"],
    ];
    let line = |at: u64| format!("{{\"offset\": {}, \"hex\": \"00\"}}", at * 700);
    let updates = (0..20_000).map(line).collect::<Vec<_>>().join("\n");
    for (index, words) in commands.iter().enumerate() {
        let signals = [Signal::INT, Signal::TERM].map(|signal| [(2, 0), (3, 30), (3, 600)].map(|sent| (signal, sent)));
        // In the short run, each command gets some of them once.
        let step = if is_long() { 1 } else { 5 };
        for (signal, (count, apart_ms)) in signals.into_iter().flatten().skip(index % step).step_by(step) {
            let place = Place::new();
            place.file("file", &vec![0; 16 << 20]);
            place.file("updates", updates.as_bytes());
            let mut child = place.command().args(*words).process_group(0).spawn().unwrap();
            let pid = Pid::from_child(&child);
            sleep(Duration::from_millis(rng.u64(..400)));
            for _ in 0..count {
                // It may have ended.
                if child.try_wait().unwrap().is_none() {
                    let _ = kill_process_group(pid, signal);
                }
                sleep(Duration::from_millis(apart_ms));
            }
            let ended = Ended::of(child);
            let left: Vec<_> = place.content().into_keys().collect();
            let expected = [place.path("file"), place.path("updates")];
            assert_eq!(
                left, expected,
                "{words:?} {signal:?} {count} {apart_ms} ms: {}",
                ended.stderr
            );
            let saved = place.saved();
            assert!(saved.iter().all(|run| !run.trials.is_empty()));
            let is_saved = ended.stderr.contains("interrupted; what was measured is saved");
            assert!(!is_saved || saved.len() == 1, "{}", ended.stderr);
        }
    }
}

#[test]
fn bench_removes_what_a_killed_run_left() {
    let place = Place::new();
    let mut stuck = Stuck::start(&place);
    stuck.child.kill().unwrap();
    stuck.child.wait().unwrap();
    let left = scratch_directories(&place);
    assert_eq!(left.len(), 1);
    let bystander = place.path("seekless-scratch-mine");
    fs::create_dir(&bystander).unwrap();
    fs::write(bystander.join("precious"), b"bytes").unwrap();
    place.bench("").succeeded();
    assert_eq!(scratch_directories(&place), std::slice::from_ref(&bystander));
    assert_eq!(fs::read(bystander.join("precious")).unwrap(), b"bytes");
}

#[test]
fn bench_leaves_another_run_in_the_directory_alone() {
    let place = Place::new();
    let stuck = Stuck::start(&place);
    let before = place.content();
    assert_eq!(scratch_directories(&place).len(), 1);
    // In another store, as if by another user: benches of one store take turns.
    let store = tempfile::tempdir().unwrap();
    let mut other = place.command();
    other.args(words(SMALL_BENCH)).arg("read/sync");
    Ended::by(other.env("XDG_DATA_HOME", store.path())).succeeded();
    assert!(place.content().keys().eq(before.keys()));
    drop(stuck);
    place.succeeds("methods read/sync");
    assert!(place.content().is_empty());
}
