//! Acting on files that equal others: removing, linking, sharing blocks, moving, and undoing that.
//!
//! Each step proves, at the moment of acting and on open files, that both files are unchanged since the search and that their bytes
//! are equal. A step is written to a journal before it is done, so that it can be undone and a killed run can be completed.
//!
//! Not here: which file of a group is kept, plans, and how outcomes look (the command's business).

mod change;
mod check;
pub mod choose;
pub mod copies;
mod directory;
mod held;
mod journal;
pub mod origin;
mod place;
pub mod plan;
mod prepare;
pub mod report;
pub mod rules;
mod settle;
#[cfg(test)]
mod tests;
mod twin;
pub mod undo;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use seekless::update::{Step as Watched, StepKind, Watch};
use seekless_sys as sys;

use crate::Stop;
use crate::threads::in_threads;
use crate::visible::visible_path;
pub use check::check;
use held::{Holding, Kept, Refused};
use journal::{Entry, Journal, Written, before, sync_file_system};
use place::Directories;
use prepare::{Prepared, prepare};

pub use super::contents::{Contents, Digest, Seen};
pub use directory::files_of;

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

/// A file, or a directory, that is acted on, and the equal one that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// All names of the file that are acted on: absolute paths, without links and `..`; of a directory, its path.
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
    /// There is nothing to gain; nothing was changed.
    Needless(Needless),
    /// It could not be done, or not for all of its names.
    Failed {
        /// What failed, and where displaced files are now.
        why: String,
    },
}

impl Outcome {
    /// Why it is not done.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Done { .. } => None,
            Self::Needless(needless) => Some(needless.to_string()),
            Self::Left { why } | Self::Failed { why } => Some(why.clone()),
        }
    }
}

/// Why there is nothing to gain by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Needless {
    /// It shares all its blocks with the kept file.
    #[error("it shares all its blocks with the file that stays")]
    Shared,
    /// It has no blocks of its own: it is empty, or stored with the metadata.
    #[error("it has no blocks of its own to share")]
    NoBlocks,
    /// It keeps its blocks, because it has names that are not acted on.
    #[error("it has hard links outside the search, which keep its blocks")]
    OtherNames,
}

/// Why a step is not done.
pub(super) enum Unready {
    Needless(Needless),
    Refused(Refused),
}

impl From<Refused> for Unready {
    fn from(why: Refused) -> Self {
        Self::Refused(why)
    }
}

