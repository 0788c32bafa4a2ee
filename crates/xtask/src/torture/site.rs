//! Where a trial runs, and running a command there, with what it meets.
//!
//! Not here: which commands are run (`draw`), and what must hold afterwards (`oracle`).

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate, syncfs};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::harm::Harm;
use super::power::NullDisk;
use super::tree::{DATA, STATE};

/// A command that takes longer hangs. It is long, because one fsync can wait for all that others write to the disk.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a stopped command waits: less than a lease lasts.
const STOPPED: Duration = Duration::from_millis(80);
const POLL: Duration = Duration::from_micros(300);

/// What trials need, for one worker.
pub struct Site<'a> {
    pub seekless: &'a Path,
    /// The directory of the trial, on the file system.
    pub directory: PathBuf,
    /// For what seekless is told and says.
    pub aside: &'a Path,
    /// The disk of the file system, and perhaps one for the journals of actions, if these are simulated.
    pub disks: Vec<&'a NullDisk>,
}

/// How a command ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
    pub is_hung: bool,
}

impl Site<'_> {
    /// The directory for `XDG_STATE_HOME`.
    fn state(&self) -> PathBuf {
        let other = self.disks.get(1).map(|disk| disk.point.join("trial"));
        other.unwrap_or_else(|| self.directory.clone()).join(STATE)
    }

    /// Empties the directories.
    pub fn begin(&self) -> Result<()> {
        for directory in [&self.state(), &self.directory]
            .into_iter()
            .filter(|path| path.exists())
        {
            fs::remove_dir_all(directory).context("cannot empty the directory")?;
        }
        fs::create_dir_all(&self.directory).context("cannot make the directory")?;
        self.settle()
    }

    /// btrfs has room for new files only after it wrote what was removed.
    fn settle(&self) -> Result<()> {
        Ok(syncfs(File::open(&self.directory)?)?)
    }

    /// Runs seekless to its end.
    pub fn run(&self, arguments: &[String], harm: &Harm) -> Result<Ended> {
        let [stderr, ballast] = [self.aside.join("stderr"), self.directory.join("ballast")];
        if let Some(free_bytes) = harm.free_bytes {
            fill_up(&ballast, free_bytes)?;
        }
        // While it is open, a process that begins in it reads nothing. If that waited for a disk without power, so would we, for the
        // process.
        let open = File::open(&self.directory)?;
        if let Some(power) = &harm.power {
            power.begin(&self.disks)?;
        }
        let mut command = self.command(harm);
        command.args(arguments).stderr(File::create(&stderr)?);
        let mut child = command.spawn().context("cannot start the command")?;
        // It would keep the disk mounted while the power is off, and btrfs gives a disk that comes back meanwhile another identity.
        drop(open);
        let (pid, started, mut is_cut) = (Pid::from_child(&child), Instant::now(), false);
        if let Some((after, signal)) = harm.signal {
            sleep(after);
            // It is not waited for yet, so the number is still its own.
            kill_process(pid, signal)?;
            if signal == Signal::STOP {
                sleep(STOPPED);
                kill_process(pid, Signal::CONT)?;
            }
        }
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let is_gone = harm.power.is_some() && !is_cut && self.disks[0].is_power_lost()?;
            if is_gone || started.elapsed() > PATIENCE {
                // It dies before it sees that its disks do.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            if let Some(power) = harm.power.as_ref().filter(|_| is_gone) {
                power.cut(&self.disks)?;
                is_cut = true;
            }
            sleep(POLL);
        };
        let is_hung = started.elapsed() > PATIENCE;
        if let Some(power) = harm.power.as_ref().filter(|_| !is_cut) {
            sleep(power.after);
            power.cut(&self.disks)?;
        }
        if harm.free_bytes.is_some() {
            fs::remove_file(ballast)?;
            self.settle()?;
        }
        let stderr = String::from_utf8_lossy(&fs::read(stderr)?).into_owned();
        Ok(Ended {
            status,
            stderr,
            is_hung,
        })
    }

    /// seekless without arguments, under strace if anything is injected.
    fn command(&self, harm: &Harm) -> Command {
        let mut command = Command::new(self.seekless);
        if let Some((call, fault)) = &harm.injection {
            command = Command::new("strace");
            command.args([
                "-f",
                "-q",
                "-e",
                &format!("trace={call}"),
                "-e",
                &format!("inject={call}:{fault}"),
            ]);
            if !harm.injects("signal") {
                // It stops at these calls alone; but signals are not delivered then.
                command.arg("--seccomp-bpf");
            }
            command.arg("-o").arg(self.aside.join("trace")).arg(self.seekless);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command.env("XDG_STATE_HOME", self.state()).current_dir(&self.directory);
        command.env("XDG_DATA_HOME", self.directory.join(DATA));
        command
    }
}

/// Leaves next to no room on a file system.
fn fill_up(ballast: &Path, free_bytes: u64) -> Result<()> {
    let (file, mut end) = (File::create_new(ballast)?, 0);
    for piece in [1 << 30, 1 << 25, 1 << 20, 1 << 16, 1 << 12] {
        while fallocate(&file, FallocateFlags::empty(), end, piece).is_ok() {
            end += piece;
        }
    }
    Ok(file.set_len(end.saturating_sub(free_bytes))?)
}
