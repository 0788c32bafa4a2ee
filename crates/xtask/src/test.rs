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
use crate::built::{self, Built, HUB_COMMAND, SERVER, Timed, cargo_command};
use crate::cost;
use crate::filesystems::{Matrix, Mounted, TestFileSystem};
use crate::fuzz;
use crate::process::{run as run_program, value_name};
use crate::python;
use crate::setup;

/// Where the tests of [`ON_FILE_SYSTEMS`] look for the directories to run in, separated by colons.
const TEST_DIRS: &str = "SEEKLESS_TEST_DIRS";

/// The variable that makes the tests try everything they can.
const TEST_LONG: &str = "SEEKLESS_TEST_LONG";

/// The tests that run on file systems, or in one directory where none can be mounted, with their arguments, and whether they also
/// run on layered ones. The first
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
    /// Unit, property and golden tests
    Test,
    /// The examples of the documentation
    DocTest,
    /// Contract and integration tests on ext4, XFS, btrfs and tmpfs; on overlay and FUSE, only `storage` and `cache`
    FileSystems,
    /// The content of a device right after an update was killed, and a few losses of power, on ext4, XFS and btrfs
    Crash,
    /// A minute of random commands on real file systems, with disturbances (`cargo xtask torture`)
    Torture,
    /// Files of gigabytes, and the cost of each method, in an optimized build
    Optimised,
    /// Fuzzing of untrusted input for a few seconds
    Fuzz,
    /// Reports in a browser without a network, and the pages of a hub
    Browser,
    /// The wheel of the Python package, its tests, and its types
    Python,
    /// rustdoc, warnings denied
    Doc,
}

/// What a step reports besides passing.
#[derive(Default)]
struct Found {
    skipped: Vec<String>,
    timed: Vec<Timed>,
}

impl Step {
    const FAST: [Self; 3] = [Self::Fmt, Self::Clippy, Self::Unit];

    fn run(self, is_long: bool, found: &mut Found) -> Result<()> {
        let long: &[_] = if is_long { &[(TEST_LONG, OsStr::new("1"))] } else { &[] };
        match self {
            Self::SetUp => found.skipped.extend(setup::install_missing()?),
            Self::Build => drop(built::build(&[])?),
            Self::Test => {
                let timed = built::run(&built::build(&[])?, |one| !is_on_file_systems(one), &[], long)?;
                found.timed.extend(timed);
                // It takes the place of the plain command until the next step builds that again.
                let hub = built::build(&HUB_COMMAND)?;
                found.timed.extend(built::run(&hub, |_| true, &[], long)?);
            }
            Self::Unit => {
                let units = built::build(&["--lib", "--bins"])?;
                found.timed.extend(built::run(&units, |_| true, &[], long)?);
            }
            Self::FileSystems => test_file_systems(long, found)?,
            Self::Crash => test_crashes(long, found)?,
            Self::Torture => {
                built::build(&[])?;
                found.skipped.extend(torture(false)?);
            }
            Self::Optimised => {
                cargo(&["test", "--release", "-p", "seekless", "--test", "large"])?;
                found.skipped.extend(cost::check()?);
            }
            Self::Fuzz => {
                let seconds = if is_long { FUZZ_SECONDS_LONG } else { FUZZ_SECONDS };
                found.skipped.extend(fuzz::briefly(seconds)?);
            }
            Self::Browser => found.skipped.extend(browser::test()?),
            Self::Python => found.skipped.extend(python::test()?),
            Self::Fmt => {
                cargo(&["fmt", "--all", "--check"])?;
                cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
            }
            Self::Clippy => {
                let denied = ["--", "-D", "warnings"];
                let all = ["clippy", "--workspace", "--all-targets"];
                cargo(&[&all[..], &SERVER, &denied].concat())?;
                let of_hub = ["clippy", "--workspace", "--lib", "--bins"];
                cargo(&[&of_hub[..], &SERVER, &HUB_COMMAND, &denied].concat())?;
                let smallest = ["clippy", "--package", "seekless", "--no-default-features"];
                cargo(&[&smallest[..], &denied].concat())?;
            }
            Self::DocTest => cargo(&[&["test", "--workspace", "--doc"][..], &SERVER].concat())?,
            Self::Doc => {
                let mut doc = cargo_command();
                doc.env("RUSTDOCFLAGS", "-D warnings");
                run_program(doc.args(["doc", "--workspace", "--no-deps"]).args(SERVER))?;
            }
        }
        Ok(())
    }
}

