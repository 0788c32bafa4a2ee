//! The queue of directories and files, and the threads that copy them.
//!
//! Directories are a stack, so that the walk goes deep before it goes wide. A long directory is listed in parts, and its rest waits
//! below the directories that its first part has. So memory depends on the depth of a tree, not on how many entries it has.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, RawMode, SeekFrom, fchmod, mkdirat, unlinkat};
use rustix::io::Errno;
use seekless::files::{self, FileId};
use seekless::walk::{Directory, Handles, Listing, StatFacts, is_sure};
use seekless_sys::{self as sys, effective_user};

use super::data::Data;
use super::file::remove_unfinished;
use super::given::SourceFacts;
use super::journal::CopyJournal;
use super::links::Links;
use super::staged::Staged;
use super::{CpDurability, CpFailure, CpOptions, CpSummary, CpWatch, FollowedLinks};
use crate::Stop;
use crate::threads::in_threads;

/// A directory of the source and its copy.
pub(super) type Pair = Directory<2, PairState>;

/// What a copy knows of a directory.
pub(super) struct PairState {
    /// The path of the root's copy.
    to: Arc<Path>,
    /// Its entries that are not finished, and one while it is listed.
    unfinished: AtomicUsize,
    /// The source, for its copy to be like it at the end.
    pub origin: OnceLock<SourceFacts>,
    /// Whether the copy was made, so that nothing else has a name in it.
    pub is_new: AtomicBool,
    /// What new files in the copy have.
    new_files: OnceLock<NewFiles>,
    /// Of the copy of a named directory that has not got its name.
    pub staged: Mutex<Option<Staged>>,
    /// Whether nobody sees the copy before the tree that it is in is complete.
    pub is_staged: bool,
}

/// What new files in a directory have.
#[derive(Clone, Copy)]
pub(super) struct NewFiles {
    pub device: u64,
    pub owner: u32,
    pub group: u32,
    /// Whether they may inherit an access control list from the directory.
    pub inherit: bool,
}

impl PairState {
    /// Of a directory that has named files, or gets them.
    pub fn of_root(to: &Path) -> Self {
        Self::new(Arc::from(to), false)
    }

    /// Of a named directory.
    pub fn of_new_root(to: &Path, is_new: bool, staged: Option<Staged>) -> Self {
        let own = Self::new(Arc::from(to), staged.is_some());
        own.is_new.store(is_new, Ordering::Relaxed);
        *lock(&own.staged) = staged;
        own
    }

    /// Of a directory in this one.
    fn below(&self) -> Self {
        Self::new(Arc::clone(&self.to), self.is_staged)
    }

    fn new(to: Arc<Path>, is_staged: bool) -> Self {
        Self {
            to,
            unfinished: AtomicUsize::new(1),
            origin: OnceLock::new(),
            is_new: AtomicBool::new(false),
            new_files: OnceLock::new(),
            staged: Mutex::default(),
            is_staged,
        }
    }
}

/// A name in a directory of the source, and what its copy is called.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub directory: &'a Arc<Pair>,
    /// The open directories of the source and of the copy.
    pub handles: [BorrowedFd<'a>; 2],
    pub from: &'a CStr,
    pub to: &'a CStr,
    /// Whether the source was not in memory before this copy fetched it.
    pub was_fetched: bool,
}

