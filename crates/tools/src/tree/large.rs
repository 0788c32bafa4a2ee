//! Files that are large enough for a method of the engine's: one pair at a time, as the method may keep the whole device
//! or all processors busy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seekless::{Comparer, Error, Method, Part, Verdict};

use super::{Side, What};

/// From this size on what preparing costs is small beside reading. Below, the threads that read small files read these too.
pub(super) const LARGE_BYTES: u64 = 8 << 20;
/// After so many bytes it is looked whether to stop.
const PIECE_BYTES: u64 = 256 << 20;

/// The method of large files, prepared when the first is met.
#[derive(Default)]
pub(super) struct Large {
    prepared: Mutex<Option<Prepared>>,
}

struct Prepared {
    comparer: Comparer,
    method: String,
    why: String,
    files: u64,
}

/// Two open files, and what they are called in errors.
pub(super) struct LargePair<'a> {
    pub paths: [PathBuf; 2],
    pub files: &'a [Arc<File>; 2],
    /// From here on it is not known whether they are equal.
    pub start: u64,
    /// Both have so many bytes at least.
    pub end: u64,
}

impl Large {
    /// Where the files differ first before `end`, if they do; `Err(None)` where all was to stop.
    pub fn compare(&self, pair: &LargePair<'_>, stop: &AtomicBool) -> Result<Option<u64>, Option<What>> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = match &mut *prepared {
            Some(prepared) => prepared,
            none => none.insert(Prepared::new(pair).map_err(|error| Some(what(&error, pair)))?),
        };
        prepared.files += 1;
        let mut at = pair.start;
        while at < pair.end {
            if stop.load(Ordering::Relaxed) {
                return Err(None);
            }
            let limit = PIECE_BYTES.min(pair.end - at);
            let part = |side: usize| Part {
                path: &pair.paths[side],
                file: Some(Arc::clone(&pair.files[side])),
                start: at,
            };
            let compared = prepared.comparer.compare_parts(&part(0), &part(1), Some(limit));
            match compared.map_err(|error| Some(what(&error, pair)))?.verdict {
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
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let used = prepared.iter();
        used.map(|prepared| (prepared.method.clone(), prepared.why.clone(), prepared.files))
            .collect()
    }
}

/// Read by calls, so that a file that shrinks is an error of its own and no program must allow mapping.
const METHOD: &str = "compare/sync,block=256K,threads=2";

impl Prepared {
    fn new(_pair: &LargePair<'_>) -> Result<Self, Error> {
        let (method, why) = (
            METHOD.to_owned(),
            "two ranges at once keep processors and device busy".to_owned(),
        );
        let parsed: Method = method.parse().map_err(|error| Error::System {
            path: PathBuf::new(),
            action: format!("choosing {method}"),
            method: None,
            source: std::io::Error::other(format!("{error}")),
        })?;
        Ok(Self {
            comparer: Comparer::prepare(&parsed)?,
            method,
            why,
            files: 0,
        })
    }
}

/// An error of the engine's as a failure of one side.
fn what(error: &Error, pair: &LargePair<'_>) -> What {
    let of_other = |path: &Path| path == pair.paths[1] && pair.paths[0] != pair.paths[1];
    let side = match error {
        Error::System { path, .. } | Error::Shrank { path, .. } | Error::Grew { path, .. } if of_other(path) => {
            Side::Other
        }
        _ => Side::One,
    };
    let shown = pair.paths[side as usize].display().to_string();
    let reason = error.to_string();
    let reason = reason.strip_prefix(&format!("{shown}: ")).unwrap_or(&reason);
    What::Failed {
        side,
        action: "comparing",
        reason: reason.to_owned(),
    }
}