/// Runs the steps.
pub fn run(arguments: &Arguments) -> Result<()> {
    let steps = match arguments.only {
        Some(step) => vec![step],
        None if arguments.fast => Step::FAST.to_vec(),
        // The unit tests are among all tests.
        None => (Step::value_variants().iter().copied())
            .filter(|step| *step != Step::Unit)
            .collect(),
    };
    let mut done: Vec<(Step, Duration, &str)> = Vec::new();
    let mut all = Found::default();
    let mut result = Ok(());
    for step in steps {
        let name = value_name(&step);
        println!("\n=== {name} ===");
        let (started, known) = (Instant::now(), all.skipped.len());
        result = step
            .run(arguments.long, &mut all)
            .with_context(|| format!("step {name} failed"));
        let elapsed = started.elapsed();
        println!("=== {name}: {:.1} s", elapsed.as_secs_f64());
        for reason in &all.skipped[known..] {
            println!("skipped: {reason}");
        }
        done.push((step, elapsed, if result.is_ok() { "passed" } else { "FAILED" }));
        if result.is_err() {
            break;
        }
    }
    summarise(&done, all);
    result
}

fn summarise(done: &[(Step, Duration, &str)], mut found: Found) {
    println!("\n{:14} {:>8}  result", "step", "seconds");
    for (step, elapsed, result) in done {
        println!("{:14} {:8.1}  {result}", value_name(step), elapsed.as_secs_f64());
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

fn is_on_file_systems(one: &Built) -> bool {
    ON_FILE_SYSTEMS.iter().any(|(target, ..)| *target == one.target)
}

fn test_file_systems(variables: &[(&str, &OsStr)], found: &mut Found) -> Result<()> {
    let built = built::build(&[])?;
    let matrix = Matrix::mount(TestFileSystem::value_variants())?;
    if matrix.mounted.is_empty() {
        found
            .timed
            .extend(built::run(&built, is_on_file_systems, &[], variables)?);
    }
    for (test, arguments, on_layered) in ON_FILE_SYSTEMS {
        let mounted = matrix.mounted.iter();
        let wanted = mounted.filter(|mounted| on_layered || !mounted.file_system().is_layered());
        let timed = test_on(&built, test, wanted, arguments, variables)?;
        found.timed.extend(timed);
    }
    found.skipped.extend_from_slice(&matrix.skipped);
    Ok(())
}

/// The images are on XFS, where a copy of an image is a reflink, and so a snapshot of one moment.
fn test_crashes(variables: &[(&str, &OsStr)], found: &mut Found) -> Result<()> {
    let built = built::build(&[])?;
    let host = Matrix::mount(&[TestFileSystem::Xfs])?;
    if let Some(host) = host.mounted.first() {
        let wanted = [TestFileSystem::Ext4, TestFileSystem::Xfs, TestFileSystem::Btrfs];
        let matrix = Matrix::mount_in(host.point(), &wanted)?;
        let arguments = ["--ignored", "--show-output", "on_the_device"];
        let timed = test_on(&built, "contract", matrix.mounted.iter(), &arguments, variables)?;
        found.timed.extend(timed);
        found.skipped.extend_from_slice(&matrix.skipped);
        found.skipped.extend(torture(true)?);
    }
    let reasons = host.skipped.iter();
    found
        .skipped
        .extend(reasons.map(|reason| format!("devices right after a kill: {reason}")));
    Ok(())
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
