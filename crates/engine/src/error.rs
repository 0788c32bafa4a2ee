//! What can go wrong, with the path, the operation, the method and the system's reason.

use std::io;
use std::path::{Path, PathBuf};

use crate::update::{BatchError, HowFar};
use seekless_method::Method;

/// The result of the engine's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}: {action} failed{}: {source}", path.display(), by(*method))]
    System {
        /// The file.
        path: PathBuf,
        /// What was being done, as in `reading at byte 4096`.
        action: String,
        /// The method, where one was at work.
        method: Option<Method>,
        /// The system's reason.
        source: io::Error,
    },
    /// An update is not taken into a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The method is not to be had on this storage or system. It never falls back to another.
    #[error("{}: `{method}` is not available here: {reason}", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Why not.
        reason: String,
    },
    /// The file changed its size while it was used; what was seen is not the file.
    #[error(
        "{}: the file shrank from {expected_bytes} to {found_bytes} bytes while it was read{}; \
         try again when nothing writes to it",
        path.display(), by(Some(*method))
    )]
    Shrank {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Its size when it was opened.
        expected_bytes: u64,
        /// Its size now, or the byte where it ended.
        found_bytes: u64,
    },
    /// The file grew while it was used, so that what was seen is not all of it.
    #[error(
        "{}: the file grew from {expected_bytes} to {found_bytes} bytes while it was read{}; \
         try again when nothing writes to it",
        path.display(), by(Some(*method))
    )]
    Grew {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Its size when it was opened.
        expected_bytes: u64,
        /// Its size now.
        found_bytes: u64,
    },
    /// The producer of a write could not make its bytes.
    #[error("{}: the bytes at {offset} could not be produced, so {method} ended: {source}", path.display())]
    Producer {
        /// The file that was being written.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Where the bytes belong.
        offset: u64,
        /// The producer's reason.
        source: io::Error,
    },
    /// Not a regular file.
    #[error("{}: is {kind}; a regular file is needed", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a directory`.
        kind: &'static str,
    },
    /// Source and target are one file.
    #[error("{}: source and target are the same file", path.display())]
    SameFile {
        /// The target's path.
        path: PathBuf,
    },
    /// The method is of another operation than the one asked for.
    #[error("`{method}` does not {wanted}")]
    WrongOperation {
        /// The method.
        method: Method,
        /// The operation's word.
        wanted: &'static str,
    },
    /// Others may write to the file, so what lies between updates cannot be written back without undoing them.
    #[error(
        "{}: `{method}` writes back what lies between updates, and nobody else can be kept out meanwhile: {reason}; \
         write only what updates name (order=ascending), or accept that bytes of others may be lost (--unsafe)",
        path.display()
    )]
    NotExclusive {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Why nobody can be kept out.
        reason: String,
    },
    /// What was written could not be brought to the device. The kernel may have dropped some of it, and may call the next
    /// fsync a success (fsync(2)).
    #[error("{}: fsync failed{}: {source}", path.display(), by(Some(*method)))]
    NotSynced {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// The system's reason.
        source: io::Error,
    },
    /// An update in place ended early.
    #[error("{cause}; {}", far.told(path, cause))]
    PartlyUpdated {
        /// The file.
        path: PathBuf,
        /// How far it came.
        far: HowFar,
        /// Why it ended.
        cause: Box<Error>,
    },
    /// An update with a journal or a new file failed, and was undone if possible.
    #[error("{cause}{what}")]
    Undone {
        /// What has become of the file, behind a semicolon.
        what: String,
        /// Why it failed.
        cause: Box<Error>,
    },
    /// The file has all updates, and it is not certain that it keeps them.
    #[error("{cause}; {what}")]
    Unlasting {
        /// What is true of the file, and what to do.
        what: String,
        /// What failed.
        cause: Box<Error>,
    },
    /// It was not done, and nothing has changed.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
}

fn by(method: Option<Method>) -> String {
    method.map_or_else(String::new, |method| format!(" by {method}"))
}

impl Error {
    /// A failed system call outside any method.
    pub(crate) fn system(path: &Path, action: &str, source: io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            action: action.to_owned(),
            method: None,
            source,
        }
    }

    /// What is refused, with nothing changed.
    pub(crate) fn refused(path: &Path, reason: &str) -> Self {
        Self::Refused {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Why others could not be kept out, where that ended an update, whether or not some of it had been written. Writing only
    /// what updates name is possible all the same, and doing it twice gives the same.
    #[must_use]
    pub fn not_exclusive(&self) -> Option<&str> {
        match self {
            Self::NotExclusive { reason, .. } => Some(reason),
            Self::PartlyUpdated { cause, .. } => cause.not_exclusive(),
            _ => None,
        }
    }

    /// Whether this says that a method is not available, rather than that something failed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
