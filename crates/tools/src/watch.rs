//! How a job reports to its caller, and how the caller stops it: one trait for all jobs.
//!
//! ```
//! use std::ops::ControlFlow;
//! use seekless_tools::cp::{self, CpEvent, CpOptions};
//! use seekless_tools::{JobProgress, JobWatch, Stop};
//!
//! /// Stops a copy after 1 MiB.
//! #[derive(Default)]
//! struct FirstBytes(Stop);
//!
//! impl JobWatch<CpEvent<'_>> for FirstBytes {
//!     fn progress(&self, progress: &JobProgress) {
//!         if progress.done_bytes >= 1 << 20 {
//!             self.0.stop();
//!         }
//!     }
//!
//!     fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
//!         if let CpEvent::Failed(failure) = event {
//!             eprintln!("{failure:?}");
//!         }
//!         ControlFlow::Continue(())
//!     }
//!
//!     fn stop(&self) -> &Stop {
//!         &self.0
//!     }
//! }
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # for number in 0..64 {
//! #     std::fs::create_dir_all(from.join(format!("{number}")))?;
//! #     std::fs::write(from.join(format!("{number}/file")), vec![number; 1 << 16])?;
//! # }
//!
//! let options = CpOptions::default();
//! let first = cp::copy_trees(&[&from], &to, &options, &FirstBytes::default())?;
//! assert!(first.is_unfinished);
//! // A token alone is a watch that reports nothing.
//! let second = cp::copy_trees(&[&from], &to, &options, &Stop::default())?;
//! assert_eq!(second.resumed + second.files, 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use seekless::Stop;
use seekless_sys::lock_mutex;

/// Receives the progress and the events of a job, and stops it. Each job names its type of events; one without events has
/// [`Infallible`]. A [`Stop`] alone is a watch, and so are closures ([`ClosureWatch`]).
pub trait JobWatch<E = Infallible>: Sync {
    /// Whether progress is wanted. Otherwise, jobs leave out what it costs: to know the total, a copy walks through its sources.
    fn wants_progress(&self) -> bool {
        true
    }

    /// Receives how far the job is, from any of its threads. The reports of two threads may come in the wrong order.
    fn progress(&self, _progress: &JobProgress) {}

    /// Receives what happened, from any of the job's threads. `Break` ends the job.
    fn event(&self, _event: E) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The token that stops the job. A job that can do no more, as on a full disk, sets it, too.
    fn stop(&self) -> &Stop;
}

impl<E> JobWatch<E> for Stop {
    fn wants_progress(&self) -> bool {
        false
    }

    fn stop(&self) -> &Stop {
        self
    }
}

/// A watch made of a token and two closures, of which the one for events is called by one thread at a time.
///
/// ```
/// use std::ops::ControlFlow;
/// use seekless_tools::tree::{self, TreeEvent, TreeOptions};
/// use seekless_tools::{ClosureWatch, JobProgress, Stop};
/// # let directory = tempfile::tempdir()?;
/// # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
/// # for tree in [&one, &other] { std::fs::create_dir(tree)?; }
/// # std::fs::write(one.join("file"), b"bytes")?;
/// let (stop, mut paths) = (Stop::default(), Vec::new());
/// let watch = ClosureWatch::new(&stop, |_: &JobProgress| (), |event: TreeEvent<'_>| {
///     paths.push(event.path.to_owned());
///     ControlFlow::Continue(())
/// });
/// tree::compare(&one, &other, &TreeOptions::default(), &watch)?;
/// assert_eq!(paths, [std::path::Path::new("file")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClosureWatch<'a, P, F> {
    stop: &'a Stop,
    progress: P,
    event: Mutex<F>,
}

impl<'a, P: Fn(&JobProgress) + Sync, F: Send> ClosureWatch<'a, P, F> {
    /// Passes on progress and events. The type of the event has to be written in the closure.
    pub fn new(stop: &'a Stop, progress: P, event: F) -> Self {
        Self {
            stop,
            progress,
            event: Mutex::new(event),
        }
    }
}

impl<E, P: Fn(&JobProgress) + Sync, F: FnMut(E) -> ControlFlow<()> + Send> JobWatch<E> for ClosureWatch<'_, P, F> {
    fn progress(&self, progress: &JobProgress) {
        (self.progress)(progress);
    }

    fn event(&self, event: E) -> ControlFlow<()> {
        lock_mutex(&self.event)(event)
    }

    fn stop(&self) -> &Stop {
        self.stop
    }
}

/// How far a job is. What a job does not count is 0, and a total that it does not know is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// The part of the job that the figures belong to.
    pub phase: JobPhase,
    /// Entries that are done: files, or steps of an action.
    pub done_entries: u64,
    /// All entries.
    pub of_entries: Option<u64>,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// All bytes.
    pub of_bytes: Option<u64>,
    /// The large file that the job works on; its bytes are among those that are done.
    pub large: Option<LargeFile>,
}

impl JobProgress {
    /// The progress of a phase that counts entries.
    #[must_use]
    pub fn of_entries(phase: JobPhase, done_entries: u64, of_entries: Option<u64>) -> Self {
        Self {
            phase,
            done_entries,
            of_entries,
            ..Self::default()
        }
    }

    /// The progress of work that counts bytes.
    #[must_use]
    pub fn of_bytes(done_bytes: u64, of_bytes: Option<u64>) -> Self {
        Self {
            done_bytes,
            of_bytes,
            ..Self::default()
        }
    }
}

/// The part of a job. Each counts from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPhase {
    /// A search lists directories. The total of files is not known.
    Listing,
    /// A search reads the beginnings of files.
    Beginnings,
    /// The work that the job is for: all of most jobs.
    #[default]
    Work,
}

/// A large file, and how much of it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeFile {
    /// The file.
    pub path: PathBuf,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// All of its bytes.
    pub of_bytes: u64,
}

/// An event: a path that could not be opened, read or listed, and why. The job continues.
#[derive(Clone, Copy, Debug)]
pub struct PathFailure<'a> {
    /// The path.
    pub path: &'a Path,
    /// The reason.
    pub reason: &'a str,
}

/// Reports an event to a watch, whose `Break` stops all threads.
pub(crate) fn report<E>(watch: &dyn JobWatch<E>, event: E) {
    if watch.event(event).is_break() {
        watch.stop().stop();
    }
}

/// What the threads of a job have done.
#[derive(Debug, Default)]
pub(crate) struct JobCounters {
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The totals, once they are known.
    pub total: OnceLock<JobProgress>,
}

impl JobCounters {
    /// Counters of as many entries as there are.
    pub fn of_entries(entries: usize) -> Self {
        let total = JobProgress::of_entries(JobPhase::Work, 0, Some(entries as u64));
        Self {
            total: total.into(),
            ..Self::default()
        }
    }

    /// Counts entries and bytes as done, and returns the progress.
    pub fn add(&self, entries: u64, bytes: u64) -> JobProgress {
        JobProgress {
            done_entries: self.entries.fetch_add(entries, Ordering::Relaxed) + entries,
            done_bytes: self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes,
            ..self.total.get().cloned().unwrap_or_default()
        }
    }
}
