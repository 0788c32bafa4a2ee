//! Doing a step. A file is never overwritten: it is renamed, checked, and put back if it is not the file that was
//! compared. The trash is that of the Trash specification 1.0 of freedesktop.org: a file beside the one in the trash says where it was.
//!
//! Not here: the proofs before, and the journal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Zoned;
use seekless_engine::files::{Exchange, FileId, FileRef, NotExchanged};
use seekless_engine::update::{StepKind, Watch};
use seekless_sys::{Support, share_range};

use super::dir_handle::{self, DirEntryHandle, Directories};
use super::hold::{LeasedFile, LockedKeeper, Session};
use super::prove::ProvenStep;
use super::record::{NameChange, NewPlace, StepName, StepRecord};
use super::{Action, RefusalReason, StepOutcome, cannot, of_kept};
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
pub(super) fn act(proven: &ProvenStep, session: &Session<'_>, directories: &Directories) -> StepOutcome {
    let Some(files) = &proven.files else {
        return remove_directory(proven, session);
    };
    let change = |at: usize| Change {
        place: &proven.places[at],
        entry: &proven.entry,
        name: &proven.entry.names[at],
        held: &files.held,
        kept: &files.kept,
        session,
    };
    // Sharing blocks changes no name.
    let is_reflink = *session.action == Action::Reflink;
    let names = if is_reflink { 1 } else { proven.places.len() };
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
        let changed = change(done).make(directories).and_then(|()| renew());
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
    let is_gone = is_reflink || !session.action.moves() && names_before <= names as u64;
    StepOutcome::Done {
        gained_bytes: if is_gone { files.own_bytes } else { 0 },
    }
}

/// The change of a name of a file.
struct Change<'a> {
    place: &'a DirEntryHandle,
    entry: &'a StepRecord,
    name: &'a StepName,
    held: &'a LeasedFile,
    kept: &'a LockedKeeper,
    session: &'a Session<'a>,
}

