//! Code that all mechanisms share: opening source and target as a method says, moving whole blocks (`blocks`), and
//! counting what was done.

mod ahead;
mod blocks;
mod flight;
mod open_file;
mod pipe;
mod view;
mod visits;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

pub(crate) use ahead::{Ahead, PIECE_BYTES};
pub(crate) use flight::Flight;
pub(crate) use open_file::{OpenFile, pieces};
#[cfg(test)]
pub(crate) use pipe::tests::in_time;
pub(crate) use pipe::{BufferPipe, DoubleBuffer, Filling, Helper, Taking};
pub(crate) use view::{MappedWindow, STEP_BYTES, require_guard, window_bytes, windows};
pub(crate) use visits::Blocks;
pub use visits::Visits;

use crate::error::{Error, Result};
use crate::files::FileId;

/// Receives the progress of an operation, and can end it. A closure with these arguments implements it.
pub trait Progress: Sync {
    /// `done_bytes` of `of_bytes` are done, or about to be. `Break` ends the operation with [`Error::Stopped`].
    fn moved(&self, done_bytes: u64, of_bytes: u64) -> ControlFlow<()>;
}

impl<F: Fn(u64, u64) -> ControlFlow<()> + Sync> Progress for F {
    fn moved(&self, done_bytes: u64, of_bytes: u64) -> ControlFlow<()> {
        self(done_bytes, of_bytes)
    }
}

/// Progress is reported after at most this many bytes: every 80 ms at 200 MB/s.
pub(crate) const TOLD_BYTES: u64 = 16 << 20;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// Bytes moved, including skipped holes.
    pub bytes: u64,
    /// How many of these are in skipped holes (`holes=skip`), which were neither read nor written.
    pub hole_bytes: u64,
    /// System calls made, including opening and closing. For `posix-aio`, calls of the C library, whose own system
    /// calls are not counted.
    pub calls: u64,
    /// Time spent in the fsync at the end.
    pub fsync: Duration,
    /// Whether the consumer ended the read early.
    pub stopped: bool,
}

/// Whether the target of a write or copy may exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// It is created, and must not exist.
    #[default]
    New,
    /// It exists and is overwritten from its start; at the end it has the new size.
    Overwrite,
}

/// Fails if source and target are one file, and the two ranges overlap.
pub(crate) fn require_apart(source: &OpenFile<'_>, target: &OpenFile<'_>) -> Result<()> {
    let (from, to) = (source.range(), target.range());
    let overlap = from.start < to.end && to.start < from.end;
    if overlap && FileId::of(&source.metadata()?) == FileId::of(&target.metadata()?) {
        let path = target.path.to_owned();
        return Err(Error::Overlap { path });
    }
    Ok(())
}

/// Fails if the path names the source.
pub(crate) fn require_distinct(source: &OpenFile<'_>, target: &Path) -> Result<()> {
    let Ok(other) = std::fs::metadata(target) else {
        return Ok(());
    };
    if FileId::of(&source.metadata()?) == FileId::of(&other) {
        let path = target.to_owned();
        return Err(Error::SameFile { path });
    }
    Ok(())
}
