//! The disks that can be simulated: one row of [`MODELS`] each, with its parameters and where they come from.

mod disk;
mod volume;

pub use disk::{Disk, DiskState};
pub use volume::{Volume, VolumeState};

/// A disk that can be simulated.
#[derive(Debug)]
pub struct DiskModel {
    /// Its name, as in `seekless sim start NAME`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// How it moves bytes.
    pub mechanism: DiskMechanism,
    /// What it reports to the kernel.
    pub claims: Claims,
}

/// How a disk moves bytes, with its parameters.
#[derive(Debug)]
pub enum DiskMechanism {
    /// Nothing takes time.
    Null,
    /// A disk with a head.
    Disk(Disk),
    /// A volume of a cloud, with limits and credits.
    Volume(Volume),
}

/// What a disk reports to the kernel, or the kernel sets for it.
#[derive(Debug)]
pub struct Claims {
    /// Whether it reports as rotational.
    pub rotational: bool,
    /// The read-ahead window, in KiB: 128 unless a driver or distribution sets another.
    pub read_ahead_kib: u32,
    /// The unit of addressing, in bytes.
    pub logical_block_bytes: u32,
    /// What it can lose when the power goes: its write cache, in bytes; 0 if it has none.
    pub write_cache_bytes: u64,
}

/// All models.
pub const MODELS: &[DiskModel] = &[
    DiskModel {
        name: "null",
        about: "No delay at all: what the simulator itself costs",
        mechanism: DiskMechanism::Null,
        claims: Claims {
            rotational: false,
            read_ahead_kib: 128,
            logical_block_bytes: 512,
            write_cache_bytes: 64 << 20,
        },
    },
    DiskModel {
        name: "hdd-2009",
        about: "The SATA disk of 2009 in a Pentium 4",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 250_000_000_000,
            rotations_per_minute: 7200,
            outer_bytes_per_second: 32_800_000,
            inner_bytes_per_second: 18_000_000,
            track_seek_ns: 1_000_000,
            average_seek_ns: 8_900_000,
            full_seek_ns: 18_000_000,
            command_ns: 200_000,
            interface_bytes_per_second: 150_000_000,
            segment_count: 16,
            segment_bytes: 512 << 10,
            stream_ahead_bytes: 0,
            write_through_from_bytes: u64::MAX,
            queue_depth: 1,
        }),
        claims: Claims {
            rotational: true,
            read_ahead_kib: 128,
            logical_block_bytes: 512,
            write_cache_bytes: 8 << 20,
        },
    },
];

impl DiskModel {
    /// The model of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}

/// How long `bytes` take.
fn transfer_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second)) as u64
}

/// How many whole bytes are done within `ns`.
fn bytes_within(ns: u64, bytes_per_second: u64) -> u64 {
    (u128::from(ns) * u128::from(bytes_per_second) / 1_000_000_000) as u64
}
