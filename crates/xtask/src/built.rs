//! The tests and the command as cargo built them, once for all steps.
//!
//! `cargo test -p PACKAGE` resolves the features of dependencies for that package alone, and compiles again what the whole
//! workspace has with others. So everything is built with `--workspace`, and the steps run the executables themselves. That
//! also gives the seconds of each test.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The features of the whole workspace: the hub's server with its tests. The plain command has no `hub`; see [`HUB_COMMAND`].
pub const SERVER: [&str; 2] = ["--features", "seekless-hub/server"];

/// The test of the command with `hub`, for which only what lies above the hub is compiled again.
pub const HUB_COMMAND: [&str; 4] = ["--features", "seekless-cli/hub", "--test", "serve"];

/// So many tests that failed are run again, each alone: more have a cause of their own.
const RUN_AGAIN: usize = 3;

/// The cargo that runs us, at the top of the workspace.
pub fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Of xtask; `ring` would be compiled again whenever it differs.
    command.current_dir(root()).env_remove("CARGO_MANIFEST_DIR");
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
    Ok(target
        .context("this program does not lie in a target directory")?
        .join(name))
}

/// Builds all tests, the command beside them; or, with further arguments, some of them.
pub fn build(arguments: &[&str]) -> Result<Vec<Built>> {
    let format = ["--quiet", "--message-format", "json-render-diagnostics"];
    let mut cargo = cargo_command();
    cargo
        .args(["test", "--workspace", "--no-run"])
        .args(SERVER)
        .args(format)
        .args(arguments);
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
    // Cargo tells them as they get ready.
    built.sort_by(|one, other| (&one.directory, &one.executable).cmp(&(&other.directory, &other.executable)));
    Ok(built)
}

/// Runs those that are wanted, one after the other, with further arguments and variables.
///
/// The machine may take pages from the cache, or processors, while many tests run. A test that fails gets a second chance,
/// alone, and is told.
pub fn run(
    built: &[Built],
    is_wanted: impl Fn(&Built) -> bool,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Result<Vec<Timed>> {
    let mut timed = Vec::new();
    for one in built.iter().filter(|one| is_wanted(one)) {
        println!("\n{} of {}", one.target, one.directory.display());
        let mut failed = Vec::new();
        let ran = run_reading(&mut one.command(arguments, variables), |line| {
            let Some((test, result, seconds)) = timing(line) else {
                return;
            };
            let has_passed = result == "ok";
            if !has_passed {
                failed.push(test.to_owned());
            }
            timed.push(Timed {
                name: format!("{} {test}", one.target),
                seconds,
                is_unstable: !has_passed,
            });
        });
        check_interrupt()?;
        if failed.is_empty() || failed.len() > RUN_AGAIN {
            ran?;
        }
        for name in failed {
            println!("\nagain, alone: {name}");
            let arguments = [arguments, &["--exact", &name]].concat();
            run_program(&mut one.command(&arguments, variables))?;
        }
    }
    Ok(timed)
}

impl Built {
    fn command(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            // What makes the stable harness tell times.
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Zunstable-options", "--report-time"])
            .args(arguments)
            .envs(variables.iter().copied());
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
