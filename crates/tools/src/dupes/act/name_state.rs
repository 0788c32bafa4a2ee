//! What a name leads to after a run or an undo that may have been killed; what was left half done is put back first. A new file may
//! have the inode number of a removed one, and a file may have been edited since: those files are not touched.
//!
//! Not here: what follows from it (`undo`).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::FileType;
use seekless_engine::files::{Exchange, Lease, NotExchanged, read_full};
use seekless_engine::update::{StepKind, Watch};
use seekless_sys::LeaseKind;

use super::change::{Replacement, unmake};
use super::dir_handle::{self, DirEntryHandle, Directories};
use super::record::{KnownFile, NameChange, NewPlace, RunRecord, StepName, StepRecord};
use super::{Action, RefusalReason, cannot, of_kept};
use crate::Stop;
use crate::walk::StatFacts;

/// What a name leads to.
pub(super) enum NameState {
    /// The file, or directory, that it led to before the run.
    Old,
    /// The file that undo made for it.
    Restored(Arc<File>),
    /// What the run made of it, and what gives it back.
    Acted(Inverse),
    /// Something else, and what.
    Other(RefusalReason),
    /// Something else, while the temporary name leads to what had the name before.
    Aside(RefusalReason),
    /// Not the file that was to be moved, which is not at its new place either.
    Lost(RefusalReason),
}

/// What gives a name back.
pub(super) enum Inverse {
    /// A file gets the name, which leads to nothing or to a link.
    Name,
    /// A file gets the name from the one that undo made, which has no bytes: the power was cut before they were on the device.
    NameOfTorn(Arc<File>),
    /// The file is moved back from its new place.
    MoveBack(DirEntryHandle, NewPlace),
}

/// A file that a name leads to, as far as a journal knows it.
enum NamedFile {
    Nothing,
    /// What was acted on, with the size and the time that it had.
    Old,
    /// A file that undo made.
    Made(Arc<File>),
    /// What the run put in its place: the symbolic link, or another name of the kept file.
    Link {
        /// Whether it leads to what it led to, with the same bytes.
        is_unchanged: bool,
        /// Whether the file that it leads to has another name.
        is_surplus: bool,
    },
    Other,
}

/// The names of a journal, and what looking at them needs.
pub(super) struct Names<'a> {
    pub lines: &'a RunRecord,
    pub directories: &'a Directories,
    pub stop: &'a Stop,
    pub watch: &'a dyn Watch,
}

/// How much of a file that a power cut may have torn is compared at a time.
const TORN_BLOCK_BYTES: usize = 64 << 10;

impl<'a> Names<'a> {
    /// The names of a journal.
    pub fn of(lines: &'a RunRecord, directories: &'a Directories, stop: &'a Stop, watch: &'a dyn Watch) -> Self {
        Self {
            lines,
            directories,
            stop,
            watch,
        }
    }

