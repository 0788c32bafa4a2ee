//! The project's one test command: set-up, formatting, lints, tests, real file systems, documentation.
//!
//! The short form stops at the first step that fails; `--long` goes on with the others. Skipped tests are printed when
//! they are skipped and again at the end, with the seconds of each step, the slowest tests, and those that passed only
//! when they were run again, alone.
//!
//! A change must pass the short form; `--long` adds what finds little for its time. The short form compiles dependencies twice: for
//! Clippy and the documentation, and for this program, the tests, the command and the wheel; once more those of the hub, if it changed.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::browser;
use crate::built::{self, ALL, Built, Timed, cargo_command, root};
use crate::changed;
use crate::cost;
use crate::filesystems::{Matrix, MountedImage, TestFileSystem};
use crate::fuzz;
use crate::hub;
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

/// File systems of the short form: the usual one, and one with reflinks.
const SHORT: [TestFileSystem; 2] = [TestFileSystem::Ext4, TestFileSystem::Xfs];

/// Seconds for each fuzz target. One target runs per processor.
const FUZZ_SECONDS: u32 = 60;

/// Checks the types of the workspace for another system, where the script is: its standard library is built for that.
const CHECK_TARGET: &str = "../shared/tools/check-target";

/// How many of the slowest tests are shown.
const SLOWEST: usize = 10;

/// Which of the checks to run.
#[derive(Args)]
pub struct Arguments {
    /// Only formatting, lints and unit tests, of the packages that differ from the main branch and those that depend on them
    #[arg(long)]
    fast: bool,
    /// Also all file systems and combinations of options, random trials, losses of power, fuzzing, Spark, and the hub on both databases
    #[arg(long, conflicts_with = "fast")]
    long: bool,
    /// Only this step
    #[arg(long, value_enum, conflicts_with = "fast")]
    only: Option<Step>,
}

/// A step, in the order in which they run. Those from `Features` on are of the long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, ValueEnum)]
enum Step {
    /// Install the Debian packages that the tests need
    SetUp,
    /// cargo fmt --check
    Fmt,
    /// Clippy on everything, warnings denied
    Clippy,
    /// Unit tests of what differs from the main branch
    Unit,
    /// Compile the tests and the command
    Build,
    /// Unit, property and golden tests
    Test,
    /// The examples of the documentation
    DocTest,
    /// Contract and integration tests on ext4 and XFS; with --long also btrfs and tmpfs, and `storage` and `cache` on overlay and FUSE
    FileSystems,
    /// The content of a device right after an update was killed, on ext4 and XFS; with --long also btrfs
    Crash,
    /// The hub, if it differs from the main branch: its lints, and its tests on `SQLite`; with --long always, also on `PostgreSQL`
    Hub,
    /// Reports in a browser without a network; with --long also the pages of a hub
    Browser,
    /// The wheel of the Python package, its tests, and its types; with --long also on Spark
    Python,
    /// rustdoc, warnings denied
    Doc,
    /// The libraries with few of their features (--long)
    Features,
    /// A minute of random commands on real file systems, with disturbances, and a few losses of power (--long)
    Torture,
    /// Files of gigabytes, and the cost of each method, in an optimized build (--long)
    Optimised,
    /// Fuzzing of untrusted input (--long)
    Fuzz,
    /// The types on FreeBSD (--long)
    Types,
}

impl Step {
    const FAST: [Self; 3] = [Self::Fmt, Self::Clippy, Self::Unit];

    /// Whether only the long form has it.
    fn is_long(self) -> bool {
        self >= Self::Features
    }
}

/// Builds with few features, as `cargo clippy` takes them. The other steps have all.
const FEW_FEATURES: [&str; 4] = [
    "seekless --no-default-features",
    "seekless-engine --no-default-features",
    "seekless-cli --no-default-features",
    "seekless-cli",
];
/// The features of the tools, each of which is also built alone.
const TOOLS: [&str; 6] = ["cache", "cmp", "cp", "dupes", "holes", "update"];

