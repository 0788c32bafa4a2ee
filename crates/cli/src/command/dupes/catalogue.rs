//! `seekless dupes catalogue`, and searching against catalogues: files of machines and drives that are not at hand.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use seekless_results::bytes;
use seekless_tools::Stop;
use seekless_tools::dupes::act::copies::SearchOrigin;
pub use seekless_tools::dupes::catalogue::is_catalogue;
use seekless_tools::dupes::catalogue::{CatalogueOptions, Catalogued, Digests, elsewhere, write};
use seekless_tools::walk::Selection;

use super::{Arguments, DuplicatesForm, PathArguments, begin, filter, searching};
use crate::command::values::{Word, one_of};
use crate::command::{Failure, raise_open_files, unless_printed, unless_stopped};
use crate::show::{PROGRESS, Page, counted, say, show_elsewhere, show_unread, visible_path};
use crate::signals::stopping;

/// List files with digests, to compare machines and drives.
///
/// A catalogue is a Parquet file with one row per name of a regular file: host, storage, inode, path, size, times, hard links, a digest
/// of the first 4 KiB, and the BLAKE3 digest of small files and of those whose size and beginning another file here has. If FILE
/// exists, only files that changed are read again. An interrupted run continues from FILE.journal.
///
/// `seekless dupes --against FILE` searches for files that a catalogue has; `seekless-fleet duplicates` compares catalogues of
/// many machines.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless dupes catalogue /srv --output nas.parquet
  seekless dupes catalogue /mnt/usb --output usb.parquet --host usb-2019
  seekless dupes --against usb.parquet photos  # what the drive has, too
  seekless dupes catalogue --files-from LIST -0 --digest all -o 2.parquet")]
pub struct CatalogueArguments {
    #[command(flatten)]
    chosen: PathArguments,
    /// The catalogue to write
    #[arg(long, short, value_name = "FILE", display_order = 0)]
    output: PathBuf,
    /// How much to digest
    #[arg(long, value_name = "DIGEST", value_parser = one_of(DIGESTS), default_value = "first", display_order = 1)]
    digest: Digests,
    /// Use digests of the older catalogue FILE [default: the one that is replaced]
    #[arg(long, value_name = "FILE", display_order = 1)]
    since: Option<PathBuf>,
    /// The name of this machine or drive in the catalogue [default: the host name]
    #[arg(long, value_name = "NAME", display_order = 1)]
    host: Option<String>,
    /// Leave the files that were read in the page cache
    #[arg(long, display_order = 1)]
    keep_cached: bool,
    /// Hide progress
    #[arg(long, short, display_order = 1)]
    quiet: bool,
}

const DIGESTS: [Word<Digests>; 2] = [
    (
        "first",
        "The first 4 KiB, and whole files if they are small or begin like another",
        Digests::First,
    ),
    ("all", "All of each file", Digests::All),
];

pub fn run(arguments: &CatalogueArguments) -> Result<u8, Failure> {
    seekless_sys::hold_little_free_memory();
    raise_open_files();
    let origin = SearchOrigin::here(&arguments.chosen.paths()?, &[]).context("cannot find the working directory")?;
    // Without links and `..`, as a plan needs them.
    let paths = origin.paths();
    let filter = filter(&arguments.chosen, &paths)?;
    let selection = Selection::new(&paths, !arguments.chosen.one_file_system);
    let host = arguments.host.clone().or_else(seekless_sys::host_name);
    let own = || is_catalogue(&arguments.output).then(|| arguments.output.clone());
    let options = CatalogueOptions {
        host: host.ok_or_else(|| anyhow!("this machine has no host name; name it with --host"))?,
        digests: arguments.digest,
        older: arguments.since.clone().or_else(own),
        keeps_cached: arguments.keep_cached,
    };
    let (stop, caught) = stopping(Stop::stop)?;
    begin(&paths, arguments.quiet, "digesting");
    let output = (&*arguments.output, origin);
    let written = write(&selection, &filter, &options, output, &searching(&stop));
    PROGRESS.end();
    let written = written.map_err(anyhow::Error::from)?;
    show_unread(written.failures.iter().chain(&written.changed));
    if written.is_stopped {
        say("interrupted; run the same command to continue");
    }
    unless_stopped(&caught)?;
    summarise(&written, &arguments.output)?;
    unless_printed(!written.failures.is_empty())?;
    Ok(0)
}

fn summarise(written: &Catalogued, output: &Path) -> std::io::Result<()> {
    let mut page = Page::stdout();
    let (files, size) = (counted(written.files, "file"), bytes(written.bytes));
    let names = (written.names > written.files).then(|| format!(", {}", counted(written.names, "name")));
    let digested = counted(written.digested, "file");
    let known = (written.known > 0).then(|| format!(", {} of them earlier", written.known));
    let (names, known) = (names.unwrap_or_default(), known.unwrap_or_default());
    let (read, output) = (bytes(written.read_bytes), visible_path(output));
    writeln!(
        page,
        "{files}, {size}{names}; {digested} digested as a whole{known}; {read} read: {output}"
    )?;
    page.flush()
}

/// Lists the files that catalogues have, too.
pub fn against(arguments: &Arguments, paths: &[PathBuf], catalogues: &[PathBuf]) -> Result<u8, Failure> {
    let refused = [
        (
            arguments.action.is_some(),
            "--action: a catalogue has digests and no files, so nothing is done by it alone; search the files",
        ),
        (arguments.dirs, "--dirs: a catalogue has no directories"),
        (
            arguments.matching.is_some(),
            "--match: names of files in a catalogue are not compared",
        ),
        (
            arguments.cache,
            "--cache: digests are not kept when a catalogue is searched",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is_given, _)| *is_given) {
        return Err(anyhow!("{why}").into());
    }
    if let Some(other) = catalogues.iter().find(|path| !is_catalogue(path)) {
        let why = "not a catalogue; search against catalogues and against files one after the other";
        return Err(anyhow!("--against {}: {why}", visible_path(other)).into());
    }
    let form = arguments.form();
    if form != DuplicatesForm::Text && form.json().is_none() {
        return Err(anyhow!("--format: against a catalogue, only text, json and jsonl are written").into());
    }
    let filter = filter(&arguments.chosen, paths)?;
    let selection = Selection::new(paths, !arguments.chosen.one_file_system);
    let (stop, caught) = stopping(Stop::stop)?;
    begin(paths, arguments.quiet, "digesting");
    let keeps_cached = arguments.keep_cached;
    let found = elsewhere(&selection, &filter, catalogues, keeps_cached, &searching(&stop));
    PROGRESS.end();
    let found = found.map_err(anyhow::Error::from)?;
    show_unread(found.failures.iter().chain(&found.changed));
    unless_stopped(&caught)?;
    show_elsewhere(&found, form.json())?;
    unless_printed(!found.failures.is_empty())?;
    Ok(u8::from(arguments.exit_code && !found.matches.is_empty()))
}
