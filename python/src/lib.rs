//! The native part of the Python package `seekless`: its calls are those of the crates `seekless` and `seekless-tools`.
//!
//! Not here: docstrings and types, which users see (`seekless/__init__.py`), and unsafe code, which is in `memory.rs` alone.

mod error;
mod memory;
mod trees;
mod watched;

use std::fs::File;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekless::{Batch, Durability, FileRange, Operation, Options, Outcome, PlanRequest, Safety, Verdict};

use error::{raise, wrong};
use memory::{Filled, Readable, Writable, open_file};
use watched::{Told, watched};

/// Bytes done, the method, and why this method.
type Done = (u64, String, String);

fn done<T>(done: Outcome<T>) -> Done {
    (done.bytes, done.method.to_string(), done.reason.to_string())
}

/// By the method of this text, which must be of the operation, or the plan.
fn by(operation: Operation, method: Option<&str>) -> PyResult<Options<'static>> {
    let plan = Ok(Options::new());
    let how = method.map_or(plan, |text| Options::new().by(text)).map_err(wrong)?;
    how.prepare(operation).map_err(wrong)?;
    Ok(how)
}

fn durability(name: &str) -> PyResult<Durability> {
    let found: Result<Durability, _> = name.parse();
    found.map_err(|_| wrong(format!("`{name}` is not a durability; use none or fsync")))
}

fn bytes_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.len())
}

/// A file by its path, or an open one that its path names in errors, from an offset on.
fn part<'a>(path: &'a Path, file: Option<&'a File>, offset: u64) -> FileRange<'a> {
    let whole = file.map_or_else(|| FileRange::whole(path), |file| FileRange::of_file(file).named(path));
    whole.range(offset..)
}

#[pyfunction]
#[pyo3(signature = (path, into, offset, method, descriptor, progress))]
fn read_into(
    py: Python<'_>,
    path: PathBuf,
    into: &Bound<'_, PyAny>,
    offset: u64,
    method: Option<&str>,
    descriptor: Option<i32>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Done> {
    let mut into = Writable::of(into)?;
    let how = by(Operation::Read, method)?;
    let file = descriptor.map(open_file).transpose()?;
    let target = into.bytes();
    let bytes = target.len() as u64;
    watched(py, bytes, progress, raise, move |told: &Told| {
        let range = part(&path, file.as_ref(), offset);
        told.tells(how, |how| how.read_into(range, target)).map(done)
    })
}

#[pyfunction]
#[pyo3(signature = (path, offset, length, method, descriptor, progress))]
fn read<'py>(
    py: Python<'py>,
    path: PathBuf,
    offset: u64,
    length: Option<u64>,
    method: Option<&str>,
    descriptor: Option<i32>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let file = descriptor.map(open_file).transpose()?;
    let found = file.as_ref().map_or_else(|| path.metadata(), File::metadata);
    let found = found.map_err(|error| error::at(&path, "cannot stat", &error))?;
    let rest = found.len().saturating_sub(offset);
    let how = by(Operation::Read, method)?;
    let mut bytes = Filled::new(py, length.map_or(rest, |length| length.min(rest)) as usize)?;
    let target = bytes.bytes();
    let wanted = target.len() as u64;
    let read = watched(py, wanted, progress, raise, move |told: &Told| {
        let range = part(&path, file.as_ref(), offset);
        told.tells(how, |how| how.read_into(range, target))
            .map(|done| done.bytes)
    })?;
    Ok(bytes.cut(py, read as usize))
}

