//! The main calls: reading, writing, copying, comparing and updating a file, by the plan or by a named method. Each
//! returns what was done, by which method, and why.
//!
//! Not here: a method prepared once for many files ([`Reader`], [`Writer`], [`Copier`], [`Comparer`],
//! [`Updater`](crate::update::Updater)).

use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use seekless_method::{self as method, Choice, Durability, Method, Operation};
use seekless_sys::lock_mutex;

use crate::error::{Error, Result, UpdateError, UpdateErrorKind};
use crate::memory::ReadTarget;
use crate::plan::outcome::Outcome;
use crate::plan::{Plan, PlanLimits, Safety};
use crate::update::{Batch, Commit, StepKind, UpdateEstimate, Updated, Updates, Watch, WatchedStep, commit_done};
use crate::{
    AsFileRange, Comparer, Comparison, Copier, Destination, FileRange, Producer, Progress, Reader, Transfer, Writer,
    sequential,
};

/// Reads a file from start to end by the plan. `take` gets offsets and bytes in order, and may end the read by `Break`.
///
/// ```
/// # let path = tempfile::NamedTempFile::new()?;
/// # std::fs::write(&path, b"one\ntwo\n")?;
/// let mut lines = 0;
/// let done = seekless_engine::read(&path, |_offset, bytes| {
///     lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
///     std::ops::ControlFlow::Continue(())
/// })?;
/// println!("{lines} lines in {} bytes by {}: {}", done.bytes, done.method, done.why);
/// # assert_eq!((lines, done.bytes), (2, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Reader::read`].
pub fn read(
    from: impl AsFileRange,
    take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
) -> Result<Outcome<Transfer>> {
    IoOptions::new().read(from, take)
}

/// Reads a file into memory by the plan, up to the end of either. Methods that can, read to where the bytes belong, so
/// that nothing is copied twice; of a file in the page cache, several threads read.
///
/// ```
/// # let path = tempfile::NamedTempFile::new()?;
/// # std::fs::write(&path, b"one\ntwo\n")?;
/// let mut memory = vec![0; 4];
/// let done = seekless_engine::read_into(&path, &mut memory)?;
/// assert_eq!((done.bytes, memory.as_slice()), (4, b"one\n".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Reader::read`]. The memory then holds some of the bytes.
pub fn read_into(from: impl AsFileRange, memory: &mut [u8]) -> Result<Outcome<Transfer>> {
    IoOptions::new().read_into(from, memory)
}

/// Writes bytes to a new file by the plan. When it returns, they are in the page cache; with
/// `IoOptions::method("write/planned,fsync".parse()?)`, they are on the device.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// let done = seekless_engine::write(&path, b"all of it".as_slice())?;
/// # assert_eq!(std::fs::read(&path)?, b"all of it");
/// # assert_eq!(done.bytes, 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Writer::write`].
pub fn write(to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> Result<Outcome<Transfer>> {
    IoOptions::new().write(to, bytes)
}

/// Copies a file to a new one by the plan: its bytes and holes, but not its mode, owner and times.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// # std::fs::write(&from, b"bytes")?;
/// let done = seekless_engine::copy(&from, &to)?;
/// println!("{} bytes by {}: {}", done.bytes, done.method, done.why);
/// # assert_eq!(std::fs::read(&to)?, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Copier::copy`].
pub fn copy(from: impl AsFileRange, to: impl AsFileRange) -> Result<Outcome<Transfer>> {
    IoOptions::new().copy(from, to)
}

/// Compares two regular files by the plan, up to the first difference.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
/// # std::fs::write(&one, b"the same")?;
/// # std::fs::write(&other, b"the sane")?;
/// let done = seekless_engine::compare(&one, &other)?;
/// assert_eq!(done.verdict, seekless_engine::Verdict::Differ { offset: 6 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Comparer::compare`].
pub fn compare(one: impl AsFileRange, other: impl AsFileRange) -> Result<Outcome<Comparison>> {
    IoOptions::new().compare(one, other)
}

/// Applies a batch of small changes to a file by the plan, in few writes. The file keeps its size.
///
/// ```
/// # let file = tempfile::NamedTempFile::new()?;
/// # let path = file.path();
/// # std::fs::write(path, [0; 100])?;
/// let mut batch = seekless_engine::update::Batch::new();
/// batch.push(40, b"changed")?;
/// let done = seekless_engine::update(path, batch)?;
/// println!("{} bytes written by {}: {}", done.written_bytes, done.method, done.why);
/// # assert_eq!(&std::fs::read(path)?[40..47], b"changed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`commit`](crate::update::commit).
pub fn update(path: impl AsRef<Path>, batch: Batch) -> Result<Outcome<Updated>> {
    IoOptions::new().update(path, batch)
}

/// A request for [`plan`](plan()): one of the operations of [`read`], [`write`](write()), [`copy`], [`compare`] and
/// [`update`](update()).
#[derive(Clone, Debug)]
pub struct Request<'a> {
    what: What<'a>,
    durability: Durability,
}

