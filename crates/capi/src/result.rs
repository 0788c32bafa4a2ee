//! What a call did, or why it failed, as C gets it.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seekless::{Error, ErrorKind, Method, Reason};

use crate::border::OutText;

/// Whether a call succeeded, and if not, what kind of error it was.
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
    /// The callback of the progress ended the call.
    Stopped,
    /// A defect in seekless, which standard error tells.
    Internal,
}

/// What a comparison found.
#[derive(Clone, Copy, Default)]
#[repr(u32)]
pub enum seekless_verdict {
    /// Nothing was compared, or the call failed.
    #[default]
    None,
    /// The files are equal.
    Equal,
    /// They differ; `bytes` is the offset of the first difference.
    Differ,
    /// The first file is shorter, and equal to the start of the second; `bytes` is its length.
    FirstEnded,
    /// The second file is shorter, and equal to the start of the first; `bytes` is its length.
    SecondEnded,
}

/// What a call did, or why it failed. Free it with `seekless_result_free`.
#[derive(Default)]
#[repr(C)]
pub struct seekless_result {
    /// What the call returned.
    pub status: seekless_status,
    /// The system's number (errno) of an error, or 0 if no system call failed.
    pub error_number: i32,
    /// What a comparison found.
    pub verdict: seekless_verdict,
    /// 1 if `take` ended a read, otherwise 0.
    pub is_stopped: u32,
    /// Bytes that were moved, holes included; of a comparison, bytes that are equal; of an update, bytes that it changed.
    pub bytes: u64,
    /// The time that a plan predicts, in seconds.
    pub seconds: f64,
    /// The lower bound of this time.
    pub seconds_low: f64,
    /// The upper bound of this time.
    pub seconds_high: f64,
    /// The text of the method that did it or would do it, or NULL.
    pub method: OutText,
    /// Why this method; or after an error one line with the file, what failed, by which method, and the system's reason.
    /// UTF-8, never NULL after a call that plans, moves bytes or fails.
    pub text: OutText,
    /// The file that an error is about, or NULL.
    pub path: OutText,
}

pub type OutResult<'a> = Option<&'a mut MaybeUninit<seekless_result>>;

/// Makes a call and tells the caller its result. A panic becomes an error.
pub fn answer(out: OutResult<'_>, call: impl FnOnce() -> Result<seekless_result, seekless_result>) -> seekless_status {
    // What a call leaves behind when it panics is dropped, and no later call sees it.
    let called = catch_unwind(AssertUnwindSafe(call));
    let defect = |_| {
        Err(seekless_result::failed(
            seekless_status::Internal,
            "a defect in seekless",
        ))
    };
    let (Ok(result) | Err(result)) = called.unwrap_or_else(defect);
    let status = result.status;
    if let Some(out) = out {
        out.write(result);
    }
    status
}

impl seekless_result {
    pub fn of(method: &Method, reason: &Reason) -> Self {
        Self {
            method: OutText::of(method.to_string()),
            text: OutText::of(reason.to_string()),
            ..Self::default()
        }
    }

    pub fn failed(status: seekless_status, text: &str) -> Self {
        Self {
            status,
            text: OutText::of(text),
            ..Self::default()
        }
    }
}

impl From<Error> for seekless_result {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Stopped => seekless_status::Stopped,
            ErrorKind::System => seekless_status::System,
            ErrorKind::Unavailable => seekless_status::Unavailable,
            ErrorKind::Resized => seekless_status::Changed,
            ErrorKind::NotRegular | ErrorKind::NotStorage => seekless_status::NotRegular,
            ErrorKind::Update => seekless_status::Update,
            _ => seekless_status::Invalid,
        };
        Self {
            error_number: error.os_error().unwrap_or(0),
            path: error.path().map(OutText::of).unwrap_or_default(),
            ..Self::failed(status, &error.to_string())
        }
    }
}

/// An argument is wrong.
impl From<String> for seekless_result {
    fn from(why: String) -> Self {
        Self::failed(seekless_status::Invalid, &why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let mut result = MaybeUninit::uninit();
        let answered = answer(Some(&mut result), || panic!("for a test"));
        assert_eq!(answered, seekless_status::Internal);
        // SAFETY: `answer` set it.
        let result = unsafe { result.assume_init() };
        assert_eq!((result.status, result.bytes), (seekless_status::Internal, 0));
        let answered = answer(None, || panic!("without one who is told"));
        assert_eq!(answered, seekless_status::Internal);
    }
}
