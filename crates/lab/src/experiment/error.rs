//! Errors of experiments, and where in the text they are.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use seekless_engine::method::{self, did_you_mean};

/// The largest file that is read; the largest built-in one has 3 KiB.
pub(super) const LIMIT_BYTES: u64 = 1 << 20;

/// Why there is no such experiment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// No built-in experiment has this name.
    #[error("`{name}` is not an experiment{}; the built-in experiments are {}", did_you_mean(nearest), known.join(", "))]
    Unknown {
        /// The name given.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
        /// The names of all built-in experiments.
        known: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("{}: cannot read the experiment", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path does not name a regular file.
    #[error("{}: not a regular file; an experiment is a TOML file", .0.display())]
    NotRegular(PathBuf),
    /// The file is longer than any experiment.
    #[error("{}: too large ({bytes} bytes); an experiment has at most {LIMIT_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The text is not valid TOML, or not an experiment.
    #[error("{origin}:{line}:{column}: {message}")]
    Malformed {
        /// The file, or another origin of the text.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A run names something that this version does not have.
    #[error("cannot repeat the run: this version of seekless does not have {0}")]
    NotInThisVersion(String),
    /// A glob matches nothing that would be measured.
    #[error("`{glob}` matches no method of the experiment{}", did_you_mean(nearest))]
    NoMatch {
        /// The glob.
        glob: String,
        /// Names that look like it.
        nearest: Vec<String>,
    },
    /// Not a valid glob.
    #[error("`{glob}` is not a valid glob: {message}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Up to three names that look like the one given, the nearest first; equally near ones keep their order.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    method::nearest(given, names.collect::<BTreeSet<_>>())
}
