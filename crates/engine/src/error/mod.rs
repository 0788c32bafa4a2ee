//! Errors as data: paths, figures, kinds and the system's reason. Every call returns [`Error`]; [`UpdateErrorKind`]
//! says what was wrong with an update, [`RecoveryRefusal`] why a journal is not trusted.
//!
//! `Display` turns them into a sentence, which does not repeat `source()`; [`full_text`] has both.
//!
//! Not here: what to try next, which is for the program to suggest.

mod how_far;
mod recover;
mod update;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use seekless_method::{Choice, Method};

pub use how_far::HowFar;
pub use recover::{RecoverError, RecoveryRefusal};
pub use update::{BatchError, NotAlone, ReplaceConflict, SidecarKind, UpdateError, UpdateErrorKind};

/// The result of the engine's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{}: cannot {action}{}", path.display(), by(*method))]
    System {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: FailedCall,
        /// The method, if a method tried it.
        method: Option<Method>,
        /// The system's reason.
        source: io::Error,
    },
    /// The method is unavailable on this storage or system. It never falls back to another method.
    #[error("{}: `{method}` is not available here: {reason}", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Why not.
        reason: String,
    },
    /// The file changed its size while it was read, so what was read is not the file.
    #[error(
        "{}: the file {} from {expected_bytes} B to {found_bytes} B while it was read{}; try again when nothing writes to it",
        path.display(), if found_bytes < expected_bytes { "shrank" } else { "grew" }, by(Some(*method))
    )]
    Resized {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Its size when it was opened.
        expected_bytes: u64,
        /// Its size now, or the byte where it ended.
        found_bytes: u64,
    },
    /// The program that watches the progress ended it.
    #[error("{}: stopped after {done_bytes} B{}", path.display(), by(Some(*method)))]
    Stopped {
        /// The file.
        path: PathBuf,
        /// The method.
        method: Method,
        /// How many bytes were done, from the start of the file or of its range.
        done_bytes: u64,
    },
    /// Not a regular file.
    #[error("{}: is {kind}, not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a directory`.
        kind: &'static str,
    },
    /// A file system that shows the kernel's state as files, as `/proc` does.
    #[error("{}: not a storage file system ({file_system})", path.display())]
    NotStorage {
        /// The path.
        path: PathBuf,
        /// The file system's name.
        file_system: String,
    },
    /// The method belongs to another operation than the one that was called.
    #[error("`{asked}` does not {wanted}")]
    WrongOperation {
        /// The method, or the plan, that was requested.
        asked: Choice,
        /// The operation that was called, as in `read`.
        wanted: &'static str,
    },
    /// The producer could not make its bytes.
    #[error("{}: cannot produce the bytes at byte {offset} ({method})", path.display())]
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
    /// Source and target of a copy are one file.
    #[error("{}: source and target are the same file", path.display())]
    SameFile {
        /// The target's path.
        path: PathBuf,
    },
    /// Source and target of a copy within one file overlap.
    #[error("{}: the source and the target overlap", path.display())]
    Overlap {
        /// The target's path.
        path: PathBuf,
    },
    /// From collecting updates.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// From updating.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// From recovering an interrupted update.
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

/// What a failed system call was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedCall {
    /// The verb and its object, as in `read` and `set its size`: they follow "cannot".
    pub verb: &'static str,
    /// The byte of the file at which it failed, if there is one.
    pub offset: Option<u64>,
}

impl From<&'static str> for FailedCall {
    fn from(verb: &'static str) -> Self {
        Self { verb, offset: None }
    }
}

impl From<(&'static str, u64)> for FailedCall {
    fn from((verb, offset): (&'static str, u64)) -> Self {
        let offset = Some(offset);
        Self { verb, offset }
    }
}

impl fmt::Display for FailedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.verb)?;
        self.offset
            .map_or(Ok(()), |offset| write!(formatter, " at byte {offset}"))
    }
}

fn by(method: Option<Method>) -> String {
    method.map_or_else(String::new, |method| format!(" ({method})"))
}

