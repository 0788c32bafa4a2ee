//! Experiments: what to measure, as TOML, built in or written by a user.
//!
//! An experiment says which methods and commands are compared on which sizes and cache states. It says nothing about
//! rounds, budgets or directories: those belong to a run. The format is described in `docs/experiments.md`.

mod builtin;
mod command;
mod error;
mod expand;
mod filter;
mod format;
mod known;
mod layout;
mod like;
mod published;
mod updates;

use std::path::Path;

use builtin::TEXTS;
pub use error::ExperimentError;
use error::nearest;
pub use filter::filter;
pub use known::KNOWN;
use seekless::method::{Choice, Durability};
use seekless::{Method, Operation};
use seekless_record::{Cache, Column, Command, Contest, Differ, Published, Target, UpdatePattern};

use crate::kernel::Kernel;
pub use crate::layout::Layout;

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it finds out, in one line.
    pub about: String,
    /// What is compared.
    pub contests: Vec<ContestPlan>,
    /// What others published of the same question.
    pub published: Vec<Published>,
    /// The columns in which a document published times by file size.
    pub columns: Vec<Column>,
}

/// Methods and commands to compare, under each of the sizes and cache states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestPlan {
    /// The operation.
    pub operation: Operation,
    /// The methods and plans, distinct, in the order of the file. They may differ in durability, and copies in whether they share
    /// blocks; only equals are ranked together.
    pub methods: Vec<Choice>,
    /// The names under which documents published some of the methods, where the experiment gives them by these.
    pub labels: Vec<(Method, String)>,
    /// The external commands.
    pub commands: Vec<Command>,
    /// The file sizes.
    pub sizes: Vec<Size>,
    /// The states of the page cache.
    pub caches: Vec<Cache>,
    /// Where the second files of a comparison differ; [`Differ::None`] for other operations.
    pub differs: Vec<Differ>,
    /// The device's read-ahead windows to set, in KiB; `None` leaves it as it is.
    pub read_ahead_kib: Vec<Option<u64>>,
    /// The updates; `None` for other operations.
    pub updates: Option<UpdatePattern>,
    /// How the files that are read are laid out. One with pieces has a size of its own.
    pub layouts: Vec<Layout>,
    /// The memory allowed in the cache state `over`, page cache included; half of the files where it is not given.
    pub memory_bytes: Option<u64>,
    /// What a write or copy is made to.
    pub target: Target,
    /// Whether the sizes are what is written in all, in files one after the other, to see how long the device keeps its rate.
    pub sustained: bool,
    /// What is done with the bytes of a read; [`Kernel::None`] for other operations.
    pub kernel: Kernel,
    /// Extra work of the consumer or producer, in nanoseconds per KiB.
    pub work_ns_per_kib: u64,
}

impl ContestPlan {
    /// Methods of an operation that move cold files of a size from start to end. The bytes of a read are counted.
    #[must_use]
    pub fn of(operation: Operation, methods: Vec<Choice>, size: Size) -> Self {
        Self {
            operation,
            methods,
            labels: Vec::new(),
            commands: Vec::new(),
            sizes: vec![size],
            caches: vec![Cache::Cold],
            differs: vec![Differ::None],
            read_ahead_kib: vec![None],
            updates: None,
            layouts: vec![Layout::Dense],
            memory_bytes: None,
            target: Target::Fresh,
            sustained: false,
            kernel: if operation == Operation::Read {
                Kernel::Count
            } else {
                Kernel::None
            },
            work_ns_per_kib: 0,
        }
    }

    /// A contest of it with files of a size, so many of them in a trial. It has no entries, and nothing chosen of what a plan has
    /// several of.
    #[must_use]
    pub fn contest(&self, (size_bytes, files): (u64, u32), durability: Durability) -> Contest {
        Contest {
            operation: self.operation,
            size_bytes,
            files,
            cache: Cache::None,
            target: self.target,
            kernel: self.kernel.name().to_owned(),
            work_ns_per_kib: self.work_ns_per_kib,
            updates: self.updates,
            sustained: self.sustained,
            durability,
            ..Contest::default()
        }
    }
}

/// A file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The lab chooses, by budget, free space and memory; of a layout with pieces it is what these make up.
    Auto,
    /// This many bytes.
    Bytes(u64),
}

impl Experiment {
    /// The names of the built-in experiments.
    #[must_use]
    pub fn builtin_names() -> Vec<&'static str> {
        TEXTS.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in experiment.
    ///
    /// # Errors
    /// [`ExperimentError::Unknown`] with the nearest names.
    pub fn builtin(name: &str) -> Result<Self, ExperimentError> {
        let Some((name, text)) = TEXTS.iter().find(|(known, _)| *known == name) else {
            return Err(ExperimentError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, TEXTS.iter().map(|(known, _)| *known)),
                known: Self::builtin_names(),
            });
        };
        Self::from_toml(text, &format!("experiments/{name}.toml"))
    }

    /// An experiment from a file.
    ///
    /// # Errors
    /// [`ExperimentError`] where it is no regular file, cannot be read, is too large, or is malformed.
    pub fn from_file(path: &Path) -> Result<Self, ExperimentError> {
        Self::from_toml(&format::read(path)?, &path.display().to_string())
    }

    /// An experiment from a text; errors name `origin` as its file.
    ///
    /// # Errors
    /// [`ExperimentError::Malformed`] with line and column.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ExperimentError> {
        format::parse(text, origin)
    }
}
