//! New trees are staged: each is made under another name beside its place, where nobody but this user may enter, and gets its name
//! when it is complete. So its files can have their names from the beginning, which takes less time than naming each when it is
//! whole. The next copy takes up what a killed one left: it removes the files that are not whole, and gives the tree its name.
//!
//! A marker in a staged tree says that a copy made it. It goes when the tree has its name.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use seekless::files::{Attributes, FileRef, Own};
use seekless::walk::{Directory, StatFacts, Walk, WalkRules};
use seekless_sys::{self as sys, Support};

use super::CpDurability;
use super::copying::{Copying, Worker};
use super::file::Failed;
use super::journal::{CopyJournal, is_private};
use super::pair::{Pair, copy_path};
use super::queue::lock;
use crate::handle::path_of;

/// A tree that has not got its name.
pub(super) struct Staged {
    /// The directory that gets it.
    container: Arc<OwnedFd>,
    /// What it is called until it is complete.
    hidden: CString,
    marker: CString,
    /// What it will be called.
    name: CString,
}

/// How a directory is opened.
pub(super) const OPENED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Staged {
    fn of(container: &Arc<OwnedFd>, name: &CStr, journal: &CopyJournal) -> Self {
        Self {
            container: Arc::clone(container),
            hidden: journal.staged_name(name),
            marker: journal.marker_name(),
            name: name.to_owned(),
        }
    }

    /// Makes a tree that will get a name. Returns also the open directory; `None` where that cannot be done.
    ///
    /// `is_synced` says that what is put into it is synced: then its marker must not be lost before.
    pub fn make(
        container: &Arc<OwnedFd>,
        name: &CStr,
        journal: &CopyJournal,
        is_synced: bool,
    ) -> io::Result<Option<(Self, OwnedFd)>> {
        let staged = Self::of(container, name, journal);
        match mkdirat(container, &staged.hidden, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(None),
            made => made?,
        }
        let marked = openat(container, &staged.hidden, OPENED, Mode::empty()).and_then(|directory| {
            if !sys::is_just_made(directory.as_fd(), container.as_fd()).unwrap_or(false) {
                return Ok(None);
            }
            let found = StatFacts::of(&directory)?;
            let is_fit = is_private(&found);
            if is_fit {
                // All in it would inherit its access control lists.
                let plain = Attributes::new(&found, Some(Vec::new()));
                let _ = plain.give_possible(FileRef::Open(directory.as_fd()), &Own::of(&found));
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            if is_fit {
                let marker = openat(&directory, &staged.marker, flags, Mode::RUSR | Mode::WUSR)?;
                if is_synced {
                    rustix::fs::fsync(marker)?;
                }
            }
            Ok(is_fit.then_some(directory))
        });
        if !matches!(marked, Ok(Some(_))) {
            let _ = openat(container, &staged.hidden, OPENED, Mode::empty())
                .and_then(|directory| unlinkat(directory, &staged.marker, AtFlags::empty()));
            let _ = unlinkat(container, &staged.hidden, AtFlags::REMOVEDIR);
        }
        Ok(marked?.map(|directory| (staged, directory)))
    }

    /// Gives a tree that a killed copy left its name, without the files that are not whole. Does nothing if there is none.
    pub fn take_up(
        container: &Arc<OwnedFd>,
        name: &CStr,
        journal: &CopyJournal,
        has_times: bool,
    ) -> Result<(), Failed> {
        let left = Self::of(container, name, journal);
        let Ok(directory) = openat(container, &left.hidden, OPENED, Mode::empty()) else {
            return Ok(());
        };
        let directory = File::from(directory);
        let is_private_file = |found: &StatFacts| found.is_file() && is_private(found);
        let marker = StatFacts::at(&directory, &left.marker).ok().filter(is_private_file);
        let is_own = StatFacts::of(&directory).is_ok_and(|found| is_private(&found));
        if is_own && marker.is_some() && journal.is_made {
            let reason = "the journal of the copy that made it is gone; remove this, too, to start over";
            return Err(("resume from it", io::Error::other(reason)));
        }
        let Some(marker) = marker.filter(|_| is_own) else {
            // It was made just before the kill, or is somebody's: one that is not empty stays.
            return match unlinkat(container, &left.hidden, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(()),
                Err(_) => Err((
                    "resume from it",
                    io::Error::other("nothing shows that a copy made it; remove it"),
                )),
            };
        };
        let is_whole = |found: &StatFacts, name: &[u8]| {
            journal.is_whole(found) && has_times || journal.has_piece(found, name) || found.id() == marker.id()
        };
        remove_partial(&directory, &is_whole).map_err(|error| ("remove its incomplete files", error))?;
        left.give_name(directory.as_fd())
            .map_err(|error| ("give this interrupted copy its name (remove it to start over)", error))
    }

    fn give_name(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        if StatFacts::at(&self.container, &self.hidden)?.id() != StatFacts::of(directory)?.id() {
            return Err(io::Error::other("another process replaced it"));
        }
        rename_to_free(self.container.as_fd(), &self.hidden, &self.name)?;
        Ok(unlinkat(directory, &self.marker, AtFlags::empty())?)
    }
}

/// Whether nothing in a directory can be renamed.
pub(super) fn is_append_only(directory: &impl AsRawFd) -> bool {
    let path = path_of(directory);
    path.is_some_and(|path| matches!(sys::protection(&path), Ok(Support::Available(Some(_)))))
}

/// Removes what is not whole in directories of the same mount.
struct PartialRules<'a> {
    mount: Option<u64>,
    device: u64,
    is_whole: &'a dyn Fn(&StatFacts, &[u8]) -> bool,
}

