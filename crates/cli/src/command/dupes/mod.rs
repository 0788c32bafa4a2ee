//! `seekless dupes`: files that are equal, and what is done with them.

mod act;
mod act_options;
mod by_hand;
#[cfg_attr(not(feature = "catalogue"), path = "no_catalogue.rs")]
mod catalogue;
pub mod foreign_words;
mod undo;

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use clap::{ArgGroup, Args, Subcommand};
use regex::bytes::Regex;
use seekless_engine::Scanner;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::method::parse_size;
use seekless_engine::plan::{self, Scan};
use seekless_results::bytes;
use seekless_tools::dupes::act::Action;
use seekless_tools::dupes::act::copies::SearchOrigin;
use seekless_tools::dupes::{self, Across, EqualFiles, FoundDuplicates, NamePart, SearchOptions};
use seekless_tools::walk::{Filter, Globs, Selection, plain_path};
use seekless_tools::{JobWatch, Stop};

use super::values::{JsonOptions, Word, one_of};
use super::{Failure, raise_open_files, standard_input, unless_printed, unless_stopped};
use crate::call::UserDirectories;
use crate::show::{
    Amount, DuplicatesForm, JsonForm, PROGRESS, counted, explained, planned_batches, say, seconds, show_duplicates,
    show_failures, showing, tell_why, visible_path,
};
use crate::signals::stopping;
use act::Searched;
use act_options::{ChooseOptions, actions};

/// Find files with equal contents.
///
/// Files of the same size are compared byte by byte. If more than 64 of them over 16 KiB begin alike, their BLAKE3 digests are compared
/// instead, unless --paranoid is given; the output marks these groups. Directories are searched recursively, hidden files
/// included. Hard links to one file are not duplicates of each other. Nothing is changed without --action. Files that were not
/// in the page cache are dropped from it again.
///
/// With --action, the rules of --keep decide which files of a group stay, and the others are removed, linked or moved: after
/// confirmation, or with --yes. `seekless dupes undo` restores them. To search a directory named `act`, `catalogue` or `undo`, write `./act`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    group(ArgGroup::new("what")),
    mut_arg("action", |action| action.help_heading(None::<&str>).group("what").display_order(4)),
    mut_arg("keep", |keep| keep.help_heading(None::<&str>).display_order(5)),
    after_long_help = "\
Rules of --keep, an order of preference from left to right:
  newest, oldest         prefers the file with the latest or earliest mtime
  shortest, longest      prefers the file with the shortest or longest path
  first                  prefers the first file, in the order of the PATHs
  name:GLOB, path:GLOB   prefers files whose name or path matches; all of them stay
  under:DIR              prefers files that are below DIR; all of them stay
  not-under:DIR          prefers files that are not below DIR; all of them stay
  at-least:N             N files of each group stay, in the order of preference
If a rule treats files alike, the next rule decides, and the path after the last one. The file
of each group that comes first in this order stays. Every file that name, path, under or
not-under matches stays, too, wherever the rule stands:
  --keep path:originals --keep oldest   files in originals; the oldest file if there are none
  --keep oldest --keep path:originals   the oldest file, and all files in originals

