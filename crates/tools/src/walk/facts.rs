//! Facts about an entry: its kind from the directory, the rest from stat(2).

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use seekless::files::{FileId, FileState};
use seekless_sys::inodes_identify;

/// The words for a kind of entry in messages.
pub(crate) fn with_article(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown kind",
    }
}

/// The kind of file that a path names.
pub(crate) fn kind_of(metadata: &std::fs::Metadata) -> FileType {
    FileType::from_raw_mode(metadata.mode() as rustix::fs::RawMode)
}

/// The facts of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatFacts {
    pub device: u64,
    pub inode: u64,
    pub kind: FileType,
    /// Hard links.
    pub names: u64,
    pub bytes: u64,
    pub modified: (i64, u32),
    /// When any of this, or its bytes, last changed, in ns since 1970.
    pub changed_ns: i64,
    pub allocated_bytes: u64,
    pub mode: u32,
    pub owner: u32,
    pub group: u32,
    pub number: (u32, u32),
}

/// A time in ns since 1970.
pub(crate) fn nanoseconds(seconds: i64, more: u32) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(more))
}

impl StatFacts {
    /// The facts of an open file.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        fstat(file).map(|stat| Self::new(&stat))
    }

    /// The facts of an entry, which is not opened or followed.
    pub fn at(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<Self> {
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Self::new(&stat))
    }

    /// The facts of what an entry leads to: links are followed.
    pub fn behind(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<Self> {
        statat(directory, name, AtFlags::empty()).map(|stat| Self::new(&stat))
    }

    // The fields' types differ between systems.
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_lossless,
        clippy::unnecessary_cast,
        trivial_numeric_casts
    )]
    pub(super) fn new(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            kind: FileType::from_raw_mode(stat.st_mode),
            names: stat.st_nlink as u64,
            bytes: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            allocated_bytes: (stat.st_blocks as u64).saturating_mul(512),
            mode: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            group: stat.st_gid,
            number: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        }
    }

    /// When its bytes last changed, in ns since 1970.
    pub fn modified_ns(&self) -> i64 {
        nanoseconds(self.modified.0, self.modified.1)
    }

    /// Which file it is, its size and its times.
    pub fn state(&self) -> FileState {
        FileState {
            device: self.device,
            inode: self.inode,
            bytes: self.bytes,
            modified_ns: self.modified_ns(),
            changed_ns: self.changed_ns,
        }
    }

    /// The identity of the file.
    pub fn id(&self) -> FileId {
        FileId::new(self.device, self.inode)
    }

    /// Whether two open files or directories are the same. False if inode numbers do not identify files there.
    pub fn are_of_one_file(facts: &[Self; 2], files: [BorrowedFd<'_>; 2]) -> bool {
        facts[0].id() == facts[1].id() && files.iter().all(|file| inodes_identify(file).unwrap_or(false))
    }
}
