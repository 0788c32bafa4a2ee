//! `seekless bench`: measure, show, keep.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use seekless_lab::Bench;
use seekless_lab::experiment::{Experiment, filter};
use seekless_lab::store::{Document, MeasuringLock, Store};
use seekless_lab::trial::Stop;
use seekless_record::{Cache, Drop, Run};
use seekless_report::{to_csv, to_html_as_concluded, to_markdown};
use seekless_results::{Origin, pool, visible};

use super::report::{beside, columns, file_url};
use super::sittings::{self, earlier};
use super::values::{Word, one_of, size_of_at_least};
use super::{Failure, unless_failed, unless_stopped};
use crate::keeper::Keeper;
use crate::output::Output;
use crate::read_ahead;
use crate::show::{PLAIN, Page, Progress, show_known, show_run, too_large};
use crate::signals::{Caught, on_signal};

/// Measures which method of reading, writing, copying and comparing is fastest on a storage.
///
/// Every trial runs in a fresh process, in a cache state that is verified; the rounds are shuffled and compared in
/// pairs. Test files are made in a folder of their own, which is removed on any exit. The run is saved with every sample.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless bench                              # all, under this folder: a minute
  seekless bench read --budget 20s --size 1G  # only reading, files of 1 GiB
  seekless bench copy --dir /ssd --dir /disk  # two storages in the same rounds
  seekless bench compare --other /disk        # second files on another storage
  seekless bench preload-2009 --rounds 10     # a document of 2009, run here
  seekless bench read --file big.iso          # your file; nothing is written
  seekless bench read --methods '*direct*'    # some of `seekless methods` only
  seekless bench --first-touch ~/Music        # files of yours, each read once
  seekless bench mine.toml --export-csv r.csv # an experiment of your own
  seekless bench --report storage.html        # the page with plots, here
  seekless bench --resume latest --budget 2h  # go on where the last one stopped
  seekless bench --name before-upgrade        # find the run by this name later
  seekless bench --like before-upgrade        # measure the same again
  seekless bench --sittings 6 --every 4h      # measure at other hours, too")]
pub struct Arguments {
    /// Built-in experiments, or files that describe one [default: read write copy]
    #[arg(value_name = "EXPERIMENT|FILE.toml")]
    experiments: Vec<OsString>,
    /// The folder whose storage is measured; several are measured in the same rounds [default: this folder]
    #[arg(long = "dir", value_name = "DIR", conflicts_with = "file")]
    folders: Vec<PathBuf>,
    /// The folder of the second files of comparisons: two storages at once [default: that of the first]
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    other: Option<PathBuf>,
    /// How long it may take, as in 90s or 10m
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_budget, conflicts_with = "rounds",
        allow_hyphen_values = true)]
    budget: Duration,
    /// The size of the test files, as in 256M [default: as large as the budget, the disk and the memory allow]
    #[arg(long = "size", value_name = "SIZE", value_parser = parse_file_size, conflicts_with = "file",
        allow_hyphen_values = true)]
    sizes: Vec<u64>,
    /// Only methods that match the glob
    #[arg(long, value_name = "GLOB")]
    methods: Vec<String>,
    /// The state of the page cache to start from [default: as the experiment says]
    #[arg(long, value_parser = one_of(CACHES))]
    cache: Option<&'static [Cache]>,
    /// Number of rounds per method, whatever the time, instead of a budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// The seed of the order and of the test data [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Simulated processing per KiB, in nanoseconds; shows when overlapping pays off
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    work: Option<u64>,
    /// How the page cache is emptied: the file's pages, or all of the system's (needs root) [default: file, and for many
    /// small files system, so that their metadata is cold, too]
    #[arg(long, value_parser = one_of(DROPS))]
    drop: Option<Drop>,
    /// A file to read, instead of test files: nothing is written
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Read files that are in DIR, each once and as cold as it is found: nothing is written
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "folders", "other", "sizes", "cache", "drop", "resume"])]
    first_touch: Option<PathBuf>,
    /// Write the run as JSON, every sample
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write all trials as CSV
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write times by file size in the columns of the document, tabs between them
    #[arg(long, value_name = "FILE.tsv")]
    export_columns: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Write the report to this file instead of beside the saved run
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Measure the same as an earlier run: its experiments, sizes, cache states and methods, in its folders unless --dir
    /// is given. RUN is an ID, a name, `latest` or a file
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiments", "sizes", "methods", "cache", "work", "drop",
        "file", "resume"])]
    like: Option<OsString>,
    /// A name for the end of the run's ID: letters, digits, `-`, `_` and `.`
    #[arg(long, value_name = "NAME", value_parser = parse_name, conflicts_with = "resume")]
    name: Option<String>,
    /// Ignore earlier runs on this storage: conclude from this run alone and choose new file sizes
    #[arg(long)]
    alone: bool,
    /// Measure N times in the background, at the lowest priority, waiting while other processes use the disk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["resume", "export_json", "export_csv", "export_columns", "export_markdown", "report"])]
    sittings: Option<u32>,
    /// Time between the starts of two measurements (sittings) with --sittings
    #[arg(long, default_value = "4h", value_name = "TIME", value_parser = parse_budget, requires = "sittings")]
    every: Duration,
    /// Fail if another bench is measuring, instead of waiting for it
    #[arg(long)]
    no_wait: bool,
    /// Resume a run that the budget or an interruption ended: its ID, `latest`, or its file
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiments", "sizes", "methods", "cache", "rounds", "seed",
        "work", "drop", "file"])]
    resume: Option<OsString>,
    /// How often what was measured is saved meanwhile
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = parse_budget, hide = true)]
    checkpoint: Duration,
    /// Show what was dropped and what is not available, too
    #[arg(long)]
    all: bool,
    /// Hide progress
    #[arg(long, short)]
    quiet: bool,
    /// List the built-in experiments and end
    #[arg(long)]
    list: bool,
}

