//! Errors of updating: of collecting updates, and of applying them to a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use seekless_method::Method;

use super::{Error, HowFar, by, full_text};

/// Why an update cannot be added to a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// It ends past the largest size of a file.
    #[error("an update of {bytes} B at {offset} ends past 2^63 - 1, the largest file size")]
    TooFar {
        /// Where the update begins.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
    /// The batch is full.
    #[error(
        "the updates take more than {memory_bytes} B of memory (16 B each, and their data): apply them in parts, one \
         after the other, which gives the same file, or allow more memory"
    )]
    Full {
        /// The memory that they may take.
        memory_bytes: u64,
    },
}

/// A file was not updated, or not as requested.
#[derive(Debug)]
#[non_exhaustive]
pub struct UpdateError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    pub kind: UpdateErrorKind,
}

impl fmt::Display for UpdateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.kind)
    }
}

impl std::error::Error for UpdateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

/// Why a file was not updated, or not as requested. Unless a variant says otherwise, the file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateErrorKind {
    /// Another update of the file is running.
    #[error("another update of this file is running")]
    Running,
    /// An update of the file was interrupted and left this journal; the file has not been recovered yet.
    #[error("an update was interrupted and left {}; recover the file first", .0.display())]
    Interrupted(PathBuf),
    /// The file is a mount point (`mount --bind` of a file), so a journal or a new file would not be beside its own name.
    #[error("is a mount point; {}", match .0 {
        SidecarKind::Journal => "a journal beside it is not found from the file's own directory",
        SidecarKind::NewFile => "a new file cannot take its place",
    })]
    MountPoint(SidecarKind),
    /// The file has several hard links, and the journal or new file beside one is not found through the others.
    #[error("has {links} hard links; {}", match beside {
        SidecarKind::Journal => "a journal beside one link is not found through the others",
        SidecarKind::NewFile => "replacing it would leave the old file under the other links",
    })]
    HardLinks {
        /// How many hard links it has.
        links: u64,
        /// The file beside it that would make this unsafe.
        beside: SidecarKind,
    },
    /// The file name is so long that the name of its journal would be too long.
    #[error("the file name is too long: its journal's name would exceed the limit")]
    NameTooLong,
    /// An update ends past the end of the file, and the file must not grow.
    #[error("an update ends at byte {end}, past the end of the file at {file_bytes}; nothing was written")]
    PastEnd {
        /// Where the update ends.
        end: u64,
        /// Where the file ends.
        file_bytes: u64,
    },
    /// A flag protects the file.
    #[error("cannot open for writing: {protection}")]
    Protected {
        /// Which flag, and how to clear it.
        protection: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// An attribute of the old file cannot be copied to the new file.
    #[error("replacing the file would lose its {attribute}, which cannot be copied to the new file")]
    NotKept {
        /// What would be lost.
        attribute: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Another program replaced the file by renaming; the file that now has the name has none of the updates.
    #[error(
        "another program replaced the file meanwhile (as editors do when they save); the new file has none of the updates"
    )]
    Replaced,
    /// The method rewrites the bytes between updates, and other processes may write there meanwhile.
    #[error("`{method}` rewrites the gaps between updates, but other processes cannot be kept out of the file")]
    NotExclusive {
        /// The method.
        method: Method,
        /// Why other processes cannot be kept out.
        source: NotAlone,
    },
    /// Replacing the file would lose what other processes write to it meanwhile.
    #[error("writes by other processes to the old file would be lost")]
    HasWriters(#[source] NotAlone),
    /// Another process opened the file for writing while the new one was made.
    #[error("another process opened it for writing; the file is unchanged")]
    Opened,
    /// Another process changed the file, or saved another under its name, while it was being replaced.
    #[error("another process changed or replaced the file meanwhile; that version is kept, without the updates")]
    Changed,
    /// The file system cannot exchange names, so another program's save could be lost.
    #[error("{0}, so another program's save could be lost; nothing was changed")]
    NoExchange(&'static str),
    /// There are two files, and only a person can decide which is the right one.
    #[error("{}", what.told(other))]
    TwoFiles {
        /// The other one.
        other: PathBuf,
        /// Its origin.
        what: ReplaceConflict,
    },
    /// The fsync failed. The kernel may have dropped some of the data, and the next fsync may succeed nevertheless
    /// (fsync(2)).
    #[error("fsync failed{}", by(Some(*method)))]
    NotSynced {
        /// The method.
        method: Method,
        /// The system's reason.
        source: io::Error,
    },
    /// An update in place ended early. Once the reason is gone, running the same updates again finishes it.
    #[error("{}", far.told(unsynced(source)))]
    PartlyUpdated {
        /// How far it got.
        far: HowFar,
        /// Why it ended early.
        source: Box<Error>,
    },
    /// An update with a journal or a new file failed, and was undone.
    #[error("the update failed and was undone{}{}", longer(*longer_bytes), left(journal.as_deref()))]
    Undone {
        /// How much longer the file is than before, because other processes have it open or wrote to it.
        longer_bytes: u64,
        /// If the journal may still exist: why it was not removed. Recovering the file would then apply the update.
        journal: Option<Box<Error>>,
        /// Why it failed.
        source: Box<Error>,
    },
    /// An update with a journal failed and could not be undone: the file is partly updated until it is recovered.
    #[error(
        "the update failed and could not be undone ({}); the file is partly updated",
        full_text(undoing)
    )]
    NotUndone {
        /// Why it was not undone.
        undoing: Box<Error>,
        /// Why the update failed.
        source: Box<Error>,
    },
    /// The file has all updates, but removing its journal failed, so the journal may exist now, or again after a system
    /// crash. Recovering the file writes the same bytes again.
    #[error(
        "all updates are on the device, but removing the journal failed: it may exist now, or again after a power \
         failure or system crash; if it does, recover the file, which writes the same bytes again"
    )]
    JournalLeft(#[source] Box<Error>),
    /// The new file has taken the name, but after a system crash the old file may have it again.
    #[error(
        "the new file, with all updates, has taken the name, but after a power failure or system crash the old file \
         may have it again; the old file is now {}",
        old.display()
    )]
    NotLasting {
        /// The old file, which recovering removes.
        old: PathBuf,
        /// What failed.
        source: Box<Error>,
    },
    /// The file has all updates, on the device; the old file still exists beside it.
    #[error("all updates are on the device, but the old file still exists: remove {}", old.display())]
    OldFileLeft {
        /// The old file.
        old: PathBuf,
        /// Why it was not removed.
        source: io::Error,
    },
}

