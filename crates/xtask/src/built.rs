//! The tests and the command as cargo built them, once for all steps.
//!
//! Everything is built with [`ALL`], and the steps run the executables themselves. That also gives the seconds of each test.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{capture, check_interrupt, run as run_program, run_reading};

/// An executable with tests.
pub struct Built {
    /// The name of its target: the library, or the file or directory in `tests`.
    pub target: String,
    /// The directory of its package, in which cargo runs tests.
    directory: PathBuf,
    executable: PathBuf,
}

/// A test and how long it took.
pub struct Timed {
    /// Target and test.
    pub name: String,
    /// Wall-clock seconds, beside whatever ran at the same time.
    pub seconds: f64,
    /// Whether it failed beside other tests, and passed alone.
    pub is_unstable: bool,
}

/// The whole workspace, with the features of packages.
pub const ALL: &str = "--workspace --all-features";

/// Modules of tests that others would disturb, as by sync(2), have this name: they run after all others, one at a time.
const ALONE: &str = "alone::";

/// At most this many failed tests of an executable are run again, each alone: more have a cause of their own.
const RUN_AGAIN: usize = 3;

/// The cargo that runs us, at the top of the workspace.
pub fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Of xtask; `ring` would be compiled again whenever it differs.
    command.current_dir(root()).env_remove("CARGO_MANIFEST_DIR");
    // Tests neither plan by the profile of this user nor add their uses to it.
    command.env("SEEKLESS_PROFILE", "");
    command
}

/// The top of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file in the target directory that xtask itself was built in, wherever that is: `release/seekless`.
pub fn beside(name: &str) -> Result<PathBuf> {
    let ours = env::current_exe().context("cannot find this program's own file")?;
    let target = ours.parent().and_then(Path::parent);
    let target = target.context("this program does not lie in a target directory")?;
    Ok(target.join(name))
}

/// Builds all tests, and the command beside them.
pub fn build() -> Result<Vec<Built>> {
    build_with(ALL)
}

/// Builds the tests that arguments of `cargo test` select.
pub fn build_with(arguments: &str) -> Result<Vec<Built>> {
    let format = ["--no-run", "--quiet", "--message-format", "json-render-diagnostics"];
    let mut cargo = cargo_command();
    cargo.arg("test").args(arguments.split(' ')).args(format);
    let messages = capture(&mut cargo)?;
    let mut built = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("cargo said what is no JSON")?;
        let is_test = message["profile"]["test"] == true;
        let texts = ["/executable", "/manifest_path", "/target/name"].map(|field| message.pointer(field)?.as_str());
        if let (true, [Some(executable), Some(manifest), Some(target)]) = (is_test, texts) {
            let directory = Path::new(manifest).parent();
            built.push(Built {
                target: target.to_owned(),
                directory: directory.context("a manifest in no directory")?.to_owned(),
                executable: executable.into(),
            });
        }
    }
    // Largest first: they take longest, and none of them should be left for the end.
    let bytes = |one: &Built| fs::metadata(&one.executable).map_or(0, |file| file.len());
    built.sort_by_key(|one| Reverse(bytes(one)));
    Ok(built)
}

/// Runs those that are wanted with further arguments and variables: one for each processor at a time, which runs as many of its
/// tests at a time, because most tests wait for programs. Then come those in modules named `alone`, one at a time. What an
/// executable printed is printed when it ends.
///
/// The machine may take pages from the cache, or processors, while many tests run. A test that fails gets a second chance,
/// alone, and is named at the end.
pub fn run(
    built: &[Built],
    is_wanted: impl Fn(&Built) -> bool,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Result<Vec<Timed>> {
    let wanted: Vec<_> = built.iter().filter(|one| is_wanted(one)).collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let ended = if arguments.is_empty() {
        let mut ended = run_some(&wanted, processors, &["--skip", ALONE], variables);
        // Its last result is its own; before that may stand those of programs that its tests ran.
        let has_more = |ran: &Ran| {
            let result = ran.printed.lines().rfind(|line| line.starts_with("test result: "));
            result.is_none_or(|result| !result.contains("; 0 filtered out"))
        };
        let left = ended.iter().filter(|(_, ran)| has_more(ran)).map(|(one, _)| *one);
        let left: Vec<_> = left.collect();
        ended.extend(run_some(&left, 1, &["--test-threads=1", ALONE], variables));
        ended
    } else {
        // They are chosen by name, and run on file systems of their own.
        run_some(&wanted, processors, arguments, variables)
    };
    check_interrupt()?;
    let mut timed = Vec::new();
    for (one, ran) in ended {
        let failed: Vec<_> = ran.timed.iter().filter(|test| test.is_unstable).collect();
        if failed.is_empty() || failed.len() > RUN_AGAIN {
            ran.result?;
        }
        for test in failed {
            println!("\nagain, alone: {}", test.name);
            let arguments = [arguments, &["--exact", &test.name]].concat();
            run_program(&mut one.command(&arguments, variables))?;
        }
        let names = ran.timed.into_iter();
        timed.extend(names.map(|mut test| {
            test.name = format!("{} {}", one.target, test.name);
            test
        }));
    }
    Ok(timed)
}

/// Runs executables with tests, this many at a time.
fn run_some<'a>(
    wanted: &[&'a Built],
    at_a_time: usize,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Vec<(&'a Built, Ran)> {
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(one) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ran = one.run(arguments, variables);
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    print!("\n{} of {}\n{}", one.target, one.directory.display(), ran.printed);
                    ended.push((*one, ran));
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What became of the tests of an executable.
struct Ran {
    printed: String,
    timed: Vec<Timed>,
    result: Result<()>,
}

impl Built {
    fn run(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Ran {
        let (mut printed, mut timed) = (String::new(), Vec::new());
        let result = run_reading(&mut self.command(arguments, variables), |line| {
            printed.extend([line, "\n"]);
            timed.extend(timing(line).map(|(test, result, seconds)| Timed {
                name: test.to_owned(),
                seconds,
                is_unstable: result != "ok",
            }));
        });
        Ran { printed, timed, result }
    }

    fn command(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory);
        // What makes the stable harness tell times.
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Zunstable-options", "--report-time"]);
        command.args(arguments).envs(variables.iter().copied());
        command
    }
}

/// Name, result and seconds of a line `test NAME ... ok <0.123s>`.
fn timing(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (result, seconds) = rest.strip_suffix("s>")?.rsplit_once(" <")?;
    Some((name, result, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_and_seconds_of_a_test_are_read_from_its_line() {
        for result in ["ok", "FAILED"] {
            let line = format!("test a::b ... {result} <1.250s>");
            assert_eq!(timing(&line), Some(("a::b", result, 1.25)));
        }
        for line in [
            "test a::b ... ok",
            "test a::b ... ignored, why",
            "running 3 tests",
            "test result: ok. <s>",
        ] {
            assert_eq!(timing(line), None, "{line}");
        }
    }
}