const CACHES: &[Word<&[Cache]>] = &[
    ("cold", "Nothing of the file in memory", &[Cache::Cold]),
    ("warm", "All of the file in memory", &[Cache::Warm]),
    ("both", "Cold and warm", &[Cache::Cold, Cache::Warm]),
    ("over", "Less memory than the file (needs root)", &[Cache::Over]),
];

const DROPS: &[Word<Drop>] = &[
    ("file", "The file's pages only", Drop::File),
    ("system", "All clean pages of the system", Drop::System),
];

/// Shorter runs measure nothing, longer ones are a mistake.
const BUDGET_SECONDS: std::ops::RangeInclusive<f64> = 1.0..=604_800.0;

fn parse_budget(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().or_else(|| {
        let duration: jiff::SignedDuration = text.parse().ok()?;
        Some(duration.as_secs_f64())
    });
    match seconds {
        Some(seconds) if BUDGET_SECONDS.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Some(_) => Err("a budget is 1 second to 7 days".to_owned()),
        None => Err("write a number and s, m or h, as in 90s".to_owned()),
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    const LONGEST: usize = 60;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if (1..=LONGEST).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("a name is 1 to {LONGEST} letters, digits, `-`, `_` and `.`"))
    }
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    size_of_at_least(1, "a test file has at least 1 byte", text)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        return Ok(list()?);
    }
    if let Some(count) = arguments.sittings {
        // What is asked for must not turn out to be wrong in a log.
        seekless_lab::unmeasured(&bench(arguments, None)?)?;
        return sittings::sit(count, arguments.every, |stop, caught| measure(arguments, stop, caught));
    }
    let stop = Stop::default();
    let caught = on_signal({
        let stop = stop.clone();
        move |_| stop.request()
    })?;
    measure(arguments, &stop, &caught)
}

