//! A campaign against the built `seekless`: random commands on random files on real file systems, killed, stopped, failed by
//! injected errors, full disks and power cuts, with another process at the same files. One oracle says what must hold after each.
//!
//! Each trial is drawn from a seed of its own, and can be run again alone; moments and interleavings are not repeated by
//! that. `docs/reliability.md` says what is asserted.

mod draw;
mod harm;
mod oracle;
mod others;
mod power;
mod site;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;
use std::{array, fs};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;

use self::draw::{FILE_SYSTEMS, TrialPlan, TrialSubject};
use self::oracle::brief;
use self::power::{NullDisk, ON_DISKS};
use self::site::Site;
use self::trial::TortureReport;
use crate::built::{beside, cargo_command};
use crate::filesystems::{self, Matrix, TestFileSystem};
use crate::process::{check_interrupt, is_installed, run as run_program};

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
    if arguments.binary.is_none() {
        run_program(cargo_command().args(["build", "--quiet", "--package", "seekless-cli"]))?;
    }
    for reason in campaign(arguments)? {
        println!("skipped: {reason}");
    }
    Ok(())
}

/// A campaign of a minute on all file systems with the binary that the tests use, or a few power cuts; what was skipped.
pub fn briefly(power: bool) -> Result<Vec<String>> {
    let mut arguments = Arguments::default();
    (arguments.minutes, arguments.seeds) = ((!power).then_some(1.0), power.then_some(20));
    arguments.power = power;
    campaign(&arguments)
}

/// A campaign while it runs.
struct Campaign<'a> {
    arguments: &'a Arguments,
    binary: &'a Path,
    started: Instant,
    /// How many trials have begun.
    begun: AtomicU64,
    /// By file system and command, what is counted.
    tally: Mutex<BTreeMap<String, [usize; 5]>>,
}

/// The head of the table. What is counted of a trial follows its file system and its command.
const HEAD: &str = "| file system | command | trials | exit 0 | kills | others' writes | failures |\n\
                    |---|---|---:|---:|---:|---:|---:|";

/// Runs a campaign; what was skipped.
fn campaign(arguments: &Arguments) -> Result<Vec<String>> {
    let needs_strace = (!is_installed("strace")).then_some("needs strace");
    if let Some(reason) = filesystems::why_not_here().or(needs_strace) {
        return Ok(vec![format!("torture: {reason}")]);
    }
    let binary = arguments.binary.clone().map_or_else(|| beside("debug/seekless"), Ok)?;
    let binary = fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?;
    let campaign = Campaign {
        arguments,
        binary: &binary,
        started: Instant::now(),
        begun: AtomicU64::new(0),
        tally: Mutex::default(),
    };
    let usual = 2 * thread::available_parallelism()?.get();
    let workers = arguments.seed.map_or(arguments.workers.unwrap_or(usual), |_| 1);
    let result = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(|| campaign.work())).collect();
        let end = |thread: ScopedJoinHandle<'_, _>| thread.join().map_err(|_| anyhow!("a trial panicked"))?;
        threads.into_iter().map(end).collect::<Result<Vec<_>>>()
    });
    let rows = campaign.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let total: [usize; 5] = array::from_fn(|column| rows.values().map(|counts| counts[column]).sum());
    println!("\n{HEAD}");
    for (label, counts) in rows.into_iter().chain([("all | ".to_owned(), total)]) {
        println!("| {label} | {} |", counts.map(|count| count.to_string()).join(" | "));
    }
    let mut skipped = result?;
    ensure!(total[4] == 0, "{} trials failed", total[4]);
    Ok(skipped.pop().unwrap_or_default())
}

impl Campaign<'_> {
    /// The next seed, if there is one.
    fn next_seed(&self) -> Option<u64> {
        let (arguments, number) = (self.arguments, self.begun.fetch_add(1, Ordering::SeqCst));
        let minutes = arguments.minutes.unwrap_or(0.0).clamp(0.0, 1e6);
        match (arguments.seed, arguments.seeds) {
            (Some(seed), _) => (number < arguments.repeat).then_some(seed),
            (None, Some(end)) => (number < end).then_some(number),
            (None, None) => (self.started.elapsed().as_secs_f64() < 60.0 * minutes).then(|| fastrand::u64(..)),
        }
    }

    /// Runs trials, on file systems that no other worker has, so that it can fill them. Returns what is skipped.
    fn work(&self) -> Result<Vec<String>> {
        let (arguments, mut disks) = (self.arguments, Vec::new());
        let on = match arguments.seed {
            _ if arguments.power => Vec::new(),
            Some(seed) => TrialPlan::draw(seed, false).on,
            None if arguments.on.is_empty() => FILE_SYSTEMS.to_vec(),
            None => arguments.on.clone(),
        };
        let matrix = Matrix::mount(&on)?;
        for one in ON_DISKS.into_iter().filter(|_| arguments.power) {
            disks.push(NullDisk::start(one, self.binary)?);
        }
        let reasons = matrix.skipped.join("; ");
        ensure!(
            !matrix.mounted.is_empty() || !disks.is_empty(),
            "no file system can be mounted: {reasons}"
        );
        while let Some(seed) = self.next_seed() {
            check_interrupt()?;
            let plan = TrialPlan::draw(seed, arguments.power);
            let used = plan
                .on
                .iter()
                .filter_map(|on| disks.iter().find(|disk| disk.file_system == *on));
            let used: Vec<_> = used.collect();
            let mounted = matrix.mounted.iter().find(|one| one.file_system == plan.on[0]);
            let point = used
                .first()
                .map(|disk| &*disk.point)
                .or(mounted.map(|mounted| &*mounted.point));
            let is_wanted = arguments.of.is_empty() || arguments.of.contains(&plan.subject);
            if let Some(point) = point.filter(|_| is_wanted) {
                let aside = tempfile::tempdir()?;
                let site = Site {
                    seekless: self.binary,
                    directory: point.join("trial"),
                    aside: aside.path(),
                    disks: used,
                };
                let report = trial::run(&plan, &site);
                self.count(
                    seed,
                    &plan,
                    &report.with_context(|| format!("trial {seed}: {}", brief(&plan, 3000)))?,
                );
            }
        }
        Ok(matrix.skipped.clone())
    }

    fn count(&self, seed: u64, plan: &TrialPlan, report: &TortureReport) {
        let is_failed = report.counts[4] > 0;
        if is_failed || self.arguments.seed.is_some() {
            let verdict = if is_failed { "FAILED" } else { "passed" };
            let option = if self.arguments.power { " --power" } else { "" };
            println!("\n{verdict}: cargo xtask torture --seed {seed}{option}");
            println!("{}\n{}", brief(plan, 3000), report.story);
        }
        let label = format!("{} | {}", plan.on[0].name(), plan.label);
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let row = tally.entry(label).or_default();
        row.iter_mut().zip(report.counts).for_each(|(sum, count)| *sum += count);
    }
}
