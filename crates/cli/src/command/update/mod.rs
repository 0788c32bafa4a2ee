//! `seekless update`: applies many small edits to a file with few writes.

pub mod names;
mod show;

use std::fs::{File, Metadata};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use seekless_engine::method::{Choice, Durability, Method, Operation};
use seekless_engine::plan::Reason;
use seekless_engine::update::{
    Batch, Commit, PlanLimits, Recovered, Safety, StepKind, UpdateEstimate, UpdatePlan, Updated, Updates, Watch,
    WatchedStep, commit_watched, recover,
};
use seekless_sys::{Access, Opening, Support};
use seekless_tools::update::read_updates;
use serde::Serialize;

use self::names::written_out;
use self::show::{in_json, show, show_recovered};
use super::values::{Word, one_of, size_of_at_least};
use super::{Failure, standard_input, stat, unwritten};
use crate::call;
use crate::output::refuse_input;
use crate::show::{Amount, PROGRESS, Page, explained, stderr, tell_why, visible_path};
use crate::signals::{CaughtSignal, on_signal};

/// Apply many small edits to a file with few writes.
///
/// If a write costs more than the bytes between two updates, both become one write, and the bytes between them are read
/// first. The cost of a write is that of the storage's profile, or is measured in the directory of the file. If two updates overlap, the
/// later one wins.
///
/// Updates are lines of JSON, each with an offset and one of hex, base64 and text, or the binary form that
/// docs/formats.md describes.
///
/// An update in place (the default) that is interrupted leaves some updates in the file, and reports which. With
/// `--safety journal`, an error undoes all of them, and --recover finishes what a crash interrupted. With `--safety
/// replace`, a new file takes the name: readers see the old file or the new one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless update numbers.bin --from changes.jsonl
  echo '{\"offset\": 4000, \"hex\": \"2a000000\"}' | seekless update numbers.bin
  seekless update numbers.bin --from changes.jsonl --dry-run
  seekless update pages.db --from changes.bin --safety journal
  seekless update pages.db --recover        # after a crash")]
pub struct Arguments {
    /// The file to change
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the updates; `-` is standard input [default: -]
    #[arg(long, value_name = "UPDATES", conflicts_with = "recover")]
    from: Option<PathBuf>,
    /// How to write: `auto`, or `update/planned`, chooses by what writes cost here. `in-order`, `ascending`, `rewrite` and
    /// `coalesce,gap=SIZE` are short for `update/sync,fsync` with that order
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    method: String,
    /// What is certain to be on the device at the end [default: fsync, or the method's]
    #[arg(long, value_name = "WORD", value_parser = one_of(DURABILITIES))]
    durability: Option<Durability>,
    /// State of the file after an interruption
    #[arg(long, value_name = "WORD", default_value = "in-place", value_parser = one_of(SAFETIES))]
    safety: Safety,
    /// Write at most X bytes for each byte that changes
    #[arg(long, value_name = "X", value_parser = amplification)]
    max_amplification: Option<f64>,
    /// Memory for the updates, 16 bytes each and their content
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = |text: &str| size_of_at_least(MEMORY_BYTES_MIN, "minimum is 16M", text))]
    memory: u64,
    /// Explain on standard error the choice of method, with the predicted and actual time and the facts used
    #[arg(long)]
    explain: bool,
    /// Change nothing; show the cost of the updates one by one and as planned
    #[arg(long)]
    dry_run: bool,
    /// Finish or undo an interrupted update, from its journal
    #[arg(long, conflicts_with_all = ["dry_run", "explain", "max_amplification"])]
    recover: bool,
    /// Allow updates past the end of the file, which then grows
    #[arg(long)]
    grow: bool,
    /// Rewrite gap bytes even if other processes may be writing, and keep a journal of a file with several hard links
    #[arg(long = "unsafe")]
    is_unsafe: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const DURABILITIES: [Word<Durability>; 3] = [
    ("none", "Nothing", Durability::None),
    ("fsync", "All updates, by fsync(2) at the end", Durability::Fsync),
    ("through", "Each write when it returns", Durability::WriteThrough),
];