#[derive(Clone, Debug)]
enum What<'a> {
    Read(FileRange<'a>),
    Write(FileRange<'a>, u64),
    Copy(FileRange<'a>, FileRange<'a>),
    Compare(FileRange<'a>, FileRange<'a>),
    Update(&'a Path, &'a Updates, Safety),
}

impl<'a> Request<'a> {
    /// Reading a file, or a part of it.
    #[must_use]
    pub fn read(from: &'a (impl AsFileRange + ?Sized)) -> Self {
        What::Read(from.as_file_range()).into()
    }

    /// Writing this many bytes to a file, which need not exist.
    #[must_use]
    pub fn write(to: &'a (impl AsFileRange + ?Sized), bytes: u64) -> Self {
        What::Write(to.as_file_range(), bytes).into()
    }

    /// Copying a file.
    #[must_use]
    pub fn copy(from: &'a (impl AsFileRange + ?Sized), to: &'a (impl AsFileRange + ?Sized)) -> Self {
        What::Copy(from.as_file_range(), to.as_file_range()).into()
    }

    /// Comparing two files.
    #[must_use]
    pub fn compare(one: &'a (impl AsFileRange + ?Sized), other: &'a (impl AsFileRange + ?Sized)) -> Self {
        What::Compare(one.as_file_range(), other.as_file_range()).into()
    }

    /// Updating a file.
    #[must_use]
    pub fn update(path: &'a (impl AsRef<Path> + ?Sized), updates: &'a Updates, safety: Safety) -> Self {
        What::Update(path.as_ref(), updates, safety).into()
    }

    /// Sets what must be on the device at the end, for an operation that writes. The default is nothing.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }
}

impl<'a> From<What<'a>> for Request<'a> {
    fn from(what: What<'a>) -> Self {
        Self {
            what,
            durability: Durability::None,
        }
    }
}

