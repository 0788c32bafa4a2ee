//! The disks that can be simulated: one row of [`MODELS`] each, with its parameters and where they come from.

mod disk;
mod flash;
mod shingled;
mod table;
mod volume;

use serde::Serialize;
use serde_json::Value;

pub use disk::{Disk, DiskState};
pub use flash::{Flash, FlashState};
pub use shingled::Shingled;
pub use table::MODELS;
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
    /// Where its parameters come from: the names of some, and their source.
    pub sources: &'static [(&'static str, &'static str)],
}

/// How a disk moves bytes, with its parameters.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum DiskMechanism {
    /// Nothing takes time.
    Null,
    /// A disk with a head.
    Disk(Disk),
    /// Flash.
    Flash(Flash),
    /// A volume of a cloud, with limits and credits.
    Volume(Volume),
}

/// What a disk reports to the kernel, or the kernel sets for it.
#[derive(Clone, Copy, Debug)]
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

/// A parameter of a model, as a table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the field; its end is the unit.
    pub name: String,
    /// The value, in that unit; `None`: off.
    pub value: Option<u64>,
    /// Where it comes from.
    pub source: &'static str,
}

impl DiskModel {
    /// The model of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// All parameters, in the order of the fields.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        if let Ok(Value::Object(fields)) = serde_json::to_value(&self.mechanism) {
            parameters.extend(fields);
        }
        parameters.push(("write_cache_bytes".to_owned(), self.claims.write_cache_bytes.into()));
        let source_of = |name: &str| {
            let named = self
                .sources
                .iter()
                .find(|(names, _)| names.split_whitespace().any(|known| known == name));
            named.map_or("", |(_, source)| *source)
        };
        let parameter = |(name, value): (String, Value)| Parameter {
            source: source_of(&name),
            value: value.as_u64().filter(|value| *value < u64::MAX),
            name,
        };
        parameters.into_iter().map(parameter).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_one_source_and_every_source_a_parameter() {
        for model in MODELS {
            let mut named: Vec<_> = model
                .sources
                .iter()
                .flat_map(|(names, _)| names.split_whitespace())
                .collect();
            let mut known: Vec<_> = model.parameters().into_iter().map(|parameter| parameter.name).collect();
            named.sort_unstable();
            known.sort_unstable();
            assert_eq!(named, known, "{}", model.name);
        }
    }
}
