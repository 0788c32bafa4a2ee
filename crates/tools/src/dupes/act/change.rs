//! Doing a step. A file is never overwritten: it is renamed, checked, and put back if it is not the file that was
//! compared.
//!
//! Not here: the proofs before, and the journal.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rustix::fs::FileType;
use seekless::files::{Exchange, FileRef, NotExchanged};
use seekless::update::{StepKind, Watch};
use seekless_sys::{Support, share_range};

use super::held::{HeldFile, HeldKept, digest_of};
use super::place::{Directories, ExaminedName};
use super::prepare::{ProvenFiles, ProvenStep};
use super::record::NameOf;
use super::session::Session;
use super::{Action, RefusalReason, StepOutcome, cannot, kept_time, of_kept, trash};
use crate::visible::visible_path;
use crate::walk::StatFacts;

/// Why a name was not, or not fully, acted on: [`StepOutcome::Left`] if it is as it was, else [`StepOutcome::Failed`].
type Changed = Result<(), StepOutcome>;

fn failed(why: RefusalReason) -> StepOutcome {
    StepOutcome::Failed { why }
}

/// The error of a call that changed nothing.
fn unchanged(action: &'static str) -> impl FnOnce(io::Error) -> StepOutcome {
    move |error| cannot(action)(error).into()
}

/// Bytes that the kernel compares and shares in one call; longer calls take longer to be interrupted, and some file systems
/// refuse them.
const SHARED_AT_ONCE_BYTES: u64 = 16 << 20;

/// Does a step.
pub(super) fn act(
    proven: &ProvenStep,
    files: &ProvenFiles,
    session: &Session<'_>,
    directories: &Directories,
) -> StepOutcome {
    let acted = |at: usize| ActedName {
        place: &proven.places[at],
        of: &proven.entry.names[at],
        held: &files.held,
        kept: &files.kept,
        watch: session.watch,
    };
    if *session.action == Action::Reflink {
        return match acted(0).reflink(session) {
            Ok(()) => StepOutcome::Done {
                gained_bytes: files.own_bytes,
            },
            Err(why) => why.into(),
        };
    }
    let names = proven.places.len();
    let names_before = files.held.facts().names;
    for done in 0..names {
        // Its remaining names are checked against what the file is now.
        let renew = || {
            if done + 1 == names {
                Ok(())
            } else {
                files.held.renew().map_err(failed)
            }
        };
        let changed = acted(done).change(session, directories).and_then(|()| renew());
        return match changed {
            Ok(()) => continue,
            Err(StepOutcome::Left { why } | StepOutcome::Failed { why }) if done > 0 => {
                failed(RefusalReason::PartlyDone {
                    done,
                    of: names,
                    next: proven.places[done].path.clone(),
                    why: why.into(),
                })
            }
            Err(outcome) => outcome,
        };
    }
    let is_gone = !session.action.moves() && names_before <= names as u64;
    StepOutcome::Done {
        gained_bytes: if is_gone { files.own_bytes } else { 0 },
    }
}

/// A name of a file that is acted on.
struct ActedName<'a> {
    place: &'a ExaminedName,
    of: &'a NameOf,
    held: &'a HeldFile,
    kept: &'a HeldKept,
    watch: &'a dyn Watch,
}

