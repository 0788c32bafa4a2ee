//! A campaign against the built `seekless`: random commands on random files on real file systems, killed, stopped, failed by
//! injected errors, full disks and losses of power, with other processes at the same files. A model says what must hold after each.
//!
//! Each trial is drawn from a seed of its own, and can be run again alone; moments and interleavings are not repeated by
//! that. `docs/reliability.md` says what is asserted.

mod command;
mod copy;
mod disk;
mod disturb;
mod draw;
mod origins;
mod plan;
mod power;
mod site;
mod store;
mod tree;
mod trial;
mod verdict;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;

pub use self::disk::NullDisk;
use self::disturb::{FILE_SYSTEMS, LEASE_BREAK_SECONDS};
use self::plan::{SEEDS_OF_COPIES, TrialPlan, TrialSubject};
use self::power::{ON_DISKS, Power, PowerPlan};
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
    #[arg(long, conflicts_with = "on")]
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
    if arguments.binary.is_none() {
        run_program(cargo_command().args(["build", "--quiet", "--package", "seekless-cli"]))?;
    }
    for reason in campaign(arguments)? {
        println!("skipped: {reason}");
    }
    Ok(())
}

/// A campaign of a minute on all file systems with the binary that the tests use, or a few losses of power; what was skipped.
pub fn briefly(power: bool) -> Result<Vec<String>> {
    if let Some(reason) = why_not_here() {
        return Ok(vec![format!("torture: {reason}")]);
    }
    campaign(&Arguments {
        minutes: (!power).then_some(1.0),
        seeds: power.then_some(20),
        power,
        ..Arguments::default()
    })
}

fn why_not_here() -> Option<&'static str> {
    filesystems::why_not_here().or_else(|| (!is_installed("strace")).then_some("needs strace"))
}

/// A campaign while it runs.
struct Campaign<'a> {
    arguments: &'a Arguments,
    binary: PathBuf,
    seeds: Mutex<Box<dyn Iterator<Item = u64> + Send>>,
    tally: Mutex<Tally>,
}

/// Runs a campaign; what was skipped.
fn campaign(arguments: &Arguments) -> Result<Vec<String>> {
    let mut on = match arguments.seed {
        _ if arguments.power => Vec::new(),
        Some(seed) => vec![TrialPlan::draw(seed).file_system],
        None if arguments.on.is_empty() => FILE_SYSTEMS.to_vec(),
        None => arguments.on.clone(),
    };
    // On an overlay, a file is held only where all processes can be looked into.
    let unseen = fs::read("/proc/1/maps").err();
    if unseen.is_some() {
        on.retain(|one| *one != TestFileSystem::Overlay);
    }
    let workers = match (arguments.seed, arguments.workers) {
        (Some(_), _) => 1,
        (None, Some(workers)) => workers,
        (None, None) => 2 * thread::available_parallelism()?.get(),
    };
    // A set of file systems for each worker, so that it can fill them.
    let sets = (0..workers)
        .map(|_| make_file_systems(&on))
        .collect::<Result<Vec<_>>>()?;
    let binary = arguments.binary.clone().map_or_else(|| beside("debug/seekless"), Ok)?;
    let campaign = Campaign {
        arguments,
        binary: fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?,
        seeds: Mutex::new(arguments.draw_seeds()),
        tally: Mutex::default(),
    };
    let lease_break = fs::read_to_string(LEASE_BREAK_TIME).context("cannot read the time for breaking leases")?;
    fs::write(LEASE_BREAK_TIME, LEASE_BREAK_SECONDS).context("cannot set the time for breaking leases")?;
    let result = thread::scope(|scope| {
        let campaign = &campaign;
        let start = |set| scope.spawn(move || campaign.work(set));
        let threads: Vec<_> = sets.iter().map(start).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| thread.join().map_err(|_| anyhow!("a trial panicked"))?)
    });
    fs::write(LEASE_BREAK_TIME, lease_break).context("cannot set the time for breaking leases")?;
    let tally = campaign.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.print();
    result?;
    let failures = tally.total(FAILURES);
    ensure!(failures == 0, "{failures} trials failed");
    let unseen = unseen.map(|error| format!("overlay: cannot look into all processes: {error}"));
    Ok(sets[0].skipped.iter().cloned().chain(unseen).collect())
}

/// Makes the file systems of a worker.
fn make_file_systems(on: &[TestFileSystem]) -> Result<Matrix> {
    let matrix = Matrix::mount(on)?;
    if on.is_empty() {
        return Ok(matrix);
    }
    let reasons = matrix.skipped.join("; ");
    ensure!(!matrix.mounted.is_empty(), "no file system can be mounted: {reasons}");
    let is_tmpfs = |one: &&Mounted| one.file_system() == TestFileSystem::Tmpfs;
    if let Some(mounted) = matrix.mounted.iter().find(is_tmpfs) {
        // Filling it takes memory.
        let mut remount = Command::new("mount");
        capture(remount.args(["-o", "remount,size=32M"]).arg(mounted.point()))?;
    }
    Ok(matrix)
}

