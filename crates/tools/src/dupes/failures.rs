//! Why a file could not be read: the call that failed, or that the file has changed.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::{Failed, Search};
use crate::walk::{CHANGED, GONE, StatFacts, Unlisted};

/// Errors of opening a file that is no longer a regular file.
const REPLACED: [Errno; 3] = [Errno::LOOP, Errno::NOTDIR, Errno::NXIO];

impl Search<'_> {
    /// Opens a file as it was listed.
    pub(super) fn open_file(&self, number: u32) -> io::Result<(File, StatFacts)> {
        self.files.open(number).map_err(|error| {
            let is_other = Errno::from_io_error(&error).is_some_and(|errno| REPLACED.contains(&errno));
            match error.kind() {
                _ if is_other => io::Error::new(CHANGED, "replaced by another file during the search"),
                CHANGED | io::ErrorKind::NotFound => error,
                kind => io::Error::new(kind, format!("cannot open: {error}")),
            }
        })
    }

    /// The facts of an open file, if it still is what it was when it was listed.
    pub(super) fn check(&self, number: u32, file: &File) -> io::Result<StatFacts> {
        let facts = StatFacts::of(file)?;
        self.files.check(number, &facts)?;
        Ok(facts)
    }

    /// Adds files to those that changed, or to those that could not be read.
    pub(super) fn sort_out(
        &self,
        failed: Vec<Failed>,
        mut changed: Vec<Unlisted>,
        mut failures: Vec<Unlisted>,
    ) -> (Vec<Unlisted>, Vec<Unlisted>) {
        for (number, error) in failed {
            let path = self.files.path(number);
            match error.kind() {
                CHANGED => changed.push((path, error.to_string())),
                io::ErrorKind::NotFound => changed.push((path, GONE.to_owned())),
                _ => failures.push((path, error.to_string())),
            }
        }
        for list in [&mut changed, &mut failures] {
            list.sort();
            list.dedup();
        }
        (changed, failures)
    }

    /// Why a file could not be read: that it changed, if it did.
    pub(super) fn cause(&self, number: u32, file: &File, error: io::Error) -> io::Error {
        let changed = self.check(number, file);
        changed.err().filter(|error| error.kind() == CHANGED).unwrap_or(error)
    }
}

/// The error of reading at a byte.
pub(super) fn unread(at: u64, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read at byte {at}: {error}"))
}
