//! `seekless bench`: measures, shows and saves a run.

mod asked;
mod exports;
#[cfg(feature = "sim")]
mod on;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use seekless_lab::experiment::Experiment;
use seekless_lab::store::{Document, MeasuringLock};
use seekless_lab::trial::LaunchStop;
use seekless_lab::{Bench, stored_otherwise};
use seekless_record::{Cache, Contest, DropScope, Entry, EntryVerdict, Run};
use seekless_results::{Origin, visible};
#[cfg(feature = "sim")]
use seekless_sim::models::DiskModel;
use serde_json::{Value, json};

use self::asked::{bench, require_own_commands};
use self::exports::{Concluded, exports, write_exports};
#[cfg(feature = "sim")]
use self::on::SimulatedDisk;
use super::profile::{renew_profiles, require_root};
use super::report::file_url;
#[cfg(feature = "sim")]
use super::sim::models;
use super::sittings::{self, earlier};
use super::values::{Word, one_of, size_of_at_least};
use super::{Failure, unless_failed, unless_stopped};
use crate::show::{
    BenchProgress, PLAIN, PROGRESS, Page, RunParts, is_simulated, next_command, show_known, show_regrets, show_run,
    stderr, too_large,
};
use crate::signals::{CaughtSignal, stopping};
use crate::{budget, config};

/// Measure the fastest way to read, write, copy and compare files on a storage.
///
/// Each trial runs in a new process and in a verified cache state. Rounds are shuffled, and methods are compared round
/// by round. Test files are in a directory of their own, which is removed on any exit. The run is saved with every
/// sample.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  seekless bench                              # read, write, copy, tools; here
  seekless bench read --budget 20s --size 1G  # only reading, files of 1 GiB
  seekless bench copy --dir /ssd --dir /disk  # two storages in the same rounds
  seekless bench copy --dir /ssd --to /disk   # copies to another storage
  sudo seekless bench preload-2009 --on hdd-2009  # on a simulated disk of 2009
  seekless bench compare --other /disk        # second files on another storage
  seekless bench commit                       # how long a durable append takes
  seekless bench random --block 8K --depth 16 --mix 70/30  # as fio has it
  seekless bench preload-2009 --rounds 10     # repeat an experiment of 2009
  seekless bench read --file big.iso          # your file; nothing is written
  seekless bench read --methods '*direct*'    # some of `seekless methods` only
  seekless bench mine.toml --export-csv r.csv # an experiment of your own
  seekless bench --report storage.html        # write the report to this file
  seekless bench --resume latest --budget 2h  # resume the last run
  seekless bench --name before-upgrade        # find the run by this name later
  seekless bench --like before-upgrade        # measure the same again
  seekless bench --sittings 6 --every 4h      # six times, four hours apart")]