Examples:
  seekless dupes photos                        # groups of equal files
  seekless dupes --min-size 1M --exclude .git .
  seekless dupes --against backup photos       # photos that are in the backup
  seekless dupes --isolate laptop desktop      # files that both have
  seekless dupes --dirs music                  # whole directories, too
  seekless dupes --dirs card backup            # how much of card is in backup
  seekless dupes --unique photos               # files without a duplicate
  seekless dupes --match name --links 1 .      # same name, not hard-linked
  seekless dupes --json . | jq '.summary'
  seekless dupes --action hardlink --keep oldest photos
  seekless dupes --action remove --interactive photos
  seekless dupes --action remove --against backup --dry-run photos
  seekless dupes --action remove --names --keep shortest photos  # one name each",
    mut_arg("json", |json| json.help("Print one JSON document")),
    mut_arg("jsonl", |jsonl| jsonl.help("Print JSON lines").hide_short_help(true)))]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    chosen: PathArguments,
    /// Find files that are also in REF
    ///
    /// Files in REF are not compared with each other. REF can be a catalogue (see `seekless dupes catalogue --help`), of which files
    /// with the same digest are listed.
    #[arg(long, value_name = "REF", display_order = 3, conflicts_with_all = ["isolate", "unique"])]
    against: Vec<PathBuf>,
    /// Find only files that have equal copies in several PATHs
    #[arg(long, help_heading = COMPARING)]
    isolate: bool,
    /// Print files that have no duplicate
    #[arg(long, conflicts_with_all = ["isolate", "against"], help_heading = COMPARING)]
    unique: bool,
    /// List equal directories instead of their files
    ///
    /// Also lists directories whose files all have equal files, under any names, below another directory. For two PATHs,
    /// prints how much of each is in the other.
    #[arg(long, conflicts_with = "unique", help_heading = COMPARING)]
    dirs: bool,
    /// Only equal files whose names also have the same PART
    ///
    /// Case matters. One matching name of a file with several hard links is enough. The names of equal directories (--dirs)
    /// may differ.
    #[arg(long = "match", value_name = "PART", value_parser = one_of(PARTS), help_heading = COMPARING, hide_short_help = true)]
    matching: Option<NamePart>,
    /// Compare bytes even if files are read more than once
    #[arg(long, conflicts_with = "cache", help_heading = COMPARING, hide_short_help = true)]
    paranoid: bool,
    /// Keep BLAKE3 digests, and trust those of files that have not changed since
    #[arg(long, help_heading = COMPARING, hide_short_help = true)]
    cache: bool,
    /// File with the digests [default: seekless/dupes.redb in the user's cache directory]
    #[arg(long, value_name = "FILE", requires = "cache", help_heading = COMPARING, hide_short_help = true)]
    cache_file: Option<PathBuf>,
    /// Leave the files that were read in the page cache
    #[arg(long, help_heading = COMPARING, hide_short_help = true)]
    keep_cached: bool,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", conflicts_with_all = ["json", "jsonl"],
        help_heading = OUTPUT, hide_short_help = true)]
    format: DuplicatesForm,
    #[command(flatten, next_help_heading = OUTPUT)]
    json: JsonOptions,
    /// Hide progress
    #[arg(long, short, help_heading = OUTPUT, hide_short_help = true)]
    quiet: bool,
    /// Exit with 1 if anything is found
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    exit_code: bool,
    /// Explain on standard error how files were read, and why
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    explain: bool,
    /// What to do with the duplicates
    #[arg(long, value_name = "ACTION", value_parser = one_of(actions()),
        conflicts_with_all = ["unique", "format", "exit_code"])]
    action: Option<Action>,
    #[command(flatten)]
    choose: ChooseOptions,
}

/// Which files.
#[derive(Debug, Args)]
pub struct PathArguments {
    /// Files and directories
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    paths: Vec<PathBuf>,
    /// Read more paths from FILE, one per line; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = FILES, hide_short_help = true)]
    files_from: Option<PathBuf>,
    /// Paths of --files-from end with a zero byte
    #[arg(long, short = '0', requires = "files_from", help_heading = FILES, hide_short_help = true)]
    null: bool,
    /// Directories are always searched recursively: users of other programs type it
    #[arg(short = 'r', long = "recurse", hide = true)]
    _is_recursive: bool,
    /// Do not enter directories of other file systems
    #[arg(long, short = 'x', help_heading = FILES)]
    one_file_system: bool,
    /// Search trash directories and read-only snapshots, too; never /proc and the like, whose files report wrong sizes
    #[arg(long, help_heading = FILES, hide_short_help = true)]
    all: bool,
    /// Follow symbolic links in directories
    #[arg(long, short = 'L', help_heading = FILES, hide_short_help = true)]
    follow: bool,
    /// Omit what .gitignore and .ignore files name
    #[arg(long, help_heading = FILES, hide_short_help = true)]
    ignore_files: bool,
    /// Only files that match
    ///
    /// PATTERN is a glob for their name or, if it has a slash, for their path below PATH.
    #[arg(long, value_name = "PATTERN", help_heading = FILES, hide_short_help = true)]
    include: Vec<String>,
    /// Omit files and directories that match
    ///
    /// PATTERN is a glob for their name or, if it has a slash, for their path below PATH.
    #[arg(long, value_name = "PATTERN", display_order = 1)]
    exclude: Vec<String>,
    /// Only files whose path below PATH matches
    #[arg(long, value_name = "REGEX", help_heading = FILES, hide_short_help = true)]
    regex: Option<Regex>,
    /// Only files of SIZE or more
    ///
    /// 0 includes empty files.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1", display_order = 2)]
    min_size: u64,
    /// Only files of SIZE or less
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = FILES, hide_short_help = true)]
    max_size: Option<u64>,
    /// Enter at most N levels of directories
    #[arg(long, value_name = "N", help_heading = FILES, hide_short_help = true)]
    max_depth: Option<usize>,
    /// Only files of this user ID
    #[arg(long, value_name = "UID", help_heading = FILES, hide_short_help = true)]
    owner: Option<u32>,
    /// Only files with N hard links; +N means more than N, and -N fewer
    ///
    /// Hard links outside the search count, too.
    #[arg(long, value_name = "N", value_parser = parse_links, allow_hyphen_values = true, help_heading = FILES,
        hide_short_help = true)]
    links: Option<RangeInclusive<u64>>,
    /// Only files modified within AGE, such as 7d or 12h
    #[arg(long, value_name = "AGE", value_parser = parse_age, help_heading = FILES, hide_short_help = true)]
    newer: Option<i64>,
    /// Only files not modified within AGE
    #[arg(long, value_name = "AGE", value_parser = parse_age, help_heading = FILES, hide_short_help = true)]
    older: Option<i64>,
}