impl From<&str> for Unready {
    fn from(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

impl From<Unready> for Outcome {
    fn from(unready: Unready) -> Self {
        match unready {
            Unready::Needless(needless) => Self::Needless(needless),
            Unready::Refused(why) => Self::Left { why },
        }
    }
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
pub enum Told<'a> {
    /// The outcome of a step, by its number.
    Step(usize, &'a Outcome),
    /// How a file, or the journal, of a killed run was settled.
    Settled(&'a Path, &'a Settled),
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The journal; `None` if nothing was done, or if the journal is lost.
    pub journal: Option<PathBuf>,
    /// Whether another program removed or renamed the journal: what was done cannot be undone.
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
pub type Tell<'a> = &'a (dyn Fn(Told<'_>) + Sync);

/// Steps that are proven, written in the journal and synced together: syncing takes as long as some hundred steps. Small ones
/// let tests reach several batches with few files.
const BATCH: usize = if cfg!(test) { 16 } else { 512 };
/// Threads that close the files of a batch.
const CLOSING_THREADS: usize = 8;
/// A batch ends after this many bytes of files, because nobody can write to them until it is done.
const BATCH_BYTES: u64 = 64 << 20;
/// A file in a directory counts for at least this many bytes.
const FILE_BYTES: u64 = 4096;
/// What the temporary names of all runs begin with.
const TEMPORARY: &str = ".seekless-dupes-";
/// Why a step was not begun.
const STOPPED: &str = "stopped before";

/// A watch that does nothing.
struct Unwatched;

impl Watch for Unwatched {
    fn before(&self, _step: &Watched<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Does all steps, each completely or not at all. Journals of killed runs are settled first.
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
    let directory = journal::directory(&options.state_directory);
    settle::all(&directory, &|path, settled| tell(Told::Settled(path, settled)), watch)?;
    undo::expire(&options.state_directory, SystemTime::now())?;
    let run = Run {
        action,
        holding: Holding::new(options, stop),
        directory,
        journal: Mutex::new(None),
        name: run_name(),
        ran: Mutex::default(),
        written: Mutex::default(),
        tell,
        watch,
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
    for name in run.holding.take_unmade() {
        // They are empty: nothing is lost if they stay.
        let _ = change::unmake(&name, &Directories::default());
    }
    let next = next?;
    for number in next..steps.len() {
        run.count(number, &Outcome::Left { why: STOPPED.into() });
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
    action: &'a Action,
    holding: Holding<'a>,
    /// The directory of journals.
    directory: PathBuf,
    journal: Mutex<Option<Journal>>,
    name: String,
    ran: Mutex<Ran>,
    written: Mutex<Written>,
    tell: Tell<'a>,
    watch: &'a dyn Watch,
}

/// A step that is proven, and not done yet.
enum Ready {
    File(Box<Prepared>),
    Directory(Box<directory::Proven>),
}

impl Ready {
    fn entry(&self) -> &Entry {
        match self {
            Self::File(prepared) => &prepared.entry,
            Self::Directory(proven) => &proven.entry,
        }
    }

    /// A name that is acted on, and the device of its file system.
    fn place(&self) -> (&place::Place, u64) {
        match self {
            Self::File(prepared) => (&prepared.places[0], prepared.held.facts().device),
            Self::Directory(proven) => proven.place(),
        }
    }

    /// Files and directories that are open until it is done.
    fn handles(&self) -> usize {
        match self {
            Self::File(_) => 1,
            Self::Directory(_) => 2,
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
    /// Kept files, by device and inode, or why they cannot be relied on.
    kept: HashMap<(u64, u64), Result<Arc<Kept>, Refused>>,
    /// Kept files that may still be held by the batch that is being done.
    before: HashMap<(u64, u64), Weak<Kept>>,
    /// The file systems that were synced.
    synced: HashSet<u64>,
}

impl Run<'_> {
    /// Proves steps and writes them in the journal, batch by batch. Returns the number of the first step that was not tried.
    fn prepare_all(&self, steps: &[Step], batches: &SyncSender<Vec<Ready>>) -> Result<usize, Error> {
        // Two batches are open at a time. A step may need two more files and two directories.
        let most_open = (sys::open_files_max() / 8 * 3).saturating_sub(8);
        let mut proving = Proving::default();
        let mut next = 0;
        while next < steps.len() && !self.holding.stop.is_stopped() {
            let mut prepared: Vec<Ready> = Vec::new();
            let (mut bytes, mut handles) = (0, 0);
            while let Some(step) = steps.get(next) {
                match self.prepare(next, step, &mut proving) {
                    Ok(one) => {
                        handles += one.handles();
                        prepared.push(one);
                    }
                    Err(unready) => self.count(next, &unready.into()),
                }
                next += 1;
                // The listings of directories stay in memory.
                let files = step.seen.contents.map_or(0, |contents| contents.files);
                bytes = step
                    .seen
                    .bytes
                    .max(files.saturating_mul(FILE_BYTES))
                    .saturating_add(bytes);
                let is_open = handles + proving.open();
                let is_full = prepared.len() == BATCH || is_open >= most_open || bytes > BATCH_BYTES;
                if is_full || self.holding.stop.is_stopped() {
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
            let unmapped = self.holding.require_unmapped(&file.kept, &file.held, &mut mappings);
            unmapped
                .map_err(|why| self.count(file.entry.step as usize, &Outcome::Left { why }))
                .is_ok()
        });
    }

    /// Proves that a step may be done.
    fn prepare(&self, number: usize, step: &Step, proving: &mut Proving) -> Result<Ready, Unready> {
        let id = |seen: &Seen| (seen.device, seen.inode);
        if id(&step.seen) == id(&step.keep_seen) {
            return Err(format!(
                "it is the kept file: {} is another name of it",
                visible_path(&step.keep)
            )
            .into());
        }
        if step.seen.contents.is_some() {
            let proven = directory::prepare((number, step), self.action, &self.holding, &proving.directories)?;
            let kept = proven.kept();
            let (device, file) = kept.map_err(|error| format!("cannot open the kept directory: {error}"))?;
            self.sync_kept(step, device, &file, proving)?;
            return Ok(Ready::Directory(Box::new(proven)));
        }
        let kept = proving.keep(id(&step.keep_seen), |directories| self.holding.keep(step, directories))?;
        let prepared = prepare(
            (number, step),
            self.action,
            &kept,
            (&self.holding, &proving.directories),
            &self.name,
        )?;
        if *self.action != Action::Reflink {
            self.sync_kept(step, kept.held.facts().device, &kept.held.file, proving)?;
        }
        Ok(Ready::File(Box::new(prepared)))
    }

    /// Syncs the file system of a kept file, unless that was done: a crash could lose a kept file that is not on its device yet.
    fn sync_kept(&self, step: &Step, device: u64, kept: &File, proving: &mut Proving) -> Result<(), Refused> {
        if proving.synced.contains(&device) {
            return Ok(());
        }
        let synced = before(self.watch, StepKind::Sync, &step.keep).and_then(|()| sync_file_system(kept));
        synced.map_err(|error| format!("cannot sync the file system of the kept file: {error}"))?;
        proving.synced.insert(device);
        Ok(())
    }

    /// Writes steps in the journal, and syncs it.
    fn write_down(&self, prepared: &[Ready]) -> Result<(), Error> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &mut *journal {
            Some(open) => open,
            none => none.insert(Journal::make(&self.directory, self.action, self.watch)?),
        };
        for one in prepared {
            open.add(&one.entry().to_json());
        }
        open.require_named()?;
        open.write(self.watch)?;
        let syncing = open.syncing()?;
        drop(journal);
        syncing.sync(self.watch)
    }

    /// Does the steps of a batch.
    fn act(&self, batch: Vec<Ready>) -> Result<(), Error> {
        let directories = Directories::default();
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &batch {
            directories.close_many();
            // Sharing blocks changes no name and no byte.
            if *self.action != Action::Reflink {
                let (place, device) = one.place();
                written.note(place, device);
            }
            let outcome = if self.holding.stop.is_stopped() {
                Outcome::Left { why: STOPPED.into() }
            } else {
                let acting = (&self.holding, &directories);
                match one {
                    Ready::File(prepared) => change::act(prepared, self.action, acting, self.watch),
                    Ready::Directory(proven) => directory::act(proven, acting, self.watch),
                }
            };
            let number = one.entry().step;
            self.count(number as usize, &outcome);
            outcomes.push((number, outcome));
        }
        close(batch);
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(journal) = &mut *journal else { return Ok(()) };
        for (step, outcome) in &outcomes {
            journal.add_outcome(*step, outcome);
        }
        journal.write(self.watch)
    }

    fn count(&self, number: usize, outcome: &Outcome) {
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Outcome::Done { gained_bytes } => {
                ran.done += 1;
                ran.gained_bytes += gained_bytes;
            }
            Outcome::Left { .. } => ran.left += 1,
            Outcome::Needless(_) => ran.needless += 1,
            Outcome::Failed { .. } => ran.failed += 1,
        }
        drop(ran);
        (self.tell)(Told::Step(number, outcome));
    }

    /// Writes the end of the journal, once what was done is durable.
    fn end(self) -> Result<Ran, Error> {
        let mut ran = self.ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran.is_stopped = self.holding.stop.is_stopped();
        let journal = self.journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut journal) = journal {
            let written = self.written.into_inner().unwrap_or_else(PoisonError::into_inner);
            journal.commit(&written, self.watch, |journal| journal.add_end(&ran, false))?;
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
        id: (u64, u64),
        open: impl FnOnce(&Directories) -> Result<Kept, Refused>,
    ) -> Result<Arc<Kept>, Refused> {
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
