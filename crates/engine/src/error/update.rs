//! What only updating meets: while updates are collected, and while they are brought into a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use seekless_method::Method;

use super::{Error, HowFar, by, full_text};

/// Why an update is not taken into a batch.
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
    /// The batch holds as much as it can.
    #[error("the updates exceed 4 GiB: split them into several batches, or name a directory for what does not fit")]
    Full,
    /// What does not fit into memory could not be kept elsewhere.
    #[error(
        "{}: cannot keep updates there that do not fit into memory (allow more memory, or name another directory)",
        directory.display()
    )]
    Spill {
        /// Where it was tried.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A file was not updated, or not as it was to be.
#[derive(Debug)]
#[non_exhaustive]
pub struct UpdateError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
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

/// Why a file was not updated, or not as it was to be. But for those that say otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateErrorKind {
    /// Another update of the file is going on.
    #[error("another update of it is running")]
    Running,
    /// An update of the file was interrupted and left this journal, and nobody has recovered the file yet.
    #[error("an update of it was interrupted and left {}; recover the file first", .0.display())]
    Interrupted(PathBuf),
    /// The file has several names, and what stands beside one is not found by the others.
    #[error("it has {links} hard links; {}", match beside {
        Beside::Journal => "a journal beside one name is not found through the others",
        Beside::NewFile => "replacing it would leave the old file under the other names",
    })]
    HardLinks {
        /// How many names it has.
        links: u64,
        /// What would stand beside it.
        beside: Beside,
    },
    /// The name of the file leaves no room for that of its journal.
    #[error("its name is too long for a journal name")]
    NameTooLong,
    /// An update ends past the end of a file that is not to become longer.
    #[error("an update ends at byte {end}, past the end of the file at {file_bytes}; nothing was written")]
    PastEnd {
        /// Where the update ends.
        end: u64,
        /// Where the file ends.
        file_bytes: u64,
    },
    /// The method needs all updates in memory, and they do not fit.
    #[error("{0} needs all updates in memory, and they do not fit")]
    NeedsMemory(Method),
    /// A flag keeps the file from being changed.
    #[error("opening it for writing failed: {protection}")]
    Protected {
        /// Which flag, and how it is taken away.
        protection: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The new file cannot be given what the old one has.
    #[error("replacing the file would lose its {attribute}, which cannot be copied to the new file")]
    NotKept {
        /// What would be lost.
        attribute: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Another program gave the name to another file, which has none of the updates.
    #[error(
        "another program replaced it meanwhile (as editors do when they save); the new file has none of the updates"
    )]
    Replaced,
    /// The method rewrites the bytes between updates, and other processes may write there meanwhile.
    #[error("`{method}` rewrites the bytes between updates, and other processes cannot be kept out meanwhile")]
    NotExclusive {
        /// The method.
        method: Method,
        /// Why nobody can be kept out.
        source: NotAlone,
    },
    /// The file was to be replaced, and what other processes write to it meanwhile would be lost.
    #[error("writes by other processes to the old file would be lost")]
    HasWriters(#[source] NotAlone),
    /// Another process opened the file for writing while the new one was made.
    #[error("another process opened it for writing; it is unchanged")]
    Opened,
    /// Another process changed the file, or saved another under its name, while it was being replaced.
    #[error("another process saved or changed it meanwhile; its version is kept")]
    Changed,
    /// The file system cannot exchange names, so another program's save could be lost.
    #[error("{0}: without exchanging names, another program's save could be lost; nothing was changed")]
    NoExchange(&'static str),
    /// Two files are there, and only a person can say which is the right one.
    #[error("{}", what.told(other))]
    TwoFiles {
        /// The other one.
        other: PathBuf,
        /// How that came.
        what: Other,
    },
    /// What was written could not be brought to the device. The kernel may have dropped some of it, and may call the next
    /// fsync a success (fsync(2)).
    #[error("fsync failed{}", by(Some(*method)))]
    NotSynced {
        /// The method.
        method: Method,
        /// The system's reason.
        source: io::Error,
    },
    /// An update in place ended early. Giving the updates again, when the reason is gone, finishes it.
    #[error("{}", far.told(source))]
    PartlyUpdated {
        /// How far it came.
        far: HowFar,
        /// Why it ended.
        source: Box<Error>,
    },
    /// An update with a journal or a new file failed, and was undone.
    #[error("the update failed; all of it was undone, {}{}", longer(*longer_bytes), left(journal.as_deref()))]
    Undone {
        /// How much longer the file is than before: others have it open or wrote to it.
        longer_bytes: u64,
        /// Why the journal may still exist, where it may. Recovering the file would apply the update then.
        journal: Option<Box<Error>>,
        /// Why it failed.
        source: Box<Error>,
    },
    /// An update with a journal failed, and so did undoing it: the file is partly updated until it is recovered.
    #[error(
        "undoing the update failed too ({}), so the file is partly updated",
        full_text(undoing)
    )]
    NotUndone {
        /// Why it was not undone.
        undoing: Box<Error>,
        /// Why the update failed.
        source: Box<Error>,
    },
    /// The file has all updates, and its journal is there, or may be again after a crash of the system. Recovering the file
    /// writes the same once more.
    #[error(
        "the updates are made and on the device, but the journal is there, or may reappear after a power failure or a \
         system crash"
    )]
    JournalLeft(#[source] Box<Error>),
    /// The new file has taken the name, and a crash of the system may take it back.
    #[error(
        "the updates are made and the new file has the name, but after a power failure or a system crash the \
         file may be the old one again; the old file is {}",
        old.display()
    )]
    NotLasting {
        /// The old one, which recovering the file removes.
        old: PathBuf,
        /// What failed.
        source: Box<Error>,
    },
    /// The file has all updates for good, and the old one is still beside it.
    #[error("the updates are made and on the device, but the old file is still there: remove {}", old.display())]
    OldFileLeft {
        /// The old one.
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

/// What stands beside a file while it is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A journal.
    Journal,
    /// A new file that will take its name.
    NewFile,
}

