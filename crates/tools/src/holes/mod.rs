//! Holes of files: showing them, turning blocks of zeros into holes (digging), punching a hole, and allocating holes again.
//!
//! A file is changed only under a write lease, held from the first check to the last: no other process has the file open, and a
//! process that opens it waits. Without a lease, nothing is changed. During digging and filling, the file reads the same at every
//! moment, so a kill does no harm. Freed space is as reported by the file system (`st_blocks`) before and after.
//!
//! When another process opens the file, the holder of the lease gets `SIGIO`, which ends a process that does not handle it: a
//! program that digs, punches or fills must handle that signal first.
//!
//! Not here: symbolic links inside directories, which are not followed; and systems other than Linux, which have no leases.

mod dig;
mod error;
mod files;
mod fill;
mod held;
mod holders;
mod map;
mod punch;
mod show;
mod zeros;

pub use dig::{Dig, Dug, dig};
pub use error::{Error, HoleErrorKind, Privilege};
pub use files::{HoleEvent, each_file};
pub use fill::{Filled, fill};
pub use map::{HoleStretch, RunKind};
pub use punch::{PunchRange, Punched, punch, punch_range};
pub use show::{Shown, show};
pub use zeros::{BUFFER_BYTES, PIECE_BYTES};

/// The result of these jobs.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