    /// What the run did.
    pub fn action(&self) -> &'a Action {
        &self.lines.header.action
    }

    /// Puts back what was left half done, then tells what a name leads to, and whether it was put back.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn recovered(
        &self,
        entry: &StepRecord,
        name: &StepName,
        place: Option<&DirEntryHandle>,
    ) -> io::Result<(NameState, bool)> {
        let half_done = place.filter(|_| !entry.step.file.is_directory);
        let put_back = half_done.map(|place| self.at(entry, name, place).put_back());
        let is_put_back = match put_back.transpose()?.unwrap_or(Ok(false)) {
            Ok(is_put_back) => is_put_back,
            Err(why) => return Ok((NameState::Aside(why), false)),
        };
        let state = self.state(entry, name, place)?;
        if let (NameState::Old, NameChange::Moved(new)) = (&state, &name.change) {
            // They are empty: nothing is lost if they stay.
            let _ = unmake(new, self.directories);
        }
        Ok((state, is_put_back))
    }

    /// What a name leads to, if nothing is left half done; without a place, its directory is gone.
    ///
    /// # Errors
    /// The system's, or it was stopped before that was known.
    pub fn state(&self, entry: &StepRecord, name: &StepName, place: Option<&DirEntryHandle>) -> io::Result<NameState> {
        if let NameChange::Moved(new) = &name.change {
            return self.moved(entry, new, place);
        }
        let Some(place) = place else {
            return Ok(NameState::Acted(Inverse::Name));
        };
        if entry.step.file.is_directory {
            let found = place.facts()?;
            return Ok(found.map_or(NameState::Acted(Inverse::Name), |_| NameState::Old));
        }
        self.at(entry, name, place).state()
    }

    /// A name in a directory.
    pub fn at<'n>(&'n self, entry: &'n StepRecord, name: &'n StepName, place: &'n DirEntryHandle) -> NameAt<'n> {
        NameAt {
            names: self,
            entry,
            name,
            place,
        }
    }

    /// What a name leads to whose file was moved.
    fn moved(&self, entry: &StepRecord, new: &NewPlace, place: Option<&DirEntryHandle>) -> io::Result<NameState> {
        let there = match entry.place(&new.to, self.directories) {
            // A killed run may not have made the directory, or a killed undo may have removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there?),
        };
        let changed = RefusalReason::Of(new.to.clone(), RefusalReason::ChangedSince.into());
        if let Some(there) = there {
            if self.is_moved_to(entry, &there)? {
                if place.map_or(Ok(None), |place| place.facts())?.is_none() {
                    return Ok(NameState::Acted(Inverse::MoveBack(there, new.clone())));
                }
                let why = vec![RefusalReason::NameTaken, RefusalReason::NowAt(new.to.clone())];
                return Ok(NameState::Other(RefusalReason::Several(why)));
            }
            if entry.acted_on().is_at(&there, &there.name) {
                return Ok(NameState::Other(changed));
            }
        }
        match place {
            Some(place) if entry.acted_on().is_at(place, &place.name) || self.has_old(entry, place)? => {
                Ok(NameState::Old)
            }
            _ => Ok(NameState::Lost(changed)),
        }
    }

    /// Whether the file that was acted on is where it was moved to. In a place that only it can have, it may have changed since.
    fn is_moved_to(&self, entry: &StepRecord, there: &DirEntryHandle) -> io::Result<bool> {
        if self.action().moves_apart() {
            let found = there.facts()?;
            return Ok(found.is_some_and(|found| found.kind == FileType::RegularFile));
        }
        self.has_old(entry, there)
    }

    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that undoing another
    /// journal made.
    fn has_old(&self, entry: &StepRecord, place: &DirEntryHandle) -> io::Result<bool> {
        match place.regular_file() {
            Some((found, file)) if entry.is_as_old(&found) => {
                Ok(entry.acted_on().is(&found, Some(&file)) || entry.has_digest(&found, &file, self.stop)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether a file is the beginning of the kept one but for zeros: there is nothing in it to lose.
    fn is_torn(&self, entry: &StepRecord, file: &File) -> io::Result<bool> {
        let kept = self.kept(entry)?;
        let (mut own, mut theirs) = (vec![0; TORN_BLOCK_BYTES], vec![0; TORN_BLOCK_BYTES]);
        for at in (0..).step_by(TORN_BLOCK_BYTES) {
            if self.stop.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let read = read_full(file, &mut own, at)?;
            let wanted = read_full(&kept, &mut theirs, at)?;
            let is_like = |(own, theirs): (&u8, &u8)| *own == 0 || own == theirs;
            if read > wanted || !own[..read].iter().zip(&theirs).all(is_like) {
                return Ok(false);
            }
            if read < TORN_BLOCK_BYTES {
                break;
            }
        }
        Ok(true)
    }

    /// Opens the kept file.
    pub fn kept(&self, entry: &StepRecord) -> io::Result<File> {
        let kept = entry.place(&entry.step.keep.path, self.directories)?;
        // Opening a device may have effects.
        let is_file = kept.facts()?.is_none_or(|found| found.kind == FileType::RegularFile);
        is_file
            .then(|| kept.open())
            .ok_or_else(|| io::Error::other("not a regular file"))?
    }

    /// Opens the kept file if its name leads to the file that the run kept.
    pub fn kept_itself(&self, entry: &StepRecord) -> Result<File, RefusalReason> {
        let of_kept = of_kept(&entry.step.keep.path);
        let kept = self.kept(entry).map_err(cannot("open")).map_err(&of_kept)?;
        let is_it = entry.kept().is_open(&kept);
        is_it.then_some(kept).ok_or_else(|| of_kept(RefusalReason::OtherFile))
    }
}

/// A name of a step in a directory.
#[derive(Clone, Copy)]
pub(super) struct NameAt<'n> {
    names: &'n Names<'n>,
    entry: &'n StepRecord,
    name: &'n StepName,
    place: &'n DirEntryHandle,
}

impl NameAt<'_> {
    /// What it leads to, if nothing is left half done.
    fn state(&self) -> io::Result<NameState> {
        let other = |why| Ok(NameState::Other(why));
        let (names, entry) = (self.names, self.entry);
        match self.look(&self.place.name)? {
            NamedFile::Nothing if names.action().leaves_nothing() => Ok(NameState::Acted(Inverse::Name)),
            NamedFile::Nothing => other(RefusalReason::Gone),
            NamedFile::Old => Ok(NameState::Old),
            NamedFile::Made(file) if entry.has_digest(&StatFacts::of(&file)?, &file, names.stop)? => {
                Ok(NameState::Restored(file))
            }
            NamedFile::Made(file) if names.is_torn(entry, &file)? => Ok(NameState::Acted(Inverse::NameOfTorn(file))),
            NamedFile::Link { is_unchanged: true, .. } => Ok(NameState::Acted(Inverse::Name)),
            NamedFile::Made(_) | NamedFile::Link { .. } => other(RefusalReason::ChangedSince),
            NamedFile::Other => other(RefusalReason::NameTaken),
        }
    }

    /// What a name in its directory leads to.
    fn look(&self, called: &OsStr) -> io::Result<NamedFile> {
        let (names, entry, place) = (self.names, self.entry, self.place);
        let Some(found) = place.facts_of(called)? else {
            return Ok(NamedFile::Nothing);
        };
        let link = |is_unchanged, is_surplus| NamedFile::Link {
            is_unchanged,
            is_surplus,
        };
        if found.kind == FileType::Symlink {
            let found = place.directory.link_target(called);
            return Ok(match &self.name.change {
                NameChange::Linked { target } if found.is_ok_and(|found| found == *target) => link(true, true),
                _ => NamedFile::Other,
            });
        }
        let Some((found, file)) = place.opened(called) else {
            return Ok(NamedFile::Other);
        };
        // Without birth times, what undo made may look like the file whose inode number it has.
        let is_made = (entry.restored.iter()).any(|made| made.is(&found, file.as_deref()));
        if !is_made && entry.acted_on().is(&found, file.as_deref()) {
            // A file that stays may have been written to since.
            let is_old = *names.action() == Action::Names || entry.is_as_old(&found);
            return Ok(if is_old { NamedFile::Old } else { NamedFile::Other });
        }
        let Some(file) = file.filter(|_| found.kind == FileType::RegularFile) else {
            return Ok(NamedFile::Other);
        };
        if is_made {
            return Ok(NamedFile::Made(file));
        }
        if *names.action() != Action::Hardlink {
            return Ok(NamedFile::Other);
        }
        // The path of the kept file may be another name of this one.
        let (keep, was) = (&entry.step.keep.path, &entry.step.keep.state);
        let kept = entry.place(keep, names.directories).and_then(|kept| kept.facts());
        let is_there = matches!(kept, Ok(Some(kept)) if kept.id() == found.id());
        if is_there && found.names > 1 && *keep != place.beside(called) {
            let is_as_old = (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns);
            return Ok(link(is_as_old || entry.has_digest(&found, &file, names.stop)?, true));
        }
        // This may be the last name of the kept file.
        if entry.kept().is(&found, Some(&file)) {
            let lease = Lease::take(&file, LeaseKind::AgainstWriters, None);
            let is_unchanged = lease.is_ok() && entry.has_digest(&found, &file, names.stop)?;
            return Ok(link(is_unchanged, false));
        }
        Ok(NamedFile::Other)
    }

    fn is_link(&self, called: &OsStr) -> bool {
        matches!(self.look(called), Ok(NamedFile::Link { is_unchanged: true, .. }))
    }

    /// Removes a link or copy that a kill left under the temporary name, or gives a file its name back; returns whether it did that.
    /// The inner error says what only the user can decide.
    fn put_back(&self) -> io::Result<Result<bool, RefusalReason>> {
        let (place, watch) = (self.place, self.names.watch);
        let temporary = OsStr::new(&self.name.temporary);
        match self.is_surplus()? {
            None => return Ok(Ok(false)),
            Some(true) => {
                place.remove(temporary, watch)?;
                return Ok(Ok(false));
            }
            // It is the file that had the name, or its copy, or what another program had saved under it.
            Some(false) if place.facts()?.is_none() => {
                place.rename(temporary, place, &place.name, watch)?;
                return Ok(Ok(true));
            }
            Some(false) => {}
        }
        let both = |aside| Ok(Err(RefusalReason::Several(vec![RefusalReason::Replaced, aside])));
        if !self.is_link(&place.name) {
            return both(RefusalReason::NowAt(place.beside(temporary)));
        }
        let exchanged = dir_handle::exchange(&Exchange {
            directory: &place.directory,
            name: &place.name,
            path: &place.path,
            temporary,
            watch,
            is_ready: &|| Ok(()),
            may_go: &|| self.is_link(temporary).then_some(()).ok_or(()),
            // The file is to stay, whatever another program saved over the link.
            is_new: &|_| false,
        });
        match exchanged {
            Ok(()) => {}
            Err(NotExchanged::Refused(error)) => return Err(error),
            Err(NotExchanged::Unavailable(reason)) => return Err(io::Error::other(reason)),
            Err(_) => return both(RefusalReason::SavedAt(place.beside(temporary))),
        }
        place.remove(temporary, watch)?;
        Ok(Ok(true))
    }

    /// Whether nothing is lost if what has the temporary name is removed; `None` if nothing has it. Gives its attributes to a copy
    /// that must stay.
    fn is_surplus(&self) -> io::Result<Option<bool>> {
        let (entry, stop) = (self.entry, self.names.stop);
        Ok(match self.look(OsStr::new(&self.name.temporary))? {
            NamedFile::Nothing => None,
            // It did not get the name, or lost it again.
            NamedFile::Link {
                is_unchanged,
                is_surplus,
            } => Some(is_unchanged || is_surplus),
            // Another copy may not be possible any more.
            NamedFile::Made(copy) => match self.look(&self.place.name)? {
                NamedFile::Old | NamedFile::Made(_) => Some(true),
                _ if !entry.has_digest(&StatFacts::of(&copy)?, &copy, stop)? => Some(true),
                _ => {
                    let given = entry.old.give_attributes(&copy);
                    given.map_err(io::Error::other).and_then(|()| copy.sync_all())?;
                    Some(false)
                }
            },
            NamedFile::Old | NamedFile::Other => Some(false),
        })
    }

    /// Gives a file a name that leads to nothing, to the link that the run made, or to a torn file. `is_temporary` says that the file
    /// already has the temporary name.
    pub fn give(&self, inverse: &Inverse, file: &File, is_temporary: bool) -> Result<(), RefusalReason> {
        let (place, watch, stop) = (self.place, self.names.watch, self.names.stop);
        let temporary = OsStr::new(&self.name.temporary);
        // Two mounts may show one name, and it was given by the other.
        if KnownFile::of(file).is_ok_and(|file| file.is_at(place, &place.name)) {
            return Ok(());
        }
        let link = |called: &OsStr| {
            watch.announce(StepKind::Make, &place.beside(called))?;
            place.link(file, called)
        };
        let is_free = self.names.action().leaves_nothing() && matches!(inverse, Inverse::Name);
        if is_free {
            let named = if is_temporary {
                place.rename(temporary, place, &place.name, watch)
            } else {
                link(&place.name)
            };
            return named.map_err(cannot("give it its name"));
        }
        if !is_temporary {
            link(temporary).map_err(cannot("give the new file a name"))?;
        }
        let is_expected = || match inverse {
            Inverse::NameOfTorn(torn) => KnownFile::of(torn).is_ok_and(|torn| torn.is_at(place, temporary)),
            _ => self.is_link(temporary),
        };
        let remove = || match is_expected() {
            true => place.remove(temporary, watch).map_err(cannot("remove the link")),
            false if stop.is_stopped() => Err(RefusalReason::Stopped),
            false => Err(RefusalReason::Replaced),
        };
        let made = StatFacts::of(file).map_err(cannot("stat the new file"))?;
        let replacement = Replacement {
            place,
            temporary,
            watch,
            // What another program wrote to it in the moment when it had the name is that program's.
            is_new: &|found| found.is_but_for_names(&made),
        };
        let taken = replacement.take_name(&|| Ok(()), &remove);
        taken.or_else(|outcome| outcome.why().map_or(Ok(()), Err))
    }
}
