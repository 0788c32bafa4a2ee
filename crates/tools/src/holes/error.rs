//! Errors of a file: its path, what was tried, the reason, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use seekless::error::NotAlone;

use super::held::Privilege;

/// Why a file was not shown, dug, punched or filled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}: cannot {action}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A flag protects the file.
    #[error("{}: {protection}; nothing was changed", path.display())]
    Protected {
        /// The file.
        path: PathBuf,
        /// Which flag, and how to clear it.
        protection: &'static str,
    },
    /// Changing the file would remove a privilege from it.
    #[error("{}: {}", path.display(), would_lose(*privilege))]
    Privileged {
        /// The file.
        path: PathBuf,
        /// Which privilege.
        privilege: Privilege,
    },
    /// It is not a regular file.
    #[error("{}: is {kind}, not a regular file", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a FIFO`.
        kind: &'static str,
    },
    /// The system or the file system lacks a feature.
    #[error("{}: {reason}; nothing was changed", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// There is not enough free space to fill its holes.
    #[error(
        "{}: {} MiB needed to fill the holes, {} MiB free; nothing was allocated",
        path.display(), needed_bytes.div_ceil(1 << 20), free_bytes >> 20
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What all holes together would take.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Blocks could not be allocated for its holes.
    #[error(
        "{}: cannot allocate blocks for the holes; {}",
        path.display(),
        if *is_undone { "the holes are unchanged" } else { "some holes may have blocks now" }
    )]
    NotFilled {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// Whether the blocks that were already allocated are free again.
        is_undone: bool,
    },
    /// A lease would not keep other processes out.
    #[error("{}: other processes cannot be kept out; nothing was changed", path.display())]
    Shared {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: NotAlone,
    },
    /// Another process has the file open or mapped.
    #[error("{}: in use{}; close it and retry", path.display(), by(holders))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The processes that have it open, as far as this user can see.
        holders: Vec<String>,
    },
    /// Another process opened the file meanwhile.
    #[error("{}: stopped: another process opened it; no byte was changed. Retry when it is not in use", path.display())]
    Wanted {
        /// The file.
        path: PathBuf,
    },
    /// The range to punch is not in the file.
    #[error("{}: cannot punch {length} B at byte {offset} of {bytes}: a hole must start in the file and not be empty", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// Where the hole was to begin.
        offset: u64,
        /// How long it was to be.
        length: u64,
        /// The file's size.
        bytes: u64,
    },
    /// The file's content is not the same as before.
    #[error("{}: {what}; compare the file with a copy, and do not use holes on this file system", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
}

impl Error {
    pub(super) fn system(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// What to do, if the system's reason suggests something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        let (action, source) = match self {
            Self::System { action, source, .. } => (*action, source),
            Self::NotFilled { source, .. } => ("", source),
            _ => return None,
        };
        match source.kind() {
            io::ErrorKind::PermissionDenied if action == OPENING => Some(
                "run this as the file's owner, and check that the file is not immutable (lsattr; `chattr -i` clears that)",
            ),
            io::ErrorKind::ReadOnlyFilesystem => Some("remount the file system read-write first"),
            io::ErrorKind::ExecutableFileBusy => Some("the file is being executed or used as swap: end that first"),
            io::ErrorKind::StorageFull => Some("free some space first"),
            _ => None,
        }
    }
}

fn would_lose(privilege: Privilege) -> &'static str {
    match privilege {
        Privilege::SetId => {
            "is set-user-ID or set-group-ID and would lose that; nothing was changed. Root can do it without loss"
        }
        Privilege::Capabilities => {
            "has capabilities and would lose them; nothing was changed. Remove them first (`setcap -r`) and set them again \
             afterwards"
        }
    }
}

fn by(holders: &[String]) -> String {
    match holders {
        [] => String::new(),
        holders => format!(" by {}", holders.join(", ")),
    }
}

/// The words of errors for opening a file for writing.
pub(super) const OPENING: &str = "open for writing";
