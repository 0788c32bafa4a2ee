//! Errors of the directory of runs.

use std::path::PathBuf;

use seekless_engine::profile::MOST_BORROWED;
use seekless_record::DocumentError;

use super::LIMIT_BYTES;

/// Why a document was not found, read, written or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The user has no home directory.
    #[error("the home directory is unknown")]
    NoHome(#[source] etcetera::HomeDirError),
    /// The system refused.
    #[error("{}: cannot {doing}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The path does not name a regular file.
    #[error("{}: not a regular file: name the JSON file of a run", .0.display())]
    NotRegular(PathBuf),
    /// The document cannot be read.
    #[error("{}", path.display())]
    Document {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// No run has this name.
    #[error("`{name}` is not a run{}", nearest_words(nearest))]
    NoSuch {
        /// The name given.
        name: String,
        /// The most similar IDs.
        nearest: Vec<String>,
    },
    /// Several runs match this name.
    #[error("`{name}` is ambiguous: it matches {} runs: {}; give a longer prefix", matches.len(), first_of(matches))]
    Ambiguous {
        /// The name given.
        name: String,
        /// The IDs that begin or end with it.
        matches: Vec<String>,
    },
    /// The saved runs take this many bytes, too many to import more.
    #[error("the saved runs take {} MiB; importing stops at {} MiB: remove runs first", .0 >> 20, LIMIT_BYTES >> 20)]
    Full(u64),
    /// A directory has as many imported profiles as are read.
    #[error("{}: has {MOST_BORROWED} profiles, and no more are read: remove some first", .0.display())]
    FullOfProfiles(PathBuf),
}

fn nearest_words(nearest: &[String]) -> String {
    match nearest {
        [] => ": no runs are saved yet".to_owned(),
        [name] => format!(": the nearest is {name}"),
        names => format!(": the nearest are {}", names.join(", ")),
    }
}

/// How many names an error gives.
pub(super) const NAMES_TOLD: usize = 3;

fn first_of(names: &[String]) -> String {
    let told: Vec<&str> = names.iter().take(NAMES_TOLD).map(String::as_str).collect();
    let more = if names.len() > told.len() { ", ..." } else { "" };
    format!("{}{more}", told.join(", "))
}