#[pyfunction]
#[pyo3(signature = (path, data, durability, overwrite, method, progress))]
fn write(
    py: Python<'_>,
    path: PathBuf,
    data: &Bound<'_, PyAny>,
    durability: &str,
    overwrite: bool,
    method: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Done> {
    let data = Readable::of(data)?;
    let how = by(Operation::Write, method)?
        .durability(self::durability(durability)?)
        .overwrite(overwrite);
    let bytes = data.bytes();
    watched(py, bytes.len() as u64, progress, raise, move |told: &Told| {
        told.tells(how, |how| how.write(&path, bytes)).map(done)
    })
}

#[pyfunction]
#[pyo3(signature = (source, target, durability, overwrite, method, progress))]
fn copy(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    durability: &str,
    overwrite: bool,
    method: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Done> {
    let how = by(Operation::Copy, method)?
        .durability(self::durability(durability)?)
        .overwrite(overwrite);
    watched(py, bytes_of(&source), progress, raise, move |told: &Told| {
        told.tells(how, |how| how.copy(&source, &target)).map(done)
    })
}

/// What was found: `None`, or the offset of the first difference and which file ended there.
#[pyfunction]
#[pyo3(signature = (one, other, method, progress))]
fn compare(
    py: Python<'_>,
    one: PathBuf,
    other: PathBuf,
    method: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(u64, Option<&'static str>)>> {
    let how = by(Operation::Compare, method)?;
    let found = watched(py, bytes_of(&one), progress, raise, move |told: &Told| {
        told.tells(how, |how| how.compare(&one, &other))
    })?;
    Ok(match found.value {
        Verdict::Differ { offset } => Some((offset, None)),
        Verdict::FirstEnded { offset } => Some((offset, Some("one"))),
        Verdict::SecondEnded { offset } => Some((offset, Some("other"))),
        _ => None,
    })
}

fn batch(changes: &[(u64, Readable)]) -> seekless::Result<Batch> {
    let mut batch = Batch::new();
    for (offset, bytes) in changes {
        batch.push(*offset, bytes.bytes())?;
    }
    Ok(batch)
}

fn safety(name: &str) -> PyResult<Safety> {
    match name {
        "in-place" => Ok(Safety::InPlace),
        "journal" => Ok(Safety::Journal),
        "replace" => Ok(Safety::Replace),
        other => Err(wrong(format!(
            "`{other}` is not a safety; use in-place, journal or replace"
        ))),
    }
}

#[pyfunction]
#[pyo3(signature = (path, changes, durability, safety, grows, method, progress))]
#[expect(clippy::too_many_arguments, reason = "they are the options of the call in Python")]
fn update(
    py: Python<'_>,
    path: PathBuf,
    changes: Vec<(u64, Bound<'_, PyAny>)>,
    durability: &str,
    safety: &str,
    grows: bool,
    method: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Done> {
    let durability = self::durability(durability)?;
    let how = by(Operation::Update, method)?
        .durability(durability)
        .safety(self::safety(safety)?)
        .allow_growth(grows);
    let changes = changes
        .iter()
        .map(|(offset, bytes)| Ok((*offset, Readable::of(bytes)?)));
    let changes: Vec<(u64, Readable)> = changes.collect::<PyResult<_>>()?;
    let batch = batch(&changes).map_err(raise)?;
    watched(py, u64::MAX, progress, raise, move |told: &Told| {
        told.tells(how, |how| how.update(&path, batch)).map(done)
    })
}

fn whole(path: &Path) -> FileRange<'_> {
    FileRange::whole(path)
}

/// The method, the predicted seconds with their bounds, and why.
#[pyfunction]
#[pyo3(signature = (operation, path, other, bytes, durability))]
fn plan(
    py: Python<'_>,
    operation: &str,
    path: PathBuf,
    other: Option<PathBuf>,
    bytes: u64,
    durability: &str,
) -> PyResult<(String, [f64; 3], String)> {
    let request = match (operation, &other) {
        ("read", None) => PlanRequest::Read(whole(&path)),
        ("write", None) => PlanRequest::Write(whole(&path), bytes),
        ("copy", Some(target)) => PlanRequest::Copy(whole(&path), whole(target)),
        ("compare", Some(other)) => PlanRequest::Compare(whole(&path), whole(other)),
        ("copy" | "compare", None) => return Err(wrong(format!("`{operation}` needs a second path"))),
        ("read" | "write", Some(_)) => return Err(wrong(format!("`{operation}` takes one path"))),
        (other, _) => {
            return Err(wrong(format!(
                "`{other}` cannot be planned here; use read, write, copy or compare"
            )));
        }
    };
    let how = Options::new().durability(self::durability(durability)?);
    let plan = py.detach(|| how.plan(&request)).map_err(raise)?;
    let seconds = [plan.predicted, plan.bounds.0, plan.bounds.1].map(|time| time.as_secs_f64());
    Ok((plan.method.to_string(), seconds, plan.reason.to_string()))
}

/// Installs the handler of SIGBUS.
#[pyfunction]
fn allow_mapping() -> PyResult<()> {
    Ok(seekless::Context::allow_mapping()?)
}

/// What `seekless/__init__.py` calls.
#[pymodule]
mod _seekless {
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::trees::{copy_tree, duplicates};
    #[pymodule_export]
    use super::{allow_mapping, compare, copy, plan, read, read_into, update, write};

    #[pymodule_init]
    fn init(_module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        super::memory::require_main_interpreter()
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
