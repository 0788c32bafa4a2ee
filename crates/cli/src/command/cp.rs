//! `seekless cp`: copies files and trees.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use seekless_results::{bytes, counted, files, plural, rate, thousands};
use seekless_sys::{into_unlocked, lock_mutex};
use seekless_tools::cp::{
    self, CpDurability, CpEvent, CpFailure, CpOptions, CpSummary, Existing, OWNER_OF_OTHERS, Preserved, ROUNDED_TIMES,
    Sameness, TargetMeaning, UNSTORED_TIMES, When,
};
use seekless_tools::{JobProgress, JobWatch, Stop};
use serde_json::json;

use self::checksums::{checksum_line, checksum_of, checksums_output};
use self::foreign_options::ForeignOptions;
use super::values::{Word, one_of};
use super::{Failure, raise_open_files, unless_printed, unless_stopped, unwritten};
use crate::output::Output;
use crate::show::{Amount, PROGRESS, Page, stdout, tell_why, visible_path};
use crate::signals::stopping;

mod checksums;
mod foreign_options;

/// Copy files and directory trees, preserving their attributes.
///
/// Preserves mode, owner, times, hard links, symbolic links, extended attributes, access control lists and holes, as `cp -a` does.
/// Directories are copied recursively; named FIFOs and devices are read, unless -a or -R is given. Blocks are shared where the file
/// system supports it (reflinks); otherwise the kernel copies.
///
/// New directories get their names when they are complete, and files in existing directories when they are whole, so nothing partial has a
/// final name, even after a kill. The same command resumes. Flags (chattr(1)) and creation times are not copied. Files in the target
/// that are not in the source stay; `rsync --delete` removes them.
#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    override_usage = "seekless cp [OPTIONS] SOURCE... TARGET\n       seekless cp [OPTIONS] -t DIR SOURCE...",
    after_help = "\
Examples:
  seekless cp photos /backup              # creates or updates /backup/photos
  seekless cp -T photos /backup/pictures  # the copy is /backup/pictures itself
  seekless cp photos/. /backup            # the contents of photos, into /backup
  seekless cp -u photos /backup           # only files that are newer in photos
  seekless cp --durable --verify vm.img /mnt/disk"
)]
pub struct Arguments {
    /// Files and directories to copy; the last path is the target: a directory to copy into, or the name of the copy
    #[arg(value_name = "SOURCE", required = true)]
    paths: Vec<PathBuf>,
    /// Copy everything into this directory
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    target_directory: Option<PathBuf>,
    /// Treat TARGET as the name of the copy, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    #[command(flatten)]
    foreign: ForeignOptions,
    /// Do not replace existing files
    #[arg(short, long, overrides_with = "update")]
    no_clobber: bool,
    /// Which existing files to replace; -u means those that are older than their sources
    #[arg(short, long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "older",
          overrides_with = "no_clobber", value_parser = one_of(UPDATE))]
    update: Option<Existing>,
    /// Skip files whose copies in the target have the same bytes (the default) or the same size and time
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "bytes",
          value_parser = one_of(SAMENESS))]
    compare: Option<Sameness>,
    /// Stay on this file system: do not enter mount points
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// When to share blocks with the source (reflink)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
          default_missing_value = "always", value_parser = one_of(REFLINK))]
    reflink: When,
    /// When to create holes
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of(SPARSE))]
    sparse: When,
    /// Preserve only these attributes; without LIST: mode,ownership,timestamps
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, value_delimiter = ',',
          default_missing_value = "mode,ownership,timestamps", value_parser = one_of(PRESERVED))]
    preserve: Option<Vec<usize>>,
    /// Do not preserve these attributes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(PRESERVED))]
    no_preserve: Vec<usize>,
    /// Sync the file system once at the end, so that everything is on the device
    #[arg(long)]
    durable: bool,
    /// Sync each file and directory before the next one (slow)
    #[arg(long, conflicts_with = "durable")]
    fsync: bool,
    /// Read each new copy back from the device and compare it with its source
    #[arg(long)]
    verify: bool,
    /// Write a checksum of each copied file to FILE, for `b3sum -c` or, if its name ends in sha256 or sha256sums, for
    /// `sha256sum -c`; holes are hashed as zeros, which takes as long as data
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checksums: Option<PathBuf>,
    /// Do not evict files from the page cache that were not there before
    #[arg(long)]
    keep_cached: bool,
    /// Print what would be copied; copy nothing
    #[arg(long)]
    dry_run: bool,
    /// Print each source and its copy
    #[arg(short, long)]
    verbose: bool,
    /// Explain on standard error how files were copied
    #[arg(long)]
    explain: bool,
    /// Print a JSON document instead of the summary
    #[arg(long)]
    json: bool,
}

