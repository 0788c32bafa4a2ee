//! Comparing two trees: names, types, targets of symbolic links, contents of files, numbers of devices, and metadata
//! where that is asked for.
//!
//! Directories are read ahead of the files in them, files in the order of their inodes and many at once; what was found is
//! told in the order of the names, depth first, while the rest goes on. Directories are open handles and never paths, so that
//! trees may be deeper than a path may be long. Symbolic links below the two roots are never followed, and what is
//! neither file nor directory is never opened. Mount points are entered, as `diff -r` does.
//!
//! Memory: the entries of the directories at work (about 50 bytes and the name for each), a quarter of a million of
//! them, or two million where one directory has more; and the directories that are still to be entered. A larger
//! directory is taken in parts, and its names are read again for each.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::path::Path;
//! use seekless_tools::Stop;
//! use seekless_tools::tree::{self, Options, Watch, What};
//! struct Printed;
//! impl Watch for Printed {
//!     fn found(&mut self, path: &Path, what: &What) -> ControlFlow<()> {
//!         println!("{}: {what:?}", path.display());
//!         ControlFlow::Continue(())
//!     }
//! }
//! # let directory = tempfile::tempdir()?;
//! # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
//! # for tree in [&one, &other] { std::fs::create_dir(tree)?; std::fs::write(tree.join("file"), b"bytes")?; }
//! let summary = tree::compare(&one, &other, &Options::default(), &Stop::default(), &mut Printed)?;
//! assert_eq!((summary.files, summary.differences, summary.failures), (1, 0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: how differences look (the command's business), and how the bytes of large files move (the engine's).

mod batch;
mod directory;
mod large;
mod list;
mod look;
mod pair;
mod queue;
mod same_size;
mod tell;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::Serialize;

pub use look::Attribute;
pub use queue::compare;
pub use same_size::{SMALLEST_BYTES, SameSize, same_size};

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first.
    One,
    /// The second.
    Other,
}

impl Side {
    /// Both, in this order.
    pub const BOTH: [Self; 2] = [Self::One, Self::Other];
}

/// What is compared beside types and contents, and what need not be found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Also mode, owner, group, time of modification and extended attributes.
    pub metadata: bool,
    /// Where contents differ is not asked for: files of different sizes are not read.
    pub brief: bool,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The other side has no such name.
    OnlyIn(Side, FileType),
    /// One name for two kinds of things.
    Kinds([FileType; 2]),
    /// The bytes of files.
    Contents(Contents),
    /// Where symbolic links lead to.
    Targets([PathBuf; 2]),
    /// Major and minor numbers of devices of one kind.
    Devices(FileType, [(u32, u32); 2]),
    /// Metadata, at least one of them.
    Metadata(Vec<Attribute>),
}

/// How the bytes of two files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The first byte that differs, counted from 0.
    At(u64),
    /// One ends after so many bytes, which are also in the other.
    Ends(Side, u64),
    /// By their sizes; where was not asked for.
    Sizes([u64; 2]),
}

/// What was found at a place in the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The trees differ.
    Difference(Difference),
    /// A file or directory could not be compared; the rest goes on.
    Failed {
        /// Where.
        side: Side,
        /// What was being done, as in `opening`.
        action: &'static str,
        /// Why not.
        reason: String,
    },
}

/// Who is told what is found.
pub trait Watch {
    /// Something was found, in the order of the names, depth first. The path is below both roots, empty for the roots themselves,
    /// and may be longer than a path that systems take. May end the job.
    fn found(&mut self, path: &Path, what: &What) -> ControlFlow<()>;
    /// Called now and then, with what was done so far.
    fn progress(&mut self, _so_far: &Summary) {}
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Pairs of regular files that were compared.
    pub files: u64,
    /// Pairs of directories that were compared, the roots among them.
    #[serde(rename = "folders")]
    pub directories: u64,
    /// Pairs of links, devices and the like.
    pub others: u64,
    /// Bytes that were compared, of each side: of a pair those up to the first that differs, and itself.
    pub bytes: u64,
    /// Pairs that are one file or directory, and were not read.
    pub identical: u64,
    /// Differences that were told.
    pub differences: u64,
    /// Failures that were told.
    #[serde(rename = "failed")]
    pub failures: u64,
    /// Whether the job was ended before its end.
    #[serde(rename = "stopped")]
    pub is_stopped: bool,
    /// Threads that met cold files, and read them by rings of `io_uring`.
    #[serde(skip)]
    pub rings: usize,
    /// Files that were large enough for a method of the engine's, with each method that was chosen and why.
    #[serde(skip)]
    pub large: Vec<(String, String, u64)>,
    /// The pair of large files that is being compared, in what is told of the progress.
    #[serde(skip)]
    pub now: Option<LargePair>,
}

/// A pair of large files, and how far it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePair {
    /// The file of the first tree.
    pub path: PathBuf,
    /// Bytes that are compared.
    pub done_bytes: u64,
    /// Bytes that are to be compared.
    pub bytes: u64,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A root is not to be had.
    #[error("{}: {action} failed", path.display())]
    Root {
        /// Its path.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Neither is a directory.
    #[error("{} and {} are no directories", one.display(), other.display())]
    NoDirectories {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
}

#[cfg(test)]
mod tests;
