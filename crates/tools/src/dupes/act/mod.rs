//! Acting on files that equal others: removing, linking, sharing blocks, moving, and undoing that.
//!
//! Each step proves, at the moment of acting and on open files, that both files are unchanged since the search and that their bytes
//! are equal. A step is written to a journal before it is done, so that it can be undone and a killed run can be completed.
//!
//! Not here: how plans and outcomes look (the command's business).

pub mod by_hand;
mod change;
pub mod choose;
pub mod copies;
mod dir_handle;
mod hold;
pub mod journal;
mod name_state;
pub mod plan;
mod prove;
mod record;
mod refusal;
pub mod rules;
mod run;
#[cfg(test)]
mod tests;
pub mod undo;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use seekless_engine::files::{FileState, Unwatched};
use serde::{Deserialize, Serialize};

use crate::json;
use crate::visible::visible_path;
pub use choose::emptied;
pub use prove::{check, lacking};
pub use refusal::RefusalReason;
use refusal::{cannot, of_kept};
pub use run::run;

/// What is done with a file that equals another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    /// It is removed.
    Remove,
    /// Some of its names are removed, and the file stays.
    Names,
    /// Its names become names of the kept file.
    Hardlink,
    /// Its names become symbolic links to the kept file.
    Symlink {
        /// Whether the links have absolute targets.
        is_absolute: bool,
    },
    /// It shares its blocks with the kept file, and stays a file of its own.
    Reflink,
    /// It is moved below a directory of the same file system, with its whole path.
    Move {
        /// The directory, which is made for the first file; an absolute path.
        #[serde(with = "json::path")]
        to: PathBuf,
    },
    /// It is moved to a directory of this run beside it, because other processes cannot be kept out.
    #[serde(rename = "aside")]
    Quarantine,
    /// It is moved to the trash: that of the user, or of the file's file system.
    Trash {
        /// The trash of the user; an absolute path.
        #[serde(with = "json::path")]
        home: PathBuf,
    },
}

impl Action {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Remove | Self::Names | Self::Quarantine => "remove",
            Self::Hardlink => "hardlink",
            Self::Symlink { .. } => "symlink",
            Self::Reflink => "reflink",
            Self::Move { .. } => "move",
            Self::Trash { .. } => "trash",
        }
    }

    /// Whether a file and the one kept for it must be on one file system.
    pub(crate) fn is_on_one_file_system(&self) -> bool {
        matches!(self, Self::Hardlink | Self::Reflink)
    }

    /// Whether it may leave directories empty.
    #[must_use]
    pub fn empties(&self) -> bool {
        self.leaves_nothing() || matches!(self, Self::Move { .. } | Self::Trash { .. })
    }

    /// Whether files are moved elsewhere.
    #[must_use]
    pub fn moves(&self) -> bool {
        matches!(self, Self::Move { .. } | Self::Trash { .. } | Self::Quarantine)
    }

    /// Whether what is where a file is moved to can only be that file.
    pub(crate) fn moves_apart(&self) -> bool {
        matches!(self, Self::Trash { .. } | Self::Quarantine)
    }

    /// Whether nothing takes the place of a name.
    pub(crate) fn leaves_nothing(&self) -> bool {
        matches!(self, Self::Remove | Self::Names)
    }

    /// Whether the names of the file become links.
    pub(crate) fn makes_links(&self) -> bool {
        matches!(self, Self::Hardlink | Self::Symlink { .. })
    }

    /// Whether undoing it makes a new file.
    pub(crate) fn is_undone_by_copying(&self) -> bool {
        *self == Self::Remove || self.makes_links()
    }
}

/// What is done with one file: a line of a plan, and of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is acted on.
    pub file: ActedOn,
    /// What is kept for it.
    pub keep: KeptFile,
    /// Why that one is kept.
    pub why: KeepReason,
    /// The space that the file shares with no other.
    pub own_bytes: u64,
}

/// A file that is acted on, or a directory that acting emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActedOn {
    /// All names of the file that are acted on: absolute paths, without links and `..`.
    #[serde(with = "json::paths")]
    pub paths: Vec<PathBuf>,
    /// What it was at the search.
    #[serde(flatten)]
    pub state: FileState,
    /// Whether it is a directory, which has one path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_directory: bool,
}

/// The file that equals another and is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Its path.
    #[serde(with = "json::path")]
    pub path: PathBuf,
    /// What it was at the search.
    #[serde(flatten)]
    pub state: FileState,
}

/// Why a file stays. Reports and journals have the words, which no program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum KeepReason {
    /// It is in a reference.
    Reference,
    /// A symbolic link led to it.
    Link,
    /// It is where files are moved to.
    Moved,
    /// A rule, as it was written; or what a journal that was read says.
    Rule(String),
    /// No other rule keeps a copy that counts.
    LastCopy,
    /// No other copy stays on its file system, and links cannot cross file systems.
    LastThere,
    /// Others can share its blocks, and it cannot share theirs.
    ReadOnly,
    /// It is the directory above one that acting leaves empty.
    Emptied,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Reference => "reference",
            Self::Link => "behind a symbolic link",
            Self::Moved => "moved already",
            Self::Rule(rule) => rule,
            Self::LastCopy => "last copy",
            Self::LastThere => "last copy on this file system",
            Self::ReadOnly => "read-only",
            Self::Emptied => "left empty",
        })
    }
}

