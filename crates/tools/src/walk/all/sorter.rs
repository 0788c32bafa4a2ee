//! Sorts the entries of a directory: files, subdirectories, links, and what is left out.
//!
//! Not here: which directories are listed, and by which thread.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FileType, Mode, openat, readlinkat};
use rustix::io::Errno;
use seekless_engine::files::FileId;
use seekless_engine::walk::{Listing, NAMED_FILE, StatFacts, WalkDirectory};

use super::{Other, Shared, Waiting, WalkFound};
use crate::threads::in_parts;
use crate::walk::files::FoundPlace;
use crate::walk::filter::Named;
use crate::walk::ignored::Ignored;
use crate::walk::selection::{System, place_of};

/// Entries of a directory that are statted at a time.
const STATTED: usize = 1 << 15;
/// Below this many entries, one thread is faster than several.
const STATTED_BY_ONE: usize = 4096;
/// Entries that a thread takes in turn.
const STATTED_IN_TURN: usize = 256;

/// Adds the entries of a directory to what was found.
pub(super) struct Sorter<'l, 'a> {
    pub shared: &'l Shared<'a>,
    pub next: &'l Waiting<'a>,
    pub handle: BorrowedFd<'l>,
    pub device: u64,
    pub system: System,
    pub ignored: Option<Arc<Ignored>>,
    /// The place of the files in it, and the place of those that its links lead to.
    pub places: [Option<u32>; 2],
    pub others: Option<Vec<Other>>,
    pub children: Vec<Waiting<'a>>,
    pub found: &'l mut WalkFound,
}

