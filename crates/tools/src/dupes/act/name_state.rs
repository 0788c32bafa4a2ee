//! What a name leads to after a run or an undo that may have been killed; what was left half done is put back first. A new file may
//! have the inode number of a removed one, and a file may have been edited since: those files are not touched.
//!
//! Not here: what follows from it (`undo`).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use seekless::files::{Exchange, Lease, NotExchanged, read_full};
use seekless::update::{StepKind, Watch};
use seekless_sys::LeaseKind;

use super::change::Replacement;
use super::dir_handle::{self, DirEntryHandle, Directories};
use super::record::{KnownFile, RunRecord, StepName, StepRecord, digest_of};
use super::{Action, RefusalReason, cannot, of_kept};
use crate::Stop;
use crate::visible::visible_path;
use crate::walk::StatFacts;

/// What a name leads to.
pub(super) enum NameState {
    /// The file that it led to before the run.
    Old,
    /// The file that undo made for it.
    Restored(Arc<File>),
    /// What the run made of it: nothing, or a link; or the file that undo made, without its bytes: the power was cut before they were
    /// on the device.
    Acted(Option<Arc<File>>),
    /// Something else, and what.
    Other(RefusalReason),
    /// Something else, while the temporary name leads to what had the name before.
    Aside(RefusalReason),
}

