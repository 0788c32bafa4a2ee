//! `seekless cmp -r`: compares two trees.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use seekless_engine::Scanner;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{self, Scan};
use seekless_results::{bytes, visible};
use seekless_sys::{into_unlocked, lock_mutex};
use seekless_tools::tree::{self, TreeEvent, TreeOptions, TreeSummary};
use seekless_tools::walk::Globs;
use seekless_tools::{ClosureWatch, PathFailure, Stop};

use super::{EXIT_DIFFERENT, EXIT_TROUBLE};
use crate::call;
use crate::color::Color;
use crate::command::profile::NoProfile;
use crate::command::values::JsonOptions;
use crate::command::{Failure, raise_open_files, standard_input, unless_stopped};
use crate::show::{
    Amount, Cleared, Differences, Form, PROGRESS, explained, files, planned_batches, show_same_size, showing, stderr,
    stdout, tell_why, visible_path,
};
use crate::signals::{CaughtSignal, stopping};

/// Compare two trees: names, types, contents, targets of symbolic links, numbers of devices.
///
/// Prints a line for each difference, as `diff -rq --no-dereference` does, with the first byte that differs; with -q,
/// exactly its lines. If nothing differs, prints nothing. Symbolic links are not followed, except for the two operands.
/// Directories of other file systems are entered. Two FIFOs, sockets or devices of one name differ. A file that cannot be read is
/// named on standard error, and the comparison continues. The exit code is 0 if nothing differs, 1 if something does,
/// and 2 if something could not be compared.
#[derive(Debug, Parser)]
#[command(
    name = "seekless cmp",
    max_term_width = 100,
    after_help = "\
Examples:
  seekless cmp -r photos /mnt/backup/photos     # what differs, and where
  seekless cmp -rq -x .git src /old/src         # the lines of diff -rq
  seekless cmp -r --metadata / /mnt/root        # modes, owners and times, too
  seekless cmp -r -0 a b | xargs -0 ls -ld      # names, for other programs
  seekless cmp -r --quiet a b && echo the same  # the exit code alone
  seekless cmp --same-size photos               # are large files of one size equal?"
)]
pub struct Arguments {
    /// Two directories, or two files
    #[arg(value_names = ["TREE1", "TREE2"], num_args = 2, required_unless_present = "same_size")]
    trees: Vec<PathBuf>,
    /// Compare trees
    #[arg(long, short)]
    recursive: bool,
    /// Compare mode, owner, group, modification time and extended attributes, too
    #[arg(long)]
    metadata: bool,
    /// Print only that files differ, not where: the lines of diff -rq
    #[arg(long, short = 'q')]
    brief: bool,
    /// Print nothing, and stop at the first difference; only set the exit code
    #[arg(long, short = 's', visible_alias = "silent", conflicts_with_all = ["brief", "stats", "json", "jsonl", "null"])]
    quiet: bool,
    /// Treat a file or directory that only one tree has as empty in the other, and a missing operand as empty
    #[arg(long, short = 'N')]
    new_file: bool,
    /// Skip files and directories whose name matches GLOB, or whose path below a tree does if GLOB has a slash
    #[arg(long, short = 'x', value_name = "GLOB", allow_hyphen_values = true)]
    exclude: Vec<String>,
    /// Skip what matches a line of FILE; `-` is standard input
    #[arg(long, short = 'X', value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Print a summary on standard error
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    json: JsonOptions,
    /// Print only the names, unescaped, each followed by a zero byte
    #[arg(long, short = '0', conflicts_with_all = ["json", "jsonl"])]
    null: bool,
    /// Explain on standard error how they were compared, and why
    #[arg(long)]
    explain: bool,
    /// Count how many files of 1 MiB or more that have the same size are equal
    #[arg(long, value_name = "TREE", conflicts_with_all = ["trees", "metadata", "brief", "quiet", "null", "explain",
        "new_file", "exclude", "exclude_from", "stats"])]
    same_size: Option<PathBuf>,
    #[command(flatten)]
    color: Color,
    #[command(flatten)]
    no_profile: NoProfile,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    raise_open_files();
    arguments.no_profile.heed();
    let (stop, caught) = stopping(Stop::stop)?;
    if let Some(tree) = &arguments.same_size {
        return same_size(tree, arguments.json.form().is_some(), &stop, &caught);
    }
    let [one, other] = arguments.trees.as_slice() else {
        return Err(anyhow::anyhow!("two trees are compared").into());
    };
    compare(arguments, [one, other], &stop, &caught)
}

