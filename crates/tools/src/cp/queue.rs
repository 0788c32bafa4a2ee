//! The queue of directories and files: which is next.
//!
//! Directories are a stack, so that the walk goes deep before it goes wide. A long directory is listed in parts, and its rest waits
//! below the directories that its first part has. So memory depends on the depth of a tree, not on how many entries it has.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seekless::walk::Listing;

use super::pair::Pair;

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
    pub at_work: usize,
    pub asleep: usize,
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
