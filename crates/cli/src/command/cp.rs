//! `seekless cp`: copies files and trees.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{ArgAction, Args};
use seekless_results::{bytes, files, rate, thousands};
use seekless_tools::Stop;
use seekless_tools::cp::{
    self, Checksum, CpDurability, CpFailure, CpOptions, CpSummary, CpWatch, Existing, FollowedLinks, OWNER_OF_OTHERS,
    Preserved, TargetMeaning, When,
};
use serde_json::json;

use super::values::{Word, one_of};
use super::{Failure, raise_open_files, unless_printed, unless_stopped, unwritten};
use crate::show::{Activity, Amount, LINE, Page, json_text, stdout, tell_why, visible_path};
use crate::signals::stopping;

/// Copy files and trees, and keep everything about them.
///
/// A copy has the mode, owner, times, hard links, symbolic links, extended attributes, access control lists and holes of its
/// source, as with `cp -a`. Directories are copied with all that is in them. Blocks are shared where the file system can do that
/// (reflinks); otherwise the kernel copies.
///
/// A file gets its name when it is whole, so an interrupted copy leaves no half files. Flags (chattr(1)) and times of creation are
/// not copied. Names of the target that are not in the source stay; `rsync --delete` removes such.
#[derive(Debug, Args)]
#[command(
    override_usage = "seekless cp [OPTIONS] SOURCE... TARGET\n       seekless cp [OPTIONS] -t DIR SOURCE...",
    after_help = "\
Examples:
  seekless cp photos /backup              # makes or updates /backup/photos
  seekless cp -T photos /backup/pictures  # /backup/pictures is the copy
  seekless cp photos/. /backup            # what is in photos, into /backup
  seekless cp -u photos /backup           # only what is newer in photos
  seekless cp --durable --verify vm.img /mnt/disk"
)]
pub struct Arguments {
    /// What is copied, and last where to: a directory, or the name of the copy
    #[arg(value_name = "SOURCE", required = true)]
    paths: Vec<PathBuf>,
    /// Copy everything into this directory
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    target_directory: Option<PathBuf>,
    /// TARGET is what the copy is called, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Copy symbolic links as links, also those that are named (the default)
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "dereference_named"])]
    no_dereference: bool,
    /// Copy what symbolic links lead to
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "dereference_named"])]
    dereference: bool,
    /// Copy what symbolic links lead to if they are named
    #[arg(short = 'H', overrides_with_all = ["no_dereference", "dereference"])]
    dereference_named: bool,
    /// Leave files of the target as they are
    #[arg(short, long, overrides_with = "update")]
    no_clobber: bool,
    /// Replace files of the target only if they are older than their source
    #[arg(short, long, overrides_with = "no_clobber")]
    update: bool,
    /// Do not enter directories of other file systems
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Whether copies share blocks with their sources
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
          default_missing_value = "always", value_parser = one_of(REFLINK))]
    reflink: When,
    /// Whether zeros become holes
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of(SPARSE))]
    sparse: When,
    /// Keep only these: mode, ownership, timestamps, links, xattr, all
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, value_delimiter = ',',
          default_missing_value = "mode,ownership,timestamps", value_parser = one_of(PRESERVED))]
    preserve: Option<Vec<usize>>,
    /// Do not keep these
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(PRESERVED))]
    no_preserve: Vec<usize>,
    /// Have everything on the device at the end, by one sync of the file system
    #[arg(long)]
    durable: bool,
    /// Sync each file and directory before the next one (slow)
    #[arg(long, conflicts_with = "durable")]
    fsync: bool,
    /// Compare each file with its copy, as read back from the device
    #[arg(long)]
    verify: bool,
    /// Write checksums of all files to FILE, for `b3sum -c` or, with a name that ends in sha256, `sha256sum -c`
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checksums: Option<PathBuf>,
    /// Leave what was read in the page cache, even if it was not there before
    #[arg(long)]
    keep_cached: bool,
    /// Copy nothing; tell what would be copied
    #[arg(long)]
    dry_run: bool,
    /// Name each copy
    #[arg(short, long)]
    verbose: bool,
    /// Explain on standard error how files were copied
    #[arg(long)]
    explain: bool,
    /// Print a JSON document instead of the summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    habits: Habits,
}

/// Options of other programs: what is done anyway, and what is not done.
#[derive(Debug, Args)]
struct Habits {
    #[arg(short = 'a', long, action = ArgAction::Count, hide = true)]
    archive: u8,
    #[arg(short = 'r', visible_short_alias = 'R', long, action = ArgAction::Count, hide = true)]
    recursive: u8,
    #[arg(short = 'p', action = ArgAction::Count, hide = true)]
    preserve_some: u8,
    #[arg(short = 'd', action = ArgAction::Count, hide = true)]
    links: u8,
    #[arg(short = 'f', long, action = ArgAction::Count, hide = true)]
    force: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    interactive: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    link: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    symbolic_link: u8,
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    backup: Option<String>,
    #[arg(long, action = ArgAction::Count, hide = true)]
    parents: u8,
    #[arg(long, action = ArgAction::Count, hide = true)]
    delete: u8,
}

