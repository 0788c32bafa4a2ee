//! Opening files, and the reads, writes and syncs that the standard library does not have.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::ioctl::{Getter, Setter, opcode};

use crate::support::{ABSENT, Support, attempt};
use crate::types::{Alignment, FileSystemTrait, Protection};

/// statx(2) `STATX_DIOALIGN` (Linux 6.1), which rustix does not name.
const STATX_DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);
/// preadv2(2) `RWF_DONTCACHE` (Linux 6.14), which rustix does not name.
const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// open(2) `O_DSYNC`. rustix's `DSYNC` is `O_SYNC`, which writes the file's times through as well.
pub(crate) const WRITE_THROUGH: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);
/// open(2) `O_DIRECT`.
pub(crate) const DIRECT: OFlags = OFlags::DIRECT;

/// Creates an unnamed file in `directory`, which vanishes when it is closed: open(2) `O_TMPFILE`. Also returns a path
/// to it, which is valid while it is open (proc(5)).
pub fn unnamed_file(directory: impl AsFd) -> io::Result<Support<(File, PathBuf)>> {
    unnamed_file_with(directory, 0o600)
}

/// The same with a mode, less the umask. Nobody can open it before it gets a name.
pub fn unnamed_file_with(directory: impl AsFd, mode: u32) -> io::Result<Support<(File, PathBuf)>> {
    /// Whether an open file can be reached by a path.
    static HAS_PATHS: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/self/fd").exists());
    const LACKING: &str = "the file system does not support unnamed files (O_TMPFILE)";
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // Kernels and file systems without this flag treat the call as opening a directory.
    let absent = [ABSENT, &[Errno::ISDIR, Errno::INVAL]].concat();
    let opened = attempt(&absent, LACKING, || {
        rustix::fs::openat(&directory, ".", flags, Mode::from_raw_mode(mode))
    })?;
    let Support::Available(opened) = opened else {
        return Ok(Support::Unavailable(LACKING));
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    Ok(if *HAS_PATHS {
        Support::Available((opened.into(), path))
    } else {
        Support::Unavailable("unnamed files need /proc, which is not mounted")
    })
}

/// Gives an unnamed file a name, by its path from [`unnamed_file`]: linkat(2). Fails if the name exists.
pub fn name_file(unnamed: &Path, directory: impl AsFd, name: &OsStr) -> io::Result<()> {
    use rustix::fs::CWD;
    Ok(rustix::fs::linkat(
        CWD,
        unnamed,
        directory,
        name,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

/// Gives an open file, which may have none, a name: linkat(2) `AT_EMPTY_PATH`, which processes with another's files may not use
/// before Linux 6.10, or its path in `/proc`. Fails if the name exists.
pub fn name_open_file(file: &File, directory: impl AsFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::linkat(file, c"", &directory, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT) => match descriptor_path(file) {
            Some(path) => name_file(&path, directory, name),
            None => Err(Errno::NOENT.into()),
        },
        named => Ok(named?),
    }
}

/// The flag that protects the file at `path` from changes, whatever its mode; `None` without one: statx(2).
pub fn protection(path: &Path) -> io::Result<Support<Option<Protection>>> {
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::TYPE)?;
    let set = found.stx_attributes & found.stx_attributes_mask;
    Ok(Support::Available(if set.contains(StatxAttributes::IMMUTABLE) {
        Some(Protection {
            about: "it is immutable (`chattr -i` clears that)",
            takes_names: false,
        })
    } else if set.contains(StatxAttributes::APPEND) {
        Some(Protection {
            about: "it is append-only (`chattr -a` clears that)",
            takes_names: true,
        })
    } else {
        None
    }))
}

/// A path that opens an open file again, with a position of its own.
#[must_use]
pub fn descriptor_path(file: &File) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// The access control list of an open file or directory, also of a handle that stands for a place only; `None` if it has only a
/// mode: getxattr(2) `system.posix_acl_access`.
pub fn access_list(file: impl AsFd) -> io::Result<Support<Option<Vec<u8>>>> {
    const LIST: &std::ffi::CStr = c"system.posix_acl_access";
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    // 8 bytes for each user and group.
    let mut list = [0; 1 << 10];
    match rustix::fs::getxattr(path.as_str(), LIST, &mut list[..]) {
        Err(Errno::NODATA) => Ok(Support::Available(None)),
        Err(Errno::OPNOTSUPP) => Ok(Support::Unavailable("the file system has no access control lists")),
        length => Ok(Support::Available(Some(list[..length?].to_vec()))),
    }
}

/// Reading leaves the time of access as it is: open(2) `O_NOATIME`, which only the owner and root may ask for.
pub const NO_ATIME: OFlags = OFlags::NOATIME;

/// A handle that stands for a place only: open(2) `O_PATH`.
pub const PATH_ONLY: OFlags = OFlags::PATH;

/// Whether an open directory is the root of a mount: statx(2) `STATX_ATTR_MOUNT_ROOT`, Linux 5.8.
#[must_use]
pub fn is_mount_root(directory: impl AsFd) -> bool {
    let found = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The number of the mount that shows an open directory: statx(2) `STATX_MNT_ID`, Linux 5.8.
#[must_use]
pub fn mount_id(directory: impl AsFd) -> Option<u64> {
    let found = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    is_known.then_some(found.stx_mnt_id)
}

/// The number of the mount that shows an open directory, which no other mount ever has until the next boot: statx(2)
/// `STATX_MNT_ID_UNIQUE`, Linux 6.8.
#[must_use]
pub fn unique_mount_id(directory: impl AsFd) -> Option<u64> {
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let found = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, UNIQUE).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask)
        .contains(UNIQUE)
        .then_some(found.stx_mnt_id)
}

/// Gives a file the flags of another that users may set (chattr(1)), such as `NOCOW`, `NOATIME` and `NODUMP`, its project, and
/// what `xfs_io(8)` calls extsize and cowextsize: `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`.
/// Nothing is done where the file system has none.
///
/// # Errors
/// The system's, where a flag cannot be set or cleared; btrfs takes `NOCOW` for an empty file only.
pub fn copy_inode_flags(from: &File, to: &File) -> io::Result<()> {
    if let Support::Available(flags) = inode_flags(from)? {
        set_inode_flags(to, flags)?;
    }
    if let Support::Available(flags) = extended_flags(from)? {
        set_extended_flags(to, flags)?;
    }
    Ok(())
}

/// The flags of a file that only `FS_IOC_FSGETXATTR` tells, its extent size and copy-on-write extent size in bytes, and its
/// project.
///
/// # Errors
/// The system's.
pub fn extended_flags(file: &File) -> io::Result<Support<[u32; 4]>> {
    Ok(match known(FsXattr::of(file))? {
        Some(found) => Support::Available([
            found.xflags & FsXattr::KEPT,
            found.extent_size_bytes,
            found.cow_extent_size_bytes,
            found.project,
        ]),
        None => Support::Unavailable("the file system has no extended flags of files"),
    })
}

/// Sets what [`extended_flags`] tells: `FS_IOC_FSSETXATTR`. The file is empty.
///
/// # Errors
/// The system's, where one of them cannot be set.
pub fn set_extended_flags(file: &File, flags: [u32; 4]) -> io::Result<()> {
    let Some(own) = known(FsXattr::of(file))? else {
        return Ok(());
    };
    let [xflags, extent_size_bytes, cow_extent_size_bytes, project] = flags;
    let kept = FsXattr {
        xflags: (own.xflags & !FsXattr::KEPT) | (xflags & FsXattr::KEPT),
        extent_size_bytes,
        cow_extent_size_bytes,
        project,
        ..own
    };
    if kept != own {
        kept.set(file)?;
    }
    Ok(())
}

/// The project that a directory gives to what is made in it: `FS_XFLAG_PROJINHERIT`. Files of another project cannot be renamed
/// or linked into it; `None` if it gives none.
#[must_use]
pub fn inherited_project(directory: &File) -> Option<u32> {
    const FS_XFLAG_PROJINHERIT: u32 = 0x200;
    let found = FsXattr::of(directory).ok()?;
    (found.xflags & FS_XFLAG_PROJINHERIT != 0).then_some(found.project)
}

/// The flags of a file that users may set (chattr(1)): `FS_IOC_GETFLAGS`.
///
/// # Errors
/// The system's.
pub fn inode_flags(file: &File) -> io::Result<Support<u32>> {
    Ok(match known(rustix::fs::ioctl_getflags(file))? {
        Some(flags) => Support::Available((flags & INODE_FLAGS).bits()),
        None => Support::Unavailable("the file system has no flags of files"),
    })
}

/// Sets the flags by [`inode_flags`], and clears the others of these: `FS_IOC_SETFLAGS`.
///
/// # Errors
/// The system's, where a flag cannot be set or cleared; btrfs takes `NOCOW` for an empty file only.
pub fn set_inode_flags(file: &File, flags: u32) -> io::Result<()> {
    let own = known(rustix::fs::ioctl_getflags(file))?.unwrap_or(IFlags::empty());
    let wanted = (own - INODE_FLAGS) | (IFlags::from_bits_retain(flags) & INODE_FLAGS);
    if wanted != own {
        rustix::fs::ioctl_setflags(file, wanted)?;
    }
    Ok(())
}

/// The answer of a file system; `None` if it does not support the call.
fn known<T>(told: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match told {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        other => other.map(Some),
    }
}

/// `struct fsxattr` (linux/fs.h): the project, and what XFS knows beyond the flags.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct FsXattr {
    xflags: u32,
    extent_size_bytes: u32,
    extent_count: u32,
    project: u32,
    cow_extent_size_bytes: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<FsXattr>() == 28);

