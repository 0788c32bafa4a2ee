//! The names that a copy gives in directories of the target that were there before. A file system that ignores case finds `A`
//! by the name `a`, too. The names that a directory reports tell which entry was found, on every file system: inode numbers
//! change on some, and several names of one file share theirs.
//!
//! A new directory needs none of this: names in it are given only where they are free.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use seekless_engine::files::{Attributes, FileRef, IoFailure, Own};
use seekless_engine::walk::{Listing, ListingEntry, StatFacts, Walk, WalkDirectory, WalkRules, is_sure};
use seekless_sys as sys;
use seekless_sys::lock_mutex;

use super::journal::{CopyJournal, is_private};

/// The names in a directory of the target.
#[derive(Default)]
pub(super) struct TargetNames {
    /// Whether several named sources give names here.
    is_shared: bool,
    state: Mutex<NamesState>,
}

#[derive(Default)]
struct NamesState {
    /// What the directory reported before the copy gave names in it, sorted.
    before: Option<Listing>,
    /// Whether a name is found in other case.
    ignores_case: bool,
    /// The sources that have reported names.
    claims: HashMap<Vec<u8>, Claim>,
}

/// A source, by the address of its root's path and by its name.
pub(super) type Claim = (usize, CString);

impl TargetNames {
    /// Returns the names in a directory that several named sources get into.
    pub fn shared() -> Arc<Self> {
        Arc::new(Self {
            is_shared: true,
            ..Self::default()
        })
    }

    /// Lists a directory before the copy gives names in it, and removes what a killed process left there: only the journal of the
    /// same copy tells its names.
    pub fn list(&self, [source, copy]: [BorrowedFd<'_>; 2], journal: Option<&CopyJournal>) -> io::Result<()> {
        let mut state = lock_mutex(&self.state);
        if state.before.is_some() {
            return Ok(());
        }
        let names = names_in(copy)?;
        state.ignores_case = ignores_case(copy, &names);
        let before = state.before.insert(names);
        let Some(journal) = journal.filter(|journal| !journal.is_made) else {
            return Ok(());
        };
        let names = before.entries().iter().map(|entry| before.c_str(entry));
        // A tree that got its name may still have its marker.
        let marker = journal.marker_name();
        for name in names.filter(|name| **name == *marker || journal.is_temporary(name.to_bytes())) {
            if !StatFacts::at(copy, name).is_ok_and(|found| journal.goes_on_with(&found, source)) {
                remove_temporary(copy, name);
            }
        }
        Ok(())
    }

    /// Whether the directory finds names in other case.
    pub fn ignore_case(&self) -> bool {
        lock_mutex(&self.state).ignores_case
    }

    /// Claims a name for a source; `found` is what the target has by that name. Fails if another source has it, or if the target
    /// reports it by a name that is another one in the same directory of the source.
    pub fn claim(
        &self,
        [source, copy]: [BorrowedFd<'_>; 2],
        to: &CStr,
        claim: &Claim,
        found: Option<&StatFacts>,
    ) -> Result<(), IoFailure> {
        if !self.is_shared && found.is_none() {
            return Ok(());
        }
        let taken = || Err(("create the copy", collision()));
        let names_in = |directory| names_in(directory).map_err(|error| ("list the directory", error));
        let mut state = lock_mutex(&self.state);
        let NamesState {
            before,
            ignores_case,
            claims,
        } = &mut *state;
        let to = to.to_bytes();
        let mut reported = to;
        // Before the first source gives its name.
        if self.is_shared && before.is_none() {
            *before = Some(names_in(copy)?);
        }
        if let Some(found) = found {
            reported = match before.as_ref().map(|before| (before, reported_as(before, to, found))) {
                None => to,
                Some((before, Some(entry))) => before.name(entry),
                // Another source gave it since.
                Some((_, None)) => return taken(),
            };
        }
        if !self.is_shared && reported == to && !*ignores_case {
            return Ok(());
        }
        // A file system that reports all names in lower case does not tell whose it is: the first source has it.
        let tells = reported.iter().any(u8::is_ascii_uppercase);
        if !self.is_shared && reported != to && tells && position(&names_in(source)?, reported).is_some() {
            return taken();
        }
        let known = claims.entry(reported.to_owned()).or_insert_with(|| claim.clone());
        if known == claim { Ok(()) } else { taken() }
    }
}

/// The error if a name of the target is that of another source's copy.
pub(super) fn collision() -> io::Error {
    io::Error::other("the name is taken: the target treats two source names as the same, or another process created it")
}

/// All names in a directory, sorted.
fn names_in(directory: BorrowedFd<'_>) -> io::Result<Listing> {
    let opened = openat(directory, ".", OPENED, Mode::empty())?;
    Listing::sorted(opened.as_fd(), b"", usize::MAX / 2)
}

/// Whether a directory finds one of its names in other case. Where no name has a letter, a file system without reliable inode numbers
/// may be one of those that do.
fn ignores_case(directory: BorrowedFd<'_>, names: &Listing) -> bool {
    let mut entries = names.entries().iter().map(|entry| names.name(entry));
    let other = entries.find_map(|name| {
        let text = str::from_utf8(name).ok()?;
        let other = if text.contains(char::is_lowercase) {
            text.to_uppercase()
        } else {
            text.to_lowercase()
        };
        (other != text && position(names, other.as_bytes()).is_none()).then_some(other)
    });
    other.map_or_else(
        || !is_sure(directory),
        |other| StatFacts::at(directory, other.as_str()).is_ok(),
    )
}

fn position(names: &Listing, name: &[u8]) -> Option<usize> {
    let found = names.entries().binary_search_by(|entry| names.name(entry).cmp(name));
    found.ok()
}

/// Which entry was found by a name: the one that has it, else one that has it in other case, or the same inode.
fn reported_as<'a>(names: &'a Listing, name: &[u8], found: &StatFacts) -> Option<&'a ListingEntry> {
    if let Some(exact) = position(names, name) {
        return names.entries().get(exact);
    }
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    let wanted = lower(name);
    let mut entries = names.entries().iter();
    let alike = entries.clone().find(|entry| lower(names.name(entry)) == wanted);
    alike.or_else(|| entries.find(|entry| entry.inode == found.inode))
}