impl Habits {
    /// The command that does what is not done here.
    fn refused(&self) -> Option<(&'static str, &'static str)> {
        let refused = [
            (self.interactive, "--interactive", "cp -ai"),
            (self.link, "--link", "cp -al"),
            (self.symbolic_link, "--symbolic-link", "cp -as"),
            (self.backup.is_some().into(), "--backup", "cp -a --backup"),
            (self.parents, "--parents", "cp -a --parents"),
            (self.delete, "--delete", "rsync -aHAX --delete"),
        ];
        let refused = refused.into_iter().find(|(count, ..)| *count > 0);
        refused.map(|(_, option, instead)| (option, instead))
    }
}

const REFLINK: [Word<When>; 3] = [
    ("auto", "Where the file system can do that", When::Auto),
    ("always", "Otherwise fail", When::Always),
    ("never", "Never", When::Never),
];

const SPARSE: [Word<When>; 3] = [
    ("auto", "Holes of the source are holes of the copy", When::Auto),
    ("always", "Runs of zeros become holes, too", When::Always),
    ("never", "The copy has no holes", When::Never),
];

/// The words of `--preserve`; `context` is one of the extended attributes.
const PRESERVED: [Word<usize>; 7] = [
    ("mode", "Permissions", 0),
    ("ownership", "Owner and group", 1),
    ("timestamps", "Times of access and modification", 2),
    ("links", "Hard links between copied files", 3),
    ("xattr", "Extended attributes and access control lists", 4),
    ("context", "The security context, one of the extended attributes", 4),
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

/// Tells what happens.
struct Told {
    is_verbose: bool,
    checksums: Option<Mutex<BufWriter<File>>>,
}

impl CpWatch for Told {
    fn wants_names(&self) -> bool {
        self.is_verbose
    }

    fn copied(&self, from: &Path, to: &Path) {
        let _ = writeln!(stdout(), "{} -> {}", visible_path(from), visible_path(to));
    }

    fn checksum(&self, checksum: &str, to: &Path) {
        let Some(checksums) = &self.checksums else { return };
        let name = to.as_os_str().as_bytes();
        // As these programs write names with such characters.
        let is_escaped = name.iter().any(|byte| b"\\\n".contains(byte));
        let mut line = if is_escaped { b"\\".to_vec() } else { Vec::new() };
        line.extend_from_slice(checksum.as_bytes());
        line.extend_from_slice(b"  ");
        for byte in name {
            match byte {
                b'\\' => line.extend_from_slice(b"\\\\"),
                b'\n' => line.extend_from_slice(b"\\n"),
                other => line.push(*other),
            }
        }
        line.push(b'\n');
        let _ = checksums
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&line);
    }

    fn failed(&self, failure: &CpFailure) {
        let CpFailure { path, action, reason } = failure;
        crate::complain(&anyhow!("{}: cannot {action}: {reason}", visible_path(path)));
    }

    fn progress(&self, bytes: u64) {
        LINE.add(bytes);
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match copy(arguments) {
        // The exit code of cp(1).
        Err(Failure::Errors(errors)) => {
            errors.iter().for_each(crate::complain);
            Ok(ExitCode::FAILURE)
        }
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn copy(arguments: &Arguments) -> Result<(), Failure> {
    raise_open_files();
    if let Some((option, instead)) = arguments.habits.refused() {
        return Err(anyhow!("seekless cp has no {option}; `{instead}` does that").into());
    }
    let (sources, target) = match (&arguments.target_directory, arguments.paths.split_last()) {
        (Some(target), _) => (&arguments.paths[..], target),
        (None, Some((target, sources))) if !sources.is_empty() => (sources, target),
        _ => return Err(anyhow!("two paths are needed: what to copy, and where to; -t names where to first").into()),
    };
    let options = options(arguments);
    let (stop, caught) = stopping(Stop::stop)?;
    let started = Instant::now();
    LINE.begin(
        true,
        Activity::new("copying", visible_path(&sources[0]), Amount::Bytes(None)),
    );
    let checksums = arguments.checksums.as_deref().map(|path| {
        let made = File::create(path);
        made.with_context(|| format!("{}: cannot write the checksums", visible_path(path)))
    });
    let told = Told {
        is_verbose: arguments.verbose,
        checksums: checksums.transpose()?.map(|file| Mutex::new(BufWriter::new(file))),
    };
    let copied = cp::copy_trees(sources, target, &options, &stop, &told);
    LINE.end();
    let summary = copied?;
    if let Some(checksums) = told.checksums {
        let mut written = checksums.into_inner().unwrap_or_else(PoisonError::into_inner);
        written.flush().context("cannot write the checksums")?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let written = if arguments.json {
        print_json(&summary, seconds)
    } else {
        print_summary(&summary, seconds, arguments)
    };
    written.with_context(|| unwritten(Some("the files were copied")))?;
    if arguments.explain {
        explain(&summary);
    }
    unless_stopped(&caught)?;
    unless_printed(!summary.is_complete())
}

fn options(arguments: &Arguments) -> CpOptions {
    CpOptions {
        followed: if arguments.dereference {
            FollowedLinks::All
        } else if arguments.dereference_named {
            FollowedLinks::Named
        } else {
            FollowedLinks::None
        },
        existing: if arguments.no_clobber {
            Existing::Kept
        } else if arguments.update {
            Existing::ReplacedIfOlder
        } else {
            Existing::Replaced
        },
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

/// The checksum that a file of this name is to have.
fn checksum_of(path: &Path) -> Checksum {
    let name = path.as_os_str().as_bytes().to_ascii_lowercase();
    if name.ends_with(b"sha256") || name.ends_with(b"sha256sums") {
        Checksum::Sha256
    } else {
        Checksum::Blake3
    }
}

fn print_json(summary: &CpSummary, seconds: f64) -> anyhow::Result<()> {
    let mut value = serde_json::to_value(summary)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("seconds".to_owned(), json!(seconds));
    }
    Ok(write!(stdout(), "{}", json_text(&value)?)?)
}

/// What was done, in a few lines; nothing for a single file.
fn print_summary(summary: &CpSummary, seconds: f64, arguments: &Arguments) -> anyhow::Result<()> {
    let mut page = Page::stdout();
    let is_single = summary.files + summary.symbolic_links + summary.special <= 1 && summary.directories == 0;
    let is_told = arguments.dry_run || arguments.verify && summary.files > 0;
    if is_single && !is_told && summary.not_preserved.is_empty() {
        return Ok(());
    }
    let speed = match (arguments.dry_run, seconds > 0.0) {
        (false, true) => format!(" in {seconds:.2} s ({})", rate(summary.bytes as f64 / seconds)),
        _ => String::new(),
    };
    writeln!(
        page,
        "{} {} in {}, {}{speed}",
        if arguments.dry_run { "Would copy" } else { "Copied" },
        files(summary.files),
        counted(summary.directories, "directory", "directories"),
        bytes(summary.bytes)
    )?;
    let others = [
        (summary.symbolic_links, "symbolic link", "symbolic links"),
        (summary.hard_links, "hard link", "hard links"),
        (summary.special, "special file", "special files"),
        (summary.reflinked, "file shares its blocks", "files share their blocks"),
        (summary.resumed, "file was there already", "files were there already"),
        (
            summary.kept,
            "file of the target was kept",
            "files of the target were kept",
        ),
        (summary.verified, "file verified", "files verified"),
    ];
    let mut others: Vec<String> = (others.into_iter().filter(|(count, ..)| *count > 0))
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    if summary.hole_bytes > 0 {
        others.push(format!("{} of holes", bytes(summary.hole_bytes)));
    }
    if !others.is_empty() {
        writeln!(page, "  {}", others.join(", "))?;
    }
    for (what, count) in &summary.not_preserved {
        let why = if *what == OWNER_OF_OTHERS {
            ": only root can give files away"
        } else {
            ""
        };
        writeln!(page, "  not kept: {what}, of {}{why}", counted(*count, "file", "files"))?;
    }
    if summary.is_unfinished {
        writeln!(page, "  not finished: the same command goes on where it ended")?;
    }
    if summary.failures > 0 {
        writeln!(page, "  {}", counted(summary.failures, "failure", "failures"))?;
    }
    Ok(())
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count), if count == 1 { one } else { many })
}

/// How the files were copied.
fn explain(summary: &CpSummary) {
    let by_reading = summary
        .files
        .saturating_sub(summary.reflinked + summary.copied_in_kernel);
    tell_why(
        "cp",
        &format!(
            "{} threads; {} share their blocks, {} copied by the kernel (copy_file_range), {} read and written or empty",
            summary.threads,
            thousands(summary.reflinked),
            thousands(summary.copied_in_kernel),
            thousands(by_reading)
        ),
    );
    for (method, why) in &summary.large {
        tell_why("cp", &format!("large files: {method}: {why}"));
    }
    if let Some(why) = &summary.by_place {
        tell_why(
            "cp",
            &format!("files are fetched in the order in which they lie on the device: {why}"),
        );
    }
}
