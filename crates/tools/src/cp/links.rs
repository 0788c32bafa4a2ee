//! Files with several names: their copies have several names, too.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FileType, linkat};
use seekless::files::FileId;
use seekless::walk::{StatFacts, is_sure};

use super::Existing;
use super::copying::{Copying, Worker};
use super::pair::{At, Pair};
use super::queue::lock;

/// A name in the target.
#[derive(Clone)]
pub(super) struct Name {
    pub directory: Arc<Pair>,
    pub to: CString,
    /// What its source is called.
    pub from: CString,
    /// Whether the file, which stays, is only alike its source: before it gets another name, their bytes are compared.
    is_unproven: bool,
}

impl Name {
    pub fn of(at: &At<'_>) -> Self {
        Self {
            directory: Arc::clone(at.directory),
            to: at.to.to_owned(),
            from: at.from.to_owned(),
            is_unproven: false,
        }
    }

    /// The name in its open directories.
    fn at<'a>(&'a self, handles: [BorrowedFd<'a>; 2]) -> At<'a> {
        At {
            to: &self.to,
            ..At::of(&self.directory, handles, &self.from)
        }
    }
}

/// The copies of files with several names, by their sources.
#[derive(Default)]
pub(super) struct Links {
    copies: Mutex<HashMap<FileId, Link>>,
    /// The sources of files of the target with several names that are their copies already.
    claims: Mutex<HashMap<FileId, FileId>>,
    /// The checksums of copies that may get further names.
    pub checksums: Mutex<HashMap<FileId, String>>,
    /// Whether files may be met more often than they have names, because sources overlap or links are followed.
    pub are_met_again: AtomicBool,
}

struct Link {
    /// The names of the source that were not met yet.
    left: u64,
    /// Whether none was met before.
    is_first: bool,
    state: LinkState,
    /// The names of a new copy. They become names of a copy that stays, if one is met later.
    given: Vec<Name>,
    /// A copy that stays, met while a new one is made.
    kept: Option<(Name, FileId)>,
}

enum LinkState {
    /// A thread copies it. These names wait for it.
    Copying(Vec<Name>),
    /// The first name of the copy, and which file it is.
    Copied(Name, FileId),
}

/// What is to be done with a name of a file that has several.
pub(super) enum LinkTurn {
    /// Copy the file.
    Copy,
    /// Link it to this copy.
    Link(Name, FileId),
    /// The thread that copies the file links it.
    Wait,
}

impl Links {
    /// Whose turn it is at a name of a file with `names` of them.
    pub fn turn(&self, file: FileId, names: u64, at: &At<'_>) -> LinkTurn {
        let mut links = lock(&self.copies);
        let link = links.entry(file).or_insert(Link {
            left: names,
            is_first: true,
            state: LinkState::Copied(Name::of(at), file),
            given: Vec::new(),
            kept: None,
        });
        let is_first = std::mem::take(&mut link.is_first);
        link.left = link.left.saturating_sub(1);
        match &mut link.state {
            state if is_first => {
                *state = LinkState::Copying(Vec::new());
                LinkTurn::Copy
            }
            LinkState::Copying(waiting) => {
                waiting.push(Name::of(at));
                LinkTurn::Wait
            }
            LinkState::Copied(first, copy) => {
                let turn = LinkTurn::Link(first.clone(), *copy);
                if !link.given.is_empty() {
                    link.given.push(Name::of(at));
                }
                if link.left == 0 && !self.are_met_again.load(Ordering::Relaxed) {
                    links.remove(&file);
                }
                turn
            }
        }
    }

    /// Whether a name of a file was met before.
    pub fn is_met(&self, file: FileId) -> bool {
        lock(&self.copies).contains_key(&file)
    }

    /// Whether a file of the target is the copy of this source, and not also that of another one, which needs a file of its own.
    pub fn claim(&self, copy: &StatFacts, source: FileId) -> bool {
        copy.names < 2 || *lock(&self.claims).entry(copy.id()).or_insert(source) == source
    }

