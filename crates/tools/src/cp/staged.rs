//! New trees are staged: each is made under another name beside its place, where nobody but this user may enter, and gets its name
//! when it is complete. So its files can have their names from the beginning, which takes less time than naming each when it is
//! whole. One that a killed process left is found again by its name.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use seekless::walk::{Listing, StatFacts};
use seekless_sys as sys;

use super::CpDurability;
use super::journal::{Journal, is_private};
use super::queue::{Pair, Shared, Worker, copy_path, lock};
use crate::handle::path_of;

/// A tree that has not got its name.
pub(super) struct Staged {
    /// The directory that gets it.
    container: OwnedFd,
    /// What it is called until it is complete.
    hidden: CString,
    /// What it will be called.
    name: CString,
}

/// How a directory is opened.
const OPENED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Staged {
    /// Makes a tree that will get a name, or finds the one that a killed process left. Returns also the open directory, and whether it
    /// is new; `None` if something else has its place.
    pub fn make(container: &OwnedFd, staged: CString, name: &CStr) -> io::Result<Option<(Self, OwnedFd, bool)>> {
        let is_new = match mkdirat(container, &staged, Mode::RWXU) {
            Ok(()) => {
                // All in it would inherit its access control lists.
                let _ = sys::replace_extended_attributes_at(container.as_fd(), &staged, &Vec::new());
                true
            }
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let Some(directory) = Self::left(container, &staged).filter(|found| is_new || found.1) else {
            return Ok(None);
        };
        let staged = Self {
            container: container.try_clone()?,
            hidden: staged,
            name: name.to_owned(),
        };
        Ok(Some((staged, directory.0, is_new)))
    }

    /// The directory of such a name, and whether it is of this user alone.
    fn left(container: &OwnedFd, staged: &CStr) -> Option<(OwnedFd, bool)> {
        let directory = openat(container, staged, OPENED, Mode::empty()).ok()?;
        let found = StatFacts::of(&directory).ok()?;
        Some((directory, is_private(&found)))
    }

    /// Whether a killed process left one.
    pub fn is_left(container: &OwnedFd, staged: &CStr) -> bool {
        Self::left(container, staged).is_some_and(|(_, is_own)| is_own)
    }

    /// Gives it its name.
    fn name(&self) -> io::Result<()> {
        rename_to_free(self.container.as_fd(), &self.hidden, &self.name)
    }
}

/// Gives a file or directory another name that nothing has: `EEXIST` if something has it.
pub(super) fn rename_to_free(directory: BorrowedFd<'_>, old: &CStr, new: &CStr) -> io::Result<()> {
    match renameat_with(directory, old, directory, new, RenameFlags::NOREPLACE) {
        // Not all file systems can refuse; nobody else should give this name here.
        Err(Errno::INVAL | Errno::NOSYS) => match StatFacts::at(directory, new) {
            Err(Errno::NOENT) => Ok(renameat(directory, old, directory, new)?),
            _ => Err(Errno::EXIST.into()),
        },
        renamed => Ok(renamed?),
    }
}

/// Removes from a directory of a staged tree what its source does not have any more: it may be an unfinished file.
pub(super) fn remove_vanished(source: BorrowedFd<'_>, copy: BorrowedFd<'_>, journal: &Journal) -> io::Result<()> {
    let mut listing = Listing::default();
    let listed = File::from(openat(copy, ".", OPENED, Mode::empty())?);
    let has_vanished = |name: &[u8]| {
        let name = CString::new(name).unwrap_or_default();
        StatFacts::at(source, &name).is_err_and(|error| error == Errno::NOENT)
    };
    while listing.add_some(listed.as_fd(), has_vanished)?.is_some() {}
    for entry in listing.entries() {
        let name = listing.c_str(entry);
        if StatFacts::at(copy, name).is_ok_and(|found| journal.goes_on_with(&found, source)) {
            continue;
        }
        match unlinkat(copy, name, AtFlags::empty()) {
            // What the system says of directories.
            Err(Errno::ISDIR | Errno::PERM) => {
                let path = path_of(&listed).ok_or(Errno::ISDIR)?;
                fs::remove_dir_all(path.join(OsStr::from_bytes(listing.name(entry))))?;
            }
            removed => removed?,
        }
    }
    Ok(())
}

impl Shared<'_> {
    /// Gives the copy of a named directory its name, if it was staged.
    pub fn name_staged(&self, root: &Arc<Pair>, worker: &mut Worker) {
        let Some(staged) = lock(&root.own.staged).take() else {
            return;
        };
        let named = staged.name().and_then(|()| {
            if self.options.durability != CpDurability::Each {
                return Ok(());
            }
            sys::sync(&File::from(openat(&staged.container, ".", OPENED, Mode::empty())?))
        });
        if let Err(error) = named {
            let hidden = copy_path(root).with_file_name(OsStr::from_bytes(staged.hidden.to_bytes()));
            let reason = format!("{error}; the copy is complete but for its name");
            self.fail(worker, hidden, "rename it to its place", &io::Error::other(reason));
        }
    }
}
