//! Methods, and what is asked of them: names of this crate for data of the crates below.

use std::str::FromStr;
use std::{fmt, io};

use seekless_engine::method as engine;
use seekless_engine::update as engine_update;

use crate::Error;

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Bytes of a file reach the program.
    Read,
    /// Bytes of the program reach a file.
    Write,
    /// Bytes of one file reach another.
    Copy,
    /// Bytes of two files are compared, up to the first difference.
    Compare,
    /// Bytes are written to places in a file, whose other bytes stay as they are.
    Update,
}

impl Operation {
    pub(crate) fn engine(self) -> engine::Operation {
        match self {
            Self::Read => engine::Operation::Read,
            Self::Write => engine::Operation::Write,
            Self::Copy => engine::Operation::Copy,
            Self::Compare => engine::Operation::Compare,
            Self::Update => engine::Operation::Update,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.engine().name())
    }
}

/// How bytes are moved or compared: a mechanism with options, as `seekless methods` lists them. Its text is
/// `OPERATION/MECHANISM[,OPTION...]`.
///
/// ```
/// let method: seekless::Method = "read/sync,block=1M".parse()?;
/// assert_eq!(method.to_string(), "read/sync,block=1M");
/// assert!("read/snyc".parse::<seekless::Method>().unwrap_err().to_string().contains("not a method"));
/// # Ok::<(), seekless::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(pub(crate) engine::Method);

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(Error::of_words)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What is on the device when a call that writes returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing for certain: the bytes are in the page cache.
    #[default]
    None,
    /// All bytes: fsync(2) at the end. The name of a new file is durable after its directory is synced, too.
    Fsync,
    /// All bytes after each write: `O_DSYNC`. Only methods that are named, and updates, take it.
    WriteThrough,
    /// All bytes after each write: fdatasync(2). Only methods that are named take it.
    FdatasyncEach,
}

impl Durability {
    pub(crate) fn engine(self) -> engine::Durability {
        match self {
            Self::None => engine::Durability::None,
            Self::Fsync => engine::Durability::Fsync,
            Self::WriteThrough => engine::Durability::WriteThrough,
            Self::FdatasyncEach => engine::Durability::FdatasyncEach,
        }
    }
}

/// Its name, as methods have it: `none`, `fsync`, `write-through`, `fdatasync-each`.
impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.engine().name())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = [Self::None, Self::Fsync, Self::WriteThrough, Self::FdatasyncEach];
        let found = all.into_iter().find(|one| one.to_string() == name);
        found.ok_or_else(|| Error::of_words(io::Error::other(format!("`{name}` is not a durability"))))
    }
}

/// The state of a file after an update that ends early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Safety {
    /// Some changes are in it, and some are not.
    #[default]
    InPlace,
    /// A journal beside it has all changes and the old bytes: an error undoes all changes, and after a crash the command
    /// `seekless update --recover` finishes them.
    Journal,
    /// It is as before: the changes go to a new file that takes its name.
    Replace,
}

impl Safety {
    pub(crate) fn engine(self) -> engine_update::Safety {
        match self {
            Self::InPlace => engine_update::Safety::InPlace,
            Self::Journal => engine_update::Safety::Journal,
            Self::Replace => engine_update::Safety::Replace,
        }
    }
}