impl Change<'_> {
    /// Makes it.
    fn make(&self, directories: &Directories) -> Changed {
        self.require_unchanged()?;
        match (self.session.action, &self.name.change) {
            (_, NameChange::Moved(new)) => self.relocate(new, directories),
            (_, NameChange::Linked { target }) => self.symlink(target),
            (Action::Hardlink, NameChange::Taken) => {
                let linked = self.hardlink();
                // Even a link that was removed again has changed the ctime of the kept file.
                let renewed = self.kept.held.renew();
                self.session.remember(&self.kept.held);
                linked?;
                renewed.map_err(|why| failed(self.of_kept(why)))
            }
            (Action::Names, NameChange::Taken) => {
                let kept = &self.kept.place;
                self.remove(&|| self.held.require_at(kept, &kept.name))
            }
            (Action::Remove, NameChange::Taken) => self.remove(&|| self.kept.held.require_named()),
            (Action::Reflink, NameChange::Taken) => Ok(self.reflink()?),
            (_, NameChange::Taken) => Ok(()),
        }
    }

    fn of_kept(&self, why: RefusalReason) -> RefusalReason {
        of_kept(&self.kept.place.path)(why)
    }

    /// Fails unless it still leads to the file that was compared, and that and the kept file are unchanged.
    fn require_unchanged(&self) -> Result<(), RefusalReason> {
        self.held.require_unchanged()?;
        self.kept.held.require_unchanged().map_err(|why| self.of_kept(why))?;
        match self.place.facts().map_err(cannot("stat"))? {
            Some(found) if found.id() == self.held.facts().id() => Ok(()),
            Some(found) if self.session.is_unnumbered(found.device) => Ok(()),
            _ => Err(RefusalReason::Replaced),
        }
    }

    fn temporary(&self) -> &OsStr {
        OsStr::new(&self.name.temporary)
    }

    /// Removes the file, which was renamed, if it still is what was compared, and `is_right` says nothing else of the kept one.
    ///
    /// Changes between this check and the removal go unnoticed. If another program renames or removes the kept file then, the
    /// result is the same as if it did so right after. If a program looked up the file before the rename and opens it then, it
    /// waits for the lease, and writes to a file without a name.
    fn unlink(&self, is_right: &dyn Fn() -> Result<(), RefusalReason>) -> Result<(), RefusalReason> {
        let failed = cannot("remove it");
        let aside = self.place.beside(self.temporary());
        let told = self.session.watch.announce(StepKind::Remove, &aside);
        told.map_err(&failed)?;
        is_right().map_err(|why| self.of_kept(why))?;
        self.held.require_at(self.place, self.temporary())?;
        let removed = self.place.change(|directory| directory.remove_file(self.temporary()));
        removed.map_err(failed)
    }

    fn remove(&self, is_right: &dyn Fn() -> Result<(), RefusalReason>) -> Changed {
        let aside = self.place.beside(self.temporary());
        let rename = |from: &OsStr, to: &OsStr| self.place.rename(from, self.place, to, self.session.watch);
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
        let linked = self.make_link(|temporary| self.place.link(&self.kept.held.file, temporary));
        linked.map_err(unchanged("make a hard link to the kept file"))?;
        self.take_place(Some(self.kept.held.facts().id()), &|_| Ok(()))
    }

    fn symlink(&self, target: &Path) -> Changed {
        let linked = self.make_link(|temporary| self.place.change(|directory| directory.make_link(target, temporary)));
        linked.map_err(unchanged("make a symbolic link"))?;
        let made = self.place.facts_of(self.temporary()).map_err(|error| {
            let aside = visible_path(&self.place.beside(self.temporary()));
            failed(cannot(format!("stat the symbolic link, which is {aside}"))(error))
        })?;
        // Its path was proven before: directories may have been renamed since.
        let leads = |called: &OsStr| match self.place.facts_behind(called) {
            Ok(Some(found)) if found.id() == self.kept.held.facts().id() => Ok(()),
            _ => Err(RefusalReason::Replaced),
        };
        self.take_place(made.map(|made| made.id()), &leads)
    }

    /// Makes a link with the temporary name.
    fn make_link(&self, make: impl FnOnce(&OsStr) -> io::Result<()>) -> io::Result<()> {
        let temporary = self.temporary();
        self.session
            .watch
            .announce(StepKind::Make, &self.place.beside(temporary))?;
        make(temporary)
    }

    /// Gives the name to the link that was made beside it, and removes the file. `leads` fails unless the link with a name leads to
    /// the kept file.
    fn take_place(&self, link: Option<FileId>, leads: &dyn Fn(&OsStr) -> Result<(), RefusalReason>) -> Changed {
        let replacement = Replacement {
            place: self.place,
            temporary: self.temporary(),
            watch: self.session.watch,
            is_new: &|found| Some(found.id()) == link,
        };
        let is_ready = || leads(self.temporary()).and_then(|()| self.kept.held.require_named());
        replacement.take_name(
            &|| is_ready().map_err(|why| self.of_kept(why)),
            // The kept file is not checked again: a write to the link is a write to that file.
            &|| self.unlink(&|| leads(&self.place.name)),
        )
    }

    /// Moves the file. It is moved back if what is at the new place is not what was proven.
    fn relocate(&self, new: &NewPlace, directories: &Directories) -> Changed {
        let (place, watch) = (self.place, self.session.watch);
        let unmake = || {
            if unmake(new, directories).is_err() {
                seekless_sys::lock_mutex(&self.session.unmade).push(new.clone());
            }
        };
        let moved = watch.announce(StepKind::Make, &new.to).and_then(|()| {
            let there = destination(new, self.session, directories)?;
            describe(&place.path, new, self.session, directories)?;
            place.rename(&place.name, &there, &there.name, watch)?;
            Ok(there)
        });
        let there = moved.map_err(|error| {
            unmake();
            StepOutcome::from(cannot(format!("move it to {}", visible_path(&new.to)))(error))
        })?;
        let right = if self.session.options.without_leases {
            self.require_equal(&there)
        } else {
            self.held.require_at(&there, &there.name)
        };
        let Err(why) = right else { return Ok(()) };
        match there.rename(&there.name, place, &place.name, watch) {
            Ok(()) => unmake(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(not_put_back(why, new.to.clone(), &error)),
        }
        Err(why.into())
    }

    /// Fails unless the file that was moved, and the one that the kept path leads to now, have the bytes that were compared. Without
    /// leases, other programs may have written to both, and both paths may have led to one file.
    fn require_equal(&self, there: &DirEntryHandle) -> Result<(), RefusalReason> {
        let (entry, stop) = (self.entry, self.session.stop);
        let require = |place: &DirEntryHandle| {
            let file = place.regular_file();
            let is_equal = file.map_or(Ok(false), |(found, file)| entry.has_digest(&found, &file, stop));
            let is_equal = is_equal.map_err(cannot("compare"))?;
            is_equal.then_some(()).ok_or(RefusalReason::ChangedMeanwhile)
        };
        require(there)?;
        require(&self.kept.place).map_err(|why| self.of_kept(why))
    }

    /// Makes a file share the blocks of the kept one.
    fn reflink(&self) -> Result<(), RefusalReason> {
        let (held, session) = (self.held, self.session);
        let bytes = held.facts().bytes;
        let mut at = 0;
        while at < bytes {
            if session.stop.is_stopped() {
                return Err(RefusalReason::Stopped);
            }
            let length = SHARED_AT_ONCE_BYTES.min(bytes - at);
            let told = session.watch.announce(StepKind::Write, &self.place.path);
            let shared = told.and_then(|()| share_range(&self.kept.held.file, &held.file, at, length));
            match shared.map_err(cannot("share blocks"))? {
                Support::Available(Some(shared)) if shared > 0 => at += shared,
                Support::Available(Some(_)) => return Err(RefusalReason::CannotShare),
                Support::Available(None) => return Err(RefusalReason::ChangedMeanwhile),
                Support::Unavailable(reason) => return Err(RefusalReason::Told(reason.into())),
            }
        }
        let now = StatFacts::of(&held.file).map_err(cannot("stat"))?;
        if now.modified != held.facts().modified && held.is_alone() {
            let set = FileRef::Open(held.file.as_fd()).set_times(None, held.facts().modified);
            set.map_err(cannot("restore its time (its blocks are shared)"))?;
        }
        // All blocks are now those of the kept file. This is not checked: btrfs takes longer the more files share them.
        Ok(())
    }
}

