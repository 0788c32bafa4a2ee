//! `seekless cache`: how much of files is in the page cache; dropping and warming them.

use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use seekless_engine::plan::Scan;
use seekless_engine::walk::open_root;
use seekless_engine::{StorageFacts, cache as system};
use seekless_results::{bytes, plural};
use seekless_sys::{FileSystemTrait, file_system_of, is_mount_root};
use seekless_tools::cache::{self, CacheEvent, Total};
use seekless_tools::walk::Selection;
use seekless_tools::{ClosureWatch, JobProgress, JobWatch, Stop};
use serde_json::json;

use super::confirm::require_agreement;
use super::values::JsonOptions;
use super::{Failure, raise_open_files, unless_printed, unless_stopped};
use crate::show::{
    Amount, CacheLines, Format, PLAIN, PROGRESS, Page, Width, files, json_line, other_file_systems, stderr, stdout,
    tell_scan, visible_path,
};
use crate::signals::{CaughtSignal, stopping};

/// Show how much of each file is in the page cache, drop files from it, read them into it, or lock them there.
///
/// Directories are processed recursively. The result is read back from the kernel.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless cache show --top 10 /var     # the total, and the ten largest
  seekless cache drop big.iso           # the next reader waits for the disk
  seekless cache warm database/         # the next reader does not wait
  seekless cache lock database/         # it stays in memory until Ctrl-C

For details, see `seekless cache COMMAND --help`.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how much of each file is in memory.
    ///
    /// Prints a line for each file named and a total for each directory. Symbolic links are followed if they are named,
    /// but not inside directories. A file with several hard links is counted once. Sizes are in whole pages.
    ///
    /// A block device has a cache of its own: what was read through the device, and metadata of a file system on it.
    #[command(after_help = "\
Examples:
  seekless cache show big.iso *.log     # a line for each file
  seekless cache show .                 # the total of this directory
  sudo seekless cache show /dev/sda1    # pages of the device itself
  seekless cache show --all --jsonl . | jq 'select(.resident_bytes > 0)'")]
    Show {
        #[command(flatten)]
        common: Common,
    },
    /// Drop files from the page cache, and report what stays.
    ///
    /// No data is lost: modified pages are written to the device first. Pages that a process maps or uses stay, and so do
    /// the files of a tmpfs, which exist only in memory. Permission to read the files is enough. If PATH is the root of
    /// a file system, such as /, seekless asks first.
    #[command(after_help = "\
Examples:
  seekless cache drop big.iso           # one file
  seekless cache drop /srv/data         # a directory, with all that is in it
  sudo seekless cache drop --system     # everything that the system cached",
        mut_arg("paths", |paths| paths.required(false).required_unless_present("system")))]
    Drop {
        /// Drop all clean pages of the system, and cached directory entries and inodes (needs root)
        #[arg(long, conflicts_with_all = ["paths", "all", "top", "all_file_systems", "explain"])]
        system: bool,
        /// Drop the root of a file system without asking
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Read files into the page cache, and report what is there afterwards.
    ///
    /// Files larger than the available memory are refused: reading their end would evict their beginning.
    #[command(after_help = "\
Examples:
  seekless cache warm database/         # before the first user comes
  seekless cache warm --quiet *.idx     # without progress")]
    Warm {
        /// Read them even if the available memory is too small
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Keep files in memory until Ctrl-C.
    ///
    /// Reads files and locks their pages with mlock(2), so that the system cannot evict them. First prints how much memory
    /// that takes and how much is available. Refuses files that need more than the available memory or the limit of the
    /// process (`ulimit -l`). Bytes that are appended later are not locked.
    #[command(after_help = "\
Examples:
  seekless cache lock database/         # until Ctrl-C or SIGTERM
  sudo seekless cache lock *.idx        # root has no limit on locked memory")]
    Lock {
        /// Lock them even if the available memory is too small
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Files and directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print a line for each file inside directories, too
    #[arg(long)]
    all: bool,
    /// Print the N files with the most resident bytes
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        hide_default_value = true,
        conflicts_with = "all"
    )]
    top: u32,
    /// Enter directories of other file systems, too
    #[arg(long)]
    all_file_systems: bool,
    #[command(flatten)]
    json: JsonOptions,
    /// Hide progress
    #[arg(long, short)]
    quiet: bool,
    /// Explain on standard error how it was done, with the predicted and actual time and the facts used
    #[arg(long)]
    explain: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    raise_open_files();
    match &arguments.action {
        Action::Show { common } => {
            let job = Job::new(common)?;
            let selection = job.selection.with_devices();
            Job { selection, ..job }.show()
        }
        Action::Drop {
            system: true, common, ..
        } => drop_system(common.json.form().is_some()),
        Action::Drop { common, yes, .. } => {
            for root in common.paths.iter().filter(|path| !yes && is_whole_file_system(path)) {
                let what = format!("{}: is the root of a file system", visible_path(root));
                require_agreement(
                    &format!("{what}. Drop all that is cached of it?"),
                    &format!("{what}; use --yes to drop all that is cached of it, or name a part of it"),
                )?;
            }
            Job::new(common)?.drop()
        }
        Action::Warm { force, common } => Job::new(common)?.warm(*force),
        Action::Lock { force, common } => Job::new(common)?.lock(*force),
    }
}

