//! What undoing a journal would do. Nothing is changed.
//!
//! Sizes and times decide whether a kept file is what it was; undoing compares bytes.
//!
//! Not here: undoing (`undo`).

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::name_state::{NameState, Names};
use super::place::{Directories, ExaminedName};
use super::prepare::{require_changeable_directory, require_undoable};
use super::record::{NameOf, StepRecord};
use super::run_record::RunRecord;
use super::undo::opened;
use super::undone::{TellUndone, Undone, UndoneStep, failed};
use super::{Action, Error, RefusalReason, Unwatched, cannot, of_kept};
use crate::Stop;
use crate::walk::StatFacts;

/// Tells what undoing would do with each step, in its order.
///
/// # Errors
/// If the journal cannot be read, or its run is still at work.
pub fn foresee(journal: &Path, stop: &Stop, tell: TellUndone<'_>) -> Result<(), Error> {
    let (_locked, lines) = opened(journal)?;
    let directories = Directories::default();
    let mut foreseeing = Foreseeing {
        lines: &lines,
        names: Names {
            action: &lines.header.action,
            directories: &directories,
            stop,
            watch: &Unwatched,
        },
        remade: HashSet::new(),
    };
    let of = lines.undoable().count() as u64;
    for entry in lines.undoable().take_while(|_| !stop.is_stopped()) {
        let outcomes: Vec<_> = entry.names.iter().map(|name| foreseeing.name(entry, name)).collect();
        if stop.is_stopped() {
            break;
        }
        tell(&UndoneStep {
            file: &entry.step.file,
            outcomes: &outcomes,
            of,
        });
        directories.close_many();
    }
    Ok(())
}

/// An outcome, and whether undoing would change something for it.
type Foreseen = Result<(Undone, bool), RefusalReason>;

struct Foreseeing<'a> {
    lines: &'a RunRecord,
    names: Names<'a>,
    /// Directories that would be made again.
    remade: HashSet<PathBuf>,
}

impl Foreseeing<'_> {
    /// What becomes of a name; `None` if it is as before: undone, or of a step in which the run was killed.
    fn name(&mut self, entry: &StepRecord, name: &NameOf) -> Option<Undone> {
        let was_undone = self.lines.undone.get(&entry.number) == Some(&true);
        let may_be_old = was_undone || !self.lines.outcomes.contains_key(&entry.number);
        // Undoing does not look at them.
        if *self.names.action == Action::Reflink {
            return (!was_undone).then_some(Undone::Nothing);
        }
        let place = match entry.place(&name.path, self.names.directories) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_remade(&name.path) => Ok(None),
            place => place.map(Some).map_err(cannot("open its directory")),
        };
        let foreseen = place.and_then(|place| match self.names.action {
            _ if entry.step.file.is_directory => {
                let is_there = place.is_some_and(|place| matches!(place.facts(), Ok(Some(_))));
                let made = if is_there {
                    Ok(())
                } else {
                    require_changeable_directory(&name.path)
                };
                made.map(|()| {
                    self.remade.insert(name.path.clone());
                    (Undone::Restored, !is_there)
                })
            }
            action if action.moves() => self.moved(entry, name, place.as_ref()),
            _ => self.made_again(entry, name, place.as_ref()),
        });
        match foreseen {
            Err(_) | Ok((_, false)) if may_be_old => None,
            foreseen => Some(foreseen.map_or_else(failed, |(undone, _)| undone)),
        }
    }

    fn is_remade(&self, path: &Path) -> bool {
        path.parent().is_some_and(|above| self.remade.contains(above))
    }

    fn moved(&self, entry: &StepRecord, name: &NameOf, place: Option<&ExaminedName>) -> Foreseen {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        let there = entry
            .place(to, self.names.directories)
            .map_err(cannot("open its new directory"));
        let (stop, failed) = (self.names.stop, cannot("compare"));
        let is_at = |place: &ExaminedName| entry.is_at(place, &place.name, stop);
        if place.map_or(Ok(false), is_at).map_err(&failed)? {
            return Ok((Undone::Restored, false));
        }
        if !entry.is_moved_to(self.names.action, &there?, stop).map_err(failed)? {
            return Err(RefusalReason::NotMoved(to.to_owned()));
        }
        match place.map(|place| place.facts()) {
            Some(Ok(Some(_))) => Err(RefusalReason::StaysMoved(to.to_owned())),
            _ => require_undoable(self.names.action, name).map(|()| (Undone::Restored, true)),
        }
    }

    fn made_again(&self, entry: &StepRecord, name: &NameOf, place: Option<&ExaminedName>) -> Foreseen {
        if self.names.action.makes_links() {
            require_changeable_directory(&name.path)?;
        }
        let made = self.lines.restored.get(&entry.number).map_or(&[][..], Vec::as_slice);
        // Its directory will be made again.
        let state = place.map_or(Ok(NameState::Acted), |place| {
            self.names.settled(entry, name, place, made)
        });
        match state.map_err(cannot("stat"))? {
            NameState::Old | NameState::Restored(_) => return Ok((Undone::Restored, false)),
            NameState::Other(why) | NameState::Aside(why) => return Err(why),
            NameState::Acted if place.is_none() => {}
            NameState::Acted | NameState::Torn(_) => require_undoable(self.names.action, name)?,
        }
        if *self.names.action == Action::Names {
            return self.names.kept_itself(entry).map(|_| (Undone::Restored, true));
        }
        let of_kept = of_kept(&entry.step.keep.path);
        let kept = self.names.kept(entry);
        let kept = kept.map_err(|error| of_kept(cannot("open")(error)))?;
        let found = StatFacts::of(&kept).map_err(|error| of_kept(cannot("stat")(error)))?;
        let was = &entry.step.keep.state;
        let is_as_old = (found.bytes, found.modified_ns) == (was.bytes, was.modified_ns);
        let has_digest = || entry.has_digest(&found, &kept, self.names.stop);
        if !is_as_old && !has_digest().map_err(cannot("compare"))? {
            return Err(RefusalReason::KeptChanged(entry.step.keep.path.clone()));
        }
        match entry.old.links.saturating_sub(entry.names.len() as u64) {
            0 => Ok((Undone::Restored, true)),
            names => Ok((Undone::Apart { names }, true)),
        }
    }
}
