//! Reading, writing, copying, comparing and updating a file, by the plan or by a named method. Each
//! returns what was done, by which method, and why.
//!
//! Not here: a method prepared once for many files ([`Reader`], [`Writer`], [`Copier`], [`Comparer`],
//! [`Updater`](crate::update::Updater)).

use std::any::Any;
use std::cell::Cell;
use std::fs;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use seekless_method::{self as method, Choice, Durability, Method, Operation};
use seekless_sys::{self as sys, lock_mutex};

use crate::caller_memory::CallerMemory;
use crate::error::{Error, Result, UpdateError, UpdateErrorKind};
use crate::facts::Planner;
use crate::memory::ReadTarget;
use crate::plan::outcome::Outcome;
use crate::plan::{Plan, PlanClock, SMALL_BYTES, Safety, usual};
use crate::update::{Batch, Commit, StepKind, Updated, Watch, WatchedStep, commit_done};
use crate::{
    AsFileRange, Comparer, Comparison, Copier, Destination, Producer, Progress, Reader, Transfer, Verdict, Writer,
    sequential,
};

/// How to read, write, copy, compare or update a file: by the plan, unless [`IoOptions::method`]
/// names one.
///
/// ```
/// use seekless_engine::{Destination, IoOptions, Method};
/// # let directory = tempfile::tempdir()?;
/// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// # std::fs::write(&from, b"bytes")?;
/// # std::fs::write(&to, b"older")?;
/// let method: Method = "copy/double-buffer,block=1M,fsync".parse()?;
/// let done = IoOptions::method(method).destination(Destination::Overwrite).copy(&from, &to)?;
/// assert_eq!(done.method, method);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct IoOptions<'a> {
    by: Option<Choice>,
    destination: Destination,
    safety: Safety,
    grows: bool,
    progress: Option<&'a dyn Progress>,
    planner: Planner<'a>,
    mechanisms: Option<&'a Mechanisms>,
}

/// Mechanisms that calls prepared, for the next calls by the same methods.
#[derive(Default)]
pub struct Mechanisms(Mutex<Vec<(Method, Box<dyn Any + Send>)>>);

impl Mechanisms {
    /// Does something by a mechanism, which is prepared unless one is here that no other call uses. After an error, it is not
    /// used again.
    fn by<M: Send + 'static, T>(
        &self,
        method: &Method,
        prepare: impl FnOnce() -> Result<M>,
        by: impl FnOnce(&mut M) -> Result<T>,
    ) -> Result<T> {
        let found = {
            let mut free = lock_mutex(&self.0);
            let place = free
                .iter()
                .position(|(of, mechanism)| of == method && mechanism.is::<M>());
            place.map(|place| free.swap_remove(place).1)
        };
        let mut mechanism = match found.map(Box::<dyn Any + Send>::downcast::<M>) {
            Some(Ok(mechanism)) => mechanism,
            _ => Box::new(prepare()?),
        };
        let done = by(&mut mechanism)?;
        lock_mutex(&self.0).push((*method, mechanism));
        Ok(done)
    }
}

impl<'a> IoOptions<'a> {
    /// By the plan.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// By a method, or by a plan with a durability, as in `"copy/planned,fsync".parse()`.
    #[must_use]
    pub fn method(choice: impl Into<Choice>) -> Self {
        Self {
            by: Some(choice.into()),
            ..Self::default()
        }
    }

    /// Whether the target of a write or copy is a new file (the default) or is overwritten.
    #[must_use]
    pub fn destination(self, destination: Destination) -> Self {
        Self { destination, ..self }
    }

    /// Sets the state of a file after an update that ends early. The default is in place.
    #[must_use]
    pub fn safety(self, safety: Safety) -> Self {
        Self { safety, ..self }
    }

    /// Whether an update may make the file longer.
    #[must_use]
    pub fn allow_growth(self, grows: bool) -> Self {
        Self { grows, ..self }
    }

    /// Plans with these profiles and threads.
    #[must_use]
    pub fn planner(self, planner: Planner<'a>) -> Self {
        Self { planner, ..self }
    }