/// What a step reports besides passing.
#[derive(Default)]
struct Found {
    skipped: Vec<String>,
    timed: Vec<Timed>,
}

impl Step {
    fn run(self, arguments: &Arguments, found: &mut Found) -> Result<()> {
        let is_long = arguments.long;
        let long: &[_] = if is_long { &[(TEST_LONG, OsStr::new("1"))] } else { &[] };
        match self {
            Self::SetUp => found.skipped.extend(setup::install_missing(is_long)?),
            Self::Fmt => {
                for manifest in ["Cargo.toml", "fuzz/Cargo.toml", "hub/Cargo.toml"] {
                    cargo(&format!("fmt --all --check --manifest-path {manifest}"))?;
                }
            }
            Self::Clippy if arguments.fast => {
                if let Some(selected) = differing()? {
                    clippy(&selected)?;
                }
            }
            Self::Clippy => clippy(ALL)?,
            Self::Unit => {
                if let Some(selected) = differing()? {
                    let units = built::build_with(&format!("{selected} --lib --bins"))?;
                    found.timed.extend(built::run(&units, |_| true, &[], long)?);
                }
            }
            Self::Build => drop(built::build()?),
            Self::Test => {
                let timed = built::run(&built::build()?, |one| !is_on_file_systems(one), &[], long)?;
                found.timed.extend(timed);
            }
            Self::DocTest => cargo(&format!("test --doc {ALL}"))?,
            Self::FileSystems => test_file_systems(is_long, long, found)?,
            Self::Crash => test_crashes(is_long, long, found)?,
            Self::Hub => {
                let (is_hub, is_used) = hub::is_changed();
                if is_long || is_hub {
                    hub::clippy()?;
                    found.skipped.extend(hub::test(is_long)?);
                } else if is_used {
                    hub::check()?;
                }
            }
            Self::Browser => found.skipped.extend(browser::test(is_long)?),
            Self::Python => found.skipped.extend(python::test(is_long)?),
            Self::Doc => {
                let mut doc = cargo_command();
                doc.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps"]);
                run_program(doc.args(ALL.split(' ')))?;
            }
            Self::Features => {
                let alone = TOOLS.map(|tool| format!("seekless-tools --no-default-features --features {tool}"));
                for few in FEW_FEATURES.iter().copied().chain(alone.iter().map(String::as_str)) {
                    cargo(&format!("clippy --package {few} -- -D warnings"))?;
                }
            }
            Self::Torture => {
                built::build()?;
                for power in [false, true] {
                    found.skipped.extend(torture(power)?);
                }
            }
            Self::Optimised => {
                cargo("test --release -p seekless-engine --test large")?;
                found.skipped.extend(cost::check()?);
            }
            Self::Fuzz => found.skipped.extend(fuzz::briefly(FUZZ_SECONDS)?),
            Self::Types if !root().join(CHECK_TARGET).exists() => {
                let reason = format!("the types on FreeBSD: there is no {CHECK_TARGET}");
                found.skipped.push(reason);
            }
            Self::Types => {
                let mut check = Command::new(root().join(CHECK_TARGET));
                check.args(["x86_64-unknown-freebsd", "-p", "seekless", "-p", "seekless-engine"]);
                run_program(check.current_dir(root()))?;
            }
        }
        Ok(())
    }
}

fn clippy(selected: &str) -> Result<()> {
    cargo(&format!("clippy --all-targets {selected} -- -D warnings"))
}

/// The arguments of cargo that select the packages that differ from the main branch, with all features; `None` if none differs.
fn differing() -> Result<Option<String>> {
    let Some(packages) = changed::packages()? else {
        return Ok(Some(ALL.to_owned()));
    };
    if packages.is_empty() {
        println!("no package differs from the main branch");
        return Ok(None);
    }
    println!("{}", packages.join(", "));
    let selected = packages.iter().map(|package| format!("--package={package} "));
    Ok(Some(selected.collect::<String>() + "--all-features"))
}

