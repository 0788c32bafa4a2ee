//! The C library: the main calls of the crate `seekless` as `include/seekless.h` has them, which is made of this source.
//!
//! Each function takes its pointers by the types of `border.rs` and does its work in safe code. The doc comments are those
//! of the header. Not here: moving bytes, planning (`seekless`).

#![allow(non_camel_case_types, reason = "these are the names in the header")]
#![allow(
    clippy::must_use_candidate,
    reason = "C has no such attribute, and may ignore a status"
)]

mod border;
mod options;
mod result;

use std::ffi::c_char;
use std::mem;
use std::path::Path;

use seekless::{Batch, FileRange, Options, Outcome, PlanRequest, Verdict};

use border::{Context, InBytes, InChanges, InText, OutMemory, seekless_take};
use options::{InOptions, act};
use result::{OutResult, answer, seekless_result, seekless_status, seekless_verdict};

/// The version of this library, as in "0.1.0". Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Allows the methods of the mechanism mmap in this process: installs a SIGBUS handler, which turns the signal for a mapped
/// file that shrank into an error. Nothing else in this library changes the process; call it once and early, or not at all.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_allow_mapping(result: OutResult) -> seekless_status {
    answer(result, || {
        let allowed = seekless::Context::allow_mapping().map(|()| seekless_result::default());
        allowed.map_err(|why| seekless_result::failed(seekless_status::System, &why.to_string()))
    })
}

/// Reads up to `length` bytes from `offset` of a file into `buffer`. `result->bytes` is how many they were: fewer if the
/// file ends before.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_read(
    path: InText,
    offset: u64,
    mut buffer: OutMemory,
    length: usize,
    options: InOptions,
    result: OutResult,
) -> seekless_status {
    act(options, result, |how| {
        // SAFETY: `length` came with `buffer`.
        let buffer = unsafe { buffer.bytes(length) }?;
        Ok(moved(
            &how.read_into(part(path.path()?, offset, length as u64), buffer)?,
        ))
    })
}

/// Reads `length` bytes from `offset` of a file, or up to its end, and passes them to `take`. A length of
/// `UINT64_MAX` is the rest of the file.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_read_blocks(
    path: InText,
    offset: u64,
    length: u64,
    take: seekless_take,
    context: Context,
    options: InOptions,
    result: OutResult,
) -> seekless_status {
    act(options, result, |how| {
        let done = how.read(part(path.path()?, offset, length), take.with(context)?)?;
        Ok(seekless_result {
            is_stopped: done.value.is_break().into(),
            ..moved(&done)
        })
    })
}

/// Writes `length` bytes to a file. Without a durability, they are in the page cache when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_write(
    path: InText,
    bytes: InBytes,
    length: usize,
    options: InOptions,
    result: OutResult,
) -> seekless_status {
    act(options, result, |how| {
        // SAFETY: `length` came with `bytes`.
        let bytes = unsafe { bytes.items(length) }?;
        Ok(moved(&how.write(path.path()?, bytes)?))
    })
}

/// Copies a file: its bytes and holes, but not its mode, owner and times.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_copy(from: InText, to: InText, options: InOptions, result: OutResult) -> seekless_status {
    act(options, result, |how| Ok(moved(&how.copy(from.path()?, to.path()?)?)))
}

/// Compares two regular files up to the first difference: see `result->verdict` and `result->bytes`. Files that differ are
/// a success, too.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_compare(a: InText, b: InText, options: InOptions, result: OutResult) -> seekless_status {
    act(options, result, |how| {
        let done = how.compare(a.path()?, b.path()?)?;
        let verdict = match done.value {
            Verdict::Equal => seekless_verdict::Equal,
            Verdict::FirstEnded { .. } => seekless_verdict::FirstEnded,
            Verdict::SecondEnded { .. } => seekless_verdict::SecondEnded,
            _ => seekless_verdict::Differ,
        };
        Ok(seekless_result {
            verdict,
            ..moved(&done)
        })
    })
}

/// Makes `count` changes in a file, in few writes. Of changes that overlap, the last one counts. The file keeps its size,
/// unless `options->grows`.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_update(
    path: InText,
    changes: InChanges,
    count: usize,
    options: InOptions,
    result: OutResult,
) -> seekless_status {
    act(options, result, |how| {
        let mut batch = Batch::new();
        // SAFETY: `count` came with `changes`.
        for change in unsafe { changes.items(count) }? {
            batch.push(change.offset, change.bytes()?)?;
        }
        Ok(moved(&how.update(path.path()?, batch)?))
    })
}

/// Predicts how long an operation takes, and by which method, but does not carry it out. `plan` is its text, as in
/// "copy/planned,fsync"; `other` is the target of a copy or the second file of a comparison, `bytes` the length of a write.
/// Updates are planned when they are carried out. It measures for at most 100 ms.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan(
    plan: InText,
    path: InText,
    other: InText,
    bytes: u64,
    result: OutResult,
) -> seekless_status {
    answer(result, || {
        let (path, text) = (path.path()?, plan.text()?.unwrap_or_default());
        let Some((operation, "planned")) = text
            .split_once('/')
            .map(|(operation, rest)| (operation, rest.split(',').next().unwrap_or_default()))
        else {
            return Err(format!("`{text}` is not a plan").into());
        };
        let whole = FileRange::whole;
        let request = match operation {
            "read" => PlanRequest::Read(whole(path)),
            "write" => PlanRequest::Write(whole(path), bytes),
            "copy" => PlanRequest::Copy(whole(path), whole(other.path()?)),
            "compare" => PlanRequest::Compare(whole(path), whole(other.path()?)),
            operation => return Err(format!("to {operation} is not planned in advance").into()),
        };
        let plan = Options::new().by(text)?.plan(&request)?;
        Ok(seekless_result {
            seconds: plan.predicted.as_secs_f64(),
            seconds_low: plan.bounds.0.as_secs_f64(),
            seconds_high: plan.bounds.1.as_secs_f64(),
            ..seekless_result::of(&plan.method, &plan.reason)
        })
    })
}

/// Frees what a result owns and makes it empty; also of a struct of zeros, and more than once.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_result_free(result: Option<&mut seekless_result>) {
    drop(result.map(mem::take));
}

fn part(path: &Path, offset: u64, length: u64) -> FileRange<'_> {
    match (offset, length) {
        (0, u64::MAX) => FileRange::whole(path),
        _ => FileRange::whole(path).range(offset..offset.saturating_add(length)),
    }
}

fn moved<T>(done: &Outcome<T>) -> seekless_result {
    seekless_result {
        bytes: done.bytes,
        ..seekless_result::of(&done.method, &done.reason)
    }
}
