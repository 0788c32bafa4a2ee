//! Where a trial runs, and running a command there, killed, stopped, or with injected errors.
//!
//! Not here: which commands are run (`trial`), and what must hold afterwards (`verdict`).

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::disturb::{Injection, OUTLASTING};
use super::power::{Power, Stage};
use super::tree::STATE;
use crate::process::{capture, in_words};

/// A command that takes longer hangs. It is long, because one fsync can wait for all that others write to the disk.
const PATIENCE: Duration = Duration::from_mins(2);
/// The call that others wait for comes sooner, or not at all.
const CALL_PATIENCE: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_micros(200);

/// What trials need, for one worker.
pub struct Site<'a> {
    pub seekless: &'a Path,
    /// On the file system, and this worker's alone.
    pub directory: PathBuf,
    /// For what seekless is told and says. It is empty when a trial begins: a plan replaces no report.
    pub aside: &'a Path,
    /// What becomes of `XDG_STATE_HOME`: journals of different trials never meet.
    pub state: PathBuf,
    pub power: Option<&'a Power<'a>>,
}

/// What became of a trial.
pub struct TrialReport {
    /// What is counted of it: see `COLUMNS` of the table.
    pub counts: [usize; 8],
    /// Known limits are among them.
    pub faults: Vec<Fault>,
    /// How to understand the faults.
    pub story: String,
}

/// How seekless ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
    pub trace: String,
    /// Where all processes waited in the kernel when patience ended.
    pub hung_in: Option<String>,
}

/// Something that must not be.
#[derive(Debug, PartialEq)]
pub struct Fault {
    pub kind: &'static str,
    pub details: String,
}

impl Fault {
    pub fn new(kind: &'static str, details: impl Into<String>) -> Self {
        let details = details.into();
        Self { kind, details }
    }
}

impl<'a> Site<'a> {
    /// One on a file system.
    pub fn new(seekless: &'a Path, mounted: &Path, aside: &'a Path) -> Self {
        let directory = mounted.join("trial");
        Self {
            seekless,
            aside,
            state: directory.join(STATE),
            directory,
            power: None,
        }
    }

