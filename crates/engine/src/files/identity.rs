//! The identity of a file, and whether it was changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// `st_dev` and `st_ino`. Files with different numbers are different. Files with the same numbers are one only if their
/// file system gives each file its own ([`seekless_sys::inodes_identify`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// From the numbers of stat(2).
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }

    /// From the metadata of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Identity, size and times of a file. Equal stamps mean the same unchanged file, as far as stat(2) shows: every change
/// of bytes or metadata sets `st_ctime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    identity: Identity,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// From the metadata of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            identity: Identity::of(metadata),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
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
