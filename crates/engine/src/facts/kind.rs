//! What costs are assumed for a kind of device, until they are measured.

use std::fs;
use std::path::Path;

use super::{Costs, Fact};

/// A kind of device, by what the system reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssumedDevice {
    /// A disk with a head.
    Rotational,
    /// Flash behind SATA or SAS.
    SataFlash,
    /// Flash behind `NVMe`.
    Nvme,
    /// A disk of a virtual machine, whatever is behind it.
    Virtual,
    /// A file system of another machine, or of a program.
    Remote,
    /// A file system without a block device of its own, or a device made of others.
    Unknown,
}

impl AssumedDevice {
    /// The kind of a disk, by its directory in `/sys`.
    pub fn of(disk: &Path) -> Self {
        let place = disk.to_string_lossy();
        let is_in = |folders: &[&str]| folders.iter().any(|folder| place.contains(folder));
        // What these claim is that of no disk.
        if is_in(&["/block/loop", "/block/zram", "/block/ram"]) {
            return Self::Unknown;
        } else if is_in(&["/virtio", "/vmbus", "/vbd-"]) {
            return Self::Virtual;
        } else if is_in(&["/nvme"]) {
            return Self::Nvme;
        }
        let rotational = fs::read_to_string(disk.join("queue/rotational"));
        match rotational.as_deref().map(str::trim) {
            Ok("1") => Self::Rotational,
            Ok("0") if !is_in(&["/virtual/"]) => Self::SataFlash,
            _ => Self::Unknown,
        }
    }

    /// The costs of the kind. The bounds contain what data sheets and published measurements have, and the models of `seekless-sim` name.
    pub fn costs(self) -> Costs {
        let of = Fact::assumed;
        let (us, ms) = (1e3, 1e6);
        let any = Costs {
            write_byte_ns: of(0.08, 0.25, 2.0),
            read_byte_ns: of(0.05, 0.15, 1.0),
            fill_byte_ns: of(0.1, 0.3, 2.0),
            ..Costs::ASSUMED
        };
        match self {
            Self::Rotational => Costs {
                device_byte_ns: of(3.5, 6.0, 30.0),
                flush_ns: of(2.0 * ms, 10.0 * ms, 20.0 * ms),
                wait_ns: of(50.0 * us, 200.0 * us, 10.0 * ms),
                fetch_byte_ns: of(3.5, 5.5, 12.0),
                stream_byte_ns: of(3.5, 5.5, 12.0),
                seek_ns: of(3.0 * ms, 8.0 * ms, 15.0 * ms),
                scattered_ns: of(1.5 * ms, 5.0 * ms, 10.0 * ms),
                sync_new_ns: of(4.0 * ms, 15.0 * ms, 60.0 * ms),
                grow_byte_ns: of(3.5, 6.0, 15.0),
                ..any
            },
            Self::SataFlash => Costs {
                device_byte_ns: of(1.8, 2.2, 6.0),
                flush_ns: of(50.0 * us, 500.0 * us, 5.0 * ms),
                wait_ns: of(40.0 * us, 80.0 * us, 200.0 * us),
                fetch_byte_ns: of(1.8, 2.2, 4.0),
                stream_byte_ns: of(1.8, 1.95, 3.0),
                seek_ns: of(0.0, 0.0, 50.0 * us),
                scattered_ns: of(5.0 * us, 12.0 * us, 40.0 * us),
                sync_new_ns: of(100.0 * us, 400.0 * us, 5.0 * ms),
                grow_byte_ns: of(1.8, 2.3, 6.0),
                ..any
            },
            Self::Nvme => Costs {
                device_byte_ns: of(0.2, 0.5, 2.0),
                flush_ns: of(5.0 * us, 50.0 * us, 3.0 * ms),
                wait_ns: of(10.0 * us, 70.0 * us, 150.0 * us),
                fetch_byte_ns: of(0.2, 0.4, 1.0),
                stream_byte_ns: of(0.1, 0.25, 0.6),
                seek_ns: of(0.0, 0.0, 50.0 * us),
                scattered_ns: of(1.5 * us, 5.0 * us, 20.0 * us),
                sync_new_ns: of(20.0 * us, 100.0 * us, 3.0 * ms),
                grow_byte_ns: of(0.2, 0.5, 2.0),
                ..any
            },
            Self::Virtual => Costs {
                wait_ns: of(40.0 * us, 150.0 * us, 1.5 * ms),
                fetch_byte_ns: of(0.3, 1.0, 8.0),
                stream_byte_ns: of(0.3, 0.8, 8.0),
                seek_ns: of(0.0, 0.0, 5.0 * ms),
                scattered_ns: of(3.0 * us, 25.0 * us, 350.0 * us),
                sync_new_ns: of(80.0 * us, 400.0 * us, 6.0 * ms),
                grow_byte_ns: of(0.4, 1.2, 9.0),
                ..any
            },
            Self::Remote => Costs {
                device_byte_ns: of(1.0, 9.0, 40.0),
                flush_ns: of(0.2 * ms, 1.0 * ms, 20.0 * ms),
                wait_ns: of(0.1 * ms, 1.0 * ms, 20.0 * ms),
                fetch_byte_ns: of(1.0, 9.0, 40.0),
                stream_byte_ns: of(1.0, 9.0, 40.0),
                seek_ns: of(0.0, 0.0, 15.0 * ms),
                sync_new_ns: of(0.3 * ms, 3.0 * ms, 60.0 * ms),
                grow_byte_ns: of(1.0, 9.0, 40.0),
                ..any
            },
            Self::Unknown => any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::number_text;
    use crate::storage::device::disk_directory;

    #[test]
    fn kind_of_a_device_follows_from_its_place_and_the_disk_of_a_partition() {
        let directory = tempfile::tempdir().unwrap();
        let system = directory.path();
        fs::create_dir_all(system.join("dev/block")).unwrap();
        let disk = |device| disk_directory(system, &number_text(device));
        let of = |device| disk(device).map_or(AssumedDevice::Unknown, |disk| AssumedDevice::of(&disk));
        let table = [
            ("pci0/virtio2/block/vda", "1", AssumedDevice::Virtual),
            ("pci0/ata1/block/sda", "1", AssumedDevice::Rotational),
            ("pci0/ata2/block/sdb", "0", AssumedDevice::SataFlash),
            ("pci0/nvme/nvme0/nvme0n1", "0", AssumedDevice::Nvme),
            ("virtual/block/dm-0", "0", AssumedDevice::Unknown),
            ("virtual/block/dm-1", "1", AssumedDevice::Rotational),
            ("virtual/block/loop0", "1", AssumedDevice::Unknown),
        ];
        for (minor, (place, rotational, kind)) in (0_u64..).zip(table) {
            let disk = system.join("devices").join(place);
            fs::create_dir_all(disk.join("queue")).unwrap();
            fs::write(disk.join("queue/rotational"), format!("{rotational}\n")).unwrap();
            let part = disk.join("part1");
            fs::create_dir(&part).unwrap();
            fs::write(part.join("partition"), "1\n").unwrap();
            for (device, place) in [(2 * minor, disk), (2 * minor + 1, part)] {
                std::os::unix::fs::symlink(place, system.join("dev/block").join(number_text(device))).unwrap();
                assert_eq!(of(device), kind);
            }
        }
        assert_eq!(of(1000), AssumedDevice::Unknown);
    }
}
