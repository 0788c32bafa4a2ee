//! What the threads of a copy share: the queue, and what is known of devices.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use seekless_engine::facts::SeekFacts;
use seekless_engine::files::{FileId, FileRef, IoFailure, Own, Time};
use seekless_engine::method::Method;
use seekless_engine::walk::{Handles, Listing, StatFacts};
use seekless_sys::{Support, effective_user, lock_mutex};

use super::journal::CopyJournal;
use super::pair::{At, Links, Pair, SourceFacts, copy_path, source_path};
use super::{
    CpEvent, CpFailure, CpOptions, CpSummary, FollowedLinks, OWNER_OF_OTHERS, Preserved, ROUNDED_TIMES, UNSTORED_TIMES,
};
use crate::Stop;
use crate::watch::{JobCounters, JobWatch, report};
use crate::work_queue::{ALL, Taken, WorkQueue};

/// What all threads share.
pub(super) struct Copying<'a> {
    pub options: &'a CpOptions,
    pub stop: &'a Stop,
    pub watch: &'a dyn for<'e> JobWatch<CpEvent<'e>>,
    pub counters: JobCounters,
    pub links: Links,
    pub data: Data,
    pub stored_times: StoredTimes,
    /// The device whose head moves, if files are fetched in the order of their places; `None` if they are not.
    pub by_place: OnceLock<Option<SeekFacts>>,
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
    queue: WorkQueue<Queue>,
}

/// Copying files from this size on may dirty much memory and evict what others have there.
pub(super) const LARGE_BYTES: u64 = 64 << 20;

/// What a thread did.
#[derive(Default)]
pub(super) struct Worker {
    pub done: CpSummary,
    pub buffer: Vec<u8>,
}

/// While files that are not in memory are copied, threads wait for the device most of the time: so many work for each one.
pub(super) const COLD_THREADS: usize = 4;

