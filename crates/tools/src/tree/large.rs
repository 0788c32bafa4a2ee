//! Comparing large files by a method of the engine, one pair at a time, because the method may keep the whole device or
//! all processors busy.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use seekless_engine::plan::{Plan, Reason};
use seekless_engine::{Comparer, Error, Method, Verdict, full_text};
use seekless_sys::{into_unlocked, lock_mutex};

use super::TreeFinding;
use super::look::failed;
use crate::handle::path_of;
use crate::open_pair::{OpenRange, compare_pair, plan_pair};
use crate::watch::LargeFile;

/// The methods of large files, each prepared when it is first planned.
#[derive(Default)]
pub(crate) struct Large {
    prepared: Mutex<Vec<Prepared>>,
    now: Mutex<Option<LargeFile>>,
}

struct Prepared {
    planned: Method,
    /// The planned method, or its substitute.
    method: Method,
    comparer: Comparer,
    reason: Reason,
    files: u64,
}

impl Large {
    /// The first difference of two files of at least this many bytes; `Err(None)` if `goes_on` ended it.
    pub fn compare(
        &self,
        files: &[Arc<File>; 2],
        bytes: u64,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<u64>, Option<TreeFinding>> {
        apart(|| self.compare_here(files, bytes, goes_on))
    }

    fn compare_here(
        &self,
        files: &[Arc<File>; 2],
        bytes: u64,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<u64>, Option<TreeFinding>> {
        // One pair at a time.
        let mut all = lock_mutex(&self.prepared);
        if !goes_on() {
            return Err(None);
        }
        let pair = files.each_ref().map(|file| OpenRange {
            file,
            path: path_of(file).unwrap_or_default(),
            range: 0..bytes,
        });
        let failed = |error| Some(what(&error, &pair));
        let plan = plan_pair(pair.each_ref(), false).map_err(failed)?;
        let prepared = prepared(&mut all, plan).map_err(failed)?;
        prepared.files += 1;
        let path = std::fs::read_link(&pair[0].path).unwrap_or_default();
        let tell = |done_bytes, _| {
            self.set_now(Some(LargeFile {
                path: path.clone(),
                done_bytes,
                of_bytes: bytes,
            }));
            if goes_on() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let _ = tell(0, bytes);
        let compared = compare_pair(pair.each_ref(), &prepared.method, &mut prepared.comparer, Some(&tell));
        self.set_now(None);
        match compared {
            Ok(compared) => match compared.verdict {
                Verdict::Differ { offset } => Ok(Some(offset)),
                // If one has shrunk, the caller checks the sizes again.
                Verdict::Equal | Verdict::Ended { .. } => Ok(None),
            },
            Err(Error::Stopped { .. }) => Err(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn set_now(&self, pair: Option<LargeFile>) {
        *lock_mutex(&self.now) = pair;
    }

    /// The first file of the pair that is being compared, if there is one.
    pub fn now(&self) -> Option<LargeFile> {
        lock_mutex(&self.now).clone()
    }

    /// The methods used, with the reason and the number of files. Waits for the current pair.
    pub fn used(&self) -> Vec<(String, String, u64)> {
        let all = lock_mutex(&self.prepared);
        let used = all.iter();
        used.map(|one| (one.method.to_string(), one.reason.to_string(), one.files))
            .collect()
    }
}

/// Does work in a thread of its own, and waits for it. A thread of a pool that makes or waits for another pool would meanwhile begin
/// the next pair, and wait for the lock that it holds itself.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let begun = std::thread::scope(|scope| {
        let taken = Mutex::new(&mut work);
        let run = move || Some(into_unlocked(taken).take()?());
        let thread = std::thread::Builder::new().spawn_scoped(scope, run);
        // Without a thread, there is no other pool either.
        thread
            .ok()?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    begun.unwrap_or_else(|| work.take().expect("it was not begun")())
}

/// The prepared method of a plan.
fn prepared(all: &mut Vec<Prepared>, plan: Plan) -> Result<&mut Prepared, Error> {
    let known = all.iter().position(|prepared| prepared.planned == plan.method);
    if known.is_none() {
        let (method, comparer) = match Comparer::prepare(&plan.method) {
            Err(error) if error.is_unavailable() => (plan.otherwise, Comparer::prepare(&plan.otherwise)?),
            comparer => (plan.method, comparer?),
        };
        all.push(Prepared {
            planned: plan.method,
            method,
            comparer,
            reason: plan.reason,
            files: 0,
        });
    }
    let last = all.len() - 1;
    Ok(&mut all[known.unwrap_or(last)])
}

/// An error of the engine as a failure of one side.
fn what(error: &Error, pair: &[OpenRange<'_>; 2]) -> TreeFinding {
    let side = match error {
        Error::System { path, .. } | Error::Resized { path, .. } => usize::from(*path == pair[1].path),
        _ => 0,
    };
    let text = full_text(error);
    let reason = text.strip_prefix(&format!("{}: ", pair[side].path.display()));
    failed(side, "compare", std::io::Error::other(reason.unwrap_or(&text)))
}