    /// Uses the mechanisms of earlier calls, and leaves its own for later ones.
    #[must_use]
    pub fn mechanisms(self, mechanisms: &'a Mechanisms) -> Self {
        Self {
            mechanisms: Some(mechanisms),
            ..self
        }
    }

    /// Reports progress about every 16 MiB. If `progress` returns `Break`, the operation ends with an error for which
    /// [`Error::is_stopped`] is true. A new target is then removed; an overwritten one holds what was written until
    /// then; an update ends like one that failed, so a journal undoes it. An operation that is a single system call,
    /// such as a reflink, reports no progress.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # let directory = tempfile::tempdir()?;
    /// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    /// # std::fs::write(&from, vec![1; 40 << 20])?;
    /// let patience = |done_bytes: u64, of_bytes: u64| {
    ///     eprintln!("{done_bytes} of {of_bytes} bytes");
    ///     if done_bytes > 20 << 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// };
    /// let options = seekless_engine::IoOptions::method("copy/sync".parse::<seekless_engine::Method>()?);
    /// let stopped = options.progress(&patience).copy(&from, &to);
    /// assert!(matches!(stopped, Err(seekless_engine::Error::Stopped { .. })) && !to.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn progress(self, progress: &'a dyn Progress) -> Self {
        Self {
            progress: Some(progress),
            ..self
        }
    }

    /// Passes the bytes of a file to a closure, in order, which may end the read by `Break`.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn read(
        &self,
        from: impl AsFileRange,
        take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
    ) -> Result<Outcome<Transfer>> {
        let (from, consumer) = (from.as_file_range(), sequential(take));
        // A method that was named has no plan, which knows it.
        let planned_bytes = Cell::new(None);
        let longest_bytes = || {
            let now = || fs::metadata(from.path_to_measure()).ok().map(|found| found.len());
            planned_bytes.get().or_else(now).unwrap_or(u64::MAX >> 1)
        };
        self.run(
            Operation::Read,
            from.path(),
            |_| {
                let (file, metadata) = from.open()?;
                let range = from.within(metadata.len());
                planned_bytes.set(Some(range.end - range.start));
                Ok(Reader::plan_open(&from, &file, &metadata, self.planner))
            },
            |method| {
                let read = |reader: &mut Reader| reader.read_told(&from, &consumer, None, self.progress);
                self.by(method, || Reader::prepare_for(method, longest_bytes()), read)
            },
            // The time is also that of the closure.
            |_| None,
        )
    }

    /// Reads a file into memory, up to the end of either. Methods that can, read to where the bytes belong; of a file in the
    /// page cache, several threads read.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn read_into<'m>(
        &self,
        from: impl AsFileRange,
        memory: impl Into<CallerMemory<'m>>,
    ) -> Result<Outcome<Transfer>> {
        let memory = memory.into();
        let from = from.as_file_range().at_most(memory.len() as u64);
        // Of methods that are tried one after the other, each gets the memory anew.
        let memory = Mutex::new(memory);
        self.run(
            Operation::Read,
            from.path(),
            |_| Reader::plan_into_memory(&from, self.planner),
            |method| {
                let mut memory = lock_mutex(&memory);
                let longest_bytes = memory.len() as u64;
                let prepare = || Reader::prepare_for(method, longest_bytes);
                let read = |reader: &mut Reader| {
                    reader.read_told(&from, &ReadTarget::new(memory.reborrow()), None, self.progress)
                };
                self.by(method, prepare, read)
            },
            |done| Some(done.bytes),
        )
    }

    /// Reads a file into memory that this allocates, without a plan where there is too little for it to pay.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn read_to_vec(&self, from: impl AsFileRange) -> Result<Outcome<Vec<u8>>> {
        let from = from.as_file_range();
        let (file, metadata) = from.open_once()?;
        let range = from.within(metadata.len());
        let bytes = range.end - range.start;
        if bytes >= SMALL_BYTES || matches!(self.by, Some(Choice::Method(_))) {
            drop(file);
            let memory = sys::zeros(bytes as usize);
            let mut memory = memory.map_err(|error| Error::system(from.path(), "read into memory", error))?;
            let done = self.read_into(from.at_most(bytes), &mut memory[..])?;
            memory.truncate(done.bytes as usize);
            return Ok(Outcome {
                what: memory,
                method: done.method,
                reason: done.reason,
            });
        }
        let Plan { method, reason, .. } = Plan::little(Operation::Read);
        if self
            .progress
            .is_some_and(|progress| progress.moved(0, bytes).is_break())
        {
            return Err(Error::Stopped {
                path: from.path().to_owned(),
                method,
                done_bytes: 0,
            });
        }
        let mut memory = Vec::with_capacity(bytes as usize);
        while (memory.len() as u64) < bytes {
            let at = range.start + memory.len() as u64;
            match retry_on_intr(|| rustix::io::pread(&file, spare_capacity(&mut memory), at)) {
                // It shrank.
                Ok(0) => {
                    return Err(Error::Resized {
                        path: from.path().to_owned(),
                        method,
                        expected_bytes: metadata.len(),
                        found_bytes: at,
                    });
                }
                Ok(_) => {}
                Err(errno) => return Err(Error::by(&method, from.path(), ("read", at), errno.into())),
            }
        }
        memory.truncate(bytes as usize);
        Ok(Outcome {
            what: memory,
            method,
            reason,
        })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As for [`Writer::write`].
    pub fn write(&self, to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> Result<Outcome<Transfer>> {
        let bytes = bytes.as_ref();
        let length = bytes.len() as u64;
        self.produce_for(
            to,
            length,
            |offset, piece| (&bytes).produce(offset, piece),
            |done| Some(done.bytes),
        )
    }

    /// Writes this many bytes. `make` gets the offset of a piece and its buffer, and fills the buffer. It is called for
    /// pieces in any order, from several threads, and perhaps more than once for a piece.
    ///
    /// # Errors
    /// As for [`Writer::write`].
    pub fn produce(
        &self,
        to: impl AsFileRange,
        bytes: u64,
        make: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync,
    ) -> Result<Outcome<Transfer>> {
        // The time is also that of the closure.
        self.produce_for(to, bytes, make, |_| None)
    }

    fn produce_for(
        &self,
        to: impl AsFileRange,
        bytes: u64,
        make: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync,
        noted_bytes: impl Fn(&Transfer) -> Option<u64>,
    ) -> Result<Outcome<Transfer>> {
        let to = to.as_file_range();
        self.run(
            Operation::Write,
            to.path(),
            |durability| Writer::plan_with(&to, bytes, durability, false, self.planner),
            |method| {
                let write = |writer: &mut Writer| writer.write_told(&to, self.destination, bytes, &make, self.progress);
                self.by(method, || Writer::prepare_for(method, bytes), write)
            },
            noted_bytes,
        )
    }

    /// Copies a file: its bytes and holes, but not its mode, owner and times.
    ///
    /// # Errors
    /// As for [`Copier::copy`].
    pub fn copy(&self, from: impl AsFileRange, to: impl AsFileRange) -> Result<Outcome<Transfer>> {
        let (from, to) = (from.as_file_range(), to.as_file_range());
        self.run(
            Operation::Copy,
            from.path(),
            |durability| Copier::plan_with(&from, &to, durability, false, self.planner),
            |method| {
                let copy = |copier: &mut Copier| copier.copy_told(&from, &to, self.destination, self.progress);
                self.by(method, || Copier::prepare(method), copy)
            },
            |done| Some(done.bytes),
        )
    }

    /// Compares two regular files, up to the first difference.
    ///
    /// # Errors
    /// As for [`Comparer::compare`].
    pub fn compare(&self, one: impl AsFileRange, other: impl AsFileRange) -> Result<Outcome<Comparison>> {
        let (one, other) = (one.as_file_range(), other.as_file_range());
        self.run(
            Operation::Compare,
            one.path(),
            |_| Comparer::plan_with([&one, &other], false, self.planner),
            |method| {
                let compare = |comparer: &mut Comparer| comparer.compare_told(&one, &other, self.progress);
                self.by(method, || Comparer::prepare(method), compare)
            },
            // What ends at a difference takes less than predicted.
            |done| (done.verdict == Verdict::Equal).then_some(done.bytes),
        )
    }

    /// Applies a batch of small changes to a file, in few writes.
    ///
    /// # Errors
    /// As for [`commit`](crate::update::commit).
    pub fn update(&self, path: impl AsRef<Path>, batch: Batch) -> Result<Outcome<Updated>> {
        let (path, updates) = (path.as_ref(), batch.resolve());
        let how = Commit {
            grows: self.grows,
            ..Commit::by(self.choice(Operation::Update)).safety(self.safety)
        };
        let told = WatchToProgress {
            progress: self.progress,
            done_bytes: AtomicU64::new(0),
            of_bytes: updates.requested_bytes(),
            is_ended: AtomicBool::new(false),
        };
        commit_done(path, &updates, &how, &told, self.planner).map_err(|error| told.named(error))
    }

    fn by<M: Send + 'static, T>(
        &self,
        method: &Method,
        prepare: impl FnOnce() -> Result<M>,
        by: impl FnOnce(&mut M) -> Result<T>,
    ) -> Result<T> {
        match self.mechanisms {
            None => by(&mut prepare()?),
            Some(mechanisms) => mechanisms.by(method, prepare, by),
        }
    }

    /// What was asked for: the plan, unless something else was.
    fn choice(&self, operation: Operation) -> Choice {
        self.by.unwrap_or(Choice::Plan(method::PlannedChoice {
            operation,
            durability: Durability::None,
        }))
    }

    /// Does an operation. `bytes` are those that it moved or compared, or `None` if the plan predicted something else.
    fn run<T>(
        &self,
        operation: Operation,
        path: &Path,
        plan: impl FnOnce(Durability) -> Result<Plan>,
        by: impl Fn(&Method) -> Result<T>,
        bytes: impl Fn(&T) -> Option<u64>,
    ) -> Result<Outcome<T>> {
        let by = |method: &Method| by(method).map_err(|error| error.about(path));
        let note = |clock: PlanClock, plan: &Plan, done: &T| {
            if let Some(bytes) = bytes(done) {
                clock.note(path, plan, bytes, self.planner);
            }
        };
        Outcome::by_choice(self.choice(operation), operation, plan, by, Some(&note))
    }
}

