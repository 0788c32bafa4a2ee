//! The disks that can be simulated: a file in `models/` each, with its parameters, where they come from, and what was published
//! about it.

mod disk;
mod flash;
mod published;
mod shingled;
mod volume;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::{Table, Value};

pub use disk::{Disk, DiskState};
pub use flash::{Flash, FlashState};
pub use published::{ProgramRequests, Publication, PublishedFigure};
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
    /// Its parameters as a table shows them.
    pub parameters: Vec<Parameter>,
    /// What was published about it.
    pub published: Vec<Publication>,
}

/// How a disk moves bytes, with its parameters.
#[derive(Debug)]
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
    /// Whether its host flushes that cache. If not, as systems of 2008, the drive says that it has none.
    pub is_flushed: bool,
}

/// What of a model's file is no field of its mechanism.
const OF_CLAIMS: [&str; 2] = ["write_cache_bytes", "flushes"];

/// A parameter of a model, as a table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the field; its end is the unit.
    pub name: String,
    /// The value, in that unit.
    pub value: u64,
    /// Where it comes from.
    pub source: String,
}

/// A model as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    about: String,
    mechanism: MechanismName,
    parameters: BTreeMap<String, (u64, String)>,
    #[serde(default)]
    published: Vec<Publication>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum MechanismName {
    Null,
    Disk,
    Flash,
    Volume,
}

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../models/", $name, ".toml")))),*]
    };
}

const FILES: [(&str, &str); 13] = files! {
    "hdd-2003" "hdd-2008" "raptor-2008" "thumb-2008" "ssd-2008" "hdd-2009" "hdd-2016" "ssd-2016"
    "hdd-nas" "hdd-smr" "ssd-sata" "cloud-burst" "null"
};

/// All models.
pub static MODELS: LazyLock<Vec<DiskModel>> = LazyLock::new(|| {
    let read = |(name, text)| DiskModel::read(name, text).unwrap_or_else(|error| panic!("the model {name}: {error}"));
    FILES.into_iter().map(read).collect()
});

impl DiskModel {
    /// The model of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    fn read(name: &'static str, text: &str) -> Result<Self, toml::de::Error> {
        let file: ModelFile = toml::from_str(text)?;
        let known = |name: &str| file.parameters.get(name).map_or(0, |(value, _)| *value);
        let claims = Claims {
            rotational: matches!(file.mechanism, MechanismName::Disk),
            read_ahead_kib: 128,
            logical_block_bytes: 512,
            write_cache_bytes: known("write_cache_bytes"),
            is_flushed: file.parameters.get("flushes").is_none_or(|(value, _)| *value > 0),
        };
        let fields = file
            .parameters
            .iter()
            .filter(|(name, _)| !OF_CLAIMS.contains(&name.as_str()));
        let fields: Table = fields
            .map(|(name, (value, _))| (name.clone(), Value::Integer(value.cast_signed())))
            .collect();
        let mechanism = match file.mechanism {
            MechanismName::Null => DiskMechanism::Null,
            MechanismName::Disk => DiskMechanism::Disk(fields.try_into()?),
            MechanismName::Flash => DiskMechanism::Flash(fields.try_into()?),
            MechanismName::Volume => DiskMechanism::Volume(fields.try_into()?),
        };
        let parameter = |(name, (value, source))| Parameter { name, value, source };
        Ok(Self {
            name,
            about: file.about.leak(),
            mechanism,
            claims,
            parameters: file.parameters.into_iter().map(parameter).collect(),
            published: file.published,
        })
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
    fn models_are_listed_and_parameters_have_a_source() {
        let directory = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/models")).unwrap();
        let mut files: Vec<_> = directory
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut names: Vec<_> = MODELS.iter().map(|model| format!("{}.toml", model.name)).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
        for model in MODELS.iter() {
            let are_sourced = model.parameters.iter().all(|parameter| !parameter.source.is_empty());
            assert!(are_sourced, "{}", model.name);
        }
    }

    #[test]
    fn a_parameter_that_no_mechanism_has_is_refused() {
        let text = "about = \"\"\nmechanism = \"volume\"\n[parameters]\nseek_ns = [1, \"a\"]\n";
        let error = DiskModel::read("test", text).unwrap_err().to_string();
        assert!(error.contains("unknown field `seek_ns`"), "{error}");
    }
}
