//! The machine of a run, and the storages of its directories.

use std::collections::BTreeMap;

use crate::{Bounds, Interval, Text};

documents! {
    /// The machine and its system.
    #[derive(Default)]
    pub struct Machine {
        /// The host's name.
        pub host: Option<String> => Text::Host,
        /// The operating system's name, as in `Linux`.
        pub system: String => Text::System,
        /// The kernel's release.
        pub kernel: String => Text::Version,
        /// The processor architecture.
        pub architecture: String => Text::Architecture,
        /// The processor's name.
        pub processor: Option<String> => Text::Processor,
        /// How many processors this process may use.
        pub processors: u32,
        /// Memory, in bytes.
        pub memory_bytes: Option<u64> => Bounds::COUNT,
        /// Memory available at the start, in bytes.
        pub memory_available_bytes: Option<u64> => Bounds::COUNT,
        /// Whether the machine is virtual, and under what.
        pub hypervisor: Option<String> => Text::Hypervisor,
        /// The processors' frequency governor.
        pub governor: Option<String> => Text::Governor,
        /// Whether it runs on battery.
        pub on_battery: Option<bool>,
        /// The first processor's cache for data that is nearest to it, in bytes.
        pub level_1_cache_bytes: Option<u64> => Bounds::COUNT,
        /// The next one, in bytes.
        pub level_2_cache_bytes: Option<u64> => Bounds::COUNT,
    }

    /// The storage of a directory or file.
    #[derive(Default)]
    pub struct Storage {
        /// The directory measured, as given.
        pub path: String => Text::Path,
        /// The file system's name, as in `ext4`.
        pub file_system: String => Text::FileSystem,
        /// The mount's options.
        pub mount_options: Option<String> => Text::MountOptions,
        /// The mount point.
        pub mount_point: Option<String> => Text::Private,
        /// The file system's block, in bytes.
        pub block_bytes: Option<u64> => Bounds::COUNT,
        /// Space free for this user at the start, in bytes.
        pub free_bytes: Option<u64> => Bounds::COUNT,
        /// The alignment that direct I/O requires, in bytes: of memory, of offsets.
        pub direct_alignment_bytes: Option<(u32, u32)>,
        /// The block device, where there is one.
        pub device: Option<Device>,
        /// The time of a cold direct read of 4 KiB at a random place, minus that of a sequential one, in nanoseconds.
        pub alternating_ns: Option<f64> => Bounds::NANOSECONDS_DIFFERENCE,
        /// What calls, bytes and waits cost; `None` if only existing files were measured.
        pub costs: Option<StorageCosts>,
        /// Facts that only some storages have, by name.
        pub facts: BTreeMap<String, String> => Text::Private,
        /// Identifies it across runs; `None` in documents of early builds.
        pub id: Option<StorageId>,
    }

    /// What calls, bytes and waits cost on a storage, in nanoseconds, each with the smallest and the largest of some measurements.
    pub struct StorageCosts {
        /// A write call, without its bytes.
        pub write_call_ns: Interval => Bounds::NANOSECONDS,
        /// A byte that is written to the page cache.
        pub write_byte_ns: Interval => Bounds::NANOSECONDS,
        /// A byte that is written to the device.
        pub device_byte_ns: Interval => Bounds::NANOSECONDS,
        /// Making a few bytes durable.
        pub flush_ns: Interval => Bounds::NANOSECONDS,
        /// A call that reads from the page cache, without its bytes.
        pub read_call_ns: Interval => Bounds::NANOSECONDS,
        /// A byte that is read from the page cache.
        pub read_byte_ns: Interval => Bounds::NANOSECONDS,
        /// A byte that is written to a new page of the page cache.
        pub fill_byte_ns: Interval => Bounds::NANOSECONDS,
        /// A byte that is read from the device in large requests.
        pub fetch_byte_ns: Interval => Bounds::NANOSECONDS,
        /// A block at a scattered place of the device, with several in flight.
        pub scattered_ns: Interval => Bounds::NANOSECONDS,
    }

    /// Identifies a storage across runs. If any of these differs, it is another storage, or behaves like another.
    #[derive(Default, Eq, Hash)]
    pub struct StorageId {
        /// The file system's type, as in `ext4`.
        pub file_system: String => Text::FileSystem,
        /// The file system's UUID, where it has one.
        pub uuid: Option<String> => Text::Private,
        /// The devices, from the one that is mounted down to the disks.
        pub devices: Vec<DeviceId>,
        /// The kernel's major and minor version, as in `6.18`.
        pub kernel: String => Text::Version,
        /// The read-ahead window of the device that is mounted, in KiB.
        pub read_ahead_kib: Option<u64> => Bounds::COUNT,
    }

    /// Identifies a device.
    #[derive(Default, Eq, Hash)]
    pub struct DeviceId {
        /// The kernel's name, as in `vda`, which may change with the next start.
        pub name: String => Text::Device,
        /// The model, if it reports one.
        pub model: Option<String> => Text::Model,
        /// The serial number of a disk or the identifier of a volume, if it reports one.
        pub serial: Option<String> => Text::Private,
    }

    /// A block device, with its claims.
    #[derive(Default)]
    pub struct Device {
        /// The kernel's name, as in `vda`.
        pub name: String => Text::Device,
        /// The disks below (a loop's backing file's disk, the members of an array).
        pub below: Vec<String> => Text::Device,
        /// The model, if it reports one.
        pub model: Option<String> => Text::Model,
        /// Whether it reports as rotational. Recorded, never trusted.
        pub claims_rotational: Option<bool>,
        /// Whether it is a virtual disk.
        pub is_virtual: Option<bool>,
        /// The I/O scheduler.
        pub scheduler: Option<String> => Text::Scheduler,
        /// The read-ahead window, in KiB.
        pub read_ahead_kib: Option<u64> => Bounds::COUNT,
        /// The logical block, in bytes.
        pub logical_block_bytes: Option<u64> => Bounds::COUNT,
        /// The largest request, in KiB.
        pub max_request_kib: Option<u64> => Bounds::COUNT,
        /// The write cache, as in `write back`.
        pub write_cache: Option<String> => Text::WriteCache,
    }
}

