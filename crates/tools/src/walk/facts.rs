//! What is known of an entry: its kind from the directory, the rest from stat(2).

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use seekless::files::Identity;
use seekless_sys::inodes_identify;
use serde::Serialize;

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory; its name in JSON is older than its name here.
    #[serde(rename = "folder")]
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// What this program has no word for.
    Unknown,
}

impl Kind {
    /// Its word in messages.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::CharacterDevice | Self::BlockDevice => "a device",
            Self::Link | Self::Unknown => "not a regular file",
        }
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// What stat(2) tells of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub device: u64,
    pub inode: u64,
    pub kind: Kind,
    /// Hard links.
    pub names: u64,
    pub bytes: u64,
    pub modified: (i64, u32),
    pub mode: u32,
    pub owner: u32,
    pub group: u32,
    pub number: (u32, u32),
}

impl Facts {
    /// Of an open file.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        fstat(file).map(|stat| Self::new(&stat))
    }

    /// Of an entry, which is not opened or followed.
    pub fn at(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Self> {
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Self::new(&stat))
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
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            names: stat.st_nlink as u64,
            bytes: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            mode: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            group: stat.st_gid,
            number: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        }
    }

    /// Which file it is.
    pub fn id(&self) -> Identity {
        Identity::new(self.device, self.inode)
    }

    /// What a path leads to.
    pub fn kind_of(metadata: &std::fs::Metadata) -> Kind {
        FileType::from_raw_mode(metadata.mode() as rustix::fs::RawMode).into()
    }

    /// Whether two open files, or directories, with these facts are one, as far as their file systems can be trusted
    /// with that.
    pub fn are_of_one_file(facts: &[Self; 2], files: [BorrowedFd<'_>; 2]) -> bool {
        facts[0].id() == facts[1].id() && files.iter().all(|file| inodes_identify(file).unwrap_or(false))
    }
}
