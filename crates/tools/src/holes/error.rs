//! What can go wrong with a file, with its path, what was being done, the reason, and what to try.

use std::io;
use std::path::{Path, PathBuf};

use super::held::Privilege;

/// Why a file was not shown, dug, punched or filled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}: {action} failed", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A flag keeps it from being changed.
    #[error("{}: {protection}; nothing was changed", path.display())]
    Protected {
        /// The file.
        path: PathBuf,
        /// Which flag, and how it is taken away.
        protection: &'static str,
    },
    /// Changing it would take a privilege from it.
    #[error("{}: {}", path.display(), would_lose(*privilege))]
    Privileged {
        /// The file.
        path: PathBuf,
        /// Which privilege.
        privilege: Privilege,
    },
    /// It is not a regular file.
    #[error("{}: is {kind}; name a regular file", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a FIFO`.
        kind: &'static str,
    },
    /// The system or the file system lacks something.
    #[error("{}: {reason}; nothing was changed", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// What is lacking.
        reason: String,
    },
    /// Its holes do not fit into what is free.
    #[error(
        "{}: its holes take {needed_bytes} bytes, and its file system has {free_bytes} free; nothing was allocated: \
         make room first",
        path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What all holes take together.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Blocks for its holes were not to be had.
    #[error(
        "{}: {}; allocating its holes failed",
        path.display(),
        if *is_undone { "its holes are unchanged" } else { "some of its holes may have blocks now" }
    )]
    NotFilled {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// Whether what was allocated until then is free again.
        is_undone: bool,
    },
    /// Somebody else has the file open or mapped.
    #[error("{}: is in use{}: no lease that keeps others out is granted; close it there first", path.display(), by(holders))]
    InUse {
        /// The file.
        path: PathBuf,
        /// Who has it open, as far as this user can see.
        holders: Vec<String>,
    },
    /// Somebody wanted to open the file meanwhile, and was let in.
    #[error("{}: stopped: another process opened it; no byte changed. Try again when it is not in use", path.display())]
    Wanted {
        /// The file.
        path: PathBuf,
    },
    /// The range to punch is not in the file.
    #[error("{}: {length} bytes from byte {offset} are not in its {bytes} bytes; a hole must begin in the file and not be empty", path.display())]
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
    /// What was read afterwards is not what was read before.
    #[error("{}: {what}; do not trust this file system with holes, and compare the file with a copy", path.display())]
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

    /// What to try, where the system's reason suggests something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        let (action, source) = match self {
            Self::System { action, source, .. } => (*action, source),
            Self::NotFilled { source, .. } => ("", source),
            _ => return None,
        };
        match source.kind() {
            io::ErrorKind::PermissionDenied if action == OPENING => {
                Some("run it as the file's owner, and check that it is not immutable (lsattr; `chattr -i` clears that)")
            }
            io::ErrorKind::ReadOnlyFilesystem => Some("remount the file system read-write first"),
            io::ErrorKind::ExecutableFileBusy => Some("it is being executed or used as swap: end that first"),
            io::ErrorKind::StorageFull => Some("free some space first"),
            _ => None,
        }
    }
}

fn would_lose(privilege: Privilege) -> &'static str {
    match privilege {
        Privilege::SetId => {
            "is set-user-ID or set-group-ID, which it would lose; nothing was changed. Root can do this"
        }
        Privilege::Capabilities => {
            "has capabilities, which it would lose; nothing was changed. Remove them first (`setcap -r`) and set them again \
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

/// What opening a file for writing asks of it.
pub(super) const OPENING: &str = "open for writing";
