//! Acting on files that equal others: removing, linking, sharing blocks, moving, and undoing that.
//!
//! Each step proves, at the moment of acting and on open files, that both files are unchanged since the search and that their bytes
//! are equal. A step is written to a journal before it is done, so that it can be undone and a killed run can be completed.
//!
//! Not here: how plans and outcomes look (the command's business).

mod change;
pub mod choose;
pub mod copies;
mod directory;
mod held;
mod journal;
mod name_state;
pub mod origin;
mod place;
pub mod plan;
mod prepare;
pub mod report;
pub mod rules;
mod session;
mod settle;
#[cfg(test)]
mod tests;
mod twin;
pub mod undo;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use seekless::files::{FileId, FileState};
use seekless::update::{StepKind, Watch, WatchedStep};
use seekless_sys as sys;
use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::json;
use crate::threads::in_threads;
use crate::visible::visible_path;
use held::HeldKept;
use journal::{RunJournal, StepRecord, Written, sync_file_system};
use place::Directories;
use prepare::ProvenFile;
pub use prepare::check;
use session::Session;

/// What is done with a file that equals another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
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
        #[serde(with = "json::path")]
        to: PathBuf,
    },
}

impl Action {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Hardlink => "hardlink",
            Self::Symlink { .. } => "symlink",
            Self::Reflink => "reflink",
            Self::Move { .. } => "move",
        }
    }

    /// Whether equal directories may be acted on as a whole. Links and removal would leave empty ones.
    #[must_use]
    pub fn takes_directories(&self) -> bool {
        matches!(self, Self::Reflink | Self::Move { .. })
    }

    /// Whether a file and the one kept for it must be on one file system.
    pub(crate) fn is_on_one_file_system(&self) -> bool {
        matches!(self, Self::Hardlink | Self::Reflink)
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
    pub why: String,
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

/// How steps are done.
#[derive(Clone, Debug)]
pub struct ActingOptions {
    /// Whether to act on files even if the system grants no lease, because they are open for writing or the file
    /// system has no leases.
    pub is_busy: bool,
    /// Whether root acts on files of other users, and below directories that others own or may write to; and whether symbolic
    /// links of any user may lead through such directories.
    pub unsafe_owner: bool,
    /// Whether files of different owner, mode or extended attributes become hard links of one file, symbolic links may lead
    /// to a file of another owner or with more rights, and files go whose owner, group or attributes only root could restore.
    pub ignore_metadata: bool,
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
        why: String,
    },
    /// There is nothing to gain; nothing was changed.
    Needless {
        /// Why.
        why: Needless,
    },
    /// It could not be done, or not for all of its names.
    Failed {
        /// What failed, and where displaced files are now.
        why: String,
    },
}

impl StepOutcome {
    /// Why it is not done.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Done { .. } => None,
            Self::Needless { why } => Some(why.to_string()),
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

/// Why a file is left alone.
type Refused = String;

impl From<Refused> for StepOutcome {
    fn from(why: Refused) -> Self {
        Self::Left { why }
    }
}

/// The reason for which a call failed.
fn cannot<E: fmt::Display>(action: &str) -> impl Fn(E) -> Refused + '_ {
    move |error| format!("cannot {action}: {error}")
}

/// The same, of the kept file.
fn of_kept(path: &Path) -> impl Fn(Refused) -> Refused + '_ {
    move |why| format!("the kept file {}: {why}", visible_path(path))
}

/// Why there is nothing to gain by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needless {
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

/// How a killed run was settled when the next one began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
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
        why: String,
    },
}

