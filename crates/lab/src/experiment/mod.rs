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
mod like;
mod published;
mod requests;
mod syntax;
mod updates;
mod words;

use std::path::Path;

use builtin::TEXTS;
pub use error::ExperimentError;
use error::nearest;
pub use expand::glob;
pub use filter::filter;
pub(crate) use format::MOST_FILES;
pub use format::parse_toml;
pub use known::KNOWN;
pub use requests::Requests;
use seekless_engine::Operation;
use seekless_engine::method::Choice;
use seekless_record::{Cache, Column, Contest, Differ, Entry, EntryVerdict, Published, Subject};
pub use words::{Checked, FormatProblem, one_of, problem};

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
#[derive(Clone, Debug, PartialEq)]
pub struct ContestPlan {
    /// What its contests have in common, with all entries, distinct, in the order of the file. They may differ in durability, and
    /// copies in whether they share blocks; only equals are ranked together. The memory allowed is that of the cache state `over`,
    /// half of the files where it is not given.
    pub common: Contest,
    /// The file sizes: of a sustained write, of all that is written.
    pub sizes: Vec<Size>,
    /// How many files a trial has; by their size where it is not given.
    pub files: Option<u32>,
    /// The states of the page cache.
    pub caches: Vec<Cache>,
    /// Where the second files of a comparison differ; [`Differ::None`] for other operations.
    pub differs: Vec<Differ>,
    /// The device's read-ahead windows to set, in KiB; `None` leaves it as it is.
    pub read_ahead_kib: Vec<Option<u64>>,
    /// How the files that are read are laid out. One with pieces has a size of its own.
    pub layouts: Vec<Layout>,
}

impl ContestPlan {
    /// Methods of an operation that move cold files of a size from start to end. The bytes of a read are counted.
    #[must_use]
    pub fn of(operation: Operation, methods: Vec<Choice>, size: Size) -> Self {
        let kernel = if matches!(operation, Operation::Read | Operation::Scan) {
            Kernel::Count
        } else {
            Kernel::None
        };
        let entries = methods.into_iter().map(|choice| entry(choice.into(), None));
        Self {
            common: Contest {
                operation,
                cache: Cache::None,
                kernel: kernel.name().to_owned(),
                entries: entries.collect(),
                ..Contest::default()
            },
            sizes: vec![size],
            files: None,
            caches: vec![Cache::Cold],
            differs: vec![Differ::None],
            read_ahead_kib: vec![None],
            layouts: vec![Layout::Dense],
        }
    }

    /// The methods and plans among the entries.
    pub fn methods(&self) -> impl Iterator<Item = Choice> {
        self.common.entries.iter().filter_map(Entry::choice)
    }
}

/// An entry without measurements.
pub(crate) fn entry(subject: Subject, label: Option<String>) -> Entry {
    Entry {
        subject,
        label,
        verdict: EntryVerdict::Measured,
        summary: None,
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

    /// An experiment from a file. All its commands must be installed, except optional ones.
    ///
    /// # Errors
    /// [`ExperimentError`] where it is not a regular file, cannot be read, is too large, or is malformed.
    pub fn from_file(path: &Path) -> Result<Self, ExperimentError> {
        format::parse(&format::read(path)?, &path.display().to_string(), command::is_there)
    }

    /// An experiment from a text, whose commands may be missing; errors name `origin` as its file.
    ///
    /// # Errors
    /// [`ExperimentError::Malformed`] with line and column.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ExperimentError> {
        format::parse(text, origin, |_| true)
    }
}
