//! Errors of comparing two files.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::End;

/// Why there is no verdict. The texts are what cmp(1) prints after its own name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened, or its status not read.
    #[error("{}: {}", name.display(), reason(error))]
    Open {
        /// The file as it was named.
        name: OsString,
        /// The system's reason.
        error: io::Error,
    },
    /// A file could not be read.
    #[error("{}: {}{}", name.display(), place(*offset), reason(error))]
    Read {
        /// The file as it was named.
        name: OsString,
        /// The byte at which reading failed, of a file or of a stream.
        offset: u64,
        /// The system's reason.
        error: io::Error,
    },
    /// Symbolic links are to be compared by their targets, but only one of the two is a symbolic link.
    #[error("{}: Not a symbolic link", name.display())]
    NotALink {
        /// The other one.
        name: OsString,
    },
    /// A file changed its size while it was compared, so there is no verdict.
    #[error("{}: the file changed from {expected_bytes} B to {found_bytes} B while it was compared", name.display())]
    Changed {
        /// The file as it was named.
        name: OsString,
        /// Its size when it was opened.
        expected_bytes: u64,
        /// Its size afterwards.
        found_bytes: u64,
    },
    /// The requested method compares regular files only.
    #[error("{}: not a regular file; a method compares regular files only", name.display())]
    NotRegular {
        /// The file as it was named.
        name: OsString,
    },
    /// The method came to no verdict.
    #[error("{}: {reason}", name.display())]
    Method {
        /// The file as it was named.
        name: OsString,
        /// What the method tried, and the system's reason.
        reason: String,
    },
    /// The listing could not be written.
    #[error("write failed")]
    Write {
        /// The system's reason.
        source: io::Error,
        /// The end of the shorter file, where one ended before the other.
        end: Option<End>,
    },
}

impl Error {
    /// The text with the names as they are, which need not be UTF-8.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = self.to_string();
        let (Self::Open { name, .. }
        | Self::Read { name, .. }
        | Self::NotALink { name }
        | Self::NotRegular { name }
        | Self::Changed { name, .. }
        | Self::Method { name, .. }) = self
        else {
            return text.into_bytes();
        };
        let shown = name.display().to_string();
        let rest = text.strip_prefix(&shown).unwrap_or_default();
        [name.as_bytes(), rest.as_bytes()].concat()
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
        let error = |offset| Error::Read {
            name: "f".into(),
            offset,
            error: io::Error::from_raw_os_error(5),
        };
        assert_eq!(error(0).to_string(), "f: Input/output error");
        assert_eq!(
            error(4096).to_string(),
            "f: cannot read at byte 4096: Input/output error"
        );
    }
}