fn compare(arguments: &Arguments, roots: [&Path; 2], stop: &Stop, caught: &CaughtSignal) -> Result<u8, Failure> {
    let form = match arguments.json.form() {
        Some(form) => Form::Json(form),
        None if arguments.quiet => Form::Silent,
        None if arguments.null => Form::Null,
        None if arguments.brief => Form::Brief,
        None => Form::Lines,
    };
    let exclude = Globs::as_diff(&excluded(arguments)?, &roots.map(Path::to_owned)).context("--exclude")?;
    let options = TreeOptions {
        metadata: arguments.metadata,
        brief: arguments.brief || arguments.null || arguments.quiet,
        new_files: arguments.new_file,
        exclude: Some(&exclude).filter(|globs| !globs.is_empty()),
        ..TreeOptions::default()
    };
    PROGRESS.begin(form != Form::Silent, "comparing", String::new(), Amount::default());
    // The stream for terminals would remove zero bytes.
    let plain: Box<dyn Write + Send> = if form == Form::Null {
        Box::new(Cleared(call::output()))
    } else {
        Box::new(stdout())
    };
    let differences = Mutex::new(Differences::new(BufWriter::new(plain), roots, form));
    let watch = ClosureWatch::new(
        stop,
        |progress| lock_mutex(&differences).progress(progress),
        |event: TreeEvent<'_>| lock_mutex(&differences).event(event),
    );
    let started = Instant::now();
    let summary = tree::compare(roots[0], roots[1], &options, &watch)?;
    into_unlocked(differences).finish(&summary, arguments.stats)?;
    if arguments.explain {
        explain(roots[0], &summary, started.elapsed());
    }
    unless_stopped(caught)?;
    Ok(match (summary.failures, summary.differences) {
        (0, 0) => 0,
        (0, _) => EXIT_DIFFERENT,
        _ => EXIT_TROUBLE,
    })
}

/// The globs of --exclude, and those of the files of --exclude-from, one a line.
fn excluded(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    let mut all = arguments.exclude.clone();
    for file in &arguments.exclude_from {
        let text = if file == Path::new("-") {
            standard_input().and_then(std::io::read_to_string)
        } else {
            std::fs::read_to_string(file)
        };
        let text = text.with_context(|| format!("--exclude-from: {}: cannot read", visible_path(file)))?;
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        all.extend(lines.map(str::to_owned));
    }
    Ok(all)
}

fn same_size(root: &Path, json: bool, stop: &Stop, caught: &CaughtSignal) -> Result<u8, Failure> {
    let failed = |failure: PathFailure<'_>| {
        let (path, reason) = (visible_path(failure.path), visible(failure.reason));
        let _ = writeln!(stderr(), "seekless: {path}: {reason}");
        ControlFlow::Continue(())
    };
    let result = tree::same_size(root, &showing(stop, failed))?;
    show_same_size(&mut stdout(), &result, json)?;
    unless_stopped(caught)?;
    Ok(if result.failures > 0 { EXIT_TROUBLE } else { 0 })
}

fn explain(root: &Path, summary: &TreeSummary, took: Duration) {
    let Some(batch) = &summary.batch else { return };
    let rings = if summary.rings > 0 {
        let (met, together) = (summary.rings, 2 * batch.batch);
        format!(
            "{met} of them met files that were not in memory, and read up to {together} of these in one io_uring call, so \
             that adjacent ones on the device take one request"
        )
    } else if batch.has_rings {
        "all files were in memory, or too few for io_uring to pay".to_owned()
    } else {
        "io_uring is not available here, so each thread waits for one file at a time".to_owned()
    };
    let order = match &summary.by_place {
        Some(device) => {
            format!("and took turns to fetch files in the order of their places on the device, because {device}")
        }
        None => format!(
            "and compared files in batches of up to {}, in the order of their inodes; {rings}",
            batch.batch
        ),
    };
    let (threads, batches) = (batch.threads, planned_batches(batch));
    let why = format!("{threads} threads listed directories ahead {order}{batches}");
    let scan = Scan {
        files: 2 * summary.files,
        bytes: 2 * summary.bytes,
        resident: None,
    };
    let plan = Scanner::plan(root, &scan, &ProcessFacts::here()).ok();
    tell_why("cmp", &explained("batches", &why, plan.as_ref(), Some(took)));
    for (method, why, number) in &summary.large {
        let why = format!("{why}; {} of {} or more", files(*number), bytes(plan::LARGE_BYTES));
        tell_why("cmp", &explained(method, &why, None, None));
    }
}