const SAFETIES: [Word<Safety>; 3] = [
    ("in-place", "It has some of the updates", Safety::InPlace),
    (
        "journal",
        "It is as before, or --recover finishes the update from the journal beside it",
        Safety::Journal,
    ),
    ("replace", "It is as before", Safety::Replace),
];

/// The program itself takes nearly as much.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

fn amplification(text: &str) -> Result<f64, String> {
    let most = text.parse().ok().filter(|most| *most >= 1.0);
    most.ok_or_else(|| "a number of 1 or more is needed".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.recover {
        return Ok(recover_file(arguments)?);
    }
    let file_bytes = require_file(&arguments.file)?;
    let from = arguments.from.as_deref().filter(|path| *path != Path::new("-"));
    refuse_input(&arguments.file, [from.unwrap_or(Path::new("/dev/stdin"))])?;
    let mut times = Times::default();
    let updates = timed(&mut times.read, || {
        let batch = read(arguments, from)?;
        show_step("sorting updates of", &arguments.file);
        Ok(batch.resolve())
    })?;
    if !arguments.grow {
        updates.require_inside(&arguments.file, file_bytes)?;
    }
    let mut job = timed(&mut times.facts, || Job::new(arguments, updates))?;
    let mut chosen = timed(&mut times.plan, || job.choose())?;
    let done = if arguments.dry_run {
        None
    } else {
        Some(update(&mut job, &mut chosen, &mut times.write)?)
    };
    if let Some(doubt) = &job.estimate.doubt {
        chosen.plan.reason = Reason::AtAssumedCosts {
            error: doubt.clone(),
            reason: Box::new(chosen.plan.reason),
        };
    }
    if arguments.explain {
        let (plan, took) = (&chosen.plan, done.is_some().then_some(times.write));
        let took = took.map(Duration::from_secs_f64);
        let explanation = explained(&plan.method.to_string(), &plan.reason.to_string(), Some(plan), took);
        tell_why("update", &explanation);
    }
    let mut page = Page::stdout();
    let told = if arguments.json {
        page.json(&in_json(&job, &chosen, done.as_ref(), &times))
    } else {
        show(&mut page, &job, &chosen, done.as_ref())
    };
    let done = done.map(|_| format!("{}: is updated", visible_path(&arguments.file)));
    Ok(told.with_context(|| unwritten(done.as_deref()))?)
}

/// Finishes or undoes an interrupted update.
fn recover_file(arguments: &Arguments) -> anyhow::Result<()> {
    let recovered = recover(&arguments.file)?;
    let told = show_recovered(&mut Page::stdout(), arguments, recovered);
    let is_changed = recovered != Recovered::Nothing;
    let done = is_changed.then(|| format!("{}: is recovered", visible_path(&arguments.file)));
    told.with_context(|| unwritten(done.as_deref()))
}

/// Updates the file. Says so if it loses the privileges of a program.
fn update(job: &mut Job<'_>, chosen: &mut UpdatePlan, seconds: &mut f64) -> Result<Updated, Failure> {
    let arguments = job.arguments;
    let file = &arguments.file;
    let caught = on_signal(|_| {})?;
    let before = privileges(file);
    let changed = timed(seconds, || job.change(chosen, &caught));
    if privileges(file) != before {
        // Standard error may be full.
        let _ = writeln!(stderr(), "seekless update: {}: {LOST_PRIVILEGES}", visible_path(file));
    }
    match (changed, caught.signal()) {
        (Err(error), Some(signal)) => {
            crate::print_error(&error);
            Err(Failure::Stopped(signal))
        }
        (done, _) => Ok(done?),
    }
}

/// What the kernel does with the privileges of a program when it is written to.
const LOST_PRIVILEGES: &str =
    "lost its capabilities, set-user-ID or set-group-ID, because it was written to; setcap and chmod set them again";

/// The privileges of a program: whether it has capabilities, as far as they can be read, and its set-user-ID and set-group-ID bits.
fn privileges(path: &Path) -> (bool, u32) {
    // Without waiting for a lease of another process.
    let opened = seekless_sys::open(path, Opening::plain(Access::Read)).and_then(Support::required);
    let has_capabilities = opened.is_ok_and(|file| seekless_sys::has_capabilities(&file));
    let mode = std::fs::metadata(path).map_or(0, |found| found.mode());
    (has_capabilities, mode & 0o6000)
}

/// How long the steps took, in seconds.
#[derive(Default, Serialize)]
struct Times {
    /// Reading the updates and sorting them.
    read: f64,
    /// Finding out what writing costs.
    facts: f64,
    plan: f64,
    /// From opening the file until the requested durability is reached.
    write: f64,
}

fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    let done = work();
    *seconds = start.elapsed().as_secs_f64();
    done
}