pub struct Arguments {
    /// What to measure [default: read write copy tools]
    ///
    /// Built-in experiments (see --list), or files that describe one.
    #[arg(value_name = "EXPERIMENT|FILE.toml")]
    experiments: Vec<OsString>,
    /// Measure the storage of this directory [default: .]
    ///
    /// Repeat it to measure several storages in the same rounds.
    #[arg(long = "dir", value_name = "DIR", conflicts_with = "file")]
    directories: Vec<PathBuf>,
    /// Measure on a simulated disk
    ///
    /// It is started before the run and removed after it; see `seekless sim show`. Needs root.
    #[cfg(feature = "sim")]
    #[arg(long, value_name = "MODEL", help_heading = DATA, hide_short_help = true, conflicts_with_all = ["directories", "file", "to", "other", "resume", "system"],
        value_parser = one_of(models()))]
    on: Option<&'static DiskModel>,
    /// Time limit, as in 90s or 10m
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = budget::parse, conflicts_with = "rounds",
        allow_hyphen_values = true)]
    budget: Duration,
    /// Size of the test files, as in 256M
    ///
    /// By default they are as large as the budget, the disk and the memory allow.
    #[arg(long = "size", value_name = "SIZE", value_parser = parse_file_size, conflicts_with = "file",
        allow_hyphen_values = true)]
    sizes: Vec<u64>,
    /// Only methods that match, as in '*direct*'
    ///
    /// See `seekless methods`. Repeat it for several globs.
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    methods: Vec<String>,
    /// State of the page cache when a trial starts
    ///
    /// Each experiment has its own default.
    #[arg(long, value_parser = one_of(CACHES))]
    cache: Option<&'static [Cache]>,
    /// Read this file; nothing is written
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    file: Option<PathBuf>,
    /// Copy from the storage of --dir to this directory
    #[arg(long, value_name = "DIR", help_heading = DATA, conflicts_with_all = ["file", "other"])]
    to: Option<PathBuf>,
    /// Compare with files in this directory
    ///
    /// The second file of each comparison is there, perhaps on another storage.
    #[arg(long, value_name = "DIR", help_heading = DATA, conflicts_with = "file")]
    other: Option<PathBuf>,
    /// Size of a request at random or of a commit, as in 8K
    ///
    /// Repeat it for several sizes. Each experiment has its own default.
    #[arg(long = "block", value_name = "SIZE", help_heading = DATA, value_parser = parse_block,
        conflicts_with_all = ["like", "resume"], allow_hyphen_values = true)]
    blocks: Vec<u64>,
    /// Requests at random in flight, by `io_uring`
    ///
    /// 1 also stands for methods that wait for each request. Repeat it for several depths. Each experiment has
    /// its own default.
    #[arg(long = "depth", value_name = "N", help_heading = DATA, value_parser = clap::value_parser!(u32).range(1..=4096),
        conflicts_with_all = ["like", "resume"])]
    depths: Vec<u32>,
    /// Threads that make requests, one at a time each
    ///
    /// Repeat it for several numbers. Each experiment has its own default.
    #[arg(long = "threads", value_name = "N", help_heading = DATA, value_parser = clap::value_parser!(u32).range(1..=256),
        conflicts_with_all = ["like", "resume"])]
    threads: Vec<u32>,
    /// Reads and writes at random, in per cent, as in 70/30
    #[arg(long, value_name = "READS/WRITES", help_heading = DATA, value_parser = parse_mix,
        conflicts_with_all = ["like", "resume", "file"])]
    mix: Option<u32>,
    /// Write at most this much in all
    ///
    /// By default, this is what the budget allows, at most 8G per minute (1G on memory cards) and a tenth of the file system,
    /// but 256M on small ones, unless --size or --rounds is given. What cannot fit is refused before it begins.
    #[arg(long, value_name = "SIZE", help_heading = TRIALS, hide_short_help = true, value_parser = parse_file_size, conflicts_with = "file",
        allow_hyphen_values = true)]
    most_written: Option<u64>,
    /// What to drop from the page cache before cold trials [default: file; as root, for many small files, system, so
    /// that metadata is cold, too]
    #[arg(long, help_heading = TRIALS, hide_short_help = true, value_parser = one_of(DROPS))]
    drop: Option<DropScope>,
    /// Simulated processing per KiB, in nanoseconds; shows when overlapping pays off
    #[arg(long, value_name = "NS", help_heading = TRIALS, hide_short_help = true,
        value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    work: Option<u64>,
    /// Seed for the order of trials and for the test data [default: from the clock]
    #[arg(long, value_name = "N", help_heading = TRIALS, hide_short_help = true)]
    seed: Option<u64>,
    /// Fail if another bench is measuring, instead of waiting for it
    #[arg(long, help_heading = TRIALS, hide_short_help = true)]
    no_wait: bool,
    /// Rounds per method, instead of a budget
    ///
    /// Every method is measured in as many rounds, however long they take.
    #[arg(long, value_name = "N", help_heading = RUNS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Name to append to the run's ID
    ///
    /// Letters, digits, `-`, `_` and `.` are allowed.
    #[arg(long, value_name = "NAME", help_heading = RUNS, value_parser = parse_name, conflicts_with = "resume")]
    name: Option<String>,
    /// Measure the same as an earlier run
    ///
    /// It has the run's experiments, sizes, cache states and methods, and its directories unless --dir is given. RUN is an ID,
    /// a name, `latest` or a file.
    #[arg(long, value_name = "RUN", help_heading = RUNS, conflicts_with_all = ["experiments", "sizes", "methods", "cache",
        "work", "drop", "file", "resume"])]
    like: Option<OsString>,
    /// Resume a run that ended early, such as `latest`
    ///
    /// The budget or an interruption ended it. RUN is its ID, `latest`, or its file.
    #[arg(long, value_name = "RUN", help_heading = RUNS, conflicts_with_all = ["experiments", "sizes", "methods", "cache",
        "rounds", "seed", "work", "drop", "file"])]
    resume: Option<OsString>,
    /// Conclude from this run alone
    ///
    /// Earlier runs on this storage are ignored, and new file sizes are chosen.
    #[arg(long, help_heading = RUNS, hide_short_help = true)]
    alone: bool,
    /// Measure N times in the background, at the lowest priority
    #[arg(long, value_name = "N", help_heading = RUNS, hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["resume", "export_json", "export_csv", "export_columns", "export_markdown", "report", "json"])]
    sittings: Option<u32>,
    /// Time between the starts of two measurements (sittings) with --sittings
    #[arg(long, default_value = "4h", value_name = "TIME", help_heading = RUNS, hide_short_help = true,
        value_parser = budget::parse, requires = "sittings")]
    every: Duration,
    /// Time between two saves of a run in progress
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = budget::parse, hide = true)]
    checkpoint: Duration,
    /// Also save the profile in /var/lib/seekless/profiles, for all users (needs root)
    #[arg(long, help_heading = RUNS, hide_short_help = true, conflicts_with = "alone")]
    system: bool,
    /// Show how much slower the planned methods are than the best ones (regret)
    ///
    /// For each contest, a method is planned from the earlier sittings, ignoring what they measured at the contest's size. It is
    /// compared with the best method in this run. Needs a sitting at least an hour earlier.
    #[arg(long, help_heading = RUNS, hide_short_help = true, conflicts_with_all = ["alone", "sittings", "json"])]
    regret: bool,
    #[command(flatten, next_help_heading = OUTPUT)]
    parts: RunParts,
    /// Print the run as one JSON document
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the report to this file
    ///
    /// By default, it is beside the saved run.
    #[arg(long, value_name = "FILE.html", help_heading = OUTPUT)]
    report: Option<PathBuf>,
    /// Write the run, with every sample, as JSON to this file; `-` is standard output, as for all such files
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    export_json: Option<PathBuf>,
    /// Write all trials as CSV
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    export_csv: Option<PathBuf>,
    /// Write times by file size, tab-separated, with the columns that the repeated document has, such as that of saving-2008
    #[arg(long, value_name = "FILE.tsv", help_heading = OUTPUT, hide_short_help = true)]
    export_columns: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    export_markdown: Option<PathBuf>,
    /// Hide progress
    #[arg(long, short, help_heading = OUTPUT, hide_short_help = true)]
    quiet: bool,
    /// List the built-in experiments
    #[arg(long, help_heading = OUTPUT)]
    list: bool,
}

