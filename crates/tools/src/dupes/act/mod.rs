//! Acting on files that equal others: removing, linking, sharing blocks, moving, and undoing that.
//!
//! Each step proves, at the moment of acting and on open files, that both files still are what was searched and that their
//! bytes are equal. What will be done is in a journal before it is done, so that it can be undone and a killed run can be
//! completed.
//!
//! Not here: which file of a group is kept, plans, and how outcomes look (the command's business).

pub mod undo;

use std::path::PathBuf;

use crate::Stop;

/// What is done with a file that equals another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is removed.
    Remove,
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
        /// The directory, which exists; an absolute path.
        to: PathBuf,
    },
}

/// What a file was when it was searched: stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_size`.
    pub bytes: u64,
    /// `st_mtime`, in ns since 1970.
    pub modified_ns: i64,
    /// `st_ctime`, in ns since 1970.
    pub changed_ns: i64,
}

/// A file that is acted on, and the equal one that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// All names of the file that are acted on: absolute paths, without links and `..`.
    pub paths: Vec<PathBuf>,
    /// What it was.
    pub seen: Seen,
    /// The path of the file that is kept.
    pub keep: PathBuf,
    /// What that was.
    pub keep_seen: Seen,
    /// Why that one is kept; it is written in the journal.
    pub why: String,
}

/// How steps are done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether files are acted on that the system grants no lease on, because they are open for writing or the file
    /// system has no leases.
    pub is_busy: bool,
    /// Whether root acts in directories, and on files, of other users.
    pub unsafe_owner: bool,
    /// Whether files of different owner, mode or extended attributes become hard links of one file.
    pub ignore_metadata: bool,
    /// The directory for the state of programs: `dupes/` in it has the journals.
    pub state_directory: PathBuf,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done {
        /// The space that the file took and no longer takes.
        gained_bytes: u64,
    },
    /// Nothing was changed.
    Left {
        /// Why.
        why: String,
    },
    /// It could not be done, or not for all of its names.
    Failed {
        /// What failed, and where files are now that are not where they were.
        why: String,
    },
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The journal; `None` if nothing was begun.
    pub journal: Option<PathBuf>,
    /// Steps that were done.
    pub done: u64,
    /// Steps that changed nothing.
    pub left: u64,
    /// Steps that failed.
    pub failed: u64,
    /// The space that is free.
    pub gained_bytes: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

/// Why nothing, or nothing more, was done.
#[derive(Debug, thiserror::Error)]
#[error("{}: {action}: {source}", path.display())]
pub struct Error {
    /// A journal, or the directory of journals.
    pub path: PathBuf,
    /// What failed, as in `cannot write the journal`.
    pub action: &'static str,
    /// The system's reason.
    pub source: std::io::Error,
}

/// Receives the outcome of each step by its number, from any thread.
pub type Tell<'a> = &'a (dyn Fn(usize, &Outcome) + Sync);

/// Does all steps, each or nothing of it. Journals of killed runs are settled first.
///
/// # Errors
/// If the journal cannot be written: steps that are not in it are not begun.
pub fn run(action: &Action, steps: &[Step], options: &Options, stop: &Stop, tell: Tell<'_>) -> Result<Ran, Error> {
    let _ = (action, steps, options, stop, tell);
    Ok(Ran::default())
}

/// Steps that will not be done, as far as can be said without reading files, and why.
#[must_use]
pub fn check(action: &Action, steps: &[Step], options: &Options) -> Vec<(usize, String)> {
    let _ = (action, steps, options);
    Vec::new()
}
