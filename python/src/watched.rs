//! Doing work that Ctrl-C can end, without the GIL.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use seekless::{Options, Stop};

/// How long Python's signal handlers wait at most.
const PERIOD: Duration = Duration::from_millis(40);

/// Less is done by the calling thread: starting another takes longer than waiting for its end.
const WATCHED_FROM_BYTES: u64 = 1 << 20;

/// What the work tells the thread that waits for it, and whether it is to end.
#[derive(Default)]
pub struct Told {
    pub done: AtomicU64,
    pub of: AtomicU64,
    /// Whether somebody is told.
    pub has_watcher: bool,
    /// Ends the work.
    pub stop: Stop,
}

impl Told {
    /// Makes a call that tells this its progress, and that this ends.
    pub fn tells<T>(
        &self,
        how: Options<'_>,
        call: impl FnOnce(&Options<'_>) -> seekless::Result<T>,
    ) -> seekless::Result<T> {
        let tell = |done_bytes, of_bytes| {
            self.done.store(done_bytes, Relaxed);
            self.of.store(of_bytes, Relaxed);
        };
        call(&how.progress(&tell).stop(&self.stop))
    }
}

/// Does work on files of this many bytes. The calling thread runs the handlers of signals and calls `progress` with what
/// is done and its total; if one of them raises, the work is ended. Where no thread can be had, the calling one does it.
pub fn watched<T: Send, E: Send>(
    py: Python<'_>,
    bytes: u64,
    progress: Option<&Bound<'_, PyAny>>,
    raise: fn(E) -> PyErr,
    work: impl FnOnce(&Told) -> Result<T, E> + Send,
) -> PyResult<T> {
    let told = Told {
        has_watcher: progress.is_some(),
        ..Told::default()
    };
    if bytes < WATCHED_FROM_BYTES && progress.is_none() {
        return py.detach(|| work(&told)).map_err(raise);
    }
    let progress = progress.map(|progress| progress.clone().unbind());
    let waiting = thread::current();
    // A closure that a thread was not started with is lost, so the work stays here until it is taken.
    let work = Mutex::new(Some(work));
    let is_done = AtomicBool::new(false);
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (done, raised) = py.detach(|| {
        thread::scope(|scope| {
            let started = thread::Builder::new().spawn_scoped(scope, || {
                let work = take().expect("only a thread that was not started leaves it");
                let done = work(&told);
                // Not `is_finished`: a thread that has woken the other one takes a while to end, and that one would sleep again.
                is_done.store(true, Release);
                waiting.unpark();
                done
            });
            let Ok(worker) = started else {
                let work = take().expect("no thread has taken it");
                return (work(&told), Ok(()));
            };
            let mut raised = Ok(());
            while !is_done.load(Acquire) && !worker.is_finished() {
                thread::park_timeout(PERIOD);
                if raised.is_ok() && !is_done.load(Acquire) {
                    raised = Python::attach(|py| look(py, progress.as_ref(), &told));
                    if raised.is_err() {
                        told.stop.stop();
                    }
                }
            }
            let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (done, raised)
        })
    });
    raised?;
    let done = done.map_err(raise)?;
    look(py, progress.as_ref(), &told)?;
    Ok(done)
}

fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, told: &Told) -> PyResult<()> {
    py.check_signals()?;
    if let Some(progress) = progress {
        progress.call1(py, (told.done.load(Relaxed), told.of.load(Relaxed)))?;
    }
    Ok(())
}
