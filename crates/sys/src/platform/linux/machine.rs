//! The machine, its file systems and this process, from /proc and statfs(2), and small differences between platforms.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mm::Advice;

use crate::support::{Support, checked};
use crate::types::{FileSystem, FileSystemTrait, IdMaps, LeaseScope, Memory, ProcessIo};

/// The flag of mmap(2) for memory that is not set aside: zero pages for a whole file must not fail for want of swap.
pub(crate) const MAP_NORESERVE: libc::c_int = libc::MAP_NORESERVE;

/// The advice of madvise(2) that faults pages in for reading (Linux 5.14).
pub(crate) const POPULATE_READ: Option<Advice> = Some(Advice::LinuxPopulateRead);

/// What a file system promises about its files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The kernel alone changes its files; and no two files ever have one `st_dev` and `st_ino`.
    Local,
    /// The same, but inode numbers are made up and may change.
    LocalUnnumbered,
    /// Shows files of a program or of other file systems. They may be changed behind the mount, and files of several
    /// file systems may have one `st_dev`.
    Layer,
    /// Other machines write to its files, too, and its numbers come from a server.
    Network,
    /// Shows the kernel's state as files, and stores nothing.
    Pseudo,
}

/// Whether this process may take leases on files of other users: `CAP_LEASE`.
#[must_use]
pub fn may_lease_all() -> bool {
    has_capability(28)
}

/// Whether this process may lock any amount of memory: `CAP_IPC_LOCK`.
#[must_use]
pub fn may_lock_all() -> bool {
    has_capability(14)
}

/// Whether it has a capability of capabilities(7), by its number.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut effective = status.lines().filter_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective
        .next()
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|effective| effective >> number & 1 == 1)
}

/// Lets this thread, and those that it starts, run before all ordinary ones: `SCHED_FIFO` of sched(7), with a priority from 1.
pub fn run_in_real_time(priority: u8) -> io::Result<Support<()>> {
    let parameters = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: the call reads the parameters, and 0 is this thread.
    let done = checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) });
    Ok(done.map(Support::Available)?)
}

/// How the IDs of users and groups are mapped here; `None` if /proc does not say.
#[must_use]
pub fn id_maps() -> Option<IdMaps> {
    let map = |path| {
        Some(
            std::fs::read_to_string(path)
                .ok()?
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        )
    };
    let (users, groups) = (map("/proc/self/uid_map")?, map("/proc/self/gid_map")?);
    let unmapped = |path| -> u32 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(65_534)
    };
    let is_whole = [&users, &groups].iter().all(|map| *map == "0 0 4294967295");
    Some(IdMaps {
        text: format!("{users}; {groups}"),
        is_whole,
        unmapped: (
            unmapped("/proc/sys/fs/overflowuid"),
            unmapped("/proc/sys/fs/overflowgid"),
        ),
    })
}

/// Names and kinds by `f_type` (statfs(2), linux/magic.h).
///
/// An overlay is local: overlayfs leaves changes in a mounted upper directory undefined.
const FILE_SYSTEMS: &[(u64, &str, Kind)] = &[
    (0xef53, "ext4", Kind::Local), // ext2 and ext3 too: one number for all three
    (0x5846_5342, "xfs", Kind::Local),
    (0x9123_683e, "btrfs", Kind::Local),
    (0x0102_1994, "tmpfs", Kind::Local),
    (0x8584_58f6, "ramfs", Kind::Local),
    (0x794c_7630, "overlay", Kind::Local),
    (0x2fc1_2fc1, "zfs", Kind::Local),
    (0xca45_1a4e, "bcachefs", Kind::Local),
    (0xf2f5_2010, "f2fs", Kind::Local),
    (0x2011_bab0, "exfat", Kind::LocalUnnumbered),
    (0x4d44, "vfat", Kind::LocalUnnumbered),
    (0x7366_746e, "ntfs", Kind::Local),
    (0x5265_4973, "reiserfs", Kind::Local),
    (0x3153_464a, "jfs", Kind::Local),
    (0x3434, "nilfs2", Kind::Local),
    (0x7371_7368, "squashfs", Kind::Local),
    (0xe0f5_e1e2, "erofs", Kind::Local),
    (0x9660, "iso9660", Kind::Local),
    (0x1501_3346, "udf", Kind::Local),
    (0xf15f, "ecryptfs", Kind::Layer),
    (0x6573_5546, "fuse", Kind::Layer),
    (0x786f_4256, "vboxsf", Kind::Layer),
    (0x6969, "nfs", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x517b, "smb", Kind::Network),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x5346_414f, "afs", Kind::Network),
    (0x0102_1997, "9p", Kind::Network),
    (0x0116_1970, "gfs2", Kind::Network),
    (0x7461_636f, "ocfs2", Kind::Network),
    (0x0bd0_0bd0, "lustre", Kind::Network),
    (0x4750_4653, "gpfs", Kind::Network),
    (0x9fa0, "proc", Kind::Pseudo),
    (0x6265_6572, "sysfs", Kind::Pseudo),
    (0x27_e0eb, "cgroup", Kind::Pseudo),
    (0x6367_7270, "cgroup2", Kind::Pseudo),
    (0x6462_6720, "debugfs", Kind::Pseudo),
    (0x7472_6163, "tracefs", Kind::Pseudo),
    (0x7363_6673, "securityfs", Kind::Pseudo),
    (0xf97c_ff8c, "selinuxfs", Kind::Pseudo),
    (0x4341_5d53, "smackfs", Kind::Pseudo),
    (0x6265_6570, "configfs", Kind::Pseudo),
    (0x6165_676c, "pstore", Kind::Pseudo),
    (0xde5e_81e4, "efivarfs", Kind::Pseudo),
    (0xcafe_4a11, "bpf", Kind::Pseudo),
    (0x1cd1, "devpts", Kind::Pseudo),
    (0x1980_0202, "mqueue", Kind::Pseudo),
    (0x9584_58f6, "hugetlbfs", Kind::Pseudo), // memory in huge pages, without write(2)
    (0x4249_4e4d, "binfmt_misc", Kind::Pseudo),
    (0x6573_5543, "fusectl", Kind::Pseudo),
    (0x6e73_6673, "nsfs", Kind::Pseudo),
    (0x0765_5821, "resctrl", Kind::Pseudo),
    (0xabba_1974, "xenfs", Kind::Pseudo),
];