impl From<KeepReason> for String {
    fn from(reason: KeepReason) -> Self {
        reason.to_string()
    }
}

impl From<String> for KeepReason {
    fn from(words: String) -> Self {
        Self::Rule(words)
    }
}

/// How steps are done.
#[derive(Clone, Debug)]
pub struct ActingOptions {
    /// Whether files are moved where no lease keeps other processes out, because the file system has none or they are open for
    /// writing, and where inode numbers do not identify files. They are compared once more when they are moved.
    pub without_leases: bool,
    /// Whether root acts on files of other users, and below directories that others own or may write to; and whether symbolic
    /// links of any user may lead through such directories.
    pub unsafe_owner: bool,
    /// Whether the steps are those of a search that just ended: then a file has the blocks of its own that the search found.
    pub is_fresh: bool,
    /// The directory for the state of programs: `dupes/` in it has the journals.
    pub state_directory: PathBuf,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum StepOutcome {
    /// It is done.
    Done {
        /// The space that the file took and no longer takes.
        gained_bytes: u64,
    },
    /// Nothing was changed.
    Left {
        /// Why.
        why: RefusalReason,
    },
    /// There is nothing to gain; nothing was changed.
    Needless {
        /// Why.
        why: NothingToGain,
    },
    /// It could not be done, or not for all of its names.
    Failed {
        /// What failed, and where displaced files are now.
        why: RefusalReason,
    },
}

impl StepOutcome {
    /// Why it is not done.
    #[must_use]
    pub fn why(&self) -> Option<RefusalReason> {
        match self {
            Self::Done { .. } => None,
            Self::Needless { why } => Some(RefusalReason::Needless(*why)),
            Self::Left { why } | Self::Failed { why } => Some(why.clone()),
        }
    }

    /// Whether something may have been changed.
    fn has_acted(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed { .. })
    }

    fn gained_bytes(&self) -> u64 {
        match self {
            Self::Done { gained_bytes } => *gained_bytes,
            _ => 0,
        }
    }
}

impl From<NothingToGain> for StepOutcome {
    fn from(why: NothingToGain) -> Self {
        Self::Needless { why }
    }
}

impl From<RefusalReason> for StepOutcome {
    fn from(why: RefusalReason) -> Self {
        Self::Left { why }
    }
}

/// Why there is nothing to gain by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NothingToGain {
    /// It shares all its blocks with the kept file.
    #[error("all blocks are shared with the file that stays")]
    Shared,
    /// It has no blocks of its own: it is empty, or stored with the metadata.
    #[error("there are no blocks to share")]
    NoBlocks,
    /// It keeps its blocks, because it has names that are not acted on.
    #[error("hard links outside the search keep the blocks")]
    OtherNames,
}

/// How a killed run was recovered when the next one began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredAct {
    /// All its steps are done or put back. The path is that of its journal.
    Run {
        /// Steps that were done.
        done: u64,
        /// Steps that changed nothing, or were put back.
        left: u64,
        /// Steps that are half done.
        failed: u64,
    },
    /// A half-done step was put back.
    PutBack,
    /// A file, or all that a journal says, could not be put back.
    Failed {
        /// Why, and where files are now.
        why: RefusalReason,
    },
}

/// An event of a run, from any of its threads: first how killed runs were recovered, then the outcome of each step.
#[derive(Clone, Copy, Debug)]
pub enum RunEvent<'a> {
    /// The outcome of a step, by its number.
    Step(usize, &'a StepOutcome),
    /// How a file, or the journal, of a killed run was recovered.
    Recovered(&'a Path, &'a RecoveredAct),
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The journal; `None` if nothing was done, or if the journal is lost.
    #[serde(skip)]
    pub journal: Option<PathBuf>,
    /// Whether another program removed or renamed the journal: what was done cannot be undone.
    #[serde(skip)]
    pub is_journal_lost: bool,
    /// Steps that were done.
    pub done: u64,
    /// Steps that changed nothing.
    pub left: u64,
    /// Those that would have gained nothing.
    pub needless: u64,
    /// Steps that failed.
    pub failed: u64,
    /// The space that is free.
    pub gained_bytes: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

impl Ran {
    fn count(&mut self, outcome: &StepOutcome) {
        *match outcome {
            StepOutcome::Done { .. } => &mut self.done,
            StepOutcome::Left { .. } => &mut self.left,
            StepOutcome::Needless { .. } => &mut self.needless,
            StepOutcome::Failed { .. } => &mut self.failed,
        } += 1;
        self.gained_bytes += outcome.gained_bytes();
    }
}

/// Why nothing, or nothing more, was done.
#[derive(Debug, thiserror::Error)]
#[error("{}: {action}: {source}", visible_path(path))]
pub struct Error {
    /// A journal, or the directory of journals.
    pub path: PathBuf,
    /// What failed, as in `cannot write the journal`.
    pub action: &'static str,
    /// The system's reason.
    pub source: io::Error,
}

/// Steps that are proven, written in the journal and synced together: syncing takes as long as some hundred steps. Small ones
/// let tests reach several batches with few files.
const BATCH: usize = if cfg!(test) { 16 } else { 512 };
/// A batch ends after this many bytes of files, because nobody can write to them until it is done.
const BATCH_BYTES: u64 = 64 << 20;
/// What the temporary names of all runs begin with.
const TEMPORARY: &str = ".seekless-dupes-";
