//! The C library: the main calls of the crate `seekless` as `include/seekless.h` has them, which is made of this source.
//!
//! Each function takes its pointers by the types of `border.rs` and does its work in safe code. The doc comments are those
//! of the header. Not here: moving bytes, planning (`seekless`).

#![allow(
    clippy::must_use_candidate,
    reason = "C has no such attribute, and may ignore a status"
)]

mod border;
mod error;
mod options;

use std::ffi::c_char;
use std::mem::{self, MaybeUninit};
use std::ops::ControlFlow;
use std::path::Path;

use seekless::update::Batch;
use seekless::{Done, Error, Operation, Part, Request, Transfer, Verdict, Which};

use border::{Context, InBytes, InChanges, InText, OutMemory, OutText, answer, seekless_change, seekless_take};
use error::{seekless_error, seekless_status};
use options::seekless_options;

/// What a comparison found.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Default)]
#[repr(u32)]
pub enum seekless_verdict {
    /// Nothing was compared, or the call failed.
    #[default]
    None,
    /// The files are equal.
    Equal,
    /// They differ; `bytes` is the offset of the first difference.
    Differ,
    /// The first file is shorter, and equal to the start of the second; `bytes` is its length.
    FirstEnded,
    /// The second file is shorter, and equal to the start of the first; `bytes` is its length.
    SecondEnded,
}

/// What was done. Free it with `seekless_done_free`.
#[allow(non_camel_case_types)]
#[derive(Default)]
#[repr(C)]
pub struct seekless_done {
    /// Bytes that were moved, holes included; of a comparison, bytes that are equal; of an update, bytes that it changed.
    pub bytes: u64,
    /// What a comparison found.
    pub verdict: seekless_verdict,
    /// 1 if a callback ended a read, otherwise 0.
    pub is_stopped: u32,
    /// The text of the method that did it.
    pub method: OutText,
    /// Why this method.
    pub why: OutText,
}

/// How an operation would be done. Free it with `seekless_plan_free`.
#[allow(non_camel_case_types)]
#[derive(Default)]
#[repr(C)]
pub struct seekless_plan {
    /// The predicted time in seconds.
    pub seconds: f64,
    /// The lower bound of the prediction.
    pub seconds_low: f64,
    /// The upper bound of the prediction.
    pub seconds_high: f64,
    /// The text of the method.
    pub method: OutText,
    /// Why this method.
    pub why: OutText,
}

/// The version of this library, as in "0.1.0". Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Allows the methods of the mechanism mmap in this process: installs a SIGBUS handler, which turns the signal for a mapped
/// file that shrank into an error. Nothing else in this library changes the process; call it once and early, or not at all.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_allow_mapping(error: Option<&mut MaybeUninit<seekless_error>>) -> seekless_status {
    answer(None, error, || {
        seekless::allow_mapping().map_err(|why| seekless_error::system("cannot install a SIGBUS handler", &why))
    })
}

/// Reads up to `length` bytes from `offset` of a file into `buffer`. `done->bytes` is how many they were: fewer if the file
/// ends before.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_read(
    path: InText,
    offset: u64,
    mut buffer: OutMemory,
    length: usize,
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        // SAFETY: `length` came with `buffer`.
        let buffer = unsafe { buffer.bytes(length, "buffer") }?;
        read(path.path("path")?, offset, length as u64, options, |at, bytes| {
            buffer[at as usize..][..bytes.len()].write_copy_of_slice(bytes);
            ControlFlow::Continue(())
        })
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
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        read(path.path("path")?, offset, length, options, take.with(context)?)
    })
}

/// Writes `length` bytes to a file. Without a durability, they are in the page cache when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_write(
    path: InText,
    bytes: InBytes,
    length: usize,
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        // SAFETY: `length` came with `bytes`.
        let (to, bytes) = (path.path("path")?, unsafe { bytes.bytes(length, "bytes") }?);
        seekless_options::job(options, Operation::Write, |job| job.write(to, bytes)).map(|done| moved(&done))
    })
}

/// Copies a file: its bytes and holes, but not its mode, owner and times.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_copy(
    from: InText,
    to: InText,
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        let (from, to) = (from.path("from")?, to.path("to")?);
        seekless_options::job(options, Operation::Copy, |job| job.copy(from, to)).map(|done| moved(&done))
    })
}