/// An error and its sources in one line, the outermost first.
#[must_use]
pub fn full_text(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |source| source.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

impl Error {
    /// A failed system call of no method.
    pub(crate) fn system(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            action: action.into(),
            method: None,
            source,
        }
    }

    /// A failed system call of a method.
    #[cold]
    pub(crate) fn by(method: &Method, path: &Path, action: impl Into<FailedCall>, source: io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            action: action.into(),
            method: Some(*method),
            source,
        }
    }

    /// A method that is unavailable.
    pub(crate) fn unavailable(method: &Method, path: &Path, reason: &str) -> Self {
        Self::Unavailable {
            path: path.to_owned(),
            method: *method,
            reason: reason.to_owned(),
        }
    }

    /// The same, naming the file that a method was prepared for. Preparing knows no file and names the current directory.
    pub(crate) fn about(mut self, file: &Path) -> Self {
        if let Self::System { path, .. } | Self::Unavailable { path, .. } = &mut self
            && path.as_os_str() == "."
        {
            file.clone_into(path);
        }
        self
    }

    /// The same, naming the file by a path, which the call did not know.
    pub(crate) fn of_file(mut self, file: &Path) -> Self {
        if let Self::System { path, .. } | Self::Unavailable { path, .. } | Self::Resized { path, .. } = &mut self {
            file.clone_into(path);
        }
        self
    }

    /// Why other processes could not be kept out of the file, if that ended an update, whether or not some of it had been
    /// written. The update can still be done with a method that writes only the bytes of the updates: writing them twice does
    /// no harm.
    #[must_use]
    pub fn not_exclusive(&self) -> Option<&NotAlone> {
        match self.update_kind()? {
            UpdateErrorKind::NotExclusive { source, .. } => Some(source),
            UpdateErrorKind::PartlyUpdated { source, .. } => source.not_exclusive(),
            _ => None,
        }
    }

    /// Why an update failed, if this is the error of an update.
    #[must_use]
    pub fn update_kind(&self) -> Option<&UpdateErrorKind> {
        match self {
            Self::Update(error) => Some(&error.kind),
            _ => None,
        }
    }

    /// Whether the program ended the operation (`IoOptions::progress`), also if it is an update that was undone or is partly
    /// applied.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Stopped { .. } => true,
            Self::Update(error) => match &error.kind {
                UpdateErrorKind::Undone { source, .. }
                | UpdateErrorKind::NotUndone { source, .. }
                | UpdateErrorKind::PartlyUpdated { source, .. } => source.is_stopped(),
                _ => false,
            },
            _ => false,
        }
    }

    /// The file that the error is about, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::System { path, .. }
            | Self::Unavailable { path, .. }
            | Self::Resized { path, .. }
            | Self::Stopped { path, .. }
            | Self::NotRegular { path, .. }
            | Self::NotStorage { path, .. }
            | Self::Producer { path, .. }
            | Self::SameFile { path }
            | Self::Overlap { path } => Some(path),
            Self::Update(error) => Some(&error.path),
            Self::Recover(error) => Some(&error.file),
            Self::Batch(_) | Self::WrongOperation { .. } => None,
        }
    }

    /// The system's error number (errno), if a system call failed.
    #[must_use]
    pub fn os_error(&self) -> Option<i32> {
        let mut causes = std::iter::successors(Some(self as &dyn std::error::Error), |cause| cause.source());
        causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())
    }

    /// Whether the method is unavailable, as opposed to an operation that failed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_error_number_are_found_below_the_errors_of_updates() {
        let full = Error::system(Path::new("a"), "write", io::Error::from_raw_os_error(28));
        assert_eq!((full.path(), full.os_error()), (Some(Path::new("a")), Some(28)));
        let kind = UpdateErrorKind::Undone {
            source: Box::new(full),
            longer_bytes: 0,
            journal: None,
        };
        let undone = Error::Update(UpdateError { path: "b".into(), kind });
        assert_eq!((undone.path(), undone.os_error()), (Some(Path::new("b")), Some(28)));
        let full = Error::Batch(BatchError::Full { memory_bytes: 1 });
        assert_eq!((full.path(), full.os_error()), (None, None));
    }

    #[test]
    fn an_error_of_preparing_names_the_file_and_others_keep_theirs() {
        let method = Method::known("read/mmap");
        let prepared = Error::unavailable(&method, Path::new("."), "no guard");
        assert_eq!(prepared.about(Path::new("a")).path(), Some(Path::new("a")));
        let opened = Error::system(Path::new("b"), "open", io::ErrorKind::NotFound.into());
        assert_eq!(opened.about(Path::new("a")).path(), Some(Path::new("b")));
    }
}