/// Begins the name of a disk that does not exist, `simulated-MODEL`. What was measured on it says nothing of a real one.
pub const SIMULATED: &str = "simulated";

impl StorageCosts {
    /// All of them.
    pub fn all(&mut self) -> [&mut Interval; 9] {
        [
            &mut self.write_call_ns,
            &mut self.write_byte_ns,
            &mut self.device_byte_ns,
            &mut self.flush_ns,
            &mut self.read_call_ns,
            &mut self.read_byte_ns,
            &mut self.fill_byte_ns,
            &mut self.fetch_byte_ns,
            &mut self.scattered_ns,
        ]
    }

    /// The (lower) median of all samples, of each cost and of its bounds, so that one disturbed sample decides nothing; `None` of no
    /// samples.
    #[must_use]
    pub fn pooled(mut samples: Vec<Self>) -> Option<Self> {
        let mut pooled = samples.first()?.clone();
        for (place, cost) in pooled.all().into_iter().enumerate() {
            let each: Vec<Interval> = samples.iter_mut().map(|sample| *sample.all()[place]).collect();
            let middle = |of: fn(&Interval) -> f64| {
                let mut figures: Vec<f64> = each.iter().map(of).collect();
                figures.sort_by(f64::total_cmp);
                figures[(figures.len() - 1) / 2]
            };
            (cost.low, cost.median, cost.high) =
                (middle(|one| one.low), middle(|one| one.median), middle(|one| one.high));
        }
        Some(pooled)
    }
}

