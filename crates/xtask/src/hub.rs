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
const USED: [&str; 8] = [
    "Cargo.toml",
    "crates/engine/",
    "crates/lab/",
    "crates/method/",
    "crates/record/",
    "crates/report/",
    "crates/results/",
    "crates/sys/",
];

/// What differs from the main branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The hub itself.
    pub hub: bool,
    /// A crate that it uses.
    pub used: bool,
}

impl Changes {
    const ALL: Self = Self { hub: true, used: true };

    fn of(paths: &[String]) -> Self {
        let is_any = |starts: &[&str]| {
            paths
                .iter()
                .any(|path| starts.iter().any(|start| path.starts_with(start)))
        };
        Self {
            hub: is_any(&["hub/"]),
            used: is_any(&USED),
        }
    }
}

/// Returns what differs from the main branch; all of it if that cannot be told, as in a fresh clone.
pub fn is_changed() -> Changes {
    changed::files().map_or(Changes::ALL, |files| Changes::of(&files))
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
    let (name, value) = if long {
        ("SEEKLESS_TEST_LONG", "1")
    } else {
        ("SEEKLESS_TEST_DATABASES", "sqlite")
    };
    tests.env(name, value);
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
        let of = |paths: &[&str]| {
            let Changes { hub, used } = Changes::of(&paths.iter().map(ToString::to_string).collect::<Vec<_>>());
            (hub, used)
        };
        assert_eq!(of(&["crates/tools/src/lib.rs", "docs/hub.md"]), (false, false));
        assert_eq!(of(&["README.md", "hub/src/lib.rs"]), (true, false));
        assert_eq!(of(&["crates/results/src/lib.rs"]), (false, true));
        assert_eq!(of(&[]), (false, false));
    }
}