/// What names may have in common.
const PARTS: [Word<NamePart>; 3] = [
    ("name", "The whole name", NamePart::Name),
    ("stem", "The name without the extension", NamePart::Stem),
    ("extension", "What follows the last dot", NamePart::Extension),
];

/// The headings of the help. The options that matter most come first, under the usual one.
const FILES: &str = "Files";
const COMPARING: &str = "Comparing";
const OUTPUT: &str = "Output";

#[derive(Debug, Subcommand)]
enum Command {
    Act(Box<act::ActArguments>),
    #[cfg_attr(
        not(feature = "catalogue"),
        command(about = "List files with digests (not in this build)")
    )]
    Catalogue(Box<catalogue::CatalogueArguments>),
    Undo(undo::UndoArguments),
}

/// An age as seconds.
fn parse_age(text: &str) -> Result<i64, String> {
    let duration = text.parse::<jiff::SignedDuration>();
    let duration = duration.or_else(|_| {
        let span = text.parse::<jiff::Span>()?;
        // Days have 24 hours here.
        span.to_duration(jiff::SpanRelativeTo::days_are_24_hours())
    });
    let seconds = duration.map(|age| age.as_secs());
    seconds.map_err(|_| "give an age such as 30m, 12h or 7d".to_owned())
}

/// Numbers of hard links, as find(1) reads them.
fn parse_links(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
    // The parser would take a second sign.
    let number = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    let range = number.and_then(|number: u64| match sign {
        "+" => Some(number.checked_add(1)?..=u64::MAX),
        "-" => Some(0..=number.checked_sub(1)?),
        _ => Some(number..=number),
    });
    range.ok_or_else(|| "give a number such as 1, +3 for more, or -3 for fewer".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match &arguments.command {
        Some(Command::Act(arguments)) => act::run(arguments),
        Some(Command::Catalogue(arguments)) => catalogue::run(arguments),
        Some(Command::Undo(arguments)) => undo::run(arguments),
        None => search(arguments),
    }
}

/// Searches, and prints what is found or acts on it.
fn search(arguments: &Arguments) -> Result<u8, Failure> {
    seekless_sys::hold_little_free_memory();
    raise_open_files();
    let (paths, is_left) = searched_paths(arguments)?;
    let against: Vec<PathBuf> = arguments.against.iter().map(|path| tidy(path)).collect();
    if against.iter().any(|path| catalogue::is_catalogue(path)) {
        return catalogue::against(arguments, &paths, &against);
    }
    if arguments.isolate && paths.len() < 2 {
        return Err(anyhow!("--isolate needs several PATHs: one PATH has no equal copies in another").into());
    }
    let roots = [&paths[..], &against].concat();
    let filter = filter(&arguments.chosen, &roots)?;
    let selection = Selection::new(&paths, !arguments.chosen.one_file_system).against(&against);
    let references = paths.len() as u32;
    let options = options(arguments, references)?;
    let (stop, caught) = stopping(Stop::stop)?;
    let started = Instant::now();
    begin(&paths, arguments.quiet, "comparing");
    let found = dupes::find(&selection, &filter, &options, &searching(&stop));
    PROGRESS.end();
    let took = arguments.explain.then(|| started.elapsed());
    let unmatched = unmatched(&filter);
    let origin = || SearchOrigin::here(&paths, &against).context("cannot find the working directory");
    let how = &arguments.choose.how;
    if arguments.action.is_some() && !unmatched.is_empty() && !how.yes && !how.dry_run {
        return Err(anyhow!("{}; nothing was done: correct it, or use --yes", unmatched.join("; ")).into());
    }
    for sentence in &unmatched {
        say(sentence);
    }
    if let Some(action) = &arguments.action {
        let origin = origin()?;
        show_failures(&found);
        explain(&roots[0], &found, took);
        unless_stopped(&caught)?;
        return act(arguments, action, found, origin, is_left);
    }
    let form = arguments.form();
    let origin = form.json().map(|_| origin()).transpose()?;
    let is_any = show_duplicates(&found, form, arguments.unique, &roots, references, origin.as_ref())?;
    explain(&roots[0], &found, took);
    let has_failures = !found.failures.is_empty();
    // Ending the process frees it sooner than code that closes one directory after the other.
    std::mem::forget(found);
    unless_stopped(&caught)?;
    unless_printed(has_failures)?;
    Ok(u8::from(arguments.exit_code && is_any))
}

/// The paths to search, and whether others are left out because the action cannot be done there. Fails if the options of the action do
/// not fit.
fn searched_paths(arguments: &Arguments) -> anyhow::Result<(Vec<PathBuf>, bool)> {
    let Some(action) = &arguments.action else {
        return Ok((arguments.chosen.paths()?, false));
    };
    if arguments.dirs {
        bail!("--action acts on files: omit --dirs (--prune removes the directories that this empties)");
    }
    let has_references = !arguments.against.is_empty();
    arguments.choose.check(action, has_references, &arguments.json)?;
    let named = arguments.chosen.paths()?;
    let count = named.len();
    let able = arguments.choose.able(action, named)?;
    let is_left = able.len() < count;
    Ok((able, is_left))
}

/// What is compared, and how; paths from the number `references` on are those of --against.
fn options(arguments: &Arguments, references: u32) -> anyhow::Result<SearchOptions> {
    Ok(SearchOptions {
        across: match (arguments.isolate, arguments.against.is_empty()) {
            (true, _) => Across::Roots,
            (_, false) => Across::References(references),
            _ => Across::Files,
        },
        matching: arguments.matching,
        is_paranoid: arguments.paranoid,
        keeps_cached: arguments.keep_cached,
        with_directories: arguments.dirs,
        cache: arguments.cache.then(|| cache_file(arguments)).transpose()?,
    })
}

impl Arguments {
    fn form(&self) -> DuplicatesForm {
        match self.json.form() {
            Some(JsonForm::Document) => DuplicatesForm::Json,
            Some(JsonForm::Lines) => DuplicatesForm::Jsonl,
            None => self.format,
        }
    }
}

/// Shows progress from here on; `last` is the verb of what follows listing and reading.
fn begin(paths: &[PathBuf], is_quiet: bool, last: &'static str) {
    PROGRESS.begin(!is_quiet, last, visible_path(&paths[0]), Amount::Bytes(None));
}

/// The watch of a search, which shows its progress.
fn searching(stop: &Stop) -> impl JobWatch {
    showing(stop, |never: Infallible| match never {})
}

impl PathArguments {
    /// All paths that are given: a rule matches what is printed.
    fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut paths = self.paths.clone();
        if let Some(from) = &self.files_from {
            paths.extend(paths_from(from, self.null)?);
            if paths.is_empty() {
                return Err(anyhow!("no paths in {}", read_from(from)));
            }
        }
        Ok(paths.iter().map(|path| tidy(path)).collect())
    }
}

