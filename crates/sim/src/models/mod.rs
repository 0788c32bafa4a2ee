//! The disks that can be simulated: one row of [`MODELS`] each, with its parameters and where they come from.

mod volume;

pub use volume::{Volume, VolumeState};

/// A disk that can be simulated.
#[derive(Debug)]
pub struct Model {
    /// Its name, as in `seekless sim start NAME`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// How it moves bytes.
    pub mechanism: Mechanism,
    /// What it reports to the kernel.
    pub claims: Claims,
}

/// How a disk moves bytes, with its parameters.
#[derive(Debug)]
pub enum Mechanism {
    /// Nothing takes time.
    Null,
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
pub const MODELS: &[Model] = &[Model {
    name: "null",
    about: "No delay at all: what the simulator itself costs",
    mechanism: Mechanism::Null,
    claims: Claims {
        rotational: false,
        read_ahead_kib: 128,
        logical_block_bytes: 512,
        write_cache_bytes: 64 << 20,
    },
}];

impl Model {
    /// The model of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}
