//! Whether a name leads to the file that a journal means. A new file may have the inode number of a removed one, and a
//! file may have been edited since: those files are not touched.
//!
//! Not here: what follows from it (`settle`, `undo`).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::FileType;
use seekless::files::Lease;

use super::held::digest_of;
use super::journal::{Entry, Name};
use super::place::{Directories, Place};
use crate::walk::{Facts, nanoseconds};

/// Birth time of a file, in ns since 1970, if its file system has it. A new file with the inode number of a removed one was
/// made at another time.
pub(super) fn born_ns(file: &File) -> Option<i64> {
    born_ns_of(&file.metadata().ok()?)
}

/// The same, of its metadata.
pub(super) fn born_ns_of(metadata: &Metadata) -> Option<i64> {
    let born = metadata.created().ok()?;
    let since = born.duration_since(UNIX_EPOCH).ok()?;
    Some(nanoseconds(i64::try_from(since.as_secs()).ok()?, since.subsec_nanos()))
}

/// What identifies a file in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub device: u64,
    pub inode: u64,
    pub born_ns: Option<i64>,
}

impl Known {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let found = Facts::of(file)?;
        Ok(Self {
            device: found.device,
            inode: found.inode,
            born_ns: born_ns(file),
        })
    }

    pub(super) fn is_open(&self, file: &File) -> bool {
        Facts::of(file).is_ok_and(|found| self.is(&found, file))
    }

    /// Whether an open file is this one. A file system may have another device number after a restart, so the number decides
    /// only if a birth time is missing.
    fn is(&self, found: &Facts, file: &File) -> bool {
        self.inode == found.inode
            && match self.born_ns.zip(born_ns(file)) {
                Some((was, now)) => was == now,
                None => self.device == found.device,
            }
    }

    /// Whether a name leads to this file.
    pub(super) fn is_at(&self, place: &Place, called: &OsStr) -> bool {
        match opened_any(place, called) {
            Some((found, file)) => self.is(&found, &file),
            // This user may no longer be allowed to read it.
            None => matches!(
                place.facts_of(called),
                Ok(Some(found)) if is_plain(found.kind) && (found.device, found.inode) == (self.device, self.inode)
            ),
        }
    }
}

impl Entry {
    /// The file that was acted on.
    pub(super) fn acted_on(&self) -> Known {
        Known {
            device: self.seen.device,
            inode: self.seen.inode,
            born_ns: self.born_ns,
        }
    }

    /// The file that was kept.
    pub(super) fn kept(&self) -> Known {
        Known {
            device: self.keep_seen.device,
            inode: self.keep_seen.inode,
            born_ns: self.keep_born_ns,
        }
    }

    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that
    /// undoing another journal made; or to the directory that was moved, whatever is in it now.
    pub(super) fn is_at(&self, place: &Place, called: &OsStr) -> bool {
        if self.seen.contents.is_some() {
            // Its contents may have been used since.
            return self.acted_on().is_at(place, called);
        }
        let Some((found, file)) = opened(place, called) else {
            return false;
        };
        self.seen.is_as_old(&found) && (self.acted_on().is(&found, &file) || self.has_digest(&found, &file))
    }

    /// Whether a name leads to what the run put in the place of the file: the symbolic link, or another name of the kept file,
    /// which still has its bytes.
    pub(super) fn is_link(&self, name: &Name, place: &Place, called: &OsStr, directories: &Directories) -> bool {
        if let Some(is_it) = is_symlink(name, place, called) {
            return is_it;
        }
        let Some((found, file)) = opened(place, called) else {
            return false;
        };
        if self.leads_there(&found, place, called, directories) {
            return self.keep_seen.is_as_old(&found) || self.has_digest(&found, &file);
        }
        // This may be the last name of the kept file.
        self.is_old_kept(&found, &file)
    }

    /// Whether a name that the run made is a link that may be removed, because its target has another name, or the same bytes
    /// as the file that was acted on.
    pub(super) fn is_surplus(&self, name: &Name, place: &Place, called: &OsStr, directories: &Directories) -> bool {
        if let Some(is_it) = is_symlink(name, place, called) {
            return is_it;
        }
        opened(place, called).is_some_and(|(found, file)| {
            self.leads_there(&found, place, called, directories) || self.is_old_kept(&found, &file)
        })
    }

    /// Whether the path of the kept file is another name of this file.
    fn leads_there(&self, found: &Facts, place: &Place, called: &OsStr, directories: &Directories) -> bool {
        let kept = directories.place(&self.keep).and_then(|kept| kept.facts());
        self.keep != place.beside(called)
            && matches!(kept, Ok(Some(kept)) if kept.id() == found.id() && found.names > 1)
    }

    /// Whether a file is the one that was kept, whatever its path leads to now, and nobody writes to it.
    fn is_old_kept(&self, found: &Facts, file: &Arc<File>) -> bool {
        self.kept().is(found, file) && Lease::against_writers(file).is_ok() && self.has_digest(found, file)
    }

    /// Whether a file has the bytes that both files had.
    pub(super) fn has_digest(&self, found: &Facts, file: &File) -> bool {
        let digest = || digest_of(file, found.bytes, &mut Vec::new(), &|| true);
        found.bytes == self.seen.bytes && digest().is_ok_and(|digest| digest == self.digest)
    }
}

/// Whether a name is that of the symbolic link that was made; `None` if none was to be made.
fn is_symlink(name: &Name, place: &Place, called: &OsStr) -> Option<bool> {
    let target = name.link.as_ref()?;
    let is_link = matches!(place.facts_of(called), Ok(Some(found)) if found.kind == FileType::Symlink);
    Some(is_link && place.directory.link_target(called).is_ok_and(|link| link == *target))
}

/// Opens a regular file.
fn opened(place: &Place, called: &OsStr) -> Option<(Facts, Arc<File>)> {
    opened_any(place, called).filter(|(found, _)| found.kind == FileType::RegularFile)
}

/// Opens a regular file or a directory. Opening anything else may have effects.
fn opened_any(place: &Place, called: &OsStr) -> Option<(Facts, Arc<File>)> {
    let found = place.facts_of(called).ok()??;
    let file = is_plain(found.kind).then(|| place.open_of(called))?.ok()?;
    let now = Facts::of(&file).ok()?;
    (now.id() == found.id()).then(|| (now, Arc::new(file)))
}

fn is_plain(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Directory)
}