/// Measures once.
fn measure(arguments: &Arguments, stop: &Stop, caught: &Caught) -> Result<(), Failure> {
    let resumed = arguments.resume.as_deref().map(resumable).transpose()?;
    let mut bench = bench(arguments, resumed.as_ref().map(|(_, run)| run))?;
    let exports = exports(arguments)?;
    read_ahead::put_back(bench.folders.iter().chain(&bench.other).chain(&bench.file));
    let lock = measuring(caught, arguments.no_wait)?;
    // What others measured while this one waited is known, too.
    if !arguments.alone {
        bench.earlier = known(&bench, arguments.quiet)?;
    }
    let document = resumed.as_ref().map(|(document, _)| document);
    let mut keeper = Keeper::new(Progress::new(arguments.quiet), document);
    let run = seekless_lab::run(&bench, stop, &mut keeper);
    drop(lock);
    keeper.finish();
    let run = match (run, caught.signal()) {
        // Stopped before the first trial: there is nothing to keep.
        (Err(_), Some(signal)) => return Err(Failure::Stopped(signal)),
        (Ok(run), Some(signal)) if run.trials.is_empty() => return Err(Failure::Stopped(signal)),
        (run, _) => run?,
    };
    // First what is to last: whoever reads our output may have seen enough before its end.
    let saved = keeper.save(&run).map(Path::to_owned);
    tell_size()?;
    let run = Concluded {
        shown: if arguments.alone {
            run.clone()
        } else {
            pool(&run, &bench.earlier)
        },
        alone: run,
    };
    // The report is the last; it may be a stream.
    let report = exports.last().and_then(|(output, _)| output.target());
    let written = exports
        .into_iter()
        .map(|(output, form)| output.write(form(&run)?.as_bytes()));
    let mut failed: Vec<anyhow::Error> = written.filter_map(Result::err).collect();
    let report = match (&saved, &arguments.report) {
        (Ok(path), None) => report_beside(&run, path).map_err(|error| failed.push(error)).ok(),
        (Err(_), None) => None,
        (_, Some(_)) => report,
    };
    let shown = show(&run.shown, arguments.all, saved.as_deref().ok(), report.as_deref());
    failed.extend(saved.err().map(|error| error.context("the run was not saved")));
    unless_stopped(caught)?;
    unless_failed(failed)?;
    Ok(shown?)
}

/// The earlier runs that this one is put together with; says what they tell. What is wrong with a storage or the store,
/// measuring and saving tell.
fn known(bench: &Bench, quiet: bool) -> anyhow::Result<Vec<Run>> {
    let Ok(new) = seekless_lab::unmeasured(bench) else {
        return Ok(Vec::new());
    };
    let (earlier, unread) = earlier(bench.resume.as_ref().unwrap_or(&new));
    for error in unread {
        tracing::warn!("left out: {}", seekless::full_text(&error));
    }
    if !quiet {
        show_known(&mut Page::stderr(), &new, &earlier)?;
    }
    Ok(earlier)
}

/// How often a bench that waits asks whether it may measure.
const WAITING_STEP: Duration = Duration::from_millis(100);

/// Waits until no other bench measures. Where there is no folder for a lock, nobody waits: saving the run will tell.
fn measuring(caught: &Caught, no_wait: bool) -> Result<Option<MeasuringLock>, Failure> {
    let Ok(store) = Store::of_user() else { return Ok(None) };
    let mut told = None;
    loop {
        let holder = match store.try_measuring() {
            Ok(Ok(lock)) => return Ok(Some(lock)),
            Ok(Err(holder)) => holder,
            Err(error) => {
                tracing::info!("no turns are taken with other benches: {}", seekless::full_text(&error));
                return Ok(None);
            }
        };
        let who = holder.0.map_or_else(String::new, |pid| format!(" (process {pid})"));
        if no_wait {
            return Err(anyhow!("another bench is measuring{who}; without --no-wait this one waits for it").into());
        }
        if told != Some(holder) {
            writeln!(
                anstream::stderr(),
                "Another bench is measuring{who}: waiting until it ends."
            )?;
            told = Some(holder);
        }
        std::thread::sleep(WAITING_STEP);
        unless_stopped(caught)?;
    }
}

/// The run to go on with.
fn resumable(name: &OsStr) -> anyhow::Result<(Document, Run)> {
    let document = Store::of_user()?.find(name)?;
    if document.origin == Origin::Imported {
        bail!("{}: is the run of somebody else: start one of your own", document.id);
    }
    let run = document.read()?;
    Ok((document, run))
}

/// Says where the store becomes too large.
fn tell_size() -> anyhow::Result<()> {
    let documents = Store::of_user().and_then(|store| store.documents()).unwrap_or_default();
    if let Some(warning) = too_large(&documents) {
        writeln!(anstream::stderr(), "{warning}")?;
    }
    Ok(())
}

