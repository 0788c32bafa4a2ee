//! The parent's side of a trial: starting the child, the handshake, and ending it when the run is stopped.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use seekless_sys::lock_mutex;

use super::{TrialReply, TrialRequest};

/// Stops a run from another thread: no further trial starts, and the current one is ended.
#[derive(Clone, Debug, Default)]
pub struct LaunchStop {
    asked: Arc<AtomicBool>,
    running: Arc<Mutex<Option<process::Child>>>,
}

impl LaunchStop {
    /// Asks the run to stop.
    pub fn request(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.kill();
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Kills the child's process group, which includes what the child started.
    fn kill(&self) {
        if let Some(child) = self.lock().as_ref() {
            let _ = seekless_sys::kill_group(child.id());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<process::Child>> {
        lock_mutex(&self.running)
    }
}

/// Why a child gave no report.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It could not be started, or the pipe to it broke.
    #[error("cannot run the process of a trial")]
    System(#[from] io::Error),
    /// It ended early.
    #[error("the process of a trial ended early: {0}")]
    Ended(String),
    /// It took longer than allowed.
    #[error("the trial took longer than {} s and was killed", .0.as_secs())]
    TooLong(Duration),
    /// It answered something else.
    #[error("the answer of a trial's process is not a report")]
    Answer(#[from] serde_json::Error),
}

/// A child that is ready, or has reported why it is not.
pub struct Child<'a> {
    stop: &'a LaunchStop,
    /// `None` once the child was told to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    early: Option<TrialReply>,
}

impl<'a> Child<'a> {
    /// Starts `program trial` and waits until it is ready.
    ///
    /// # Errors
    /// [`LaunchError`] if it cannot be started, or ends without an answer.
    pub fn start(program: &Path, spec: &TrialRequest, stop: &'a LaunchStop) -> Result<Self, LaunchError> {
        let mut child = Command::new(program)
            .arg("trial")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        *stop.lock() = Some(child);
        let (Some(input), Some(output)) = (input, output) else {
            return Err(LaunchError::Ended("it has no pipes".to_owned()));
        };
        let mut this = Self {
            stop,
            input: Some(input),
            output: BufReader::new(output),
            early: None,
        };
        if stop.is_requested() {
            stop.kill();
        }
        this.say(&serde_json::to_string(spec)?);
        let line = this.read_line()?;
        if line.trim_end() != READY {
            this.early = Some(serde_json::from_str(&line)?);
        }
        Ok(this)
    }

    /// Starts the trial and waits for the outcome; a child that takes longer than `limit` is killed.
    ///
    /// # Errors
    /// [`LaunchError`] if the child dies, is killed or gives another answer.
    pub fn run(mut self, limit: Duration) -> Result<TrialReply, LaunchError> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        let stop = self.stop;
        let (answered, watched) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let late = watched.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    stop.kill();
                }
                late
            });
            self.say(GO);
            let line = self.read_line();
            drop(answered);
            match (line, watch.join()) {
                (Err(LaunchError::Ended(_)), Ok(true)) => Err(LaunchError::TooLong(limit)),
                (line, _) => Ok(serde_json::from_str(&line?)?),
            }
        })
    }

    /// Writes a line. If the child has died, the pipe is broken, and reading the answer shows why.
    fn say(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}");
        }
    }

    fn read_line(&mut self) -> Result<String, LaunchError> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? > 0 {
            return Ok(line);
        }
        let status = self.stop.lock().as_mut().map(process::Child::wait);
        Err(LaunchError::Ended(match status {
            Some(Ok(status)) => status.to_string(),
            _ => "without a status".to_owned(),
        }))
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        // A child that is still waiting sees the end of its input and ends.
        self.input = None;
        if let Some(mut child) = self.stop.lock().take() {
            wait_or_kill(&mut child);
        }
    }
}

/// Waits for a child that has nothing left to do, and kills it if it does not end.
fn wait_or_kill(child: &mut process::Child) {
    // Most end within a millisecond; about 100 ms in all.
    let mut pause = Duration::from_micros(100);
    while pause < Duration::from_millis(60) {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(pause),
            _ => return,
        }
        pause *= 2;
    }
    let _ = seekless_sys::kill_group(child.id());
    let _ = child.wait();
}

/// The child's message when it is prepared.
pub(super) const READY: &str = "ready";
/// The parent's answer.
pub(super) const GO: &str = "go";
