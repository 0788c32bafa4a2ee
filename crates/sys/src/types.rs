//! The plain values that the platform's calls take and return; no system calls.
//!
//! All platforms share these types, so that a caller needs no `cfg` of its own.

use std::ops::Range;
use std::time::Duration;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading an existing file.
    Read,
    /// Reading and writing a file that is made (mode 0666 less the umask) and must not exist.
    CreateNew,
    /// Reading and writing a file that exists, keeping its contents.
    Overwrite,
    /// Writing at the end of a file that exists.
    Append,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// What the file is opened for.
    pub access: Access,
    /// Bypassing the page cache: `O_DIRECT`, on macOS `F_NOCACHE`.
    pub direct: bool,
    /// Every write returns with its data on the device: `O_DSYNC`.
    pub write_through: bool,
    /// Reading does not change the time of access, where the system permits that: [`without_atime`](crate::without_atime).
    pub keeps_atime: bool,
}

impl Opening {
    /// Through the page cache, and not written through.
    #[must_use]
    pub fn plain(access: Access) -> Self {
        Self {
            access,
            direct: false,
            write_through: false,
            keeps_atime: false,
        }
    }
}

/// A flag that protects a file or directory from changes, whatever its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// Which it is, and how it is cleared.
    pub about: &'static str,
    /// Whether names can be made in a directory with it, but not removed: it is append-only.
    pub takes_names: bool,
}

/// The alignment that direct I/O on a file requires, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Of the address of the memory.
    pub memory_bytes: u32,
    /// Of the offset in the file and of the length.
    pub offset_bytes: u32,
}

/// The hints of `posix_fadvise(2)`, by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// From low offsets to high.
    Sequential,
    /// In no order.
    Random,
    /// Soon.
    WillNeed,
    /// Not soon: clean pages may leave the cache.
    DontNeed,
    /// Once.
    NoReuse,
}

/// How much of a file the page cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// Bytes of the pages in the cache.
    pub resident_bytes: u64,
    /// The file's size rounded up to whole pages, so that a file wholly in the cache has the two equal.
    pub total_bytes: u64,
}

/// One run of a file's bytes on its device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file.
    pub logical: u64,
    /// Where it begins on the device; means nothing where [`ExtentFlags::is_doubtful`].
    pub physical: u64,
    /// How long it is; may reach past the end of the file.
    pub length: u64,
    /// What the file system says about it.
    pub flags: ExtentFlags,
}

/// Whom a lease keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseKind {
    /// Everyone who opens the file: `F_WRLCK`.
    Exclusive,
    /// Those who open it for writing: `F_RDLCK`. The file must be open for reading only.
    AgainstWriters,
}

/// What a granted lease proves on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseScope {
    /// No other process can write to the file.
    AllWriters,
    /// No other process has it open; one may still have it mapped, after it closed its descriptor.
    Descriptors,
    /// Nothing.
    Unknown,
}

/// All of a file.
pub const WHOLE_FILE: Range<u64> = 0..u64::MAX;

/// The `FIEMAP_EXTENT_*` bits of one extent (linux/fiemap.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtentFlags(pub u32);

impl ExtentFlags {
    /// The file's last extent.
    pub const LAST: Self = Self(0x1);
    /// The file system does not know where the data is.
    pub const UNKNOWN: Self = Self(0x2);
    /// Not allocated yet: the data is in memory only.
    pub const DELALLOC: Self = Self(0x4);
    /// Compressed or otherwise transformed on the device.
    pub const ENCODED: Self = Self(0x8);
    /// Not aligned to the file system's blocks.
    pub const NOT_ALIGNED: Self = Self(0x100);
    /// Within the file system's own metadata.
    pub const INLINE: Self = Self(0x200);
    /// Allocated and reads as zeros: nothing was written there.
    pub const UNWRITTEN: Self = Self(0x800);
    /// Also part of another file, or of this one elsewhere.
    pub const SHARED: Self = Self(0x2000);

    /// Whether all of `other`'s bits are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the blocks also belong to something else.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        self.contains(Self::SHARED)
    }

    /// Whether the bytes are stored with the metadata of the file.
    #[must_use]
    pub const fn is_inline(self) -> bool {
        self.contains(Self::INLINE)
    }

    /// Whether the physical address says nothing about the bytes: equal addresses may have different data, or none.
    ///
    /// With btrfs compression two different ranges were seen with one physical address.
    #[must_use]
    pub const fn is_doubtful(self) -> bool {
        const DOUBTFUL: u32 = ExtentFlags::UNKNOWN.0
            | ExtentFlags::DELALLOC.0
            | ExtentFlags::ENCODED.0
            | ExtentFlags::NOT_ALIGNED.0
            | ExtentFlags::INLINE.0
            | ExtentFlags::UNWRITTEN.0;
        self.0 & DOUBTFUL != 0
    }
}

/// The file system behind a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its usual name ("ext4", "xfs", "apfs"), or the type number in hexadecimal where it has none here.
    pub type_name: String,
    /// The unit in which it allocates.
    pub block_bytes: u64,
    /// Free for this user, which may be less than for root.
    pub free_bytes: u64,
    /// Its size.
    pub total_bytes: u64,
    /// Mounted read-only.
    pub read_only: bool,
    /// Data comes over a network, so this machine's device counters and caches show only a part.
    pub is_network: bool,
    /// Files with the same `st_dev` and `st_ino` are one file; for an open file, see
    /// [`inodes_identify`](crate::inodes_identify).
    pub inodes_identify: bool,
    /// It shows the kernel's state as files and stores nothing, as `/proc` does.
    pub is_pseudo: bool,
}

