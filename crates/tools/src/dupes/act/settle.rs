//! Settling journals of runs that were killed: each step that was begun and not done is put back. Steps that an undo was restoring
//! when it was killed are restored.
//!
//! Not here: undoing what was done.

use std::io;
use std::io::ErrorKind::{CrossesDevices, Interrupted};
use std::path::Path;

use seekless::update::Watch;

use super::change::unmake;
use super::directory::unfollow;
use super::journal::{self, Ending, RunJournal, Written};
use super::name_state::{NameState, Names, WantedName};
use super::place::{Directories, ExaminedName};
use super::record::{NameOf, StepRecord};
use super::run_record::{JournalLine, RunRecord};
use super::undo::finish_undo;
use super::undone::{Undone, UndoneStep};
use super::{Action, Error, Ran, RefusalReason, Settled, StepOutcome};
use crate::Stop;

/// Receives how a file or a journal was settled.
pub(super) type TellSettled<'a> = &'a dyn Fn(&Path, &Settled);

/// Settles all journals of killed runs in a directory, as far as that can be done now.
pub(super) fn all(directory: &Path, stop: &Stop, tell: TellSettled<'_>, watch: &dyn Watch) -> Result<(), Error> {
    for path in journal::all(directory)? {
        if stop.is_stopped() {
            break;
        }
        // A journal that cannot be read must not keep others from being settled, or this run from starting.
        let Ok(Some(journal)) = RunJournal::open(&path) else {
            continue;
        };
        let ending = journal.ending();
        if ending == Ending::Whole {
            continue;
        }
        match journal.read() {
            // Its paths lead elsewhere on another machine, which may share the directory of journals.
            Ok(lines) if lines.require_own().is_err() => {}
            Ok(lines) if ending == Ending::KilledUndo => {
                let told = |step: &UndoneStep<'_>| {
                    for (path, undone) in step.names() {
                        match undone {
                            Undone::Failed { why } => tell(path, &Settled::Failed { why: why.clone() }),
                            _ => tell(path, &Settled::PutBack),
                        }
                    }
                };
                finish_undo(journal, &lines, stop, &told, watch)?;
            }
            Ok(lines) => settle(&journal, &lines, stop, tell, watch)?,
            Err(error) if error.source.kind() == io::ErrorKind::Unsupported => {
                let why = RefusalReason::Journal(error.source.to_string());
                tell(&path, &Settled::Failed { why });
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Settles the steps of a journal whose run was killed. Ends the journal, unless a step could not be settled.
pub(super) fn settle(
    journal: &RunJournal,
    lines: &RunRecord,
    stop: &Stop,
    tell: TellSettled<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let directories = Directories::default();
    let mut settling = Settling {
        names: Names {
            action: &lines.header.action,
            directories: &directories,
            stop,
            watch,
        },
        written: Written::default(),
        emptied: lines
            .entries
            .iter()
            .filter(|entry| entry.step.file.is_directory)
            .collect(),
        tell,
    };
    let mut ran = Ran::default();
    let (mut waiting, mut changed) = (Vec::new(), Vec::new());
    for entry in &lines.entries {
        // Before the end of a journal, an outcome may be of a change that a power cut lost.
        let told = lines.outcomes.get(&entry.number);
        let outcome = match settling.step(entry, told) {
            Ok(outcome) => outcome,
            // Perhaps its directory was removed since.
            Err(error) if told.is_some() && ![CrossesDevices, Interrupted].contains(&error.kind()) => {
                outcome(told, true)
            }
            Err(error) => {
                // Its file system may be mounted again later.
                waiting.push((entry, error));
                continue;
            }
        };
        ran.count(&outcome);
        let is_known = |told: &StepOutcome| told.has_acted() == outcome.has_acted();
        if !told.is_some_and(is_known) {
            changed.push((entry.number, outcome));
        }
        directories.close();
    }
    let record = |journal: &RunJournal| {
        for (step, outcome) in &changed {
            journal.add(&JournalLine::Outcome {
                step: *step,
                outcome: outcome.clone(),
            });
        }
    };
    if let [(entry, error), more @ ..] = &waiting[..] {
        let path = entry.names.first().map_or(journal.path.as_path(), |name| &name.path);
        let why = RefusalReason::NotSettled(error.to_string(), more.len());
        tell(path, &Settled::Failed { why });
        return journal.commit(&settling.written, watch, record);
    }
    journal.commit(&settling.written, watch, |journal| {
        record(journal);
        journal.add(&JournalLine::End {
            ran: ran.clone(),
            was_killed: true,
        });
    })?;
    let (done, left, failed) = (ran.done, ran.left + ran.needless, ran.failed);
    tell(&journal.path, &Settled::Run { done, left, failed });
    Ok(())
}

struct Settling<'a> {
    names: Names<'a>,
    written: Written,
    /// The steps that remove directories.
    emptied: Vec<&'a StepRecord>,
    tell: TellSettled<'a>,
}

impl Settling<'_> {
    /// Settles a step, which has an outcome unless the run was killed in it.
    fn step(&mut self, entry: &StepRecord, told: Option<&StepOutcome>) -> io::Result<StepOutcome> {
        let mut is_done = *self.names.action == Action::Reflink;
        let (mut old, mut acted, mut troubles) = (None, Vec::new(), Vec::new());
        for (at, name) in entry.names.iter().enumerate() {
            match self.name(entry, name, told)? {
                (_, true) => (self.tell)(&name.path, &Settled::PutBack),
                (NameState::Old, false) => {}
                (NameState::Aside(why), false) => {
                    let why_told = why.clone();
                    (self.tell)(&name.path, &Settled::Failed { why: why_told });
                    troubles.push(why);
                    continue;
                }
                (NameState::Acted, false) => {
                    acted.push(at);
                    continue;
                }
                _ => {
                    is_done = true;
                    continue;
                }
            }
            old.get_or_insert(at);
        }
        let is_partly_meant = matches!(told, Some(StepOutcome::Failed { .. }));
        let is_copied = self.names.action.is_undone_by_copying();
        match old {
            // All names of a file are acted on, or none.
            Some(old) if is_copied && !is_partly_meant && !acted.is_empty() => {
                let directories = self.names.directories;
                let file = entry.place(&entry.names[old].path, directories)?.open()?;
                for at in acted {
                    let path = &entry.names[at].path;
                    let place = entry.place(path, directories)?;
                    let wanted = WantedName { at, place, torn: None };
                    match self.names.give_name(entry, &wanted, &file, false) {
                        Ok(()) => (self.tell)(path, &Settled::PutBack),
                        Err(why) => troubles.push(why),
                    }
                }
            }
            _ => is_done |= !acted.is_empty(),
        }
        if troubles.is_empty() {
            return Ok(outcome(told, is_done));
        }
        let why = RefusalReason::Several(troubles);
        Ok(StepOutcome::Failed { why })
    }

    /// Whether the run may have removed the directory of a path once that was empty.
    fn is_emptied(&self, path: &Path) -> bool {
        let mut directories = self.emptied.iter().flat_map(|entry| &entry.step.file.paths);
        directories.any(|directory| path.starts_with(directory))
    }

    /// What a name leads to, and whether that was just put back.
    fn name(&mut self, entry: &StepRecord, name: &NameOf, told: Option<&StepOutcome>) -> io::Result<(NameState, bool)> {
        let directories = self.names.directories;
        let found = |path: &Path| match entry.place(path, directories) {
            // A run that was killed may have removed the directory, too, or not yet made it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            place => place.map(Some),
        };
        if let Some(to) = &name.moved_to
            && !entry.step.file.is_directory
        {
            // It may have been moved on since.
            let is_at = |place: &ExaminedName| entry.acted_on().is_at(place, &place.name);
            let (action, stop) = (self.names.action, self.names.stop);
            let is_moved = |place: &ExaminedName| Ok(is_at(place) || entry.is_moved_to(action, place, stop)?);
            if found(to)?.as_ref().map_or(io::Result::Ok(false), is_moved)?
                || told.is_some() && !found(&name.path)?.as_ref().is_some_and(is_at)
            {
                return Ok((NameState::Acted, false));
            }
            // They are empty: nothing is lost if they stay.
            let _ = unmake(name, directories);
        }
        let place = match found(&name.path)? {
            Some(place) => place,
            None if entry.step.file.is_directory || self.is_emptied(&name.path) => {
                return Ok((NameState::Acted, false));
            }
            None => entry.place(&name.path, directories)?,
        };
        self.written.note(&place);
        match self.names.action {
            _ if entry.step.file.is_directory => {
                if place.facts()?.is_none() {
                    return Ok((NameState::Acted, false));
                }
                unfollow(name, directories);
                Ok((NameState::Old, false))
            }
            action if action.moves() => Ok((NameState::Old, false)),
            _ => self.names.state(entry, name, &place, &[]),
        }
    }
}

/// The outcome of a step that was settled.
fn outcome(told: Option<&StepOutcome>, is_done: bool) -> StepOutcome {
    match told {
        Some(StepOutcome::Done { gained_bytes }) if is_done => StepOutcome::Done {
            gained_bytes: *gained_bytes,
        },
        Some(StepOutcome::Failed { .. }) | None if is_done => StepOutcome::Done { gained_bytes: 0 },
        _ => RefusalReason::Killed.into(),
    }
}
