//! The names that a copy gives in directories of the target that were there before. A file system that ignores case finds `A`
//! by the name `a`, too. The names that a directory reports tell which entry was found, on every file system: inode numbers
//! change on some, and several names of one file share theirs.
//!
//! A new directory needs none of this: names in it are given only where they are free.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, Mode, openat, unlinkat};
use seekless::walk::{Listing, ListingEntry, StatFacts, is_sure};

use super::file::Failed;
use super::journal::CopyJournal;
use super::queue::lock;
use super::staged::OPENED;

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
        let mut state = lock(&self.state);
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
                let _ = unlinkat(copy, name, AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Whether the directory finds names in other case.
    pub fn ignore_case(&self) -> bool {
        lock(&self.state).ignores_case
    }

    /// Claims a name for a source; `found` is what the target has by that name. Fails if another source has it, or if the target
    /// reports it by a name that is another one in the same directory of the source.
    pub fn claim(
        &self,
        [source, copy]: [BorrowedFd<'_>; 2],
        to: &CStr,
        claim: &Claim,
        found: Option<&StatFacts>,
    ) -> Result<(), Failed> {
        if !self.is_shared && found.is_none() {
            return Ok(());
        }
        let taken = || Err(("create the copy", collision()));
        let names_in = |directory| names_in(directory).map_err(|error| ("list the directory", error));
        let mut state = lock(&self.state);
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