/// A tree that has not got its name.
pub(super) struct Staged {
    /// The directory that gets it.
    pub container: Arc<OwnedFd>,
    /// What it is called until it is complete.
    pub hidden: CString,
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
    /// `is_synced` says that what is put into it is synced: then its marker and the journal must not be lost before.
    pub fn make(
        container: &Arc<OwnedFd>,
        name: &CStr,
        journal: &CopyJournal,
        is_synced: bool,
    ) -> io::Result<Option<(Self, OwnedFd)>> {
        let staged = Self::of(container, name, journal);
        if is_synced {
            journal.sync(container.as_fd())?;
        }
        match mkdirat(container, &staged.hidden, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(None),
            made => made?,
        }
        let marked = openat(container, &staged.hidden, OPENED, Mode::empty()).and_then(|directory| {
            if !sys::is_just_made(directory.as_fd(), container.as_fd(), 0o700).unwrap_or(false) {
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
    ) -> Result<(), IoFailure> {
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

    pub fn give_name(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        if StatFacts::at(&self.container, &self.hidden)?.id() != StatFacts::of(directory)?.id() {
            return Err(io::Error::other("another process replaced it"));
        }
        rename_to_free([self.container.as_fd(); 2], &self.hidden, &self.name)?;
        Ok(unlinkat(directory, &self.marker, AtFlags::empty())?)
    }
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
    fn enters(&mut self, _directory: &WalkDirectory<1>, at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        facts.device == self.device && sys::unique_mount_id(at) == self.mount
    }

    fn pass(&mut self, directory: &WalkDirectory<1>, name: &CStr, _kind: FileType) {
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

/// Removes what has a temporary name: a file, or a directory with at most an entry of the same name, which no other directory has that
/// somebody moved there.
pub(super) fn remove_temporary(directory: BorrowedFd<'_>, name: &CStr) {
    if unlinkat(directory, name, AtFlags::empty()) == Err(Errno::ISDIR) {
        let _ = openat(directory, name, OPENED, Mode::empty())
            .and_then(|private| unlinkat(private, name, AtFlags::empty()));
        let _ = unlinkat(directory, name, AtFlags::REMOVEDIR);
    }
}

/// Gives a file or directory another name that nothing has: `EEXIST` if something has it.
pub(super) fn rename_to_free([from, to]: [BorrowedFd<'_>; 2], old: &CStr, new: &CStr) -> io::Result<()> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not all file systems can refuse; of this process, only one thread at a time gives a name then.
        Err(Errno::INVAL | Errno::NOSYS) => {
            static NAMING: Mutex<()> = Mutex::new(());
            let _naming = lock_mutex(&NAMING);
            match StatFacts::at(to, new) {
                Err(Errno::NOENT) => Ok(renameat(from, old, to, new)?),
                _ => Err(Errno::EXIST.into()),
            }
        }
        renamed => Ok(renamed?),
    }
}
