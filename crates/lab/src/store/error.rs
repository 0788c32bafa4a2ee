//! What the directory of runs refuses, and why.

use std::path::PathBuf;

use seekless_record::DocumentError;

use super::LIMIT_BYTES;

/// Why a document was not found, read, written or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The user has no home directory.
    #[error("there is no home directory")]
    NoHome(#[source] etcetera::HomeDirError),
    /// The system refused.
    #[error("{}: {doing} failed", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A path leads to a directory, a device or the like.
    #[error("{}: is no regular file, so no run: name the JSON file of one", .0.display())]
    NotRegular(PathBuf),
    /// The document is not to be read.
    #[error("{}", path.display())]
    Document {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// Nothing is named so.
    #[error("`{name}` is no run{}", nearest_words(nearest))]
    NoSuch {
        /// The name given.
        name: String,
        /// The IDs that look most like it.
        nearest: Vec<String>,
    },
    /// Several are named so.
    #[error("`{name}` is ambiguous: it matches {} runs: {}; give a longer prefix", matches.len(), first_of(matches))]
    Ambiguous {
        /// The name given.
        name: String,
        /// The IDs that begin or end with it.
        matches: Vec<String>,
    },
    /// The store holds too much to import more: so many bytes.
    #[error("the store holds {} MiB and should hold at most {}: remove runs first", .0 >> 20, LIMIT_BYTES >> 20)]
    Full(u64),
}

fn nearest_words(nearest: &[String]) -> String {
    match nearest {
        [] => ": there are none yet".to_owned(),
        names => format!(": the nearest are {}", names.join(", ")),
    }
}

/// So many names are told.
pub(super) const NAMES_TOLD: usize = 3;

fn first_of(names: &[String]) -> String {
    let told: Vec<&str> = names.iter().take(NAMES_TOLD).map(String::as_str).collect();
    let more = if names.len() > told.len() { ", ..." } else { "" };
    format!("{}{more}", told.join(", "))
}
