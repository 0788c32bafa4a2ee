//! Acting on files that equal others: removing, linking, sharing blocks, moving, and undoing that.
//!
//! Each step proves, at the moment of acting and on open files, that both files still are what was searched and that their
//! bytes are equal. What will be done is in a journal before it is done, so that it can be undone and a killed run can be
//! completed.
//!
//! Not here: which file of a group is kept, plans, and how outcomes look (the command's business).

mod change;
mod held;
mod journal;
mod place;
mod prepare;
mod settle;
#[cfg(test)]
mod tests;
pub mod undo;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use seekless::update::{Step as Watched, StepKind, Watch};
use seekless_sys::{self as sys, Support};
use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::walk::Facts;
use held::{Holding, Kept, Refused};
use journal::{Journal, before};
use prepare::{Prepared, fits, prepare};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The journal; `None` if nothing was done.
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
    pub source: io::Error,
}

/// Receives the outcome of each step by its number, from any thread.
pub type Tell<'a> = &'a (dyn Fn(usize, &Outcome) + Sync);

/// Steps that are proven, written in the journal and synced together.
const BATCH: usize = 128;
/// Files of a batch, after which it ends: nobody can write to them until it is done.
const BATCH_BYTES: u64 = 64 << 20;
/// Why a step was not begun.
const STOPPED: &str = "stopped before";

/// A watch that does nothing.
struct Unwatched;

impl Watch for Unwatched {
    fn before(&self, _step: &Watched<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Does all steps, each or nothing of it. Journals of killed runs are settled first.
///
/// # Errors
/// If the journal cannot be written: steps that are not in it are not begun.
pub fn run(action: &Action, steps: &[Step], options: &Options, stop: &Stop, tell: Tell<'_>) -> Result<Ran, Error> {
    run_watched(action, steps, options, stop, tell, &Unwatched)
}

/// The same; `watch` is called before each change.
pub(crate) fn run_watched(
    action: &Action,
    steps: &[Step],
    options: &Options,
    stop: &Stop,
    tell: Tell<'_>,
    watch: &dyn Watch,
) -> Result<Ran, Error> {
    settle::all(&journal::directory(&options.state_directory), watch)?;
    let mut run = Run {
        action,
        holding: Holding::new(options, stop),
        journal: None,
        synced: HashSet::new(),
        name: run_name(),
        ran: Ran::default(),
        tell,
        watch,
    };
    let mut rest = steps.iter().enumerate();
    while !stop.is_stopped() && run.batch(&mut rest)? {}
    for (number, _) in rest {
        run.count(number, &Outcome::Left { why: STOPPED.into() });
    }
    run.ran.is_stopped = stop.is_stopped();
    if let Some(journal) = &mut run.journal {
        journal.add_end(&run.ran, false);
        journal.write(watch)?;
        // What says of nothing that was done is no use.
        if run.ran.done + run.ran.failed == 0 && std::fs::remove_file(&journal.path).is_ok() {
            run.ran.journal = None;
        }
    }
    Ok(run.ran)
}

/// A text for temporary names that no other run has.
fn run_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), since.as_nanos() as u64)
}

/// A run at work.
struct Run<'a> {
    action: &'a Action,
    holding: Holding<'a>,
    journal: Option<Journal>,
    /// The file systems that were synced.
    synced: HashSet<u64>,
    name: String,
    ran: Ran,
    tell: Tell<'a>,
    watch: &'a dyn Watch,
}

/// Kept files of a batch, by device and inode; or why they cannot be relied on.
type AllKept = HashMap<(u64, u64), Result<Arc<Mutex<Kept>>, Refused>>;

