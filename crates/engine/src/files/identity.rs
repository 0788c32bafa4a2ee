//! Which file it is, and whether it was changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// `st_dev` and `st_ino`: two files with different ones are different. With the same they are one only where their file system
/// gives no two files the same ([`seekless_sys::inodes_identify`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of the numbers that stat(2) gives.
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }

    /// Of a file that was looked at.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Which file it is, its size and its times: equal stamps are of one unchanged file, as far as stat(2) tells. Whoever changes
/// its bytes or its metadata changes `st_ctime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    identity: Identity,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of a file that was looked at.
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

/// A device number as the kernel writes it in text. How it is put together is Linux's own (makedev(3)).
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