fn not_put_back(why: RefusalReason, aside: PathBuf, error: &io::Error) -> StepOutcome {
    let unnamed = cannot("restore its name")(error);
    failed(RefusalReason::Several(vec![why, unnamed, RefusalReason::NowAt(aside)]))
}

fn saved_aside(why: RefusalReason, aside: PathBuf) -> StepOutcome {
    failed(RefusalReason::Several(vec![why, RefusalReason::SavedAt(aside)]))
}

/// What was made beside a name, under a temporary name, to replace what the name leads to.
pub(super) struct Replacement<'a> {
    pub place: &'a DirEntryHandle,
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
        let Err(why) = dir_handle::exchange(&exchange) else {
            return Ok(());
        };
        let aside = self.place.beside(self.temporary);
        let action = "exchange names with the link";
        Err(match why {
            NotExchanged::NotReady(why) | NotExchanged::GivenBack(why) => self.discard(why),
            NotExchanged::Unavailable(reason) => self.discard(cannot(action)(reason)),
            NotExchanged::Refused(error) => self.discard(cannot(action)(error)),
            NotExchanged::Removed(why) => why.into(),
            NotExchanged::Saved(why) => saved_aside(why, aside),
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
            return saved_aside(why, aside);
        }
        match self.place.remove(self.temporary, self.watch) {
            Ok(()) => why.into(),
            Err(error) => {
                let left = RefusalReason::Of(aside, cannot("remove it")(error).into());
                failed(RefusalReason::Several(vec![why, left]))
            }
        }
    }
}