impl FsXattr {
    /// `FS_XFLAG_EXTSIZE`, `NODEFRAG`, `FILESTREAM` and `COWEXTSIZE`. The others are among [`INODE_FLAGS`], or tell of what
    /// the file holds.
    const KEPT: u32 = 0x800 | 0x2000 | 0x4000 | 0x1_0000;

    fn of(file: &File) -> Result<Self, Errno> {
        const FS_IOC_FSGETXATTR: rustix::ioctl::Opcode = opcode::read::<FsXattr>(b'X', 31);
        // SAFETY: the call fills a `struct fsxattr`, which has the size and layout of `FsXattr`; all bytes are a valid value
        // of it.
        unsafe { rustix::ioctl::ioctl(file, Getter::<FS_IOC_FSGETXATTR, Self>::new()) }
    }

    fn set(self, file: &File) -> Result<(), Errno> {
        const FS_IOC_FSSETXATTR: rustix::ioctl::Opcode = opcode::write::<FsXattr>(b'X', 32);
        // SAFETY: the call reads a `struct fsxattr`, which has the size and layout of `FsXattr`.
        unsafe { rustix::ioctl::ioctl(file, Setter::<FS_IOC_FSSETXATTR, Self>::new(self)) }
    }
}

/// `FS_NOCOMP_FL`: btrfs does not compress the file.
const NO_COMPRESSION: IFlags = IFlags::from_bits_retain(0x400);

