//! What only copying meets.

use std::path::PathBuf;

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Source and target are one file.
    #[error("{}: source and target are the same file", path.display())]
    SameFile {
        /// The target's path.
        path: PathBuf,
    },
}
