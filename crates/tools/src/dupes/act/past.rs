//! The journals of past runs: which there are, and removing them.
//!
//! Not here: undoing what they say (`undo`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::journal::{self, RunJournal};
use super::record::StepRecord;
use super::{Action, Error};

/// What a journal says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// The journal.
    pub path: PathBuf,
    /// When the run began.
    pub started: SystemTime,
    /// What it did.
    pub action: Action,
    /// Files that were acted on, each with all its names.
    pub files: u64,
    /// Directories that were removed because their files moved.
    pub directories: u64,
    /// How many of both were undone.
    pub undone: u64,
    /// The space that the run freed.
    pub gained_bytes: u64,
    /// Whether the run is at work.
    pub is_running: bool,
    /// Whether something is left to settle or to undo.
    pub is_open: bool,
    /// Whether the run was stopped or killed before its end.
    pub is_interrupted: bool,
    /// Whether undoing it failed, and restored nothing, the last time.
    pub is_tried: bool,
}

impl PastRun {
    /// Whether all that it did was undone.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        let steps = self.files + self.directories;
        self.undone >= steps && steps > 0
    }
}

/// Journals are kept for 90 days.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// The newest are kept in any case: the clock may have been set forward.
const NEWEST_KEPT: usize = if cfg!(test) { 0 } else { 20 };

/// The journals, and why others cannot be trusted, each the newest first.
///
/// # Errors
/// If the directory cannot be read; one that does not exist has none.
pub fn list(state_directory: &Path) -> Result<(Vec<PastRun>, Vec<Error>), Error> {
    let (mut found, mut untrusted) = (Vec::new(), Vec::new());
    for path in journal::all(&journal::directory(state_directory))? {
        // The journal of a run at work is locked, but can be read.
        let (lines, is_running) = match RunJournal::open(&path) {
            Ok(Some(open)) => (open.read(), false),
            Ok(None) => (RunJournal::read_only(&path).and_then(|open| open.read()), true),
            Err(error) => (Err(error), false),
        };
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                if error.source.kind() == io::ErrorKind::PermissionDenied {
                    untrusted.push(error);
                }
                continue;
            }
        };
        let is_done = |entry: &&StepRecord| lines.outcomes.contains_key(&entry.number);
        let done: Vec<&StepRecord> = lines.undoable().filter(is_done).collect();
        let directories = done.iter().filter(|entry| entry.step.file.is_directory).count() as u64;
        let is_undone = |entry: &&&StepRecord| lines.undone.get(&entry.number) == Some(&true);
        let undone = done.iter().filter(is_undone).count();
        found.push(PastRun {
            path,
            started: lines.header.started(),
            action: lines.header.action.clone(),
            files: done.len() as u64 - directories,
            directories,
            undone: undone as u64,
            gained_bytes: lines.gained_bytes(),
            is_running,
            is_open: !lines.is_complete || undone < done.len(),
            is_interrupted: !lines.is_complete || lines.is_cut_short,
            is_tried: lines.is_tried,
        });
    }
    found.reverse();
    untrusted.reverse();
    Ok((found, untrusted))
}

/// Where the journal with a name is, if there is one.
#[must_use]
pub fn path_of(state_directory: &Path, name: &Path) -> PathBuf {
    let mut file = name.as_os_str().to_owned();
    if name.extension().is_none_or(|extension| extension != "jsonl") {
        file.push(".jsonl");
    }
    journal::directory(state_directory).join(file)
}

/// Opens a journal that is not at work.
pub(super) fn own(path: &Path) -> Result<RunJournal, Error> {
    RunJournal::open(path)?.ok_or_else(|| Error {
        path: path.to_owned(),
        action: "cannot lock the journal",
        source: io::Error::new(io::ErrorKind::WouldBlock, "its run, or an undo of it, is still running"),
    })
}

/// Removes a journal: what it says can no longer be undone.
///
/// # Errors
/// The system's, or that its run is still at work.
pub fn forget(journal: &Path) -> Result<(), Error> {
    let open = own(journal)?;
    // A file without a header is not a journal.
    open.read()?;
    std::fs::remove_file(journal).map_err(|source| Error {
        path: journal.to_owned(),
        action: "cannot remove the journal",
        source,
    })
}

/// Removes journals that are older than 90 days, but for the newest; returns how many.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn expire(state_directory: &Path, now: SystemTime) -> Result<u64, Error> {
    let mut count = 0;
    let mut all = journal::all(&journal::directory(state_directory))?;
    all.truncate(all.len().saturating_sub(NEWEST_KEPT));
    for path in all {
        let Ok(Some(open)) = RunJournal::open(&path) else {
            continue;
        };
        let Ok(started) = open.started() else { continue };
        let age = now.duration_since(started).unwrap_or_default();
        if age > KEPT && std::fs::remove_file(&path).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}
