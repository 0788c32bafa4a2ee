//! A run: its steps are proven and written in the journal by one thread, batch by batch, and done by another.
//!
//! Not here: proving (`prove`), and doing (`change`).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::SystemTime;

use seekless_engine::files::{FileId, sync_file_system};
use seekless_engine::update::{StepKind, Watch};
use seekless_sys as sys;

use super::change::{act, unmake};
use super::dir_handle::Directories;
use super::hold::{LockedKeeper, Session};
use super::journal::{self, RunJournal, Written};
use super::prove::{ProvenStep, Prover};
use super::record::JournalLine;
use super::undo::recover_all;
use super::{
    ActingOptions, Action, BATCH, BATCH_BYTES, Error, Ran, RecoveredAct, RefusalReason, RunEvent, Step, StepOutcome,
    Unwatched, cannot, of_kept,
};
use crate::threads::in_threads;
use crate::watch::{JobCounters, JobWatch, report};

/// Threads that close the files of a batch.
const CLOSING_THREADS: usize = 8;

/// Does all steps, each completely or not at all. Journals of killed runs are recovered first.
///
/// # Errors
/// If the journal cannot be written: steps that are not in it are not begun.
pub fn run(
    action: &Action,
    steps: &[Step],
    options: &ActingOptions,
    watch: &dyn for<'e> JobWatch<RunEvent<'e>>,
) -> Result<Ran, Error> {
    run_watched(action, steps, options, watch, &Unwatched)
}

/// The same; `seam` is called before each change.
pub(crate) fn run_watched(
    action: &Action,
    steps: &[Step],
    options: &ActingOptions,
    watch: &dyn for<'e> JobWatch<RunEvent<'e>>,
    seam: &dyn Watch,
) -> Result<Ran, Error> {
    let directory = journal::directory(&options.state_directory);
    let stop = watch.stop();
    let recovered = |path: &Path, recovered: &RecoveredAct| report(watch, RunEvent::Recovered(path, recovered));
    recover_all(&directory, stop, &recovered, seam)?;
    journal::expire(&options.state_directory, SystemTime::now())?;
    let run = Run {
        session: Session::new(action, options, stop, seam),
        directory,
        journal: OnceLock::new(),
        ran: Mutex::default(),
        watch,
        counters: JobCounters::of_entries(steps.len()),
    };
    let mut written = Written::default();
    let next = thread::scope(|scope| {
        // The next steps are proven, and the journal is synced, while a batch is done.
        let (sender, batches) = sync_channel(0);
        let own = &run;
        let prepare = move || own.prepare_all(steps, &sender);
        let preparing = thread::Builder::new()
            .spawn_scoped(scope, prepare)
            .map_err(journal::failed(&run.directory, "cannot start a thread"))?;
        let done = batches.into_iter().try_for_each(|batch| run.act(batch, &mut written));
        let prepared = preparing.join().unwrap_or_else(|panic| resume_unwind(panic));
        done.and(prepared)
    });
    // No file of a step is open any more.
    for new in sys::lock_mutex(&run.session.unmade).drain(..) {
        // They are empty: nothing is lost if they stay.
        let _ = unmake(&new, &Directories::default());
    }
    let next = next?;
    for number in next..steps.len() {
        run.count(number, &RefusalReason::Stopped.into());
    }
    run.end(&written)
}

/// A run at work.
struct Run<'a> {
    session: Session<'a>,
    /// The directory of journals.
    directory: PathBuf,
    journal: OnceLock<RunJournal>,
    ran: Mutex<Ran>,
    watch: &'a dyn for<'e> JobWatch<RunEvent<'e>>,
    counters: JobCounters,
}

/// Closes the files of a batch. This frees the blocks of removed files; a file system mounted with `discard` then waits for its
/// device.
fn close(batch: Vec<ProvenStep>) {
    let threads = CLOSING_THREADS.min(batch.len());
    let rest = Mutex::new(batch.into_iter());
    let next = || sys::lock_mutex(&rest).next();
    in_threads(threads, || while next().map(drop).is_some() {});
}

/// What proving the steps of a batch shares.
#[derive(Default)]
struct Proving {
    directories: Directories,
    /// Kept files, or why they cannot be relied on.
    kept: HashMap<FileId, Result<Arc<LockedKeeper>, RefusalReason>>,
    /// Kept files that may still be held by the batch that is being done.
    before: HashMap<FileId, Weak<LockedKeeper>>,
    /// The file systems that were synced.
    synced: HashSet<u64>,
}