/// Whether a path is the root of a file system that stores files, or `/`, which need not be one in a container or after
/// chroot(2).
fn is_whole_file_system(path: &Path) -> bool {
    let is_root = |directory: &OwnedFd| {
        is_mount_root(directory) && file_system_of(directory).is_ok_and(|system| !system.is_pseudo)
    };
    path.canonicalize().is_ok_and(|path| path == Path::new("/")) || open_root(path).is_ok_and(|root| is_root(&root))
}

/// How often to check for a signal while files are locked.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Receives the progress and the files of a job.
type Watch<'a> = &'a dyn for<'e> JobWatch<CacheEvent<'e>>;

/// What the commands have in common.
struct Job<'a> {
    common: &'a Common,
    selection: Selection,
    stop: Stop,
    caught: CaughtSignal,
}

impl<'a> Job<'a> {
    fn new(common: &'a Common) -> anyhow::Result<Self> {
        let selection = Selection::new(&common.paths, common.all_file_systems);
        let (stop, caught) = stopping(Stop::stop)?;
        Ok(Self {
            common,
            selection,
            stop,
            caught,
        })
    }

    fn show(&self) -> Result<(), Failure> {
        let why = "the kernel is asked how much of each file it holds";
        let work = |watch: Watch<'_>| cache::show(&self.selection, watch);
        let sum = self.tell(why, Some("checking"), None, work, |_| None)?;
        self.end(sum.failed == 0)
    }

    fn drop(&self) -> Result<(), Failure> {
        let words = |sum: &Total| {
            let dropped = sum.before_bytes.saturating_sub(sum.resident_bytes);
            let (dropped, all) = (bytes(dropped), files(sum.files));
            let kept = bytes(sum.resident_bytes);
            let kept = match plural(sum.resident_files, "file keeps", "files keep") {
                _ if sum.resident_files == 0 => String::new(),
                files => format!("; {files} {kept} (mapped, in use, or on a tmpfs)"),
            };
            Some(format!("Dropped {dropped} of {all}{kept}."))
        };
        let why = "the kernel is asked to drop the pages of each file";
        let work = |watch: Watch<'_>| cache::drop(&self.selection, watch);
        let sum = self.tell(why, Some("dropping"), None, work, words)?;
        self.end(sum.failed + sum.unknown_files + sum.resident_files == 0)
    }