/// Opens the place that a file or directory is moved to. Makes missing directories for this user only (mode 0700): a file that its
/// directories protected stays protected.
fn destination(new: &NewPlace, session: &Session<'_>, directories: &Directories) -> io::Result<DirEntryHandle> {
    let above: Vec<&Path> = new.to.ancestors().skip(1).take(new.made as usize).collect();
    for directory in above.into_iter().rev() {
        let place = directories.place(directory)?;
        match place.change(|directory| directory.create_directory(&place.name, 0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let there = directories.place(&new.to)?;
    // Another user may have made one of them meanwhile.
    session.require_private(&there).map_err(io::Error::other)?;
    Ok(there)
}

/// Removes the directories that were made for a file that is moved, if nothing is in them, and what a trash says of it.
pub(super) fn unmake(new: &NewPlace, directories: &Directories) -> io::Result<()> {
    directories.close();
    forget(new, directories)?;
    for directory in new.to.ancestors().skip(1).take(new.made as usize) {
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

/// Removes a directory that is empty.
fn remove_directory(proven: &ProvenStep, session: &Session<'_>) -> StepOutcome {
    let (place, entry) = (&proven.places[0], &proven.entry);
    match place.facts() {
        Ok(Some(found)) if found.id() == entry.step.file.state.id() => {}
        _ => return RefusalReason::Replaced.into(),
    }
    let told = session.watch.announce(StepKind::Remove, &place.path);
    let Err(error) = told.and_then(|()| place.change(|above| above.remove_directory(&place.name))) else {
        return StepOutcome::Done { gained_bytes: 0 };
    };
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => RefusalReason::NotEmpty.into(),
        _ => cannot("remove it")(error).into(),
    }
}

/// Writes where a file was, before it is moved to the trash.
fn describe(path: &Path, new: &NewPlace, session: &Session<'_>, directories: &Directories) -> io::Result<()> {
    let (Some(info), Action::Trash { home }) = (&new.info(), session.action) else {
        return Ok(());
    };
    let above = info.parent().unwrap_or(info);
    let place = directories.place(above)?;
    match place.change(|trash| trash.create_directory(&place.name, 0o700)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    session.watch.announce(StepKind::Make, info)?;
    let place = directories.place(info)?;
    let mut file = place.change(|directory| directory.create_file(&place.name, 0o600))?;
    let date = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let trash = above.parent().unwrap_or(above);
    let text = format!("[Trash Info]\nPath={}\nDeletionDate={date}\n", shown(path, trash, home));
    file.write_all(text.as_bytes())
}

/// A path as it is said in a trash: from the topmost directory of the file system, unless the trash is the user's.
fn shown(path: &Path, trash: &Path, home: &Path) -> String {
    let levels = if trash.parent().is_some_and(|above| above.ends_with(".Trash")) {
        2
    } else {
        1
    };
    let top = trash.ancestors().nth(levels).filter(|_| trash != home);
    let path = top.and_then(|top| path.strip_prefix(top).ok()).unwrap_or(path);
    let mut shown = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => shown.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => shown.push(char::from(*byte)),
            byte => drop(write!(shown, "%{byte:02X}")),
        }
    }
    shown
}

/// Removes what was written of a file that is not in the trash.
fn forget(new: &NewPlace, directories: &Directories) -> io::Result<()> {
    let Some(info) = &new.info() else { return Ok(()) };
    let above = info.parent().unwrap_or(info);
    let gone = directories
        .place(info)
        .and_then(|place| place.change(|directory| directory.remove_file(&place.name)));
    if new.made > 1 {
        directories.close();
        // It was made with the trash, and may have other files.
        let _ = directories
            .place(above)
            .and_then(|place| place.change(|trash| trash.remove_directory(&place.name)));
    }
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_said_from_the_top_of_its_file_system_with_all_but_plain_characters_escaped() {
        let home = Path::new("/home/eva/.local/share/Trash");
        for (path, trash, expected) in [
            (
                "/home/eva/a b%\n",
                "/home/eva/.local/share/Trash",
                "/home/eva/a%20b%25%0A",
            ),
            ("/mnt/d/\u{e9}~1", "/mnt/.Trash-7", "d/%C3%A9~1"),
            ("/mnt/d/x", "/mnt/.Trash/7", "d/x"),
            ("/d/x", "/.Trash-7", "d/x"),
        ] {
            assert_eq!(shown(Path::new(path), Path::new(trash), home), expected);
        }
    }
}