impl<'a> Copying<'a> {
    pub fn new(options: &'a CpOptions, watch: &'a dyn for<'e> JobWatch<CpEvent<'e>>) -> Self {
        Self {
            options,
            stop: watch.stop(),
            watch,
            counters: JobCounters::default(),
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
            queue: WorkQueue::default(),
        }
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
                self.queue.push(|_, _| ALL);
            }
        }
    }

    /// Takes what is to be done next, or waits for it; `None` if nothing is left, or the copy is to stop.
    pub fn next(&self) -> Option<Work> {
        self.queue.next(self.stop, |queue, at_work| {
            let may_work = at_work < self.threads_max();
            match may_work.then(|| queue.take(self.is_by_place())).flatten() {
                Some(work) => Taken::Work(work),
                None if at_work == 0 => Taken::End,
                None => Taken::Nothing,
            }
        })
    }

    /// Notes that what was taken is done: a batch of these entries, if it was one.
    pub fn end_work(&self, copied: Option<&Arc<ListedEntries>>) {
        self.queue.end_work(|queue, at_work| {
            let is_it = |busy: &Arc<ListedEntries>| copied.is_some_and(|copied| Arc::ptr_eq(busy, copied));
            if let Some(busy) = queue.busy.iter().position(is_it) {
                queue.busy.swap_remove(busy);
            }
            if at_work == 0 && queue.is_empty() { ALL } else { 0 }
        });
    }

    /// Queues batches that were fetched, and those that were not and come first the next time.
    pub fn push_fetched(&self, fetched: Vec<CopyBatch>, rest: Vec<CopyBatch>) {
        self.queue.push(|queue, _| {
            queue.fetched.extend(fetched);
            rest.into_iter().rev().for_each(|batch| queue.batches.push_front(batch));
            queue.is_fetching = false;
            ALL
        });
    }

    /// Queues jobs; the last is done first.
    pub fn push(&self, jobs: impl IntoIterator<Item = CopyJob>) {
        self.queue.push(|queue, _| {
            queue.jobs.extend(jobs);
            1
        });
    }

    /// Queues what was listed, and wakes as many threads as may work on it.
    pub fn push_listed(&self, jobs: Vec<CopyJob>, batches: impl Iterator<Item = CopyBatch>) {
        self.queue.push(|queue, at_work| {
            queue.jobs.extend(jobs);
            queue.batches.extend(batches);
            let more = (queue.jobs.len() + queue.batches.len()).saturating_sub(1);
            more.min(self.threads_max().saturating_sub(at_work))
        });
    }

    /// Reports an event.
    pub fn tell(&self, event: CpEvent<'_>) {
        report(self.watch, event);
    }

    /// Counts entries and bytes as done, and reports the progress.
    pub fn advance(&self, entries: usize, bytes: u64) {
        if self.watch.wants_progress() {
            self.watch.progress(&self.counters.add(entries as u64, bytes));
        }
    }

    /// Reports a failure.
    pub fn fail(&self, worker: &mut Worker, path: PathBuf, action: &'static str, error: &io::Error) {
        if error.kind() == io::ErrorKind::Interrupted && self.stop.is_stopped() {
            return;
        }
        worker.done.failures += 1;
        let reason = error.to_string();
        self.tell(CpEvent::Failed(&CpFailure { path, action, reason }));
        if is_full(error) {
            // Nothing else would fit; what is there stays.
            self.stop.stop();
        }
    }

    /// Whether files are fetched in the order of their places.
    pub fn is_by_place(&self) -> bool {
        matches!(self.by_place.get(), Some(Some(_)))
    }

    /// Whether another name of a source with so many names may be met, which becomes a name of the copy.
    pub fn may_have_more_names(&self, names: u64) -> bool {
        self.options.preserved.links && (names > 1 || self.options.followed != FollowedLinks::None)
    }

    /// Notes that something was copied, and reports it.
    pub fn tell_copied(&self, at: &At<'_>, bytes: u64) {
        let journal = self.journal.as_ref();
        if let Some(journal) = journal.filter(|_| !at.directory.own.is_own.load(Ordering::Relaxed)) {
            journal.note(at.key(), bytes >= LARGE_BYTES);
        }
        self.tell(CpEvent::Copied {
            from: &|| at.source_path(),
            to: &|| at.copy_path(),
        });
    }

    /// Makes a copy like its source, counts what that cannot get, and returns what it is then.
    pub fn give(
        &self,
        origin: &SourceFacts,
        copy: FileRef<'_>,
        (own, is_new): (&Own, bool),
        path: impl Fn() -> PathBuf,
        worker: &mut Worker,
    ) -> io::Result<StatFacts> {
        let preserved = self.options.preserved;
        let mut not_given = if preserved == Preserved::ALL && is_new {
            origin.attributes.give_possible(copy, own)
        } else {
            origin.some(copy, own, is_new, self.options).give_possible(copy, own)
        };
        let [accessed, modified] = origin.times;
        let set = preserved.timestamps.then(|| copy.set_times(Some(accessed), modified));
        let facts = copy.facts()?;
        match set {
            Some(Err(error)) => not_given.push(("times", error)),
            Some(Ok(())) => {
                if let Some(what) = lost(modified, facts.modified) {
                    *worker.done.not_preserved.entry(what).or_default() += 1;
                }
            }
            None => {}
        }
        self.count_not_given(not_given, path, worker);
        Ok(facts)
    }

    /// Counts what a copy could not get, and tells it.
    pub fn count_not_given(&self, not_given: Vec<IoFailure>, path: impl Fn() -> PathBuf, worker: &mut Worker) {
        for (what, error) in not_given {
            let is_expected = what == OWNER_OF_OTHERS && effective_user() != 0;
            *worker.done.not_preserved.entry(what).or_default() += 1;
            if !is_expected {
                self.tell(CpEvent::Failed(&CpFailure {
                    path: path(),
                    action: "preserve all attributes",
                    reason: format!("{what}: {error}"),
                }));
            }
        }
    }

    /// The open directories, or a failure.
    pub fn handles(&self, directory: &Arc<Pair>, worker: &mut Worker) -> Option<Arc<Handles<2>>> {
        let opened = directory.handles();
        let failed = |(tree, error): (usize, io::Error)| {
            self.fail(
                worker,
                [source_path, copy_path][tree](directory),
                "reopen the directory",
                &error,
            );
        };
        opened.map_err(failed).ok()
    }
}

