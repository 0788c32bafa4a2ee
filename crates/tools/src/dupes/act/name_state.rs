//! What a name leads to after a run or an undo that may have been killed; what was left half done is put back first.
//!
//! Not here: what follows from it (`settle`, `undo`).

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::FileType;
use seekless::files::{Exchange, NotExchanged, read_full};
use seekless::update::{StepKind, Watch};

use super::change::Replacement;
use super::place::{Directories, NameInDirectory};
use super::record::{NameOf, StepRecord};
use super::twin::KnownFile;
use super::{Action, Refused, cannot};
use crate::visible::visible_path;
use crate::walk::StatFacts;

/// What a name leads to.
pub(super) enum NameState {
    /// The file that it led to before the run.
    Old,
    /// The file that undo made for it.
    Restored(File),
    /// The same, without its bytes: the power was cut before they were on the device.
    Torn(File),
    /// What the run made of it: nothing, or a link.
    Acted,
    /// Something else, and what.
    Other(String),
    /// Something else, while the temporary name leads to what had the name before.
    Aside(String),
}

/// A name that a file gets.
pub(super) struct WantedName {
    /// The number of the name.
    pub at: usize,
    pub place: NameInDirectory,
    /// The file without its bytes that has the name now.
    pub torn: Option<File>,
}

/// What looking at the names of a journal needs.
pub(super) struct Names<'a> {
    pub action: &'a Action,
    pub directories: &'a Directories,
    pub watch: &'a dyn Watch,
}

/// How much of a file that a power cut may have torn is compared at a time.
const TORN_BLOCK_BYTES: usize = 64 << 10;