impl PartialRules<'_> {
    fn remove(&self, directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        if !(self.is_whole)(&StatFacts::at(directory, name)?, name) {
            unlinkat(directory, name, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl WalkRules for PartialRules<'_> {
    fn enters(&mut self, _directory: &Directory<1>, at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        facts.device == self.device && sys::unique_mount_id(at) == self.mount
    }

    fn pass(&mut self, directory: &Directory<1>, name: &CStr, _kind: FileType) {
        if let Ok(handles) = directory.handles() {
            // One that stays is made again, unless files that are as old stay.
            let _ = self.remove(handles.borrowed()[0], name.to_bytes());
        }
    }
}

/// Removes the entries of a tree that are not known to be whole.
fn remove_partial(directory: &File, is_whole: &dyn Fn(&StatFacts, &[u8]) -> bool) -> io::Result<()> {
    let rules = PartialRules {
        mount: sys::unique_mount_id(directory),
        device: StatFacts::of(directory)?.device,
        is_whole,
    };
    let mut walk = Walk::of(directory.try_clone()?.into(), Path::new(""), rules);
    while let Some(found) = walk.next() {
        let file = found.map_err(|(_, reason)| io::Error::other(reason))?;
        let removed = file.with_place(|directory, name, _| {
            let removed = walk.rules.remove(directory, name);
            removed.map_err(|error| ("remove", error))
        });
        removed.map_err(|(_, error)| error)?;
    }
    Ok(())
}

/// Gives a file or directory another name that nothing has: `EEXIST` if something has it.
pub(super) fn rename_to_free(directory: BorrowedFd<'_>, old: &CStr, new: &CStr) -> io::Result<()> {
    match renameat_with(directory, old, directory, new, RenameFlags::NOREPLACE) {
        // Not all file systems can refuse; of this process, only one thread at a time gives a name then.
        Err(Errno::INVAL | Errno::NOSYS) => {
            static NAMING: Mutex<()> = Mutex::new(());
            let _naming = lock(&NAMING);
            match StatFacts::at(directory, new) {
                Err(Errno::NOENT) => Ok(renameat(directory, old, directory, new)?),
                _ => Err(Errno::EXIST.into()),
            }
        }
        renamed => Ok(renamed?),
    }
}

impl Copying<'_> {
    /// Gives the copy of a named directory its name, if it was staged. Returns false if that cannot be done.
    pub fn name_staged(&self, root: &Arc<Pair>, worker: &mut Worker) -> bool {
        let Some(staged) = lock(&root.own.staged).take() else {
            return true;
        };
        let name = || {
            if self.has_partial.load(Ordering::Relaxed) {
                return Err(io::Error::other("a file that is not whole could not be removed"));
            }
            let handles = root.handles().map_err(|(_, error)| error)?;
            let directory = handles.borrowed()[1];
            if self.options.durability != CpDurability::Each {
                return staged.give_name(directory);
            }
            sys::sync(&File::from(directory.try_clone_to_owned()?))?;
            staged.give_name(directory)?;
            sys::sync(&File::from(openat(&staged.container, ".", OPENED, Mode::empty())?))
        };
        let named = name();
        if let Err(error) = &named {
            let hidden = Path::new(OsStr::from_bytes(staged.hidden.to_bytes()));
            let reason = io::Error::other(format!("{error}; what was copied is in {}", hidden.display()));
            self.fail(worker, copy_path(root), "give the copy its name", &reason);
            self.is_left.store(true, Ordering::Relaxed);
        }
        named.is_ok()
    }
}