impl FileSystem {
    /// Whether a file may have holes that are not reported: for FUSE and network file systems without an answer, the
    /// kernel reports everything as data.
    #[must_use]
    pub fn may_hide_holes(&self) -> bool {
        self.is_network || self.has(FileSystemTrait::ServedByProgram)
    }

    /// Whether its type has a property.
    #[must_use]
    pub fn has(&self, property: FileSystemTrait) -> bool {
        property.is_of(&self.type_name)
    }
}

/// A property of all file systems of a type, which no call tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystemTrait {
    /// Files are in memory: a restart removes them, and a write through a mapping does not change the file's times.
    InMemory,
    /// It shows the files of other file systems as one tree.
    Overlay,
    /// A program serves the files: FUSE.
    ServedByProgram,
    /// Data is also cached outside of the page cache.
    OtherCaches,
    /// Inode numbers are unique only within a subvolume, of which each has a device number of its own.
    Subvolumes,
    /// Files may share blocks by reflinks or snapshots, or it shows files that may.
    SharesBlocks,
    /// An overwritten block goes to another place on the device, which must be free.
    CopiesOnWrite,
    /// A file's inode number may change with each mount: FAT and exFAT store none, and FUSE programs may make them up.
    ChangingInodes,
    /// A file without holes takes at least as much space as it has bytes.
    Uncompressed,
    /// A file belongs to the user who makes it.
    Owners,
    /// No lease was granted, neither a write lease nor a read lease, while another process had the file open for writing or
    /// mapped, also with its descriptor closed; and opening it later ended the lease. Each type was tried on Linux 6.18, or
    /// takes no writes.
    Leases,
}

impl FileSystemTrait {
    /// Whether the file systems of a type have it, by the type's name.
    #[must_use]
    pub fn is_of(self, type_name: &str) -> bool {
        let types: &[&str] = match self {
            Self::InMemory => &["tmpfs", "ramfs", "devtmpfs"],
            Self::Overlay => &["overlay"],
            Self::ServedByProgram => &["fuse"],
            Self::OtherCaches => &["zfs", "fuse"],
            Self::Subvolumes => &["btrfs"],
            Self::SharesBlocks => &["btrfs", "xfs", "bcachefs", "ocfs2", "overlay"],
            Self::CopiesOnWrite => &["btrfs", "zfs", "bcachefs", "nilfs2"],
            Self::ChangingInodes => &["vfat", "exfat", "fuse"],
            Self::Uncompressed => &["ext4", "xfs", "tmpfs", "vfat", "exfat"],
            Self::Owners => &[
                "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "zfs", "bcachefs", "f2fs", "overlay",
            ],
            Self::Leases => &["ext4", "xfs", "btrfs", "tmpfs", "ramfs", "squashfs", "erofs"],
        };
        // A mount also names the program, as in `fuse.sshfs`.
        types.contains(&type_name) || type_name.starts_with("fuse") && types.contains(&"fuse")
    }
}

/// What was used so far: getrusage(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the scheduler took the processor away.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that needed the device.
    pub major_faults: u64,
    /// The largest resident set ever (of [`Whose::Children`]: of the largest child).
    pub peak_memory_bytes: u64,
}

/// Whose [`Usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process with all its threads.
    Process,
    /// Its children that ended and were waited for.
    Children,
}

/// Bytes that the process (all its threads, `io_uring` workers and page faults) moved so far: `proc_pid_io(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessIo {
    /// Fetched from block devices; 0 for FUSE, tmpfs and network file systems.
    pub read_bytes: u64,
    /// Dirtied in the page cache or written directly; not what reached a device.
    pub write_bytes: u64,
}

/// The machine's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All that the system can use.
    pub total_bytes: u64,
    /// The system's estimate of the memory available without swapping.
    pub available_bytes: u64,
    /// The size of the page cache, without shared memory (tmpfs); `None` if the system does not report it.
    pub cached_bytes: Option<u64>,
}

/// What a [`crate::Map`] permits; always shared with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapMode {
    /// Reading.
    Read,
    /// Reading and writing; the file must be open for both.
    ReadWrite,
}

/// The hints of madvise(2), by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapAdvice {
    /// From low addresses to high.
    Sequential,
    /// Soon.
    WillNeed,
    /// Fault all pages in for reading now (Linux 5.14).
    PopulateRead,
}

/// One request of a [`crate::Ring`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingRequest {
    /// Whether it reads into the slot's buffer; otherwise it writes from there.
    pub is_read: bool,
    /// Where in the file.
    pub offset: u64,
    /// Which bytes of the slot's buffer.
    pub range: Range<usize>,
    /// `RWF_DONTCACHE`: through the page cache, leaving nothing in it (Linux 6.14).
    pub dontcache: bool,
    /// Whether an fdatasync(2) is linked with it (`IOSQE_IO_LINK`), so that it ends when its bytes are on the device. If
    /// it moves less than the range, it ends without.
    pub is_synced: bool,
}

/// One finished request of a [`crate::Ring`].
#[derive(Debug)]
pub struct Completed {
    /// The slot that it was submitted in; free again.
    pub slot: u32,
    /// The bytes moved (0 at the end of the file), or why not.
    /// If the linked fdatasync(2) failed, its error.
    pub result: std::io::Result<usize>,
}

/// Extended attributes of a file: names and values, sorted by name.
pub type ExtendedAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// How a user namespace maps the IDs of users and groups: `user_namespaces(7)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdMaps {
    /// The lines of `/proc/self/uid_map`, then those of `gid_map`.
    pub text: String,
    /// Whether every ID means what it means to the kernel.
    pub is_whole: bool,
    /// The user and the group that are shown for IDs that are not mapped.
    pub unmapped: (u32, u32),
}
