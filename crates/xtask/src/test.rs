//! The project's one test command: set-up, formatting, lints, tests, real file systems, documentation.
//!
//! It stops at the first step that fails. What could not be tested here is said where it happens and again at the end.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};

use crate::browser;
use crate::filesystems::{self, FileSystem, Matrix};
use crate::fuzz;
use crate::process::run as run_program;
use crate::setup;

/// Where the tests of [`ON_FILE_SYSTEMS`] look for the folders to run in, separated by colons.
const TEST_DIRS: &str = "SEEKLESS_TEST_DIRS";

/// Package, test and arguments of what runs on file systems, and whether on layered ones too. The first holds each method
/// against an oracle; the second runs the methods of 2014 through the lab, and its output says which are not to be had
/// where, and why; the third holds what is said of storages and caches against what other programs say.
const ON_FILE_SYSTEMS: [(&str, &str, &[&str], bool); 3] = [
    ("seekless", "contract", &[], false),
    ("seekless-cli", "filesystems", &["--", "--show-output"], false),
    ("seekless-cli", "storage", &["--", "--show-output"], true),
];

/// Each fuzz target gets so long: enough to find what broke since it was last run for a minute.
const FUZZ_SECONDS: u32 = 5;

/// Which of the checks to run.
#[derive(Args)]
pub struct Arguments {
    /// Only formatting, lints and unit tests
    #[arg(long)]
    fast: bool,
    /// Only this step
    #[arg(long, value_enum, conflicts_with = "fast")]
    only: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Install the Debian packages that the tests need
    SetUp,
    /// cargo fmt --check
    Fmt,
    /// Clippy on everything, warnings denied
    Clippy,
    /// Unit tests alone
    Unit,
    /// Unit, property, contract and doc tests
    Test,
    /// The integration tests on ext4, XFS, btrfs and tmpfs, and on overlay and FUSE what is said of them
    FileSystems,
    /// What comes from strangers, mutated for a few seconds
    Fuzz,
    /// The report in a browser without a network
    Browser,
    /// rustdoc, warnings denied
    Doc,
}

impl Step {
    const FULL: [Self; 8] = [
        Self::SetUp,
        Self::Fmt,
        Self::Clippy,
        Self::Test,
        Self::FileSystems,
        Self::Fuzz,
        Self::Browser,
        Self::Doc,
    ];
    const FAST: [Self; 3] = [Self::Fmt, Self::Clippy, Self::Unit];

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Runs it and returns what it skipped.
    fn run(self) -> Result<Vec<String>> {
        match self {
            Self::SetUp => return setup::install_missing(),
            Self::FileSystems => return test_file_systems(),
            Self::Fuzz => return fuzz::briefly(FUZZ_SECONDS),
            Self::Browser => return browser::test(),
            Self::Fmt => {
                cargo(&["fmt", "--all", "--check"])?;
                cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
            }
            Self::Clippy => cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?,
            Self::Unit => cargo(&["test", "--workspace", "--lib", "--bins"])?,
            Self::Test => cargo(&["test", "--workspace"])?,
            Self::Doc => run_program(cargo_command().env("RUSTDOCFLAGS", "-D warnings").args([
                "doc",
                "--workspace",
                "--no-deps",
            ]))?,
        }
        Ok(Vec::new())
    }
}

/// Runs the steps.
pub fn run(arguments: &Arguments) -> Result<()> {
    let steps = match arguments.only {
        Some(step) => vec![step],
        None if arguments.fast => Step::FAST.to_vec(),
        None => Step::FULL.to_vec(),
    };
    let mut done: Vec<(Step, Duration, &str)> = Vec::new();
    let mut skipped = Vec::new();
    let mut failure = Ok(());
    for step in steps {
        println!("\n=== {} ===", step.name());
        let started = Instant::now();
        let result = step.run();
        let elapsed = started.elapsed();
        println!("=== {}: {:.1} s", step.name(), elapsed.as_secs_f64());
        match result {
            Ok(reasons) => {
                for reason in &reasons {
                    println!("skipped: {reason}");
                }
                skipped.extend(reasons);
                done.push((step, elapsed, "passed"));
            }
            Err(error) => {
                done.push((step, elapsed, "FAILED"));
                failure = Err(error).with_context(|| format!("step {} failed", step.name()));
                break;
            }
        }
    }
    summarise(&done, &skipped);
    failure
}

fn summarise(done: &[(Step, Duration, &str)], skipped: &[String]) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["step", "seconds", "result"]);
    for (step, elapsed, result) in done {
        table.add_row([
            step.name(),
            format!("{:.1}", elapsed.as_secs_f64()),
            (*result).to_owned(),
        ]);
    }
    let total: Duration = done.iter().map(|(_, elapsed, _)| *elapsed).sum();
    table.add_row(["total".to_owned(), format!("{:.1}", total.as_secs_f64()), String::new()]);
    if let Some(seconds) = table.column_mut(1) {
        seconds.set_cell_alignment(CellAlignment::Right);
    }
    println!("\n{table}");
    for reason in skipped {
        println!("skipped: {reason}");
    }
}

fn test_file_systems() -> Result<Vec<String>> {
    if let Some(reason) = filesystems::why_not_here() {
        return Ok(vec![format!("file-system matrix: {reason}")]);
    }
    let matrix = Matrix::mount(&FileSystem::ALL)?;
    for (package, test, arguments, on_layered) in ON_FILE_SYSTEMS {
        let wanted = matrix
            .mounted()
            .iter()
            .filter(|mounted| on_layered || !mounted.file_system().is_layered());
        let (names, folders): (Vec<_>, Vec<_>) = wanted
            .map(|mounted| (mounted.file_system().name(), mounted.point().as_os_str()))
            .unzip();
        if folders.is_empty() {
            continue;
        }
        println!("{test} on {}", names.join(", "));
        let folders: OsString = folders.join(":".as_ref());
        let mut command = cargo_command();
        command.args(["test", "-p", package, "--test", test]).args(arguments);
        run_program(command.env(TEST_DIRS, &folders))?;
    }
    Ok(matrix.skipped().to_vec())
}

fn cargo(arguments: &[&str]) -> Result<()> {
    run_program(cargo_command().args(arguments))
}

/// The cargo that runs us, at the top of the workspace.
fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}