/// What a run reports while it is at work.
#[derive(Clone, Copy, Debug)]
pub enum RunEvent<'a> {
    /// The outcome of a step, by its number.
    Step(usize, &'a StepOutcome),
    /// How a file, or the journal, of a killed run was settled.
    Settled(&'a Path, &'a Settled),
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

/// Receives how killed runs were settled, then the outcome of each step, from any thread.
pub type Tell<'a> = &'a (dyn Fn(RunEvent<'_>) + Sync);

/// Steps that are proven, written in the journal and synced together: syncing takes as long as some hundred steps. Small ones
/// let tests reach several batches with few files.
const BATCH: usize = if cfg!(test) { 16 } else { 512 };
/// Threads that close the files of a batch.
const CLOSING_THREADS: usize = 8;
/// A batch ends after this many bytes of files, because nobody can write to them until it is done.
const BATCH_BYTES: u64 = 64 << 20;
/// What the temporary names of all runs begin with.
const TEMPORARY: &str = ".seekless-dupes-";
/// Why a step was not begun.
const STOPPED: &str = "stopped before";

/// A watch that does nothing.
struct Unwatched;

impl Watch for Unwatched {
    fn before(&self, _step: &WatchedStep<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Does all steps, each completely or not at all. Journals of killed runs are settled first.
///
/// # Errors
/// If the journal cannot be written: steps that are not in it are not begun.
pub fn run(
    action: &Action,
    steps: &[Step],
    options: &ActingOptions,
    stop: &Stop,
    tell: Tell<'_>,
) -> Result<Ran, Error> {
    run_watched(action, steps, options, stop, tell, &Unwatched)
}

/// The same; `watch` is called before each change.
pub(crate) fn run_watched(
    action: &Action,
    steps: &[Step],
    options: &ActingOptions,
    stop: &Stop,
    tell: Tell<'_>,
    watch: &dyn Watch,
) -> Result<Ran, Error> {
    let directory = journal::directory(&options.state_directory);
    settle::all(
        &directory,
        &|path, settled| tell(RunEvent::Settled(path, settled)),
        watch,
    )?;
    undo::expire(&options.state_directory, SystemTime::now())?;
    let run = Run {
        session: Session::new(action, options, stop, watch),
        directory,
        journal: Mutex::new(None),
        name: run_name(),
        ran: Mutex::default(),
        written: Mutex::default(),
        tell,
    };
    let next = thread::scope(|scope| {
        // The next steps are proven, and the journal is synced, while a batch is done.
        let (sender, batches) = sync_channel(0);
        let own = &run;
        let prepare = move || own.prepare_all(steps, &sender);
        let preparing = thread::Builder::new().spawn_scoped(scope, prepare);
        let preparing = preparing.map_err(|source| Error {
            path: run.directory.clone(),
            action: "cannot start a thread",
            source,
        });
        let preparing = preparing?;
        let done = batches.into_iter().try_for_each(|batch| run.act(batch));
        let prepared = preparing.join().unwrap_or_else(|panic| resume_unwind(panic));
        done.and(prepared)
    });
    // No file of a step is open any more.
    for name in run.session.take_unmade() {
        // They are empty: nothing is lost if they stay.
        let _ = change::unmake(&name, &Directories::default());
    }
    let next = next?;
    for number in next..steps.len() {
        run.count(number, &StepOutcome::Left { why: STOPPED.into() });
    }
    run.end()
}

/// A string for temporary names, unique to this run.
fn run_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), since.as_nanos() as u64)
}

/// A run at work.
struct Run<'a> {
    session: Session<'a>,
    /// The directory of journals.
    directory: PathBuf,
    journal: Mutex<Option<RunJournal>>,
    name: String,
    ran: Mutex<Ran>,
    written: Mutex<Written>,
    tell: Tell<'a>,
}

/// A step that is proven, and not done yet.
enum Ready {
    File(Box<ProvenFile>),
    Directory(Box<directory::Emptied>),
}

impl Ready {
    fn entry(&self) -> &StepRecord {
        match self {
            Self::File(prepared) => &prepared.entry,
            Self::Directory(emptied) => &emptied.entry,
        }
    }

    /// A name that is acted on.
    fn place(&self) -> &place::NameInDirectory {
        match self {
            Self::File(prepared) => &prepared.places[0],
            Self::Directory(emptied) => &emptied.place,
        }
    }
}

/// Closes the files of a batch. This frees the blocks of removed files; a file system mounted with `discard` then waits for its
/// device.
fn close(batch: Vec<Ready>) {
    let threads = CLOSING_THREADS.min(batch.len());
    let rest = Mutex::new(batch.into_iter());
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    in_threads(threads, || while next().map(drop).is_some() {});
}

/// What proving the steps of a batch shares.
#[derive(Default)]
struct Proving {
    directories: Directories,
    /// Kept files, or why they cannot be relied on.
    kept: HashMap<FileId, Result<Arc<HeldKept>, Refused>>,
    /// Kept files that may still be held by the batch that is being done.
    before: HashMap<FileId, Weak<HeldKept>>,
    /// The file systems that were synced.
    synced: HashSet<u64>,
}

impl Run<'_> {
    /// Proves steps and writes them in the journal, batch by batch. Returns the number of the first step that was not tried.
    fn prepare_all(&self, steps: &[Step], batches: &SyncSender<Vec<Ready>>) -> Result<usize, Error> {
        // Two batches are open at a time. A step may need two more files and two directories.
        let most_open = (sys::open_files_max() / 8 * 3).saturating_sub(8);
        let stop = self.session.stop;
        let mut proving = Proving::default();
        let mut next = 0;
        while next < steps.len() && !stop.is_stopped() {
            let mut prepared: Vec<Ready> = Vec::new();
            let mut bytes = 0;
            while let Some(step) = steps.get(next) {
                match self.prepare(next as u64, step, &mut proving) {
                    Ok(one) => prepared.push(one),
                    Err(outcome) => self.count(next, &outcome),
                }
                next += 1;
                bytes = step.file.state.bytes.saturating_add(bytes);
                let is_open = prepared.len() + proving.open();
                let is_full = prepared.len() == BATCH || is_open >= most_open || bytes > BATCH_BYTES;
                if is_full || stop.is_stopped() {
                    break;
                }
            }
            self.leave_mapped(&mut prepared);
            if !prepared.is_empty() {
                self.write_down(&prepared)?;
                if batches.send(prepared).is_err() {
                    // Acting failed.
                    break;
                }
            }
            proving.end_batch();
        }
        Ok(next)
    }

    /// Leaves files alone that a process may have mapped, once all leases of a batch are taken.
    fn leave_mapped(&self, prepared: &mut Vec<Ready>) {
        let mut mappings = None;
        prepared.retain(|one| {
            let Ready::File(file) = one else { return true };
            let unmapped = self.session.require_unmapped(&file.kept, &file.held, &mut mappings);
            unmapped
                .map_err(|why| self.count(file.entry.number as usize, &why.into()))
                .is_ok()
        });
    }

    /// Proves that a step may be done.
    fn prepare(&self, number: u64, step: &Step, proving: &mut Proving) -> Result<Ready, StepOutcome> {
        if step.file.is_directory {
            let emptied = directory::prepare(number, step, &self.name, &self.session, &proving.directories)?;
            return Ok(Ready::Directory(Box::new(emptied)));
        }
        let id = step.keep.state.id();
        if step.file.state.id() == id {
            return Err(held::is_kept(&step.keep.path).into());
        }
        let kept = proving.keep(id, |directories| self.session.keep(step, directories))?;
        let prepared = prepare::prepare(number, step, &kept, &self.name, &self.session, &proving.directories)?;
        if *self.session.action != Action::Reflink {
            self.sync_kept(step, &kept.held.file, proving)?;
        }
        Ok(Ready::File(Box::new(prepared)))
    }

    /// Syncs the file system of a kept file, unless that was done: a crash could lose a kept file that is not on its device yet.
    fn sync_kept(&self, step: &Step, kept: &File, proving: &mut Proving) -> Result<(), Refused> {
        if proving.synced.contains(&step.keep.state.device) {
            return Ok(());
        }
        let told = self.session.watch.announce(StepKind::Sync, &step.keep.path);
        let synced = told.and_then(|()| sync_file_system(kept));
        synced.map_err(cannot("sync the file system of the kept file"))?;
        proving.synced.insert(step.keep.state.device);
        Ok(())
    }

    /// Writes steps in the journal, and syncs it.
    fn write_down(&self, prepared: &[Ready]) -> Result<(), Error> {
        let watch = self.session.watch;
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &mut *journal {
            Some(open) => open,
            none => none.insert(RunJournal::make(
                &self.directory,
                self.session.action,
                &self.name,
                watch,
            )?),
        };
        for one in prepared {
            open.add_step(one.entry());
        }
        open.require_named()?;
        open.write(watch)?;
        let syncing = open.syncing()?;
        drop(journal);
        syncing.sync(watch)
    }

    /// Does the steps of a batch.
    fn act(&self, batch: Vec<Ready>) -> Result<(), Error> {
        let (session, directories) = (&self.session, Directories::default());
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &batch {
            directories.close_many();
            // Sharing blocks changes no name and no byte.
            if *session.action != Action::Reflink {
                written.note(one.place());
            }
            let outcome = match one {
                _ if session.stop.is_stopped() => StepOutcome::Left { why: STOPPED.into() },
                Ready::File(prepared) => change::act(prepared, session, &directories),
                Ready::Directory(emptied) => directory::act(emptied, session, &directories),
            };
            let number = one.entry().number;
            self.count(number as usize, &outcome);
            outcomes.push((number, outcome));
        }
        close(batch);
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(journal) = &mut *journal else { return Ok(()) };
        for (step, outcome) in &outcomes {
            journal.add_outcome(*step, outcome);
        }
        journal.write(session.watch)
    }

    fn count(&self, number: usize, outcome: &StepOutcome) {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).count(outcome);
        (self.tell)(RunEvent::Step(number, outcome));
    }

    /// Writes the end of the journal, once what was done is durable.
    fn end(self) -> Result<Ran, Error> {
        let mut ran = self.ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran.is_stopped = self.session.stop.is_stopped();
        let journal = self.journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut journal) = journal {
            let written = self.written.into_inner().unwrap_or_else(PoisonError::into_inner);
            journal.commit(&written, self.session.watch, |journal| journal.add_end(&ran, false))?;
            if journal.require_named().is_err() {
                ran.is_journal_lost = ran.done + ran.failed > 0;
                return Ok(ran);
            }
            // A journal of a run that did nothing is useless.
            if ran.done + ran.failed > 0 || std::fs::remove_file(&journal.path).is_err() {
                ran.journal = Some(journal.path);
            }
        }
        Ok(ran)
    }
}

impl Proving {
    /// The kept file of a step, which is opened once for all that are done at a time.
    fn keep(
        &mut self,
        id: FileId,
        open: impl FnOnce(&Directories) -> Result<HeldKept, Refused>,
    ) -> Result<Arc<HeldKept>, Refused> {
        let (before, directories) = (&self.before, &self.directories);
        let kept = self.kept.entry(id).or_insert_with(|| {
            let held = before.get(&id).and_then(Weak::upgrade);
            match held.filter(|kept| kept.held.is_alone()) {
                Some(kept) => Ok(kept),
                None => open(directories).map(Arc::new),
            }
        });
        kept.clone()
    }

    /// The number of files and directories that are open.
    fn open(&self) -> usize {
        2 * self.kept.len() + self.directories.len()
    }

    fn end_batch(&mut self) {
        self.directories.close();
        self.before.retain(|_, kept| kept.strong_count() > 0);
        let kept = self.kept.drain();
        self.before
            .extend(kept.filter_map(|(id, kept)| Some((id, Arc::downgrade(&kept.ok()?)))));
    }
}