    fn warm(&self, is_forced: bool) -> Result<(), Failure> {
        let before = sum_of(&cache::show(&self.selection, &self.stop));
        if !is_forced {
            require_memory(&before)?;
        }
        let work = |watch: Watch<'_>| {
            let warmed = cache::warm(&self.selection, watch);
            // The files read first may have been evicted since.
            let mut now = cache::show(&self.selection, &Stop::default());
            for (now, warmed) in now.iter_mut().zip(&warmed) {
                now.before_bytes = warmed.before_bytes;
                now.failed = warmed.failed;
            }
            now
        };
        let words = |sum: &Total| {
            let more = bytes(sum.resident_bytes.saturating_sub(sum.before_bytes));
            let (resident, all) = (bytes(sum.resident_bytes), bytes(sum.cacheable_bytes));
            let partial = match sum.partial_files {
                0 => String::new(),
                partial => format!("; {} incomplete", files(partial)),
            };
            Some(format!(
                "Read {more} into memory; {resident} of {all} resident{partial}."
            ))
        };
        let why = "each file that is not completely in memory is read";
        let sum = self.tell(why, None, Some(&before), work, words)?;
        self.end(sum.failed + sum.unknown_files + sum.partial_files == 0)
    }

    /// Says what locking takes, locks files, and waits for a signal.
    fn lock(&self, is_forced: bool) -> Result<(), Failure> {
        let before = sum_of(&cache::show(&self.selection, &self.stop));
        let needed = before.bytes.max(before.cacheable_bytes);
        let memory = system::memory().map_or("unknown".to_owned(), |memory| bytes(memory.available_bytes));
        let limit = seekless_sys::lockable_bytes();
        let may_lock = limit.map_or("any amount".to_owned(), bytes);
        let all = bytes(needed);
        let words = format!("{all} to lock; {memory} of memory available; this process may lock {may_lock}");
        if limit.is_some_and(|limit| limit < needed) {
            return Err(anyhow!("{words}: raise the limit with `ulimit -l`, or run as root").into());
        }
        writeln!(stderr(), "seekless cache: {words}")?;
        if !is_forced {
            require_memory(&before)?;
        }
        let mut held = Vec::new();
        let work = |watch: Watch<'_>| {
            let (totals, locked) = cache::lock(&self.selection, watch);
            held = locked;
            totals
        };
        let words = |sum: &Total| Some(format!("{} locked in memory until Ctrl-C.", files(sum.files)));
        let sum = self.tell("each file is mapped and locked", None, Some(&before), work, words)?;
        unless_stopped(&self.caught)?;
        while self.caught.signal().is_none() && !held.is_empty() {
            std::thread::sleep(LOOK_AGAIN);
        }
        unless_printed(sum.failed + sum.unknown_files + sum.partial_files > 0)
    }

    /// Runs a job and writes its files as they come, the totals, `words` about the sum (unless the output is JSON), and
    /// with `--explain` the reason `why`. `doing` is the verb of the progress line; `read` is the state of the files
    /// before they were read, for a job that reads them. Returns the sum of the totals.
    fn tell(
        &self,
        why: &str,
        doing: Option<&'static str>,
        read: Option<&Total>,
        work: impl FnOnce(Watch<'_>) -> Vec<Total>,
        words: impl FnOnce(&Total) -> Option<String>,
    ) -> std::io::Result<Total> {
        let started = Instant::now();
        let format = Format {
            json: self.common.json.form(),
            all: self.common.all,
            top: self.common.top as usize,
        };
        let amount = Amount::Bytes(read.map(|read| read.bytes));
        let name = visible_path(&self.common.paths[0]);
        PROGRESS.begin(!self.common.quiet, "reading", name, amount);
        let out = BufWriter::new(stdout());
        let page = Page::new(out, Width::of_stdout());
        let mut lines = CacheLines::new(page, format, doing);
        let progress = |progress: &JobProgress| {
            // Otherwise, the lines count the files.
            if doing.is_none() {
                PROGRESS.report(progress);
            }
        };
        let event = |event: CacheEvent<'_>| lines.event(event);
        let totals = work(&ClosureWatch::new(&self.stop, progress, event));
        PROGRESS.end();
        let sum = sum_of(&totals);
        let is_stopped = self.caught.signal().is_some();
        let mut page = lines.finish(&totals, &sum, is_stopped)?;
        if format.json.is_none() {
            let is_any = sum.files > 0 || sum.failed == 0;
            if let Some(sentence) = words(&sum).filter(|_| is_any) {
                page.say(PLAIN, &sentence)?;
            }
            page.left_out(&[
                (sum.left.repeated, "additional hard link", "additional hard links"),
                (sum.left.links, "symbolic link", "symbolic links"),
                (sum.left.special, "device, FIFO or socket", "devices, FIFOs and sockets"),
                other_file_systems(sum.left.other_file_systems),
            ])?;
            self.notes(&mut page, &totals, &sum)?;
        }
        page.flush()?;
        if self.common.explain {
            self.explain(why, &sum, read, started);
        }
        Ok(sum)
    }

    /// Caveats about the figures.
    fn notes(&self, page: &mut Page<'_>, totals: &[Total], sum: &Total) -> std::io::Result<()> {
        if sum.unknown_files > 0 {
            page.note(&format!(
                "The residency of {} is unknown: the kernel reports it only to a file's owner and to users who may write it.",
                files(sum.unknown_files)
            ))?;
        }
        for total in totals {
            let path = visible_path(&total.path);
            let Ok(StorageFacts { file_system, .. }) = StorageFacts::of(&total.path) else {
                continue;
            };
            if FileSystemTrait::InMemory.is_of(&file_system) {
                page.note(&format!(
                    "{path} is on a tmpfs: its files are in memory until they are deleted."
                ))?;
            } else if FileSystemTrait::ServedByProgram.is_of(&file_system) {
                page.note(&format!(
                    "{path} is served by a program ({file_system}): these are pages of the kernel; what the program or the \
                     file system behind it caches is not known."
                ))?;
            }
        }
        if self.caught.signal().is_some() {
            page.note("Interrupted: only the files processed until then are counted.")?;
        }
        Ok(())
    }

    /// Explains what was done; `read` is the state of the files before they were read, if they were.
    fn explain(&self, why: &str, sum: &Total, read: Option<&Total>, started: Instant) {
        let part = |of: &Total| of.resident_bytes as f64 / of.cacheable_bytes.max(1) as f64;
        let scan = Scan {
            files: read.unwrap_or(sum).files,
            bytes: read.map_or(0, |read| read.bytes),
            resident: read.filter(|read| read.unknown_files == 0).map(part),
        };
        let method = if read.is_some() { "read" } else { "ask" };
        tell_scan("cache", &self.common.paths[0], &scan, [method, why], started.elapsed());
    }

    fn end(&self, is_all_done: bool) -> Result<(), Failure> {
        unless_stopped(&self.caught)?;
        unless_printed(!is_all_done)
    }
}

