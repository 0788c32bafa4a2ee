//! How a call is done, and doing it: once, or for many files by what was prepared once.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use seekless_engine::method::{Choice, PlannedChoice};
use seekless_engine::plan::PlanLimits;
use seekless_engine::update::UpdateEstimate;
use seekless_engine::{self as engine, Destination, IoOptions, Mechanisms, Planner};

use crate::{
    AsFileRange, Batch, Context, Durability, Error, Method, Operation, Outcome, Plan, PlanRequest, Reason, Result,
    Safety, Stop, Updated, Verdict,
};

/// How to read, write, copy, compare or update a file. Unless [`Options::method`] names one, a plan chooses the method for the file and
/// its storage.
///
/// ```
/// use seekless::{Durability, Options};
/// # let directory = tempfile::tempdir()?;
/// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// # std::fs::write(&from, b"bytes")?;
/// let done = Options::new().durability(Durability::Fsync).copy(&from, &to)?;
/// println!("{} bytes in {:?} by {}: {}", done.bytes, done.elapsed, done.method, done.reason);
/// # assert_eq!(std::fs::read(&to)?, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Options<'a> {
    asked: Option<Choice>,
    pub(crate) durability: Durability,
    pub(crate) overwrites: bool,
    pub(crate) safety: Safety,
    grows: bool,
    pub(crate) threads_max: usize,
    progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    pub(crate) stop: Option<&'a Stop>,
    pub(crate) context: Option<&'a Context>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            asked: None,
            durability: Durability::None,
            overwrites: false,
            safety: Safety::InPlace,
            grows: false,
            threads_max: usize::MAX,
            progress: None,
            stop: None,
            context: None,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Options");
        shown.field("method", &self.asked).field("durability", &self.durability);
        shown.field("safety", &self.safety).finish_non_exhaustive()
    }
}

impl<'a> Options<'a> {
    /// By the plan, without durability, to new files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// By this method, which does what its name says or fails.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self {
            asked: Some(Choice::Method(method.0)),
            ..self
        }
    }

    /// By the method of this text, or by a plan: `OPERATION/planned[,DURABILITY]`. So command lines say it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    /// # std::fs::write(&from, b"bytes")?;
    /// assert!(seekless::Options::new().by("copy/planned,fsync")?.copy(&from, &to)?.method.to_string().contains("fsync"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is neither.
    pub fn by(self, text: &str) -> Result<Self> {
        let asked = Some(
            text.parse()
                .map_err(|error: engine::ParseError| Error::of_words(error))?,
        );
        Ok(Self { asked, ..self })
    }

    /// What must be on the device at the end, of a call that writes; one that only reads refuses it. The default is nothing. A
    /// method that names another keeps it.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Whether a write or copy overwrites a file that exists, which then has the new size. The default is a new file, whose name must be
    /// free.
    #[must_use]
    pub fn overwrite(self, overwrites: bool) -> Self {
        Self { overwrites, ..self }
    }

    /// The state of a file after an update that ends early. The default is [`Safety::InPlace`].
    #[must_use]
    pub fn safety(self, safety: Safety) -> Self {
        Self { safety, ..self }
    }

    /// Whether an update may make the file longer. The default is no.
    #[must_use]
    pub fn allow_growth(self, grows: bool) -> Self {
        Self { grows, ..self }
    }

    /// A planned method starts at most this many threads. The default is what measured fastest.
    #[must_use]
    pub fn threads(self, threads_max: usize) -> Self {
        Self { threads_max, ..self }
    }

    /// Tells the bytes that are done and their total about every 16 MiB, perhaps from several threads at once. A copy that is a
    /// single system call, such as a reflink, tells nothing.
    #[must_use]
    pub fn progress(self, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Self {
            progress: Some(progress),
            ..self
        }
    }

    /// Ends the call soon after [`Stop::stop`], with [`ErrorKind::Stopped`](crate::ErrorKind::Stopped). A new file is then removed, one
    /// that was overwritten holds what was written until then, and an update ends as after an error.
    #[must_use]
    pub fn stop(self, stop: &'a Stop) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// Plans with the profiles of a context.
    #[must_use]
    pub fn context(self, context: &'a Context) -> Self {
        Self {
            context: Some(context),
            ..self
        }
    }

    /// Prepares an operation for many files: buffers, rings and threads are made once for each method, and used again. A plan is made for
    /// each file. Several threads may use it at once.
    ///
    /// ```
    /// use seekless::{Operation, Options};
    /// # let directory = tempfile::tempdir()?;
    /// # let paths = ["one", "other"].map(|name| directory.path().join(name));
    /// # for path in &paths { std::fs::write(path, b"bytes")?; }
    /// let prepared = Options::new().method("read/sync,block=64K".parse()?).prepare(Operation::Read)?;
    /// for path in &paths {
    ///     assert_eq!(prepared.read_to_vec(path)?.value, b"bytes");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the method is of another operation or does not take the durability.
    pub fn prepare(self, operation: Operation) -> Result<Prepared<'a>> {
        Ok(Prepared {
            options: self,
            choice: self.choice(operation)?,
            mechanisms: Mechanisms::default(),
        })
    }

    /// Plans an operation and predicts its time, but does not carry it out. It measures for at most 100 ms, and reads at most
    /// 8 MiB for that, which stay in the page cache. See [`plan`](crate::plan()).
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) if a file or its directory cannot be opened or examined.
    pub fn plan(&self, request: &PlanRequest<'_>) -> Result<Plan> {
        let planner = self.planner();
        let durability = self.choice(request.operation())?.durability();
        let plan = match request {
            PlanRequest::Read(from) => engine::Reader::plan_with(from.engine(), true, planner),
            PlanRequest::Write(to, bytes) => engine::Writer::plan_with(to.engine(), *bytes, durability, true, planner),
            PlanRequest::Copy(from, to) => {
                engine::Copier::plan_with(from.engine(), to.engine(), durability, true, planner)
            }
            PlanRequest::Compare(one, other) => {
                engine::Comparer::plan_with([one.engine(), other.engine()], true, planner)
            }
            PlanRequest::Update(path, batch) => {
                let (updates, limits) = (
                    batch.0.clone().resolve(),
                    PlanLimits::new(durability, self.safety.engine()),
                );
                UpdateEstimate::with(path, &updates, &limits, true, planner)
                    .map(|estimate| estimate.plan(&updates, &limits).plan)
            }
        };
        let plan = plan.map_err(Error::of)?;
        Ok(Plan {
            method: Method(plan.method),
            predicted: plan.predicted.value,
            bounds: (plan.predicted.low, plan.predicted.high),
            reason: Reason(plan.reason),
        })
    }

    /// The method, or a plan.
    pub(crate) fn choice(&self, operation: Operation) -> Result<Choice> {
        let planned = PlannedChoice {
            operation: operation.engine(),
            durability: engine::method::Durability::None,
        };
        let asked = self.asked.unwrap_or(Choice::Plan(planned));
        if asked.operation() != planned.operation {
            let wanted = planned.operation.name();
            return Err(Error::of(engine::Error::WrongOperation { asked, wanted }));
        }
        let wanted = self.durability.engine();
        if self.durability == Durability::None || asked.durability() != planned.durability {
            return Ok(asked);
        }
        asked.with_durability(wanted).map_err(Error::of_words)
    }

    pub(crate) fn planner(&self) -> Planner<'a> {
        Context::planner(self.context, self.threads_max)
    }
}

