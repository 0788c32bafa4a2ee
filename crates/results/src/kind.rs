//! The kind of device of a storage, from the run.

use std::fmt;
use std::str::FromStr;

use seekless_record::{Device, Storage, driver};
use serde::{Serialize, Serializer};

/// The kind of device below a storage. It rests on claims, and serves to sort results, not to decide anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// An `NVMe` device.
    Nvme,
    /// A virtual disk, by whatever bus.
    VirtualDisk,
    /// A SATA, SAS or USB disk that claims not to rotate.
    SteadyDisk,
    /// A SATA, SAS or USB disk that claims to rotate.
    RotatingDisk,
    /// A SATA, SAS or USB disk that claims neither.
    Disk,
    /// A memory card, or flash soldered on.
    Card,
    /// A loop: a file of another file system.
    Loop,
    /// A disk that does not exist.
    Simulated,
    /// An array or volume of disks of several kinds, or of unknown ones.
    Volume,
    /// A disk that is reached over a network.
    NetworkDisk,
    /// Memory.
    Memory,
    /// A file system that is reached over a network.
    Network,
    /// A file system in user space.
    Fuse,
    /// It is not recorded.
    Unknown,
}

impl DeviceKind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Nvme,
        Self::VirtualDisk,
        Self::SteadyDisk,
        Self::RotatingDisk,
        Self::Disk,
        Self::Card,
        Self::Loop,
        Self::Simulated,
        Self::Volume,
        Self::NetworkDisk,
        Self::Memory,
        Self::Network,
        Self::Fuse,
        Self::Unknown,
    ];

    /// Its name in options, addresses and JSON, as in `ssd-sata`.
    #[must_use]
    pub fn slug(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::VirtualDisk => "virtual-disk",
            Self::SteadyDisk => "ssd-sata",
            Self::RotatingDisk => "hdd-sata",
            Self::Disk => "disk",
            Self::Card => "card",
            Self::Loop => "loop",
            Self::Simulated => "simulated",
            Self::Volume => "volume",
            Self::NetworkDisk => "network-disk",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Fuse => "fuse",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of a storage.
    #[must_use]
    pub fn of(storage: &Storage) -> Self {
        match storage.file_system.as_str() {
            "tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs" => Self::Memory,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "ceph" | "afs" | "lustre" | "gfs2" | "ocfs2"
            | "webdav" | "fuse.sshfs" | "fuse.glusterfs" | "fuse.s3fs" | "fuse.rclone" | "fuse.ceph-fuse" => {
                Self::Network
            }
            name => match &storage.device {
                Some(device) => Self::of_device(device),
                None if name.starts_with("fuse") => Self::Fuse,
                None => Self::Unknown,
            },
        }
    }

    fn of_device(device: &Device) -> Self {
        match driver(&device.name) {
            _ if device.simulated().is_some() => Self::Simulated,
            Some("loop") => Self::Loop,
            Some("dm" | "md") => Self::of_volume(device),
            Some("nbd" | "rbd" | "drbd") => Self::NetworkDisk,
            Some("zram" | "ram" | "pmem") => Self::Memory,
            Some("vd" | "xvd") => Self::VirtualDisk,
            _ if device.is_virtual == Some(true) => Self::VirtualDisk,
            Some("nvme") => Self::Nvme,
            Some("mmcblk") => Self::Card,
            Some("sd" | "hd") => match device.claims_rotational {
                Some(true) => Self::RotatingDisk,
                Some(false) => Self::SteadyDisk,
                None => Self::Disk,
            },
            _ => Self::Unknown,
        }
    }

    /// The kind of a volume, which is that of its disks if they are all of one kind.
    fn of_volume(volume: &Device) -> Self {
        let mut kinds = volume.below.iter().map(|name| {
            Self::of_device(&Device {
                name: name.clone(),
                below: Vec::new(),
                ..volume.clone()
            })
        });
        match kinds.next() {
            Some(first) if first != Self::Unknown && kinds.all(|kind| kind == first) => first,
            _ => Self::Volume,
        }
    }
}

