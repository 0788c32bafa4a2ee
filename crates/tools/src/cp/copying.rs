//! The threads that copy what is in the queue, and what they share.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::FileType;
use seekless::files::FileId;

use super::data::Data;
use super::journal::CopyJournal;
use super::links::Links;
use super::pair::{At, copy_path};
use super::queue::{CopyBatch, CopyJob, Queue, Work, lock};
use super::stored_times::StoredTimes;
use super::{CpFailure, CpOptions, CpSummary, CpWatch};
use crate::Stop;
use crate::threads::in_threads;

/// What all threads share.
pub(super) struct Copying<'a> {
    pub options: &'a CpOptions,
    pub stop: &'a Stop,
    pub watch: &'a dyn CpWatch,
    pub links: Links,
    pub data: Data,
    pub stored_times: StoredTimes,
    /// Why files are fetched in the order of their places; `None` if they are not.
    pub by_place: OnceLock<Option<String>>,
    /// In how many directories that was to be found out.
    pub looks: AtomicU32,
    /// Whether something is left that the same copy would go on with.
    pub is_left: AtomicBool,
    /// Whether a staged tree has a file that is not whole and could not be removed.
    pub has_partial: AtomicBool,
    /// Of trees.
    pub journal: Option<CopyJournal>,
    /// The copies of named directories: none of them is copied into itself.
    pub targets: Mutex<Vec<FileId>>,
    /// Directories of the source that are not complete.
    pub entered: Mutex<HashSet<FileId>>,
    /// Whether the last file was not in memory.
    meets_cold: AtomicBool,
    /// Threads that copy files that are in memory.
    pub threads: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What a thread did.
#[derive(Default)]
pub(super) struct Worker {
    pub done: CpSummary,
    pub buffer: Vec<u8>,
}

/// While files that are not in memory are copied, threads wait for the device most of the time: so many work for each one.
const COLD_THREADS: usize = 4;

