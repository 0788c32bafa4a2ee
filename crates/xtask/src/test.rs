//! The project's one test command: set-up, formatting, lints, tests, real file systems, documentation.
//!
//! It stops at the first step that fails. Skipped tests are printed when they are skipped and again at the end, with
//! the seconds of each step, the slowest tests, and those that passed only when they were run again, alone.
//!
//! Nothing is compiled twice: all steps that run tests or the command use what [`built::build`] made of the whole workspace.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::browser;
use crate::built::{self, Built, Timed, cargo_command};
use crate::cost;
use crate::filesystems::{self, Matrix, Mounted, TestFileSystem};
use crate::fuzz;
use crate::process::{check_interrupt, run as run_program};
use crate::setup;

/// Where the tests of [`ON_FILE_SYSTEMS`] look for the directories to run in, separated by colons.
const TEST_DIRS: &str = "SEEKLESS_TEST_DIRS";

/// The variable that makes the tests try everything they can.
const TEST_LONG: &str = "SEEKLESS_TEST_LONG";

/// The tests that run on file systems, with their arguments, and whether they also run on layered ones. The first
/// compares each method with an oracle. The second runs the methods of 2014 in the lab; its output says which are
/// unavailable where, and why. The third compares `storage` and `cache` with other programs.
const ON_FILE_SYSTEMS: [(&str, &[&str], bool); 3] = [
    ("contract", &[], false),
    ("filesystems", &["--show-output"], false),
    ("storage", &["--show-output"], true),
];

/// Seconds for each fuzz target, enough to find defects that are new since the last run of a minute. One target runs
/// per processor.
const FUZZ_SECONDS: u32 = 5;
const FUZZ_SECONDS_LONG: u32 = 60;

/// How many of the slowest tests are shown.
const SLOWEST: usize = 10;

/// Which of the checks to run.
#[derive(Args)]
pub struct Arguments {
    /// Only formatting, lints and unit tests
    #[arg(long)]
    fast: bool,
    /// Try all combinations of options and fuzz each target for a minute: for changes to code that writes files
    #[arg(long, conflicts_with = "fast")]
    long: bool,
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
    /// Compile the tests and the command
    Build,
    /// Unit, property, contract and golden tests
    Test,
    /// The examples of the documentation
    DocTest,
    /// The integration tests on ext4, XFS, btrfs and tmpfs; on overlay and FUSE, only `storage` and `cache`
    FileSystems,
    /// The content of a device right after an update was killed, and a few losses of power, on ext4, XFS and btrfs
    Crash,
    /// A minute of random commands on real file systems, with disturbances (`cargo xtask torture`)
    Torture,
    /// Files of gigabytes, and the cost of each method, in an optimized build
    Optimised,
    /// Fuzzing of untrusted input for a few seconds
    Fuzz,
    /// The report in a browser without a network
    Browser,
    /// rustdoc, warnings denied
    Doc,
}

/// What a step reports besides passing.
#[derive(Default)]
struct Found {
    skipped: Vec<String>,
    timed: Vec<Timed>,
}

/// What was skipped, and why.
fn skipped(skipped: Vec<String>) -> Found {
    let timed = Vec::new();
    Found { skipped, timed }
}

/// Tests that were run.
fn timed(timed: Vec<Timed>) -> Found {
    let skipped = Vec::new();
    Found { skipped, timed }
}