impl UpdateErrorKind {
    /// The error of a file.
    pub(crate) fn at(self, path: &Path) -> Error {
        let (path, kind) = (path.to_owned(), self);
        UpdateError { path, kind }.into()
    }
}

/// What is beside a file while it is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarKind {
    /// A journal.
    Journal,
    /// A new file that will take its name.
    NewFile,
}

/// Why other processes cannot be kept out of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAlone {
    /// Another process has it open.
    #[error("another process has it open")]
    Open,
    /// Another process may write to it.
    #[error("another process has it open for writing")]
    OpenForWriting,
    /// Another process opened it while it was updated.
    #[error("another process opened it before byte {0} was written")]
    OpenedBefore(u64),
    /// A lease on this file system does not keep out all writers, or was never tried.
    #[error(
        "on this file system, a lease is not known to keep out all writers: on other machines, behind the mount, by mappings"
    )]
    Elsewhere,
    /// Another process has it mapped, which a lease on an overlay does not show.
    #[error("another process has it mapped (mmap) and may write to it")]
    Mapped,
    /// Another process may have it mapped, which a lease on an overlay does not show.
    #[error("on an overlay, a lease does not show mappings (mmap), and {0}")]
    Unseen(&'static str),
    /// The system has no leases.
    #[error("{0}")]
    Unavailable(&'static str),
    /// The system does not grant one.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The origin of the other file.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplaceConflict {
    /// The old file, which another process changed after the update.
    ChangedOld,
    /// It may be what another program saved while an update was killed.
    PerhapsSaved,
    /// What another program saved while the file was replaced; it saved the file twice.
    SavedBefore,
    /// What another program saved while the file was replaced; the name could not be given back to it.
    NotGivenBack(io::Error),
}

impl ReplaceConflict {
    fn told(&self, other: &Path) -> String {
        let other = other.display();
        let saved = |what: &dyn fmt::Display| {
            format!(
                "another program saved the file while it was replaced, and {what}: compare the file with {other} and keep \
                 the right one"
            )
        };
        let left = |what| {
            format!("{other} {what}: compare the two files, then rename it to the name of the file, or remove it")
        };
        match self {
            Self::ChangedOld => left("is the old file, and another process changed it after the update"),
            Self::PerhapsSaved => left("may be what another program saved while an update was killed"),
            Self::SavedBefore => saved(&"saved it once more"),
            Self::NotGivenBack(why) => saved(&format_args!("its version cannot get the name back ({why})")),
        }
    }
}

fn longer(bytes: u64) -> String {
    match bytes {
        0 => "; the file is unchanged".to_owned(),
        _ => format!(", but the file stays {bytes} B longer, because another process has it open or wrote to the end"),
    }
}

fn left(journal: Option<&Error>) -> String {
    journal.map_or_else(String::new, |error| {
        let error = full_text(error);
        format!(
            "; its journal may still exist ({error}): remove it, because recovering the file would apply the update"
        )
    })
}

/// The method whose fsync failed, if that is the error.
fn unsynced(error: &Error) -> Option<&Method> {
    match error.update_kind() {
        Some(UpdateErrorKind::NotSynced { method, .. }) => Some(method),
        _ => None,
    }
}