/// The headings of the help. The options that matter most come first, under the usual one.
const DATA: &str = "Data and requests";
const TRIALS: &str = "Trials";
const RUNS: &str = "Runs";
const OUTPUT: &str = "Output";

const CACHES: [Word<&[Cache]>; 4] = [
    ("cold", "Nothing of the file is in memory", &[Cache::Cold]),
    ("warm", "All of the file is in memory", &[Cache::Warm]),
    ("both", "Cold and warm", &[Cache::Cold, Cache::Warm]),
    (
        "over",
        "Memory is limited to less than the size of the file (needs root)",
        &[Cache::Over],
    ),
];

const DROPS: [Word<DropScope>; 2] = [
    ("file", "Only the pages of the file", DropScope::File),
    (
        "system",
        "All clean pages of the system (needs root)",
        DropScope::System,
    ),
];

fn parse_name(text: &str) -> Result<String, String> {
    const LONGEST: usize = 60;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if (1..=LONGEST).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("a name is 1 to {LONGEST} letters, digits, `-`, `_` and `.`"))
    }
}

fn parse_block(text: &str) -> Result<u64, String> {
    match size_of_at_least(1, "a request has at least 1 byte", text)? {
        bytes if bytes > 1 << 30 => Err("a request has at most 1G".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Per cent of reads.
fn parse_mix(text: &str) -> Result<u32, String> {
    let (reads, writes) = text.split_once('/').unwrap_or_default();
    match (reads.parse(), writes.parse()) {
        (Ok(reads @ 1..=99_u32), Ok(writes @ 1..=99_u32)) if reads + writes == 100 => Ok(reads),
        _ => Err("write reads and writes in per cent, each at least 1, together 100, as in 70/30".to_owned()),
    }
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    size_of_at_least(1, "a test file has at least 1 byte", text)
}

pub(super) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.list {
        list(arguments.json)?;
        return Ok(0);
    }
    if arguments.system {
        require_root()?;
    }
    if let Some(count) = arguments.sittings {
        // Errors in the arguments belong on the terminal, not in a log.
        seekless_lab::unmeasured(&bench(arguments, None)?)?;
        sittings::sit(count, arguments.every, |stop, caught| measure(arguments, stop, caught))?;
        return Ok(0);
    }
    let (stop, caught) = stopping(LaunchStop::request)?;
    measure(arguments, &stop, &caught)
}

/// Measures once. Returns the exit code: 1 if all of a contest failed.
fn measure(arguments: &Arguments, stop: &LaunchStop, caught: &CaughtSignal) -> Result<u8, Failure> {
    let resumed = arguments.resume.as_deref().map(resumable).transpose()?;
    let mut bench = bench(arguments, resumed.as_ref().map(|(_, run)| run))?;
    let exports = exports(arguments)?;
    #[cfg(feature = "sim")]
    let simulated = SimulatedDisk::of(arguments.on, &mut bench, caught)?;
    let lock = measuring(caught, arguments.no_wait)?;
    // Read only now, to include runs that were saved while this one waited.
    let is_elsewhere = |file: &PathBuf| stored_otherwise(file).is_some();
    if !arguments.alone && !bench.file.as_ref().is_some_and(is_elsewhere) {
        bench.earlier = known(&bench, arguments.quiet);
    }
    let document = resumed.as_ref().map(|(document, _)| document);
    let mut progress = BenchProgress::new(arguments.quiet, document);
    let run = seekless_lab::run(&bench, stop, &mut progress);
    drop(lock);
    PROGRESS.end();
    let run = match (run, caught.signal()) {
        (Err(_), Some(signal)) => {
            let _ = writeln!(stderr(), "seekless: interrupted before anything was measured");
            return Err(Failure::Stopped(signal));
        }
        (run, _) => run?,
    };
    let run = Run {
        alone: arguments.alone || run.alone,
        ..run
    };
    // Saved before anything is printed: a reader may close our output early.
    let saved = progress.save(&run).map(Path::to_owned);
    #[cfg(feature = "sim")]
    let is_lasting = simulated.is_none();
    #[cfg(not(feature = "sim"))]
    let is_lasting = true;
    if saved.is_ok() && !run.alone && is_lasting {
        renew_profiles(&run.storages, arguments.system);
    }
    tell_of_store();
    let run = Concluded::of(run, &bench.earlier, arguments.regret);
    let has_stdout = exports.iter().any(|(output, _)| output.is_stdout());
    let saved_at = saved.as_deref().ok();
    let (report, mut failed) = write_exports(arguments, exports, &run, saved_at);
    let page = if has_stdout { Page::stderr() } else { Page::stdout() };
    let shown = if arguments.json {
        Ok(())
    } else {
        show(page, arguments, &run, saved_at, report.as_deref())
    };
    if saved.is_ok() && caught.signal().is_some() {
        tell_interrupted(&run.alone);
    }
    failed.extend(saved.err().map(|error| error.context("cannot save the run")));
    unless_stopped(caught)?;
    unless_failed(failed)?;
    shown?;
    Ok(u8::from(run.alone.contests.iter().any(has_failed)))
}

/// Whether a contest has no results, because something failed.
fn has_failed(contest: &Contest) -> bool {
    let mut entries = contest.entries.iter();
    let is_failed = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Failed { .. });
    entries.clone().all(|entry| entry.summary.is_none()) && entries.any(is_failed)
}

fn tell_interrupted(run: &Run) {
    let _ = writeln!(stderr(), "seekless: interrupted; what was measured is saved");
    if !is_simulated(run) {
        let id = visible(&run.id);
        let _ = writeln!(stderr(), "hint: `seekless bench --resume {id}` measures the rest");
    }
}

/// The earlier runs to combine with this one; prints what they conclude. Errors of a storage or of the store are
/// reported when measuring and saving.
fn known(bench: &Bench, quiet: bool) -> Vec<Run> {
    let Ok(new) = seekless_lab::unmeasured(bench) else {
        return Vec::new();
    };
    let (earlier, unread) = earlier(bench.resume.as_ref().unwrap_or(&new));
    for error in unread {
        tracing::warn!("left out: {}", seekless_engine::full_text(&error));
    }
    if !quiet {
        let _ = show_known(&mut Page::stderr(), &new, &earlier);
    }
    earlier
}

/// How often a waiting bench checks whether it may measure.
const WAITING_STEP: Duration = Duration::from_millis(100);

/// Waits until no other bench measures. Without a directory for the lock, it does not wait; saving the run will then
/// report the error.
fn measuring(caught: &CaughtSignal, no_wait: bool) -> Result<Option<MeasuringLock>, Failure> {
    let Ok(store) = config::store() else { return Ok(None) };
    let mut told = None;
    loop {
        let holder = match store.try_measuring() {
            Ok(Ok(lock)) => return Ok(Some(lock)),
            Ok(Err(holder)) => holder,
            Err(error) => {
                tracing::info!("cannot wait for other benches: {}", seekless_engine::full_text(&error));
                return Ok(None);
            }
        };
        let who = holder.0.map_or_else(String::new, |pid| format!(" (process {pid})"));
        if no_wait {
            return Err(anyhow!("another bench is measuring{who}; without --no-wait this one waits for it").into());
        }
        if told != Some(holder) {
            // Standard error may be full, here and below.
            let _ = writeln!(stderr(), "Another bench is measuring{who}: waiting until it ends.");
            told = Some(holder);
        }
        std::thread::sleep(WAITING_STEP);
        unless_stopped(caught)?;
    }
}

/// The run to resume.
fn resumable(name: &OsStr) -> anyhow::Result<(Document, Run)> {
    let document = config::store()?.find(name)?;
    if document.origin == Origin::Imported {
        bail!("{}: was imported; start a run of your own", document.id);
    }
    let run = document.read_own()?;
    require_own_commands(&document, &run)?;
    Ok((document, run))
}

/// Warns if the store has become too large, or others may replace what is in it.
fn tell_of_store() {
    let Ok(store) = config::store() else { return };
    if let Some(warning) = too_large(&store.documents().unwrap_or_default()) {
        let _ = writeln!(stderr(), "{warning}");
    }
    if let Some(exposed) = store.exposed() {
        let _ = writeln!(stderr(), "Saved runs cannot be trusted (--like, --resume): {exposed}.");
    }
}

fn show(
    mut page: Page<'_>,
    arguments: &Arguments,
    run: &Concluded,
    saved: Option<&Path>,
    report: Option<&Path>,
) -> io::Result<()> {
    show_run(&mut page, &run.shown, arguments.parts)?;
    if saved.or(report).is_some() {
        writeln!(page)?;
    }
    if let Some(path) = saved {
        writeln!(page, "Saved   {}", visible(&path.to_string_lossy()))?;
    }
    if let Some(path) = report {
        writeln!(page, "Report  {}", file_url(path))?;
    }
    if let Some(next) = next_command(&run.shown).filter(|_| saved.is_some()) {
        page.labelled(PLAIN, "Next", 8, &next)?;
    }
    page.flush()?;
    if arguments.regret {
        show_regrets(&mut Page::stdout(), &run.alone, &run.regrets)?;
    }
    Ok(())
}

fn list(json: bool) -> anyhow::Result<()> {
    let mut page = Page::stdout();
    if json {
        let object = |name| Ok(json!({"name": name, "about": Experiment::builtin(name)?.about}));
        let all: anyhow::Result<Value> = Experiment::builtin_names().into_iter().map(object).collect();
        return Ok(page.json(&all?)?);
    }
    for name in Experiment::builtin_names() {
        let about = Experiment::builtin(name)?.about;
        page.labelled(PLAIN, &format!("{name:<14}"), 15, &about)?;
    }
    Ok(())
}
