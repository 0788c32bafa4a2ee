//! Walking one tree: depth first, in the order in which the system lists directories.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use seekless_sys::without_atime;

use super::directory::moved;
use super::{FileAt, Limit, Listing, StatFacts, WalkDirectory};
use crate::files::FileId;

/// A file, or a path that could not be listed, and why.
pub type FoundFile = Result<FileAt, (PathBuf, String)>;

/// What a walk enters, and when it ends.
pub trait WalkRules {
    /// Whether a directory below the root is entered. If it cannot be opened, `at` is the directory above.
    fn enters(&mut self, directory: &WalkDirectory<1>, at: BorrowedFd<'_>, facts: &StatFacts) -> bool;

    /// A directory has something with this name that is neither a regular file nor a directory.
    fn pass(&mut self, _directory: &WalkDirectory<1>, _name: &CStr, _kind: FileType) {}

    /// Whether to end the walk.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Iterates over the regular files at or below a path. Links below it are not followed.
pub struct Walk<R> {
    /// What it enters.
    pub rules: R,
    root: PathBuf,
    /// What it returns in the place of files below the root.
    only: Option<FoundFile>,
    limit: Option<Arc<Limit<1>>>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
}

struct Level {
    directory: Arc<WalkDirectory<1>>,
    /// The entries of the last system call, and the next one of these.
    entries: Listing,
    next: usize,
    /// The position of the next call; `None` at the end.
    rest: Option<u64>,
}

/// Descriptors reserved for the program, including those for the files that its threads process.
const OWN_FILES: usize = 96;
/// The most open directories; more would not be faster.
const MOST_OPEN: usize = 4096;

impl<R: WalkRules> Walk<R> {
    /// A walk below a directory.
    pub fn below(root: &Path, rules: R) -> Self {
        let spare = seekless_sys::open_files_max().saturating_sub(OWN_FILES);
        Self::within(&Limit::new((spare / 2).clamp(1, MOST_OPEN)), root, rules)
    }

    /// The same with another limit of open directories.
    pub fn within(limit: &Arc<Limit<1>>, root: &Path, rules: R) -> Self {
        Self {
            rules,
            root: root.to_owned(),
            only: None,
            limit: Some(Arc::clone(limit)),
            levels: Vec::new(),
        }
    }

    /// A walk below an open directory. Paths of what is in it begin with `path`.
    pub fn of(root: OwnedFd, path: &Path, rules: R) -> Self {
        let mut walk = Self::below(path, rules);
        walk.levels = walk.limit.take().map_or_else(Vec::new, |limit| {
            vec![Level::new(WalkDirectory::root([root], path, &limit, ()))]
        });
        walk
    }

    /// A walk that finds only this.
    pub fn only(found: FoundFile, rules: R) -> Self {
        Self {
            rules,
            root: PathBuf::new(),
            only: Some(found),
            limit: None,
            levels: Vec::new(),
        }
    }

    /// Entries that are listed but not yet returned.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.levels
            .iter()
            .map(|level| level.entries.entries().len() - level.next)
            .sum()
    }

    /// Opens the root.
    fn begin(&mut self, limit: &Arc<Limit<1>>) -> Result<(), (PathBuf, String)> {
        let opened = open_root(&self.root).map_err(|error| unlisted(self.root.clone(), &error))?;
        self.levels
            .push(Level::new(WalkDirectory::root([opened], &self.root, limit, ())));
        Ok(())
    }

    /// Enters a directory, unless the rules say otherwise.
    ///
    /// # Errors
    /// The system's.
    fn enter(&mut self, child: Arc<WalkDirectory<1>>) -> io::Result<()> {
        let mut failure = io::Error::from(io::ErrorKind::Other);
        match child.open(&mut |_, _, error| failure = error) {
            Some((handles, [facts])) if self.rules.enters(&child, handles.borrowed()[0], &facts) => {
                self.levels.push(Level::new(child));
            }
            Some(_) => child.release(1),
            None if self.enters_unopened(&child) => return Err(failure),
            None => {}
        }
        Ok(())
    }

    /// Whether the rules would enter a directory that cannot be opened.
    fn enters_unopened(&mut self, child: &WalkDirectory<1>) -> bool {
        let above = child.parent().and_then(|above| above.handles().ok());
        let facts = above.map(|above| (StatFacts::at(above.borrowed()[0], child.name()), above));
        match facts {
            Some((Ok(facts), above)) => self.rules.enters(child, above.borrowed()[0], &facts),
            _ => true,
        }
    }

    fn pop(&mut self) {
        if let Some(level) = self.levels.pop() {
            level.directory.go_up();
            level.directory.release(1);
        }
    }
}

impl Level {
    fn new(directory: Arc<WalkDirectory<1>>) -> Self {
        Self {
            directory,
            entries: Listing::default(),
            next: 0,
            rest: Some(0),
        }
    }

    /// Reads the entries of one system call; returns false at the end.
    fn list(&mut self) -> io::Result<bool> {
        let Some(from) = self.rest else {
            return Ok(false);
        };
        let handles = self.directory.handles().map_err(|(_, error)| error)?;
        let [directory] = handles.borrowed();
        // A directory that was opened again is at its start, so seek.
        if from > 0 && rustix::fs::tell(directory) != Ok(from) {
            rustix::fs::seek(directory, SeekFrom::Start(from))?;
        }
        self.entries.clear();
        self.next = 0;
        self.rest = match self.entries.add_some(directory, |_| true) {
            // It was removed, with everything in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            listed => listed?,
        };
        Ok(true)
    }
}

impl<R: WalkRules> Iterator for Walk<R> {
    type Item = FoundFile;

    fn next(&mut self) -> Option<FoundFile> {
        if let Some(only) = self.only.take() {
            return Some(only);
        }
        while !self.rules.is_stopped() {
            if let Some(limit) = self.limit.take()
                && let Err(unlisted) = self.begin(&limit)
            {
                return Some(Err(unlisted));
            }
            let level = self.levels.last_mut()?;
            let directory = &level.directory;
            let Some(entry) = level.entries.entries().get(level.next).copied() else {
                match level.list() {
                    Ok(true) => {}
                    Ok(false) => self.pop(),
                    Err(error) => {
                        let path = level.directory.path_of(b"");
                        self.pop();
                        return Some(Err(unlisted(path, &error)));
                    }
                }
                continue;
            };
            level.next += 1;
            let name = level.entries.c_str(&entry);
            match entry.kind {
                FileType::RegularFile => return Some(Ok(FileAt::found(name.to_bytes(), directory))),
                FileType::Directory => {
                    let child = directory.child(name, ());
                    let path = || child.path_of(b"");
                    if let Err(error) = self.enter(Arc::clone(&child)) {
                        return Some(Err(unlisted(path(), &error)));
                    }
                }
                kind => self.rules.pass(directory, name, kind),
            }
        }
        None
    }
}

/// Opens a directory that the user named. A symbolic link is followed.
///
/// # Errors
/// The system's.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(without_atime(|more| {
        rustix::fs::open(path, flags | more, Mode::empty())
    })?)
}

/// As [`open_root`], but the path must lead to the directory that was seen there before.
///
/// # Errors
/// The system's; `NotFound` if another one is there now.
pub fn open_seen(path: &Path, seen: FileId) -> io::Result<OwnedFd> {
    let opened = open_root(path)?;
    if StatFacts::of(&opened)?.id() != seen {
        return Err(moved());
    }
    Ok(opened)
}

fn unlisted(path: PathBuf, error: &io::Error) -> (PathBuf, String) {
    (path, format!("cannot list: {error}"))
}