/// A file that a name leads to, as far as a journal knows it.
enum NamedFile {
    Nothing,
    /// What was acted on; whether it has the size and the time that it had.
    ActedOn {
        is_as_old: bool,
    },
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

/// Where a file is that was moved.
pub(super) enum MovedFile {
    /// Where it was moved to.
    There(DirEntryHandle),
    /// At its old place.
    Back,
    /// Neither is known to be it, and why.
    Lost(RefusalReason),
}

/// A name that a file gets.
pub(super) struct WantedName {
    /// The number of the name.
    pub at: usize,
    pub place: DirEntryHandle,
    /// The file without its bytes that has the name now.
    pub torn: Option<Arc<File>>,
}

/// What looking at the names of a journal needs.
pub(super) struct Names<'a> {
    pub action: &'a Action,
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
            action: &lines.header.action,
            directories,
            stop,
            watch,
        }
    }

    /// Where the file of a name is that was moved; `old` is its old place, if its directory is there.
    ///
    /// # Errors
    /// It was stopped before that was known.
    pub fn moved(&self, entry: &StepRecord, name: &StepName, old: Option<&DirEntryHandle>) -> io::Result<MovedFile> {
        let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
        let lost = match entry.place(to, self.directories) {
            Ok(there) if entry.is_moved_to(self.action, &there, self.stop)? => return Ok(MovedFile::There(there)),
            Ok(_) => RefusalReason::Of(to.to_owned(), RefusalReason::ChangedSince.into()),
            // A killed undo may have removed the directory.
            Err(error) => cannot(format!("open the directory of {}", visible_path(to)))(error),
        };
        let is_back = old.map_or(Ok(false), |old| entry.is_at(old, &old.name, self.stop))?;
        Ok(if is_back {
            MovedFile::Back
        } else {
            MovedFile::Lost(lost)
        })
    }

    /// What a name leads to, and whether that was just put back. `made` are the files that undo made for the step.
    pub fn state(
        &self,
        entry: &StepRecord,
        name: &StepName,
        place: &DirEntryHandle,
        made: &[KnownFile],
    ) -> io::Result<(NameState, bool)> {
        match self.put_back(entry, name, place, made)? {
            Ok(is_put_back) => Ok((self.state_now(entry, name, place, made)?, is_put_back)),
            Err(why) => Ok((NameState::Aside(why), false)),
        }
    }

    /// What a name in the directory leads to.
    fn look(
        &self,
        entry: &StepRecord,
        name: &StepName,
        place: &DirEntryHandle,
        called: &OsStr,
        made: &[KnownFile],
    ) -> io::Result<NamedFile> {
        let Some(found) = place.facts_of(called)? else {
            return Ok(NamedFile::Nothing);
        };
        let link = |is_unchanged, is_surplus| NamedFile::Link {
            is_unchanged,
            is_surplus,
        };
        if found.kind == FileType::Symlink {
            let target = place.directory.link_target(called);
            let is_link = name.link.is_some() && target.ok().as_ref() == name.link.as_ref();
            return Ok(if is_link { link(true, true) } else { NamedFile::Other });
        }
        let Some((found, file)) = opened(place, called) else {
            return Ok(NamedFile::Other);
        };
        // Without birth times, what undo made may look like the file whose inode number it has.
        let is_made = made.iter().any(|made| made.is(&found, file.as_deref()));
        if !is_made && entry.acted_on().is(&found, file.as_deref()) {
            // A file that stays may have been written to since.
            let is_as_old = *self.action == Action::Names || entry.is_as_old(&found);
            return Ok(NamedFile::ActedOn { is_as_old });
        }
        let Some(file) = file.filter(|_| found.kind == FileType::RegularFile) else {
            return Ok(NamedFile::Other);
        };
        if is_made {
            return Ok(NamedFile::Made(file));
        }
        if *self.action != Action::Hardlink {
            return Ok(NamedFile::Other);
        }
        // The path of the kept file may be another name of this one.
        let (keep, was) = (&entry.step.keep.path, &entry.step.keep.state);
        let kept = entry.place(keep, self.directories).and_then(|kept| kept.facts());
        let is_there = matches!(kept, Ok(Some(kept)) if kept.id() == found.id());
        if is_there && found.names > 1 && *keep != place.beside(called) {
            let is_as_old = (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns);
            return Ok(link(is_as_old || entry.has_digest(&found, &file, self.stop)?, true));
        }
        // This may be the last name of the kept file.
        if entry.kept().is(&found, Some(&file)) {
            let lease = Lease::take(&file, LeaseKind::AgainstWriters, None);
            let is_unchanged = lease.is_ok() && entry.has_digest(&found, &file, self.stop)?;
            return Ok(link(is_unchanged, false));
        }
        Ok(NamedFile::Other)
    }

    /// What a name leads to, if nothing is left half done.
    pub fn state_now(
        &self,
        entry: &StepRecord,
        name: &StepName,
        place: &DirEntryHandle,
        made: &[KnownFile],
    ) -> io::Result<NameState> {
        let other = |why| Ok(NameState::Other(why));
        match self.look(entry, name, place, &place.name, made)? {
            NamedFile::Nothing if self.action.leaves_nothing() => Ok(NameState::Acted(None)),
            NamedFile::Nothing => other(RefusalReason::Gone),
            NamedFile::ActedOn { is_as_old: true } => Ok(NameState::Old),
            NamedFile::Made(file) if entry.has_digest(&StatFacts::of(&file)?, &file, self.stop)? => {
                Ok(NameState::Restored(file))
            }
            NamedFile::Made(file) if self.is_torn(entry, &file)? => Ok(NameState::Acted(Some(file))),
            NamedFile::Link { is_unchanged: true, .. } => Ok(NameState::Acted(None)),
            NamedFile::Made(_) | NamedFile::Link { .. } => other(RefusalReason::ChangedSince),
            NamedFile::ActedOn { .. } | NamedFile::Other => other(RefusalReason::NameTaken),
        }
    }

    fn is_link(&self, entry: &StepRecord, name: &StepName, place: &DirEntryHandle, called: &OsStr) -> bool {
        let found = self.look(entry, name, place, called, &[]);
        matches!(found, Ok(NamedFile::Link { is_unchanged: true, .. }))
    }

    /// Removes a link or copy that a kill left under the temporary name, or gives a file its name back; returns whether it did that.
    /// The inner error says what only the user can decide.
    fn put_back(
        &self,
        entry: &StepRecord,
        name: &StepName,
        place: &DirEntryHandle,
        made: &[KnownFile],
    ) -> io::Result<Result<bool, RefusalReason>> {
        let temporary = OsStr::new(&name.temporary);
        let aside = place.beside(temporary);
        let is_surplus = match self.look(entry, name, place, temporary, made)? {
            NamedFile::Nothing => return Ok(Ok(false)),
            // It did not get the name, or lost it again.
            NamedFile::Link {
                is_unchanged,
                is_surplus,
            } => is_unchanged || is_surplus,
            // Another copy may not be possible any more.
            NamedFile::Made(copy) => match self.look(entry, name, place, &place.name, made)? {
                NamedFile::ActedOn { is_as_old: true } | NamedFile::Made(_) => true,
                _ if !entry.has_digest(&StatFacts::of(&copy)?, &copy, self.stop)? => true,
                _ => {
                    let given = entry.old.give_attributes(&copy);
                    given.map_err(io::Error::other).and_then(|()| copy.sync_all())?;
                    false
                }
            },
            NamedFile::ActedOn { .. } | NamedFile::Other => false,
        };
        if is_surplus {
            place.remove(temporary, self.watch)?;
            return Ok(Ok(false));
        }
        let both = |aside| Ok(Err(RefusalReason::Several(vec![RefusalReason::Replaced, aside])));
        // It is the file that had the name, or its copy, or what another program had saved under it.
        if place.facts()?.is_none() {
            place.rename(temporary, place, &place.name, self.watch)?;
            return Ok(Ok(true));
        }
        if !self.is_link(entry, name, place, &place.name) {
            return both(RefusalReason::NowAt(aside));
        }
        let exchanged = dir_handle::exchange(&Exchange {
            directory: &place.directory,
            name: &place.name,
            path: &place.path,
            temporary,
            watch: self.watch,
            is_ready: &|| Ok(()),
            may_go: &|| self.is_link(entry, name, place, temporary).then_some(()).ok_or(()),
            // The file is to stay, whatever another program saved over the link.
            is_new: &|_| false,
        });
        match exchanged {
            Ok(()) => {}
            Err(NotExchanged::Refused(error)) => return Err(error),
            Err(NotExchanged::Unavailable(reason)) => return Err(io::Error::other(reason)),
            Err(_) => return both(RefusalReason::SavedAt(aside)),
        }
        place.remove(temporary, self.watch)?;
        Ok(Ok(true))
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

    /// Gives a file a name that leads to nothing, to the link that the run made, or to a torn file. `is_temporary` says that the file
    /// already has the temporary name.
    pub fn give_name(
        &self,
        entry: &StepRecord,
        wanted: &WantedName,
        file: &File,
        is_temporary: bool,
    ) -> Result<(), RefusalReason> {
        let (place, name) = (&wanted.place, &entry.names[wanted.at]);
        let temporary = OsStr::new(&name.temporary);
        // Two mounts may show one name, and it was given by the other.
        if KnownFile::of(file).is_ok_and(|file| file.is_at(place, &place.name)) {
            return Ok(());
        }
        let link = |called: &OsStr| {
            self.watch.announce(StepKind::Make, &place.beside(called))?;
            place.link(file, called)
        };
        if self.action.leaves_nothing() && wanted.torn.is_none() {
            let named = if is_temporary {
                place.rename(temporary, place, &place.name, self.watch)
            } else {
                link(&place.name)
            };
            return named.map_err(cannot("give it its name"));
        }
        if !is_temporary {
            link(temporary).map_err(cannot("give the new file a name"))?;
        }
        let is_expected = || match &wanted.torn {
            Some(torn) => KnownFile::of(torn).is_ok_and(|torn| torn.is_at(place, temporary)),
            None => self.is_link(entry, name, place, temporary),
        };
        let remove = || {
            if !is_expected() {
                let is_stopped = self.stop.is_stopped();
                return Err(if is_stopped {
                    RefusalReason::Stopped
                } else {
                    RefusalReason::Replaced
                });
            }
            place.remove(temporary, self.watch).map_err(cannot("remove the link"))
        };
        let made = StatFacts::of(file).map_err(cannot("stat the new file"))?;
        let replacement = Replacement {
            place,
            temporary,
            watch: self.watch,
            // What another program wrote to it in the moment when it had the name is that program's.
            is_new: &|found| found.is_but_for_names(&made),
        };
        let taken = replacement.take_name(&|| Ok(()), &remove);
        taken.or_else(|outcome| outcome.why().map_or(Ok(()), Err))
    }
}