impl Step {
    const FULL: [Self; 13] = [
        Self::SetUp,
        Self::Fmt,
        Self::Clippy,
        Self::Build,
        Self::Test,
        Self::DocTest,
        Self::FileSystems,
        Self::Crash,
        Self::Torture,
        Self::Optimised,
        Self::Fuzz,
        Self::Browser,
        Self::Doc,
    ];
    const FAST: [Self; 3] = [Self::Fmt, Self::Clippy, Self::Unit];

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn run(self, is_long: bool) -> Result<Found> {
        let long: &[_] = if is_long { &[(TEST_LONG, OsStr::new("1"))] } else { &[] };
        match self {
            Self::SetUp => return Ok(skipped(setup::install_missing()?)),
            Self::Build => drop(built::build()?),
            Self::Test => return Ok(timed(built::run(&built::build()?, |_| true, &[], long)?)),
            Self::Unit => return Ok(timed(built::run(&built::build_units()?, |_| true, &[], long)?)),
            Self::FileSystems => return test_file_systems(long),
            Self::Crash => return test_crashes(long),
            Self::Torture => {
                built::build()?;
                return Ok(skipped(torture(false)?));
            }
            Self::Optimised => {
                cargo(&["test", "--release", "-p", "seekless", "--test", "large"])?;
                return Ok(skipped(cost::check()?));
            }
            Self::Fuzz => {
                let seconds = if is_long { FUZZ_SECONDS_LONG } else { FUZZ_SECONDS };
                return Ok(skipped(fuzz::briefly(seconds)?));
            }
            Self::Browser => return Ok(skipped(browser::test()?)),
            Self::Fmt => {
                cargo(&["fmt", "--all", "--check"])?;
                cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
            }
            Self::Clippy => {
                cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
                let smallest = ["clippy", "--package", "seekless", "--no-default-features"];
                cargo(&[&smallest[..], &["--", "-D", "warnings"]].concat())?;
            }
            Self::DocTest => cargo(&["test", "--workspace", "--doc"])?,
            Self::Doc => run_program(cargo_command().env("RUSTDOCFLAGS", "-D warnings").args([
                "doc",
                "--workspace",
                "--no-deps",
            ]))?,
        }
        Ok(Found::default())
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
    let mut all = Found::default();
    let mut failure = Ok(());
    for step in steps {
        println!("\n=== {} ===", step.name());
        let started = Instant::now();
        let result = step.run(arguments.long);
        let elapsed = started.elapsed();
        println!("=== {}: {:.1} s", step.name(), elapsed.as_secs_f64());
        match result {
            Ok(found) => {
                for reason in &found.skipped {
                    println!("skipped: {reason}");
                }
                all.skipped.extend(found.skipped);
                all.timed.extend(found.timed);
                done.push((step, elapsed, "passed"));
            }
            Err(error) => {
                done.push((step, elapsed, "FAILED"));
                failure = Err(error).with_context(|| format!("step {} failed", step.name()));
                break;
            }
        }
    }
    summarise(&done, all);
    failure
}

fn summarise(done: &[(Step, Duration, &str)], mut found: Found) {
    println!("\n{:14} {:>8}  result", "step", "seconds");
    for (step, elapsed, result) in done {
        println!("{:14} {:8.1}  {result}", step.name(), elapsed.as_secs_f64());
    }
    let total: Duration = done.iter().map(|(_, elapsed, _)| *elapsed).sum();
    println!("{:14} {:8.1}", "total", total.as_secs_f64());
    found.timed.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    if !found.timed.is_empty() {
        println!("\nslowest tests");
    }
    for slow in found.timed.iter().take(SLOWEST) {
        println!("{:7.1} s  {}", slow.seconds, slow.name);
    }
    for unstable in found.timed.iter().filter(|test| test.is_unstable) {
        println!(
            "unstable: {} failed beside other tests, and passed alone",
            unstable.name
        );
    }
    for reason in found.skipped {
        println!("skipped: {reason}");
    }
}

fn test_file_systems(variables: &[(&str, &OsStr)]) -> Result<Found> {
    if let Some(reason) = filesystems::why_not_here() {
        return Ok(skipped(vec![format!("file-system matrix: {reason}")]));
    }
    let built = built::build()?;
    let matrix = Matrix::mount(&TestFileSystem::ALL)?;
    let mut timed = Vec::new();
    for (test, arguments, on_layered) in ON_FILE_SYSTEMS {
        let wanted = matrix
            .mounted()
            .iter()
            .filter(|mounted| on_layered || !mounted.file_system().is_layered());
        timed.extend(test_on(&built, test, wanted, arguments, variables)?);
    }
    Ok(Found {
        skipped: matrix.skipped().to_vec(),
        timed,
    })
}

/// The images are on XFS, where a copy of an image is a reflink, and so a snapshot of one moment.
fn test_crashes(variables: &[(&str, &OsStr)]) -> Result<Found> {
    if let Some(reason) = filesystems::why_not_here() {
        return Ok(skipped(vec![format!("devices right after a kill: {reason}")]));
    }
    let built = built::build()?;
    let directory = filesystems::directory()?;
    let host = match Mounted::new(TestFileSystem::Xfs, directory.path()) {
        Ok(host) => host,
        Err(error) => {
            check_interrupt()?;
            return Ok(skipped(vec![format!("devices right after a kill: {error:#}")]));
        }
    };
    let matrix = Matrix::mount_in(
        host.point(),
        &[TestFileSystem::Ext4, TestFileSystem::Xfs, TestFileSystem::Btrfs],
    )?;
    let arguments = ["--ignored", "--show-output", "on_the_device"];
    let timed = test_on(&built, "contract", matrix.mounted().iter(), &arguments, variables)?;
    let skipped = [matrix.skipped(), &torture(true)?].concat();
    Ok(Found { skipped, timed })
}

/// A minute of random trials, or a few losses of power; what was skipped.
#[cfg(target_os = "linux")]
fn torture(power: bool) -> Result<Vec<String>> {
    crate::torture::briefly(power)
}

#[cfg(not(target_os = "linux"))]
fn torture(_: bool) -> Result<Vec<String>> {
    Ok(vec!["torture: needs Linux".to_owned()])
}

/// Runs an integration test with the directories of file systems.
fn test_on<'a>(
    built: &[Built],
    test: &str,
    mounted: impl Iterator<Item = &'a Mounted>,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Result<Vec<Timed>> {
    let (names, directories): (Vec<_>, Vec<_>) = mounted
        .map(|mounted| (mounted.file_system().name(), mounted.point().as_os_str()))
        .unzip();
    if directories.is_empty() {
        return Ok(Vec::new());
    }
    println!("{test} on {}", names.join(", "));
    let directories: OsString = directories.join(":".as_ref());
    let variables = [variables, &[(TEST_DIRS, directories.as_os_str())]].concat();
    built::run(built, |one| one.target == test, arguments, &variables)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    run_program(cargo_command().args(arguments))
}
