//! What only recovering an interrupted update meets.

use std::io;
use std::path::{Path, PathBuf};

/// The journal is not believed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", journal.display(), doubt.told(file))]
#[non_exhaustive]
pub struct RecoverError {
    /// The journal.
    pub journal: PathBuf,
    /// The file that it is of by its name.
    pub file: PathBuf,
    /// Why it is not believed.
    pub doubt: Doubt,
}

/// Why a journal is not believed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// It is not a regular file.
    NotRegular,
    /// It belongs to a user, given by the number, who is neither this one, nor the file's owner, nor root.
    Owner(u32),
    /// Users may have written to it who may not write to the file, or by another name.
    OpenToOthers {
        /// Its permissions.
        mode: u32,
        /// Its hard links.
        links: u64,
    },
    /// It does not begin as a journal does.
    NoJournal(io::Error),
    /// It is of another inode.
    OtherFile,
    /// The file has got hard links since, by which the journal is not found.
    NewLinks {
        /// The file's hard links.
        links: u64,
        /// What it had when the update began.
        links_before: u64,
    },
    /// The file is shorter than when the update began.
    Cut {
        /// The file's size.
        bytes: u64,
        /// What it was when the update began.
        bytes_before: u64,
    },
    /// It is not whole, and the file may have been written to since it was begun.
    Damaged(io::Error),
    /// The byte at this offset of the file is neither as before the update nor as the update wanted it.
    Stale(u64),
}

impl Doubt {
    /// It in words, and what to do.
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
                 does not see this journal. Nothing was changed: if there was such an update, move the journal away; \
                 otherwise remove the new links and try again"
            ),
            Self::Cut { bytes, bytes_before } => format!(
                "is the journal of another file, or {file} was truncated: the file had {bytes_before} bytes then and \
                 has {bytes} now; nothing was changed: if that was intended, move the journal away"
            ),
            Self::Damaged(why) => format!(
                "{why}, but {file} may have been written to since; nothing was changed: move the journal away if the file is \
                 good as it is"
            ),
            Self::Stale(offset) => format!(
                "does not match {file}: byte {offset} is neither the old nor the updated one, so another process wrote to the \
                 file since; nothing was changed: move the journal away if the file is good as it is"
            ),
        }
    }
}