impl ActedName<'_> {
    /// Acts on it.
    fn change(&self, session: &Session<'_>, directories: &Directories) -> Changed {
        self.require_unchanged(session)?;
        match session.action {
            Action::Remove => self.remove(&|| self.kept.require_bytes()),
            Action::Names => self.remove(&|| self.kept.require_named()),
            Action::Hardlink => {
                let linked = self.hardlink();
                // Even a link that was removed again has changed the ctime of the kept file.
                let renewed = self.kept.held.renew();
                session.remember(&self.kept.held);
                linked?;
                renewed.map_err(|why| failed(of_kept(&self.kept.place.path)(why)))
            }
            Action::Symlink { .. } => self.symlink(),
            Action::Move { .. } | Action::Trash { .. } | Action::Aside => self.relocate(session, directories),
            Action::Reflink => Ok(()),
        }
    }

    /// Fails unless it still leads to the file that was compared, and that and the kept file are unchanged.
    fn require_unchanged(&self, session: &Session<'_>) -> Result<(), RefusalReason> {
        self.held.require_unchanged()?;
        let kept = self.kept.held.require_unchanged();
        kept.map_err(of_kept(&self.kept.place.path))?;
        match self.place.facts().map_err(cannot("stat"))? {
            Some(found) if found.id() == self.held.facts().id() => Ok(()),
            Some(found) if session.is_unnumbered(found.device) => Ok(()),
            _ => Err(RefusalReason::Replaced),
        }
    }

    /// Checks that the renamed file is the one that was compared, and that nobody writes to it.
    fn look(&self, place: &ExaminedName, called: &OsStr) -> Result<(), RefusalReason> {
        let expected = self.held.facts();
        match place.facts_of(called).map_err(cannot("stat"))? {
            Some(found) if found.id() != expected.id() => Err(RefusalReason::ReplacedNow),
            Some(found) if !found.is_but_for_names(&expected) => Err(RefusalReason::ChangedNow),
            Some(_) if self.held.is_alone() => Ok(()),
            Some(_) => Err(RefusalReason::Opening),
            None => Err(RefusalReason::RemovedNow),
        }
    }

    fn temporary(&self) -> &OsStr {
        OsStr::new(&self.of.temporary)
    }

    /// Removes the file, which was renamed, if it still is what was compared, and `is_right` agrees.
    ///
    /// Changes between this check and the removal go unnoticed. If another program renames or removes the kept file then, the
    /// result is the same as if it did so right after. If a program looked up the file before the rename and opens it then, it
    /// waits for the lease, and writes to a file without a name.
    fn unlink(&self, is_right: &dyn Fn() -> Result<(), RefusalReason>) -> Result<(), RefusalReason> {
        let failed = cannot("remove it");
        let told = self
            .watch
            .announce(StepKind::Remove, &self.place.beside(self.temporary()));
        told.map_err(&failed)?;
        is_right()?;
        self.look(self.place, self.temporary())?;
        let removed = self.place.change(|directory| directory.remove_file(self.temporary()));
        removed.map_err(failed)
    }

    fn remove(&self, is_right: &dyn Fn() -> Result<(), RefusalReason>) -> Changed {
        let aside = self.place.beside(self.temporary());
        let rename = |from: &OsStr, to: &OsStr| self.place.rename(from, self.place, to, self.watch);
        rename(&self.place.name, self.temporary()).map_err(unchanged("rename it"))?;
        let Err(why) = self.unlink(is_right) else {
            return Ok(());
        };
        match rename(self.temporary(), &self.place.name) {
            // Somebody may have removed it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(not_put_back(why, aside, &error)),
            _ => Err(why.into()),
        }
    }

    fn hardlink(&self) -> Changed {
        let linked = self.make(|temporary| self.place.link(&self.kept.held.file, temporary));
        linked.map_err(unchanged("make a hard link to the kept file"))?;
        let is_link = |found: &StatFacts| found.id() == self.kept.held.facts().id();
        self.take_place(&is_link, &|_| Ok(()))
    }

    fn symlink(&self) -> Changed {
        let target = self.of.link.as_deref().unwrap_or(Path::new(""));
        let linked = self.make(|temporary| self.place.change(|directory| directory.make_link(target, temporary)));
        linked.map_err(unchanged("make a symbolic link"))?;
        let made = self.place.facts_of(self.temporary()).map_err(|error| {
            let aside = visible_path(&self.place.beside(self.temporary()));
            failed(cannot(format!("stat the symbolic link, which is {aside}"))(error))
        })?;
        let is_link = |found: &StatFacts| made.is_some_and(|made| made.id() == found.id());
        // Its path was proven before: directories may have been renamed since.
        let leads = |called: &OsStr| match self.place.facts_behind(called) {
            Ok(Some(found)) if found.id() == self.kept.held.facts().id() => Ok(()),
            _ => Err(RefusalReason::LinkLeadsElsewhere),
        };
        self.take_place(&is_link, &leads)
    }

    /// Makes a link with the temporary name.
    fn make(&self, make: impl FnOnce(&OsStr) -> io::Result<()>) -> io::Result<()> {
        let temporary = self.temporary();
        self.watch.announce(StepKind::Make, &self.place.beside(temporary))?;
        make(temporary)
    }

    /// Gives the name to the link that was made beside it, and removes the file. `leads` fails unless the link with a name leads to
    /// the kept file.
    fn take_place(
        &self,
        is_link: &dyn Fn(&StatFacts) -> bool,
        leads: &dyn Fn(&OsStr) -> Result<(), RefusalReason>,
    ) -> Changed {
        let replacement = Replacement {
            place: self.place,
            temporary: self.temporary(),
            watch: self.watch,
            is_new: &|found| is_link(found),
        };
        replacement.take_name(
            &|| leads(self.temporary()).and_then(|()| self.kept.require_bytes()),
            // The kept file is not checked again: a write to the link is a write to that file.
            &|| self.unlink(&|| leads(&self.place.name)),
        )
    }

    /// Moves the file. It is moved back if what is at the new place is not what was proven.
    fn relocate(&self, session: &Session<'_>, directories: &Directories) -> Changed {
        let to = self.of.moved_to.as_deref().unwrap_or(Path::new("/"));
        let made = self.watch.announce(StepKind::Make, to);
        let moved = made
            .and_then(|()| destination(self.of, session, directories))
            .and_then(|there| {
                trash::describe(self.of, session.action, directories, self.watch)?;
                self.place.rename(&self.place.name, &there, &there.name, self.watch)?;
                Ok(there)
            });
        let there = moved.map_err(|error| {
            session.unmake_later(self.of, &unmake(self.of, directories));
            StepOutcome::from(cannot(format!("move it to {}", visible_path(to)))(error))
        })?;
        let right = if session.options.without_leases {
            self.require_equal(&there, session)
        } else {
            self.look(&there, &there.name)
        };
        let Err(why) = right else { return Ok(()) };
        match there.rename(&there.name, self.place, &self.place.name, self.watch) {
            Ok(()) => session.unmake_later(self.of, &unmake(self.of, directories)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(not_put_back(why, to.to_owned(), &error)),
        }
        Err(why.into())
    }

    /// Fails unless the file that was moved, and the one that the kept path leads to now, have the bytes that were compared. Without
    /// leases, other programs may have written to both, and both paths may have led to one file.
    fn require_equal(&self, there: &ExaminedName, session: &Session<'_>) -> Result<(), RefusalReason> {
        let is_equal = |place: &ExaminedName| {
            let found = place.facts()?.filter(|found| found.kind == FileType::RegularFile);
            let file = found.map(|_| place.open()).transpose()?;
            let Some(file) = file else { return Ok(false) };
            let bytes = StatFacts::of(&file)?.bytes;
            let mut block = session.block.lock().unwrap_or_else(PoisonError::into_inner);
            let mut digest = || digest_of(&file, bytes, &mut block, &|| !session.stop.is_stopped());
            Ok::<_, io::Error>(bytes == self.held.facts().bytes && digest()? == self.kept.digest)
        };
        let require = |place| match is_equal(place) {
            Ok(true) => Ok(()),
            Ok(false) => Err(RefusalReason::ChangedNow),
            Err(error) => Err(cannot("compare")(error)),
        };
        require(there)?;
        require(&self.kept.place).map_err(of_kept(&self.kept.place.path))
    }

    /// Makes a file share the blocks of the kept one.
    fn reflink(&self, session: &Session<'_>) -> Result<(), RefusalReason> {
        let held = self.held;
        self.require_unchanged(session)?;
        let bytes = held.facts().bytes;
        let mut at = 0;
        while at < bytes {
            if session.stop.is_stopped() {
                return Err(RefusalReason::Stopped);
            }
            let length = SHARED_AT_ONCE_BYTES.min(bytes - at);
            let told = self.watch.announce(StepKind::Write, &self.place.path);
            let shared = told.and_then(|()| share_range(&self.kept.held.file, &held.file, at, length));
            match shared.map_err(cannot("share blocks"))? {
                Support::Available(Some(shared)) if shared > 0 => at += shared,
                Support::Available(Some(_)) => return Err(RefusalReason::SharedNothing),
                Support::Available(None) => return Err(RefusalReason::DiffersThere),
                Support::Unavailable(reason) => return Err(RefusalReason::Unavailable(reason.into())),
            }
        }
        let now = StatFacts::of(&held.file).map_err(cannot("stat"))?;
        if now.modified != held.facts().modified && held.is_alone() {
            let set = FileRef::Open(held.file.as_fd()).set_times(None, held.facts().modified);
            set.map_err(|error| RefusalReason::TimeNotRestored(error.to_string()))?;
        }
        // All blocks are now those of the kept file. This is not checked: btrfs takes longer the more files share them.
        Ok(())
    }
}

