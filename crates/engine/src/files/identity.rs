//! Which file it is, and what must not have changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// `st_dev` and `st_ino`. Files with different numbers are different. Files with the same numbers are one only if their
/// file system gives each file its own ([`seekless_sys::inodes_identify`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl FileId {
    /// From the numbers of stat(2).
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }

    /// From the metadata of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self::new(metadata.dev(), metadata.ino())
    }
}

/// Which file, its size and its times: stat(2). Equal states mean the same unchanged file, as far as stat(2) shows: every
/// change of bytes or metadata sets `st_ctime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileState {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_size`.
    pub bytes: u64,
    /// `st_mtime`, in ns since 1970.
    pub modified_ns: i64,
    /// `st_ctime`, in ns since 1970.
    pub changed_ns: i64,
}

impl FileState {
    /// From the metadata of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Which file it is.
    #[must_use]
    pub fn id(&self) -> FileId {
        FileId::new(self.device, self.inode)
    }

    /// Its size and its times, whichever file it is.
    #[must_use]
    pub fn version(&self) -> (u64, i64, i64) {
        (self.bytes, self.modified_ns, self.changed_ns)
    }
}

/// A time in ns since 1970.
#[must_use]
pub fn nanoseconds(seconds: i64, more: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(more)
}

/// A device number as `MAJOR:MINOR`, in Linux's encoding (makedev(3)).
pub(crate) fn number_text(number: u64) -> String {
    let major = ((number >> 8) & 0xfff) | ((number >> 32) & !0xfff);
    let minor = (number & 0xff) | ((number >> 12) & !0xff);
    format!("{major}:{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_taken_apart_as_linux_puts_them_together() {
        assert_eq!(number_text(0xfe00), "254:0");
        assert_eq!(number_text(0x0010_0801), "8:257");
    }
}