    /// Notes a name whose copy stays. Returns the names of a new copy, which become names of this one; fails with the first name of
    /// another copy that stays, too.
    fn keep(&self, file: FileId, names: u64, copy: FileId, name: &Name) -> Result<Vec<Name>, (Name, FileId)> {
        let mut links = lock(&self.copies);
        let link = links.entry(file).or_insert_with(|| Link {
            left: names,
            is_first: false,
            state: LinkState::Copied(name.clone(), copy),
            given: Vec::new(),
            kept: None,
        });
        link.left = link.left.saturating_sub(1);
        let new = (name.clone(), copy);
        match &mut link.state {
            LinkState::Copied(_, known) if *known == copy => return Ok(Vec::new()),
            LinkState::Copied(first, known) if link.given.is_empty() => return Err((first.clone(), *known)),
            LinkState::Copied(first, known) => (*first, *known) = new,
            LinkState::Copying(_) => match &link.kept {
                Some(kept) if kept.1 != copy => return Err(kept.clone()),
                _ => link.kept = Some(new),
            },
        }
        Ok(std::mem::take(&mut link.given))
    }

    /// The copy of a file, by its first name.
    fn copy_of(&self, file: FileId) -> Option<(Name, FileId)> {
        match &lock(&self.copies).get(&file)?.state {
            LinkState::Copied(first, copy) => Some((first.clone(), *copy)),
            LinkState::Copying(_) => None,
        }
    }

    /// A file was copied to a name, or could not be. Returns the names that wait, and what they are to be linked to: a copy that stays,
    /// if one was met meanwhile. `may_stay` says that one may still be met.
    pub fn copied(
        &self,
        file: FileId,
        copy: Option<FileId>,
        may_stay: bool,
        at: &At<'_>,
    ) -> (Vec<Name>, Option<(Name, FileId)>) {
        let mut links = lock(&self.copies);
        let new = copy.map(|copy| (Name::of(at), copy));
        let Some(link) = links.get_mut(&file) else {
            return (Vec::new(), new);
        };
        let waiting = match &mut link.state {
            LinkState::Copying(waiting) => std::mem::take(waiting),
            LinkState::Copied(..) => Vec::new(),
        };
        let kept = link.kept.take();
        if may_stay && kept.is_none() && new.is_some() {
            link.given.clone_from(&waiting);
            link.given.push(Name::of(at));
        }
        let first = kept.or(new);
        match first.clone() {
            Some((first, copy)) if link.left > 0 || self.are_met_again.load(Ordering::Relaxed) => {
                link.state = LinkState::Copied(first, copy);
            }
            // The next name is copied itself.
            _ => drop(links.remove(&file)),
        }
        (waiting, first)
    }
}

impl Copying<'_> {
    /// Links a name of a file with several to its copy, if there is one; `existing` is what has the name. Returns whether the name is
    /// done, or false if another thread links it; `None` if it must be copied.
    pub fn link_or_wait(
        &self,
        at: &At<'_>,
        file: FileId,
        names: u64,
        existing: Option<&StatFacts>,
        worker: &mut Worker,
    ) -> Option<bool> {
        match self.links.turn(file, names, at) {
            LinkTurn::Copy => None,
            LinkTurn::Wait => Some(false),
            LinkTurn::Link(mut first, mut copy) => loop {
                if existing.is_some_and(|found| found.id() == copy) {
                    self.tell_linked(at, copy);
                    return Some(true);
                }
                if self.link(&first, copy, at, false, worker) {
                    return Some(true);
                }
                // A copy that stays may have been met meanwhile.
                let Some(now) = self.links.copy_of(file).filter(|(_, now)| *now != copy) else {
                    *worker.done.not_preserved.entry("hard links").or_default() += 1;
                    return None;
                };
                (first, copy) = now;
            },
        }
    }

    /// Notes a name whose copy stays, so that all names of its file become names of that copy. `is_known` says that the copy needs no
    /// proof.
    pub fn keep_name(
        &self,
        at: &At<'_>,
        file: FileId,
        names: u64,
        (copy, is_known): (&StatFacts, bool),
        worker: &mut Worker,
    ) {
        if !self.may_have_more_names(names) || !is_sure(at.handles[0]) {
            return;
        }
        let mut name = Name::of(at);
        name.is_unproven = !is_known;
        match self.links.keep(file, names, copy.id(), &name) {
            Ok(given) => {
                for given in &given {
                    self.link_again(given, &name, copy.id(), worker);
                }
            }
            // A kill came between two names.
            Err((first, copy)) if self.may_be_joined(&first, at, worker) => {
                self.link_again(&name, &first, copy, worker);
            }
            Err(_) => self.count_apart(at, worker),
        }
    }

