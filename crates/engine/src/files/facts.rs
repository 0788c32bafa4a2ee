//! Facts about a file, from stat(2).

use std::fs::Metadata;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use seekless_sys::inodes_identify;

use super::{FileId, FileState, nanoseconds};

/// Seconds since 1970, and nanoseconds: years before 1678 and after 2262 do not fit into 64 bits of
/// nanoseconds alone.
pub type Time = (i64, u32);

/// The times of access and of modification.
#[must_use]
pub fn times(metadata: &Metadata) -> [Time; 2] {
    let time = |seconds, more: i64| (seconds, u32::try_from(more).unwrap_or(0));
    [
        time(metadata.atime(), metadata.atime_nsec()),
        time(metadata.mtime(), metadata.mtime_nsec()),
    ]
}

/// The facts of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFacts {
    /// Which file it is, its size and its times.
    pub state: FileState,
    /// Its kind.
    pub kind: FileType,
    /// Hard links.
    pub names: u64,
    /// When it was last read.
    pub accessed: Time,
    /// When its bytes last changed.
    pub modified: Time,
    /// The space that it takes.
    pub allocated_bytes: u64,
    /// The permission bits.
    pub mode: u32,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// Major and minor number, of a device.
    pub number: (u32, u32),
}

impl Deref for StatFacts {
    type Target = FileState;

    fn deref(&self) -> &FileState {
        &self.state
    }
}

impl StatFacts {
    /// The facts of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        fstat(file).map(|stat| Self::of_stat(&stat))
    }

    /// The facts of an entry, which is not opened or followed.
    ///
    /// # Errors
    /// The system's.
    pub fn at(directory: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<Self> {
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Self::of_stat(&stat))
    }

    /// The facts of what an entry leads to: links are followed.
    ///
    /// # Errors
    /// The system's.
    pub fn behind(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<Self> {
        statat(directory, name, AtFlags::empty()).map(|stat| Self::of_stat(&stat))
    }

    /// The same facts, as the system returned them.
    #[must_use]
    // The fields' types differ between systems.
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_lossless,
        clippy::cast_possible_wrap,
        clippy::unnecessary_cast,
        trivial_numeric_casts
    )]
    pub fn of_stat(stat: &Stat) -> Self {
        let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as u32);
        Self {
            state: FileState {
                device: stat.st_dev as u64,
                inode: stat.st_ino as u64,
                bytes: stat.st_size as u64,
                modified_ns: nanoseconds(modified.0, modified.1.into()),
                changed_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            },
            kind: FileType::from_raw_mode(stat.st_mode),
            names: stat.st_nlink as u64,
            accessed: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            modified,
            allocated_bytes: (stat.st_blocks as u64).saturating_mul(512),
            mode: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            group: stat.st_gid,
            number: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        }
    }

    /// Whether it is the same file as an open one.
    #[must_use]
    pub fn is(&self, file: &Metadata) -> bool {
        self.id() == FileId::of(file)
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Whether a file is what it was. The space that it takes may change without a write, when its blocks are allocated.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.names, self.changed_ns) == (other.names, other.changed_ns) && self.is_but_for_names(other)
    }

    /// Whether a file differs only in what links and renames change: the number of its names, and its ctime. The space it takes
    /// may differ, too.
    #[must_use]
    pub fn is_but_for_names(&self, other: &Self) -> bool {
        let own = Self {
            state: FileState {
                changed_ns: other.changed_ns,
                ..self.state
            },
            names: other.names,
            accessed: other.accessed,
            allocated_bytes: other.allocated_bytes,
            ..*self
        };
        own == *other
    }

    /// Whether two open files or directories are the same. False if inode numbers do not identify files there.
    #[must_use]
    pub fn are_of_one_file(facts: &[Self; 2], files: [BorrowedFd<'_>; 2]) -> bool {
        facts[0].id() == facts[1].id() && files.iter().all(is_sure)
    }
}

/// Whether no two files share an [`FileId`](super::FileId) on the file system of an open file. They may on FUSE, if it
/// shows files of several file systems.
pub fn is_sure(file: impl AsFd) -> bool {
    inodes_identify(file).unwrap_or(false)
}
