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

use crate::process::{capture, run_reading};

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
}

/// The cargo that runs us, at the top of the workspace.
pub fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The top of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds all tests, the command beside them.
pub fn build() -> Result<Vec<Built>> {
    build_with(&[])
}

/// Builds the unit tests.
pub fn build_units() -> Result<Vec<Built>> {
    build_with(&["--lib", "--bins"])
}

/// A file in the target directory that xtask itself was built in, wherever that is: `release/seekless`.
pub fn beside(name: &str) -> Result<PathBuf> {
    let ours = env::current_exe().context("cannot find this program's own file")?;
    let target = ours.parent().and_then(Path::parent);
    Ok(target
        .context("this program does not lie in a target directory")?
        .join(name))
}

fn build_with(arguments: &[&str]) -> Result<Vec<Built>> {
    let messages = capture(
        cargo_command()
            .args([
                "test",
                "--workspace",
                "--no-run",
                "--quiet",
                "--message-format",
                "json-render-diagnostics",
            ])
            .args(arguments),
    )?;
    let mut built = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("cargo said what is no JSON")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let is_test = message["profile"]["test"] == true;
        if let (true, Some(executable)) = (is_test, text(&message["executable"])) {
            let manifest = text(&message["manifest_path"]).context("an executable without a package")?;
            built.push(Built {
                target: text(&message["target"]["name"]).context("an executable without a target")?,
                directory: Path::new(&manifest)
                    .parent()
                    .context("a manifest in no directory")?
                    .to_owned(),
                executable: executable.into(),
            });
        }
    }
    // Cargo tells them as they get ready.
    built.sort_by(|one, other| (&one.directory, &one.executable).cmp(&(&other.directory, &other.executable)));
    Ok(built)
}

/// Runs those that are wanted, one after the other, with further arguments and variables.
pub fn run(
    built: &[Built],
    is_wanted: impl Fn(&Built) -> bool,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Result<Vec<Timed>> {
    let mut timed = Vec::new();
    for one in built.iter().filter(|one| is_wanted(one)) {
        println!("\n{} of {}", one.target, one.directory.display());
        let mut command = Command::new(&one.executable);
        command
            .current_dir(&one.directory)
            .env("CARGO_MANIFEST_DIR", &one.directory)
            // What makes the stable harness tell times.
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Zunstable-options", "--report-time"])
            .args(arguments)
            .envs(variables.iter().copied());
        run_reading(&mut command, |line| {
            if let Some((test, seconds)) = timing(line) {
                timed.push(Timed {
                    name: format!("{} {test}", one.target),
                    seconds,
                });
            }
        })?;
    }
    Ok(timed)
}

/// The test and its seconds, of a line `test NAME ... ok <0.123s>`.
fn timing(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, seconds) = rest.strip_suffix("s>")?.rsplit_once('<')?;
    Some((name, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_a_test_are_read_from_its_line() {
        assert_eq!(timing("test a::b ... ok <1.250s>"), Some(("a::b", 1.25)));
        assert_eq!(timing("test a::b ... FAILED <0.000s>"), Some(("a::b", 0.0)));
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
