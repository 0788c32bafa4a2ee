//! Errors of recovering an interrupted update.

use std::io;
use std::path::{Path, PathBuf};

/// The journal cannot be trusted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", journal.display(), refusal.told(file))]
#[non_exhaustive]
pub struct RecoverError {
    /// The journal.
    pub journal: PathBuf,
    /// The file that its name belongs to.
    pub file: PathBuf,
    /// Why it cannot be trusted.
    pub refusal: RecoveryRefusal,
}

/// Why a journal cannot be trusted.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecoveryRefusal {
    /// It is not a regular file.
    NotRegular,
    /// It belongs to the user with this number, who is not the caller, the file's owner or root.
    Owner(u32),
    /// Users who may not write to the file may have written to the journal, or it has another hard link.
    OpenToOthers {
        /// Its permissions.
        mode: u32,
        /// Its hard links.
        links: u64,
    },
    /// It does not begin like a journal.
    NoJournal(io::Error),
    /// It belongs to another inode.
    OtherFile,
    /// The file has new hard links, through which the journal is not found.
    NewLinks {
        /// The file's hard links.
        links: u64,
        /// How many it had when the update began.
        links_before: u64,
    },
    /// The file is shorter than when the update began.
    Cut {
        /// The file's size.
        bytes: u64,
        /// Its size when the update began.
        bytes_before: u64,
    },
    /// It is incomplete, and the file may have been written to since the journal was begun.
    Damaged(io::Error),
    /// The byte at this offset of the file is neither the old nor the updated one.
    Stale(u64),
}

impl RecoveryRefusal {
    /// The sentence for a person: what is wrong, and what to do.
    fn told(&self, file: &Path) -> String {
        let file = file.display();
        match self {
            Self::NotRegular => "is not a regular file, so not a seekless journal; nothing was changed".to_owned(),
            Self::Owner(user) => format!(
                "belongs to user {user}, who is not you, the file's owner or root; nothing was changed: if you trust \
                 the journal, change its owner"
            ),
            Self::OpenToOthers { mode, links } => format!(
                "may have been changed by other users (mode {mode:o}, {links} hard links); nothing was changed: if you trust \
                 it, run chmod go-w and remove its other links; otherwise move it away"
            ),
            Self::NoJournal(why) => format!("{why}; if seekless did not write it, move it away"),
            Self::OtherFile => format!(
                "is the journal of an older file that {file} replaced; nothing was changed: if that was intended, \
                 move the journal away"
            ),
            Self::NewLinks { links, links_before } => format!(
                "{file} has {links} hard links and had {links_before} when the update began. An update through a new link \
                 does not see this journal. Nothing was changed: if the file was updated through one, move the journal \
                 away; otherwise remove the new links and try again"
            ),
            Self::Cut { bytes, bytes_before } => format!(
                "is the journal of another file, or {file} was truncated: the file had {bytes_before} bytes then and \
                 has {bytes} now; nothing was changed: if that was intended, move the journal away"
            ),
            Self::Damaged(why) => format!(
                "{why}, but {file} may have been written to since; nothing was changed: if the file is good as it is, move the \
                 journal away"
            ),
            Self::Stale(offset) => format!(
                "does not match {file}: byte {offset} is neither the old nor the updated one, so another process wrote to the \
                 file since; nothing was changed: if the file is good as it is, move the journal away"
            ),
        }
    }
}