    /// Whether a name that stays may become one of another file that stays: nothing is lost then.
    fn may_be_joined(&self, first: &Name, at: &At<'_>, worker: &mut Worker) -> bool {
        self.options.existing == Existing::ReplacedIfOlder
            && first.directory.handles().is_ok_and(|handles| {
                let first = (handles.borrowed()[1], first.to.as_c_str());
                self.are_equal([first, (at.handles[1], at.to)], worker)
            })
    }

    /// Makes a name of a copy one of a copy that stays.
    fn link_again(&self, name: &Name, first: &Name, copy: FileId, worker: &mut Worker) {
        let Ok(handles) = name.directory.handles() else {
            return;
        };
        let at = name.at(handles.borrowed());
        if !self.link(first, copy, &at, true, worker) {
            self.count_apart(&at, worker);
        }
        // It may have had its times already.
        if name.directory.own.unfinished.load(Ordering::Acquire) == 0 {
            self.complete(&name.directory, worker);
        }
    }

    /// Tells the checksum of a copy that has one more name.
    fn tell_linked(&self, at: &At<'_>, copy: FileId) {
        if let Some(checksum) = lock(&self.links.checksums).get(&copy) {
            self.watch.checksum(checksum, &at.copy_path());
        }
    }

    fn count_apart(&self, at: &At<'_>, worker: &mut Worker) {
        let reason = io::Error::other("another name of the same source has a copy of its own in the target");
        self.count_not_given(vec![("hard links", reason)], || at.copy_path(), worker);
    }

    /// Links the names that waited for a copy, or copies each if there is no copy.
    pub fn link_waiting(&self, at: &At<'_>, file: FileId, copy: Option<FileId>, kind: FileType, worker: &mut Worker) {
        let may_stay = self.options.existing != Existing::Replaced;
        let (waiting, first) = self.links.copied(file, copy, may_stay, at);
        if let Some((first, kept)) = first
            .as_ref()
            .filter(|(_, first)| Some(*first) != copy && copy.is_some())
        {
            self.link_again(&Name::of(at), first, *kept, worker);
        }
        for name in waiting {
            if let Ok(handles) = name.directory.handles() {
                let waited = name.at(handles.borrowed());
                let is_linked = first
                    .as_ref()
                    .is_some_and(|(first, copy)| self.link(first, *copy, &waited, false, worker));
                if !is_linked && !self.copy_entry(&waited, Some(kind), worker) {
                    continue;
                }
            }
            self.finish(&name.directory, 1, worker);
        }
    }

    /// Gives a copy another name. Returns false if it must be copied again, because the file system has no links for it. `is_given` says
    /// that this run gave the name to another copy.
    fn link(&self, first: &Name, copy: FileId, at: &At<'_>, is_given: bool, worker: &mut Worker) -> bool {
        let Ok(handles) = first.directory.handles() else {
            return false;
        };
        let there = handles.borrowed()[1];
        let is_copy = |worker: &mut Worker| {
            let names = [(there, first.to.as_c_str()), (at.handles[0], at.from)];
            !first.is_unproven || self.have_equal_content(names, FileType::RegularFile, worker)
        };
        // Another process may have given the name to another file.
        if StatFacts::at(there, &first.to).is_ok_and(|found| found.id() == copy) && is_copy(worker) {
            let make = |name: &std::ffi::CStr| -> io::Result<()> {
                Ok(linkat(there, &first.to, at.handles[1], name, AtFlags::empty())?)
            };
            let journal = self.journal.as_ref();
            let placed = if is_given {
                at.replace(&make, journal)
            } else {
                at.place(&make, journal)
            };
            // It fails where a file system has no links, or no more for this file.
            if placed.is_ok() {
                worker.done.hard_links += 1;
                self.tell_linked(at, copy);
                self.tell_copied(at, 0);
                return true;
            }
        }
        false
    }
}