/// Plans a request and predicts its time, but does not carry it out. It measures for at most 100 ms, and reads at most
/// 8 MiB for that.
///
/// ```
/// use seekless_engine::Request;
/// # let file = tempfile::NamedTempFile::new()?;
/// # let path = file.path();
/// let plan = seekless_engine::plan(&Request::read(path))?;
/// println!("{} in {:?}: {}", plan.method, plan.predicted.value, plan.why);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The system's, if a file or its directory cannot be opened or examined.
pub fn plan(request: &Request<'_>) -> Result<Plan> {
    let durability = request.durability;
    match &request.what {
        What::Read(from) => Reader::plan(from, true),
        What::Write(to, bytes) => Writer::plan(to, *bytes, durability, true),
        What::Copy(from, to) => Copier::plan(from, to, durability, true),
        What::Compare(one, other) => Comparer::plan(one, other, true),
        What::Update(path, updates, safety) => {
            let limits = PlanLimits::new(durability, *safety);
            let estimate = UpdateEstimate::at(path, updates, &limits, true)?;
            Ok(estimate.plan(updates, &limits).plan)
        }
    }
}

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

    /// Lets an update make the file longer.
    #[must_use]
    pub fn allow_growth(self) -> Self {
        Self { grows: true, ..self }
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

    /// See [`read`].
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn read(
        &self,
        from: impl AsFileRange,
        take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
    ) -> Result<Outcome<Transfer>> {
        let (from, consumer) = (from.as_file_range(), sequential(take));
        self.run(
            Operation::Read,
            from.path(),
            |_| Reader::plan(&from, false),
            |method| Reader::prepare(method)?.read_told(&from, &consumer, None, self.progress),
        )
    }

    /// See [`read_into`].
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn read_into(&self, from: impl AsFileRange, memory: &mut [u8]) -> Result<Outcome<Transfer>> {
        let from = from.as_file_range().at_most(memory.len() as u64);
        // Of methods that are tried one after the other, each gets the memory anew.
        let memory = Mutex::new(memory);
        self.run(
            Operation::Read,
            from.path(),
            |_| Reader::plan_into_memory(&from),
            |method| {
                let mut memory = lock_mutex(&memory);
                Reader::prepare_for(method, memory.len() as u64)?.read_told(
                    &from,
                    &ReadTarget::new(&mut memory),
                    None,
                    self.progress,
                )
            },
        )
    }

    /// See [`write`](write()).
    ///
    /// # Errors
    /// As for [`Writer::write`].
    pub fn write(&self, to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> Result<Outcome<Transfer>> {
        let bytes = bytes.as_ref();
        self.produce(to, bytes.len() as u64, |offset, piece| (&bytes).produce(offset, piece))
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
        let to = to.as_file_range();
        self.run(
            Operation::Write,
            to.path(),
            |durability| Writer::plan(&to, bytes, durability, false),
            |method| {
                let mut writer = Writer::prepare_for(method, bytes)?;
                writer.write_told(&to, self.destination, bytes, &make, self.progress)
            },
        )
    }

    /// See [`copy`].
    ///
    /// # Errors
    /// As for [`Copier::copy`].
    pub fn copy(&self, from: impl AsFileRange, to: impl AsFileRange) -> Result<Outcome<Transfer>> {
        let (from, to) = (from.as_file_range(), to.as_file_range());
        self.run(
            Operation::Copy,
            from.path(),
            |durability| Copier::plan(&from, &to, durability, false),
            |method| Copier::prepare(method)?.copy_told(&from, &to, self.destination, self.progress),
        )
    }

    /// See [`compare`].
    ///
    /// # Errors
    /// As for [`Comparer::compare`].
    pub fn compare(&self, one: impl AsFileRange, other: impl AsFileRange) -> Result<Outcome<Comparison>> {
        let (one, other) = (one.as_file_range(), other.as_file_range());
        self.run(
            Operation::Compare,
            one.path(),
            |_| Comparer::plan(&one, &other, false),
            |method| Comparer::prepare(method)?.compare_told(&one, &other, self.progress),
        )
    }

    /// See [`update`](update()).
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
        commit_done(path, &updates, &how, &told).map_err(|error| told.named(error))
    }

    /// What was asked for: the plan, unless something else was.
    fn choice(&self, operation: Operation) -> Choice {
        self.by.unwrap_or(Choice::Plan(method::PlannedChoice {
            operation,
            durability: Durability::None,
        }))
    }

    fn run<T>(
        &self,
        operation: Operation,
        path: &Path,
        plan: impl FnOnce(Durability) -> Result<Plan>,
        by: impl Fn(&Method) -> Result<T>,
    ) -> Result<Outcome<T>> {
        let by = |method: &Method| by(method).map_err(|error| error.about(path));
        Outcome::by_choice(self.choice(operation), operation, plan, by)
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
            Error::System {
                path,
                method: Some(method),
                ..
            } => {
                *error = Error::Stopped {
                    path: mem::take(path),
                    method: *method,
                    done_bytes: self.done_bytes.load(Relaxed),
                };
            }
            _ => {}
        }
    }
}
