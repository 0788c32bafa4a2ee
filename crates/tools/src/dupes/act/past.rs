//! The journals of past runs: which there are, and removing them.
//!
//! Not here: undoing what they say (`undo`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::journal::{self, RunJournal};
use super::record::StepRecord;
use super::{Action, Error, StepOutcome};

/// What a journal says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// The journal.
    pub path: PathBuf,
    /// When the run began.
    pub started: SystemTime,
    /// What it did.
    pub action: Action,
    /// Names that were acted on.
    pub names: u64,
    /// Those of them that were undone.
    pub undone: u64,
    /// The space that the run freed.
    pub gained_bytes: u64,
    /// Whether the run is at work.
    pub is_running: bool,
    /// Whether the run ended; else it was killed.
    pub is_complete: bool,
    /// Whether undoing it failed, and restored nothing, the last time.
    pub is_tried: bool,
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
        let names = |steps: &dyn Fn(&StepRecord) -> bool| -> u64 {
            let chosen = lines.entries.iter().filter(|entry| steps(entry));
            chosen.map(|entry| entry.names.len() as u64).sum()
        };
        let has_acted = |entry: &StepRecord| lines.outcomes.get(&entry.number).is_some_and(StepOutcome::has_acted);
        found.push(PastRun {
            path,
            started: lines.header.started(),
            action: lines.header.action.clone(),
            names: names(&has_acted),
            undone: names(&|entry| lines.undone.get(&entry.number) == Some(&true)),
            gained_bytes: lines.gained_bytes(),
            is_running,
            is_complete: lines.is_complete,
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
