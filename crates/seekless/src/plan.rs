//! Plans without carrying them out.

use std::path::Path;
use std::time::Duration;

use crate::{Batch, FileRange, Method, Operation, Reason};

/// What to plan. What must be on the device at the end is an option ([`Options::durability`](crate::Options::durability)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanRequest<'a> {
    /// Reading a file from start to end.
    Read(FileRange<'a>),
    /// Writing this many bytes to a file, which need not exist.
    Write(FileRange<'a>, u64),
    /// Copying the first to the second.
    Copy(FileRange<'a>, FileRange<'a>),
    /// Comparing two files.
    Compare(FileRange<'a>, FileRange<'a>),
    /// Making changes in the file at a path.
    Update(&'a Path, &'a Batch),
}

impl PlanRequest<'_> {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Read(_) => Operation::Read,
            Self::Write(..) => Operation::Write,
            Self::Copy(..) => Operation::Copy,
            Self::Compare(..) => Operation::Compare,
            Self::Update(..) => Operation::Update,
        }
    }
}

/// A method, the time that it is predicted to take, and why this method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The method.
    pub method: Method,
    /// Why this method.
    pub reason: Reason,
    /// The time that it most likely takes.
    pub predicted: Duration,
    /// The least and the longest time that are plausible.
    pub bounds: (Duration, Duration),
}
