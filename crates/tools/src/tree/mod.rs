//! Compares two trees: names, types, targets of symbolic links, contents of files, numbers of devices, and metadata if
//! requested.
//!
//! Directories are listed ahead of the files in them. Files are read in the order of their inodes, many at once. Results are
//! reported in the order of the names, depth first, while the comparison continues. Directories are open handles, never paths,
//! so trees may be deeper than the longest path. Symbolic links below the two roots are never followed, and special files are
//! never opened. Mount points are entered, as `diff -r` does. Two roots that are regular files are compared as such.
//!
//! Memory: the entries of the directories in progress (about 50 bytes and the name for each), up to 250,000 of them, or two
//! million if one directory has more; and the directories that are still to be entered. A larger directory is compared in parts,
//! and its names are read again for each part.
//!
//! ```
//! use std::ops::ControlFlow;
//! use seekless_tools::tree::{self, TreeEvent, TreeOptions};
//! use seekless_tools::{ClosureWatch, JobProgress, Stop};
//! # let directory = tempfile::tempdir()?;
//! # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
//! # for tree in [&one, &other] { std::fs::create_dir(tree)?; std::fs::write(tree.join("file"), b"bytes")?; }
//! let stop = Stop::default();
//! let watch = ClosureWatch::new(&stop, |_: &JobProgress| (), |event: TreeEvent<'_>| {
//!     println!("{}: {:?}", event.path.display(), event.found);
//!     ControlFlow::Continue(())
//! });
//! let summary = tree::compare(&one, &other, &TreeOptions::default(), &watch)?;
//! assert_eq!((summary.files, summary.differences, summary.failures), (1, 0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: how differences are printed (the command), and how the bytes of large files are moved (the engine).

mod batch;
mod compare;
mod directory;
mod disk_order;
pub(crate) mod large;
mod list;
mod look;
mod pair;
mod same_size;
mod shared;
mod tell;

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use seekless_engine::facts::SeekFacts;
use seekless_engine::plan::BatchPlan;
use serde::Serialize;

use crate::walk::Globs;

pub use compare::compare;
pub use look::Attribute;
pub use same_size::{SMALLEST_BYTES, SameSize, same_size};
pub use seekless_engine::Side;

/// What is compared in addition to types and contents, and what need not be found out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeOptions<'a> {
    /// Also mode, owner, group, time of modification and extended attributes.
    pub metadata: bool,
    /// Only whether contents differ, not where: files of different sizes are not read.
    pub brief: bool,
    /// A file or directory that only one side has is compared with an empty one.
    pub new_files: bool,
    /// Files and directories that are one on both sides are compared, too. So they are if the roots are one directory.
    pub same_files: bool,
    /// What these match is left out, with what is below it.
    pub exclude: Option<&'a Globs>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryDifference {
    /// The other side has no such name.
    OnlyIn(Side, FileType),
    /// The two sides have different types under this name, or two FIFOs, sockets or devices, which cannot be compared.
    Kinds([FileType; 2]),
    /// The bytes of files.
    Contents(ContentsDiffer),
    /// The targets of symbolic links.
    Targets([PathBuf; 2]),
    /// Major and minor numbers of devices of one kind.
    Devices(FileType, [(u32, u32); 2]),
    /// Metadata; at least one attribute.
    Metadata(Vec<Attribute>),
}

/// How the bytes of two files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentsDiffer {
    /// The first byte that differs, counted from 0.
    At(u64),
    /// One ends after this many bytes, which are equal in both.
    Ends(Side, u64),
    /// In their sizes; they were not read.
    Sizes([u64; 2]),
}

/// What was found at a path in the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeFinding {
    /// The trees differ.
    Difference(EntryDifference),
    /// A file or directory could not be compared; the comparison continues.
    Failed {
        /// In which tree.
        side: Side,
        /// What was tried, as in `open`.
        action: &'static str,
        /// Why not.
        reason: String,
    },
}

/// An event of a comparison: something was found. Events come in the order of the names, depth first, by the thread that
/// called [`compare`].
#[derive(Clone, Copy, Debug)]
pub struct TreeEvent<'a> {
    /// The path relative to both roots: empty for the roots themselves. It may exceed the longest path of the system.
    pub path: &'a Path,
    /// What was found there.
    pub found: &'a TreeFinding,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TreeSummary {
    /// Pairs of regular files that were compared.
    pub files: u64,
    /// Pairs of directories that were compared, the roots among them.
    #[serde(rename = "folders")]
    pub directories: u64,
    /// Pairs of links, devices and the like.
    pub others: u64,
    /// Bytes compared on each side: in a pair that differs, up to and including the first byte that differs.
    pub bytes: u64,
    /// Pairs in which both names lead to one file or directory; they were not read.
    pub identical: u64,
    /// Differences that were reported.
    pub differences: u64,
    /// Failures that were reported.
    #[serde(rename = "failed")]
    pub failures: u64,
    /// Whether the job was ended early.
    #[serde(rename = "stopped")]
    pub is_stopped: bool,
    /// Threads that met cold files and read them with `io_uring`.
    #[serde(skip)]
    pub rings: usize,
    /// The device in whose order files were fetched, if they were.
    #[serde(skip)]
    pub by_place: Option<SeekFacts>,
    /// How small files were compared, if there were any.
    #[serde(skip)]
    pub batch: Option<BatchPlan>,
    /// The methods chosen for large files: method, reason, and number of files.
    #[serde(skip)]
    pub large: Vec<(String, String, u64)>,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A root is not accessible.
    #[error("{}: cannot {action}", path.display())]
    Root {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Neither is a directory, nor are both regular files.
    #[error("{} and {} are neither directories nor regular files", one.display(), other.display())]
    NoDirectories {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
}

#[cfg(test)]
mod tests;
