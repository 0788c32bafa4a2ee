//! Block devices and what they are made of, down to the disks: partitions, volumes, arrays, loops. From `/sys`.
//!
//! All of these are claims of the devices and their drivers; nothing is measured here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::mount::{Mount, Mounts};
use crate::files::{number_text, serialize_optional_path};

mod uses;

pub use uses::{DeviceMount, DeviceUse};

/// A block device, with its claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockDevice {
    /// The kernel's name, as in `vda`.
    pub name: String,
    /// Its kind.
    pub kind: BlockLayer,
    /// The name of a volume, or the level of an array.
    pub label: Option<String>,
    /// Its directory in `/sys`, whose `stat` counts its requests.
    #[serde(skip)]
    pub sys_directory: PathBuf,
    /// The devices below it: the disk of a partition, the members of an array or volume, the device of a loop's backing
    /// file.
    pub below: Vec<BlockDevice>,
    /// The file behind a loop.
    #[serde(serialize_with = "serialize_optional_path")]
    pub backing_file: Option<PathBuf>,
    /// Its size, in bytes.
    pub size_bytes: Option<u64>,
    /// The model, if it reports one.
    pub model: Option<String>,
    /// The serial number of a disk, or the identifier of a volume or array, if it reports one.
    #[serde(skip)]
    pub serial: Option<String>,
    /// Whether it reports as rotational.
    pub claims_rotational: Option<bool>,
    /// Whether it, or any device below it, is a virtual disk.
    pub is_virtual: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The read-ahead window, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// The logical block, in bytes: its unit of addressing.
    pub logical_block_bytes: Option<u64>,
    /// The physical block, in bytes: the smallest unit that it writes without reading first.
    pub physical_block_bytes: Option<u64>,
    /// The largest request, in KiB.
    pub max_request_kib: Option<u64>,
    /// The write cache, as in `write back`.
    pub write_cache: Option<String>,
}

/// The kind of a block device, by its directory in `/sys`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BlockLayer {
    /// A disk, or a device that looks like one.
    #[default]
    Disk,
    /// A part of a disk.
    Partition,
    /// A loop device.
    Loop,
    /// An array (md).
    Raid,
    /// A volume of the logical volume manager.
    Lvm,
    /// An encrypted device.
    Crypt,
    /// A disk with several paths (multipath).
    Multipath,
    /// Another kind of mapped device.
    Mapped,
    /// A disk that `seekless sim` simulates, below a loop.
    Simulated,
}

impl BlockLayer {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Partition => "partition",
            Self::Loop => "loop",
            Self::Raid => "raid",
            Self::Lvm => "lvm",
            Self::Crypt => "crypt",
            Self::Multipath => "multipath",
            Self::Mapped => "mapped",
            Self::Simulated => SIMULATED,
        }
    }
}

impl BlockDevice {
    /// The disks at the bottom: itself, if it is one.
    #[must_use]
    pub fn disks(&self) -> Vec<&Self> {
        match &self.below[..] {
            [] => vec![self],
            below => below.iter().flat_map(Self::disks).collect(),
        }
    }