impl<'a> Copying<'a> {
    pub fn new(options: &'a CpOptions, stop: &'a Stop, watch: &'a dyn CpWatch) -> Self {
        Self {
            options,
            stop,
            watch,
            links: Links::default(),
            data: Data::default(),
            stored_times: StoredTimes::default(),
            by_place: OnceLock::new(),
            looks: AtomicU32::new(0),
            is_left: AtomicBool::new(false),
            has_partial: AtomicBool::new(false),
            journal: None,
            targets: Mutex::default(),
            entered: Mutex::default(),
            meets_cold: AtomicBool::new(false),
            threads: 1,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Does what is queued, and all that follows from it. Of trees, files that are not in memory are copied by more threads.
    pub fn run(&self, has_trees: bool) -> CpSummary {
        let mut all = CpSummary {
            threads: self.threads as u64,
            ..CpSummary::default()
        };
        let most = self.threads * if has_trees { COLD_THREADS } else { 1 };
        for worker in in_threads(most, || self.work()) {
            all.add(&worker.done);
        }
        all
    }

    /// How many threads may work.
    fn threads_max(&self) -> usize {
        if self.meets_cold() && !self.is_by_place() {
            self.threads * COLD_THREADS
        } else {
            self.threads
        }
    }

    /// Whether the last file was not in memory.
    pub fn meets_cold(&self) -> bool {
        self.meets_cold.load(Ordering::Relaxed)
    }

    /// Notes whether a file was in memory.
    pub fn meet(&self, is_cold: bool) {
        if self.meets_cold() != is_cold {
            self.meets_cold.store(is_cold, Ordering::Relaxed);
            if is_cold {
                self.changed.notify_all();
            }
        }
    }

    fn work(&self) -> Worker {
        let mut worker = Worker::default();
        while let Some(work) = self.next() {
            let mut copied = None;
            match work {
                Work::Job(CopyJob::Enter(directory)) => self.enter(&directory, &mut worker),
                Work::Job(CopyJob::List(directory, from)) => self.list(&directory, from, &mut worker),
                Work::Job(CopyJob::Named(directory, from, to)) => {
                    if let Some(handles) = self.handles(&directory, &mut worker) {
                        let at = At {
                            to: &to,
                            ..At::of(&directory, handles.borrowed(), &from)
                        };
                        self.copy_named(&at, &mut worker);
                    }
                }
                Work::Batch(batch) => {
                    copied = Some(Arc::clone(&batch.listed));
                    self.copy_files(batch, &mut worker);
                }
                Work::Fetch(mut batches) => {
                    let rest = self.fetch(&mut batches);
                    let mut queue = self.lock();
                    queue.fetched.extend(batches);
                    rest.into_iter().rev().for_each(|batch| queue.batches.push_front(batch));
                    queue.is_fetching = false;
                    self.changed.notify_all();
                }
            }
            let mut queue = self.lock();
            if let Some(copied) = copied
                && let Some(busy) = queue.busy.iter().position(|busy| Arc::ptr_eq(busy, &copied))
            {
                queue.busy.swap_remove(busy);
            }
            queue.at_work -= 1;
            if queue.at_work == 0 && queue.is_empty() {
                self.changed.notify_all();
            }
        }
        worker
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.lock();
        loop {
            if self.stop.is_stopped() {
                self.changed.notify_all();
                return None;
            }
            if queue.at_work < self.threads_max()
                && let Some(work) = queue.take(self.is_by_place())
            {
                queue.at_work += 1;
                return Some(work);
            }
            if queue.at_work == 0 {
                return None;
            }
            queue.asleep += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.asleep -= 1;
        }
    }

    /// Queues jobs; the last is done first.
    pub fn push(&self, jobs: impl IntoIterator<Item = CopyJob>) {
        self.lock().jobs.extend(jobs);
        self.changed.notify_one();
    }

    /// Queues what was listed, and wakes as many threads as may work on it.
    pub fn push_listed(&self, jobs: Vec<CopyJob>, batches: impl Iterator<Item = CopyBatch>) {
        let mut queue = self.lock();
        queue.jobs.extend(jobs);
        queue.batches.extend(batches);
        let more = (queue.jobs.len() + queue.batches.len())
            .saturating_sub(1)
            .min(queue.asleep)
            .min(self.threads_max().saturating_sub(queue.at_work));
        drop(queue);
        for _ in 0..more {
            self.changed.notify_one();
        }
    }

    /// Copies what is not a directory among entries.
    fn copy_files(&self, mut batch: CopyBatch, worker: &mut Worker) {
        let listed = Arc::clone(&batch.listed);
        let entries = listed.listing.entries();
        let numbers = batch.range.clone().map(|number| (number, &entries[number]));
        let files = numbers.filter(|(_, entry)| entry.kind != FileType::Directory);
        let Some(handles) = self.handles(&listed.directory, worker) else {
            self.finish(&listed.directory, files.count(), worker);
            return;
        };
        let (mut finished, mut ahead) = (0, 0);
        for (number, entry) in files {
            if self.stop.is_stopped() {
                return;
            }
            if self.meets_cold() {
                self.fetch_ahead(&mut batch, number, &mut ahead);
            }
            let name = listed.listing.c_str(entry);
            let at = At {
                was_fetched: batch.fetched.contains(&number),
                ..At::of(&listed.directory, handles.borrowed(), name)
            };
            finished += usize::from(self.copy_entry(&at, Some(entry.kind), worker));
        }
        self.watch.entries(finished);
        self.finish(&listed.directory, finished, worker);
        if let Some(Err(error)) = self.journal.as_ref().map(CopyJournal::checkpoint) {
            let path = copy_path(&listed.directory);
            self.fail(worker, path, "sync what was copied so far", &error);
        }
    }

    /// Reports a failure.
    pub fn fail(&self, worker: &mut Worker, path: PathBuf, action: &'static str, error: &io::Error) {
        if error.kind() == io::ErrorKind::Interrupted && self.stop.is_stopped() {
            return;
        }
        worker.done.failures += 1;
        let reason = error.to_string();
        self.watch.failed(&CpFailure { path, action, reason });
        if is_full(error) {
            // Nothing else would fit; what is there stays.
            self.stop.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

/// Whether the target has no space left.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
