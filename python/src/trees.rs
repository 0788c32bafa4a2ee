//! Jobs on trees of files.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use pyo3::PyErr;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use seekless_tools::cp::{self, CpDurability, CpError, CpEvent, CpFailure, CpOptions, Existing, Preserved};
use seekless_tools::dupes::{self, EqualFiles, SearchOptions};
use seekless_tools::walk::{Filter, Globs, Selection};
use seekless_tools::{JobPhase, JobProgress, JobWatch, Stop};

use crate::error::{EBUSY, ENOTDIR, at, without_number, wrong};
use crate::watched::{Told, watched};

/// The size of each file, the space that is freed if one stays, and the names of each.
type Group = (u64, u64, Vec<Vec<std::ffi::OsString>>);
/// Paths that could not be read or written, what was tried, and why.
type Failures = Vec<(std::ffi::OsString, String)>;

/// Groups of equal files below the paths, and what could not be read.
#[pyfunction]
#[pyo3(signature = (paths, min_bytes, max_bytes, exclude, one_file_system, paranoid, cache, progress))]
#[expect(clippy::too_many_arguments, reason = "they are the options of the call in Python")]
pub fn duplicates(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    min_bytes: u64,
    max_bytes: Option<u64>,
    exclude: Vec<String>,
    one_file_system: bool,
    paranoid: bool,
    cache: Option<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<Group>, Failures)> {
    let filter = Filter {
        bytes: min_bytes..=max_bytes.unwrap_or(u64::MAX),
        exclude: Globs::new(&exclude, &paths).map_err(wrong)?,
        ..Filter::default()
    };
    let options = SearchOptions {
        is_paranoid: paranoid,
        cache,
        ..SearchOptions::default()
    };
    watched(
        py,
        u64::MAX,
        progress,
        |never: std::convert::Infallible| match never {},
        move |told: &Told| {
            let selection = Selection::new(&paths, !one_file_system);
            let found = dupes::find(&selection, &filter, &options, told);
            let unread = found.failures.iter().chain(&found.changed);
            let unread = unread.map(|(path, why)| (path.clone().into_os_string(), without_number(why.clone())));
            Ok((found.groups().map(group).collect(), unread.collect()))
        },
    )
}

fn group(equal: EqualFiles) -> Group {
    let files = equal.files.into_iter().map(|file| {
        let names = file.names.into_iter();
        names.map(|name| name.path.into_os_string()).collect()
    });
    (equal.bytes, equal.gain_bytes, files.collect())
}

/// The progress of a copy, and what failed.
struct Copied<'a> {
    told: &'a Told,
    failures: Mutex<Failures>,
}

impl JobWatch<CpEvent<'_>> for Copied<'_> {
    fn wants_progress(&self) -> bool {
        self.told.has_watcher
    }

    fn progress(&self, progress: &JobProgress) {
        // A thread may report after one that counted later.
        self.told.done.fetch_max(progress.done_bytes, Relaxed);
        self.told.of.fetch_max(progress.of_bytes.unwrap_or(0), Relaxed);
    }

    fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
        if let CpEvent::Failed(CpFailure { path, action, reason }) = event {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            let why = format!("cannot {action}: {reason}");
            failures.push((path.clone().into_os_string(), without_number(why)));
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> &Stop {
        &self.told.stop
    }
}

/// The progress of a search: of files, then of bytes.
impl JobWatch for Told {
    fn progress(&self, progress: &JobProgress) {
        let (done, of) = match progress.phase {
            JobPhase::Work => (progress.done_bytes, progress.of_bytes),
            _ => (progress.done_entries, progress.of_entries),
        };
        self.done.store(done, Relaxed);
        self.of.store(of.unwrap_or(0), Relaxed);
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

/// What was copied, as JSON, and what could not be.
#[pyfunction]
#[pyo3(signature = (sources, target, existing, durability, preserve, verify, progress))]
#[expect(clippy::too_many_arguments, reason = "they are the options of the call in Python")]
pub fn copy_tree(
    py: Python<'_>,
    sources: Vec<PathBuf>,
    target: PathBuf,
    existing: &str,
    durability: &str,
    preserve: bool,
    verify: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Failures)> {
    let existing = match existing {
        "replace" => Existing::Replaced,
        "keep" => Existing::Kept,
        "update" => Existing::ReplacedIfOlder,
        other => {
            return Err(wrong(format!(
                "existing=`{other}` is unknown; use replace, keep or update"
            )));
        }
    };
    let durability = match durability {
        "none" => CpDurability::None,
        "end" => CpDurability::AtEnd,
        "fsync" => CpDurability::Each,
        other => {
            return Err(wrong(format!(
                "durability=`{other}` is unknown; use none, end or fsync"
            )));
        }
    };
    let options = CpOptions {
        existing,
        durability,
        verify,
        preserved: if preserve { Preserved::ALL } else { Preserved::NONE },
        ..CpOptions::default()
    };
    let (summary, failures) = watched(py, u64::MAX, progress, of_copy, move |told: &Told| {
        let copied = Copied {
            told,
            failures: Mutex::default(),
        };
        let summary = cp::copy_trees(&sources, &target, &options, &copied)?;
        Ok((
            summary,
            copied.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
        ))
    })?;
    Ok((serde_json::to_string(&summary).map_err(wrong)?, failures))
}

fn of_copy(error: CpError) -> PyErr {
    match &error {
        CpError::System { path, action, source } => at(path, &format!("cannot {action}"), source),
        CpError::NotDirectory(path) => PyOSError::new_err((ENOTDIR, "not a directory", path.as_os_str().to_owned())),
        CpError::Busy(path) => PyOSError::new_err((
            EBUSY,
            "another process is running the same copy",
            path.as_os_str().to_owned(),
        )),
    }
}
