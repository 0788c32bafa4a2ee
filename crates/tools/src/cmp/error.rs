//! Errors of comparing two files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::End;

/// Why there is no verdict. The texts are what cmp(1) prints after its own name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be compared.
    #[error("{}: {problem}", name.display())]
    File {
        /// The file as it was named.
        name: OsString,
        /// Why not.
        problem: CmpProblem,
    },
    /// The listing could not be written.
    #[error("write failed")]
    Write {
        /// The system's reason.
        source: io::Error,
        /// The end of the shorter file, where one ended before the other.
        end: Option<End>,
    },
    /// The comparison was stopped.
    #[error("stopped")]
    Stopped,
}

/// Why a file cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CmpProblem {
    /// It could not be opened, or its status not read.
    #[error("{}", reason(.0))]
    Open(io::Error),
    /// It could not be read at a byte, of a file or of a stream.
    #[error("{}{}", place(*.0), reason(.1))]
    Read(u64, io::Error),
    /// Symbolic links are to be compared by their targets, but only the other one is a symbolic link.
    #[error("Not a symbolic link")]
    NotALink,
    /// It changed its size while it was compared, so there is no verdict.
    #[error("the file changed from {expected_bytes} B to {found_bytes} B while it was compared")]
    Changed {
        /// Its size when it was opened.
        expected_bytes: u64,
        /// Its size afterwards.
        found_bytes: u64,
    },
    /// The requested method compares regular files only.
    #[error("not a regular file; a method compares regular files only")]
    NotRegular,
    /// The method came to no verdict: what it tried, and the system's reason.
    #[error("{0}")]
    Method(String),
}

impl CmpProblem {
    /// The problem of a file with this name.
    pub(super) fn of(self, name: &OsStr) -> Error {
        Error::File {
            name: name.to_owned(),
            problem: self,
        }
    }
}

impl Error {
    /// The text with the names as they are, which need not be UTF-8.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::File { name, problem } => [name.as_bytes(), format!(": {problem}").as_bytes()].concat(),
            Self::Write { .. } | Self::Stopped => self.to_string().into_bytes(),
        }
    }
}

/// The system's reason alone, without the number that Rust adds.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" (os error ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The place in the file. At its start, the text is that of GNU cmp.
fn place(offset: u64) -> String {
    if offset == 0 {
        String::new()
    } else {
        format!("cannot read at byte {offset}: ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_the_middle_name_the_byte() {
        let error = |offset| CmpProblem::Read(offset, io::Error::from_raw_os_error(5)).of("f".as_ref());
        assert_eq!(error(0).to_string(), "f: Input/output error");
        assert_eq!(
            error(4096).to_string(),
            "f: cannot read at byte 4096: Input/output error"
        );
    }
}