/// Whether the target has no space left.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Entries of a directory that were listed together.
pub(super) struct ListedEntries {
    pub directory: Arc<Pair>,
    pub listing: Listing,
}

impl ListedEntries {
    /// The name of an entry.
    pub fn name(&self, number: usize) -> &CStr {
        self.listing.c_str(&self.listing.entries()[number])
    }
}

/// Files of a directory that one thread copies in a row: others would wait for the directory that it changes.
pub(super) struct CopyBatch {
    pub listed: Arc<ListedEntries>,
    pub range: Range<usize>,
    /// The numbers of those of which nothing was in memory before they were fetched.
    pub fetched: HashSet<usize>,
}

/// Something to do.
pub(super) enum CopyJob {
    /// Make the copy of a directory, and list it.
    Enter(Arc<Pair>),
    /// List a directory from a position.
    List(Arc<Pair>, u64),
    /// Copy a file with a name of its own.
    Named(Arc<Pair>, CString, CString),
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Queue {
    pub jobs: Vec<CopyJob>,
    pub batches: VecDeque<CopyBatch>,
    /// Batches that were fetched in the order of their places, where that is done.
    pub fetched: VecDeque<CopyBatch>,
    pub is_fetching: bool,
    /// The directories whose files are copied.
    pub busy: Vec<Arc<ListedEntries>>,
}

/// Entries that are listed before those listed are copied.
pub(super) const LISTED: usize = 16 << 10;
/// Files in a batch.
pub(super) const BATCH: usize = 512;
/// Batches that wait, before no more directories are listed.
const BATCHES: usize = LISTED / BATCH;

/// What a thread does next.
pub(super) enum Work {
    Job(CopyJob),
    Batch(CopyBatch),
    /// Fetch these in the order of their places.
    Fetch(Vec<CopyBatch>),
}

impl Queue {
    /// What is to be done next. Two threads that make files in one directory would wait for each other, so files of a directory in
    /// which nobody works come first, then a job that may bring some, unless many files wait. On a device with a head, directories are
    /// listed until many files wait; these are fetched together, while nothing else moves the head.
    pub fn take(&mut self, is_by_place: bool) -> Option<Work> {
        if !is_by_place {
            let free = self.free(|queue| &queue.batches);
            if free.is_none()
                && self.batches.len() < BATCHES
                && let Some(job) = self.jobs.pop()
            {
                return Some(Work::Job(job));
            }
            return self.batches.remove(free.unwrap_or(0)).map(|batch| self.begin(batch));
        }
        if !self.is_fetching {
            if self.batches.len() < BATCHES
                && let Some(job) = self.jobs.pop()
            {
                return Some(Work::Job(job));
            }
            if !self.batches.is_empty() && self.fetched.len() < BATCHES {
                self.is_fetching = true;
                return Some(Work::Fetch(self.batches.drain(..).collect()));
            }
        }
        let free = self.free(|queue| &queue.fetched);
        self.fetched.remove(free.unwrap_or(0)).map(|batch| self.begin(batch))
    }

    /// The first batch of a directory in which nobody works.
    fn free(&self, batches: impl Fn(&Self) -> &VecDeque<CopyBatch>) -> Option<usize> {
        let is_busy = |batch: &CopyBatch| {
            let mut busy = self.busy.iter();
            busy.any(|busy| Arc::ptr_eq(&busy.directory, &batch.listed.directory))
        };
        batches(self).iter().position(|batch| !is_busy(batch))
    }

