//! Other programs, run so that Ctrl-C leaves nothing behind.
//!
//! Each child gets a process group of its own. An interrupt therefore reaches xtask alone, which ends the child with
//! everything that it started, and returns an error: whoever holds a mount or a directory gives it back while unwinding.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

const POLL: Duration = Duration::from_millis(10);
/// What a child gets to clean up after itself, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Makes SIGINT, SIGTERM and SIGHUP end the chore through its errors.
pub fn catch_interrupts() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .with_context(|| format!("cannot catch signal {signal}"))?;
    }
    Ok(())
}

/// An error once the user has asked to stop.
pub fn check_interrupt() -> Result<()> {
    ensure!(
        !INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)),
        "interrupted"
    );
    Ok(())
}

/// Runs a program whose output streams through. An error where it cannot start, fails, or the user interrupts.
pub fn run(command: &mut Command) -> Result<()> {
    check_interrupt()?;
    let mut child = spawn(command)?;
    let status = wait(&mut child)?;
    ensure!(status.success(), "{}: {status}", in_words(command));
    Ok(())
}

/// Runs a program and hands over each line of its standard output, instead of printing it. Errors as of [`run`].
pub fn run_reading(command: &mut Command, mut read: impl FnMut(&str) + Send) -> Result<()> {
    check_interrupt()?;
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let status = thread::scope(|scope| {
        scope.spawn(move || {
            // What is no text is passed on as far as it is.
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                read(&String::from_utf8_lossy(&line));
            }
        });
        wait(&mut child)
    })?;
    ensure!(status.success(), "{}: {status}", in_words(command));
    Ok(())
}

/// Runs a program and returns what it printed. Its last line on stderr is the reason in the error.
pub fn capture(command: &mut Command) -> Result<String> {
    check_interrupt()?;
    // In files: a child that fills a pipe would wait for a reader.
    let [stdout, stderr] = [tempfile::tempfile()?, tempfile::tempfile()?];
    let mut child = spawn(command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?))?;
    let status = wait(&mut child)?;
    if status.success() {
        return text(&stdout);
    }
    let stderr = text(&stderr)?;
    let mut lines = stderr.lines().rev();
    let reason = lines.find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    bail!("{}: {status}: {}", in_words(command), reason.trim())
}

/// Runs a program that is not to be interrupted, to give back what was taken; whether it succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    let ended = spawn(command.stderr(Stdio::null())).and_then(|mut child| Ok(child.wait()?));
    ended.is_ok_and(|status| status.success())
}

/// Whether a program is found where one would look for it.
pub fn is_installed(program: &str) -> bool {
    find_program(program).is_some()
}

/// The file of a program.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = std::env::split_paths(&path).chain(sbin);
    let mut files = directories.map(|directory| directory.join(program));
    files.find(|file| file.is_file())
}

/// Whether this process may mount and install.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.stdin(Stdio::null()).process_group(0);
    let child = command.spawn();
    child.with_context(|| format!("cannot start {}", in_words(command)))
}

fn text(mut file: &File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(interrupted) = check_interrupt() {
            end(child)?;
            return Err(interrupted);
        }
        thread::sleep(POLL);
    }
}

fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_child(child);
    // The group may be gone already; then there is nothing to end.
    let _ = kill_process_group(group, Signal::TERM);
    let asked = Instant::now();
    while child.try_wait()?.is_none() {
        if asked.elapsed() > GRACE {
            let _ = kill_process_group(group, Signal::KILL);
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The program and its arguments, as they would be typed.
pub fn in_words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What a value is called on the command line.
pub fn value_name(value: &impl clap::ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_returns_what_was_printed() {
        assert_eq!(capture(Command::new("echo").arg("a word")).unwrap(), "a word\n");
    }

    #[test]
    fn capture_gives_the_last_line_on_stderr_as_the_reason() {
        let error = capture(Command::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("exit status: 3: last"), "{error}");
    }

    #[test]
    fn capture_reads_more_than_a_pipe_holds() {
        let text = capture(Command::new("sh").args(["-c", "head -c 300000 /dev/zero | tr '\\0' x; echo done >&2"]));
        assert_eq!(text.unwrap().len(), 300_000);
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program-here"));
        assert!(!is_installed("no-such-program-here"));
        assert!(is_installed("sh"));
    }
}
