//! Errors of a file: what was tried, the reason, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use seekless_engine::error::NotAlone;

/// A file was not shown, dug, punched or filled.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub kind: HoleErrorKind,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

/// The result of a job's parts, which do not name the file.
pub(super) type Worked<T> = Result<T, HoleErrorKind>;

/// Why a file was not shown, dug, punched or filled.
#[derive(Debug, thiserror::Error)]
pub enum HoleErrorKind {
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A flag protects the file: which, and how to clear it.
    #[error("{0}; nothing was changed")]
    Protected(&'static str),
    /// Changing the file would remove a privilege from it.
    #[error("{0}")]
    Privileged(Privilege),
    /// It is not a regular file, but what this says, as in `a FIFO`.
    #[error("is {0}, not a regular file")]
    NotRegular(&'static str),
    /// The system or the file system lacks a feature.
    #[error("{0}; nothing was changed")]
    Unavailable(&'static str),
    /// There is not enough free space to fill its holes.
    #[error(
        "{} MiB needed to fill the holes, {} MiB free; nothing was allocated",
        needed_bytes.div_ceil(1 << 20), free_bytes >> 20
    )]
    NoRoom {
        /// What all holes together would take.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Blocks of the holes could not be allocated.
    #[error(
        "cannot allocate blocks for the holes; {}",
        if *is_undone { "the holes are unchanged" } else { "some holes may have blocks now" }
    )]
    NotFilled {
        /// The system's reason.
        source: io::Error,
        /// Whether the blocks that were already allocated are free again.
        is_undone: bool,
    },
    /// A lease would not keep other processes out.
    #[error("other processes cannot be kept out; nothing was changed")]
    Shared(#[source] NotAlone),
    /// Another process has the file open or mapped: those that have it open, as far as this user can see.
    #[error("in use{}; close it and retry", by(.0))]
    InUse(Vec<String>),
    /// Another process opened the file meanwhile.
    #[error("stopped: another process opened it; no byte was changed. Retry when it is not in use")]
    Wanted,
    /// The file is not as it was when the range to punch was examined.
    #[error("another process changed it meanwhile; no byte was changed. Run it again")]
    Changed,
    /// The range to punch is not in the file.
    #[error("cannot punch {length} B at byte {offset} of {bytes}: the range must end within the file and not be empty")]
    Range {
        /// Where the hole was to begin.
        offset: u64,
        /// How long it was to be.
        length: u64,
        /// The file's size.
        bytes: u64,
    },
    /// The file's content is not the same as before.
    #[error("{0}; compare the file with a copy, and do not use holes on this file system")]
    Differs(String),
}

/// A privilege that a file loses when its bytes are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Privilege {
    /// It is set-user-ID or set-group-ID, which changes by root keep.
    #[error("is set-user-ID or set-group-ID and would lose that; nothing was changed. Root can do it without loss")]
    SetId,
    /// It has capabilities (capabilities(7)).
    #[error(
        "has capabilities and would lose them; nothing was changed. Remove them first (`setcap -r`) and set them again \
         afterwards"
    )]
    Capabilities,
}

impl HoleErrorKind {
    /// The error of a file.
    pub(super) fn at(self, path: &Path) -> Error {
        let (path, kind) = (path.to_owned(), self);
        Error { path, kind }
    }

    /// What to do, if the system's reason suggests something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        let (action, source) = match self {
            Self::System { action, source } => (*action, source),
            Self::NotFilled { source, .. } => ("", source),
            _ => return None,
        };
        match source.kind() {
            io::ErrorKind::PermissionDenied if action == OPENING => Some(
                "run this as the file's owner, and check that the file is not immutable (lsattr; `chattr -i` clears that)",
            ),
            io::ErrorKind::ReadOnlyFilesystem => Some("remount the file system read-write first"),
            io::ErrorKind::ExecutableFileBusy => Some("the file is being executed or used as swap: end that first"),
            io::ErrorKind::StorageFull => Some("free some space first"),
            _ => None,
        }
    }
}

/// A failed system call.
pub(super) fn cannot(action: &'static str) -> impl Fn(io::Error) -> HoleErrorKind {
    move |source| HoleErrorKind::System { action, source }
}

fn by(holders: &[String]) -> String {
    match holders {
        [] => String::new(),
        holders => format!(" by {}", holders.join(", ")),
    }
}

/// The words of errors for opening a file for writing.
pub(super) const OPENING: &str = "open for writing";
