//! What is told of every step that changes a file, before it is made: tests kill and fail there, and who was asked to stop
//! does.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Bytes are written.
    Write,
    /// A file or directory is brought to the device.
    Sync,
    /// A file is made.
    Make,
    /// A file gets the name of another.
    Rename,
    /// A file is removed.
    Remove,
}

/// One step, before it is made.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What it is.
    pub kind: StepKind,
    /// The file or directory.
    pub path: &'a Path,
    /// Where is written.
    pub offset: u64,
    /// How many bytes are.
    pub bytes: u64,
}

impl<'a> Step<'a> {
    pub(super) fn of(kind: StepKind, path: &'a Path) -> Self {
        Self {
            kind,
            path,
            offset: 0,
            bytes: 0,
        }
    }
}

/// Who is told of each step; an error becomes that of the step.
pub trait Watch: Sync {
    /// Called before the step is made.
    fn before(&self, step: &Step<'_>) -> io::Result<()>;
}

impl dyn Watch + '_ {
    /// Tells of a step at a path, and makes it.
    pub(super) fn step<T>(
        &self,
        kind: StepKind,
        path: &Path,
        action: &'static str,
        call: impl FnOnce() -> io::Result<T>,
    ) -> Result<T> {
        let made = self.before(&Step::of(kind, path)).and_then(|()| call());
        made.map_err(|error| Error::system(path, action, error))
    }
}

/// Nobody is told.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn before(&self, _step: &Step<'_>) -> io::Result<()> {
        Ok(())
    }
}