impl KnownFile {
    /// Whether a name leads to this file.
    pub fn is_at(&self, place: &DirEntryHandle, called: &OsStr) -> bool {
        opened(place, called).is_some_and(|(found, file)| self.is(&found, file.as_deref()))
    }
}

impl StepRecord {
    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that
    /// undoing another journal made.
    ///
    /// # Errors
    /// As [`Self::has_digest`].
    pub fn is_at(&self, place: &DirEntryHandle, called: &OsStr, stop: &Stop) -> io::Result<bool> {
        match opened(place, called) {
            Some((found, Some(file))) if found.kind == FileType::RegularFile && self.is_as_old(&found) => {
                Ok(self.acted_on().is(&found, Some(&file)) || self.has_digest(&found, &file, stop)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether the file that was acted on is where it was moved to. In a place that only it can have, it may have changed since.
    ///
    /// # Errors
    /// As [`Self::has_digest`].
    pub fn is_moved_to(&self, action: &Action, there: &DirEntryHandle, stop: &Stop) -> io::Result<bool> {
        let is_file = || matches!(there.facts(), Ok(Some(found)) if found.kind == FileType::RegularFile);
        if action.moves_apart() {
            Ok(is_file())
        } else {
            self.is_at(there, &there.name, stop)
        }
    }

    /// Whether a file has the size and the time of the one that was acted on.
    pub fn is_as_old(&self, found: &StatFacts) -> bool {
        let was = &self.step.file.state;
        (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns)
    }

    /// Whether a file has the bytes that both files had.
    ///
    /// # Errors
    /// It was stopped before that was known.
    pub fn has_digest(&self, found: &StatFacts, file: &File, stop: &Stop) -> io::Result<bool> {
        if found.bytes != self.step.file.state.bytes {
            return Ok(false);
        }
        match digest_of(file, found.bytes, &mut Vec::new(), &|| !stop.is_stopped()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            digest => Ok(digest.is_ok_and(|digest| digest == self.digest)),
        }
    }
}

/// Opens a regular file or a directory, which may be refused. Opening anything else may have effects.
fn opened(place: &DirEntryHandle, called: &OsStr) -> Option<(StatFacts, Option<Arc<File>>)> {
    let found = place.facts_of(called).ok()??;
    if !matches!(found.kind, FileType::RegularFile | FileType::Directory) {
        return None;
    }
    let Ok(file) = place.open_of(called) else {
        return Some((found, None));
    };
    let now = StatFacts::of(&file).ok()?;
    (now.id() == found.id()).then(|| (now, Some(Arc::new(file))))
}
