//! Errors: which file, doing what, by which method, and the system's reason.

use std::error::Error as StdError;
use std::path::Path;
use std::{fmt, io};

use seekless_engine as engine;

/// The result of the calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. `Display` is one line that says what happened, to which file, doing what, by which method, and the
/// system's reason.
pub struct Error(Cause);

#[derive(Debug)]
enum Cause {
    Engine(Box<engine::Error>),
    /// An argument is wrong.
    Words(String),
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call failed: [`Error::os_error`] is its number.
    System,
    /// An argument is wrong, or arguments do not fit together.
    Invalid,
    /// The method is unavailable on this storage or system. A named method never falls back to another one.
    Unavailable,
    /// Not a regular file.
    NotRegular,
    /// A file of a file system that shows the kernel's state, such as `/proc`.
    NotStorage,
    /// The file changed its size while it was read, so what was read is not the file.
    Resized,
    /// [`Stop`](crate::Stop) ended the call.
    Stopped,
    /// An update was refused, undone, or ended early: the text says which.
    Update,
}

impl Error {
    pub(crate) fn of(error: engine::Error) -> Self {
        Self(Cause::Engine(Box::new(error)))
    }

    /// A failed system call of no method.
    pub(crate) fn system(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::of(engine::Error::System {
            path: path.to_owned(),
            action: action.into(),
            method: None,
            source,
        })
    }

    pub(crate) fn of_words(words: impl StdError) -> Self {
        Self(Cause::Words(engine::full_text(&words)))
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        let Cause::Engine(error) = &self.0 else {
            return ErrorKind::Invalid;
        };
        match &**error {
            error if error.is_stopped() => ErrorKind::Stopped,
            engine::Error::System { .. } => ErrorKind::System,
            engine::Error::Unavailable { .. } => ErrorKind::Unavailable,
            engine::Error::Resized { .. } => ErrorKind::Resized,
            engine::Error::NotRegular { .. } => ErrorKind::NotRegular,
            engine::Error::NotStorage { .. } => ErrorKind::NotStorage,
            engine::Error::Update(_) | engine::Error::Recover(_) => ErrorKind::Update,
            _ => ErrorKind::Invalid,
        }
    }

    /// The file that it is about, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Cause::Engine(error) => error.path(),
            Cause::Words(_) => None,
        }
    }

    /// The system's error number (errno), if a system call failed.
    #[must_use]
    pub fn os_error(&self) -> Option<i32> {
        match &self.0 {
            Cause::Engine(error) => error.os_error(),
            Cause::Words(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Engine(error) => formatter.write_str(&engine::full_text(&**error)),
            Cause::Words(words) => formatter.write_str(words),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {self}", self.kind())
    }
}

impl StdError for Error {}

/// The system's error where a call of it failed, so that its kind stays; else one that has this error.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let number = error.os_error().map(io::Error::from_raw_os_error);
        let kind = number.map_or(io::ErrorKind::Other, |system| system.kind());
        io::Error::new(kind, error)
    }
}
