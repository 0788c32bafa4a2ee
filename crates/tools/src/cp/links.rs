//! Files with several names: their copies have several names, too.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FileType, linkat};
use seekless::files::FileId;
use seekless::walk::{StatFacts, is_sure};

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
}

impl Name {
    pub fn of(at: &At<'_>) -> Self {
        Self {
            directory: Arc::clone(at.directory),
            to: at.to.to_owned(),
            from: at.from.to_owned(),
        }
    }
}

/// The copies of files with several names, by their sources.
#[derive(Default)]
pub(super) struct Links {
    copies: Mutex<HashMap<FileId, Link>>,
    /// Whether files may be met more often than they have names, because sources overlap or links are followed.
    pub are_met_again: AtomicBool,
}

struct Link {
    /// The names of the source that were not met yet.
    left: u64,
    /// Whether none was met before.
    is_first: bool,
    state: LinkState,
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

    /// A name was met whose copy stays. Returns false if the file was copied to another name already.
    pub fn keep(&self, file: FileId, names: u64, copy: FileId, at: &At<'_>) -> bool {
        let mut links = lock(&self.copies);
        let link = links.entry(file).or_insert_with(|| Link {
            left: names,
            is_first: false,
            state: LinkState::Copied(Name::of(at), copy),
        });
        link.left = link.left.saturating_sub(1);
        matches!(&link.state, LinkState::Copied(_, known) if *known == copy)
    }

    /// A file was copied to a name, or could not be. Returns the names that wait.
    pub fn copied(&self, file: FileId, copy: Option<FileId>, at: &At<'_>) -> Vec<Name> {
        let mut links = lock(&self.copies);
        let Some(link) = links.get_mut(&file) else {
            return Vec::new();
        };
        let state = match copy {
            Some(copy) if link.left > 0 || self.are_met_again.load(Ordering::Relaxed) => {
                LinkState::Copied(Name::of(at), copy)
            }
            // The next name is copied itself.
            _ => {
                let Some(Link { state, .. }) = links.remove(&file) else {
                    return Vec::new();
                };
                return state.waiting();
            }
        };
        std::mem::replace(&mut link.state, state).waiting()
    }
}

impl LinkState {
    fn waiting(self) -> Vec<Name> {
        match self {
            Self::Copying(waiting) => waiting,
            Self::Copied(..) => Vec::new(),
        }
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
            LinkTurn::Link(first, copy) => {
                let is_linked = existing.is_some_and(|found| found.id() == copy);
                if is_linked || self.link(&first, copy, at, worker) {
                    return Some(true);
                }
                *worker.done.not_preserved.entry("hard links").or_default() += 1;
                None
            }
        }
    }

    /// Notes a name whose copy stays, so that further names of its file are linked to it.
    pub fn keep_name(&self, at: &At<'_>, file: FileId, names: u64, copy: &StatFacts, worker: &mut Worker) {
        if self.options.preserved.links
            && names > 1
            && is_sure(at.handles[0])
            && !self.links.keep(file, names, copy.id(), at)
        {
            *worker.done.not_preserved.entry("hard links").or_default() += 1;
        }
    }

    /// Links the names that waited for a copy, or copies each if there is no copy.
    pub fn link_waiting(&self, at: &At<'_>, file: FileId, copy: Option<FileId>, kind: FileType, worker: &mut Worker) {
        for name in self.links.copied(file, copy, at) {
            if let Ok(handles) = name.directory.handles() {
                let waited = At {
                    directory: &name.directory,
                    handles: handles.borrowed(),
                    from: &name.from,
                    to: &name.to,
                    was_fetched: false,
                };
                let is_linked = copy.is_some_and(|copy| self.link(&Name::of(at), copy, &waited, worker));
                if !is_linked && !self.copy_entry(&waited, Some(kind), worker) {
                    continue;
                }
            }
            self.finish(&name.directory, 1, worker);
        }
    }

    /// Gives a copy another name. Returns false if it must be copied again, because the file system has no links for it.
    fn link(&self, first: &Name, copy: FileId, at: &At<'_>, worker: &mut Worker) -> bool {
        let Ok(handles) = first.directory.handles() else {
            return false;
        };
        let there = handles.borrowed()[1];
        // Another process may have given the name to another file.
        if StatFacts::at(there, &first.to).is_ok_and(|found| found.id() == copy) {
            let make = |name: &std::ffi::CStr| -> io::Result<()> {
                Ok(linkat(there, &first.to, at.handles[1], name, AtFlags::empty())?)
            };
            // It fails where a file system has no links, or no more for this file.
            if at.place(&make).is_ok() {
                worker.done.hard_links += 1;
                self.tell_copied(at);
                return true;
            }
        }
        false
    }
}
