//! Comparing large files by a method of the engine, one pair at a time, because the method may keep the whole device or
//! all processors busy.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use seekless::files::first_data;
use seekless::plan::Plan;
use seekless::{Comparer, Error, Method, Part, Verdict, full_text};

use super::look::failed;
use super::{LargePair, TreeFinding};
use crate::Stop;
use crate::handle::path_of;

/// Bytes between two checks whether to stop.
const PIECE_BYTES: u64 = 256 << 20;
/// Bytes between two reports of progress. Each piece costs some tens of microseconds.
const TOLD_BYTES: u64 = 16 << 20;

/// The methods of large files, each prepared when it is first planned.
#[derive(Default)]
pub(crate) struct Large {
    prepared: Mutex<Vec<Prepared>>,
    now: Mutex<Option<LargePair>>,
}

struct Prepared {
    planned: Method,
    /// The planned method, or its substitute.
    method: Method,
    comparer: Comparer,
    why: String,
    files: u64,
}

impl Large {
    /// The first difference of two files of at least this many bytes; `Err(None)` if the job was stopped. `is_watched`
    /// enables progress reports.
    pub fn compare(
        &self,
        files: &[Arc<File>; 2],
        bytes: u64,
        is_watched: bool,
        stop: &Stop,
    ) -> Result<Option<u64>, Option<TreeFinding>> {
        self.compare_while(files, bytes, is_watched, &|| !stop.is_stopped())
    }

    /// The same, as long as `goes_on`.
    pub fn compare_while(
        &self,
        files: &[Arc<File>; 2],
        bytes: u64,
        is_watched: bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, Option<TreeFinding>> {
        // One pair at a time.
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = files.each_ref().map(|file| path_of(file).unwrap_or_default());
        let parts =
            |range: Range<u64>| [0, 1].map(|n: usize| Part::of_shared(&files[n], &paths[n]).range(range.clone()));
        let [one, other] = parts(0..bytes);
        let failed = |error| Some(what(&error, &paths));
        let plan = Comparer::plan(&one, &other, false).map_err(failed)?;
        let prepared = prepared(&mut all, plan).map_err(failed)?;
        prepared.files += 1;
        let path = std::fs::read_link(&paths[0]).unwrap_or_default();
        let piece_bytes = if is_watched { TOLD_BYTES } else { PIECE_BYTES };
        let mut at = 0;
        let found = loop {
            if !goes_on() {
                break Err(None);
            }
            self.set_now(Some(LargePair {
                path: path.clone(),
                done_bytes: at,
                bytes,
            }));
            // What is a hole in both is equal.
            at = first_data(&[&files[0], &files[1]], at..bytes).unwrap_or(at);
            if at == bytes {
                break Ok(None);
            }
            let end = bytes.min(at + piece_bytes);
            let [one, other] = parts(at..end);
            match prepared.comparer.compare(one, other).map_err(failed) {
                Err(error) => break Err(error),
                Ok(compared) => match compared.verdict {
                    Verdict::Equal if end < bytes => at = end,
                    Verdict::Differ { offset } => break Ok(Some(at + offset)),
                    // If one has shrunk, the caller checks the sizes again.
                    Verdict::Equal | Verdict::Ended { .. } => break Ok(None),
                },
            }
        };
        self.set_now(None);
        found
    }

    fn set_now(&self, pair: Option<LargePair>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = pair;
    }

    /// The pair that is being compared, if there is one.
    pub fn now(&self) -> Option<LargePair> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The methods used, with the reason and the number of files. Waits for the current pair.
    pub fn used(&self) -> Vec<(String, String, u64)> {
        let all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let used = all.iter();
        used.map(|one| (one.method.to_string(), one.why.clone(), one.files))
            .collect()
    }
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
            why: plan.why,
            files: 0,
        });
    }
    let last = all.len() - 1;
    Ok(&mut all[known.unwrap_or(last)])
}

/// An error of the engine as a failure of one side.
fn what(error: &Error, paths: &[PathBuf; 2]) -> TreeFinding {
    let side = match error {
        Error::System { path, .. } | Error::Resized { path, .. } => usize::from(*path == paths[1]),
        _ => 0,
    };
    let text = full_text(error);
    let reason = text.strip_prefix(&format!("{}: ", paths[side].display()));
    failed(side, "compare", std::io::Error::other(reason.unwrap_or(&text)))
}
