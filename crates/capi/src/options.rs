//! How C says in which way an operation is to be done.

use seekless::method::{Durability, Plan};
use seekless::update::Safety;
use seekless::{Choice, Destination, Job, Operation};

use crate::border::{Context, InText, seekless_progress};
use crate::error::seekless_error;

/// What is on the device when a call that writes returns.
#[allow(non_camel_case_types)]
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
#[allow(non_camel_case_types)]
#[repr(u32)]
pub enum seekless_destination {
    /// It is created, and must not exist.
    New,
    /// It exists, and is overwritten from its start; at the end it has the new size.
    Overwrite,
}

/// The state of a file after an update that ends early.
#[allow(non_camel_case_types)]
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
#[allow(non_camel_case_types)]
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

impl seekless_options {
    fn choice(&self, operation: Operation) -> Result<Choice, seekless_error> {
        let asked = match self.method.text("the method")? {
            Some(text) => text.parse()?,
            None => Choice::Plan(Plan {
                operation,
                durability: Durability::None,
            }),
        };
        let all = [
            (seekless_durability::None as u32, Durability::None),
            (seekless_durability::Fsync as u32, Durability::Fsync),
            (seekless_durability::WriteThrough as u32, Durability::WriteThrough),
            (seekless_durability::FdatasyncEach as u32, Durability::FdatasyncEach),
        ];
        Ok(match one_of(all, self.durability, "durability")? {
            Durability::None => asked,
            durability => asked.with_durability(durability)?,
        })
    }

    /// Carries an operation out.
    pub fn job<T>(
        options: Option<&Self>,
        operation: Operation,
        work: impl FnOnce(&Job<'_>) -> seekless::Result<T>,
    ) -> Result<T, seekless_error> {
        let usual = Self::default();
        let options = options.unwrap_or(&usual);
        let progress = options.progress.with(options.progress_context);
        let destinations = [
            (seekless_destination::New as u32, Destination::New),
            (seekless_destination::Overwrite as u32, Destination::Overwrite),
        ];
        let mut job = Job::by(options.choice(operation)?)
            .over(one_of(destinations, options.destination, "destination")?)
            .safety(Self::safety(Some(options))?);
        if options.grows != 0 {
            job = job.growing();
        }
        if let Some(progress) = &progress {
            job = job.telling(progress);
        }
        Ok(work(&job)?)
    }

    /// The durability that a plan of an operation is to provide.
    pub fn durability(options: Option<&Self>, operation: Operation) -> Result<Durability, seekless_error> {
        match options.unwrap_or(&Self::default()).choice(operation)? {
            Choice::Plan(plan) if plan.operation == operation => Ok(plan.durability),
            asked => Err(seekless_error::invalid(&format!(
                "`{asked}` is not a plan to {operation}"
            ))),
        }
    }

    /// The safety that is asked for.
    pub fn safety(options: Option<&Self>) -> Result<Safety, seekless_error> {
        let all = [
            (seekless_safety::InPlace as u32, Safety::InPlace),
            (seekless_safety::Journal as u32, Safety::Journal),
            (seekless_safety::Replace as u32, Safety::Replace),
        ];
        one_of(all, options.map_or(0, |options| options.safety), "safety")
    }
}

/// The value that a number of the header stands for.
fn one_of<T>(all: impl IntoIterator<Item = (u32, T)>, number: u32, name: &str) -> Result<T, seekless_error> {
    let found = all.into_iter().find(|(known, _)| *known == number);
    let found = found.ok_or_else(|| seekless_error::invalid(&format!("{number} is not a {name}")))?;
    Ok(found.1)
}
