//! Why a file could not be read: what was tried, or that the file is not what it was.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::Search;
use crate::walk::{CHANGED, Facts};

/// What opening a file tells that was a regular file.
const REPLACED: [Errno; 3] = [Errno::LOOP, Errno::NOTDIR, Errno::NXIO];

impl Search<'_> {
    /// Opens a file as it was listed.
    pub(super) fn open_file(&self, number: u32) -> io::Result<(File, Facts)> {
        self.files.open(number).map_err(|error| {
            let is_other = REPLACED
                .iter()
                .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            match error.kind() {
                _ if is_other => io::Error::new(CHANGED, "replaced by another file during the search"),
                CHANGED | io::ErrorKind::NotFound => error,
                kind => io::Error::new(kind, format!("cannot open: {error}")),
            }
        })
    }

    /// Why a file could not be read: that it changed, if it did.
    pub(super) fn cause(&self, number: u32, file: &File, error: io::Error) -> io::Error {
        let now = Facts::of(file).map_err(io::Error::from);
        let changed = now.and_then(|now| self.files.get(number).check(&now));
        changed.err().filter(|error| error.kind() == CHANGED).unwrap_or(error)
    }
}

/// The error of reading at a byte.
pub(super) fn unread(at: u64, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read at byte {at}: {error}"))
}