/// The flags that a new file can have like an old one. Immutable and append-only files are not replaced.
const INODE_FLAGS: IFlags = IFlags::COMPRESSED
    .union(IFlags::JOURNALING)
    .union(IFlags::NOATIME)
    .union(NO_COMPRESSION)
    .union(IFlags::NOCOW)
    .union(IFlags::NODUMP)
    .union(IFlags::NOTAIL)
    .union(IFlags::PROJECT_INHERIT)
    .union(IFlags::SECURE_REMOVAL)
    .union(IFlags::SYNC)
    .union(IFlags::UNRM);

/// The alignment that direct I/O on `file` requires: statx(2) with `STATX_DIOALIGN`.
///
/// `Unavailable` where the kernel (before 6.1) or the file system does not say; direct I/O may work nevertheless.
pub fn direct_alignment(file: &File) -> io::Result<Support<Alignment>> {
    const SILENT: &str = "the file system does not report how direct I/O must be aligned";
    let answer = attempt(ABSENT, SILENT, || {
        rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, STATX_DIOALIGN)
    })?;
    Ok(match answer {
        Support::Available(stat)
            if stat.stx_mask & STATX_DIOALIGN.bits() != 0
                && stat.stx_dio_mem_align != 0
                && stat.stx_dio_offset_align != 0 =>
        {
            Support::Available(Alignment {
                memory_bytes: stat.stx_dio_mem_align,
                offset_bytes: stat.stx_dio_offset_align,
            })
        }
        _ => Support::Unavailable(SILENT),
    })
}

/// `struct fsuuid2` (linux/fs.h): the bytes of an identifier, and how many they are.
#[repr(C)]
#[derive(Clone, Copy)]
struct FsUuid {
    len: u8,
    bytes: [u8; 16],
}

/// `struct btrfs_ioctl_fs_info_args` (linux/btrfs.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct BtrfsInfo {
    max_id: u64,
    devices: u64,
    uuid: [u8; 16],
    rest: [u64; 124],
}