impl Run<'_> {
    /// Proves steps and writes them in the journal, batch by batch. Returns the number of the first step that was not tried.
    fn prepare_all(&self, steps: &[Step], batches: &SyncSender<Vec<ProvenStep>>) -> Result<usize, Error> {
        // Two batches are open at a time. A step may need two more files and two directories.
        let most_open = (sys::open_files_max() / 8 * 3).saturating_sub(8);
        let stop = self.session.stop;
        let mut proving = Proving::default();
        let mut next = 0;
        while next < steps.len() && !stop.is_stopped() {
            let mut prepared: Vec<ProvenStep> = Vec::new();
            let mut bytes = 0;
            while let Some(step) = steps.get(next) {
                match self.prepare(next as u64, step, &mut proving) {
                    Ok(one) => prepared.push(one),
                    Err(outcome) => self.count(next, &outcome),
                }
                next += 1;
                bytes = step.file.state.bytes.saturating_add(bytes);
                let is_open = prepared.len() + 2 * proving.kept.len() + proving.directories.len();
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
    fn leave_mapped(&self, prepared: &mut Vec<ProvenStep>) {
        let mut mappings = None;
        prepared.retain(|one| {
            let Some(files) = &one.files else { return true };
            let unmapped = self.session.require_unmapped(&files.kept, &files.held, &mut mappings);
            unmapped
                .map_err(|why| self.count(one.entry.number as usize, &why.into()))
                .is_ok()
        });
    }

    /// Proves that a step may be done.
    fn prepare(&self, number: u64, step: &Step, proving: &mut Proving) -> Result<ProvenStep, StepOutcome> {
        let session = &self.session;
        if step.file.is_directory {
            let directories = &proving.directories;
            return Ok(Prover { session, directories }.prepare_directory(number, step)?);
        }
        let id = step.keep.state.id();
        if step.file.state.id() == id && *self.session.action != Action::Names {
            return Err(RefusalReason::IsKept(step.keep.path.clone()).into());
        }
        let of_kept = of_kept(&step.keep.path);
        let kept = proving.keep(id, |directories| session.keep(step, directories).map_err(of_kept))?;
        let directories = &proving.directories;
        let prepared = Prover { session, directories }.prepare(number, step, &kept)?;
        if *self.session.action != Action::Reflink {
            self.sync_kept(step, &kept.held.file, proving)?;
        }
        Ok(prepared)
    }

    /// Syncs the file system of a kept file, unless that was done: a crash could lose a kept file that is not on its device yet.
    fn sync_kept(&self, step: &Step, kept: &File, proving: &mut Proving) -> Result<(), RefusalReason> {
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
    fn write_down(&self, prepared: &[ProvenStep]) -> Result<(), Error> {
        let (watch, action) = (self.session.watch, self.session.action);
        let journal = if let Some(open) = self.journal.get() {
            open
        } else {
            let made = RunJournal::make(&self.directory, action, watch)?;
            self.journal.get_or_init(|| made)
        };
        for one in prepared {
            journal.add(&JournalLine::Step(Box::new(one.entry.clone())));
        }
        journal.require_named()?;
        journal.sync(watch)
    }

    /// Does the steps of a batch.
    fn act(&self, batch: Vec<ProvenStep>, written: &mut Written) -> Result<(), Error> {
        let (session, directories) = (&self.session, Directories::default());
        let mut outcomes = Vec::with_capacity(batch.len());
        for one in &batch {
            directories.close_many();
            // Sharing blocks changes no name and no byte.
            if *session.action != Action::Reflink {
                written.note(&one.places[0], true);
            }
            let outcome = if session.stop.is_stopped() {
                RefusalReason::Stopped.into()
            } else {
                act(one, session, &directories)
            };
            let number = one.entry.number;
            self.count(number as usize, &outcome);
            outcomes.push((number, outcome));
        }
        close(batch);
        let Some(journal) = self.journal.get() else {
            return Ok(());
        };
        for (step, outcome) in outcomes {
            journal.add(&JournalLine::Outcome { step, outcome });
        }
        journal.write(session.watch)
    }

    fn count(&self, number: usize, outcome: &StepOutcome) {
        sys::lock_mutex(&self.ran).count(outcome);
        self.watch.progress(&self.counters.add(1, 0));
        report(self.watch, RunEvent::Step(number, outcome));
    }

    /// Writes the end of the journal, once what was done is durable.
    fn end(self, written: &Written) -> Result<Ran, Error> {
        let mut ran = sys::into_unlocked(self.ran);
        ran.is_stopped = self.session.stop.is_stopped();
        if let Some(journal) = self.journal.into_inner() {
            let end = JournalLine::End {
                ran: ran.clone(),
                was_killed: false,
            };
            journal.commit(written, self.session.watch, |journal| journal.add(&end))?;
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
        open: impl FnOnce(&Directories) -> Result<LockedKeeper, RefusalReason>,
    ) -> Result<Arc<LockedKeeper>, RefusalReason> {
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

    fn end_batch(&mut self) {
        self.directories.close();
        self.before.retain(|_, kept| kept.strong_count() > 0);
        let kept = self.kept.drain();
        self.before
            .extend(kept.filter_map(|(id, kept)| Some((id, Arc::downgrade(&kept.ok()?)))));
    }
}
