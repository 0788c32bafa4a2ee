//! Copies trees. Files are copied by several threads, a directory's files in the order of their inodes. A new tree gets its name when it is
//! complete, and in a directory that exists each file when it is whole: a process that is killed leaves no file under a name of the
//! target that is not complete.
//!
//! Both trees are walked in step by directory handles, so no symbolic link below the target is followed, whatever is planted there
//! meanwhile. Nothing that is written is readable by more users than its source: new files and directories belong to this user alone
//! until owner and attributes are set.
//!
//! ```
//! use seekless_tools::Stop;
//! use seekless_tools::cp::{self, CpOptions};
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::create_dir(&from)?;
//! # std::fs::write(from.join("file"), b"bytes")?;
//! let summary = cp::copy_trees(&[from], &to, &CpOptions::default(), &Stop::default())?;
//! assert_eq!((summary.files, summary.directories, summary.failures), (1, 1, 0));
//! assert_eq!(std::fs::read(to.join("file"))?, b"bytes");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`JobWatch`](crate::JobWatch) gets [`CpEvent`]s. If it stops the copy, files that have their names by then are complete, and the
//! same call copies the others.
//!
//! Not here: what is printed (the command), and how the bytes of large files move (the engine).

mod copying;
mod data;
mod directories;
mod entry;
mod journal;
mod names;
mod pair;
mod roots;
mod target;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use roots::copy_trees;

#[cfg(test)]
mod tests;

/// Which symbolic links of the source are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowedLinks {
    /// None: links are copied as links.
    #[default]
    None,
    /// Those that are named.
    Named,
    /// All.
    All,
}

/// What is done with a file of the target that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replaced,
    /// It stays.
    Kept,
    /// It is replaced if it was modified before the source.
    ReplacedIfOlder,
}

/// How a file of the target is known to be the same as its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// By its size and time of modification.
    Time,
    /// By its bytes.
    Bytes,
}

/// Where `TARGET` is what the copy is called, or a directory that it is put into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetMeaning {
    /// A directory that exists is one to put copies into.
    #[default]
    AsFound,
    /// It is what the copy is called.
    Name,
    /// It is a directory to put copies into.
    Directory,
}

/// When something is done that costs time or space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Where it is possible, and costs nothing.
    #[default]
    Auto,
    /// Always; what cannot be done fails.
    Always,
    /// Never.
    Never,
}

/// What is on the device at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpDurability {
    /// What the system has written back by then.
    #[default]
    None,
    /// Everything, by one sync of the file system at the end.
    AtEnd,
    /// Each file and directory before the next one: fsync(2).
    Each,
}

/// A checksum of the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// As b3sum(1) prints it.
    Blake3,
    /// As sha256sum(1) prints it.
    Sha256,
}

/// What a copy has of its source beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each can be kept or not")]
pub struct Preserved {
    /// The permissions.
    pub mode: bool,
    /// Owner and group.
    pub ownership: bool,
    /// The times of access and of modification, in nanoseconds.
    pub timestamps: bool,
    /// Names of one file are names of one copy.
    pub links: bool,
    /// Extended attributes; access control lists and capabilities are among them.
    pub xattr: bool,
}

impl Preserved {
    /// All of them.
    pub const ALL: Self = Self {
        mode: true,
        ownership: true,
        timestamps: true,
        links: true,
        xattr: true,
    };
    /// None of them.
    pub const NONE: Self = Self {
        mode: false,
        ownership: false,
        timestamps: false,
        links: false,
        xattr: false,
    };
}

impl Default for Preserved {
    fn default() -> Self {
        Self::ALL
    }
}

/// How trees are copied.
#[derive(Clone, Debug, Default)]
pub struct CpOptions {
    /// Which links are followed.
    pub followed: FollowedLinks,
    /// Whether named FIFOs, devices and open files of processes are read, as cp(1) does without `-R`, and not made anew.
    pub reads_streams: bool,
    /// What happens to files that exist.
    pub existing: Existing,
    /// A file of the target that is the same is not copied again; it only gets the attributes.
    pub same: Option<Sameness>,
    /// What the target means.
    pub target: TargetMeaning,
    /// What is kept.
    pub preserved: Preserved,
    /// If the mode is not kept, it is that of any new file, and not that of the source less the umask.
    pub usual_mode: bool,
    /// Whether copies share the blocks of their sources.
    pub reflink: When,
    /// Whether zeros become holes: holes of the source (`Auto`), all long runs of zeros, or none.
    pub sparse: When,
    /// What is durable.
    pub durability: CpDurability,
    /// Do not enter directories of other file systems.
    pub one_file_system: bool,
    /// Leave what was read in the page cache.
    pub keep_cached: bool,
    /// Compare each file with its copy, as read from the device.
    pub verify: bool,
    /// The checksum to report of each file.
    pub checksum: Option<Checksum>,
    /// Only count what would be copied.
    pub dry_run: bool,
}

