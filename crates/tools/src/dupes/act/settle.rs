//! Settling journals of runs that were killed: each step that was begun and not done is put back.
//!
//! Not here: undoing what was done.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use seekless::update::{StepKind, Watch};

use super::change::required;
use super::journal::{self, Came, Entry, Journal, Kind, Lines, Name, Written, before, device_of};
use super::place::{Directories, Place};
use super::{Error, Outcome, Ran, Settled};
use crate::visible::visible_path;

/// The state of a name after a killed run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// What it was before the run.
    NotBegun,
    /// The same, because it was just put back.
    PutBack,
    /// What the run was to make of it.
    Done,
}

/// Receives how a file or a journal was settled.
pub(super) type TellSettled<'a> = &'a dyn Fn(&Path, &Settled);

/// Settles all journals of killed runs in a directory, as far as that can be done now.
pub(super) fn all(directory: &Path, tell: TellSettled<'_>, watch: &dyn Watch) -> Result<(), Error> {
    for path in journal::all(directory)? {
        // A journal that cannot be read must not keep others from being settled, or this run from starting.
        let Ok(Some(mut journal)) = Journal::open(&path) else {
            continue;
        };
        if journal.is_complete() {
            continue;
        }
        match journal.read() {
            // Its paths lead elsewhere on another machine, which may share the directory of journals.
            Ok(lines) if lines.is_complete || lines.require_own().is_err() => {}
            Ok(lines) => settle(&mut journal, &lines, tell, watch)?,
            Err(error) if error.source.kind() == io::ErrorKind::Unsupported => {
                let why = error.source.to_string();
                tell(&path, &Settled::Failed { why });
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Settles the steps of a journal whose run was killed. Ends the journal, unless a step could not be settled.
pub(super) fn settle(
    journal: &mut Journal,
    lines: &Lines,
    tell: TellSettled<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let directories = Directories::default();
    let mut ran = Ran::default();
    let (mut waiting, mut changed) = (Vec::new(), Vec::new());
    let mut written = Written::default();
    for entry in &lines.entries {
        // Before the end of a journal, an outcome may be of a change that a power cut lost.
        let came = lines.came.get(&entry.step).copied();
        let outcome = match step((entry, came), lines.kind, &directories, &mut written, tell, watch) {
            Ok(outcome) => outcome,
            // Perhaps its directory was removed since.
            Err(_) if came.is_some() => outcome(came, 1),
            Err(error) => {
                // Its file system may be mounted again later.
                waiting.push((entry, error));
                continue;
            }
        };
        match &outcome {
            Outcome::Done { .. } => ran.done += 1,
            Outcome::Left { .. } | Outcome::Needless(_) => ran.left += 1,
            Outcome::Failed { .. } => ran.failed += 1,
        }
        if let Outcome::Done { gained_bytes } = outcome {
            ran.gained_bytes += gained_bytes;
        }
        if came != Some(Came::of(&outcome)) {
            changed.push((entry.step, outcome));
        }
        directories.close();
    }
    let record = |journal: &mut Journal| {
        for (step, outcome) in &changed {
            journal.add_outcome(*step, outcome);
        }
    };
    if let [(entry, error), more @ ..] = &waiting[..] {
        let path = entry.names.first().map_or(journal.path.as_path(), |name| &name.path);
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more of that run)"),
        };
        let why = format!("{error}{more}; the next run tries again");
        tell(path, &Settled::Failed { why });
        return journal.commit(&written, watch, record);
    }
    journal.commit(&written, watch, |journal| {
        record(journal);
        journal.add_end(&ran, true);
    })?;
    let Ran { done, left, failed, .. } = ran;
    tell(&journal.path, &Settled::Run { done, left, failed });
    Ok(())
}

/// Settles a step, which has an outcome unless the run was killed in it.
fn step(
    (entry, came): (&Entry, Option<Came>),
    kind: Kind,
    directories: &Directories,
    written: &mut Written,
    tell: TellSettled<'_>,
    watch: &dyn Watch,
) -> io::Result<Outcome> {
    let mut done = 0;
    let mut troubles = Vec::new();
    for name in &entry.names {
        let place = directories.place(&name.path)?;
        written.note(&place, device_of(&place));
        match settle_name((entry, came, kind), name, &place, directories, watch)? {
            Ok(Found::Done) => done += 1,
            Ok(Found::NotBegun) => {}
            Ok(Found::PutBack) => tell(&name.path, &Settled::PutBack),
            Err(why) => {
                tell(&name.path, &Settled::Failed { why: why.clone() });
                troubles.push(why);
            }
        }
    }
    Ok(if troubles.is_empty() {
        outcome(came, done + u64::from(kind == Kind::Reflink))
    } else {
        Outcome::Failed {
            why: troubles.join("; "),
        }
    })
}

/// The outcome of a step of which this many names were acted on.
fn outcome(came: Option<Came>, done: u64) -> Outcome {
    match came {
        Some(Came::Acted { gained_bytes }) if done > 0 => Outcome::Done { gained_bytes },
        None if done > 0 => Outcome::Done { gained_bytes: 0 },
        _ => Outcome::Left {
            why: "the run was killed before".into(),
        },
    }
}

/// Puts back what a kill left half done. The inner error says what only the user can decide.
fn settle_name(
    (entry, came, kind): (&Entry, Option<Came>, Kind),
    name: &Name,
    place: &Place,
    directories: &Directories,
    watch: &dyn Watch,
) -> io::Result<Result<Found, String>> {
    let found = place.facts()?;
    if let Some(to) = &name.moved_to {
        let moved = match directories.place(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there?),
        };
        let is_moved = moved.is_some_and(|there| entry.acted_on().is_at(&there, &there.name));
        // It may have been moved on since.
        if is_moved || came.is_some() && !entry.acted_on().is_at(place, &place.name) {
            return Ok(Ok(Found::Done));
        }
        // They are empty: nothing is lost if they stay.
        let _ = super::change::unmake(name, directories);
        return Ok(Ok(Found::NotBegun));
    }
    let temporary = OsStr::new(&name.temporary);
    let aside = place.beside(temporary);
    let is_target =
        found.is_some_and(|found| entry.seen.is_as_old(&found) && entry.acted_on().is_at(place, &place.name));
    if place.facts_of(temporary)?.is_none() {
        return Ok(Ok(if is_target { Found::NotBegun } else { Found::Done }));
    }
    let has_links = matches!(kind, Kind::Hardlink | Kind::Symlink);
    if has_links && !entry.acted_on().is_at(place, temporary) && entry.is_surplus(name, place, temporary, directories) {
        // It is the link, which did not get the name or lost it again.
        before(watch, StepKind::Remove, &aside)?;
        place.directory.remove_file(temporary)?;
        return Ok(Ok(if is_target { Found::PutBack } else { Found::Done }));
    }
    // It is the file that had the name, or what another program had saved under it.
    match found {
        None => {
            before(watch, StepKind::Rename, &aside)?;
            required(place.directory.rename_new(temporary, &place.directory, &place.name))?;
            Ok(Ok(Found::PutBack))
        }
        Some(_) if has_links && entry.is_link(name, place, &place.name, directories) => {
            let back = exchange_back(entry, name, place, directories, watch)?;
            Ok(back.map(|()| Found::PutBack))
        }
        Some(_) => Ok(Err(format!(
            "another program saved it meanwhile; what was there before is {}",
            visible_path(&aside)
        ))),
    }
}

/// Gives a file with a temporary name its name back from a link, and removes the link. The inner error says that it was
/// no longer a link.
pub(super) fn exchange_back(
    entry: &Entry,
    name: &Name,
    place: &Place,
    directories: &Directories,
    watch: &dyn Watch,
) -> io::Result<Result<(), String>> {
    let temporary = OsStr::new(&name.temporary);
    let aside = place.beside(temporary);
    before(watch, StepKind::Rename, &place.path)?;
    required(place.directory.exchange(temporary, &place.name))?;
    if !entry.is_link(name, place, temporary, directories) {
        let why = "put back, but another program replaced the link at that moment; what it saved is";
        return Ok(Err(format!("{why} {}", visible_path(&aside))));
    }
    before(watch, StepKind::Remove, &aside)?;
    place.directory.remove_file(temporary)?;
    Ok(Ok(()))
}