    /// The names of the disks at the bottom; empty if it is a disk itself.
    #[must_use]
    pub fn disk_names(&self) -> Vec<String> {
        let below = self.below.iter().flat_map(Self::disks);
        let mut names: Vec<String> = below.map(|disk| disk.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Begins the name of a simulated disk, `simulated-MODEL`; the same as `seekless_record::SIMULATED`.
const SIMULATED: &str = "simulated";
/// The type of the file system in user space that shows a simulated disk as a file; its source is `seekless-sim:MODEL:SERIAL`.
const SIMULATED_FILE_SYSTEM: &str = "fuse.seekless-sim";

/// A limit on stacked devices, against cycles.
const DEEPEST: usize = 16;

/// Files with serial numbers, below a device's directory: of virtio and `NVMe`, of SCSI and MMC, world-wide names, of
/// mapped devices, and of arrays.
const SERIALS: [&str; 7] = [
    "serial",
    "device/serial",
    "wwid",
    "device/wwid",
    "dm/uuid",
    "md/uuid",
    "loop/backing_file",
];

/// The block devices that a `/sys` describes.
pub(crate) struct Devices<'a> {
    sys: &'a Path,
    mounts: &'a Mounts,
    /// Whether only what identifies a device is read, and its read-ahead window.
    is_brief: bool,
}

impl<'a> Devices<'a> {
    /// The devices of a mounted sysfs; the mounts are needed for the backing file of a loop.
    pub fn new(sys: &'a Path, mounts: &'a Mounts) -> Self {
        Self {
            sys,
            mounts,
            is_brief: false,
        }
    }

    /// The same with what identifies a device, and its read-ahead window; all else has its default.
    #[cfg(feature = "profile")]
    pub fn brief(self) -> Self {
        Self { is_brief: true, ..self }
    }

    /// The device with a device number. For file systems with numbers of their own (btrfs), the mount names the device.
    pub fn behind(&self, number: u64, mount: Option<&Mount>) -> Option<BlockDevice> {
        self.find(number, mount, 0)
    }

    fn find(&self, number: u64, mount: Option<&Mount>, depth: usize) -> Option<BlockDevice> {
        let directory = self.directory(number).or_else(|| {
            let source = &mount?.source;
            source.is_absolute().then_some(())?;
            let device = fs::metadata(source).ok()?.rdev();
            (device != 0).then_some(())?;
            self.directory(device)
        })?;
        self.describe(&directory, depth)
    }

    fn directory(&self, number: u64) -> Option<PathBuf> {
        let links = self.sys.join("dev/block");
        let target = fs::read_link(links.join(number_text(number))).ok()?;
        Some(match target.strip_prefix("../..") {
            Ok(below) => self.sys.join(below),
            Err(_) => links.join(target),
        })
    }

    fn describe(&self, directory: &Path, depth: usize) -> Option<BlockDevice> {
        (depth < DEEPEST).then_some(())?;
        // A partition has the queue of its disk.
        let disk = disk_of(directory)?;
        let is_partition = disk != directory;
        let text = |name: &str| read_line(&disk.join(name));
        let claim = |name: &str| (!self.is_brief).then(|| text(name)).flatten();
        let number = |name: &str| claim(name)?.parse().ok();
        let name = directory.file_name()?.to_string_lossy().into_owned();
        let backing_file = read_path(&directory.join("loop/backing_file"));
        let mut below: Vec<BlockDevice> = if is_partition {
            self.describe(disk, depth + 1).into_iter().collect()
        } else {
            let file = backing_file.as_deref().and_then(|file| self.of_file(file, depth + 1));
            file.into_iter().chain(self.members(directory, depth + 1)).collect()
        };
        below.sort_by(|one, other| one.name.cmp(&other.name));
        let (kind, label) = if self.is_brief {
            Default::default()
        } else {
            kind_of(directory, is_partition)
        };
        let is_virtual = || {
            disk.to_string_lossy().contains("/virtio")
                || name.starts_with("xvd")
                || is_hypervisor_model(disk)
                || below.iter().any(|device| device.is_virtual == Some(true))
        };
        // In units of 512 bytes, whatever the device's sectors.
        let size_bytes = || {
            read_line(&directory.join("size"))?
                .parse::<u64>()
                .ok()?
                .checked_mul(512)
        };
        Some(BlockDevice {
            kind,
            label,
            sys_directory: directory.to_owned(),
            size_bytes: (!self.is_brief).then(size_bytes).flatten(),
            is_virtual: (!self.is_brief).then(is_virtual),
            below,
            backing_file,
            serial: SERIALS.iter().find_map(|name| text(name)),
            model: text("device/model").or_else(|| text("device/name")),
            claims_rotational: claim("queue/rotational").map(|flag| flag == "1"),
            scheduler: claim("queue/scheduler").map(|list| in_brackets(&list)),
            read_ahead_kib: text("queue/read_ahead_kb").and_then(|kib| kib.parse().ok()),
            logical_block_bytes: number("queue/logical_block_size"),
            physical_block_bytes: number("queue/physical_block_size"),
            max_request_kib: number("queue/max_sectors_kb"),
            write_cache: claim("queue/write_cache"),
            name,
        })
    }

    /// The device of a file.
    fn of_file(&self, file: &Path, depth: usize) -> Option<BlockDevice> {
        let number = fs::metadata(file).ok()?.dev();
        let mount = self.mounts.holding(file, number);
        mount.and_then(simulated).or_else(|| self.find(number, mount, depth))
    }

    /// The devices that an array or volume is made of.
    fn members(&self, directory: &Path, depth: usize) -> Vec<BlockDevice> {
        let entries = fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| fs::canonicalize(entry.path()).ok())
            .filter_map(|directory| self.describe(&directory, depth))
            .collect()
    }
}

/// The disk that a mount simulates.
fn simulated(mount: &Mount) -> Option<BlockDevice> {
    let source = mount.source.to_str()?;
    let source = source
        .strip_prefix("seekless-sim:")
        .filter(|_| mount.file_system == SIMULATED_FILE_SYSTEM)?;
    let mut parts = source.splitn(2, ':');
    let model = parts.next()?;
    Some(BlockDevice {
        name: format!("{SIMULATED}-{model}"),
        kind: BlockLayer::Simulated,
        label: Some(model.to_owned()),
        serial: parts.next().map(str::to_owned),
        ..BlockDevice::default()
    })
}

/// The directory in `system` (`/sys`) of the disk that the block device with this number, as in `254:1`, is on.
pub(crate) fn disk_directory(system: &Path, number: &str) -> Option<PathBuf> {
    let directory = fs::canonicalize(system.join("dev/block").join(number)).ok()?;
    disk_of(&directory).map(Path::to_owned)
}

/// The directory of the disk of a partition; for other devices, their own.
fn disk_of(directory: &Path) -> Option<&Path> {
    if directory.join("partition").exists() {
        directory.parent()
    } else {
        Some(directory)
    }
}

/// The kind and label of a device.
fn kind_of(directory: &Path, is_partition: bool) -> (BlockLayer, Option<String>) {
    if is_partition {
        return (BlockLayer::Partition, None);
    }
    if directory.join("loop").exists() {
        return (BlockLayer::Loop, None);
    }
    if directory.join("md").exists() {
        return (BlockLayer::Raid, read_line(&directory.join("md/level")));
    }
    if directory.join("dm").exists() {
        // The identifier begins with the name of the program that made the mapping.
        let made_by = read_line(&directory.join("dm/uuid")).unwrap_or_default();
        let kind = match made_by.split('-').next() {
            Some("LVM") => BlockLayer::Lvm,
            Some("CRYPT") => BlockLayer::Crypt,
            Some("mpath") => BlockLayer::Multipath,
            Some(part) if part.starts_with("part") => BlockLayer::Partition,
            _ => BlockLayer::Mapped,
        };
        return (kind, read_line(&directory.join("dm/name")));
    }
    (BlockLayer::Disk, None)
}

fn is_hypervisor_model(disk: &Path) -> bool {
    let model = read_line(&disk.join("device/model")).unwrap_or_default().to_lowercase();
    ["qemu", "virtual", "vbox", "amazon elastic", "persistentdisk"]
        .iter()
        .any(|word| model.contains(word))
}

/// The selected word of a list such as `none [mq-deadline] kyber`.
fn in_brackets(list: &str) -> String {
    let chosen = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(list, |(chosen, _)| chosen).to_owned()
}

fn read_line(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A path in a file of `/sys`, without the final newline.
fn read_path(path: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = fs::read(path).ok()?;
    bytes.pop_if(|last| *last == b'\n');
    (!bytes.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests;
