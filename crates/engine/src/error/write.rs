//! What only writing meets.

use std::io;
use std::path::PathBuf;

use seekless_method::Method;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The producer could not make its bytes.
    #[error("{}: the bytes at {offset} could not be produced, so {method} ended", path.display())]
    Producer {
        /// The file that was being written.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Where the bytes belong.
        offset: u64,
        /// The producer's reason.
        source: io::Error,
    },
}