const REFLINK: [Word<When>; 3] = [
    ("auto", "Where the file system supports it", When::Auto),
    ("always", "Fail if blocks cannot be shared", When::Always),
    ("never", "Do not share blocks", When::Never),
];

const UPDATE: [Word<Existing>; 3] = [
    ("all", "All", Existing::Replaced),
    ("none", "None, as with -n", Existing::Kept),
    (
        "older",
        "Those that are older than their sources",
        Existing::ReplacedIfOlder,
    ),
];

const SAMENESS: [Word<Sameness>; 2] = [
    ("bytes", "Read both and compare them", Sameness::Bytes),
    ("time", "Compare size and modification time only", Sameness::Time),
];

const SPARSE: [Word<When>; 3] = [
    ("auto", "Keep the holes of the source", When::Auto),
    ("always", "Also turn other runs of zeros into holes", When::Always),
    ("never", "Create no holes", When::Never),
];

/// The words of `--preserve`; `context` is one of the extended attributes.
const PRESERVED: [Word<usize>; 7] = [
    ("mode", "Permissions", 0),
    ("ownership", "Owner and group", 1),
    ("timestamps", "Access and modification times", 2),
    ("links", "Hard links between copied files", 3),
    ("xattr", "Extended attributes and access control lists", 4),
    ("context", "Same as xattr, which includes the security context", 4),
    ("all", "All of these", 5),
];

fn preserved(arguments: &Arguments) -> Preserved {
    let mut kept = [arguments.preserve.is_none(); 5];
    let mut set = |words: &[usize], is_kept: bool| {
        for word in words {
            kept.get_mut(*word).into_iter().for_each(|kept| *kept = is_kept);
            if *word == 5 {
                kept = [is_kept; 5];
            }
        }
    };
    set(arguments.preserve.as_deref().unwrap_or_default(), true);
    set(&arguments.no_preserve, false);
    let [mode, ownership, timestamps, links, xattr] = kept;
    Preserved {
        mode,
        ownership,
        timestamps,
        links,
        xattr,
    }
}

/// Reports what is copied: names, the progress line, failures, and checksums.
struct CpReporter<'a> {
    /// What is copied, for the progress.
    name: String,
    entries: AtomicU64,
    shows_progress: bool,
    is_verbose: bool,
    unwritten: OnceLock<io::Error>,
    stop: Stop,
    checksums: Option<Mutex<BufWriter<&'a mut (dyn Write + Send)>>>,
}

impl JobWatch<CpEvent<'_>> for CpReporter<'_> {
    fn wants_progress(&self) -> bool {
        self.shows_progress
    }

    fn progress(&self, progress: &JobProgress) {
        let entries = progress.done_entries;
        if self.entries.fetch_max(entries, Ordering::Relaxed) < entries {
            PROGRESS.name(|| format!("{} ({} entries)", self.name, thousands(entries)));
        }
        PROGRESS.report(progress);
    }

    fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
        match event {
            CpEvent::Copied { from, to } if self.is_verbose => {
                if let Err(error) = writeln!(stdout(), "{} -> {}", visible_path(&from()), visible_path(&to())) {
                    let _ = self.unwritten.set(error);
                }
            }
            CpEvent::Copied { .. } => {}
            CpEvent::Checksum { checksum, to } => {
                if let Some(checksums) = &self.checksums {
                    let _ = lock_mutex(checksums).write_all(&checksum_line(checksum, to));
                }
            }
            CpEvent::Failed(CpFailure { path, action, reason }) => {
                crate::print_error(&anyhow!("{}: cannot {action}: {reason}", visible_path(path)));
            }
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match copy(arguments) {
        // The exit code of cp(1).
        Err(Failure::Errors(errors)) => {
            errors.iter().for_each(crate::print_error);
            Ok(1)
        }
        done => done.map(|()| 0),
    }
}

fn copy(arguments: &Arguments) -> Result<(), Failure> {
    raise_open_files();
    let (sources, target) = operands(arguments)?;
    let checksums = arguments.checksums.as_deref();
    let output = |path| checksums_output(path, sources, target, arguments);
    let checksums = checksums.map(output).transpose()?;
    let (stop, caught) = stopping(Stop::stop)?;
    let started = Instant::now();
    let (summary, written) = copy_reported(arguments, sources, target, checksums, &stop)?;
    let seconds = started.elapsed().as_secs_f64();
    let written = written.and_then(|()| {
        if arguments.json {
            print_json(&summary, seconds)
        } else {
            print_summary(&summary, seconds, arguments)
        }
    });
    written.with_context(|| unwritten(Some("the files were copied")))?;
    if arguments.explain {
        explain(&summary);
    }
    unless_stopped(&caught)?;
    unless_printed(!summary.is_complete())
}

/// The sources and the target. Fails if options ask for what is not done.
fn operands(arguments: &Arguments) -> anyhow::Result<(&[PathBuf], &Path)> {
    if let Some((option, instead)) = arguments.foreign.refused {
        bail!("seekless cp does not support --{option}; use `{instead}`");
    }
    if arguments.reflink == When::Always && arguments.sparse != When::Auto {
        bail!("--reflink works only with --sparse auto: shared blocks have the holes of the source");
    }
    match (&arguments.target_directory, arguments.paths.split_last()) {
        (Some(target), _) => Ok((&arguments.paths[..], target.as_path())),
        (None, Some((target, sources))) if !sources.is_empty() => Ok((sources, target.as_path())),
        _ => bail!("missing target: give SOURCE and TARGET, or -t DIR and SOURCE"),
    }
}

/// Copies, with the progress line, and the checksums if there is an output for them. Returns what was done, and whether names and
/// checksums were written.
fn copy_reported(
    arguments: &Arguments,
    sources: &[PathBuf],
    target: &Path,
    checksums: Option<Output>,
    stop: &Stop,
) -> anyhow::Result<(CpSummary, anyhow::Result<()>)> {
    let name = visible_path(&sources[0]);
    let shows_progress = PROGRESS.begin(true, "copying", name.clone(), Amount::Bytes(None));
    let (mut copied, mut unprinted) = (Ok(CpSummary::default()), None);
    let copy = |list: Option<&mut (dyn Write + Send)>| {
        let reporter = CpReporter {
            name,
            entries: AtomicU64::new(0),
            shows_progress,
            is_verbose: arguments.verbose,
            unwritten: OnceLock::new(),
            stop: stop.clone(),
            checksums: list.map(|list| Mutex::new(BufWriter::new(list))),
        };
        copied = cp::copy_trees(sources, target, &options(arguments), &reporter);
        PROGRESS.end();
        unprinted = reporter.unwritten.into_inner();
        match reporter.checksums {
            // Then an old list stays.
            Some(_) if copied.is_err() => Err(io::Error::other("nothing was copied")),
            Some(list) => into_unlocked(list).flush(),
            None => Ok(()),
        }
    };
    let listed = match checksums {
        Some(output) => output.write_by(|list| copy(Some(list))),
        None => Ok(copy(None)?),
    };
    let printed = unprinted.map_or(Ok(()), |error| Err(error.into()));
    Ok((copied?, listed.and(printed)))
}

fn options(arguments: &Arguments) -> CpOptions {
    CpOptions {
        followed: arguments.foreign.followed,
        reads_streams: !arguments.foreign.keeps_special,
        existing: if arguments.no_clobber {
            Existing::Kept
        } else {
            arguments.update.unwrap_or_default()
        },
        same: arguments.compare,
        target: if arguments.target_directory.is_some() {
            TargetMeaning::Directory
        } else if arguments.no_target_directory {
            TargetMeaning::Name
        } else {
            TargetMeaning::AsFound
        },
        preserved: preserved(arguments),
        // As with cp(1).
        usual_mode: arguments.no_preserve.iter().any(|word| [0, 5].contains(word)),
        reflink: arguments.reflink,
        sparse: arguments.sparse,
        durability: if arguments.fsync {
            CpDurability::Each
        } else if arguments.durable {
            CpDurability::AtEnd
        } else {
            CpDurability::None
        },
        one_file_system: arguments.one_file_system,
        keep_cached: arguments.keep_cached,
        verify: arguments.verify,
        checksum: arguments.checksums.as_deref().map(checksum_of),
        dry_run: arguments.dry_run,
    }
}

fn print_json(summary: &CpSummary, seconds: f64) -> anyhow::Result<()> {
    let mut object = json!(summary);
    object["seconds"] = seconds.into();
    Ok(Page::stdout().json(&object)?)
}

/// What was done, in a few lines; nothing for a single file.
fn print_summary(summary: &CpSummary, seconds: f64, arguments: &Arguments) -> anyhow::Result<()> {
    let is_single = summary.files + summary.symbolic_links + summary.special <= 1 && summary.directories == 0;
    let is_asked = arguments.dry_run || arguments.verify && summary.files > 0;
    if is_single && !is_asked && summary.not_preserved.is_empty() {
        return Ok(());
    }
    let mut page = match &arguments.checksums {
        Some(list) if list == Path::new("-") => Page::stderr(),
        _ => Page::stdout(),
    };
    let copied = if arguments.dry_run { "Would copy" } else { "Copied" };
    let directories = plural(summary.directories, "directory", "directories");
    let speed = match (arguments.dry_run, seconds > 0.0) {
        (false, true) => format!(" in {seconds:.2} s ({})", rate(summary.bytes as f64 / seconds)),
        _ => String::new(),
    };
    let (files, size) = (files(summary.files), bytes(summary.bytes));
    writeln!(page, "{copied} {files} in {directories}, {size}{speed}")?;
    for detail in details(summary) {
        writeln!(page, "  {detail}")?;
    }
    Ok(())
}

/// The lines below what was copied: what else there was, what copies lack, and what failed.
fn details(summary: &CpSummary) -> Vec<String> {
    let others = [
        (summary.symbolic_links, "symbolic link", "symbolic links"),
        (summary.hard_links, "hard link", "hard links"),
        (summary.special, "special file", "special files"),
        (summary.reflinked, "reflinked file", "reflinked files"),
        (summary.resumed, "file already copied", "files already copied"),
        (
            summary.kept,
            "file of the target was kept",
            "files of the target were kept",
        ),
        (summary.verified, "file verified", "files verified"),
    ];
    let others = others.into_iter().filter(|(count, ..)| *count > 0);
    let others = others.map(|(count, one, many)| plural(count, one, many));
    let holes = (summary.hole_bytes > 0).then(|| format!("{} in holes", bytes(summary.hole_bytes)));
    let others: Vec<String> = others.chain(holes).collect();
    let lacking = summary.not_preserved.iter().map(|(what, count)| {
        let why = match *what {
            OWNER_OF_OTHERS => ": only root can change owners",
            ROUNDED_TIMES => ": the target's file system rounds them",
            UNSTORED_TIMES => ": the target's file system cannot store them",
            _ => "",
        };
        format!("not preserved: {what} of {}{why}", files(*count))
    });
    let unfinished = "incomplete: run the same command again to resume";
    let others = (!others.is_empty()).then(|| others.join(", "));
    let unfinished = summary.is_unfinished.then(|| unfinished.to_owned());
    let failures = (summary.failures > 0).then(|| counted(summary.failures, "failure"));
    let details = others.into_iter().chain(lacking);
    details.chain(unfinished).chain(failures).collect()
}

/// How the files were copied.
fn explain(summary: &CpSummary) {
    let in_kernel = summary.reflinked + summary.copied_in_kernel;
    let counts = [
        summary.reflinked,
        summary.copied_in_kernel,
        summary.files.saturating_sub(in_kernel),
    ];
    let ([reflinked, copied, others], threads) = (counts.map(thousands), summary.threads);
    let how = format!(
        "threads: {threads}; files: {reflinked} reflinked, {copied} copied by the kernel (copy_file_range), {others} read and \
         written, or empty"
    );
    tell_why("cp", &how);
    for (method, why) in &summary.large {
        tell_why("cp", &format!("large files: {method}: {why}"));
    }
    if let Some(why) = &summary.by_place {
        tell_why("cp", &format!("files were read in on-disk order: {why}"));
    }
}
