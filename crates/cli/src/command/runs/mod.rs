//! `seekless runs`: saved runs.

mod exchange;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use seekless_lab::store::{Document, Store};
use seekless_record::{Run, Storage};
use seekless_report::comparison_to_html;
use seekless_results::{Origin, bytes, compare, objections, pool_newest, table, visible};

use super::profile::renew_profiles;
use super::sittings::over_sittings;
use super::{Failure, unless_failed};
use crate::config;
use crate::output::Output;
use crate::show::{
    PLAIN, Page, RunParts, held_bytes, list_runs, next_command, runs_json, show_comparison, show_rankings, show_run,
    too_large,
};

/// List, show, compare and exchange saved runs.
///
/// A run is named by its ID, a unique ID prefix, `latest`, or the path of its JSON file. Nothing is sent
/// anywhere: `seekless-hub share`, a program of its own, sends runs to a hub.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  seekless runs                              # all of them, the newest first
  seekless runs show latest                  # as `seekless bench` shows it
  seekless runs compare 2026-11-20 latest    # what a new kernel changed
  seekless runs export --anonymous latest -o run.json
  seekless runs import theirs.json           # keep runs of others, separately
  seekless runs table                        # which methods are fastest where"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a run as `seekless bench` does.
    #[command(after_help = "\
Examples:
  seekless runs show latest
  seekless runs show --all 2026-11-20T14-03-22-read
  seekless runs show ./run.json")]
    Show {
        /// The run
        #[arg(value_name = "ID|FILE.json")]
        id: OsString,
        #[command(flatten)]
        parts: RunParts,
        /// Ignore earlier runs on this storage: conclude from this run alone
        #[arg(long)]
        alone: bool,
        /// Print the run as one JSON document, with every sample and the conclusions as shown
        #[arg(long)]
        json: bool,
    },
    Compare(Compare),
    Export(exchange::Export),
    Import(exchange::Import),
    /// Rank methods across machines, by kind of device, file system and kernel.
    ///
    /// Own and imported runs count alike. A machine with many runs counts as one. A ratio is a method's time divided by
    /// that of the best method: the median over the machines.
    #[command(after_help = "\
Examples:
  seekless runs table
  seekless runs table --all
  seekless runs table --json")]
    Table {
        /// Show all methods
        #[arg(long)]
        all: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Delete runs.
    #[command(after_help = "\
Examples:
  seekless runs remove 2026-11-20T14-03-22-read
  seekless runs remove --down-to 500M    # the oldest, until 500 MiB are left")]
    Remove {
        /// Runs to delete, own or imported
        #[arg(value_name = "ID", required_unless_present = "down_to")]
        ids: Vec<OsString>,
        /// Delete the oldest runs, own or imported, until the rest takes at most SIZE
        #[arg(long, value_name = "SIZE", value_parser = seekless_engine::method::parse_size, conflicts_with = "ids",
            allow_hyphen_values = true)]
        down_to: Option<u64>,
    },
}

/// Show what changed between two runs, with intervals.
///
/// The runs must be from one machine, file system and kind of device. Contests are compared if they measured the same.
/// Two runs have no rounds in common: an interval shows how much each run varied, not how much the machine varies from
/// day to day.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless runs compare 2026-11-20T14-03-22-read latest
  seekless runs compare --all before.json after.json
  seekless runs compare before.json after.json --report changed.html
  seekless runs compare --anyway mine.json theirs.json")]
struct Compare {
    /// The earlier run
    #[arg(value_name = "FIRST")]
    first: OsString,
    /// The later run
    #[arg(value_name = "SECOND")]
    second: OsString,
    /// Compare runs of different machines, file systems or devices, too
    #[arg(long)]
    anyway: bool,
    /// Also show methods with fewer than 6 rounds
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also write the comparison to this file, as an HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let store = config::store()?;
    match &arguments.command {
        None => list(&store, arguments.json),
        Some(Command::Show { id, parts, alone, json }) => Ok(show(&store, id, *parts, *alone, *json)?),
        Some(Command::Compare(arguments)) => Ok(compare_runs(&store, arguments)?),
        Some(Command::Export(arguments)) => Ok(exchange::export(&store, arguments)?),
        Some(Command::Import(arguments)) => exchange::import(&store, arguments),
        Some(Command::Table { all, json }) => rank(&store, *all, *json),
        Some(Command::Remove { ids, down_to }) => remove(&store, ids, *down_to),
    }
}

/// Reads all documents; also returns the errors of those that cannot be read.
fn read_all(documents: &[Document]) -> (Vec<(&Document, Run)>, Vec<anyhow::Error>) {
    let mut runs = Vec::new();
    let mut failed = Vec::new();
    for document in documents {
        match document.read() {
            Ok(run) => runs.push((document, run)),
            Err(error) => failed.push(anyhow!(error).context("skipped")),
        }
    }
    (runs, failed)
}

fn list(store: &Store, json: bool) -> Result<(), Failure> {
    let documents = store.documents()?;
    let (mut runs, failed) = read_all(&documents);
    runs.sort_by(|one, other| other.1.started.cmp(&one.1.started).then(other.0.id.cmp(&one.0.id)));
    let is_own = |document: &Document| document.origin == Origin::Own;
    let own = runs.iter().filter(|(document, _)| is_own(document));
    let own: Vec<Run> = own.map(|(_, run)| run.clone()).collect();
    let shown = runs.iter_mut().filter(|(document, _)| is_own(document));
    for ((_, run), pooled) in shown.zip(pool_newest(&own)) {
        // An older run of the same answers for itself.
        *run = pooled.unwrap_or_else(|| std::mem::take(run));
    }
    let mut page = Page::stdout();
    if json {
        page.json(&runs_json(&runs))?;
    } else {
        list_runs(&mut page, &runs, &documents)?;
        if let Some(warning) = too_large(&documents) {
            page.say(PLAIN, &warning)?;
        }
    }
    page.flush()?;
    unless_failed(failed)
}