/// Tells the progress of a call, and ends it.
struct Watch<'a>(Options<'a>);

impl engine::Progress for Watch<'_> {
    fn moved(&self, done_bytes: u64, of_bytes: u64) -> ControlFlow<()> {
        if let Some(progress) = self.0.progress {
            progress(done_bytes, of_bytes);
        }
        self.0.stop.map_or(ControlFlow::Continue(()), Stop::go_on)
    }
}

/// The same calls of [`Options`] and [`Prepared`]: each says how it is done.
macro_rules! calls {
    ($($(#[$about:meta])+ fn $name:ident($operation:ident, $($argument:ident: $type:ty),+) -> $value:ty;)+) => {
        impl Options<'_> {
            $($(#[$about])+ pub fn $name(&self, $($argument: $type),+) -> Result<Outcome<$value>> {
                self.prepare(Operation::$operation)?.$name($($argument),+)
            })+
        }
    };
}

calls! {
    /// Passes the bytes of a file to `take`, in order, which may end the read by `Break`: that is the value. See
    /// [`read`](crate::read()).
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    fn read(Read, from: impl AsFileRange, take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send) -> ControlFlow<()>;

    /// Reads a file into a new vector. See [`read_to_vec`](crate::read_to_vec()).
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    fn read_to_vec(Read, from: impl AsFileRange) -> Vec<u8>;

    /// Reads a file into memory. See [`read_into`](crate::read_into()).
    ///
    /// # Errors
    /// As [`read`](crate::read()). The memory then holds some of the bytes.
    fn read_into(Read, from: impl AsFileRange, memory: &mut [u8]) -> ();

    /// Reads a file into memory that need not be initialised: after it, the first [`Outcome::bytes`] of it are.
    ///
    /// # Errors
    /// As [`read`](crate::read()). Then none of it may be taken for initialised.
    fn read_into_uninit(Read, from: impl AsFileRange, memory: &mut [MaybeUninit<u8>]) -> ();

    /// Writes bytes to a file. See [`write`](crate::write()).
    ///
    /// # Errors
    /// As [`write`](crate::write()).
    fn write(Write, to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> ();

    /// Copies a file. See [`copy`](crate::copy()).
    ///
    /// # Errors
    /// As [`copy`](crate::copy()).
    fn copy(Copy, from: impl AsFileRange, to: impl AsFileRange) -> ();

    /// Compares two files. See [`compare`](crate::compare()).
    ///
    /// # Errors
    /// As [`compare`](crate::compare()).
    fn compare(Compare, one: impl AsFileRange, other: impl AsFileRange) -> Verdict;

    /// Makes small changes in a file. See [`update`](crate::update()).
    ///
    /// # Errors
    /// As [`update`](crate::update()).
    fn update(Update, path: impl AsRef<Path>, batch: Batch) -> Updated;
}

/// An operation that is prepared for many files: see [`Options::prepare`]. Each call is that of [`Options`] with the same name; one of
/// another operation is an error.
pub struct Prepared<'a> {
    options: Options<'a>,
    choice: Choice,
    mechanisms: Mechanisms,
}

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Prepared");
        shown.field("by", &self.choice).field("options", &self.options);
        shown.finish_non_exhaustive()
    }
}

