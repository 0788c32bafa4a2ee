//! What a storage reports about itself: file system, mount, device. All of these are claims.
//!
//! From `/proc/self/mountinfo` and `/sys` on Linux. Without these, the facts are `None`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, FileSystemTrait};
use serde::Serialize;

use super::device::{BlockDevice, Devices};
use super::mount::{Mount, Mounts};
use crate::error::{Error, Result};
use crate::files::{number_text, serialize_optional_path};

/// What a storage reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StorageFacts {
    /// The file system's name, as in `ext4`.
    pub file_system: String,
    /// Where it is mounted.
    #[serde(serialize_with = "serialize_optional_path")]
    pub mount_point: Option<PathBuf>,
    /// The mount's options.
    pub mount_options: Option<String>,
    /// The source of the mount: a device, a server's directory, or a name.
    #[serde(serialize_with = "serialize_optional_path")]
    pub mount_source: Option<PathBuf>,
    /// The directory, file or device from which the file system takes its data: the upper layer of an overlay, or the
    /// source that a FUSE program names. A claim; `None` if the path does not exist here.
    #[serde(skip)]
    pub behind: Option<PathBuf>,
    /// The file system's block, in bytes.
    pub block_bytes: u64,
    /// Space free for this user, in bytes.
    pub free_bytes: u64,
    /// Its size, in bytes.
    pub total_bytes: u64,
    /// Whether it is mounted read-only.
    #[serde(rename = "is_read_only")]
    pub read_only: bool,
    /// Whether it is a network file system.
    pub is_network: bool,
    /// Whether reads of a process are counted by its device, so that cold and warm reads can be distinguished.
    #[serde(skip)]
    pub has_block_device: bool,
    /// The file system's number (`st_dev`): two directories with one number share its space.
    #[serde(skip)]
    pub device_number: u64,
    /// The read-ahead window of the file system, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// The block device, with the devices below it.
    pub device: Option<BlockDevice>,
}

/// The read-ahead window of the file system with a device number, in KiB: with a block device, that of the device.
pub(crate) fn read_ahead_kib(device_number: u64) -> Option<u64> {
    let told = fs::read_to_string(format!("/sys/class/bdi/{}/read_ahead_kb", number_text(device_number)));
    told.ok()?.trim().parse().ok()
}

impl StorageFacts {
    /// The device number as `/sys` writes it, as in `254:0`. It is that of the block device, unless the file system has
    /// numbers of its own.
    #[must_use]
    pub fn device_number_text(&self) -> String {
        number_text(self.device_number)
    }

    /// What identifies the storage of a directory that is named without links, and has this device number. All else has its default.
    #[cfg(feature = "profile")]
    pub(crate) fn identifying(directory: &Path, device_number: u64) -> Self {
        let mounts = Mounts::of_this_process();
        let mount = mounts.holding(directory, device_number);
        let device = Devices::new(Path::new("/sys"), &mounts)
            .brief()
            .behind(device_number, mount);
        let told = || sys::file_system(directory).map_or_else(|_| String::new(), |system| system.type_name);
        Self {
            file_system: mount.map_or_else(told, |mount| mount.file_system.clone()),
            ..Self::of_mount(mount, device, device_number)
        }
    }

    fn of_mount(mount: Option<&Mount>, device: Option<BlockDevice>, device_number: u64) -> Self {
        Self {
            mount_point: mount.map(|mount| mount.point.clone()),
            mount_options: mount.map(|mount| mount.options.clone()),
            mount_source: mount.map(|mount| mount.source.clone()),
            has_block_device: device.is_some(),
            device_number,
            device,
            ..Self::default()
        }
    }

    /// The facts of the storage behind a path. The path is not opened.
    ///
    /// # Errors
    /// The system's, if it cannot stat the path; [`Error::NotStorage`] for `/proc`, `/sys` and the like.
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
        let system = sys::file_system(path).map_err(|error| Error::system(path, "stat its file system", error))?;
        if system.is_pseudo {
            return Err(Error::NotStorage {
                path: path.to_owned(),
                file_system: system.type_name,
            });
        }
        let mounts = Mounts::of_this_process();
        let place = fs::canonicalize(path).ok();
        let mount = place.and_then(|place| mounts.holding(&place, metadata.dev()));
        let device = Devices::new(Path::new("/sys"), &mounts).behind(metadata.dev(), mount);
        Ok(Self {
            // The mount has the exact name if file systems share a magic number (ext2, 3 and 4).
            file_system: mount.map_or(system.type_name, |mount| mount.file_system.clone()),
            behind: mount.and_then(taken_from),
            block_bytes: system.block_bytes,
            free_bytes: system.free_bytes,
            total_bytes: system.total_bytes,
            read_only: system.read_only,
            is_network: system.is_network,
            read_ahead_kib: read_ahead_kib(metadata.dev()),
            ..Self::of_mount(mount, device, metadata.dev())
        })
    }
}

/// The directory or file from which an overlay or a FUSE program says it takes its data, if that exists here.
fn taken_from(mount: &Mount) -> Option<PathBuf> {
    let path = if FileSystemTrait::Overlay.is_of(&mount.file_system) {
        let mut options = mount.options.split(',');
        PathBuf::from(options.find_map(|option| option.strip_prefix("upperdir="))?)
    } else if FileSystemTrait::ServedByProgram.is_of(&mount.file_system) {
        mount.source.clone()
    } else {
        return None;
    };
    (path.is_absolute() && path.exists() && !path.starts_with(&mount.point)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_names_its_upper_layer_where_that_is_to_be_seen() {
        let directory = tempfile::tempdir().unwrap();
        let mount = |file_system: &str, options: String, source: &str| Mount {
            file_system: file_system.to_owned(),
            options,
            source: PathBuf::from(source),
            ..Mount::default()
        };
        let upper = format!("rw,lowerdir=/l,upperdir={},workdir=/w", directory.path().display());
        let shown = Some(directory.path().to_owned());
        let found = taken_from(&mount("overlay", upper, "overlay"));
        assert_eq!(found, None, "below its own mount point");
        let elsewhere = |mount: Mount| Mount {
            point: PathBuf::from("/merged"),
            ..mount
        };
        let upper = format!("rw,lowerdir=/l,upperdir={},workdir=/w", directory.path().display());
        assert_eq!(taken_from(&elsewhere(mount("overlay", upper, "overlay"))), shown);
        let hidden = mount("overlay", "rw,upperdir=/gone/upper".to_owned(), "overlay");
        assert_eq!(taken_from(&elsewhere(hidden)), None);
        let fuse = mount("fuse", "rw".to_owned(), directory.path().to_str().unwrap());
        assert_eq!(taken_from(&elsewhere(fuse)), shown);
        let found = taken_from(&elsewhere(mount("fuse.sshfs", String::new(), "host:/x")));
        assert_eq!(found, None);
        assert_eq!(taken_from(&elsewhere(mount("ext4", String::new(), "/"))), None);
    }
}
