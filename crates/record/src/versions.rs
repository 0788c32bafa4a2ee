//! Reading and writing documents: bounded, versioned, strict.

use crate::Run;

/// The version that this crate writes.
pub const CURRENT_VERSION: u32 = 1;

/// The largest document that is read, in bytes: a run of hours has some 100,000 trials of about 700 bytes each.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// Why a document was not read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is larger than [`MAX_DOCUMENT_BYTES`].
    #[error("the document has {0} bytes; at most {MAX_DOCUMENT_BYTES} are read")]
    TooLarge(usize),
    /// It was written by a newer seekless.
    #[error("the document has version {found}; this seekless reads up to {CURRENT_VERSION}: use a newer one")]
    Newer {
        /// The version found.
        found: u64,
    },
    /// It names no version, so it is no document of seekless.
    #[error("the document names no version: it is not a run of seekless")]
    NoVersion,
    /// It is not well-formed, or not of the form that its version says.
    #[error("the document is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// Reads a run, of any version up to the current one.
///
/// # Errors
/// [`DocumentError`] where it is too large, newer, or damaged.
pub fn from_json(text: &[u8]) -> Result<Run, DocumentError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: Option<u64>,
    }
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(DocumentError::TooLarge(text.len()));
    }
    let Versioned { version } = serde_json::from_slice(text)?;
    match version {
        None => Err(DocumentError::NoVersion),
        Some(found) if found > u64::from(CURRENT_VERSION) => Err(DocumentError::Newer { found }),
        Some(_) => Ok(serde_json::from_slice(text)?),
    }
}

/// Writes a run, indented, with a newline at its end.
///
/// # Errors
/// [`DocumentError::Damaged`] where a figure cannot be written as JSON; a finite run always can.
pub fn to_json(run: &Run) -> Result<String, DocumentError> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}