fn show(run: &Run, all: bool, saved: Option<&Path>, report: Option<&Path>) -> std::io::Result<()> {
    let mut page = Page::stdout();
    show_run(&mut page, run, all)?;
    if saved.or(report).is_some() {
        writeln!(page)?;
    }
    if let Some(path) = saved {
        writeln!(page, "Saved   {}", visible(&path.to_string_lossy()))?;
    }
    if let Some(path) = report {
        writeln!(page, "Report  {}", file_url(path))?;
    }
    page.flush()
}

/// Writes the page of a saved run beside it.
fn report_beside(run: &Concluded, saved: &Path) -> anyhow::Result<PathBuf> {
    let written =
        || -> anyhow::Result<()> { beside(saved)?.write(to_html_as_concluded(&run.shown, &run.alone)?.as_bytes()) };
    written().context("the report was not written")?;
    let path = saved.with_extension("html");
    Ok(std::fs::canonicalize(&path).unwrap_or(path))
}

fn list() -> anyhow::Result<()> {
    let mut page = Page::stdout();
    for name in Experiment::builtin_names() {
        let about = Experiment::builtin(name)?.about;
        page.labelled(PLAIN, &format!("{name:<14}"), 15, &about)?;
    }
    Ok(())
}

/// Puts together what is asked of the lab.
fn bench(arguments: &Arguments, resumed: Option<&Run>) -> anyhow::Result<Bench> {
    let program = std::env::current_exe().context("this program's own file could not be found")?;
    let bench = Bench {
        name: arguments.name.clone(),
        experiments: Vec::new(),
        folders: arguments.folders.clone(),
        other: arguments.other.clone(),
        budget: arguments.budget,
        rounds: arguments.rounds,
        sizes: arguments.sizes.clone(),
        caches: arguments.cache.unwrap_or_default().to_vec(),
        seed: arguments.seed.unwrap_or_else(seed_from_clock),
        work_ns_per_kib: arguments.work,
        drop: arguments.drop,
        file: arguments.file.clone(),
        first_touch: arguments.first_touch.clone(),
        program,
        checkpoint: arguments.checkpoint,
        earlier: Vec::new(),
        yields: sittings::is_in_background(),
        resume: None,
    };
    let bench = match (resumed, &arguments.like) {
        (Some(run), _) => return resuming(bench, run),
        (None, Some(name)) => repeating(bench, name)?,
        (None, None) => beginning(bench, arguments)?,
    };
    let columns = |experiment: &Experiment| !experiment.columns.is_empty();
    if arguments.export_columns.is_some() && !bench.experiments.iter().any(columns) {
        bail!("--export-columns: no experiment of this run names the columns of a document, as saving-2008 does");
    }
    if bench.drop == Some(Drop::System) {
        seekless::cache::drop_system().context("--drop system needs root; without it, omit --drop")?;
    }
    Ok(bench)
}

/// What a run measured, again: only the time, the seed and the number of rounds are new.
fn repeating(bench: Bench, name: &OsStr) -> anyhow::Result<Bench> {
    let document = Store::of_user()?.find(name)?;
    let run = document.read()?;
    let entries = run.contests.iter().flat_map(|contest| &contest.entries);
    let is_own = document.origin == Origin::Own;
    if let Some(command) = entries.filter(|_| !is_own).find_map(|entry| entry.command()) {
        let (id, command) = (visible(&document.id), visible(&command.name));
        bail!("{id}: it runs the command {command}; only commands of your own saved runs are run again");
    }
    let is_by_default = run.drop == Drop::File && run.contests.iter().any(|contest| contest.cold_metadata);
    let mut bench = Bench {
        experiments: Experiment::like(&run)?,
        drop: (!is_by_default).then_some(run.drop),
        ..bench
    };
    // The folders of others are not ours.
    if is_own {
        bench = in_its_places(bench, &run)?;
    } else if bench.folders.is_empty() {
        bench.folders.push(PathBuf::from("."));
    }
    Ok(bench)
}