/// Reports the progress of an update at each write. Ends an update before a write or while a new file
/// is made; undoing is not interrupted.
struct WatchToProgress<'a> {
    progress: Option<&'a dyn Progress>,
    done_bytes: AtomicU64,
    of_bytes: u64,
    is_ended: AtomicBool,
}

impl Watch for WatchToProgress<'_> {
    fn before(&self, step: &WatchedStep<'_>) -> io::Result<()> {
        let Some(progress) = self.progress else {
            return Ok(());
        };
        if !matches!(step.kind, StepKind::Write | StepKind::Copy) || self.is_ended.load(Relaxed) {
            return Ok(());
        }
        let done = self.done_bytes.fetch_add(step.bytes, Relaxed);
        if progress.moved(done.min(self.of_bytes), self.of_bytes).is_continue() {
            return Ok(());
        }
        self.is_ended.store(true, Relaxed);
        self.done_bytes.store(done, Relaxed);
        Err(io::Error::other("the program ended it"))
    }
}

impl WatchToProgress<'_> {
    /// Turns the error of the write before which the program ended the update into [`Error::Stopped`].
    fn named(&self, mut error: Error) -> Error {
        if self.is_ended.load(Relaxed) {
            self.name(&mut error);
        }
        error
    }

    fn name(&self, error: &mut Error) {
        match error {
            Error::Update(UpdateError {
                kind:
                    UpdateErrorKind::Undone { source, .. }
                    | UpdateErrorKind::NotUndone { source, .. }
                    | UpdateErrorKind::PartlyUpdated { source, .. },
                ..
            }) => self.name(source),
            Error::System { path, method, .. } => {
                *error = Error::Stopped {
                    path: mem::take(path),
                    // Without one, the file was being copied.
                    method: method.unwrap_or_else(|| usual(Operation::Copy)),
                    done_bytes: self.done_bytes.load(Relaxed),
                };
            }
            _ => {}
        }
    }
}
