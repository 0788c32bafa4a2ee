//! The algebra of methods: what a method is, how it is written, and which there are.
//!
//! A method is a mechanism of an operation with options. The mechanisms come from the tables of the operations'
//! folders; nothing here knows how any of them moves bytes.

#[macro_use]
mod words;

mod accepts;
mod alias;
mod comparing;
mod enumerate;
mod options;
mod parse;
mod size;
mod updating;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use accepts::Accepts;
pub use alias::{ALIASES, Alias};
pub use comparing::{Comparing, Order};
pub use enumerate::{BLOCKS_2014, mechanisms, variants};
pub use options::{CachePolicy, Durability, Hint, Options, Preallocate, differing_options};
pub use parse::ParseError;
pub use size::{format_size, parse_size};
pub use updating::UpdateOrder;

use crate::compare::PrepareCompare;
use crate::copy::PrepareCopy;
use crate::read::PrepareRead;
use crate::update::PrepareUpdate;
use crate::write::PrepareWrite;

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes of a file reach a consumer.
    Read,
    /// Bytes of a producer reach a file.
    Write,
    /// Bytes of one file reach another.
    Copy,
    /// Bytes of two files are looked at together, up to the first difference.
    Compare,
    /// A batch of bytes reaches places in a file that stays as it is elsewhere.
    Update,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Copy, Self::Compare, Self::Update];

    /// Its word in a method's text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Compare => "compare",
            Self::Update => "update",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A system that seekless knows by name. Others get what is portable.
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

/// How bytes move in one operation: one file of the operation's folder and its line in that folder's table.
pub struct Mechanism {
    /// The operation.
    pub operation: Operation,
    /// Its word in a method's text.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The options it takes, with their defaults.
    pub accepts: Accepts,
    /// Whether work on the bytes overlaps moving them.
    pub overlapping: bool,
    /// Where it exists.
    pub platforms: &'static [Platform],
    /// Among equally fast methods the one with the smallest rank is recommended: how much there is to get wrong.
    pub simplicity_rank: u32,
    pub(crate) prepare: Prepare,
}

impl Mechanism {
    /// Whether it exists on this platform at all.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.platforms.contains(&Platform::HERE)
    }
}

/// The way into a mechanism, by operation.
pub(crate) enum Prepare {
    Read(PrepareRead),
    Write(PrepareWrite),
    Copy(PrepareCopy),
    Compare(PrepareCompare),
    Update(PrepareUpdate),
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        (self.operation, self.name) == (other.operation, other.name)
    }
}

impl Eq for Mechanism {}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operation, self.name)
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
        let options = mechanism.accepts.complete(mechanism, options)?;
        Ok(Self { mechanism, options })
    }

    /// A method that the program itself names.
    ///
    /// # Panics
    /// Where the text is no method, which any test of the caller shows.
    #[must_use]
    pub fn known(text: &'static str) -> Self {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.mechanism.operation
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &'static Mechanism {
        self.mechanism
    }

    /// The options, complete.
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
        self.mechanism.simplicity_rank * 16 + self.options.count_departures()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mechanism.operation, self.mechanism.name)?;
        self.options.write_text(self.mechanism, f)
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
