//! The checks of the hub, which is a workspace of its own (`hub/`) with a target directory of its own.
//!
//! Its tests take minutes, so they are for changes of the hub and for long runs; a change of a crate that it uses asks only whether it
//! still compiles. The test of its pages in a browser is in `browser.rs`.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Result;

use crate::built::{cargo_command, root};
use crate::changed;
use crate::process::{run, run_reading};

/// What decides how a hub compiles, besides `hub/` itself: the crates that it uses, also by others, and their versions.
#[rustfmt::skip]
const USED: [&str; 8] = [
    "Cargo.toml", "crates/engine/", "crates/lab/", "crates/method/", "crates/record/", "crates/report/", "crates/results/",
    "crates/sys/",
];

/// Whether the hub itself differs from the main branch, and whether a crate does that it uses. Both do if that cannot be told, as in a
/// fresh clone.
pub fn is_changed() -> (bool, bool) {
    changed::files().map_or((true, true), |files| changes(&files))
}

fn changes(paths: &[String]) -> (bool, bool) {
    let begins = |path: &String, starts: &[&str]| starts.iter().any(|start| path.starts_with(start));
    let is_any = |starts: &[&str]| paths.iter().any(|path| begins(path, starts));
    (is_any(&["hub/"]), is_any(&USED))
}

/// Compiles all of the hub as far as errors are found.
pub fn check() -> Result<()> {
    run(cargo().args(["check", "--all-targets"]))
}

/// Clippy on all of it, warnings denied.
pub fn clippy() -> Result<()> {
    run(cargo().args(["clippy", "--all-targets", "--", "-D", "warnings"]))
}

/// Runs its tests on `SQLite`; if `long`, also on `PostgreSQL`, with more kills and runs. Returns what was skipped.
pub fn test(long: bool) -> Result<Vec<String>> {
    let mut tests = cargo();
    tests.args(["test", "--", "--show-output"]);
    let variable = [("SEEKLESS_TEST_DATABASES", "sqlite"), ("SEEKLESS_TEST_LONG", "1")][usize::from(long)];
    tests.env(variable.0, variable.1);
    let mut skipped = BTreeSet::new();
    run_reading(&mut tests, |line| {
        skipped.extend(line.strip_prefix("skipped: ").map(|why| format!("hub: {why}")));
    })?;
    Ok(skipped.into_iter().collect())
}

/// The cargo that runs us, in the workspace of the hub. It shares nothing with the one of seekless.
pub fn cargo() -> Command {
    let mut command = cargo_command();
    command.current_dir(root().join("hub")).env_remove("CARGO_TARGET_DIR");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_of_the_hub_or_of_a_crate_that_it_uses() {
        let of = |paths: &[&str]| changes(&paths.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["crates/tools/src/lib.rs", "docs/hub.md"]), (false, false));
        assert_eq!(of(&["README.md", "hub/src/lib.rs"]), (true, false));
        assert_eq!(of(&["crates/results/src/lib.rs"]), (false, true));
        assert_eq!(of(&[]), (false, false));
    }
}