impl Prepared<'_> {
    /// Does an operation; `told` says how many bytes were done, and what the call returns.
    fn done<T, V>(
        &self,
        operation: Operation,
        call: impl FnOnce(&IoOptions<'_>) -> engine::Result<engine::Outcome<T>>,
        told: impl FnOnce(T) -> (u64, V),
    ) -> Result<Outcome<V>> {
        let began = Instant::now();
        let (options, asked, wanted) = (&self.options, self.choice, operation.engine());
        if asked.operation() != wanted {
            let wanted = wanted.name();
            return Err(Error::of(engine::Error::WrongOperation { asked, wanted }));
        }
        let destination = if options.overwrites {
            Destination::Overwrite
        } else {
            Destination::New
        };
        let mut job = IoOptions::method(asked)
            .destination(destination)
            .safety(options.safety.engine())
            .allow_growth(options.grows)
            .planner(options.planner())
            .mechanisms(&self.mechanisms);
        let watch = Watch(*options);
        if options.progress.is_some() || options.stop.is_some() {
            job = job.progress(&watch);
        }
        let done = call(&job).map_err(Error::of)?;
        let (bytes, value) = told(done.what);
        Ok(Outcome {
            bytes,
            elapsed: began.elapsed(),
            method: Method(done.method),
            reason: Reason(done.reason),
            value,
        })
    }

    /// As [`Options::read`].
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn read(
        &self,
        from: impl AsFileRange,
        take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
    ) -> Result<Outcome<ControlFlow<()>>> {
        let flow = |stopped| {
            if stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let call = |job: &IoOptions<'_>| job.read(from.as_file_range().engine(), take);
        self.done(Operation::Read, call, |done| (done.bytes, flow(done.stopped)))
    }

    /// As [`Options::read_to_vec`].
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn read_to_vec(&self, from: impl AsFileRange) -> Result<Outcome<Vec<u8>>> {
        let call = |job: &IoOptions<'_>| job.read_to_vec(from.as_file_range().engine());
        self.done(Operation::Read, call, |bytes| (bytes.len() as u64, bytes))
    }

    /// As [`Options::read_into`].
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn read_into(&self, from: impl AsFileRange, memory: &mut [u8]) -> Result<Outcome<()>> {
        let call = |job: &IoOptions<'_>| job.read_into(from.as_file_range().engine(), memory);
        self.done(Operation::Read, call, |done| (done.bytes, ()))
    }

    /// As [`Options::read_into_uninit`].
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn read_into_uninit(&self, from: impl AsFileRange, memory: &mut [MaybeUninit<u8>]) -> Result<Outcome<()>> {
        let call = |job: &IoOptions<'_>| job.read_into(from.as_file_range().engine(), memory);
        self.done(Operation::Read, call, |done| (done.bytes, ()))
    }

    /// As [`Options::write`].
    ///
    /// # Errors
    /// As [`write`](crate::write()).
    pub fn write(&self, to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> Result<Outcome<()>> {
        let call = |job: &IoOptions<'_>| job.write(to.as_file_range().engine(), bytes);
        self.done(Operation::Write, call, |done| (done.bytes, ()))
    }

    /// As [`Options::copy`].
    ///
    /// # Errors
    /// As [`copy`](crate::copy()).
    pub fn copy(&self, from: impl AsFileRange, to: impl AsFileRange) -> Result<Outcome<()>> {
        let call = |job: &IoOptions<'_>| job.copy(from.as_file_range().engine(), to.as_file_range().engine());
        self.done(Operation::Copy, call, |done| (done.bytes, ()))
    }

    /// As [`Options::compare`].
    ///
    /// # Errors
    /// As [`compare`](crate::compare()).
    pub fn compare(&self, one: impl AsFileRange, other: impl AsFileRange) -> Result<Outcome<Verdict>> {
        let call = |job: &IoOptions<'_>| job.compare(one.as_file_range().engine(), other.as_file_range().engine());
        self.done(Operation::Compare, call, |done| (done.bytes, Verdict::of(done.verdict)))
    }

    /// As [`Options::update`].
    ///
    /// # Errors
    /// As [`update`](crate::update()).
    pub fn update(&self, path: impl AsRef<Path>, batch: Batch) -> Result<Outcome<Updated>> {
        let call = |job: &IoOptions<'_>| job.update(path, batch.0);
        let told = |done: engine::update::Updated| {
            let (writes, written_bytes) = (done.writes, done.written_bytes);
            (done.requested_bytes, Updated { writes, written_bytes })
        };
        self.done(Operation::Update, call, told)
    }
}
