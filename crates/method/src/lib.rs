//! What a method is, as data: an operation, a mechanism, and options. Its text parses and prints.
//!
//! Mechanisms are rows of [`MECHANISMS`], options are rows of [`OPTIONS`]. How a mechanism moves bytes is in the crate
//! `seekless`.

#[macro_use]
mod words;

mod accepted;
mod accepts;
mod alias;
mod choice;
mod error;
mod mechanism;
mod options;
mod parse;
mod size;
mod visible;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use accepted::Accepted;
pub use accepts::variants;
pub use alias::{ALIASES, Alias};
pub use choice::{Choice, PlannedChoice};
pub use error::{ParseError, did_you_mean, nearest};
pub use mechanism::{
    CompareMechanism, CopyMechanism, MECHANISMS, Mechanism, MechanismId, ReadMechanism, ScanMechanism, UpdateMechanism,
    WriteMechanism,
};
pub use options::{
    AccessPattern, CachePolicy, Differ, Durability, Hint, Number, OPTIONS, OptionId, OptionRow, Options, Order,
    Preallocate, Setting, Tried, UpdateOrder, Value, differing_options,
};
pub use size::{format_size, parse_size};
pub use visible::visible;

/// Increased whenever a mechanism moves bytes in another way, so that times from before are no longer comparable.
pub const REVISION: u32 = 1;

words! {
    /// What is done with a file.
    #[derive(Default)]
    Operation {
        /// Bytes of a file reach a consumer.
        #[default]
        Read = "read",
        /// Bytes of a producer reach a file.
        Write = "write",
        /// Bytes of one file reach another.
        Copy = "copy",
        /// Bytes of two files are compared, up to the first difference.
        Compare = "compare",
        /// Bytes are written to places in a file, whose other bytes stay as they are.
        Update = "update",
        /// The bytes of many small files reach consumers.
        Scan = "scan",
    }
}

/// A system that seekless knows. On others, only portable methods exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Any other unix.
    Unix,
}

impl Platform {
    /// The platform this program runs on.
    pub const HERE: Self = if cfg!(target_os = "linux") {
        Self::Linux
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Unix
    };

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
            Self::Unix => "other unix",
        }
    }
}

/// A mechanism with options. Its text, as in `read/sync,direct,block=1M`, is canonical: equal methods print alike, and
/// what prints parses to the same method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    mechanism: &'static Mechanism,
    options: Options,
}

impl Method {
    /// A method of the mechanism with these options; a block, depth or thread count that is left out gets the
    /// mechanism's default.
    ///
    /// # Errors
    /// [`ParseError`] where the mechanism does not take an option or its value.
    pub fn new(mechanism: &'static Mechanism, options: Options) -> Result<Self, ParseError> {
        let options = mechanism.complete(options)?;
        Ok(Self { mechanism, options })
    }

    /// A method that the program itself names.
    ///
    /// # Panics
    /// If the text is not a method, which any test of the caller shows.
    #[must_use]
    pub fn known(text: &'static str) -> Self {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The method of a mechanism with all defaults.
    ///
    /// # Panics
    /// Never: every mechanism takes its own defaults, as a test shows.
    #[must_use]
    pub fn plain(mechanism: &'static Mechanism) -> Self {
        Self::new(mechanism, Options::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// This method with another value of an option.
    ///
    /// # Errors
    /// [`ParseError`] where the mechanism does not take it.
    pub fn with(&self, setting: impl Into<Setting>) -> Result<Self, ParseError> {
        Self::new(self.mechanism, self.options.with(setting))
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.mechanism.operation
    }

    /// The mechanism.
    #[inline]
    #[must_use]
    pub fn mechanism(&self) -> &'static Mechanism {
        self.mechanism
    }

    /// The options, complete.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether work on the bytes overlaps moving them.
    #[must_use]
    pub fn is_overlapping(&self) -> bool {
        self.mechanism.overlapping
    }

    /// How much there is to get wrong: the mechanism's rank, then one for each option that is not the default.
    #[must_use]
    pub fn simplicity_rank(&self) -> u32 {
        self.mechanism.simplicity_rank * 16 + self.options.count_complications()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.mechanism)?;
        for row in OPTIONS {
            if self.mechanism.is_named_with(row.id) {
                write!(f, "={}", self.options.threads())?;
            } else if let Some(value) = self
                .options
                .get(row.id)
                .filter(|value| !self.mechanism.is_implied(row, *value))
            {
                write!(f, ",{}", row.text(value))?;
            }
        }
        Ok(())
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