fn show(store: &Store, id: &OsStr, parts: RunParts, alone: bool, json: bool) -> anyhow::Result<()> {
    let document = store.find(id)?;
    let run = over_sittings(&document.read()?, alone || document.origin == Origin::Imported);
    let mut page = Page::stdout();
    if json {
        return Ok(page.json(&run)?);
    }
    writeln!(page, "Run      {}{}\n", visible(&document.id), whose(&document))?;
    show_run(&mut page, &run, parts)?;
    if let Some(next) = next_command(&run) {
        page.labelled(PLAIN, "Next", 9, &next)?;
    }
    Ok(page.flush()?)
}

/// The note for an imported run.
fn whose(document: &Document) -> &'static str {
    match document.origin {
        Origin::Imported => ", imported: measured by others",
        Origin::Own | Origin::File => "",
    }
}

fn compare_runs(store: &Store, arguments: &Compare) -> anyhow::Result<()> {
    let documents = [store.find(&arguments.first)?, store.find(&arguments.second)?];
    if documents[0].path == documents[1].path {
        let id = &documents[0].id;
        bail!("`{id}` is named twice; name two different runs");
    }
    let [first, second] = [documents[0].read()?, documents[1].read()?];
    let objections = objections(&first, &second);
    if !arguments.anyway && !objections.is_empty() {
        let all = objections.join(", ");
        bail!("the runs are not from one machine and storage: {all}; --anyway compares them regardless");
    }
    let comparison = compare(&first, &second)?;
    let mut page = Page::stdout();
    if let Some(report) = &arguments.report {
        let output = Output::prepare(report, documents.iter().map(|document| document.path.as_path()))?;
        if output.is_stdout() && arguments.json {
            bail!("{}: is named twice; write the page to a file", output.name());
        }
        if output.is_stdout() {
            page = Page::stderr();
        }
        output.write(comparison_to_html(&comparison, &objections).as_bytes())?;
    }
    if arguments.json {
        let value = serde_json::json!({
            "first": { "id": documents[0].id, "origin": documents[0].origin },
            "second": { "id": documents[1].id, "origin": documents[1].origin },
            "objections": objections,
            "comparison": comparison,
        });
        page.json(&value)?;
    } else {
        page.say(PLAIN, &comparison.answer_in_words())?;
        for (word, document) in ["First", "Second"].into_iter().zip(&documents) {
            writeln!(page, "{word:<8} {}{}", visible(&document.id), whose(document))?;
        }
        show_comparison(&mut page, &comparison, &objections, arguments.all)?;
    }
    Ok(page.flush()?)
}

fn rank(store: &Store, all: bool, json: bool) -> Result<(), Failure> {
    let documents = store.documents()?;
    let (runs, failed) = read_all(&documents);
    let by_origin: Vec<(Origin, &Run)> = runs.iter().map(|(document, run)| (document.origin, run)).collect();
    let rankings = table(&by_origin);
    let mut page = Page::stdout();
    if json {
        page.json(&rankings)?;
    } else if rankings.is_empty() {
        page.say(
            PLAIN,
            "There is nothing to rank yet. `seekless bench` measures a storage.",
        )?;
    } else {
        show_rankings(&mut page, &rankings, all)?;
    }
    page.flush()?;
    unless_failed(failed)
}

fn remove(store: &Store, ids: &[OsString], down_to: Option<u64>) -> Result<(), Failure> {
    let documents = match down_to {
        Some(most) => store.beyond(most)?,
        // Finds all of them before it removes the first.
        None => chosen(store, ids)?,
    };
    let mut page = Page::stdout();
    let mut failed = Vec::new();
    let own = documents.iter().filter(|document| document.origin == Origin::Own);
    let runs = own.filter_map(|document| document.read_own().ok());
    let storages: Vec<Storage> = runs.flat_map(|run| run.storages).collect();
    for document in &documents {
        match store.remove(document) {
            Ok(()) => writeln!(page, "Removed  {}, {}", visible(&document.id), bytes(document.bytes))?,
            Err(error) => failed.push(error.into()),
        }
    }
    renew_profiles(&storages, false);
    let left = store.documents()?;
    writeln!(page, "{} left, {}", left.len(), bytes(held_bytes(&left)))?;
    page.flush()?;
    unless_failed(failed)
}

/// The documents with these names, each once.
fn chosen(store: &Store, names: &[OsString]) -> anyhow::Result<Vec<Document>> {
    let mut chosen: Vec<Document> = Vec::new();
    for name in names {
        let document = store.find(name)?;
        if document.origin == Origin::File {
            let name = Path::new(name).display();
            bail!("{name}: is a file, not an ID; `seekless runs remove` removes what `seekless runs` lists");
        }
        if !chosen.contains(&document) {
            chosen.push(document);
        }
    }
    Ok(chosen)
}

/// Reads the runs with these names.
fn read_named(store: &Store, names: &[OsString]) -> anyhow::Result<Vec<(Document, Run)>> {
    let read = |name: &OsString| {
        let document = store.find(name)?;
        let run = document.read().context("nothing was exported")?;
        Ok((document, run))
    };
    names.iter().map(read).collect()
}
