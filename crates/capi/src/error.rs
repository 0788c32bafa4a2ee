//! Errors of the engine as C gets them.

use std::io;

use seekless::method::ParseError;
use seekless::{Error, full_text};

use crate::border::OutText;

/// Whether a call succeeded, and if not, what kind of error it was.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum seekless_status {
    /// The call succeeded.
    #[default]
    Ok,
    /// An argument is wrong: NULL where that is not allowed, an unknown method or number, source and target are one file.
    Invalid,
    /// A system call failed; `error_number` says why.
    System,
    /// The method that was named is not available on this storage or system.
    Unavailable,
    /// Not a regular file on a file system of a storage.
    NotRegular,
    /// The file changed its size while it was read.
    Changed,
    /// An update was refused, undone, or ended early; the text says which.
    Update,
    /// A callback ended the call.
    Stopped,
    /// A defect in seekless.
    Internal,
}

/// Why a call failed. Free it with `seekless_error_free`.
#[allow(non_camel_case_types)]
#[derive(Default)]
#[repr(C)]
pub struct seekless_error {
    /// What kind of error it is; `SEEKLESS_STATUS_OK` after a call that succeeded.
    pub status: seekless_status,
    /// The system's number (errno), or 0 if no system call failed.
    pub error_number: i32,
    /// One line in UTF-8: the file, what failed, by which method, and the system's reason. NULL after success.
    pub text: OutText,
    /// The file that the error is about, or NULL.
    pub path: OutText,
}

impl seekless_error {
    pub fn of(status: seekless_status, text: &str) -> Self {
        Self {
            status,
            text: OutText::of(text),
            ..Self::default()
        }
    }

    pub fn system(text: &str, why: &io::Error) -> Self {
        Self {
            error_number: why.raw_os_error().unwrap_or(0),
            ..Self::of(seekless_status::System, &format!("{text}: {why}"))
        }
    }

    pub fn invalid(text: &str) -> Self {
        Self::of(seekless_status::Invalid, text)
    }
}

impl From<Error> for seekless_error {
    fn from(error: Error) -> Self {
        let status = match &error {
            _ if error.is_stopped() => seekless_status::Stopped,
            Error::System { .. } | Error::Producer { .. } => seekless_status::System,
            Error::Unavailable { .. } => seekless_status::Unavailable,
            Error::Resized { .. } => seekless_status::Changed,
            Error::NotRegular { .. } | Error::NotStorage { .. } => seekless_status::NotRegular,
            Error::WrongOperation { .. } | Error::SameFile { .. } | Error::Overlap { .. } | Error::Batch(_) => {
                seekless_status::Invalid
            }
            _ => seekless_status::Update,
        };
        Self {
            error_number: error.os_error().unwrap_or(0),
            path: error.path().map(OutText::of).unwrap_or_default(),
            ..Self::of(status, &full_text(&error))
        }
    }
}

impl From<ParseError> for seekless_error {
    fn from(error: ParseError) -> Self {
        Self::invalid(&full_text(&error))
    }
}
