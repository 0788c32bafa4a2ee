//! `seekless dupes undo`: undoing what was done with duplicates, and listing the journals.
//!
//! Not here: undoing (`tools`), and what it looks like (`show`).

use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use seekless_tools::Stop;
use seekless_tools::dupes::act;
use seekless_tools::dupes::act::journal::{self, PastRun};
use seekless_tools::dupes::act::undo::{UndoneStep, undo, undo_preview};

use super::act::unsourced;
use super::act_options::state_directory;
use crate::command::{Failure, expect_wishes, raise_open_files, unless_stopped};
use crate::hint::Hinted;
use crate::show::{
    Amount, PROGRESS, Page, UndoneFiles, journal_json, list_journals, name_of, say, showing, visible_path,
};
use crate::signals::stopping;

/// Undo what was done with duplicates.
///
/// Removed files are copied back from the file that stayed, moved files and directories come back, and links become files again, with their
/// owner, mode, times and attributes. If the file that stayed has changed since, undo says so and restores nothing from
/// it. Without JOURNAL, the last run that has not been undone is undone; a run whose last undo restored nothing is skipped.
/// Journals are kept for 90 days, and the 20 newest for longer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless dupes undo                # the last run
  seekless dupes undo --dry-run      # what that would restore
  seekless dupes undo --list         # all that can be undone
  seekless dupes undo --forget JOURNAL")]
pub struct UndoArguments {
    /// The journal: its name in --list, or its path
    #[arg(value_name = "JOURNAL")]
    journal: Option<PathBuf>,
    /// List the journals, the newest first
    #[arg(long, conflicts_with_all = ["journal", "forget"])]
    list: bool,
    /// Remove JOURNAL: what was done can no longer be undone
    #[arg(long, requires = "journal")]
    forget: bool,
    /// Print the list as one JSON document
    #[arg(long, requires = "list")]
    json: bool,
    /// Print what would be restored; change nothing
    #[arg(long, conflicts_with_all = ["list", "forget"])]
    dry_run: bool,
    /// Hide progress
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(arguments: &UndoArguments) -> Result<u8, Failure> {
    raise_open_files();
    let state = state_directory()?;
    if arguments.list {
        let (journals, untrusted) = listed(&state)?;
        if let Some(untrusted) = untrusted {
            say(&untrusted.to_string());
        }
        let mut page = Page::stdout();
        if arguments.json {
            let all = journals.iter().map(|journal| journal_json(journal, &started(journal)));
            page.json(&all.collect::<Vec<_>>())?;
        } else {
            list_journals(&mut page, &journals, &started)?;
        }
        page.flush()?;
        return Ok(0);
    }
    let journal = match &arguments.journal {
        Some(name) => named(name, &state)?,
        None => last(&state)?,
    };
    if arguments.forget {
        journal::forget(&journal).map_err(|error| unsourced(&error))?;
        return Ok(0);
    }
    let (stop, caught) = stopping(Stop::stop)?;
    expect_wishes()?;
    let doing = if arguments.dry_run { "checking" } else { "restoring" };
    PROGRESS.begin(!arguments.quiet, doing, String::new(), Amount::Files(None));
    let (mut files, mut page, mut told) = (UndoneFiles::default(), Page::stdout(), Ok(()));
    let watch = showing(&stop, |step: UndoneStep<'_>| {
        let added = files.add(&step, arguments.dry_run.then_some(&mut page));
        if told.is_ok() {
            told = added;
        }
        ControlFlow::Continue(())
    });
    let done = if arguments.dry_run {
        undo_preview(&journal, &watch)
    } else {
        undo(&journal, &watch)
    };
    PROGRESS.end();
    done.map_err(|error| unsourced(&error))?;
    told.and_then(|()| files.finish(&mut page, arguments.dry_run))?;
    unless_stopped(&caught)?;
    if files.has_failed() {
        return Err(Failure::Errors(Vec::new()));
    }
    Ok(0)
}

fn started(journal: &PastRun) -> String {
    let zoned = jiff::Zoned::try_from(journal.started);
    zoned.map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// The journal that a word names: by its name in the list, or by a path.
fn named(name: &Path, state: &Path) -> anyhow::Result<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let (journals, _) = listed(state)?;
    let is_it = |journal: &&PastRun| {
        journal.path.file_name() == Some(name.as_os_str()) || OsStr::new(&name_of(journal)) == name.as_os_str()
    };
    let found = journals.iter().find(is_it).map(|journal| journal.path.clone());
    // One that cannot be read is not listed: undoing says why.
    let unlisted = || Some(journal::path_of(state, name)).filter(|path| path.exists());
    let found = found.or_else(unlisted);
    found.with_context(|| format!("{}: no such journal; --list lists them", visible_path(name)))
}

/// The journals, the newest first, and why the newest of those that cannot be trusted is not listed.
fn listed(state: &Path) -> anyhow::Result<(Vec<PastRun>, Option<act::Error>)> {
    let (journals, untrusted) = journal::list(state).map_err(|error| unsourced(&error))?;
    Ok((journals, untrusted.into_iter().next()))
}

/// The newest that is not undone. Those whose last undo restored nothing are skipped, unless there is no other.
fn last(state: &Path) -> anyhow::Result<PathBuf> {
    let (journals, untrusted) = listed(state)?;
    let open: Vec<&PastRun> = journals.iter().filter(|journal| journal.is_open).collect();
    let tried = open.iter().take_while(|journal| journal.is_tried).count();
    let skipped = if tried < open.len() { &open[..tried] } else { &[] };
    let chosen = open.get(skipped.len());
    // What a later run did may not have been undone.
    if let Some(untrusted) = untrusted.filter(|error| chosen.is_none_or(|chosen| chosen.path < error.path)) {
        return Err(Hinted {
            sentence: unsourced(&untrusted).to_string(),
            hint: "to undo an earlier run, name its journal (`seekless dupes undo --list`)",
        }
        .into());
    }
    let chosen = chosen.with_context(|| "there is nothing to undo")?;
    for skipped in skipped {
        let name = name_of(skipped);
        say(&format!(
            "{name}: skipped, because its last undo restored nothing; to try again: seekless dupes undo {name}"
        ));
    }
    Ok(chosen.path.clone())
}
