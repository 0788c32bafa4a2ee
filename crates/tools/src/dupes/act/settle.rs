//! Settling journals of runs that were killed: each step that was begun and not done is put back.
//!
//! Not here: undoing what was done.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use seekless::update::{StepKind, Watch};

use super::change::required;
use super::journal::{self, Came, Entry, Journal, Kind, Lines, Name, before};
use super::place::{Directories, Place};
use super::{Error, Outcome, Ran};
use crate::walk::Facts;

/// What a name of a killed run is now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// What it was before the run.
    NotBegun,
    /// What it was to be.
    Done,
}

/// Settles all journals of killed runs in a directory, as far as that can be done now.
pub(super) fn all(directory: &Path, watch: &dyn Watch) -> Result<(), Error> {
    for path in journal::all(directory)? {
        // One that cannot be read does not keep others from being settled, or this run from being made.
        if let Ok(Some(mut journal)) = Journal::open(&path)
            && !journal.is_complete()
            && let Ok(lines) = journal.read()
            && !lines.is_complete
            // Its paths lead elsewhere on another machine, which may share the directory of journals.
            && lines.require_own().is_ok()
        {
            settle(&mut journal, &lines, watch)?;
        }
    }
    Ok(())
}

/// Settles the steps of a journal whose run was killed. The journal has an end then, unless a step could not be settled.
pub(super) fn settle(journal: &mut Journal, lines: &Lines, watch: &dyn Watch) -> Result<(), Error> {
    let directories = Directories::default();
    let mut ran = Ran::default();
    let mut are_all_settled = true;
    for entry in &lines.entries {
        if lines.came.contains_key(&entry.step) {
            continue;
        }
        let Ok(outcome) = step(entry, lines.kind, &directories, watch) else {
            // Its file system may be mounted again later.
            are_all_settled = false;
            continue;
        };
        match &outcome {
            Outcome::Done { .. } => ran.done += 1,
            Outcome::Left { .. } => ran.left += 1,
            Outcome::Failed { .. } => ran.failed += 1,
        }
        journal.add_outcome(entry.step, &outcome);
        directories.close();
    }
    for came in lines.came.values() {
        match came {
            Came::Acted => ran.done += 1,
            Came::Left => ran.left += 1,
        }
    }
    ran.gained_bytes = lines.gained_bytes;
    if are_all_settled {
        journal.add_end(&ran, true);
    }
    journal.write(watch)
}

fn step(entry: &Entry, kind: Kind, directories: &Directories, watch: &dyn Watch) -> io::Result<Outcome> {
    let mut done = 0;
    let mut troubles = Vec::new();
    for name in &entry.names {
        let place = directories.place(&name.path)?;
        match settle_name((entry, kind), name, &place, directories, watch)? {
            Ok(Found::Done) => done += 1,
            Ok(Found::NotBegun) => {}
            Err(trouble) => troubles.push(trouble),
        }
    }
    Ok(if !troubles.is_empty() {
        Outcome::Failed {
            why: troubles.join("; "),
        }
    } else if done == 0 && kind != Kind::Reflink {
        Outcome::Left {
            why: "the run was killed before".into(),
        }
    } else {
        Outcome::Done { gained_bytes: 0 }
    })
}

/// Puts back what a kill left half done. The inner error says what only the user can decide.
fn settle_name(
    (entry, kind): (&Entry, Kind),
    name: &Name,
    place: &Place,
    directories: &Directories,
    watch: &dyn Watch,
) -> io::Result<Result<Found, String>> {
    let found = place.facts()?;
    if let Some(to) = &name.moved_to {
        let moved = match directories.place(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => there?.facts()?,
        };
        let is_moved = moved.is_some_and(|moved| entry.seen.is_inode(&moved));
        if !is_moved {
            // They are empty: nothing is lost if they stay.
            let _ = super::change::unmake(name, directories);
        }
        return Ok(Ok(if is_moved { Found::Done } else { Found::NotBegun }));
    }
    let temporary = OsStr::new(&name.temporary);
    let aside = place.beside(temporary);
    let is_target = |found: &Option<Facts>| found.is_some_and(|found| entry.seen.has_bytes(&found));
    let Some(left) = place.facts_of(temporary)? else {
        return Ok(Ok(if is_target(&found) {
            Found::NotBegun
        } else {
            Found::Done
        }));
    };
    let has_links = matches!(kind, Kind::Hardlink | Kind::Symlink);
    if has_links && !entry.seen.is_inode(&left) && entry.is_surplus(name, place, temporary, directories) {
        // The link that has not got the name, or lost it again.
        before(watch, StepKind::Remove, &aside)?;
        place.directory.remove_file(temporary)?;
        return Ok(Ok(if is_target(&found) {
            Found::NotBegun
        } else {
            Found::Done
        }));
    }
    // The file that had the name, or what another program had saved under it.
    match found {
        None => {
            before(watch, StepKind::Rename, &aside)?;
            required(place.directory.rename_new(temporary, &place.directory, &place.name))?;
            Ok(Ok(Found::NotBegun))
        }
        Some(_) if has_links && entry.is_link(name, place, &place.name, directories) => {
            before(watch, StepKind::Rename, &place.path)?;
            required(place.directory.exchange(temporary, &place.name))?;
            if entry.is_link(name, place, temporary, directories) {
                before(watch, StepKind::Remove, &aside)?;
                place.directory.remove_file(temporary)?;
            }
            Ok(Ok(Found::NotBegun))
        }
        Some(_) => Ok(Err(format!(
            "another program saved {} meanwhile; what was there before is {}",
            place.path.display(),
            aside.display()
        ))),
    }
}
