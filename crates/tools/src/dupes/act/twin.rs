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
use seekless::files::{FileId, Lease, nanoseconds};
use serde::{Deserialize, Serialize};

use super::held::digest_of;
use super::place::{Directories, NameInDirectory};
use super::record::{NameOf, StepRecord};
use crate::walk::StatFacts;

/// Birth time of a file, in ns since 1970, if its file system has it. A new file with the inode number of a removed one was
/// made at another time.
pub(super) fn born_ns(file: &File) -> Option<i64> {
    born_ns_of(&file.metadata().ok()?)
}

/// The same, of its metadata.
pub(super) fn born_ns_of(metadata: &Metadata) -> Option<i64> {
    let born = metadata.created().ok()?;
    let since = born.duration_since(UNIX_EPOCH).ok()?;
    Some(nanoseconds(
        i64::try_from(since.as_secs()).ok()?,
        since.subsec_nanos().into(),
    ))
}

/// What identifies a file in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownFile {
    device: u64,
    inode: u64,
    born_ns: Option<i64>,
}

impl KnownFile {
    pub fn new(id: FileId, born_ns: Option<i64>) -> Self {
        Self {
            device: id.device,
            inode: id.inode,
            born_ns,
        }
    }

    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(StatFacts::of(file)?.id(), born_ns(file)))
    }

    pub fn is_open(&self, file: &File) -> bool {
        StatFacts::of(file).is_ok_and(|found| self.is(&found, file))
    }

    /// Whether an open file is this one. A file system may have another device number after a restart, so the number decides
    /// only if a birth time is missing.
    fn is(&self, found: &StatFacts, file: &File) -> bool {
        self.inode == found.inode
            && match self.born_ns.zip(born_ns(file)) {
                Some((was, now)) => was == now,
                None => self.device == found.device,
            }
    }

    /// Whether a name leads to this file.
    pub(super) fn is_at(&self, place: &NameInDirectory, called: &OsStr) -> bool {
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

impl StepRecord {
    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that
    /// undoing another journal made.
    pub(super) fn is_at(&self, place: &NameInDirectory, called: &OsStr) -> bool {
        let Some((found, file)) = opened(place, called) else {
            return false;
        };
        self.is_as_old(&found) && (self.acted_on().is(&found, &file) || self.has_digest(&found, &file))
    }

    /// Whether a file has the size and the time of the one that was acted on.
    pub(super) fn is_as_old(&self, found: &StatFacts) -> bool {
        let was = &self.step.file.state;
        (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns)
    }

    /// Whether a name leads to what the run put in the place of the file: the symbolic link, or another name of the kept file,
    /// which still has its bytes.
    pub(super) fn is_link(
        &self,
        name: &NameOf,
        place: &NameInDirectory,
        called: &OsStr,
        directories: &Directories,
    ) -> bool {
        if let Some(is_it) = is_symlink(name, place, called) {
            return is_it;
        }
        let Some((found, file)) = opened(place, called) else {
            return false;
        };
        if self.leads_there(&found, place, called, directories) {
            let kept = &self.step.keep.state;
            let is_as_old = (kept.bytes, kept.modified_ns) == (found.bytes, found.modified_ns);
            return is_as_old || self.has_digest(&found, &file);
        }
        // This may be the last name of the kept file.
        self.is_old_kept(&found, &file)
    }

    /// Whether a name that the run made is a link that may be removed, because its target has another name, or the same bytes
    /// as the file that was acted on.
    pub(super) fn is_surplus(
        &self,
        name: &NameOf,
        place: &NameInDirectory,
        called: &OsStr,
        directories: &Directories,
    ) -> bool {
        if let Some(is_it) = is_symlink(name, place, called) {
            return is_it;
        }
        opened(place, called).is_some_and(|(found, file)| {
            self.leads_there(&found, place, called, directories) || self.is_old_kept(&found, &file)
        })
    }

    /// Whether the path of the kept file is another name of this file.
    fn leads_there(
        &self,
        found: &StatFacts,
        place: &NameInDirectory,
        called: &OsStr,
        directories: &Directories,
    ) -> bool {
        let keep = &self.step.keep.path;
        let kept = directories.place(keep).and_then(|kept| kept.facts());
        *keep != place.beside(called) && matches!(kept, Ok(Some(kept)) if kept.id() == found.id() && found.names > 1)
    }

    /// Whether a file is the one that was kept, whatever its path leads to now, and nobody writes to it.
    fn is_old_kept(&self, found: &StatFacts, file: &Arc<File>) -> bool {
        self.kept().is(found, file) && Lease::against_writers(file).is_ok() && self.has_digest(found, file)
    }

    /// Whether a file has the bytes that both files had.
    pub(super) fn has_digest(&self, found: &StatFacts, file: &File) -> bool {
        let digest = || digest_of(file, found.bytes, &mut Vec::new(), &|| true);
        found.bytes == self.step.file.state.bytes && digest().is_ok_and(|digest| digest == self.digest)
    }
}

/// Whether a name is that of the symbolic link that was made; `None` if none was to be made.
fn is_symlink(name: &NameOf, place: &NameInDirectory, called: &OsStr) -> Option<bool> {
    let target = name.link.as_ref()?;
    let is_link = matches!(place.facts_of(called), Ok(Some(found)) if found.kind == FileType::Symlink);
    Some(is_link && place.directory.link_target(called).is_ok_and(|link| link == *target))
}

/// Opens a regular file.
fn opened(place: &NameInDirectory, called: &OsStr) -> Option<(StatFacts, Arc<File>)> {
    opened_any(place, called).filter(|(found, _)| found.kind == FileType::RegularFile)
}

/// Opens a regular file or a directory. Opening anything else may have effects.
fn opened_any(place: &NameInDirectory, called: &OsStr) -> Option<(StatFacts, Arc<File>)> {
    let found = place.facts_of(called).ok()??;
    let file = is_plain(found.kind).then(|| place.open_of(called))?.ok()?;
    let now = StatFacts::of(&file).ok()?;
    (now.id() == found.id()).then(|| (now, Arc::new(file)))
}

fn is_plain(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Directory)
}
