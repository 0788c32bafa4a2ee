//! Whether a file is the one that a journal means. A new file may have the inode number of a removed one, and a file may have been
//! edited since: those files are not touched.
//!
//! Not here: what a name leads to (`name_state`).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::FileType;
use seekless::files::{FileId, nanoseconds};
use serde::{Deserialize, Serialize};

use super::Action;
use super::held::digest_of;
use super::place::ExaminedName;
use super::record::StepRecord;
use crate::Stop;
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
        StatFacts::of(file).is_ok_and(|found| self.is(&found, Some(file)))
    }

    /// Whether a file is this one. A file system may have another device number after a restart, so the number decides
    /// only if a birth time is missing; one that this user may not open has none.
    pub fn is(&self, found: &StatFacts, file: Option<&File>) -> bool {
        self.inode == found.inode
            && match self.born_ns.zip(file.and_then(born_ns)) {
                Some((was, now)) => was == now,
                None => self.device == found.device,
            }
    }

    /// Whether a name leads to this file.
    pub fn is_at(&self, place: &ExaminedName, called: &OsStr) -> bool {
        opened(place, called).is_some_and(|(found, file)| self.is(&found, file.as_deref()))
    }
}

impl StepRecord {
    /// Whether a name leads to the file that was acted on, with the bytes and the time that it had, or to its copy that
    /// undoing another journal made.
    ///
    /// # Errors
    /// As [`Self::has_digest`].
    pub fn is_at(&self, place: &ExaminedName, called: &OsStr, stop: &Stop) -> io::Result<bool> {
        match opened(place, called) {
            Some((found, Some(file))) if found.kind == FileType::RegularFile && self.is_as_old(&found) => {
                Ok(self.acted_on().is(&found, Some(&file)) || self.has_digest(&found, &file, stop)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether the file that was acted on is where it was moved to. In a place that only it can have, it may have changed since.
    ///
    /// # Errors
    /// As [`Self::has_digest`].
    pub fn is_moved_to(&self, action: &Action, there: &ExaminedName, stop: &Stop) -> io::Result<bool> {
        let is_file = || matches!(there.facts(), Ok(Some(found)) if found.kind == FileType::RegularFile);
        if action.moves_apart() {
            Ok(is_file())
        } else {
            self.is_at(there, &there.name, stop)
        }
    }

    /// Whether a file has the size and the time of the one that was acted on.
    pub fn is_as_old(&self, found: &StatFacts) -> bool {
        let was = &self.step.file.state;
        (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns)
    }

    /// Whether a file has the bytes that both files had.
    ///
    /// # Errors
    /// It was stopped before that was known.
    pub fn has_digest(&self, found: &StatFacts, file: &File, stop: &Stop) -> io::Result<bool> {
        if found.bytes != self.step.file.state.bytes {
            return Ok(false);
        }
        match digest_of(file, found.bytes, &mut Vec::new(), &|| !stop.is_stopped()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            digest => Ok(digest.is_ok_and(|digest| digest == self.digest)),
        }
    }
}

/// Opens a regular file or a directory, which may be refused. Opening anything else may have effects.
pub(super) fn opened(place: &ExaminedName, called: &OsStr) -> Option<(StatFacts, Option<Arc<File>>)> {
    let found = place.facts_of(called).ok()??;
    if !matches!(found.kind, FileType::RegularFile | FileType::Directory) {
        return None;
    }
    let Ok(file) = place.open_of(called) else {
        return Some((found, None));
    };
    let now = StatFacts::of(&file).ok()?;
    (now.id() == found.id()).then(|| (now, Some(Arc::new(file))))
}