/// The UUID of the file system that holds `file`: `FS_IOC_GETFSUUID` (Linux 6.9), or `BTRFS_IOC_FS_INFO`. 16 bytes; fewer on some
/// file systems. All subvolumes of a btrfs have one.
///
/// `Unavailable` where the kernel is older, or the file system has none.
pub fn file_system_uuid(file: &File) -> io::Result<Support<Vec<u8>>> {
    const FS_IOC_GETFSUUID: rustix::ioctl::Opcode = opcode::read::<FsUuid>(0x15, 0);
    const BTRFS_IOC_FS_INFO: rustix::ioctl::Opcode = opcode::read::<BtrfsInfo>(0x94, 31);
    const SILENT: &str = "the file system has no UUID, or does not report it";
    let answer = attempt(ABSENT, SILENT, || {
        // SAFETY: the call fills a `struct fsuuid2`, which has the size and layout of `FsUuid`; all bytes are a valid value
        // of it.
        unsafe { rustix::ioctl::ioctl(file, Getter::<FS_IOC_GETFSUUID, FsUuid>::new()) }
    })?;
    if let Support::Unavailable(_) = answer
        && super::file_system_of(file)?.has(FileSystemTrait::Subvolumes)
    {
        let info = attempt(ABSENT, SILENT, || {
            // SAFETY: on btrfs, the call fills a `struct btrfs_ioctl_fs_info_args`, which has the size and layout of `BtrfsInfo`;
            // all bytes are a valid value of it.
            unsafe { rustix::ioctl::ioctl(file, Getter::<BTRFS_IOC_FS_INFO, BtrfsInfo>::new()) }
        })?;
        return Ok(info.map(|info| info.uuid.to_vec()));
    }
    Ok(answer.map(|uuid| uuid.bytes[..usize::from(uuid.len).min(16)].to_vec()))
}

/// Whether an XFS was made without reflinks (`mkfs.xfs -m reflink=0`): `XFS_IOC_FSGEOMETRY_V1` of a file or directory.
#[must_use]
pub fn is_xfs_without_reflinks(file: &File) -> bool {
    const XFS_IOC_FSGEOMETRY_V1: rustix::ioctl::Opcode = opcode::read::<XfsGeometry>(b'X', 100);
    const XFS_FSOP_GEOM_FLAGS_REFLINK: u32 = 1 << 20;
    // SAFETY: only XFS has a call of this number; it fills a `struct xfs_fsop_geom_v1`, which has the size and layout of
    // `XfsGeometry`; all bytes are a valid value of it.
    let geometry = unsafe { rustix::ioctl::ioctl(file, Getter::<XFS_IOC_FSGEOMETRY_V1, XfsGeometry>::new()) };
    geometry.is_ok_and(|geometry| geometry.flags & XFS_FSOP_GEOM_FLAGS_REFLINK == 0)
}

/// `struct xfs_fsop_geom_v1` (`xfs/xfs_fs.h`).
#[repr(C)]
struct XfsGeometry {
    sizes_and_uuid: [u64; 11],
    version: u32,
    flags: u32,
    more_sizes: [u64; 2],
}

/// Allocates the blocks of a range (fallocate(2), mode 0); a shorter file grows to its end.
///
/// Never emulated by writing zeros, as `posix_fallocate(3)` would be.
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    if len == 0 {
        return Ok(Support::Available(()));
    }
    attempt(ABSENT, "the file system has no fallocate", || {
        rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len)
    })
}

/// Makes a file at least this long, and never shorter, even if others change it meanwhile: fallocate(2) of its last
/// byte.
pub fn extend(file: &File, bytes: u64) -> io::Result<Support<()>> {
    allocate(file, bytes.saturating_sub(1), bytes.min(1))
}

/// Brings the file's data to the device, and of its metadata what is needed to read them: fdatasync(2).
pub fn sync_data(file: &File) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file))?)
}

/// Syncs the whole file system of a file: syncfs(2).
pub fn sync_file_system(file: &File) -> io::Result<Support<()>> {
    attempt(ABSENT, "the kernel has no syncfs", || rustix::fs::syncfs(file))
}

