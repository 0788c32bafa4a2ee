//! What a storage says of itself: file system, mount, device. Claims, every one; what it does is measured.
//!
//! On Linux from `/proc/self/mountinfo` and `/sys`; where these do not exist, the facts are `None`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_sys as sys;

use crate::error::{Error, Result};

/// What a storage says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageFacts {
    /// The file system's name, as in `ext4`.
    pub file_system: String,
    /// Where it is mounted.
    pub mount_point: Option<PathBuf>,
    /// The mount's options.
    pub mount_options: Option<String>,
    /// The file system's block, in bytes.
    pub block_bytes: u64,
    /// Space free for this user, in bytes.
    pub free_bytes: u64,
    /// Its whole size, in bytes.
    pub total_bytes: u64,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Whether it is reached over a network.
    pub is_network: bool,
    /// Whether what a process reads from it is accounted to its device: then a cold read can be told from a warm one.
    pub has_block_device: bool,
    /// The file system's number (`st_dev`): two folders with one number share its space.
    pub device_number: u64,
    /// The block device.
    pub device: Option<BlockDevice>,
}

/// A block device, with what it claims of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name, as in `vda`.
    pub name: String,
    /// Its folder in `/sys`, whose `stat` counts its requests.
    pub sys_folder: PathBuf,
    /// The disks below: the members of an array or volume, the disk that a loop's file lies on.
    pub below: Vec<String>,
    /// The file behind a loop.
    pub backing_file: Option<PathBuf>,
    /// The model, where it tells.
    pub model: Option<String>,
    /// Whether it claims to rotate.
    pub claims_rotational: Option<bool>,
    /// Whether it is a virtual disk.
    pub is_virtual: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The read-ahead window, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// The logical block, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// The largest request, in KiB.
    pub max_request_kib: Option<u64>,
    /// The write cache, as in `write back`.
    pub write_cache: Option<String>,
}

impl StorageFacts {
    /// The facts of the storage behind a path.
    ///
    /// # Errors
    /// The system's, where the path cannot be looked at.
    pub fn of(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
        let system =
            sys::file_system(path).map_err(|error| Error::system(path, "looking at its file system", error))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = fs::canonicalize(path).ok().and_then(|path| find_mount(&mounts, &path));
        let device = device_of(metadata.dev(), mount.as_ref());
        Ok(Self {
            // The mount's word is exact where the file system's number is shared (ext2, 3 and 4).
            file_system: mount
                .as_ref()
                .map_or(system.type_name, |mount| mount.file_system.clone()),
            mount_point: mount.as_ref().map(|mount| mount.point.clone()),
            mount_options: mount.map(|mount| mount.options),
            block_bytes: system.block_bytes,
            free_bytes: system.free_bytes,
            total_bytes: system.total_bytes,
            read_only: system.read_only,
            is_network: system.is_network,
            has_block_device: device.is_some(),
            device_number: metadata.dev(),
            device,
        })
    }
}

/// A line of mountinfo, as far as it is used (`proc_pid_mountinfo(5)`).
struct Mount {
    point: PathBuf,
    options: String,
    file_system: String,
    source: String,
}

/// The mount that a path lies in: the one with the longest mount point, the last of equals.
fn find_mount(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<_> = left.split(' ').collect();
        let right: Vec<_> = right.split(' ').collect();
        Some(Mount {
            point: PathBuf::from(unescape(left.get(4)?)),
            options: joined_options(left.get(5)?, right.get(2).unwrap_or(&"")),
            file_system: (*right.first()?).to_owned(),
            source: unescape(right.get(1)?),
        })
    });
    mounts
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// The mount's own options, and those of the file system that are not among them.
fn joined_options(mount: &str, file_system: &str) -> String {
    let mut options: Vec<&str> = mount.split(',').collect();
    options.extend(
        file_system
            .split(',')
            .filter(|option| !mount.split(',').any(|own| own == *option)),
    );
    options.join(",")
}