/// The file system behind `path`: statfs(2) and statvfs(3).
///
/// A FUSE file system counts as local: the kernel does not know what is behind it.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    let stat = rustix::io::retry_on_intr(|| rustix::fs::statfs(path))?;
    let space = rustix::io::retry_on_intr(|| rustix::fs::statvfs(path))?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(described(&stat, &space, || {
        rustix::fs::open(path, flags, Mode::empty()).ok()
    }))
}

/// The file system of an open file: fstatfs(2) and fstatvfs(3).
pub fn file_system_of(file: impl AsFd) -> io::Result<FileSystem> {
    let stat = rustix::io::retry_on_intr(|| rustix::fs::fstatfs(&file))?;
    let space = rustix::io::retry_on_intr(|| rustix::fs::fstatvfs(&file))?;
    Ok(described(&stat, &space, || Some(file)))
}

fn described<F: AsFd>(
    stat: &rustix::fs::StatFs,
    space: &rustix::fs::StatVfs,
    file: impl FnOnce() -> Option<F>,
) -> FileSystem {
    let magic = magic_of(stat);
    let known = known(magic);
    FileSystem {
        type_name: known.map_or_else(|| format!("{magic:#x}"), |(name, _)| name.to_owned()),
        block_bytes: space.f_frsize,
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        read_only: space.f_flag.contains(StatVfsMountFlags::RDONLY),
        is_network: known.is_some_and(|(_, kind)| kind == Kind::Network),
        inodes_identify: inodes_identify_on(magic) && (magic != OVERLAY || file().is_some_and(layers_identify)),
        is_pseudo: known.is_some_and(|(_, kind)| kind == Kind::Pseudo),
    }
}

/// The name and kind of a file system by its `f_type`.
fn known(magic: u64) -> Option<(&'static str, Kind)> {
    let row = FILE_SYSTEMS.iter().find(|(number, ..)| *number == magic)?;
    Some((row.1, row.2))
}

/// The `f_type` of statfs(2). Its width differs by architecture; magic numbers are 32 bits everywhere.
#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
fn magic_of(stat: &rustix::fs::StatFs) -> u64 {
    stat.f_type as u64 & 0xffff_ffff
}

/// The `f_type` of an open file's file system.
pub(super) fn magic(file: impl AsFd) -> rustix::io::Result<u64> {
    rustix::io::retry_on_intr(|| rustix::fs::fstatfs(&file)).map(|stat| magic_of(&stat))
}

/// Whether the file system of an open file promises that two files with one `st_dev` and `st_ino` are one file.
pub fn inodes_identify(file: impl AsFd) -> io::Result<bool> {
    let magic = magic(&file)?;
    Ok(inodes_identify_on(magic) && (magic != OVERLAY || layers_identify(file)))
}

/// The `f_type` of an overlay.
const OVERLAY: u64 = 0x794c_7630;