/// Reads through the page cache, leaving nothing in it: preadv2(2) with `RWF_DONTCACHE`. Returns the bytes read, 0 at
/// the end.
pub fn read_at_dontcache(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<Support<usize>> {
    attempt(ABSENT, "the kernel or file system has no uncached reads", || {
        rustix::io::preadv2(file, &mut [IoSliceMut::new(bytes)], offset, RWF_DONTCACHE)
    })
}

/// Reads from the page cache without waiting: preadv2(2) with `RWF_NOWAIT`, which may return fewer bytes than are
/// cached. `None` if it would have to wait for the device.
pub fn read_at_nowait(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<Support<Option<usize>>> {
    attempt(
        ABSENT,
        "the kernel or file system has no non-blocking reads",
        || match rustix::io::preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => Ok(None),
            read => read.map(Some),
        },
    )
}

/// Writes through the page cache, leaving nothing in it: pwritev2(2) with `RWF_DONTCACHE`. Returns the bytes written.
///
/// Pages that were cached before stay cached; on ext4, an overwrite left everything resident.
pub fn write_at_dontcache(file: &File, bytes: &[u8], offset: u64) -> io::Result<Support<usize>> {
    attempt(ABSENT, "the kernel or file system has no uncached writes", || {
        rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, RWF_DONTCACHE)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::directory::{Directory, open};
    use crate::platform::sync;
    use crate::types::{Access, Opening};

    #[test]
    fn open_creates_overwrites_and_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let opened = |how| open(&path, how).map(|file| file.available().unwrap());
        let refused = |access| opened(Opening::plain(access)).unwrap_err().kind();
        assert_eq!(refused(Access::Overwrite), io::ErrorKind::NotFound);
        let made = opened(Opening::plain(Access::CreateNew)).unwrap();
        made.write_all_at(b"0123456789", 0).unwrap();
        let mut how = Opening::plain(Access::Overwrite);
        how.write_through = true;
        let over = opened(how).unwrap();
        over.write_all_at(b"xx", 2).unwrap();
        let read = opened(Opening::plain(Access::Read)).unwrap();
        assert!(read.write_at(b"y", 0).is_err());
        let status = rustix::fs::fcntl_getfl(&over).unwrap();
        let synced = status & OFlags::from_bits_retain(libc::O_SYNC as u32);
        assert_eq!(synced, WRITE_THROUGH, "O_SYNC is more than writing the data through");
        assert_eq!(std::fs::read(&path).unwrap(), b"01xx456789");
        assert_eq!(refused(Access::CreateNew), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn unnamed_file_takes_no_name_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let opened = Directory::open(directory.path()).unwrap();
        let Some((file, path)) = unnamed_file(&opened).unwrap().or_skip() else {
            return;
        };
        file.write_all_at(b"ours", 0).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let (taken, free) = (directory.path().join("taken"), directory.path().join("free"));
        std::fs::write(&taken, "theirs").unwrap();
        let refused = name_file(&path, &opened, "taken".as_ref()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        name_file(&path, &opened, "free".as_ref()).unwrap();
        assert_eq!(std::fs::read(&taken).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&free).unwrap(), b"ours");
    }

    #[test]
    fn direct_read_obeys_the_alignment_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(file.path(), &content).unwrap();
        let mut how = Opening::plain(Access::Read);
        how.direct = true;
        let Support::Available(direct) = open(file.path(), how).unwrap() else {
            return println!("skipped: no direct I/O on the temporary directory");
        };
        let Support::Available(alignment) = direct_alignment(&direct).unwrap() else {
            return println!("skipped: the file system does not report its alignment");
        };
        assert!(alignment.memory_bytes.is_power_of_two());
        assert!(alignment.offset_bytes.is_power_of_two());
        let mut buffer = crate::Buffer::new(128 << 10, alignment.memory_bytes as usize).unwrap();
        assert_eq!(direct.read_at(&mut buffer, 0).unwrap(), content.len());
        assert_eq!(buffer[..content.len()], content);
    }

    #[test]
    fn nowait_read_gives_what_is_in_memory_only() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mut bytes = vec![0; 20_000];
        let Some(read) = read_at_nowait(&file, &mut bytes, 0).unwrap().or_skip() else {
            return;
        };
        assert_eq!(read, Some(10_000));
        assert_eq!(bytes[..10_000], [7; 10_000]);
        sync(&file).unwrap();
        crate::drop_from_cache(&file).unwrap();
        assert_eq!(read_at_nowait(&file, &mut bytes, 0).unwrap(), Support::Available(None));
    }

    #[test]
    fn allocate_makes_the_file_grow() {
        let file = tempfile::tempfile().unwrap();
        let Some(()) = allocate(&file, 1000, (1 << 20) - 1000).unwrap().or_skip() else {
            return;
        };
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert_eq!(allocate(&file, 0, 0).unwrap(), Support::Available(()));
    }

    #[test]
    fn uncached_write_is_read_back_uncached() {
        let file = tempfile::tempfile().unwrap();
        let content = vec![7; 10_000];
        sync_file_system(&file).unwrap();
        let Some(written) = write_at_dontcache(&file, &content, 0).unwrap().or_skip() else {
            return;
        };
        assert_eq!(written, content.len());
        let mut bytes = vec![0; 20_000];
        let read = read_at_dontcache(&file, &mut bytes, 0).unwrap();
        assert_eq!(read, Support::Available(content.len()));
        assert_eq!(bytes[..content.len()], content);
    }
}