/// There is no kind of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind of storage `{0}`")]
pub struct NoSuchKind(pub String);

impl FromStr for DeviceKind {
    type Err = NoSuchKind;

    fn from_str(slug: &str) -> Result<Self, NoSuchKind> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.slug() == slug)
            .ok_or_else(|| NoSuchKind(slug.to_owned()))
    }
}

impl Serialize for DeviceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.slug())
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Nvme => "nvme",
            Self::VirtualDisk => "virtual disk",
            Self::SteadyDisk => "disk, reports as non-rotational",
            Self::RotatingDisk => "disk, reports as rotational",
            Self::Disk => "disk",
            Self::Card => "card",
            Self::Loop => "loop",
            Self::Simulated => "simulated disk",
            Self::Volume => "volume",
            Self::NetworkDisk => "network disk",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Fuse => "fuse",
            Self::Unknown => "unknown device",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str, below: &[&str], is_virtual: bool, claims_rotational: Option<bool>) -> DeviceKind {
        DeviceKind::of(&Storage {
            file_system: "ext4".to_owned(),
            device: Some(Device {
                name: name.to_owned(),
                below: below.iter().map(|&name| name.to_owned()).collect(),
                is_virtual: Some(is_virtual),
                claims_rotational,
                ..Device::default()
            }),
            ..Storage::default()
        })
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        for kind in DeviceKind::ALL {
            assert_eq!(kind.slug().parse(), Ok(kind));
        }
        assert!("ssd".parse::<DeviceKind>().is_err());
    }

    #[test]
    fn kind_is_of_the_device_or_else_the_file_system() {
        assert_eq!(on("nvme0n1p2", &[], false, Some(false)), DeviceKind::Nvme);
        assert_eq!(on("vda", &[], true, Some(true)), DeviceKind::VirtualDisk);
        assert_eq!(on("sda", &[], true, Some(true)), DeviceKind::VirtualDisk);
        assert_eq!(on("nvme1n1", &[], true, Some(false)), DeviceKind::VirtualDisk);
        assert_eq!(on("sda1", &[], false, Some(true)), DeviceKind::RotatingDisk);
        assert_eq!(on("sdb", &[], false, Some(false)), DeviceKind::SteadyDisk);
        assert_eq!(on("sdb", &[], false, None), DeviceKind::Disk);
        assert_eq!(on("mmcblk0p1", &[], false, Some(false)), DeviceKind::Card);
        assert_eq!(on("nbd0", &[], false, Some(false)), DeviceKind::NetworkDisk);
        assert_eq!(on("odd0", &[], false, None), DeviceKind::Unknown);
        assert_eq!(on("loop3", &["vda"], true, Some(true)), DeviceKind::Loop);
        let model = ["simulated-hdd-2009"];
        assert_eq!(on("loop3", &model, false, Some(true)), DeviceKind::Simulated);
        assert_eq!(on("dm-0", &["simulated-hdd-2009"], false, None), DeviceKind::Simulated);
        assert_eq!(on("dm-0", &["nvme0n1"], false, Some(false)), DeviceKind::Nvme);
        let disks = ["sda", "sdb"];
        assert_eq!(on("md127", &disks, false, Some(true)), DeviceKind::RotatingDisk);
        assert_eq!(on("md0", &["sda", "nvme0n1"], false, Some(true)), DeviceKind::Volume);
        assert_eq!(on("dm-1", &["dm-0"], false, None), DeviceKind::Volume);
        assert_eq!(on("dm-1", &[], false, None), DeviceKind::Volume);
        let of = |name: &str| {
            DeviceKind::of(&Storage {
                file_system: name.to_owned(),
                ..Storage::default()
            })
        };
        assert_eq!(of("tmpfs"), DeviceKind::Memory);
        assert_eq!(of("nfs4"), DeviceKind::Network);
        assert_eq!(of("fuse.sshfs"), DeviceKind::Network);
        assert_eq!(of("fuse.example"), DeviceKind::Fuse);
        assert_eq!(of("overlay"), DeviceKind::Unknown);
    }
}