impl<'a> Sorter<'_, 'a> {
    pub fn sort_out(&mut self, entries: &Listing) {
        let (directory, filter) = (&self.next.directory, self.shared.filter);
        if filter.heeds_ignore_files {
            self.ignored = Ignored::read(
                self.handle,
                entries,
                &directory.path_below_root(b""),
                self.ignored.take(),
            );
        }
        let mut facts = Vec::new().into_iter();
        for (number, entry) in entries.entries().iter().enumerate() {
            if number % STATTED == 0 {
                facts = self.stat_together(entries, number).into_iter();
            }
            let facts = facts.next().flatten();
            let name = entries.c_str(entry);
            let named = Named {
                name: Path::new(OsStr::from_bytes(name.to_bytes())),
                path: &|| directory.path_below_root(name.to_bytes()),
            };
            let is_directory = entry.kind == FileType::Directory;
            if self
                .ignored
                .as_ref()
                .is_some_and(|ignored| ignored.matches(&named, is_directory))
            {
                self.others = None;
                continue;
            }
            match entry.kind {
                FileType::RegularFile => {
                    let facts = facts.unwrap_or_else(|| StatFacts::at(self.handle, name));
                    self.sort_file(name, &named, facts);
                }
                FileType::Directory if filter.leaves_out(&named) => {
                    self.found.left_out.push(directory.path_of(name.to_bytes()));
                    self.others = None;
                }
                FileType::Directory if filter.enters(&named, self.next.above) => {
                    let child = self.waiting(directory.child(name, ()));
                    self.children.push(Waiting {
                        listed: Some(FileId::new(self.device, entry.inode)),
                        ..child
                    });
                }
                FileType::Directory => self.others = None,
                FileType::Symlink if filter.follows_links => self.follow(name, &named),
                FileType::Symlink => self.note_link(name),
                _ => {
                    self.found.left.special += 1;
                    self.others = None;
                }
            }
        }
    }

    fn sort_file(&mut self, name: &CStr, named: &Named<'_>, facts: rustix::io::Result<StatFacts>) {
        match facts {
            Ok(facts) if self.is_named(name, &facts) => self.others = None,
            Ok(facts) if facts.kind == FileType::RegularFile => {
                self.add_file(name, named, &facts, self.system, false);
            }
            Ok(_) => self.others = None,
            Err(error) => self.failed(name, "stat", error),
        }
    }

    /// Counts a link that is not followed, and keeps its target if that is wanted.
    fn note_link(&mut self, name: &CStr) {
        self.found.left.links += 1;
        if let Some(others) = &mut self.others {
            match readlinkat(self.handle, name, Vec::new()) {
                Ok(target) => others.push((name.to_bytes().to_vec(), Some(target.into_bytes()))),
                Err(_) => self.others = None,
            }
        }
    }

    /// Stats the next files of a large directory in several threads; returns nothing for a small one.
    fn stat_together(&self, entries: &Listing, start: usize) -> Vec<Option<rustix::io::Result<StatFacts>>> {
        let (handle, count) = (self.handle, entries.entries().len().saturating_sub(start).min(STATTED));
        if count < STATTED_BY_ONE {
            return Vec::new();
        }
        let facts_of = |number: usize| {
            let entry = entries.entries().get(start + number)?;
            (entry.kind == FileType::RegularFile).then(|| StatFacts::at(handle, entries.c_str(entry)))
        };
        let parts = in_parts(self.shared.threads, count, STATTED_IN_TURN, |part| {
            part.map(facts_of).collect::<Vec<_>>()
        });
        parts.flatten().collect()
    }

    /// Whether a file was also given as a path; then it is listed by that path.
    fn is_named(&self, name: &CStr, facts: &StatFacts) -> bool {
        let (selection, directory) = (self.shared.selection, &self.next.directory);
        selection.may_name(facts.id(), self.system)
            && selection
                .is_at(&place_of(self.handle, || directory.path_of(b"")).join(OsStr::from_bytes(name.to_bytes())))
    }

    fn add_file(&mut self, name: &CStr, named: &Named<'_>, facts: &StatFacts, system: System, is_followed: bool) {
        if !self.shared.filter.wants(named, facts) {
            match &mut self.others {
                Some(others) if facts.bytes == 0 => others.push((name.to_bytes().to_vec(), None)),
                _ => self.others = None,
            }
            return;
        }
        let (directory, files) = (&self.next.directory, &mut self.found.files);
        let root = self.next.root.number;
        let place =
            self.places[usize::from(is_followed)].filter(|place| files.places[*place as usize].system == system);
        let place = place.unwrap_or_else(|| {
            directory.keep(1);
            files.add_place(FoundPlace {
                directory: Arc::clone(directory),
                root,
                is_followed,
                system,
                is_of_others: AtomicBool::new(false),
            })
        });
        self.places[usize::from(is_followed)] = Some(place);
        files.push(place, name.to_bytes(), facts);
    }

    /// Follows a link. If inode numbers do not identify files, it is skipped: a file found twice would not be noticed.
    fn follow(&mut self, name: &CStr, named: &Named<'_>) {
        let facts = match StatFacts::behind(self.handle, name) {
            Ok(facts) => facts,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {
                self.found.left.links += 1;
                self.others = None;
                return;
            }
            Err(error) => return self.failed(name, "stat", error),
        };
        match facts.kind {
            FileType::RegularFile => {
                let target = openat(self.handle, name, NAMED_FILE | seekless_sys::PATH_ONLY, Mode::empty());
                let system = target.map(|target| self.shared.system(facts.device, target.as_fd()));
                let is_elsewhere =
                    facts.device != self.next.root.id.device && !self.shared.selection.other_file_systems;
                match system {
                    Err(error) => self.failed(name, "open", error),
                    Ok(system) if !is_elsewhere && system.inodes_identify && !system.is_pseudo => {
                        self.add_file(name, named, &facts, system, true);
                    }
                    Ok(_) => {
                        self.found.left.links += 1;
                        self.others = None;
                    }
                }
            }
            FileType::Directory if self.shared.filter.enters(named, self.next.above) => {
                let directory = &self.next.directory;
                let child = self.waiting(directory.linked_child(name, ()));
                let path = directory.path_of(name.to_bytes());
                self.shared.queue.lock().own.later.insert(path, child);
                self.others = None;
            }
            FileType::Directory => self.others = None,
            _ => {
                self.found.left.special += 1;
                self.others = None;
            }
        }
    }

    fn waiting(&self, directory: Arc<WalkDirectory<1>>) -> Waiting<'a> {
        Waiting {
            directory,
            root: self.next.root,
            above: self.next.above + 1,
            listed: None,
            is_open: false,
            ignored: self.ignored.clone(),
        }
    }

    fn failed(&mut self, name: &CStr, action: &str, error: Errno) {
        let path = self.next.directory.path_of(name.to_bytes());
        self.found.failed(path, action, &error.into());
        self.others = None;
    }
}
