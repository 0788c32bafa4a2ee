//! A campaign against the built `seekless`: random commands on random files on real file systems, killed, stopped, failed by
//! injected errors, full disks and losses of power, with other processes at the same files. A model says what must hold after each.
//!
//! Each trial is drawn from a seed of its own, and can be run again alone; moments and interleavings are not repeated by
//! that. `docs/reliability.md` says what is asserted.

mod contents;
mod disturb;
mod disturber;
mod files;
mod job;
mod plan;
mod power;
mod site;
mod trial;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use tempfile::TempDir;

use self::disturb::{FILE_SYSTEMS, LEASE_BREAK_SECONDS};
use self::plan::{TrialPlan, TrialSubject};
use self::power::{Power, PowerPlan};
use self::site::{Site, TrialReport};
use crate::built::{beside, cargo_command};
use crate::filesystems::{self, Matrix, Mounted, TestFileSystem};
use crate::process::{capture, check_interrupt, is_installed, run as run_program};

/// How long, on what, and which trials.
#[derive(Args, Default)]
pub struct Arguments {
    /// Stop after this many minutes
    #[arg(long, value_name = "N", required_unless_present_any = ["seed", "seeds"])]
    minutes: Option<f64>,
    /// Run the trials of the seeds below N
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    seeds: Option<u64>,
    /// Run only the trial of this seed
    #[arg(long, value_name = "S", conflicts_with_all = ["minutes", "seeds", "of", "on"])]
    seed: Option<u64>,
    /// Run that trial this many times: what depends on the moment may take several
    #[arg(long, value_name = "N", default_value_t = 1, requires = "seed")]
    repeat: u64,
    /// File systems, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = file_system)]
    on: Vec<TestFileSystem>,
    /// What the trials are of [default: all]
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    of: Vec<TrialSubject>,
    /// The power fails in each trial, during one of its commands or soon after; on ext4, XFS and btrfs
    #[arg(long, conflicts_with_all = ["on", "of"])]
    power: bool,
    /// Test this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Trials at a time [default: two per processor, as stopped ones wait]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
}

fn file_system(name: &str) -> Result<TestFileSystem, String> {
    let found = FILE_SYSTEMS.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("one of {}", FILE_SYSTEMS.map(TestFileSystem::name).join(", ")))
}

/// Runs a campaign, or one trial.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(reason) = why_not_here() {
        bail!("{reason}");
    }
    let binary = arguments.binary.clone().map_or_else(build, Ok)?;
    let binary = fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?;
    for reason in campaign(&binary, arguments)? {
        println!("skipped: {reason}");
    }
    Ok(())
}

fn build() -> Result<PathBuf> {
    run_program(cargo_command().args(["build", "--quiet", "--package", "seekless-cli"]))?;
    beside("debug/seekless")
}

/// A campaign of a minute on all file systems with the binary that the tests use, or a few losses of power; what was skipped.
pub fn briefly(power: bool) -> Result<Vec<String>> {
    if let Some(reason) = why_not_here() {
        return Ok(vec![format!("torture: {reason}")]);
    }
    let arguments = Arguments {
        minutes: (!power).then_some(1.0),
        seeds: power.then_some(20),
        power,
        ..Arguments::default()
    };
    campaign(&beside("debug/seekless")?, &arguments)
}

fn why_not_here() -> Option<&'static str> {
    filesystems::why_not_here().or_else(|| (!is_installed("strace")).then_some("needs strace"))
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    rows: BTreeMap<(&'static str, String), [usize; 8]>,
    kinds: BTreeMap<&'static str, Vec<u64>>,
    known_limits: usize,
}

const COLUMNS: &str =
    "file system|command|trials|exit 0|kills|stops and delays|others' writes|errors injected|full disks|failures";