    fn begin(&mut self, batch: CopyBatch) -> Work {
        self.busy.push(Arc::clone(&batch.listed));
        Work::Batch(batch)
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.batches.is_empty() && self.fetched.is_empty()
    }
}

/// What is known of copying from one device to another.
#[derive(Default)]
pub(super) struct Data(Mutex<Vec<(u64, u64, Arc<DevicePair>)>>);

impl Data {
    /// What is known of copying from one device to another.
    pub fn of(&self, from: u64, to: u64) -> Arc<DevicePair> {
        let mut known = lock_mutex(&self.0);
        if let Some((.., devices)) = known.iter().find(|(one, other, _)| (*one, *other) == (from, to)) {
            return Arc::clone(devices);
        }
        let devices = Arc::new(DevicePair::default());
        known.push((from, to, Arc::clone(&devices)));
        devices
    }
}

#[derive(Default)]
pub(super) struct DevicePair {
    pub sharing: Attempts,
    pub in_kernel: Attempts,
    /// How large files are copied that are in memory, and others.
    pub planned: [OnceLock<Option<(Method, String)>>; 2],
    /// Held while a large file that is not in memory is read.
    pub cold: Mutex<()>,
}

/// Attempts at something that some files may refuse, and two file systems always.
#[derive(Default)]
pub(super) struct Attempts {
    succeeded: AtomicU32,
    refused: AtomicU32,
}

/// So many refusals without a success mean that it never works.
const REFUSALS: u32 = 3;

impl Attempts {
    pub fn may_work(&self) -> bool {
        self.succeeded.load(Ordering::Relaxed) > 0 || self.refused.load(Ordering::Relaxed) < REFUSALS
    }

    /// Counts an attempt, and returns what it gave.
    pub fn count<T>(&self, attempt: Support<T>) -> Option<T> {
        let (counter, given) = match attempt {
            Support::Available(given) => (&self.succeeded, Some(given)),
            Support::Unavailable(_) => (&self.refused, None),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        given
    }
}

/// No file system rounds more: FAT stores every second second.
const ROUNDED_MAX_NS: i128 = 2_000_000_000;

/// What a copy lacks that was to have a time and has another one.
pub(super) fn lost(wanted: Time, stored: Time) -> Option<&'static str> {
    let [wanted, stored] =
        [wanted, stored].map(|(seconds, more)| i128::from(seconds) * 1_000_000_000 + i128::from(more));
    let is_rounded = wanted.abs_diff(stored) < ROUNDED_MAX_NS.unsigned_abs();
    (wanted != stored).then_some(if is_rounded { ROUNDED_TIMES } else { UNSTORED_TIMES })
}

/// For each file system of targets, a file without a name that shows what becomes of times there.
#[derive(Default)]
pub(super) struct StoredTimes(Mutex<HashMap<u64, Option<File>>>);

impl StoredTimes {
    /// Returns what the file system of a device, on which `make` makes a file, makes of a time of
    /// modification; the time itself if that cannot be found out.
    pub fn of(&self, time: Time, device: u64, make: impl FnOnce() -> Option<File>) -> Time {
        let mut files = lock_mutex(&self.0);
        let file = files.entry(device).or_insert_with(make);
        let stored = file.as_ref().and_then(|file| {
            let file = FileRef::Open(file.as_fd());
            // FUSE may ignore a time of modification alone.
            file.set_times(Some(time), time).ok()?;
            Some(file.facts().ok()?.modified)
        });
        stored.unwrap_or(time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cp_tells_a_rounded_time_from_one_that_cannot_be_stored(
            seconds in prop_oneof![any::<i64>(), -10..10_i64, 9_223_372_030..9_223_372_040_i64],
            more in prop_oneof![Just(0), Just(999_999_999), 0..1_000_000_000_u32],
            unit in prop_oneof![Just(1), Just(100), Just(10_000_000), Just(1_000_000_000)],
            away in 3..i64::MAX,
        ) {
            let rounded = (seconds, more - more % unit);
            prop_assert_eq!(lost((seconds, more), rounded), (rounded.1 != more).then_some(ROUNDED_TIMES));
            let even = (seconds & !1, 0);
            prop_assert_eq!(lost((seconds, more), even), (even != (seconds, more)).then_some(ROUNDED_TIMES));
            let last = (seconds.saturating_sub(away), 0);
            prop_assert_eq!(lost((seconds, more), last).is_some(), last != (seconds, more));
            if last.0 < seconds.saturating_sub(2) {
                prop_assert_eq!(lost((seconds, more), last), Some(UNSTORED_TIMES));
            }
        }
    }
}
