//! Walking one tree: depth first, in the order in which the system lists directories.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use seekless_sys::{file_system_of, without_atime};
use serde::Serialize;

use super::{Directory, FileAt, Limit, Listing, Root, Selection, StatFacts, is_sure};
use crate::Stop;

/// A file, or a path that could not be listed, and why.
pub(crate) type Found = Result<FileAt, (PathBuf, String)>;

/// What a walk left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Additional hard links, and directories that are also named themselves.
    pub repeated: u64,
    /// Symbolic links inside directories that were not followed.
    pub links: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
    /// Directories of other file systems, which were not entered. `/proc` and the like are never entered.
    pub other_file_systems: u64,
}

impl Left {
    /// Adds the counts of another walk.
    pub fn add(&mut self, other: &Self) {
        self.repeated += other.repeated;
        self.links += other.links;
        self.special += other.special;
        self.other_file_systems += other.other_file_systems;
    }
}

/// Iterates over all files at or below a path that was named.
pub(crate) struct Walk<'a> {
    selection: &'a Selection,
    root: &'a Root,
    pub stop: &'a Stop,
    is_begun: bool,
    limit: Arc<Limit<1>>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    /// The path of the current directory, followed by a slash.
    path: Vec<u8>,
    pub left: Left,
}

struct Level {
    directory: Arc<Directory<1>>,
    /// The entries of the last system call, and the next one of these.
    entries: Listing,
    next: usize,
    /// The position of the next call; `None` at the end.
    rest: Option<u64>,
    /// The length of the path above.
    above: usize,
}

/// Descriptors reserved for the program, including those for the files that its threads process.
const OWN_FILES: usize = 96;
/// The most open directories; more would not be faster.
const MOST_OPEN: usize = 4096;

impl<'a> Walk<'a> {
    pub(super) fn new(selection: &'a Selection, root: &'a Root, stop: &'a Stop) -> Self {
        let spare = seekless_sys::open_files_max().saturating_sub(OWN_FILES);
        Self::within(selection, root, stop, &Limit::new((spare / 2).clamp(1, MOST_OPEN)))
    }

    /// The same with another limit of open directories.
    pub(super) fn within(selection: &'a Selection, root: &'a Root, stop: &'a Stop, limit: &Arc<Limit<1>>) -> Self {
        Self {
            selection,
            root,
            stop,
            is_begun: false,
            limit: Arc::clone(limit),
            levels: Vec::new(),
            path: root.path.as_os_str().as_bytes().to_vec(),
            left: Left::default(),
        }
    }

    /// Entries that are listed but not yet returned.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.levels.iter().map(|level| level.entries.len() - level.next).sum()
    }

    fn begin(&mut self) -> Option<Found> {
        self.is_begun = true;
        if let Some(reason) = &self.root.refused {
            return Some(Err((self.root.path.clone(), reason.clone())));
        }
        if !self.root.is_directory {
            return Some(Ok(FileAt::named(&self.root.path)));
        }
        match open_root(&self.root.path) {
            Ok(opened) => self.push(
                Directory::root([opened], self.root.name(), &self.limit, ()),
                self.path.len(),
            ),
            Err(error) => return Some(Err(failed(self.root.path.clone(), &error))),
        }
        None
    }

    /// Enters a directory, whose path is complete except for the slash, unless it is to be skipped.
    ///
    /// # Errors
    /// The system's.
    fn enter(&mut self, child: Arc<Directory<1>>, above: usize) -> io::Result<()> {
        let mut failure = io::Error::from(io::ErrorKind::Other);
        let opened = child.open(&mut |_, _, error| failure = error);
        let is_skipped = match &opened {
            Some((handles, [facts])) => self.skips(facts, handles.borrowed()[0]),
            // A directory that cannot be opened may be one that would be skipped.
            None => self.skips_unopened(),
        };
        match opened {
            Some(_) if is_skipped => child.release(1),
            Some(_) => {
                self.push(child, above);
                return Ok(());
            }
            None if is_skipped => {}
            None => return Err(failure),
        }
        self.path.truncate(above);
        Ok(())
    }

    fn skips_unopened(&mut self) -> bool {
        let Some(above) = self.levels.last().map(|level| Arc::clone(&level.directory)) else {
            return false;
        };
        let facts = FileAt::found(path_of(&self.path), &above).facts();
        let (Ok(facts), Ok(handles)) = (facts, above.handles()) else {
            return false;
        };
        self.skips(&facts, handles.borrowed()[0])
    }

    /// Whether a directory below the root is skipped; counts it if so.
    fn skips(&mut self, facts: &StatFacts, directory: BorrowedFd<'_>) -> bool {
        let is_repeated = self.selection.contains(facts.id()) && is_sure(directory);
        let is_elsewhere = facts.device != self.root.device && self.skips_file_system(directory);
        if is_repeated {
            self.left.repeated += 1;
        } else if is_elsewhere {
            self.left.other_file_systems += 1;
        }
        is_repeated || is_elsewhere
    }

    /// Whether a directory of another file system than the root's is skipped; `/proc` always is.
    fn skips_file_system(&self, directory: BorrowedFd<'_>) -> bool {
        !self.selection.other_file_systems || file_system_of(directory).is_ok_and(|system| system.is_pseudo)
    }

    fn push(&mut self, directory: Arc<Directory<1>>, above: usize) {
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.levels.push(Level {
            directory,
            entries: Listing::default(),
            next: 0,
            rest: Some(0),
            above,
        });
    }

    fn pop(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.path.truncate(level.above);
            level.directory.go_up();
            level.directory.release(1);
        }
    }

    /// The path of the current directory.
    fn directory_path(&self) -> PathBuf {
        match self.path.strip_suffix(b"/") {
            Some(path) if self.levels.len() > 1 => path_of(path),
            _ => self.root.path.clone(),
        }
    }
}

impl Level {
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

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if !self.is_begun
            && let Some(found) = self.begin()
        {
            return Some(found);
        }
        while !self.stop.is_stopped() {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.get(level.next) else {
                match level.list() {
                    Ok(true) => {}
                    Ok(false) => self.pop(),
                    Err(error) => {
                        let path = self.directory_path();
                        self.pop();
                        return Some(Err(failed(path, &error)));
                    }
                }
                continue;
            };
            level.next += 1;
            let name = level.entries.c_str(&entry);
            match entry.kind {
                FileType::RegularFile => {
                    let path = path_of(&[&self.path, name.to_bytes()].concat());
                    return Some(Ok(FileAt::found(path, &level.directory)));
                }
                FileType::Directory => {
                    let above = self.path.len();
                    self.path.extend_from_slice(name.to_bytes());
                    let child = level.directory.child(name, ());
                    if let Err(error) = self.enter(child, above) {
                        let path = path_of(&self.path);
                        self.path.truncate(above);
                        return Some(Err(failed(path, &error)));
                    }
                }
                FileType::Symlink => self.left.links += 1,
                _ => self.left.special += 1,
            }
        }
        None
    }
}

/// Opens a directory that the user named. A symbolic link is followed.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(without_atime(|more| {
        rustix::fs::open(path, flags | more, Mode::empty())
    })?)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn failed(path: PathBuf, error: &io::Error) -> (PathBuf, String) {
    (path, format!("cannot list: {error}"))
}