fn not_put_back(why: RefusalReason, aside: PathBuf, error: &io::Error) -> StepOutcome {
    failed(RefusalReason::NotPutBack(why.into(), error.to_string(), aside))
}

/// What was made beside a name, under a temporary name, to replace what the name leads to.
pub(super) struct Replacement<'a> {
    pub place: &'a ExaminedName,
    pub temporary: &'a OsStr,
    pub watch: &'a dyn Watch,
    /// Whether these are the facts of what was made.
    pub is_new: &'a dyn Fn(&StatFacts) -> bool,
}

impl Replacement<'_> {
    /// Gives it the name. `remove` looks at what had the name, which has the temporary name then, and removes it; if that fails,
    /// what was made is removed.
    pub fn take_name(
        &self,
        is_ready: &dyn Fn() -> Result<(), RefusalReason>,
        remove: &dyn Fn() -> Result<(), RefusalReason>,
    ) -> Changed {
        let exchange = Exchange {
            directory: &self.place.directory,
            name: &self.place.name,
            path: &self.place.path,
            temporary: self.temporary,
            watch: self.watch,
            is_ready,
            may_go: remove,
            is_new: &|called| self.has(called),
        };
        let Err(why) = kept_time::exchange(&exchange) else {
            return Ok(());
        };
        let aside = self.place.beside(self.temporary);
        let action = "exchange names with the link";
        Err(match why {
            NotExchanged::NotReady(why) | NotExchanged::GivenBack(why) => self.discard(why),
            NotExchanged::Unavailable(reason) => self.discard(cannot(action)(reason)),
            NotExchanged::Refused(error) => self.discard(cannot(action)(error)),
            NotExchanged::Removed(why) => why.into(),
            NotExchanged::Saved(why) => failed(RefusalReason::SavedAside(why.into(), aside)),
            NotExchanged::Aside(why, error) => not_put_back(why, aside, &error),
        })
    }

    fn has(&self, called: &OsStr) -> bool {
        matches!(self.place.facts_of(called), Ok(Some(found)) if (self.is_new)(&found))
    }

    /// Removes what was made.
    fn discard(&self, why: RefusalReason) -> StepOutcome {
        let aside = self.place.beside(self.temporary);
        if !self.has(self.temporary) {
            return failed(RefusalReason::SavedAside(why.into(), aside));
        }
        match self.place.remove(self.temporary, self.watch) {
            Ok(()) => why.into(),
            Err(error) => failed(RefusalReason::NotRemoved(why.into(), aside, error.to_string())),
        }
    }
}