/// Runs the steps.
pub fn run(arguments: &Arguments) -> Result<()> {
    // The unit tests are among all tests.
    let is_usual = |step: &Step| *step != Step::Unit && (arguments.long || !step.is_long());
    let steps = match arguments.only {
        Some(step) => vec![step],
        None if arguments.fast => Step::FAST.to_vec(),
        None => Step::value_variants().iter().copied().filter(is_usual).collect(),
    };
    let mut done: Vec<(Step, Duration, &str)> = Vec::new();
    let mut all = Found::default();
    let mut outcome = Ok(());
    for step in steps {
        let name = value_name(&step);
        println!("\n=== {name} ===");
        let (started, known) = (Instant::now(), all.skipped.len());
        let result = step.run(arguments, &mut all);
        let result = result.with_context(|| format!("step {name} failed"));
        let elapsed = started.elapsed();
        println!("=== {name}: {:.1} s", elapsed.as_secs_f64());
        for reason in &all.skipped[known..] {
            println!("skipped: {reason}");
        }
        done.push((step, elapsed, if result.is_ok() { "passed" } else { "FAILED" }));
        if let (Err(_), Err(error)) = (&outcome, &result) {
            eprintln!("error: {error:#}");
        }
        outcome = outcome.and(result);
        if outcome.is_err() && !arguments.long {
            break;
        }
    }
    summarise(&done, all);
    outcome
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

fn test_file_systems(is_long: bool, variables: &[(&str, &OsStr)], found: &mut Found) -> Result<()> {
    let built = built::build()?;
    let all = TestFileSystem::value_variants();
    let matrix = Matrix::mount(if is_long { all } else { &SHORT })?;
    if matrix.mounted.is_empty() {
        let timed = built::run(&built, is_on_file_systems, &[], variables)?;
        found.timed.extend(timed);
    }
    for (test, arguments, on_layered) in ON_FILE_SYSTEMS {
        let mounted = matrix.mounted.iter();
        let wanted = mounted.filter(|mounted| on_layered || !mounted.file_system.is_layered());
        let timed = test_on(&built, test, wanted, arguments, variables)?;
        found.timed.extend(timed);
    }
    found.skipped.extend_from_slice(&matrix.skipped);
    Ok(())
}

/// The images are on XFS, where a copy of an image is a reflink, and so a snapshot of one moment.
fn test_crashes(is_long: bool, variables: &[(&str, &OsStr)], found: &mut Found) -> Result<()> {
    let built = built::build()?;
    let host = Matrix::mount(&[TestFileSystem::Xfs])?;
    if let Some(host) = host.mounted.first() {
        let wanted = [&SHORT[..], if is_long { &[TestFileSystem::Btrfs] } else { &[] }].concat();
        let matrix = Matrix::mount_in(&host.point, &wanted)?;
        let arguments = ["--ignored", "--show-output", "on_the_device"];
        let timed = test_on(&built, "contract", matrix.mounted.iter(), &arguments, variables)?;
        found.timed.extend(timed);
        found.skipped.extend_from_slice(&matrix.skipped);
    }
    let reasons = host.skipped.iter();
    let reasons = reasons.map(|reason| format!("devices right after a kill: {reason}"));
    found.skipped.extend(reasons);
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
    mounted: impl Iterator<Item = &'a MountedImage>,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> Result<Vec<Timed>> {
    let pairs = mounted.map(|mounted| (mounted.file_system.name(), mounted.point.as_os_str()));
    let (names, directories): (Vec<_>, Vec<_>) = pairs.unzip();
    if directories.is_empty() {
        return Ok(Vec::new());
    }
    println!("{test} on {}", names.join(", "));
    let directories: OsString = directories.join(":".as_ref());
    let variables = [variables, &[(TEST_DIRS, directories.as_os_str())]].concat();
    built::run(built, |one| one.target == test, arguments, &variables)
}

fn cargo(words: &str) -> Result<()> {
    run_program(cargo_command().args(words.split(' ')))
}
