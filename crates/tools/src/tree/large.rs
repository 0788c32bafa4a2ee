//! Files that are large enough for a method of the engine's: one pair at a time, as the method may keep the whole device
//! or all processors busy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seekless::method::CachePolicy;
use seekless::{Comparer, Error, Method, Part, Verdict, full_text};

use super::{Side, What};
use crate::handle::path_of;

pub(super) use seekless::plan::LARGE_BYTES;
/// After so many bytes it is looked whether to stop.
const PIECE_BYTES: u64 = 256 << 20;

/// The methods of large files, each prepared when it is first planned.
#[derive(Default)]
pub(super) struct Large {
    prepared: Mutex<Vec<Prepared>>,
}

struct Prepared {
    comparer: Comparer,
    method: Method,
    why: String,
    files: u64,
}

/// Two open files, and what they are called.
pub(super) struct LargePair<'a> {
    pub paths: [PathBuf; 2],
    pub files: &'a [Arc<File>; 2],
    /// Both have so many bytes at least.
    pub bytes: u64,
}

impl Large {
    /// Where the files differ first, if they do; `Err(None)` where all was to stop.
    pub fn compare(&self, mut pair: LargePair<'_>, stop: &AtomicBool) -> Result<Option<u64>, Option<What>> {
        // One pair at a time.
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        pair.name_by_handles();
        let prepared = planned(&mut all, &pair).map_err(|error| Some(what(&error, &pair)))?;
        prepared.files += 1;
        let mut at = 0;
        while at < pair.bytes {
            if stop.load(Ordering::Relaxed) {
                return Err(None);
            }
            let limit = PIECE_BYTES.min(pair.bytes - at);
            let [one, other] = pair.parts(at, prepared.method);
            let compared = prepared.comparer.compare_parts(&one, &other, Some(limit));
            match compared.map_err(|error| Some(what(&error, &pair)))?.verdict {
                Verdict::Equal => at += limit,
                Verdict::Differ { offset } => return Ok(Some(at + offset)),
                // One has become shorter than it was; the sizes are looked at again by whoever asked.
                Verdict::Ended { .. } => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The methods that were used, why, and for how many files.
    pub fn used(&self) -> Vec<(String, String, u64)> {
        let all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let used = all.iter();
        used.map(|one| (one.method.to_string(), one.why.clone(), one.files))
            .collect()
    }
}

impl LargePair<'_> {
    /// Where the system has names for open files, these are never too long, and lead to no other file meanwhile.
    fn name_by_handles(&mut self) {
        for (path, file) in self.paths.iter_mut().zip(self.files) {
            if let Some(handle) = path_of(file) {
                *path = handle;
            }
        }
    }

    /// Both from a byte on: the open files, or for direct reads, which are an open file's own, what they are called.
    fn parts(&self, start: u64, method: Method) -> [Part<'_>; 2] {
        let is_cached = method.options().cache() == CachePolicy::Cached;
        [0, 1].map(|side: usize| Part {
            path: &self.paths[side],
            file: is_cached.then(|| Arc::clone(&self.files[side])),
            start,
        })
    }
}

/// The method that suits two files, ready.
fn planned<'p>(all: &'p mut Vec<Prepared>, pair: &LargePair<'_>) -> Result<&'p mut Prepared, Error> {
    let [one, other] = [0, 1].map(|side: usize| Part {
        path: &pair.paths[side],
        file: Some(Arc::clone(&pair.files[side])),
        start: 0,
    });
    let plan = Comparer::plan(&one, &other, pair.bytes, false)?;
    for method in [plan.method, plan.otherwise] {
        if let Some(index) = all.iter().position(|prepared| prepared.method == method) {
            return Ok(&mut all[index]);
        }
        match Comparer::prepare(&method) {
            Err(error) if error.is_unavailable() && method != plan.otherwise => {}
            Err(error) => return Err(error),
            Ok(comparer) => {
                all.push(Prepared {
                    comparer,
                    method,
                    why: plan.why,
                    files: 0,
                });
                let last = all.len() - 1;
                return Ok(&mut all[last]);
            }
        }
    }
    Err(Error::Unavailable {
        path: pair.paths[0].clone(),
        method: plan.otherwise,
        reason: "no method that was planned is to be had".to_owned(),
    })
}

/// An error of the engine's as a failure of one side.
fn what(error: &Error, pair: &LargePair<'_>) -> What {
    let of_other = |path: &Path| path == pair.paths[1] && pair.paths[0] != pair.paths[1];
    let side = match error {
        Error::System { path, .. } | Error::Resized { path, .. } if of_other(path) => Side::Other,
        _ => Side::One,
    };
    let shown = pair.paths[side as usize].display().to_string();
    let reason = full_text(error);
    let reason = reason.strip_prefix(&format!("{shown}: ")).unwrap_or(&reason);
    What::Failed {
        side,
        action: "comparing",
        reason: reason.to_owned(),
    }
}