/// Compares two regular files up to the first difference: see `done->verdict` and `done->bytes`. Files that differ are a
/// success, too.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_compare(
    one: InText,
    other: InText,
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        let (one, other) = (one.path("one")?, other.path("other")?);
        let done = seekless_options::job(options, Operation::Compare, |job| job.compare(one, other))?;
        let (verdict, bytes) = match done.verdict {
            Verdict::Equal => (seekless_verdict::Equal, done.bytes),
            Verdict::Differ { offset } => (seekless_verdict::Differ, offset),
            Verdict::Ended {
                side: Which::One,
                offset,
            } => (seekless_verdict::FirstEnded, offset),
            Verdict::Ended {
                side: Which::Other,
                offset,
            } => (seekless_verdict::SecondEnded, offset),
        };
        Ok(seekless_done {
            verdict,
            ..of(&done, bytes)
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
    options: Option<&seekless_options>,
    done: Option<&mut MaybeUninit<seekless_done>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(done, error, || {
        // SAFETY: `count` came with `changes`.
        let (path, batch) = (path.path("path")?, batch(unsafe { changes.items(count) }?)?);
        let done = seekless_options::job(options, Operation::Update, |job| job.update(path, batch))?;
        Ok(of(&done, done.requested_bytes))
    })
}

/// Plans reading `length` bytes from `offset`, but does not read. Here and in the plans below, `options->method` is NULL or
/// a plan's text, and at most 100 ms are spent on measuring the storage.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_read(
    path: InText,
    offset: u64,
    length: u64,
    options: Option<&seekless_options>,
    plan: Option<&mut MaybeUninit<seekless_plan>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(plan, error, || {
        let part = part(path.path("path")?, offset, length);
        planned(Request::read(&part), options, Operation::Read)
    })
}

/// Plans writing this many bytes to a file, which need not exist.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_write(
    path: InText,
    bytes: u64,
    options: Option<&seekless_options>,
    plan: Option<&mut MaybeUninit<seekless_plan>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(plan, error, || {
        planned(Request::write(path.path("path")?, bytes), options, Operation::Write)
    })
}

/// Plans copying a file.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_copy(
    from: InText,
    to: InText,
    options: Option<&seekless_options>,
    plan: Option<&mut MaybeUninit<seekless_plan>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(plan, error, || {
        planned(
            Request::copy(from.path("from")?, to.path("to")?),
            options,
            Operation::Copy,
        )
    })
}

/// Plans comparing two files.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_compare(
    one: InText,
    other: InText,
    options: Option<&seekless_options>,
    plan: Option<&mut MaybeUninit<seekless_plan>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(plan, error, || {
        planned(
            Request::compare(one.path("one")?, other.path("other")?),
            options,
            Operation::Compare,
        )
    })
}

/// Plans making changes in a file.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_update(
    path: InText,
    changes: InChanges,
    count: usize,
    options: Option<&seekless_options>,
    plan: Option<&mut MaybeUninit<seekless_plan>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
) -> seekless_status {
    answer(plan, error, || {
        // SAFETY: `count` came with `changes`.
        let updates = batch(unsafe { changes.items(count) }?)?.resolve()?;
        let safety = seekless_options::safety(options)?;
        planned(
            Request::update(path.path("path")?, &updates, safety),
            options,
            Operation::Update,
        )
    })
}

/// Frees what a result owns and makes it empty; also of a struct of zeros, and more than once.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_done_free(done: Option<&mut seekless_done>) {
    drop(done.map(mem::take));
}

/// Frees what a plan owns and makes it empty; also of a struct of zeros, and more than once.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_plan_free(plan: Option<&mut seekless_plan>) {
    drop(plan.map(mem::take));
}

/// Frees what an error owns and makes it empty; also of a struct of zeros, and more than once.
#[unsafe(no_mangle)]
pub extern "C" fn seekless_error_free(error: Option<&mut seekless_error>) {
    drop(error.map(mem::take));
}

fn part(path: &Path, offset: u64, length: u64) -> Part<'_> {
    let whole = Part::whole(path);
    match (offset, length) {
        (0, u64::MAX) => whole,
        _ => whole.range(offset..offset.saturating_add(length)),
    }
}

fn read(
    path: &Path,
    offset: u64,
    length: u64,
    options: Option<&seekless_options>,
    take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
) -> Result<seekless_done, seekless_error> {
    let part = part(path, offset, length);
    seekless_options::job(options, Operation::Read, |job| job.read(&part, take)).map(|done| moved(&done))
}

fn batch(changes: &[seekless_change]) -> Result<Batch, seekless_error> {
    let mut batch = Batch::new();
    for change in changes {
        batch.push(change.offset, change.bytes()?).map_err(Error::from)?;
    }
    Ok(batch)
}

fn of<T>(done: &Done<T>, bytes: u64) -> seekless_done {
    seekless_done {
        bytes,
        method: OutText::of(done.method.to_string()),
        why: OutText::of(&done.why),
        ..seekless_done::default()
    }
}

fn moved(done: &Done<Transfer>) -> seekless_done {
    seekless_done {
        is_stopped: done.stopped.into(),
        ..of(done, done.bytes)
    }
}

fn planned(
    request: Request<'_>,
    options: Option<&seekless_options>,
    operation: Operation,
) -> Result<seekless_plan, seekless_error> {
    let durability = seekless_options::durability(options, operation)?;
    let plan = seekless::plan(&request.durability(durability))?;
    Ok(seekless_plan {
        seconds: plan.predicted.value.as_secs_f64(),
        seconds_low: plan.predicted.low.as_secs_f64(),
        seconds_high: plan.predicted.high.as_secs_f64(),
        method: OutText::of(plan.method.to_string()),
        why: OutText::of(plan.why),
    })
}
