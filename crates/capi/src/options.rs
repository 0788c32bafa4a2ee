//! How C says in which way an operation is to be done.

#![allow(dead_code, reason = "the header has the enums, and a caller passes their numbers")]

use seekless::{Durability, Options, Safety, Stop};

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

/// Makes a call as the options describe, and tells the result.
pub fn act(
    options: InOptions<'_>,
    out: OutResult<'_>,
    call: impl FnOnce(&Options<'_>) -> Result<seekless_result, seekless_result>,
) -> seekless_status {
    answer(out, || {
        let usual = seekless_options::default();
        let options = options.unwrap_or(&usual);
        let durabilities = [
            Durability::None,
            Durability::Fsync,
            Durability::WriteThrough,
            Durability::FdatasyncEach,
        ];
        let safeties = [Safety::InPlace, Safety::Journal, Safety::Replace];
        let (stop, progress) = (Stop::default(), options.progress.with(options.progress_context));
        let told = |done_bytes, of_bytes| {
            if progress
                .as_ref()
                .is_some_and(|tell| tell(done_bytes, of_bytes).is_break())
            {
                stop.stop();
            }
        };
        let mut how = match options.method.text()? {
            Some(text) => Options::new().by(text)?,
            None => Options::new(),
        }
        .durability(one_of(&durabilities, options.durability, "durability")?)
        .overwrite(one_of(&[false, true], options.destination, "destination")?)
        .safety(one_of(&safeties, options.safety, "safety")?)
        .allow_growth(options.grows != 0);
        if progress.is_some() {
            how = how.progress(&told).stop(&stop);
        }
        call(&how)
    })
}

/// The value that a number of the header stands for.
fn one_of<T: Copy>(all: &[T], number: u32, name: &str) -> Result<T, String> {
    let found = all.get(number as usize).copied();
    found.ok_or_else(|| format!("{number} is not a {name}"))
}