/// Whether inode numbers identify files in all layers of the overlay that holds a file: it shows their numbers. No if a layer is
/// not known, as in a container.
fn layers_identify(file: impl AsFd) -> bool {
    static KNOWN: Mutex<BTreeMap<u64, bool>> = Mutex::new(BTreeMap::new());
    let Some(mount) = super::mount_id(&file) else {
        return false;
    };
    let known = || crate::lock_mutex(&KNOWN);
    let found = known().get(&mount).copied();
    found.unwrap_or_else(|| {
        let identify = layers(mount).is_some_and(|layers| {
            let identifies = |layer: &String| file_system(Path::new(layer)).is_ok_and(|found| found.inodes_identify);
            // An overlay reports the size of its uppermost layer, which may be elsewhere in this mount namespace.
            let size = |found: rustix::io::Result<rustix::fs::StatVfs>| {
                found.map(|it| (it.f_blocks, it.f_frsize, it.f_files)).ok()
            };
            let is_here = size(rustix::fs::statvfs(layers[0].as_str())) == size(rustix::fs::fstatvfs(file));
            is_here && layers.iter().all(identifies)
        });
        known().insert(mount, identify);
        identify
    })
}

/// The directories that the overlay with this mount ID is made of, the upper one first; `None` if one is not known.
fn layers(mount: u64) -> Option<Vec<String>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(&mount.to_string()))?;
    let options = line.rsplit(' ').next()?;
    let values = |name: &'static str| options.split(',').filter_map(move |option| option.strip_prefix(name));
    let lower = values("lowerdir=").flat_map(|layers| layers.split(':'));
    let more = ["lowerdir+=", "datadir+="].into_iter().flat_map(values);
    let layers = values("upperdir=")
        .chain(lower)
        .chain(more)
        .filter(|layer| !layer.is_empty());
    let layers: Vec<String> = layers.map(str::to_owned).collect();
    // Names with escapes are not taken apart.
    let is_plain = |layer: &String| layer.starts_with('/') && !layer.contains('\\');
    (!layers.is_empty() && layers.iter().all(is_plain)).then_some(layers)
}

fn inodes_identify_on(magic: u64) -> bool {
    matches!(known(magic), Some((_, Kind::Local)))
}

/// What a lease on an open file proves. On FUSE and network file systems the kernel grants leases, but does not hear of writers
/// behind the mount or on other machines. On an overlay, a mapping belongs to the file of the layer, so one whose descriptor was
/// closed prevents no lease; nor does a writer in the upper directory.
pub fn lease_scope(file: impl AsFd) -> io::Result<Support<LeaseScope>> {
    Ok(Support::Available(lease_scope_on(magic(file)?)))
}

fn lease_scope_on(magic: u64) -> LeaseScope {
    match known(magic) {
        Some((name, _)) if FileSystemTrait::Overlay.is_of(name) => LeaseScope::Descriptors,
        Some((name, _)) if FileSystemTrait::Leases.is_of(name) => LeaseScope::AllWriters,
        _ => LeaseScope::Unknown,
    }
}

/// The peak resident memory of this program, which is more accurate than getrusage(2): that includes the memory before
/// exec(2), which is the parent's.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    let [peak_kib] = proc_fields("/proc/self/status", ["VmHWM:"]).ok()?.available()?;
    Some(peak_kib * 1024)
}

/// Ends this process when the thread that started it ends: prctl(2) `PR_SET_PDEATHSIG`.
pub fn die_with_parent() -> io::Result<Support<()>> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(Support::Available(()))
}

/// Gives this process, and those that it starts, the lowest priority for processors and disks: setpriority(2), `ioprio_set(2)`.
pub fn lower_priority() -> io::Result<Support<()>> {
    rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
    // SAFETY: the call takes three integers and touches no memory of this process.
    checked(unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IOPRIO_WHO_PROCESS,
            0,
            IOPRIO_BEST_EFFORT | IOPRIO_LOWEST,
        )
    })?;
    Ok(Support::Available(()))
}

const LOWEST_PRIORITY: i32 = 19;
// The kernel's include/uapi/linux/ioprio.h.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_BEST_EFFORT: libc::c_int = 2 << 13;
const IOPRIO_LOWEST: libc::c_int = 7;

/// Bytes moved so far by this process: `/proc/self/io`.
pub fn process_io() -> io::Result<Support<ProcessIo>> {
    let fields = ["read_bytes:", "write_bytes:"];
    Ok(
        proc_fields("/proc/self/io", fields)?.map(|[read_bytes, write_bytes]| ProcessIo {
            read_bytes,
            write_bytes,
        }),
    )
}