/// The file's size. Fails if it is not a regular file, before the updates are read, which may take long.
fn require_file(path: &Path) -> anyhow::Result<u64> {
    let found = stat(path)?;
    if !found.is_file() {
        let shown = visible_path(path);
        bail!("{shown}: not a regular file; only regular files can be updated");
    }
    Ok(found.len())
}

fn read(arguments: &Arguments, from: Option<&Path>) -> anyhow::Result<Batch> {
    let read = |from: &mut dyn Read, name: &str, bytes: Option<u64>| {
        PROGRESS.begin(true, "reading", name.to_owned(), Amount::Bytes(bytes));
        let batch = Batch::within(arguments.memory);
        let mut from = BufReader::with_capacity(BUFFER_BYTES, CountedRead(from));
        read_updates(&mut from, batch).with_context(|| name.to_owned())
    };
    match from {
        Some(path) => {
            let shown = visible_path(path);
            let file = File::open(path).with_context(|| format!("{shown}: cannot open"))?;
            let found = file.metadata().ok().filter(Metadata::is_file);
            read(&mut &file, &shown, found.map(|found| found.len()))
        }
        None if call::input().is_terminal() => {
            bail!("no updates: name a file of them with --from, or pipe them in")
        }
        None => {
            let mut input = standard_input().context("standard input: cannot read the updates")?;
            read(&mut input, "standard input", None)
        }
    }
}

/// Shows a step without a count in the progress line.
fn show_step(doing: &'static str, path: &Path) {
    PROGRESS.set(doing, visible_path(path), Amount::default());
}

/// Bytes of updates that are read at a time. The reader first fills its buffer with zeros, which takes 0.3 ms for a MiB of fresh memory.
const BUFFER_BYTES: usize = 128 << 10;

/// Counts the bytes that are read in the progress line.
struct CountedRead<'a>(&'a mut dyn Read);

impl Read for CountedRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        PROGRESS.add(read as u64);
        Ok(read)
    }
}

/// The method or plan, with the requested durability.
fn choice(arguments: &Arguments) -> anyhow::Result<Choice> {
    let choice: Choice = written_out(&arguments.method).parse()?;
    let operation = choice.operation();
    if operation != Operation::Update {
        bail!("`{choice}` is a {operation} method; `seekless methods update` lists update methods");
    }
    Ok(match arguments.durability {
        Some(durability) => choice.with_durability(durability)?,
        None => choice,
    })
}

/// What to do, and the facts for the plan.
struct Job<'a> {
    arguments: &'a Arguments,
    updates: Updates,
    choice: Choice,
    limits: PlanLimits,
    estimate: UpdateEstimate,
}