/// Undoes the octal escapes of mountinfo.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// The device of a device number; file systems with numbers of their own (btrfs) name it in the mount.
fn device_of(number: u64, mount: Option<&Mount>) -> Option<BlockDevice> {
    let (major, minor) = (rdev_major(number), rdev_minor(number));
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok();
    let folder = folder.or_else(|| {
        let device = fs::metadata(mount?.source.as_str()).ok()?.rdev();
        (device != 0).then_some(())?;
        fs::canonicalize(format!("/sys/dev/block/{}:{}", rdev_major(device), rdev_minor(device))).ok()
    })?;
    Some(describe(&folder))
}

// The encoding of device numbers in stat(2) on Linux (makedev(3)).
fn rdev_major(number: u64) -> u64 {
    ((number >> 8) & 0xfff) | ((number >> 32) & !0xfff)
}

fn rdev_minor(number: u64) -> u64 {
    (number & 0xff) | ((number >> 12) & !0xff)
}

fn describe(folder: &Path) -> BlockDevice {
    // A partition's queue is its disk's.
    let disk = if folder.join("queue").exists() {
        folder
    } else {
        folder.parent().unwrap_or(folder)
    };
    let text = |name: &str| read_line(&disk.join(name));
    let number = |name: &str| text(name)?.parse().ok();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let backing_file = read_line(&disk.join("loop/backing_file")).map(PathBuf::from);
    let behind = backing_file
        .as_ref()
        .and_then(|file| device_of(fs::metadata(file).ok()?.dev(), None));
    let members = members(disk);
    let is_virtual = disk.to_string_lossy().contains("/virtio")
        || name.starts_with("xvd")
        || is_hypervisor_model(disk)
        || behind
            .iter()
            .chain(&members)
            .any(|device| device.is_virtual == Some(true));
    let mut below: Vec<String> = behind.into_iter().chain(members).map(|device| device.name).collect();
    below.sort();
    BlockDevice {
        sys_folder: folder.to_owned(),
        below,
        backing_file,
        model: text("device/model"),
        claims_rotational: text("queue/rotational").map(|flag| flag == "1"),
        is_virtual: Some(is_virtual),
        scheduler: text("queue/scheduler").map(|list| in_brackets(&list)),
        read_ahead_kib: number("queue/read_ahead_kb"),
        logical_block_bytes: number("queue/logical_block_size"),
        max_request_kib: number("queue/max_sectors_kb"),
        write_cache: text("queue/write_cache"),
        name,
    }
}

fn is_hypervisor_model(disk: &Path) -> bool {
    let model = read_line(&disk.join("device/model")).unwrap_or_default().to_lowercase();
    ["qemu", "virtual", "vbox", "amazon elastic", "persistentdisk"]
        .iter()
        .any(|word| model.contains(word))
}

/// The devices that an array or volume is made of.
fn members(disk: &Path) -> Vec<BlockDevice> {
    let entries = fs::read_dir(disk.join("slaves")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .map(|folder| describe(&folder))
        .collect()
}

/// The one chosen of a list such as `none [mq-deadline] kyber`.
fn in_brackets(list: &str) -> String {
    let chosen = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(list, |(chosen, _)| chosen).to_owned()
}

fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:25 / /mnt/a\\040b rw - tmpfs tmpfs rw,size=4k
31 22 0:26 /x /mnt/a\\040b ro - btrfs /dev/loop0 rw,ssd
";

    #[test]
    fn the_last_of_the_deepest_mounts_holds_the_path() {
        let mount = find_mount(MOUNTS, Path::new("/mnt/a b/c")).unwrap();
        assert_eq!(
            (mount.file_system.as_str(), mount.options.as_str()),
            ("btrfs", "ro,rw,ssd")
        );
        assert_eq!(mount.source, "/dev/loop0");
        assert_eq!(find_mount(MOUNTS, Path::new("/mnt/ab")).unwrap().file_system, "ext4");
        assert!(find_mount("", Path::new("/")).is_none());
    }

    #[test]
    fn the_scheduler_in_brackets_is_the_one_in_use() {
        assert_eq!(in_brackets("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(in_brackets("none"), "none");
    }

    #[test]
    fn device_numbers_are_taken_apart_as_linux_puts_them_together() {
        assert_eq!((rdev_major(0xfe00), rdev_minor(0xfe00)), (254, 0));
        assert_eq!((rdev_major(0x0010_0801), rdev_minor(0x0010_0801)), (8, 0x101));
    }
}
