//! The walk through one tree: depth first, in the order in which the system lists its directories.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::{Directory, Facts, FileAt, Kind, Limit, Listing, Root, Selection, is_sure};

/// What a walk comes upon.
pub(crate) enum Found {
    /// A regular file.
    File(FileAt),
    /// A symbolic link.
    Link,
    /// A FIFO, a socket, a device.
    Special,
    /// The mount point of another file system.
    OtherFileSystem,
    /// A directory that was named itself.
    Repeated,
    /// What could not be listed, and why.
    Failed(PathBuf, String),
}

/// Gives all that is to be done below a path that was named.
pub(crate) struct Walk<'a> {
    selection: &'a Selection,
    root: &'a Root,
    is_begun: bool,
    limit: Arc<Limit>,
    /// The directories from the root to where the walk is.
    levels: Vec<Level>,
    /// The path of the last of them, with a slash behind it.
    path: Vec<u8>,
}

struct Level {
    directory: Arc<Directory<1>>,
    /// What the system gave at the last call, and what comes next of it.
    entries: Listing,
    next: usize,
    /// Where the next call goes on; `None` at the end.
    rest: Option<u64>,
    /// The length of the path above.
    above: usize,
}

/// Descriptors that are the program's own, those of the files that its threads work on among them.
const OWN_FILES: usize = 96;
/// More open directories than this make nothing faster.
const MOST_OPEN: usize = 4096;

impl<'a> Walk<'a> {
    pub(super) fn new(selection: &'a Selection, root: &'a Root) -> Self {
        let spare = seekless_sys::open_files_max().saturating_sub(OWN_FILES);
        Self::within(selection, root, &Limit::new((spare / 2).clamp(1, MOST_OPEN)))
    }

    /// The same with another limit of open directories.
    pub(super) fn within(selection: &'a Selection, root: &'a Root, limit: &Arc<Limit>) -> Self {
        Self {
            selection,
            root,
            is_begun: false,
            limit: Arc::clone(limit),
            levels: Vec::new(),
            path: root.path.as_os_str().as_bytes().to_vec(),
        }
    }

    /// Entries that were listed and did not come yet.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.levels.iter().map(|level| level.entries.len() - level.next).sum()
    }

    fn begin(&mut self) -> Option<Found> {
        self.is_begun = true;
        if !self.root.is_directory {
            return Some(Found::File(FileAt::named(&self.root.path)));
        }
        let directory = match open_root(&self.root.path) {
            Ok(opened) => Directory::root([opened], &self.limit, ()),
            Err(error) => return Some(failed(self.root.path.clone(), error)),
        };
        self.push(directory, self.path.len());
        None
    }

    /// Goes into a directory, whose path is complete but for the slash, unless that is not to be done or fails.
    fn enter(&mut self, child: Arc<Directory<1>>, above: usize) -> Option<Found> {
        let mut failure = Errno::IO;
        let Some((handles, [facts])) = child.open(&mut |_, _, error| failure = error) else {
            return Some(self.not_entered(failure));
        };
        let [directory] = handles.borrowed();
        let skipped = self.skips(&facts, directory);
        if skipped.is_some() {
            child.release(1);
        } else {
            self.push(child, above);
        }
        skipped
    }

    /// What cannot be opened may be what would not be entered.
    fn not_entered(&self, failure: Errno) -> Found {
        let path = PathBuf::from(OsString::from_vec(self.path.clone()));
        let above = self.levels.last().map(|level| &level.directory);
        let skipped = above.and_then(|above| {
            let facts = FileAt::found(path.clone(), above).facts().ok()?;
            self.skips(&facts, above.handles().ok()?.borrowed()[0])
        });
        skipped.unwrap_or_else(|| failed(path, failure))
    }

    /// Why a directory below the root is not entered, if so.
    fn skips(&self, facts: &Facts, directory: BorrowedFd<'_>) -> Option<Found> {
        if self.selection.contains(facts.id()) && is_sure(directory) {
            return Some(Found::Repeated);
        }
        (facts.device != self.root.device && !self.selection.other_file_systems).then_some(Found::OtherFileSystem)
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
            level.directory.release(1);
        }
    }

    /// The path of the directory where the walk is.
    fn directory_path(&self) -> PathBuf {
        match self.path.strip_suffix(b"/") {
            Some(path) if self.levels.len() > 1 => PathBuf::from(OsString::from_vec(path.to_vec())),
            _ => self.root.path.clone(),
        }
    }
}

impl Level {
    /// Gets what the system gives at a call; false where there is nothing more.
    fn list(&mut self) -> io::Result<bool> {
        let Some(from) = self.rest else {
            return Ok(false);
        };
        let handles = self.directory.handles().map_err(|(_, error)| error)?;
        let [directory] = handles.borrowed();
        // A directory that was opened again is at its beginning.
        if from > 0 && rustix::fs::tell(directory) != Ok(from) {
            rustix::fs::seek(directory, SeekFrom::Start(from))?;
        }
        self.entries.clear();
        self.next = 0;
        self.rest = match self.entries.add_some(directory, |_| true) {
            // It was removed, and so was all in it.
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
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.get(level.next) else {
                match level.list() {
                    Ok(true) => {}
                    Ok(false) => self.pop(),
                    Err(error) => {
                        let found = failed(self.directory_path(), error);
                        self.pop();
                        return Some(found);
                    }
                }
                continue;
            };
            level.next += 1;
            let name = level.entries.c_str(&entry);
            match entry.kind {
                Kind::File => {
                    let path = [&self.path, name.to_bytes()].concat();
                    let path = PathBuf::from(OsString::from_vec(path));
                    return Some(Found::File(FileAt::found(path, &level.directory)));
                }
                Kind::Directory => {
                    let above = self.path.len();
                    self.path.extend_from_slice(name.to_bytes());
                    let child = level.directory.child(name, ());
                    if let Some(found) = self.enter(child, above) {
                        self.path.truncate(above);
                        return Some(found);
                    }
                }
                Kind::Link => return Some(Found::Link),
                _ => return Some(Found::Special),
            }
        }
    }
}

/// Opens a directory that was named. A symbolic link is followed.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn failed(path: PathBuf, error: impl Into<io::Error>) -> Found {
    Found::Failed(path, format!("listing failed: {}", error.into()))
}