fn campaign(binary: &Path, arguments: &Arguments) -> Result<Vec<String>> {
    let on = match arguments.seed {
        // It has the images.
        _ if arguments.power => vec![TestFileSystem::Xfs],
        Some(seed) => vec![disturb::file_system(seed)],
        None if arguments.on.is_empty() => FILE_SYSTEMS.to_vec(),
        None => arguments.on.clone(),
    };
    let processors = thread::available_parallelism()?.get();
    let workers = if arguments.seed.is_some() {
        1
    } else {
        arguments.workers.unwrap_or(2 * processors)
    };
    let _lease_break = LeaseBreakTime::shorten()?;
    // A set of file systems for each worker, so that it can fill them.
    let sets = (0..workers)
        .map(|_| make_file_systems(&on))
        .collect::<Result<Vec<_>>>()?;
    let (first, step, count) = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => (seed, 0, arguments.repeat),
        (None, Some(end)) => (0, 1, end),
        (None, None) => (fastrand::u64(..), 1, u64::MAX),
    };
    let seconds = arguments.minutes.map_or(1e9, |minutes| 60.0 * minutes.clamp(0.0, 1e6));
    let (started, taken) = (Instant::now(), AtomicU64::new(0));
    let next_seed = || {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        let is_over = number >= count || started.elapsed().as_secs_f64() >= seconds;
        (!is_over).then(|| first.wrapping_add(number.wrapping_mul(step)))
    };
    let tally = Mutex::new(Tally::default());
    let result = thread::scope(|scope| {
        let (next_seed, tally) = (&next_seed, &tally);
        let start = |set| scope.spawn(move || work(set, binary, next_seed, arguments, tally));
        let threads: Vec<_> = sets.iter().map(start).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let tally = tally.into_inner().context("a trial panicked")?;
    println!("\n{}", tally.table());
    println!("known limits met: {}", tally.known_limits);
    for (kind, seeds) in &tally.kinds {
        println!("{kind}: {} trials, seeds {seeds:?}", seeds.len());
    }
    result?;
    let failures = tally.total(7);
    ensure!(failures == 0, "{failures} trials failed");
    Ok(sets[0].0.skipped().to_vec())
}

/// Makes the file systems of a worker, and a directory elsewhere.
fn make_file_systems(on: &[TestFileSystem]) -> Result<(Matrix, TempDir)> {
    let matrix = Matrix::mount(on)?;
    let reasons = matrix.skipped().join("; ");
    ensure!(!matrix.mounted().is_empty(), "no file system can be mounted: {reasons}");
    let is_tmpfs = |one: &&Mounted| one.file_system() == TestFileSystem::Tmpfs;
    if let Some(mounted) = matrix.mounted().iter().find(is_tmpfs) {
        // Filling it takes memory.
        let mut remount = Command::new("mount");
        capture(remount.args(["-o", "remount,size=32M"]).arg(mounted.point()))?;
    }
    Ok((matrix, tempfile::tempdir()?))
}

fn work(
    (matrix, aside): &(Matrix, TempDir),
    binary: &Path,
    next_seed: &impl Fn() -> Option<u64>,
    arguments: &Arguments,
    tally: &Mutex<Tally>,
) -> Result<()> {
    let started = Instant::now();
    while let Some(seed) = next_seed() {
        check_interrupt()?;
        if !arguments.of.is_empty() && !arguments.of.contains(&TrialSubject::seed(seed)) {
            continue;
        }
        let plan = if arguments.power {
            PowerPlan::draw(seed)
        } else {
            TrialPlan::draw(seed)
        };
        let is_its = |one: &&Mounted| plan.power.is_some() || one.file_system() == plan.file_system;
        let Some(mounted) = matrix.mounted().iter().find(is_its) else {
            continue;
        };
        let site = Site {
            seekless: binary,
            directory: mounted.point().join("trial"),
            aside: aside.path(),
            state: mounted.point().join("trial/state"),
            power: None,
        };
        let report = match &plan.power {
            Some(power) => Power::mount(power, &site).and_then(|mounted| trial::run(&plan, &mounted.site(&site))),
            None => trial::run(&plan, &site),
        };
        let report = report.with_context(|| format!("trial {seed}:\n{plan:?}"))?;
        let is_failed = !report.faults.is_empty();
        if is_failed || arguments.seed.is_some() {
            let verdict = if is_failed { "FAILED" } else { "passed" };
            let mut text = format!("\n{verdict}: --seed {seed}\n{plan:?}\n{}\n", report.story);
            for fault in &report.faults {
                let _ = writeln!(text, "fault: {}: {}", fault.kind, fault.details);
            }
            println!("{text}");
        }
        let label = plan.power.map_or_else(|| plan.job.label(), |power| power.label);
        let mut tally = tally.lock().map_err(|_| anyhow!("a trial panicked"))?;
        tally.add(seed, (plan.file_system.name(), label), &report);
        let trials = tally.total(0);
        if trials.is_multiple_of(500) {
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{trials} trials, {} failures, {seconds:.0} s", tally.total(7));
        }
    }
    Ok(())
}

impl Tally {
    fn add(&mut self, seed: u64, row: (&'static str, String), report: &TrialReport) {
        self.known_limits += report.known_limits;
        let mut kinds: Vec<_> = report.faults.iter().map(|fault| fault.kind).collect();
        kinds.dedup();
        for kind in kinds {
            self.kinds.entry(kind).or_default().push(seed);
        }
        let row = self.rows.entry(row).or_default();
        row.iter_mut().zip(report.counts).for_each(|(sum, count)| *sum += count);
    }

    fn total(&self, column: usize) -> usize {
        self.rows.values().map(|counts| counts[column]).sum()
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(COLUMNS.split('|'));
        let total = (("all", String::new()), std::array::from_fn(|column| self.total(column)));
        for ((file_system, command), counts) in self.rows.clone().into_iter().chain([total]) {
            let names = [file_system.to_owned(), command];
            table.add_row(names.into_iter().chain(counts.map(|count| count.to_string())));
        }
        table
    }
}

/// The system's limit for breaking a lease, shortened until this is dropped.
struct LeaseBreakTime(String);

const LEASE_BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

impl LeaseBreakTime {
    fn shorten() -> Result<Self> {
        let before = fs::read_to_string(LEASE_BREAK_TIME).context("cannot read the time for breaking leases")?;
        fs::write(LEASE_BREAK_TIME, LEASE_BREAK_SECONDS.to_string())
            .context("cannot set the time for breaking leases")?;
        Ok(Self(before))
    }
}

impl Drop for LeaseBreakTime {
    fn drop(&mut self) {
        if let Err(error) = fs::write(LEASE_BREAK_TIME, &self.0) {
            eprintln!("warning: {LEASE_BREAK_TIME} is not what it was: {error}");
        }
    }
}
