//! Whether a name leads to the file that a journal speaks of. The number of a removed file may be that of a new one, and a
//! file may have been edited since: such files are not touched.
//!
//! Not here: what follows from it (`settle`, `undo`).

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::FileType;
use seekless::error::NotAlone;
use seekless::files::Lease;

use super::held::digest_of;
use super::journal::{Entry, Name};
use super::place::{Directories, Place};
use crate::walk::{Facts, nanoseconds};

/// When a file was made, in ns since 1970, where its file system says so. A new file with the number of a removed one was
/// made at another time.
pub(super) fn born_ns(file: &File) -> Option<i64> {
    let born = file.metadata().ok()?.created().ok()?;
    let since = born.duration_since(UNIX_EPOCH).ok()?;
    Some(nanoseconds(i64::try_from(since.as_secs()).ok()?, since.subsec_nanos()))
}

/// Whether a file may have been made at the time that was seen.
pub(super) fn is_born(seen: Option<i64>, file: &File) -> bool {
    seen.zip(born_ns(file)).is_none_or(|(seen, now)| seen == now)
}

impl Entry {
    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that
    /// undoing another journal made; or to the directory that was moved, whatever is in it now.
    pub(super) fn is_at(&self, place: &Place, called: &OsStr) -> bool {
        if self.seen.contents.is_some() {
            // What is in it may have been used since.
            let is_it = |file: File| {
                let found = Facts::of(&file);
                found.is_ok_and(|found| self.seen.is_inode(&found)) && is_born(self.born_ns, &file)
            };
            return kind_of(place, called) == Some(FileType::Directory) && place.open_of(called).is_ok_and(is_it);
        }
        let Some((found, file)) = opened(place, called) else {
            return false;
        };
        let is_same = self.seen.is_inode(&found) && is_born(self.born_ns, &file);
        self.seen.is_as_old(&found) && (is_same || self.has_digest(&found, &file))
    }

    /// Whether a name leads to what the run put in the place of the file: the symbolic link, or another name of the kept file,
    /// which has its bytes still.
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
        // Perhaps its last name.
        self.is_old_kept(&found, &file)
    }

    /// Whether a name that the run gave is a link that may go, because what it leads to has another name, or the same bytes
    /// as the file that was acted on.
    pub(super) fn is_surplus(&self, name: &Name, place: &Place, called: &OsStr, directories: &Directories) -> bool {
        if let Some(is_it) = is_symlink(name, place, called) {
            return is_it;
        }
        opened(place, called).is_some_and(|(found, file)| {
            self.leads_there(&found, place, called, directories) || self.is_old_kept(&found, &file)
        })
    }

    /// Whether the path of the kept file leads to a file, by another name.
    fn leads_there(&self, found: &Facts, place: &Place, called: &OsStr, directories: &Directories) -> bool {
        let kept = directories.place(&self.keep).and_then(|kept| kept.facts());
        self.keep != place.beside(called)
            && matches!(kept, Ok(Some(kept)) if kept.id() == found.id() && found.names > 1)
    }

    /// Whether a file is the one that was kept, whatever its path leads to now, and nobody writes to it.
    fn is_old_kept(&self, found: &Facts, file: &Arc<File>) -> bool {
        self.keep_seen.is_inode(found)
            && is_born(self.keep_born_ns, file)
            && !matches!(Lease::against_writers(file), Err(NotAlone::OpenForWriting))
            && self.has_digest(found, file)
    }

    /// Whether a file has the bytes that both files had.
    fn has_digest(&self, found: &Facts, file: &File) -> bool {
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

fn kind_of(place: &Place, called: &OsStr) -> Option<FileType> {
    Some(place.facts_of(called).ok()??.kind)
}

/// Opens a regular file. Opening another may have effects.
fn opened(place: &Place, called: &OsStr) -> Option<(Facts, Arc<File>)> {
    let found = place.facts_of(called).ok()??;
    let file = (found.kind == FileType::RegularFile)
        .then(|| place.open_of(called))?
        .ok()?;
    let now = Facts::of(&file).ok()?;
    (now.id() == found.id()).then(|| (now, Arc::new(file)))
}