/// A path without `/.`, `//` and a last slash; a first `./` stays, as it is printed.
fn tidy(path: &Path) -> PathBuf {
    match plain_path(path) {
        plain if plain.as_os_str().is_empty() => PathBuf::from("."),
        plain if path.starts_with(".") => Path::new(".").join(plain),
        plain => plain,
    }
}

/// The patterns that match nothing, perhaps because they are mistyped.
fn unmatched(filter: &Filter) -> Vec<String> {
    let of = |option: &str, globs: &Globs| -> Vec<String> {
        let words = |text: &str| format!("{option} {} matches nothing", visible_path(Path::new(text)));
        globs.unmatched().into_iter().map(words).collect()
    };
    [of("--include", &filter.include), of("--exclude", &filter.exclude)].concat()
}

/// Acts on what was found.
fn act(
    arguments: &Arguments,
    action: &Action,
    found: FoundDuplicates,
    origin: SearchOrigin,
    is_left: bool,
) -> Result<u8, Failure> {
    let groups: Vec<EqualFiles> = if arguments.choose.names {
        found.linked().collect()
    } else {
        found.groups().collect()
    };
    let from = arguments.chosen.files_from.as_deref();
    let searched = Searched {
        origin,
        groups,
        has_failures: is_left || !found.failures.is_empty(),
        is_stdin_used: from.is_some_and(|from| from == Path::new("-")),
    };
    // This closes its open directories: acting needs many of its own.
    drop(found);
    act::act_on(action, &arguments.choose, searched, &arguments.json, arguments.quiet)
}