/// Opens the place that a file or directory is moved to. Makes missing directories for this user only (mode 0700): a file that its
/// directories protected stays protected.
pub(super) fn destination(name: &NameOf, session: &Session<'_>, directories: &Directories) -> io::Result<ExaminedName> {
    let path = name.moved_to.as_deref().unwrap_or(Path::new("/"));
    let above: Vec<&Path> = path.ancestors().skip(1).take(name.made as usize).collect();
    for directory in above.into_iter().rev() {
        let place = directories.place(directory)?;
        match place.change(|directory| directory.create_directory(&place.name, 0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let there = directories.place(path)?;
    // Another user may have made one of them meanwhile.
    session.require_private(&there).map_err(io::Error::other)?;
    Ok(there)
}

/// Removes the directories that were made for a file that is moved, if nothing is in them, and what a trash says of it.
pub(super) fn unmake(name: &NameOf, directories: &Directories) -> io::Result<()> {
    directories.close();
    trash::forget(name, directories)?;
    let path = name.moved_to.as_deref().unwrap_or(Path::new("/"));
    for directory in path.ancestors().skip(1).take(name.made as usize) {
        let removed = directories
            .place(directory)
            .and_then(|place| place.change(|above| above.remove_directory(&place.name)));
        match removed {
            Ok(()) => {}
            // It was not made yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(error) => return Err(error),
        }
    }
    directories.close();
    Ok(())
}
