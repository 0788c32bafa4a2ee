//! How C says in which way an operation is to be done.

#![allow(dead_code, reason = "the header has the enums, and a caller passes their numbers")]

use seekless::method::{Durability, PlannedChoice};
use seekless::update::Safety;
use seekless::{Choice, Destination, IoOptions, Operation, ParseError, full_text};

use crate::border::{Context, InText, seekless_progress};
use crate::result::{OutResult, answer, seekless_result, seekless_status};

/// What is on the device when a call that writes returns.
#[repr(u32)]
pub enum seekless_durability {
    /// Nothing, unless the method's text says otherwise.
    None,
    /// All of it: fsync(2) at the end.
    Fsync,
    /// All of it after each write: `O_DSYNC`. Not for a write or copy by the plan.
    WriteThrough,
    /// The same by fdatasync(2) after each write. Only for methods that have it.
    FdatasyncEach,
}

/// Whether the target of a write or copy may exist.
#[repr(u32)]
pub enum seekless_destination {
    /// It is created, and must not exist.
    New,
    /// It exists, and is overwritten from its start; at the end it has the new size.
    Overwrite,
}

/// The state of a file after an update that ends early.
#[repr(u32)]
pub enum seekless_safety {
    /// Some changes are in it, and some are not.
    InPlace,
    /// A journal beside it has the old and new bytes: an error undoes all changes, and after a crash the command
    /// `seekless update --recover` finishes them.
    Journal,
    /// It is as before: the changes go to a new file that takes its name.
    Replace,
}

/// How to do it. All fields zero, or NULL instead of the struct: by the plan, to a new file, without durability.
#[derive(Default)]
#[repr(C)]
pub struct seekless_options {
    /// The text of a method, as in "copy/sync,block=1M", which then does what it says or fails; or of a plan, as in
    /// "copy/planned,fsync". NULL: the plan.
    pub method: InText,
    /// A `seekless_durability`.
    pub durability: u32,
    /// A `seekless_destination`, of a write or copy.
    pub destination: u32,
    /// A `seekless_safety`, of an update.
    pub safety: u32,
    /// Not 0: an update may make the file longer.
    pub grows: u32,
    /// Gets the progress, and can end the call; or NULL.
    pub progress: seekless_progress,
    /// The `context` of `progress`.
    pub progress_context: Context,
}

pub type InOptions<'a> = Option<&'a seekless_options>;

/// Does an operation by the job that the options describe, and tells the result.
pub fn act(
    operation: Operation,
    options: InOptions<'_>,
    out: OutResult<'_>,
    work: impl FnOnce(&IoOptions<'_>) -> Result<seekless_result, seekless_result>,
) -> seekless_status {
    answer(out, || {
        let usual = seekless_options::default();
        let options = options.unwrap_or(&usual);
        let destinations = [Destination::New, Destination::Overwrite];
        let safeties = [Safety::InPlace, Safety::Journal, Safety::Replace];
        let progress = options.progress.with(options.progress_context);
        let mut job = IoOptions::method(choice(operation, options)?)
            .destination(one_of(&destinations, options.destination, "destination")?)
            .safety(one_of(&safeties, options.safety, "safety")?);
        if options.grows != 0 {
            job = job.allow_growth();
        }
        if let Some(progress) = &progress {
            job = job.progress(progress);
        }
        work(&job)
    })
}

fn choice(operation: Operation, options: &seekless_options) -> Result<Choice, String> {
    let durability = one_of(&Durability::ALL, options.durability, "durability")?;
    let by_plan = Choice::Plan(PlannedChoice {
        operation,
        durability: Durability::None,
    });
    let asked = options.method.text()?.map_or(Ok(by_plan), parsed)?;
    match durability {
        Durability::None => Ok(asked),
        durability => asked.with_durability(durability).map_err(|why| full_text(&why)),
    }
}

/// A method or a plan by its text.
pub fn parsed(text: &str) -> Result<Choice, String> {
    text.parse().map_err(|why: ParseError| full_text(&why))
}

/// The value that a number of the header stands for.
fn one_of<T: Copy>(all: &[T], number: u32, name: &str) -> Result<T, String> {
    let found = all.get(number as usize).copied();
    found.ok_or_else(|| format!("{number} is not a {name}"))
}