impl StorageId {
    /// Whether it is on a simulated disk.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.devices.iter().any(|device| device.name.starts_with(SIMULATED))
    }

    /// Whether it is the same storage, whatever the kernel calls its devices this time.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.file_system == other.file_system
            && self.uuid == other.uuid
            && self.kernel == other.kernel
            && self.read_ahead_kib == other.read_ahead_kib
            && self.has_same_devices(other)
    }

    /// Whether these are the same devices. A disk with a serial number, and a partition of it, may have another name after each start.
    #[must_use]
    pub fn has_same_devices(&self, other: &Self) -> bool {
        self.devices.len() == other.devices.len()
            && (0..self.devices.len()).all(|at| self.device(at) == other.device(at))
    }

    /// What identifies a device: the lasting part of its name, its model and its serial number.
    fn device(&self, at: usize) -> [Option<&str>; 3] {
        let DeviceId { name, model, serial } = &self.devices[at];
        // A partition is followed by its disk, with whose name its own begins.
        let disk = self.devices.get(at + 1).filter(|disk| disk.serial.is_some());
        let number = disk.and_then(|disk| name.strip_prefix(disk.name.as_str()));
        let lasting = match serial {
            Some(_) if !name.starts_with(SIMULATED) => None,
            _ => Some(number.unwrap_or(name)),
        };
        [lasting, model.as_deref(), serial.as_deref()]
    }
}

impl Device {
    /// The model of the simulated disk that it lies on, if so.
    #[must_use]
    pub fn simulated(&self) -> Option<&str> {
        let mut models = self
            .below
            .iter()
            .filter_map(|name| name.strip_prefix(SIMULATED)?.strip_prefix('-'));
        models.next()
    }
}

/// The driver's part of a device's name: `nvme` of `nvme0n1p2`.
#[must_use]
pub fn driver(device: &str) -> Option<&'static str> {
    const DRIVERS: [&str; 17] = [
        "nvme", "mmcblk", "loop", "xvd", "zram", "pmem", "drbd", "nbd", "rbd", "ram", "dm", "md", "vd", "sd", "hd",
        "sr", SIMULATED,
    ];
    DRIVERS.into_iter().find(|driver| device.starts_with(driver))
}

/// The memory that the system reports changes slightly with the kernel.
const MEMORY_PART: f64 = 0.02;

/// Whether two sizes of memory, in bytes, may be those of one machine.
#[must_use]
pub fn is_same_memory(one: u64, other: u64) -> bool {
    one.abs_diff(other) as f64 <= MEMORY_PART * one.max(other) as f64
}

impl StorageId {
    /// The kernel's version of its release: `6.18` of `6.18.44-amd64`; the whole where it does not begin with two numbers.
    #[must_use]
    pub fn kernel_of(release: &str) -> String {
        let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        let mut parts = release.split(['.', '-']);
        match (parts.next(), parts.next()) {
            (Some(major), Some(minor)) if is_number(major) && is_number(minor) => format!("{major}.{minor}"),
            _ => release.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_known_by_its_serial_number_and_not_by_its_name() {
        let on = |names: [&str; 2], serial: Option<&str>| {
            let [partition, disk] = names.map(|name| DeviceId {
                name: name.to_owned(),
                ..DeviceId::default()
            });
            let serial = serial.map(str::to_owned);
            StorageId {
                devices: vec![partition, DeviceId { serial, ..disk }],
                ..StorageId::default()
            }
        };
        let disk = on(["nvme0n1p2", "nvme0n1"], Some("A"));
        assert!(disk.is_same(&on(["nvme1n1p2", "nvme1n1"], Some("A"))));
        for other in [
            on(["nvme0n1p3", "nvme0n1"], Some("A")),
            on(["nvme0n1p2", "nvme0n1"], Some("B")),
            on(["nvme0n1p2", "nvme0n1"], None),
        ] {
            assert!(!disk.is_same(&other), "{other:?}");
        }
        assert!(!on(["sda1", "sda"], None).is_same(&on(["sdb1", "sdb"], None)));
        let simulated = |model: &str| on(["loop", model], Some("A"));
        assert!(!simulated("simulated-null").is_same(&simulated("simulated-hdd-2009")));
    }

    #[test]
    fn a_kernel_is_known_by_two_numbers() {
        for (kernel, short) in [
            ("6.18.44-amd64", "6.18"),
            ("25.1.0", "25.1"),
            ("14.2-RELEASE", "14.2"),
            ("odd", "odd"),
        ] {
            assert_eq!(StorageId::kernel_of(kernel), short);
        }
    }
}