fn beginning(mut bench: Bench, arguments: &Arguments) -> anyhow::Result<Bench> {
    let only_reads = arguments.file.is_some() || arguments.first_touch.is_some();
    let names: Vec<OsString> = match (arguments.experiments.is_empty(), only_reads) {
        (false, _) => arguments.experiments.clone(),
        (true, true) => vec!["read".into()],
        (true, false) => ["read", "write", "copy"].map(OsString::from).to_vec(),
    };
    let experiments = names.iter().map(|name| find(name));
    bench.experiments = experiments.collect::<anyhow::Result<_>>()?;
    if !arguments.methods.is_empty() {
        bench.experiments = filter(&bench.experiments, &arguments.methods)?;
    }
    if bench.folders.is_empty() {
        bench.folders.push(PathBuf::from("."));
    }
    Ok(bench)
}

/// Going on with a run: all but the time and the places is the run's own.
fn resuming(bench: Bench, run: &Run) -> anyhow::Result<Bench> {
    Ok(Bench {
        seed: run.seed,
        drop: Some(run.drop),
        resume: Some(run.clone()),
        ..in_its_places(bench, run)?
    })
}

/// Where a run measured, unless other folders are given.
fn in_its_places(bench: Bench, run: &Run) -> anyhow::Result<Bench> {
    let paths = run.storages.iter().map(|storage| PathBuf::from(&storage.path));
    let mut recorded: Vec<PathBuf> = paths.collect();
    // The storage of second files is the last.
    let is_apart = run.contests.iter().any(|contest| contest.other_storage.is_some());
    let recorded_other = is_apart.then(|| recorded.pop()).flatten();
    let folders = match (bench.folders.as_slice(), recorded.as_slice()) {
        ([], _) => recorded,
        ([..], [file]) if file.is_file() => bail!("{}: is what {} reads: omit --dir", file.display(), run.id),
        (given, _) => given.to_vec(),
    };
    let file = match folders.as_slice() {
        [only] if only.is_file() => Some(only.clone()),
        _ => None,
    };
    Ok(Bench {
        folders,
        other: bench.other.or(recorded_other),
        file,
        ..bench
    })
}

/// An experiment by its name, or by the path of its file.
fn find(name: &OsStr) -> anyhow::Result<Experiment> {
    let path = Path::new(name);
    Ok(match name.to_str() {
        Some(word) if !word.contains('/') && path.extension().is_none_or(|extension| extension != "toml") => {
            Experiment::builtin(word)?
        }
        _ => Experiment::from_file(path)?,
    })
}

/// A seed that is short enough to be typed again.
fn seed_from_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_micros() as u64 % 1_000_000_000)
}

/// A run as it is kept, and as all sittings conclude it.
struct Concluded {
    alone: Run,
    shown: Run,
}

/// A run's text in one of the forms it is exported in: samples are the run's alone, what follows rests on all sittings.
type Form = fn(&Concluded) -> anyhow::Result<String>;

/// Where the run is written to besides; all paths are checked before anything is measured.
fn exports(arguments: &Arguments) -> anyhow::Result<Vec<(Output, Form)>> {
    let wanted: [(&Option<PathBuf>, Form); 5] = [
        (&arguments.export_json, |run| Ok(seekless_record::to_json(&run.alone)?)),
        (&arguments.export_csv, |run| Ok(to_csv(&run.alone)?)),
        (&arguments.export_columns, |run| columns(&run.alone)),
        (&arguments.export_markdown, |run| Ok(to_markdown(&run.shown))),
        (&arguments.report, |run| {
            Ok(to_html_as_concluded(&run.shown, &run.alone)?)
        }),
    ];
    let mut exports: Vec<(Output, Form)> = Vec::new();
    for (path, form) in wanted {
        let Some(path) = path else { continue };
        let output = Output::prepare(path)?;
        let experiments = arguments.experiments.iter().map(Path::new);
        let mut inputs = experiments.chain(arguments.file.as_deref());
        if inputs.any(|input| output.replaces(input)) {
            bail!("{}: is read by this run: write to another file", path.display());
        }
        let target = output.target();
        if target.is_some() && exports.iter().any(|(other, _)| other.target() == target) {
            let path = path.display();
            bail!("{path}: is named twice: each export takes a file of its own");
        }
        exports.push((output, form));
    }
    Ok(exports)
}