/// The machine's memory: `/proc/meminfo`.
pub fn memory() -> io::Result<Support<Memory>> {
    let fields = ["MemTotal:", "MemAvailable:", "Cached:", "Buffers:", "Shmem:"];
    Ok(
        proc_fields("/proc/meminfo", fields)?.map(|[total, available, cached, buffers, shared]| Memory {
            total_bytes: total * 1024,
            available_bytes: available * 1024,
            cached_bytes: Some((cached + buffers).saturating_sub(shared) * 1024),
        }),
    )
}

/// The numbers after `names` in a file of `NAME: NUMBER` lines.
fn proc_fields<const N: usize>(path: &str, names: [&str; N]) -> io::Result<Support<[u64; N]>> {
    // The file does not tell its size: without room, it would be read in many small pieces.
    let mut text = String::with_capacity(8 << 10);
    match std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Support::Unavailable("the kernel does not report this"));
        }
        Err(error) => return Err(error),
    }
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(names) {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        match value.and_then(|value| value.split_whitespace().next()?.parse().ok()) {
            Some(found) => *number = found,
            None => return Ok(Support::Unavailable("the kernel does not report this")),
        }
    }
    Ok(Support::Available(numbers))
}

/// Requests huge pages for a buffer: the first touch of 2 MiB took 0.11 ms with them, and 1.0 ms with pages of 4K. Has
/// no effect if there are none.
///
/// # Safety
/// `address` and `len` are memory of the caller's own, whole pages of it.
pub(crate) unsafe fn prefer_huge_pages(address: *mut libc::c_void, len: usize) {
    // SAFETY: the caller vouches for the range; the advice does not change what is in memory.
    let _ = unsafe { rustix::mm::madvise(address, len, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_facts_of_proc_and_the_temporary_directory() {
        let found = file_system(Path::new("/proc")).unwrap();
        assert_eq!((found.type_name.as_str(), found.is_pseudo), ("proc", true));
        let found = file_system(&std::env::temp_dir()).unwrap();
        assert!(found.block_bytes.is_power_of_two());
        assert!(found.free_bytes <= found.total_bytes);
        assert!(!found.read_only);
    }

    #[test]
    fn written_bytes_are_counted() {
        let Support::Available(before) = process_io().unwrap() else {
            return println!("skipped: the kernel does not count I/O");
        };
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let name = file_system(&std::env::temp_dir()).unwrap().type_name;
        let after = process_io().unwrap().available().unwrap();
        assert!(name == "tmpfs" || after.write_bytes >= before.write_bytes + (1 << 20));
    }

    #[test]
    fn lease_and_inode_trust_is_by_kind_of_file_system() {
        let [all, descriptors, unknown] = [LeaseScope::AllWriters, LeaseScope::Descriptors, LeaseScope::Unknown];
        // (f_type, its name here, what a lease proves, whether inode numbers identify files)
        for (magic, name, leases, inodes) in [
            (0xef53, Some("ext4"), all, true),
            (0x5846_5342, Some("xfs"), all, true),
            (0x9123_683e, Some("btrfs"), all, true),
            (0x0102_1994, Some("tmpfs"), all, true),
            (0x794c_7630, Some("overlay"), descriptors, true),
            (0x2fc1_2fc1, Some("zfs"), unknown, true),
            (0xf2f5_2010, Some("f2fs"), unknown, true),
            (0x4d44, Some("vfat"), unknown, false),
            (0x2011_bab0, Some("exfat"), unknown, false),
            // virtiofs and sshfs have this number, too.
            (0x6573_5546, Some("fuse"), unknown, false),
            (0xf15f, Some("ecryptfs"), unknown, false),
            (0x786f_4256, Some("vboxsf"), unknown, false),
            (0x6969, Some("nfs"), unknown, false),
            (0xff53_4d42, Some("cifs"), unknown, false),
            (0xfe53_4d42, Some("smb2"), unknown, false),
            (0x517b, Some("smb"), unknown, false),
            (0x0102_1997, Some("9p"), unknown, false),
            (0x00c3_6400, Some("ceph"), unknown, false),
            (0x5346_414f, Some("afs"), unknown, false),
            (0x0116_1970, Some("gfs2"), unknown, false),
            (0x7461_636f, Some("ocfs2"), unknown, false),
            (0x0bd0_0bd0, Some("lustre"), unknown, false),
            (0x4750_4653, Some("gpfs"), unknown, false),
            (0x1234_5678, None, unknown, false),
        ] {
            assert_eq!(known(magic).map(|(name, _)| name), name);
            assert_eq!(lease_scope_on(magic), leases, "{name:?}");
            assert_eq!(inodes_identify_on(magic), inodes, "{name:?}");
        }
    }

    #[test]
    fn available_memory_is_part_of_the_total() {
        let memory = memory().unwrap().available().unwrap();
        assert!(0 < memory.available_bytes && memory.available_bytes < memory.total_bytes);
    }
}