impl Arguments {
    fn draw_seeds(&self) -> Box<dyn Iterator<Item = u64> + Send> {
        let (started, minutes) = (Instant::now(), self.minutes.unwrap_or(0.0));
        let limit = Duration::from_secs_f64(60.0 * minutes.clamp(0.0, 1e6));
        let are_copies = self.of == [TrialSubject::Cp];
        let first = if are_copies { SEEDS_OF_COPIES.start } else { 0 };
        match (self.seed, self.seeds) {
            (Some(seed), _) => Box::new((0..self.repeat).map(move |_| seed)),
            (None, Some(end)) => Box::new(first..first + end),
            (None, None) => {
                let seed = move || {
                    if are_copies {
                        fastrand::u64(SEEDS_OF_COPIES)
                    } else {
                        fastrand::u64(..)
                    }
                };
                Box::new(iter::repeat_with(seed).take_while(move |_| started.elapsed() < limit))
            }
        }
    }
}

impl Campaign<'_> {
    fn work(&self, matrix: &Matrix) -> Result<()> {
        let Arguments { of, power, .. } = self.arguments;
        let draw = if *power { PowerPlan::draw } else { TrialPlan::draw };
        let disks = if *power { ON_DISKS.as_slice() } else { &[] };
        let disks = disks.iter().map(|&one| NullDisk::start(one, &self.binary));
        let disks = disks.collect::<Result<Vec<_>>>()?;
        let next_seed = || self.seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(seed) = next_seed() {
            check_interrupt()?;
            if !of.is_empty() && !of.contains(&TrialSubject::seed(seed)) {
                continue;
            }
            let plan = draw(seed);
            let aside = tempfile::tempdir()?;
            let mut mounted = matrix.mounted.iter();
            let report = if let Some(power) = &plan.power {
                Power::new(power, plan.file_system, &disks)
                    .and_then(|power| trial::run(&plan, &power.site(&self.binary, aside.path())))
            } else if let Some(mounted) = mounted.find(|one| one.file_system() == plan.file_system) {
                trial::run(&plan, &Site::new(&self.binary, mounted.point(), aside.path()))
            } else {
                continue;
            };
            self.count(
                seed,
                &plan,
                &report.with_context(|| format!("trial {seed}:\n{plan:?}"))?,
            );
        }
        Ok(())
    }

    fn count(&self, seed: u64, plan: &TrialPlan, report: &TrialReport) {
        let is_failed = report.counts[FAILURES] > 0;
        if is_failed || self.arguments.seed.is_some() {
            let verdict = if is_failed { "FAILED" } else { "passed" };
            let mut text = format!("\n{verdict}: --seed {seed}\n{plan:?}\n{}\n", report.story);
            for fault in &report.faults {
                let _ = writeln!(text, "fault: {}: {}", fault.kind, fault.details);
            }
            println!("{text}");
        }
        let label = plan.power.as_ref().map_or(&plan.command.label, |power| &power.label);
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add(seed, [plan.file_system.name(), label.clone()], report);
        let trials = tally.total(0);
        if trials.is_multiple_of(500) {
            eprintln!("{trials} trials, {} failures", tally.total(FAILURES));
        }
    }
}

/// The system's limit for breaking a lease.
const LEASE_BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

/// What happened so far.
#[derive(Default)]
struct Tally {
    rows: BTreeMap<[String; 2], [usize; 8]>,
    kinds: BTreeMap<&'static str, Vec<u64>>,
}

/// The column of failed trials.
const FAILURES: usize = 7;
const COLUMNS: &str =
    "file system|command|trials|exit 0|kills|stops and delays|others' writes|errors injected|full disks|failures";

impl Tally {
    fn add(&mut self, seed: u64, row: [String; 2], report: &TrialReport) {
        let kinds: BTreeSet<_> = report.faults.iter().map(|fault| fault.kind).collect();
        for kind in kinds {
            self.kinds.entry(kind).or_default().push(seed);
        }
        let row = self.rows.entry(row).or_default();
        row.iter_mut().zip(report.counts).for_each(|(sum, count)| *sum += count);
    }

    fn total(&self, column: usize) -> usize {
        self.rows.values().map(|counts| counts[column]).sum()
    }

    fn print(&self) {
        println!("\n| {} |", COLUMNS.replace('|', " | "));
        println!("{}|", "|---".repeat(COLUMNS.split('|').count()));
        let print = |names: &[String; 2], counts: [usize; 8]| {
            let counts = counts.map(|count| count.to_string());
            println!("| {} | {} |", names.join(" | "), counts.join(" | "));
        };
        for (names, counts) in &self.rows {
            print(names, *counts);
        }
        let total = std::array::from_fn(|column| self.total(column));
        print(&["all", ""].map(str::to_owned), total);
        for (kind, seeds) in &self.kinds {
            println!("{kind}: {} trials, seeds {seeds:?}", seeds.len());
        }
    }
}