/// What could not be done.
#[derive(Debug)]
pub struct CpFailure {
    /// The path.
    pub path: PathBuf,
    /// What was tried: it completes "cannot".
    pub action: &'static str,
    /// The reason.
    pub reason: String,
}

/// An event of a copy.
pub enum CpEvent<'a> {
    /// Something was copied. Its paths are made when they are asked for, which costs time.
    Copied {
        /// Returns the path of the source.
        from: &'a dyn Fn() -> PathBuf,
        /// Returns the path of the copy.
        to: &'a dyn Fn() -> PathBuf,
    },
    /// The checksum of a copied file, if the options ask for it.
    Checksum {
        /// The checksum, as its program prints it.
        checksum: &'a str,
        /// The path of the copy.
        to: &'a Path,
    },
    /// Something could not be done.
    Failed(&'a CpFailure),
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CpSummary {
    /// Regular files copied.
    pub files: u64,
    /// Their bytes, with holes.
    pub bytes: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symbolic_links: u64,
    /// Further names of copied files.
    pub hard_links: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
    /// Files that share the blocks of their sources.
    pub reflinked: u64,
    /// Files that the kernel copied.
    pub copied_in_kernel: u64,
    /// Bytes in holes, which were not copied.
    pub hole_bytes: u64,
    /// Files that were the same in the target, most often because an interrupted copy had copied them.
    pub resumed: u64,
    /// Files that were kept as they were in the target.
    pub kept: u64,
    /// Files verified.
    pub verified: u64,
    /// Files that changed while they were copied, also in the second attempt.
    pub changed: u64,
    /// What copies could not get, and how many.
    pub not_preserved: BTreeMap<&'static str, u64>,
    /// The number of failures.
    pub failures: u64,
    /// Methods by which large files were copied, and why.
    pub large: Vec<(String, String)>,
    /// Whether it was interrupted, and the same copy would go on.
    pub is_unfinished: bool,
    /// Why files were fetched in the order of their places on the device, if they were.
    pub by_place: Option<String>,
    /// Threads that copied.
    pub threads: u64,
}

impl CpSummary {
    /// The entries that are done, without directories.
    fn entries(&self) -> u64 {
        let links = self.symbolic_links + self.hard_links;
        self.files + links + self.special + self.resumed + self.kept
    }

    /// Adds what another thread did.
    fn add(&mut self, other: &Self) {
        let Self {
            not_preserved,
            large,
            threads: _,
            ..
        } = other;
        for (what, count) in not_preserved {
            *self.not_preserved.entry(*what).or_default() += count;
        }
        self.large.extend(large.iter().cloned());
        for (sum, more) in [
            (&mut self.files, other.files),
            (&mut self.bytes, other.bytes),
            (&mut self.directories, other.directories),
            (&mut self.symbolic_links, other.symbolic_links),
            (&mut self.hard_links, other.hard_links),
            (&mut self.special, other.special),
            (&mut self.reflinked, other.reflinked),
            (&mut self.copied_in_kernel, other.copied_in_kernel),
            (&mut self.hole_bytes, other.hole_bytes),
            (&mut self.resumed, other.resumed),
            (&mut self.kept, other.kept),
            (&mut self.verified, other.verified),
            (&mut self.changed, other.changed),
            (&mut self.failures, other.failures),
        ] {
            *sum += more;
        }
    }

    /// Whether the target has everything that it was to get.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        // Who may not give files away expects them to be their own, as with `cp -a`. Times that are
        // rounded are still those of the sources.
        let expected = [OWNER_OF_OTHERS, ROUNDED_TIMES];
        let missing = self.not_preserved.keys().filter(|what| !expected.contains(what));
        self.failures == 0 && missing.count() == 0
    }
}

/// The owner, which users other than root cannot set.
pub const OWNER_OF_OTHERS: &str = "owner";

/// Times of which the target's file system stores less: seconds without nanoseconds, for example.
pub const ROUNDED_TIMES: &str = "exact times";

/// Times before the first or after the last one that the target's file system stores.
pub const UNSTORED_TIMES: &str = "years";

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum CpError {
    /// The target is no directory, and there are several sources.
    #[error("{}: not a directory", crate::visible::visible_path(.0))]
    NotDirectory(PathBuf),
    /// Another program is copying the same to the same place.
    #[error("{}: another process is running the same copy", crate::visible::visible_path(.0))]
    Busy(PathBuf),
    /// The system's.
    #[error("{}: cannot {action}", crate::visible::visible_path(.path))]
    System {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