fn sum_of(totals: &[Total]) -> Total {
    let mut sum = Total::default();
    for total in totals {
        sum.add(total);
    }
    sum
}

/// Refuses files that do not fit into the available memory.
fn require_memory(before: &Total) -> anyhow::Result<()> {
    let needed = before.bytes.max(before.cacheable_bytes);
    let Some(memory) = system::memory().filter(|memory| memory.available_bytes < needed) else {
        return Ok(());
    };
    let (needed, available) = (bytes(needed), bytes(memory.available_bytes));
    bail!(
        "the files have {needed}, and {available} of memory are available: reading their end would evict their beginning. \
         Name fewer files, or use --force"
    )
}

fn drop_system(json: bool) -> Result<(), Failure> {
    let cached = || system::memory().and_then(|memory| memory.cached_bytes);
    let before = cached();
    system::drop_system().map_err(|error| match &error {
        seekless_engine::Error::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => anyhow!(
            "dropping the caches of the whole system needs root: run `sudo seekless cache drop --system`, or name the \
             files to drop, which needs no privilege"
        ),
        _ => anyhow!(error),
    })?;
    let after = cached();
    let mut out = stdout();
    if json {
        let value = json!({"kind": "system", "cached_before_bytes": before, "cached_bytes": after});
        return Ok(writeln!(out, "{}", json_line(&value))?);
    }
    let Some((before, after)) = before.zip(after) else {
        return Ok(writeln!(out, "Dropped the system's caches.")?);
    };
    let (dropped, stay) = (bytes(before.saturating_sub(after)), bytes(after));
    let sentence = format!("Dropped {dropped} of the system's cache; {stay} stay (mapped or in use).");
    Ok(writeln!(out, "{sentence}")?)
}
