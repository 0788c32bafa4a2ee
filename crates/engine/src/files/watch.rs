//! A watch is called before every step that changes a file. Tests kill or fail the process there, and a program can
//! stop there.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Bytes are written.
    Write,
    /// Some of the old file is copied into a new one.
    Copy,
    /// A file or directory is synced.
    Sync,
    /// A file is created.
    Make,
    /// A file gets the name of another.
    Rename,
    /// A file is removed.
    Remove,
}

/// One step, before it is made.
#[derive(Clone, Copy, Debug)]
pub struct WatchedStep<'a> {
    /// Its kind.
    pub kind: StepKind,
    /// The file or directory.
    pub path: &'a Path,
    /// The offset of a write.
    pub offset: u64,
    /// The bytes of a write.
    pub bytes: u64,
}

impl<'a> WatchedStep<'a> {
    /// A step without offset and bytes.
    #[must_use]
    pub fn of(kind: StepKind, path: &'a Path) -> Self {
        Self {
            kind,
            path,
            offset: 0,
            bytes: 0,
        }
    }
}

/// Is called before each step; an error becomes the error of the step.
pub trait Watch: Sync {
    /// Called before the step is made.
    fn before(&self, step: &WatchedStep<'_>) -> io::Result<()>;
}

impl dyn Watch + '_ {
    /// Announces a step at a path.
    ///
    /// # Errors
    /// What the watch returns.
    pub fn announce(&self, kind: StepKind, path: &Path) -> io::Result<()> {
        self.before(&WatchedStep::of(kind, path))
    }

    /// Announces a step at a path, then runs it.
    pub(crate) fn step<T>(
        &self,
        kind: StepKind,
        path: &Path,
        action: &'static str,
        call: impl FnOnce() -> io::Result<T>,
    ) -> Result<T> {
        let made = self.announce(kind, path).and_then(|()| call());
        made.map_err(|error| Error::system(path, action, error))
    }
}

/// A watch that does nothing.
#[derive(Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn before(&self, _step: &WatchedStep<'_>) -> io::Result<()> {
        Ok(())
    }
}