/// Why others cannot be kept out of a file.
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
    /// The file system cannot keep out everybody.
    #[error("on this file system, a lease does not keep out writers on other machines or behind the mount")]
    Elsewhere,
    /// The system has no leases.
    #[error("{0}")]
    Unavailable(&'static str),
    /// The system does not grant one.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// What the other one of two files is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Other {
    /// The old file, which another process changed after the update.
    ChangedOld,
    /// Perhaps what another program saved while an update was killed.
    PerhapsSaved,
    /// What another program saved while the file was replaced; then it saved it again.
    SavedBefore,
    /// The same, but the name could not be given back to it.
    NotGivenBack(io::Error),
}

impl Other {
    fn told(&self, other: &Path) -> String {
        let other = other.display();
        let saved = |what: &dyn fmt::Display| {
            format!(
                "another program saved it while it was replaced, and {what}: compare it with {other}, which that program \
                 saved, and keep the right one"
            )
        };
        let left = |what| {
            format!("{other} {what}: compare the two; rename that one to this name if it is the good one, or remove it")
        };
        match self {
            Self::ChangedOld => left("is the old file, and another process changed it after the update"),
            Self::PerhapsSaved => left("may be what another program saved while an update was killed"),
            Self::SavedBefore => saved(&"saved it again"),
            Self::NotGivenBack(why) => saved(&format_args!("their file could not be given its name back ({why})")),
        }
    }
}

fn longer(bytes: u64) -> String {
    match bytes {
        0 => "and the file is as before".to_owned(),
        _ => format!(
            "but the file is longer by {bytes} bytes: another process has it open or wrote to it; its bytes are kept"
        ),
    }
}

fn left(journal: Option<&Error>) -> String {
    journal.map_or_else(String::new, |error| {
        let error = full_text(error);
        format!(", but its journal may still exist ({error}), and recovering would then apply the update: remove it")
    })
}
