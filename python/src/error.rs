//! Errors as exceptions of Python.

use std::io;
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, create_exception};
use seekless::{Error as CallError, ErrorKind};

create_exception!(
    seekless,
    Error,
    PyOSError,
    "An error that is not a failed system call: a method is unavailable on this storage, or a file changed during the call."
);

/// An invalid argument.
pub fn wrong(why: impl ToString) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// A failed system call on a path. Python chooses the subclass, such as `FileNotFoundError`, by the number.
pub fn at(path: &Path, what: &str, error: &io::Error) -> PyErr {
    let text = without_number(format!("{what}: {error}"));
    PyOSError::new_err((error.raw_os_error().unwrap_or(EIO), text, path.as_os_str().to_owned()))
}

const EIO: i32 = 5;
const EAGAIN: i32 = 11;
pub const EBUSY: i32 = 16;
pub const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
#[cfg(target_os = "linux")]
const EOPNOTSUPP: i32 = 95;
#[cfg(not(target_os = "linux"))]
const EOPNOTSUPP: i32 = 102;

/// An error of the engine. Its path is the `filename`, so that the text does not repeat it.
pub fn raise(error: CallError) -> PyErr {
    let path = error.path().map(|path| path.as_os_str().to_owned());
    let text = error.to_string();
    let start = error.path().map(|path| format!("{}: ", path.display()));
    let text = start
        .and_then(|start| text.strip_prefix(&start).map(str::to_owned))
        .unwrap_or(text);
    if let Some(number) = error.os_error() {
        return PyOSError::new_err((number, without_number(text), path));
    }
    let number = match error.kind() {
        ErrorKind::NotRegular if error.path().is_some_and(Path::is_dir) => {
            return PyOSError::new_err((EISDIR, text, path));
        }
        ErrorKind::Unavailable | ErrorKind::NotStorage => EOPNOTSUPP,
        ErrorKind::Resized => EAGAIN,
        _ => EINVAL,
    };
    Error::new_err((number, text, path))
}

/// Python shows the number itself.
pub fn without_number(text: String) -> String {
    match text.rfind(" (os error ") {
        Some(at) if text.ends_with(')') => text[..at].to_owned(),
        _ => text,
    }
}
