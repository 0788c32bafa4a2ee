//! The state of a file, for detecting changes by other processes.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use seekless_sys::{self as sys, Support};

/// The properties of a file that other processes may change.
pub(super) struct WatchedState {
    pub found: Metadata,
    pub attributes: Support<sys::ExtendedAttributes>,
}

impl WatchedState {
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self {
            found: file.metadata()?,
            attributes: sys::extended_attributes(file.as_fd())?,
        })
    }

    /// The time of the last change (ctime), in seconds and nanoseconds.
    pub fn changed(&self) -> (i64, i64) {
        (self.found.ctime(), self.found.ctime_nsec())
    }

    pub fn is(&self, other: &Self) -> bool {
        let all = |found: &Metadata| {
            let written = (found.len(), found.mtime(), found.mtime_nsec());
            (written, found.mode(), found.uid(), found.gid(), found.nlink())
        };
        all(&self.found) == all(&other.found) && self.attributes == other.attributes
    }
}
