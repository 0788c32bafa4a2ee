//! A campaign against the built `seekless`: random commands on random files on real file systems, killed, stopped, failed by
//! injected errors and full disks, with others at the same files. A model says after each trial what must hold.
//!
//! Each trial is drawn from a seed of its own, and can be run again alone; moments and interleavings are not repeated by
//! that. `docs/reliability.md` says what is asserted.
//!
//! Not here: what is tried and what must hold (`update`, `dupes`), and how a command is run and disturbed (`trial`).

mod disturb;
mod dupes;
mod power;
mod trial;
mod update;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use tempfile::TempDir;

use fastrand::Rng;

use self::disturb::{FILE_SYSTEMS, LEASE_BREAK_SECONDS};
use self::power::{Power, PowerPlan};
use self::trial::{Site, TrialReport};
use crate::built::{beside, cargo_command};
use crate::filesystems::{self, FileSystem, Matrix};
use crate::process::{capture, check_interrupt, is_installed, run as run_program};

/// How long, on what, and which trials.
#[derive(Args)]
pub struct Arguments {
    /// Stop after this many minutes
    #[arg(long, value_name = "N", required_unless_present_any = ["seed", "seeds"])]
    minutes: Option<f64>,
    /// Run the trials of the seeds below N
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    seeds: Option<u64>,
    /// Run only the trial of this seed
    #[arg(long, value_name = "S", conflicts_with_all = ["minutes", "seeds", "of"])]
    seed: Option<u64>,
    /// Run that trial this many times: what depends on the moment may take several
    #[arg(long, value_name = "N", default_value_t = 1, requires = "seed")]
    repeat: u64,
    /// File systems, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = file_system)]
    on: Vec<FileSystem>,
    /// What the trials are of [default: all]
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    of: Vec<Of>,
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

/// What a trial is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// Updating files, digging and filling holes, comparing
    Update,
    /// Acting on duplicates
    Dupes,
}

/// A trial, drawn from its seed.
#[derive(Debug)]
enum TrialPlan {
    Update(update::plan::TrialPlan),
    Dupes(dupes::plan::TrialPlan),
    Power(Box<Self>, PowerPlan),
}

impl Of {
    /// What the trial of a seed is of: so that a campaign of some takes only their seeds.
    fn seed(seed: u64) -> Self {
        if Rng::with_seed(!seed).bool() {
            Self::Update
        } else {
            Self::Dupes
        }
    }
}

impl TrialPlan {
    fn draw(seed: u64, can_grow: bool) -> Self {
        match Of::seed(seed) {
            Of::Update => Self::Update(update::plan::TrialPlan::draw(seed, can_grow)),
            Of::Dupes => Self::Dupes(dupes::plan::TrialPlan::draw(seed)),
        }
    }

    /// The same with a loss of power; acting on duplicates where an update promises nothing for that.
    fn with_power(mut self, seed: u64) -> Self {
        if !matches!(&self, Self::Update(plan) if ["update journal", "update replace"].contains(&plan.command.label)) {
            self = Self::Dupes(dupes::plan::TrialPlan::draw(seed));
        }
        let power = PowerPlan::draw(seed, &mut self);
        Self::Power(Box::new(self), power)
    }

    /// The row of the table that it counts in.
    fn row(&self) -> (FileSystem, &str) {
        match self {
            Self::Update(plan) => (plan.file_system, plan.command.label),
            Self::Dupes(plan) => (plan.file_system, plan.command.action.label()),
            Self::Power(plan, power) => (plan.row().0, &power.label),
        }
    }

    fn run(&self, site: &Site<'_>) -> Result<TrialReport> {
        match self {
            Self::Update(plan) => update::run(plan, site),
            Self::Dupes(plan) => dupes::run(plan, site),
            Self::Power(plan, power) => plan.run(&Power::mount(power, site)?.site(site)),
        }
    }
}

fn file_system(name: &str) -> Result<FileSystem, String> {
    let found = FILE_SYSTEMS.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("one of {}", FILE_SYSTEMS.map(FileSystem::name).join(", ")))
}

