//! Holes of files: showing them, digging them where blocks of zeros are, punching one, and allocating them again.
//!
//! What changes a file is done under a write lease, from the first look to the last: nobody else has the file open, and
//! who wants to open it waits. Where no lease is granted nothing is changed. A file's bytes are the same at every moment of
//! digging and filling, so that a kill in the middle does no harm. What was freed is what the file system says (`st_blocks`)
//! before and after, never what was asked for.
//!
//! Whoever is asked for a lease gets `SIGIO`, which ends a process that does not expect it: a program that digs, punches
//! or fills takes that signal first.
//!
//! Not here: symbolic links inside directories, which are not followed, and files on systems other than Linux, which
//! have no leases.

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
pub use error::Error;
pub use files::each_file;
pub use fill::{Filled, fill};
pub use held::Privilege;
pub use map::{Kind, Stretch};
pub use punch::{Punched, punch};
pub use show::{Shown, show};

/// The result of these jobs.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