fn filter(arguments: &PathArguments, roots: &[PathBuf]) -> anyhow::Result<Filter> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs().cast_signed());
    let before = |age: Option<i64>| age.map(|age| now.saturating_sub(age));
    Ok(Filter {
        bytes: arguments.min_size..=arguments.max_size.unwrap_or(u64::MAX),
        modified: before(arguments.newer).unwrap_or(i64::MIN)..=before(arguments.older).unwrap_or(i64::MAX),
        owner: arguments.owner,
        links: arguments.links.clone().unwrap_or(0..=u64::MAX),
        depth: arguments.max_depth.unwrap_or(usize::MAX),
        include: Globs::new(&arguments.include, roots).context("--include")?,
        exclude: Globs::new(&arguments.exclude, roots).context("--exclude")?,
        regex: arguments.regex.clone(),
        everything: arguments.all,
        follows_links: arguments.follow,
        heeds_ignore_files: arguments.ignore_files,
    })
}

/// Where digests are kept.
fn cache_file(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    if let Some(file) = &arguments.cache_file {
        return Ok(file.clone());
    }
    let directories = UserDirectories::find().context("cannot find the user's cache directory: set HOME")?;
    Ok(directories.cache.join("seekless/dupes.redb"))
}

/// The name of the file with paths, for messages.
fn read_from(file: &Path) -> String {
    match file.as_os_str().as_bytes() {
        b"-" => "standard input".to_owned(),
        _ => visible_path(file),
    }
}

fn paths_from(file: &Path, is_null: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut text = Vec::new();
    let read = match file.as_os_str().as_bytes() {
        b"-" => standard_input().and_then(|mut input| input.read_to_end(&mut text)),
        _ => File::open(file).and_then(|mut file| file.read_to_end(&mut text)),
    };
    read.with_context(|| format!("{}: cannot read", read_from(file)))?;
    let end = if is_null { b'\0' } else { b'\n' };
    let names = text.split(|byte| *byte == end).filter(|name| !name.is_empty());
    Ok(names.map(|name| std::ffi::OsStr::from_bytes(name).into()).collect())
}

/// Explains a search that took this time, if that is asked for.
fn explain(path: &Path, found: &FoundDuplicates, took: Option<Duration>) {
    let Some(took) = took else { return };
    let [listing, grouping, reading, comparing] = found.steps.map(|step| seconds(step.as_secs_f64()));
    let plan = &found.plan;
    let (method, order) = if plan.is_by_place() {
        ("one by one", "their places on the device")
    } else {
        ("side by side", "their inodes")
    };
    let threads = counted(plan.batch.threads as u64, "thread");
    let device = plan.device.map(|device| device.to_string());
    let why = format!(
        "{}; directories were listed in {listing}, and sizes grouped in {grouping}; {threads} read the beginnings of files of \
         the same size in the order of {order} in {reading}; files with equal beginnings were compared in {comparing}{}",
        device.unwrap_or_else(|| "the files are in memory".to_owned()),
        planned_batches(&plan.batch)
    );
    let scan = Scan {
        files: found.read_files,
        bytes: found.read_bytes,
        resident: None,
    };
    let scan = Scanner::plan(path, &scan, &ProcessFacts::here()).ok();
    tell_why("dupes", &explained(method, &why, scan.as_ref(), Some(took)));
    for (method, why, number) in &found.large {
        let (pairs, large) = (counted(*number, "pair"), bytes(plan::LARGE_BYTES));
        let why = format!("{why}; {pairs} of {large} or more");
        tell_why("dupes", &explained(method, &why, None, None));
    }
}