    /// Empties the directory.
    pub fn begin(&self) -> Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("cannot empty the directory"),
            _ => fs::create_dir(&self.directory).context("cannot make the directory"),
        }
    }

    /// Runs something while the disk has no more room than this.
    pub fn filled<T>(&self, free_bytes: Option<u64>, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(free_bytes) = free_bytes else {
            return run();
        };
        let ballast = self.directory.join("ballast");
        fill_up(&ballast, free_bytes)?;
        let ran = run()?;
        fs::remove_file(ballast)?;
        Ok(ran)
    }

    /// seekless without arguments, under strace if anything is injected.
    pub fn seekless(&self, injections: &[Injection]) -> Command {
        let mut command = Command::new(self.seekless);
        if !injections.is_empty() {
            let calls: Vec<_> = injections.iter().map(|one| one.call).collect();
            command = Command::new("strace");
            command.args(["-f", "-q", "-e", &format!("trace={}", calls.join(","))]);
            for injection in injections {
                command.args(["-e", &injection.option()]);
            }
            // It stops at these calls alone; but signals are not delivered then.
            if injections.iter().all(|one| one.fault != Injection::KILL) {
                command.arg("--seccomp-bpf");
            }
            command.arg("-o").arg(self.trace()).arg(self.seekless);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.current_dir(&self.directory).env("XDG_STATE_HOME", &self.state);
        command
    }

    fn trace(&self) -> PathBuf {
        self.aside.join("trace")
    }

    /// The report or plan of a search.
    pub fn found(&self) -> PathBuf {
        self.aside.join("found")
    }

    /// Waits for a call that is delayed, or for a moment after the start.
    pub fn wait_for(&self, delay: Option<&Injection>, after: Duration, started: Instant) {
        let Some(Injection { call, when, .. }) = delay else {
            return thread::sleep(after.saturating_sub(started.elapsed()));
        };
        // strace shows the call before it delays it.
        let count = |trace: String| trace.matches(&format!(" {call}(")).count();
        let is_shown = || fs::read_to_string(self.trace()).is_ok_and(|trace| count(trace) >= *when as usize);
        while started.elapsed() < CALL_PATIENCE && !is_shown() {
            thread::sleep(POLL);
        }
    }

    /// Runs a command to its end, or to the loss of power if that comes at this stage.
    pub fn run_at(&self, stage: Stage, command: Command, timed: Option<(Duration, Signal)>) -> Result<Ended> {
        // While it is open, a process that begins in it reads nothing. If that waited for a disk without power, so would we, for the
        // process.
        let _open = File::open(&self.directory)?;
        match self.power {
            Some(power) => power.run(stage, || self.run(command, timed)),
            None => self.run(command, timed),
        }
    }

    /// Runs a command to its end.
    pub fn run(&self, mut command: Command, timed: Option<(Duration, Signal)>) -> Result<Ended> {
        let stderr = self.aside.join("stderr");
        let _ = fs::remove_file(self.trace());
        command.stderr(File::create(&stderr)?).process_group(0);
        let started = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", in_words(&command)))?;
        let pid = Pid::from_child(&child);
        if let Some((after, signal)) = timed {
            thread::sleep(after.saturating_sub(started.elapsed()));
            // It is not waited for yet, so the number is still its own.
            kill_process(pid, signal)?;
            if signal == Signal::STOP {
                if child.try_wait()?.is_none() {
                    thread::sleep(OUTLASTING);
                }
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        let mut hung_in = None;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if let Some(power) = self.power.filter(|power| power.is_gone()) {
                // It dies before it sees that its disks do.
                let _ = kill_process_group(pid, Signal::KILL);
                power.cut()?;
            }
            if started.elapsed() > PATIENCE {
                let mut ps = Command::new("ps");
                ps.args(["-eLo", "pgid,stat,wchan:40,args"]);
                hung_in = hung_in.or_else(|| capture(&mut ps).ok());
                let _ = kill_process_group(pid, Signal::KILL);
            }
            thread::sleep(POLL);
        };
        Ok(Ended {
            status,
            stderr: String::from_utf8_lossy(&fs::read(stderr)?).into_owned(),
            trace: String::from_utf8_lossy(&fs::read(self.trace()).unwrap_or_default()).into_owned(),
            hung_in,
        })
    }
}

/// What is wrong with how a command ended, whatever it left.
pub fn check_ended(ended: &Ended) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(stacks) = &ended.hung_in {
        faults.push(Fault::new("hangs", format!("after {PATIENCE:?}\n{stacks}")));
    }
    if ended.stderr.contains("panicked at") {
        faults.push(Fault::new("panic", ""));
    }
    let sent = [Signal::KILL.as_raw(), Signal::TERM.as_raw()];
    if let Some(signal) = ended.status.signal().filter(|signal| !sent.contains(signal)) {
        faults.push(Fault::new("died", format!("by signal {signal}")));
    }
    // 143: SIGTERM. An error may be injected before the program is loaded.
    let is_loaded = !ended.stderr.contains("error while loading shared libraries");
    if let Some(code) = ended
        .status
        .code()
        .filter(|code| is_loaded && ![0, 1, 2, 143].contains(code))
    {
        faults.push(Fault::new("exit code", code.to_string()));
    }
    faults
}

/// Leaves next to no room on a file system.
fn fill_up(ballast: &Path, free_bytes: u64) -> Result<()> {
    let file = File::create_new(ballast)?;
    let (mut end, mut piece) = (0, 1 << 30);
    while piece >= 4096 {
        match fallocate(&file, FallocateFlags::empty(), end, piece) {
            Ok(()) => end += piece,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NOSPC) => piece /= 4,
            Err(error) => return Err(error).context("cannot fill the file system"),
        }
    }
    file.set_len(end.saturating_sub(free_bytes))?;
    Ok(())
}