/// Runs a campaign, or one trial.
pub fn run(arguments: &Arguments) -> Result<()> {
    let binary = arguments.binary.clone().map_or_else(build, Ok)?;
    let binary = binary
        .canonicalize()
        .with_context(|| format!("cannot find {}", binary.display()))?;
    if let Some(reason) = why_not_here() {
        bail!("{reason}");
    }
    let seeds = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => Seeds::One(seed, arguments.repeat),
        (None, Some(end)) => Seeds::Below(end, AtomicU64::new(0)),
        (None, None) => Seeds::Until(
            Instant::now() + Duration::from_secs_f64(60.0 * arguments.minutes.unwrap_or(1.0).clamp(0.0, 1e6)),
        ),
    };
    let on = if arguments.on.is_empty() {
        &FILE_SYSTEMS
    } else {
        arguments.on.as_slice()
    };
    let wanted = Wanted {
        on,
        of: &arguments.of,
        power: arguments.power,
    };
    for reason in campaign(&binary, &seeds, wanted, arguments.workers)? {
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
    let seeds = if power {
        Seeds::Below(20, AtomicU64::new(0))
    } else {
        Seeds::Until(Instant::now() + Duration::from_mins(1))
    };
    let wanted = Wanted {
        on: &FILE_SYSTEMS,
        of: &[],
        power,
    };
    campaign(&beside("debug/seekless")?, &seeds, wanted, None)
}

fn why_not_here() -> Option<&'static str> {
    filesystems::why_not_here().or_else(|| (!is_installed("strace")).then_some("needs strace"))
}

/// Which trials are run.
enum Seeds {
    One(u64, u64),
    Until(Instant),
    /// Those below a number, from the next.
    Below(u64, AtomicU64),
}

/// The trials that are wanted.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    on: &'a [FileSystem],
    /// All if there are none.
    of: &'a [Of],
    /// They lose power.
    power: bool,
}

impl Wanted<'_> {
    fn has(self, seed: u64) -> bool {
        self.of.is_empty() || self.of.contains(&Of::seed(seed))
    }
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    rows: BTreeMap<(&'static str, String), [u64; 8]>,
    kinds: BTreeMap<&'static str, Vec<u64>>,
    trials: u64,
    failures: u64,
    known_limits: u64,
}

const COLUMNS: [&str; 10] = [
    "file system",
    "command",
    "trials",
    "exit 0",
    "kills",
    "stops and delays",
    "others' writes",
    "errors injected",
    "full disks",
    "failures",
];

