//! The users of a block device: mounted file systems, swap space, partitions, and the devices made of it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{BlockDevice, DEEPEST, Devices, Mounts, read_line};
use crate::error::{Error, Result};
use crate::files::{number_text, serialize_optional_path};

/// A block device and its users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceUse {
    /// The device.
    pub device: BlockDevice,
    /// The file systems that are mounted from it, and swap space in use.
    pub mounts: Vec<DeviceMount>,
    /// Its partitions, and the volumes, arrays and mapped devices that are made of it, by name.
    pub above: Vec<DeviceUse>,
}

/// A file system that is mounted from a device, or swap space on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceMount {
    /// The file system's name, or `swap`.
    pub file_system: String,
    /// Where it is mounted; swap space is mounted nowhere.
    #[serde(rename = "mount_point", serialize_with = "serialize_optional_path")]
    pub point: Option<PathBuf>,
}

impl DeviceUse {
    /// The block device that a path names, as in `/dev/sda`. It is not opened. `None` if the path does not name a block
    /// device, or the system does not describe devices in `/sys`.
    ///
    /// # Errors
    /// The system's, if it cannot stat the path.
    pub fn of(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
        let mounts = Mounts::of_this_process();
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let devices = Devices::new(Path::new("/sys"), &mounts);
        let is_device = metadata.file_type().is_block_device();
        Ok(is_device.then(|| devices.uses(metadata.rdev(), &swaps)).flatten())
    }
}

impl Devices<'_> {
    /// The device with a number, and its users; `swaps` is the text of `/proc/swaps` (`proc_swaps(5)`).
    pub fn uses(&self, number: u64, swaps: &str) -> Option<DeviceUse> {
        self.uses_of(&self.directory(number)?, swaps, 0)
    }

    fn uses_of(&self, directory: &Path, swaps: &str, depth: usize) -> Option<DeviceUse> {
        (depth < DEEPEST).then_some(())?;
        let number = read_line(&directory.join("dev")).unwrap_or_default();
        // For file systems with device numbers of their own (btrfs), the source names the device.
        let is_named = |source: &Path| {
            source.starts_with("/dev") && fs::metadata(source).is_ok_and(|found| number_text(found.rdev()) == number)
        };
        let mounts = self.mounts.iter();
        let mounts = mounts.filter(|mount| mount.device == number || is_named(&mount.source));
        let mounts = mounts.map(|mount| DeviceMount {
            file_system: mount.file_system.clone(),
            point: Some(mount.point.clone()),
        });
        let swaps_here = swaps.lines().filter_map(|line| line.split_whitespace().next());
        let swaps_here = swaps_here.filter(|source| is_named(Path::new(source)));
        let swap = swaps_here.map(|_| DeviceMount {
            file_system: "swap".to_owned(),
            point: None,
        });
        let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
        let partitions = entries(directory).map(|entry| entry.path());
        let partitions = partitions.filter(|path| path.join("partition").exists());
        let holders = entries(&directory.join("holders")).filter_map(|entry| fs::canonicalize(entry.path()).ok());
        let above = partitions.chain(holders);
        let mut above: Vec<_> = above.filter_map(|path| self.uses_of(&path, swaps, depth + 1)).collect();
        above.sort_by(|one, other| one.device.name.cmp(&other.device.name));
        Some(DeviceUse {
            device: self.describe(directory, 0)?,
            mounts: mounts.chain(swap).collect(),
            above,
        })
    }
}