impl Run<'_> {
    /// Does the next steps; whether there may be more.
    fn batch<'s>(&mut self, steps: &mut impl Iterator<Item = (usize, &'s Step)>) -> Result<bool, Error> {
        let most = BATCH.min(sys::open_files_max() / 8).max(1);
        let mut prepared: Vec<Prepared> = Vec::new();
        let mut all_kept = AllKept::new();
        let mut bytes = 0;
        let mut is_end = true;
        for (number, step) in steps {
            match self.prepare(number, step, &mut all_kept) {
                Ok(one) => prepared.push(one),
                Err(why) => self.count(number, &Outcome::Left { why }),
            }
            bytes += step.seen.bytes;
            if prepared.len() == most || all_kept.len() == most || bytes > BATCH_BYTES || self.holding.stop.is_stopped() {
                is_end = false;
                break;
            }
        }
        if !prepared.is_empty() {
            self.write_down(&prepared)?;
            for mut one in prepared {
                let outcome = if self.holding.stop.is_stopped() {
                    Outcome::Left { why: STOPPED.into() }
                } else {
                    change::act(&mut one, self.action, &mut self.holding, self.watch)
                };
                if let Some(journal) = &mut self.journal {
                    journal.add_outcome(one.entry.step, &outcome);
                }
                self.count(one.step, &outcome);
            }
        }
        self.holding.directories.close();
        if let Some(journal) = &mut self.journal {
            journal.write(self.watch)?;
        }
        Ok(!is_end)
    }

    /// Proves that a step may be done.
    fn prepare(&mut self, number: usize, step: &Step, all_kept: &mut AllKept) -> Result<Prepared, Refused> {
        let id = |seen: &Seen| (seen.device, seen.inode);
        if id(&step.seen) == id(&step.keep_seen) {
            return Err(format!("it is the kept file: {} is another name of it", step.keep.display()));
        }
        let kept = all_kept.entry(id(&step.keep_seen)).or_insert_with(|| {
            let kept = self.holding.keep(step)?;
            Ok(Arc::new(Mutex::new(kept)))
        });
        let kept = kept.as_ref().map_err(Clone::clone)?;
        let prepared = prepare((number, step), self.action, kept, &mut self.holding, &self.name)?;
        if *self.action != Action::Reflink {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // What relies on a file that is not on its device yet would be lost with it.
            self.sync_once(kept.held.facts.device, &kept.held.file)
                .map_err(|error| format!("cannot sync the file system of the kept file: {error}"))?;
        }
        Ok(prepared)
    }

    fn sync_once(&mut self, device: u64, file: &File) -> io::Result<()> {
        if self.synced.contains(&device) {
            return Ok(());
        }
        before(self.watch, StepKind::Sync, Path::new("/"))?;
        if let Support::Unavailable(_) = sys::sync_file_system(file)? {
            // Each kept file, where one file system alone cannot be synced.
            return sys::sync(file);
        }
        self.synced.insert(device);
        Ok(())
    }

    /// Writes steps in the journal, and brings it to the device.
    fn write_down(&mut self, prepared: &[Prepared]) -> Result<(), Error> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => {
                let directory = journal::directory(&self.holding.options.state_directory);
                let made = Journal::make(&directory, self.action, self.watch)?;
                self.ran.journal = Some(made.path.clone());
                none.insert(made)
            }
        };
        for one in prepared {
            journal.add(&one.entry.to_json());
        }
        journal.sync(self.watch)
    }

    fn count(&mut self, number: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Done { gained_bytes } => {
                self.ran.done += 1;
                self.ran.gained_bytes += gained_bytes;
            }
            Outcome::Left { .. } => self.ran.left += 1,
            Outcome::Failed { .. } => self.ran.failed += 1,
        }
        (self.tell)(number, outcome);
    }
}

/// Steps that will not be done, as far as can be said without reading files, and why.
#[must_use]
pub fn check(action: &Action, steps: &[Step], options: &Options) -> Vec<(usize, String)> {
    let stop = Stop::default();
    let holding = Holding::new(options, &stop);
    let mut found = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        if number % BATCH == 0 {
            holding.directories.close();
        }
        found.extend(refused(action, step, &holding).err().map(|why| (number, why)));
    }
    found
}

/// Fails with the reason why a step will not be done.
fn refused(action: &Action, step: &Step, holding: &Holding<'_>) -> Result<(), Refused> {
    let facts = |path: &Path| {
        let place = holding.directories.place(path).map_err(prepare::unopened)?;
        let found = place.facts().map_err(|error| format!("cannot stat: {error}"))?;
        Ok::<_, Refused>((place, found.ok_or("it is gone")?))
    };
    let of_kept = |why: Refused| format!("the kept file {}: {why}", step.keep.display());
    let (kept_place, kept) = facts(&step.keep).map_err(of_kept)?;
    if !step.keep_seen.is(&kept) {
        return Err(of_kept("changed since the search".into()));
    }
    let has_links = matches!(action, Action::Hardlink | Action::Symlink { .. });
    if has_links {
        holding.require_owner(&kept_place, &kept).map_err(of_kept)?;
    }
    if *action == Action::Hardlink {
        require_changeable(&step.keep).map_err(of_kept)?;
    }
    for path in &step.paths {
        let (place, found) = facts(path)?;
        if !step.seen.is(&found) {
            return Err("changed since the search".into());
        }
        holding.require_owner(&place, &found)?;
        fits(action, (found.device, kept.device))?;
        let behind = holding.directories.behind(found.device, place.directory.as_fd());
        let behind = behind.map_err(|error| format!("cannot examine its file system: {error}"))?;
        match () {
            () if behind.is_read_only => return Err("its file system is mounted read-only".into()),
            () if !behind.system.inodes_identify => return Err(held::UNSURE.into()),
            () if *action == Action::Reflink && !behind.system.may_share => {
                return Err("its file system cannot share blocks between files".into());
            }
            () => {}
        }
        require_changeable(path)?;
        if let Some(above) = path.parent().filter(|_| *action != Action::Reflink) {
            require_changeable(above).map_err(|why| format!("its directory: {why}"))?;
        }
        if *action == Action::Hardlink && !holding.options.ignore_metadata {
            let rights = |facts: &Facts| (facts.owner, facts.group, facts.mode);
            if rights(&found) != rights(&kept) {
                return Err("its owner, group or mode differs from that of the kept file, and hard links have only one".into());
            }
        }
        if let Action::Move { to } = action {
            prepare::missing(&to.join(path.strip_prefix("/").unwrap_or(path)), to, found.device, holding)?;
        }
    }
    Ok(())
}

/// Fails for what is immutable or append-only.
fn require_changeable(path: &Path) -> Result<(), Refused> {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) => Err(protection.to_owned()),
        _ => Ok(()),
    }
}