fn campaign(binary: &Path, seeds: &Seeds, wanted: Wanted<'_>, workers: Option<usize>) -> Result<Vec<String>> {
    let on = match seeds {
        // It has the images.
        _ if wanted.power => &[FileSystem::Xfs],
        Seeds::One(seed, _) => &[disturb::file_system(*seed)],
        _ => wanted.on,
    };
    let workers = match seeds {
        Seeds::One(..) => 1,
        _ => workers.unwrap_or(2 * thread::available_parallelism()?.get()),
    };
    let can_grow = capture(Command::new(binary).args(["update", "--help"]))?.contains("--grow");
    let _lease_break = LeaseBreakTime::shorten()?;
    // A set of file systems for each worker, so that it can fill them.
    let sets = (0..workers)
        .map(|_| FileSystems::make(on))
        .collect::<Result<Vec<_>>>()?;
    let tally = Mutex::new(Tally::default());
    let result = thread::scope(|scope| {
        let threads: Vec<_> = sets
            .iter()
            .map(|set| scope.spawn(|| work(set, binary, can_grow, (seeds, wanted), &tally)))
            .collect();
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
    ensure!(tally.failures == 0, "{} trials failed", tally.failures);
    Ok(sets[0].matrix.skipped().to_vec())
}

/// The file systems of a worker, and a directory elsewhere.
struct FileSystems {
    matrix: Matrix,
    aside: TempDir,
}

impl FileSystems {
    fn make(on: &[FileSystem]) -> Result<Self> {
        let matrix = Matrix::mount(on)?;
        ensure!(
            !matrix.mounted().is_empty(),
            "no file system can be mounted: {}",
            matrix.skipped().join("; ")
        );
        for mounted in matrix.mounted() {
            if mounted.file_system() == FileSystem::Tmpfs {
                // Filling it takes memory.
                capture(
                    Command::new("mount")
                        .args(["-o", "remount,size=32M"])
                        .arg(mounted.point()),
                )?;
            }
        }
        let aside = tempfile::tempdir()?;
        Ok(Self { matrix, aside })
    }
}

fn work(
    set: &FileSystems,
    binary: &Path,
    can_grow: bool,
    (seeds, wanted): (&Seeds, Wanted<'_>),
    tally: &Mutex<Tally>,
) -> Result<()> {
    let started = Instant::now();
    let mut rng = Rng::new();
    for number in 0.. {
        check_interrupt()?;
        let seed = match seeds {
            Seeds::One(_, repeat) if number >= *repeat => break,
            Seeds::One(seed, _) => *seed,
            Seeds::Until(end) if Instant::now() >= *end => break,
            Seeds::Until(_) => rng.u64(..),
            Seeds::Below(end, next) => match next.fetch_add(1, Ordering::Relaxed) {
                seed if seed < *end => seed,
                _ => break,
            },
        };
        if !matches!(seeds, Seeds::One(..)) && !wanted.has(seed) {
            continue;
        }
        let file_system = disturb::file_system(seed);
        let mut mounted = set.matrix.mounted().iter();
        let Some(mounted) = mounted.find(|one| wanted.power || one.file_system() == file_system) else {
            ensure!(
                !matches!(seeds, Seeds::One(..)),
                "{} cannot be mounted: {}",
                file_system.name(),
                set.matrix.skipped().join("; ")
            );
            continue;
        };
        let site = Site {
            seekless: binary,
            directory: mounted.point().join("trial"),
            aside: set.aside.path(),
            state: mounted.point().join("trial/state"),
            power: None,
        };
        let mut plan = TrialPlan::draw(seed, can_grow);
        if wanted.power {
            plan = plan.with_power(seed);
        }
        let report = plan.run(&site).with_context(|| format!("trial {seed}:\n{plan:?}"))?;
        if matches!(seeds, Seeds::One(..)) || !report.faults.is_empty() {
            tell(seed, &plan, &report);
        }
        let mut tally = tally.lock().map_err(|_| anyhow::anyhow!("a trial panicked"))?;
        tally.add(seed, &plan, &report);
        if tally.trials.is_multiple_of(500) {
            eprintln!(
                "{} trials, {} failures, {:.0} s",
                tally.trials,
                tally.failures,
                started.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}

fn tell(seed: u64, plan: &TrialPlan, report: &TrialReport) {
    let verdict = if report.faults.is_empty() { "passed" } else { "FAILED" };
    let mut text = format!("\n{verdict}: --seed {seed}\n{plan:?}\n{}\n", report.story);
    for fault in &report.faults {
        let _ = writeln!(text, "fault: {}: {}", fault.kind, fault.details);
    }
    println!("{text}");
}

impl Tally {
    fn add(&mut self, seed: u64, plan: &TrialPlan, report: &TrialReport) {
        let is_failed = !report.faults.is_empty();
        self.trials += 1;
        self.failures += u64::from(is_failed);
        self.known_limits += u64::from(report.known_limit);
        let mut kinds: Vec<_> = report.faults.iter().map(|fault| fault.kind).collect();
        kinds.dedup();
        for kind in kinds {
            self.kinds.entry(kind).or_default().push(seed);
        }
        let (file_system, label) = plan.row();
        let row = self.rows.entry((file_system.name(), label.to_owned())).or_default();
        let counts = [
            1,
            u64::from(report.is_done),
            u64::from(report.is_killed),
            u64::from(report.is_stopped),
            report.others as u64,
            report.injected as u64,
            u64::from(report.is_full),
            u64::from(is_failed),
        ];
        row.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(COLUMNS);
        let mut add = |file_system: &str, command: &str, counts: [u64; 8]| {
            let names = [file_system.to_owned(), command.to_owned()];
            table.add_row(names.into_iter().chain(counts.map(|count| count.to_string())));
        };
        for ((file_system, command), &counts) in &self.rows {
            add(file_system, command, counts);
        }
        let total = |column: usize| self.rows.values().map(|counts| counts[column]).sum();
        add("all", "", std::array::from_fn(total));
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