impl Names<'_> {
    /// What a name leads to, and whether that was just put back. `made` are the files that undo made for the step.
    pub fn state(
        &self,
        entry: &StepRecord,
        name: &NameOf,
        place: &NameInDirectory,
        made: &[KnownFile],
    ) -> io::Result<(NameState, bool)> {
        match self.put_back(entry, name, place, made)? {
            Ok(is_put_back) => Ok((self.settled(entry, name, place, made)?, is_put_back)),
            Err(why) => Ok((NameState::Aside(why), false)),
        }
    }

    /// What a name leads to, if nothing is left half done.
    fn settled(
        &self,
        entry: &StepRecord,
        name: &NameOf,
        place: &NameInDirectory,
        made: &[KnownFile],
    ) -> io::Result<NameState> {
        let Some(found) = place.facts()? else {
            return Ok(match self.action {
                Action::Remove => NameState::Acted,
                _ => NameState::Other("it is gone; the link that took its place was removed or renamed".into()),
            });
        };
        if entry.is_as_old(&found) && entry.acted_on().is_at(place, &place.name) {
            return Ok(NameState::Old);
        }
        if made.iter().any(|made| made.is_at(place, &place.name)) {
            let file = place.open()?;
            return Ok(if entry.has_digest(&found, &file) {
                NameState::Restored(file)
            } else if self.is_torn(entry, &file)? {
                NameState::Torn(file)
            } else {
                NameState::Other("it was restored, and has changed since".into())
            });
        }
        Ok(match self.action {
            _ if self.is_link(entry, name, place, &place.name) => NameState::Acted,
            Action::Hardlink if entry.kept().is_at(place, &place.name) => {
                NameState::Other("the file that it was linked to has changed since".into())
            }
            _ => NameState::Other("another file has its name now".into()),
        })
    }

    fn is_link(&self, entry: &StepRecord, name: &NameOf, place: &NameInDirectory, called: &OsStr) -> bool {
        self.action.makes_links() && entry.is_link(name, place, called, self.directories)
    }

    /// Removes a link or copy that a kill left under the temporary name, or gives a file its name back; returns whether it did that.
    /// The inner error says what only the user can decide.
    fn put_back(
        &self,
        entry: &StepRecord,
        name: &NameOf,
        place: &NameInDirectory,
        made: &[KnownFile],
    ) -> io::Result<Result<bool, String>> {
        let temporary = OsStr::new(&name.temporary);
        let aside = place.beside(temporary);
        if place.facts_of(temporary)?.is_none() {
            return Ok(Ok(false));
        }
        // The link, or the copy, which did not get the name or lost it again.
        let is_surplus = || {
            self.action.makes_links()
                && !entry.acted_on().is_at(place, temporary)
                && entry.is_surplus(name, place, temporary, self.directories)
        };
        if made.iter().any(|made| made.is_at(place, temporary)) || is_surplus() {
            place.remove(temporary, self.watch)?;
            return Ok(Ok(false));
        }
        // It is the file that had the name, or what another program had saved under it.
        if place.facts()?.is_none() {
            place.rename(temporary, place, &place.name, self.watch)?;
            return Ok(Ok(true));
        }
        let saved = |what| format!("{what} {}", visible_path(&aside));
        if !self.is_link(entry, name, place, &place.name) {
            let what = "another program saved it meanwhile; what was there before is";
            return Ok(Err(saved(what)));
        }
        let exchanged = Exchange {
            directory: &place.directory,
            name: &place.name,
            path: &place.path,
            temporary,
            watch: self.watch,
            is_ready: &|| Ok(()),
            may_go: &|| self.is_link(entry, name, place, temporary).then_some(()).ok_or(()),
            // The file is to stay, whatever another program saved over the link.
            is_new: &|_| false,
        }
        .run();
        match exchanged {
            Ok(()) => {}
            Err(NotExchanged::Refused(error)) => return Err(error),
            Err(NotExchanged::Unavailable(reason)) => return Err(io::Error::other(reason)),
            Err(_) => {
                let what = "put back, but another program had just replaced the link; its version is";
                return Ok(Err(saved(what)));
            }
        }
        place.remove(temporary, self.watch)?;
        Ok(Ok(true))
    }

    /// Whether a file is the beginning of the kept one but for zeros: there is nothing in it to lose.
    fn is_torn(&self, entry: &StepRecord, file: &File) -> io::Result<bool> {
        let kept = self.kept(entry)?;
        let (mut own, mut theirs) = (vec![0; TORN_BLOCK_BYTES], vec![0; TORN_BLOCK_BYTES]);
        for at in (0..).step_by(TORN_BLOCK_BYTES) {
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
        let kept = self.directories.place(&entry.step.keep.path)?;
        // Opening a device may have effects.
        let is_file = kept.facts()?.is_none_or(|found| found.kind == FileType::RegularFile);
        is_file
            .then(|| kept.open())
            .ok_or_else(|| io::Error::other("not a regular file"))?
    }

    /// Gives a file a name that leads to nothing, to the link that the run made, or to a torn file. `is_temporary` says that the file
    /// already has the temporary name.
    pub fn give_name(
        &self,
        entry: &StepRecord,
        wanted: &WantedName,
        file: &File,
        is_temporary: bool,
    ) -> Result<(), Refused> {
        let (place, name) = (&wanted.place, &entry.names[wanted.at]);
        let temporary = OsStr::new(&name.temporary);
        let link = |called: &OsStr| {
            self.watch.announce(StepKind::Make, &place.beside(called))?;
            place.link(file, called)
        };
        if *self.action == Action::Remove && wanted.torn.is_none() {
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
            None => entry.is_link(name, place, temporary, self.directories),
        };
        let remove = || {
            if !is_expected() {
                return Err("another program replaced the link at that moment".into());
            }
            place.remove(temporary, self.watch).map_err(cannot("remove the link"))
        };
        let replacement = Replacement {
            place,
            temporary,
            watch: self.watch,
            is_new: &|found| StatFacts::of(file).is_ok_and(|own| own.id() == found.id()),
        };
        let taken = replacement.take_name(&|| Ok(()), &remove);
        taken.map_err(|outcome| outcome.why().unwrap_or_default())
    }
}
