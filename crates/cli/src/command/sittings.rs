//! Sittings: combining a run with earlier ones, and `seekless bench --sittings`, which measures the same every few
//! hours in a background process that outlives the terminal.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use seekless_lab::store::StoreError;
use seekless_lab::trial::LaunchStop;
use seekless_record::Run;
use seekless_results::{ONE_SITTING, pool};

use super::{Failure, unless_stopped};
use crate::show::{counted, stderr, stdout};
use crate::signals::{CaughtSignal, stopping};
use crate::{call, config};

/// The saved runs that may be combined with a run, the newest first, and the errors of runs that could not be read.
/// Without a store, there are none.
pub fn earlier(run: &Run) -> (Vec<Run>, Vec<StoreError>) {
    let found = config::store().and_then(|store| store.sittings(run));
    found.unwrap_or_default()
}

/// A run with conclusions from all sittings up to it.
pub fn over_sittings(run: &Run, alone: bool) -> Run {
    if alone { run.clone() } else { pool(run, &earlier(run).0) }
}

/// Marks the background process.
const IN_BACKGROUND: &str = "SEEKLESS_IN_BACKGROUND";

/// Whether this is the background process.
fn is_in_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some_and(|told| told == "1")
}

/// How often a waiting process checks the time, so that a sitting that was due while the machine slept starts late
/// instead of never.
const STEP: Duration = Duration::from_millis(500);

/// Measures `count` times: starts the background process, or measures if this is that process.
pub fn sit(
    count: u32,
    every: Duration,
    measure: impl Fn(&LaunchStop, &CaughtSignal) -> Result<u8, Failure>,
) -> Result<(), Failure> {
    let every = SignedDuration::try_from(every).unwrap_or(SignedDuration::MAX);
    if !is_in_background() {
        return Ok(start(count, every)?);
    }
    // If the priority cannot be lowered, measure nevertheless.
    let _ = seekless_sys::lower_priority();
    let (stop, caught) = stopping(LaunchStop::request)?;
    let mut next = first_start(every);
    for sitting in 1..=count {
        while seekless_lab::now() < next {
            std::thread::sleep(STEP);
            unless_stopped(&caught)?;
        }
        let now = seekless_lab::now();
        next = now.saturating_add(every).unwrap_or(Timestamp::MAX);
        // An error does not end the series; later sittings, and later lines of the log, may succeed.
        let _ = writeln!(stdout(), "\n--- sitting {sitting} of {count}, {}", local(now));
        let errors = match measure(&stop, &caught) {
            Err(Failure::Errors(errors)) => errors,
            Err(stopped) => return Err(stopped),
            Ok(_) => Vec::new(),
        };
        for error in errors {
            let _ = writeln!(stderr(), "seekless: {error:#}");
        }
    }
    Ok(())
}

/// When the first sitting starts: at least an hour after the last run, because closer runs count as one sitting.
fn first_start(every: SignedDuration) -> Timestamp {
    let now = seekless_lab::now();
    let last = config::store().and_then(|store| store.find("latest".as_ref())?.read());
    let last = last.ok().and_then(|run| run.started.parse::<Timestamp>().ok());
    match last {
        Some(last) if now.duration_since(last).abs() < ONE_SITTING => now.saturating_add(every).unwrap_or(now),
        _ => now,
    }
}

/// Starts this program again, in the background, with its output in the log of the store.
fn start(count: u32, every: SignedDuration) -> anyhow::Result<()> {
    let program = call::program()?;
    let path = config::store()?.log_path()?;
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        bail!("{}: is not a regular file; the log is written there", path.display());
    }
    let log = File::options().append(true).create(true).mode(0o600).open(&path);
    let log = log.with_context(|| format!("{}: cannot open", path.display()))?;
    let first = first_start(every);
    let last = first.saturating_add(every.saturating_mul(i32::try_from(count - 1)?))?;
    let mut child = Command::new(program)
        .args(call::arguments())
        .env(IN_BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // A closed terminal ends only its own process group.
        .process_group(0)
        .spawn()
        .context("cannot start the process in the background")?;
    let times = counted(count.into(), "time");
    let (pid, first, last, path) = (child.id(), local(first), local(last), path.display());
    let told = writeln!(
        stdout(),
        "Measures {times} in the background (process {pid}): the first sitting starts at {first}, the last at {last}.\n\
         Log  {path}\n`seekless runs` lists finished runs; `kill {pid}` stops it."
    );
    if let Err(error) = told {
        // Without the message, the user does not know how to stop the process.
        let _ = child.kill();
        return Err(error.into());
    }
    Ok(())
}

fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