impl<'a> Job<'a> {
    /// Examines the file, and asks for costs if they decide the plan or a time is to be shown.
    fn new(arguments: &'a Arguments, updates: Updates) -> anyhow::Result<Self> {
        let choice = choice(arguments)?;
        let limits = PlanLimits {
            durability: choice.durability(),
            amplification_max: arguments.max_amplification,
            is_exact: false,
            safety: arguments.safety,
        };
        let is_predicted = arguments.explain || arguments.dry_run;
        let estimate = if is_predicted || choice.method().is_none() {
            UpdateEstimate::at(&arguments.file, &updates, &limits, is_predicted)?
        } else {
            UpdateEstimate::assuming(&arguments.file, &limits)?
        };
        Ok(Self {
            arguments,
            updates,
            choice,
            limits,
            estimate,
        })
    }

    fn choose(&self) -> anyhow::Result<UpdatePlan> {
        let limits = &self.limits;
        let chosen = match self.choice {
            Choice::Plan(_) => self.estimate.plan(&self.updates, limits),
            Choice::Method(method) => self.estimate.of_method(method, &self.updates, limits),
        };
        match limits.amplification_max {
            Some(most) if !chosen.cost.is_within(limits) => bail!(too_much(&chosen, limits.safety, most)),
            _ => Ok(chosen),
        }
    }

    /// Updates the file. If other processes cannot be kept out and the method was planned, writes only the bytes of the
    /// updates.
    fn change(&mut self, chosen: &mut UpdatePlan, watch: &CaughtSignal) -> anyhow::Result<Updated> {
        let arguments = self.arguments;
        let attempt = |method: Method, updates: &Updates| {
            let mut how = Commit::by(method).safety(arguments.safety);
            (how.grows, how.is_unsafe) = (arguments.grow, arguments.is_unsafe);
            commit_watched(&arguments.file, updates, &how, watch)
        };
        let amount = Amount::Bytes(Some(chosen.cost.work.written_bytes));
        PROGRESS.begin(true, "updating", visible_path(&arguments.file), amount);
        let done = attempt(chosen.plan.method, &self.updates);
        match done.as_ref().err().and_then(seekless_engine::Error::not_exclusive) {
            Some(reason) if self.choice.method().is_none() => {
                self.limits.is_exact = true;
                let mut next = self.choose()?;
                next.plan.reason = Reason::NotExclusive {
                    error: reason.to_string(),
                    reason: Box::new(next.plan.reason),
                };
                *chosen = next;
                Ok(attempt(chosen.plan.method, &self.updates)?)
            }
            _ => Ok(done?),
        }
    }
}

/// The error if the limit on write amplification cannot be kept.
fn too_much(chosen: &UpdatePlan, safety: Safety, most: f64) -> String {
    let (method, cost) = (&chosen.plan.method, &chosen.cost);
    let all = cost.amplification();
    let beside = cost.safety_bytes as f64 / cost.requested_bytes.max(1) as f64;
    let (of_these, instead) = match safety {
        Safety::InPlace => (String::new(), "omit --method"),
        Safety::Journal => (format!(" ({beside:.1} of it for the journal)"), "use another --safety"),
        Safety::Replace => (
            format!(" (up to {beside:.1} of it for the copy that takes the name)"),
            "use another --safety",
        ),
    };
    format!(
        "the write amplification of `{method}` would be {all:.1}{of_these}, but at most {most} is allowed; nothing was \
         written: {instead}, or raise --max-amplification"
    )
}

/// Shows each write. After a signal, it fails the next one, so the update is undone or reported like any failed update.
impl Watch for CaughtSignal {
    fn before(&self, step: &WatchedStep<'_>) -> std::io::Result<()> {
        match step.kind {
            StepKind::Write => PROGRESS.add(step.bytes),
            StepKind::Sync => show_step("syncing", step.path),
            _ => {}
        }
        if matches!(step.kind, StepKind::Write | StepKind::Copy) && self.signal().is_some() {
            return Err(std::io::Error::other("interrupted"));
        }
        Ok(())
    }
}