impl At<'_> {
    /// The path of the source.
    pub fn source_path(&self) -> PathBuf {
        self.directory.path_of(self.from.to_bytes())
    }

    /// The path of the copy.
    pub fn copy_path(&self) -> PathBuf {
        self.directory
            .own
            .to
            .join(self.directory.path_below_root(self.to.to_bytes()))
    }

    /// What new files in the copy's directory have; `new` is one.
    pub fn new_files(&self, new: &File) -> io::Result<NewFiles> {
        if let Some(known) = self.directory.own.new_files.get() {
            return Ok(*known);
        }
        let found = StatFacts::of(new)?;
        let has_any = |file: BorrowedFd<'_>| match sys::extended_attributes(file) {
            Ok(found) => found.available().is_some_and(|found| !found.is_empty()),
            // The handle of a target that was named stands for its place only.
            Err(_) => true,
        };
        let known = NewFiles {
            device: found.device,
            owner: found.owner,
            group: found.group,
            inherit: has_any(self.handles[1]) || has_any(new.as_fd()),
        };
        Ok(*self.directory.own.new_files.get_or_init(|| known))
    }

    /// Whether nothing else gave names in the copy's directory.
    pub fn is_in_new(&self) -> bool {
        self.directory.own.is_new.load(Ordering::Relaxed)
    }
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
pub(super) struct Batch {
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

#[derive(Default)]
struct Queue {
    jobs: Vec<CopyJob>,
    batches: VecDeque<Batch>,
    /// Batches that were fetched in the order of their places, where that is done.
    fetched: VecDeque<Batch>,
    is_fetching: bool,
    /// The directories whose files are copied.
    busy: Vec<Arc<ListedEntries>>,
    at_work: usize,
    asleep: usize,
}

/// What all threads share.
pub(super) struct Copying<'a> {
    pub options: &'a CpOptions,
    pub stop: &'a Stop,
    pub watch: &'a dyn CpWatch,
    pub links: Links,
    pub data: Data,
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

/// Entries that are listed before those listed are copied.
const LISTED: usize = 16 << 10;
/// While files that are not in memory are copied, threads wait for the device most of the time: so many work for each one.
const COLD_THREADS: usize = 4;
/// Files in a batch.
const BATCH: usize = 512;
/// Batches that wait, before no more directories are listed.
const BATCHES: usize = LISTED / BATCH;

impl<'a> Copying<'a> {
    pub fn new(options: &'a CpOptions, stop: &'a Stop, watch: &'a dyn CpWatch) -> Self {
        Self {
            options,
            stop,
            watch,
            links: Links::default(),
            data: Data::default(),
            by_place: OnceLock::new(),
            looks: AtomicU32::new(0),
            is_left: AtomicBool::new(false),
            has_partial: AtomicBool::new(false),
            journal: None,
            targets: Mutex::default(),
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
        if self.meets_cold.load(Ordering::Relaxed) && !self.is_by_place() {
            self.threads * COLD_THREADS
        } else {
            self.threads
        }
    }

    /// Notes whether a file was in memory.
    pub fn meet(&self, is_cold: bool) {
        if self.meets_cold.load(Ordering::Relaxed) != is_cold {
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
                        let handles = handles.borrowed();
                        let at = At {
                            directory: &directory,
                            handles,
                            from: &from,
                            to: &to,
                            was_fetched: false,
                        };
                        self.copy_entry(&at, None, &mut worker);
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

    /// Makes the copy of a directory.
    fn enter(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let Some(parent) = directory.parent().cloned() else {
            return;
        };
        let made = match self.handles(&parent, worker) {
            None => None,
            Some(_) if self.options.dry_run => Some(true),
            Some(handles) => match mkdirat(handles.borrowed()[1], directory.name(), Mode::RWXU) {
                Ok(()) => Some(true),
                Err(Errno::EXIST) => Some(false),
                Err(error) => {
                    self.fail(worker, copy_path(directory), "create the directory", &error.into());
                    None
                }
            },
        };
        let Some(is_new) = made else {
            parent.release(1);
            self.finish(&parent, 1, worker);
            return;
        };
        directory.own.is_new.store(is_new, Ordering::Relaxed);
        let mut failures = Vec::new();
        if let Some((handles, facts)) = directory.open(&mut |tree, action, error| failures.push((tree, action, error)))
        {
            return self.entered(directory, &handles, &facts, worker);
        }
        for (tree, action, error) in failures {
            let action = if tree == 1 && !is_new {
                "use it as a directory"
            } else {
                action
            };
            self.fail(worker, [source_path, copy_path][tree](directory), action, &error);
        }
        if is_new && let Ok(handles) = parent.handles() {
            let _ = unlinkat(handles.borrowed()[1], directory.name(), AtFlags::REMOVEDIR);
        }
        self.finish(&parent, 1, worker);
    }

    /// Lists a directory that was opened with its copy, unless that would not end.
    pub fn entered(&self, directory: &Arc<Pair>, handles: &Handles<2>, facts: &[StatFacts; 2], worker: &mut Worker) {
        let [source, copy] = handles.borrowed();
        // A link that leads back is told even where inode numbers are not sure: it would have no end.
        let is =
            |other: FileId| other == facts[0].id() && (is_sure(source) || self.options.followed == FollowedLinks::All);
        let above = std::iter::successors(directory.parent(), |above| above.parent());
        let mut above = above.filter_map(|above| above.own.origin.get());
        let is_new = directory.own.is_new.load(Ordering::Relaxed);
        // FAT gives each file the owner of its directory.
        let owner_above = directory.parent().and_then(|above| above.handles().ok());
        let owner_above = owner_above.and_then(|above| StatFacts::of(above.borrowed()[1]).ok());
        let is_ours =
            facts[1].owner == effective_user() || owner_above.is_none_or(|above| above.owner == facts[1].owner);
        let is_boundary = self.options.one_file_system
            && directory.parent().is_some()
            && above
                .clone()
                .next()
                .is_some_and(|above| above.state.device != facts[0].device);
        let refused = if facts[0].id() == facts[1].id() && !self.options.dry_run {
            Some("source and target are the same directory")
        } else if above.any(|above| is(above.state.id())) {
            Some("it leads back to one of its parent directories")
        } else if lock(&self.targets).iter().any(|target| is(*target)) {
            Some("it is the target of this copy")
        } else if is_new && !is_ours {
            Some("another process replaced its new copy")
        } else {
            None
        };
        if let Some(reason) = refused {
            let path = source_path(directory);
            self.fail(worker, path, "copy the directory", &io::Error::other(reason));
            self.leave(directory, worker);
            return;
        }
        match SourceFacts::of_directory(source, self.options) {
            Ok(origin) => {
                // What is put into it must not be open to more users than in the source, not even before it is complete.
                let open = facts[1].mode & !origin.mode() & 0o077;
                if self.options.preserved.mode && !is_new && open != 0 && !self.options.dry_run {
                    let mode = Mode::from_raw_mode((facts[1].mode & !open) as RawMode);
                    if let Err(error) = fchmod(copy, mode) {
                        let path = copy_path(directory);
                        self.fail(worker, path, "restrict the directory's permissions", &error.into());
                    }
                }
                drop(directory.own.origin.set(origin));
            }
            Err(error) => self.fail(worker, source_path(directory), "read the attributes", &error),
        }
        worker.done.directories += 1;
        if directory.parent().is_none() {
            lock(&self.targets).extend(StatFacts::of(copy).map(|facts| facts.id()));
        }
        if self.watch.wants_names() {
            self.watch.copied(&source_path(directory), &copy_path(directory));
        }
        let old = self.journal.as_ref().filter(|_| !is_new);
        let removed = old.map(|journal| remove_unfinished(source, copy, journal));
        if let Some(Err(error)) = removed {
            self.fail(
                worker,
                copy_path(directory),
                "remove temporary files of an interrupted copy",
                &error,
            );
        }
        if is_boundary {
            self.finish(directory, 1, worker);
        } else {
            self.push([CopyJob::List(Arc::clone(directory), 0)]);
        }
    }

    /// Lists some entries of a directory, and queues them.
    fn list(&self, directory: &Arc<Pair>, from: u64, worker: &mut Worker) {
        let Some(handles) = self.handles(directory, worker) else {
            self.finish(directory, 1, worker);
            return;
        };
        let source = handles.borrowed()[0];
        let mut listing = Listing::default();
        let mut list = || -> io::Result<Option<u64>> {
            // One that was opened again is at its start.
            if from > 0 && rustix::fs::tell(source) != Ok(from) {
                rustix::fs::seek(source, SeekFrom::Start(from))?;
            }
            loop {
                match listing.add_some(source, |_| true)? {
                    Some(_) if listing.entries().len() < LISTED => {}
                    rest => return Ok(rest),
                }
            }
        };
        let rest = match list() {
            // It was removed, and so was all in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.fail(worker, source_path(directory), "list the directory", &error);
                None
            }
            Ok(rest) => rest,
        };
        listing.sort_by_inode();
        let entries = listing.entries();
        directory.own.unfinished.fetch_add(entries.len(), Ordering::Relaxed);
        let mut jobs: Vec<CopyJob> = rest
            .map(|rest| CopyJob::List(Arc::clone(directory), rest))
            .into_iter()
            .collect();
        let directories = entries.iter().filter(|entry| entry.kind == FileType::Directory).rev();
        jobs.extend(
            directories.map(|entry| CopyJob::Enter(directory.child(listing.c_str(entry), directory.own.below()))),
        );
        let children = jobs.len() - usize::from(rest.is_some());
        let (count, has_files) = (entries.len(), entries.len() > children);
        let listed = Arc::new(ListedEntries {
            directory: Arc::clone(directory),
            listing,
        });
        self.look_at_device(&listed);
        let mut queue = self.lock();
        queue.jobs.extend(jobs);
        if has_files {
            let starts = (0..count).step_by(BATCH);
            queue.batches.extend(starts.map(|start| Batch {
                listed: Arc::clone(&listed),
                range: start..count.min(start + BATCH),
                fetched: HashSet::new(),
            }));
        }
        let more = (queue.jobs.len() + queue.batches.len())
            .saturating_sub(1)
            .min(queue.asleep)
            .min(self.threads_max().saturating_sub(queue.at_work));
        drop(queue);
        for _ in 0..more {
            self.changed.notify_one();
        }
        if rest.is_none() {
            self.finish(directory, 1, worker);
        }
    }

    /// Copies what is not a directory among entries.
    fn copy_files(&self, mut batch: Batch, worker: &mut Worker) {
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
            if self.meets_cold.load(Ordering::Relaxed) {
                self.fetch_ahead(&mut batch, number, &mut ahead);
            }
            let name = listed.listing.c_str(entry);
            let at = At {
                directory: &listed.directory,
                handles: handles.borrowed(),
                from: name,
                to: name,
                was_fetched: batch.fetched.contains(&number),
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

    /// Enters a directory that a link leads to.
    pub fn enter_linked(&self, at: &At<'_>) {
        self.push([CopyJob::Enter(
            at.directory.linked_child(at.from, at.directory.own.below()),
        )]);
    }

    /// Counts finished entries of a directory. After the last one, its copy becomes like it.
    pub fn finish(&self, directory: &Arc<Pair>, entries: usize, worker: &mut Worker) {
        if entries > 0 && directory.own.unfinished.fetch_sub(entries, Ordering::AcqRel) == entries {
            self.complete(directory, worker);
            self.leave(directory, worker);
        }
    }

    /// Gives up a directory, which is an entry of the one above.
    fn leave(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let mut left = directory;
        loop {
            left.release(1);
            let Some(parent) = left.parent() else { return };
            if parent.own.unfinished.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            self.complete(parent, worker);
            left = parent;
        }
    }

    /// Gives the copy of a directory its owner, mode, attributes and times.
    fn complete(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let Some(origin) = directory.own.origin.get().filter(|_| !self.options.dry_run) else {
            return;
        };
        let Some(handles) = self.handles(directory, worker) else {
            return;
        };
        if !self.name_staged(directory, worker) {
            return;
        }
        let is_new = directory.own.is_new.load(Ordering::Relaxed);
        if let Some(journal) = self.journal.as_ref().filter(|_| !is_new && !self.stop.is_stopped()) {
            journal.remove_pieces(handles.borrowed()[1]);
        }
        let path = || copy_path(directory);
        let copy = match handles.borrowed()[1].try_clone_to_owned() {
            Ok(copy) => File::from(copy),
            Err(error) => return self.fail(worker, path(), "reopen the directory", &error),
        };
        let own = match StatFacts::of(&copy) {
            Ok(own) => files::Own::of(&own),
            Err(error) => return self.fail(worker, path(), "stat", &error.into()),
        };
        let not_given = origin.give(&copy, &own, is_new, self.options);
        self.count_not_given(not_given, path, worker);
        if self.options.durability == CpDurability::Each
            && let Err(error) = sys::sync(&copy)
        {
            self.fail(worker, path(), "sync the directory", &error);
        }
    }

    /// The open directories, or a failure.
    fn handles(&self, directory: &Arc<Pair>, worker: &mut Worker) -> Option<Arc<Handles<2>>> {
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

enum Work {
    Job(CopyJob),
    Batch(Batch),
    /// Fetch these in the order of their places.
    Fetch(Vec<Batch>),
}

impl Queue {
    /// What is to be done next. Two threads that make files in one directory would wait for each other, so files of a directory in
    /// which nobody works come first, then a job that may bring some, unless many files wait. On a device with a head, directories are
    /// listed until many files wait; these are fetched together, while nothing else moves the head.
    fn take(&mut self, is_by_place: bool) -> Option<Work> {
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
    fn free(&self, batches: impl Fn(&Self) -> &VecDeque<Batch>) -> Option<usize> {
        let is_busy = |batch: &Batch| {
            let mut busy = self.busy.iter();
            busy.any(|busy| Arc::ptr_eq(&busy.directory, &batch.listed.directory))
        };
        batches(self).iter().position(|batch| !is_busy(batch))
    }

    fn begin(&mut self, batch: Batch) -> Work {
        self.busy.push(Arc::clone(&batch.listed));
        Work::Batch(batch)
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.batches.is_empty() && self.fetched.is_empty()
    }
}

/// Whether the target has no space left.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The path of a directory of the source.
fn source_path(directory: &Pair) -> PathBuf {
    directory.path_of(b"")
}

/// The path of its copy.
pub(super) fn copy_path(directory: &Pair) -> PathBuf {
    let (to, below) = (&directory.own.to, directory.path_below_root(b""));
    // Joining an empty path would add a slash.
    if below.as_os_str().is_empty() {
        to.to_path_buf()
    } else {
        to.join(below)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
