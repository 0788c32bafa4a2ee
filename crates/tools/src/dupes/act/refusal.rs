//! Why a file is left alone, why acting on it failed, and why it cannot be restored: reasons with their figures. Their words are
//! here only.
//!
//! Not here: what is wrong with a journal or a plan as a whole (`Error`).

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use super::NothingToGain;
use crate::visible::visible_path;

/// Why a file is left alone, or what failed. Journals have the words, which no program reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize)]
#[serde(into = "String")]
pub enum RefusalReason {
    // What a call, or another reason, is about.
    /// A call failed: what it was to do, which follows "cannot", and the system's reason.
    #[error("cannot {0}: {1}")]
    Cannot(Cow<'static, str>, String),
    /// The system, another part of seekless, or a journal that was read says so.
    #[error("{0}")]
    Told(Cow<'static, str>),
    /// Of the kept file.
    #[error("the kept file {}: {}", visible_path(.0), .1)]
    OfKept(PathBuf, Box<Self>),
    /// Of another path than that of the step.
    #[error("{}: {}", visible_path(.0), .1)]
    Of(PathBuf, Box<Self>),
    /// Several; the later ones say what became of files.
    #[error("{}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
    /// There is nothing to gain.
    #[error(transparent)]
    Needless(NothingToGain),

    // The file is not what was found.
    /// It has another size or time.
    #[error("changed since the search")]
    Changed,
    /// Nothing has its name.
    #[error("no longer exists")]
    Gone,
    /// It is a directory, a link, a device or the like.
    #[error("is not a regular file")]
    NotRegular,
    /// Its name leads to another inode.
    #[error("is now another file (another inode number)")]
    OtherFile,

    // It is not equal, or is the kept file.
    /// The first byte that differs, or the end of the shorter file.
    #[error("differs from the kept file at byte {0}")]
    DiffersAt(u64),
    /// More holes than a digest is made of.
    #[error("has more than 1 TiB of holes, too many to digest")]
    TooManyHoles,
    /// The path of the kept file.
    #[error("it is the kept file: {} is another name of it", visible_path(.0))]
    IsKept(PathBuf),
    /// The path of the kept file.
    #[error("it may be the kept file: {} may be shown by an overlay or another device, or be on a copy of its file system", visible_path(.0))]
    MayBeKept(PathBuf),
    /// None is left for the kept name.
    #[error("it has no other name")]
    LastName,

    // What other programs do.
    /// How another process uses it.
    #[error("in use: {0}")]
    InUse(Cow<'static, str>),
    /// Another program changed its bytes or attributes.
    #[error("changed since it was compared")]
    ChangedMeanwhile,
    /// Its name leads to another file, or to nothing.
    #[error("another program replaced or removed it since it was compared")]
    Replaced,
    /// The directory has files that no step was about.
    #[error("it is not empty")]
    NotEmpty,

    // Where it is.
    /// Its file system.
    #[error("on its file system, inode numbers do not identify files")]
    InodesDoNotIdentify,
    /// Why its file system has no leases.
    #[error("cannot keep other processes out: {0}")]
    NoLeases(String),
    /// Its file system.
    #[error("nothing can be written there: a read-only mount or snapshot")]
    ReadOnly,
    /// Its file system.
    #[error("its file system cannot share blocks between files")]
    CannotShare,
    /// The kept file, or the directory that files are moved to.
    #[error("is on another file system than {}", visible_path(.0))]
    OtherFileSystem(PathBuf),
    /// The kept file, another name of the file, or the directory that it is moved to.
    #[error("is on another mount than {}, and names cannot cross mounts", visible_path(.0))]
    OtherMount(PathBuf),
    /// Its project, that of a directory, and the directory.
    #[error(
        "it has project {own}, and {} gives its files project {other} (xfs_io, lsproj)",
        visible_path(directory)
    )]
    OtherProject {
        /// Its project.
        own: u32,
        /// That of the directory.
        other: u32,
        /// The directory.
        directory: PathBuf,
    },
    /// An overlay copies files up one by one.
    #[error("an overlay may break up its hard links, or those of the kept file, when one is changed")]
    OverlayLinks,

    // Rights.
    /// Its owner.
    #[error("belongs to another user (ID {0})")]
    OtherUser(u32),
    /// What needs other rights.
    #[error("this user may not {0}")]
    MayNot(&'static str),
    /// The owner of a file.
    #[error(
        "its directory has the sticky bit, so only owners may remove files, and the owner is another user (ID {0})"
    )]
    Sticky(u32),
    /// What this user could not give to a new file.
    #[error("only root could restore its {0}")]
    OnlyRoot(String),
    /// What a new file did not, or would not, take.
    #[error("undo could not restore it: {0}")]
    UndoFails(Box<Self>),
    /// What names of one file have in common.
    #[error("its {0} differs from that of the kept file, and hard links have only one")]
    LinkChanges(&'static str),
    /// What somebody who reads the link would have of the kept file.
    #[error("a symbolic link would give the rights of the kept file, which has another {0}")]
    LinkGives(&'static str),

    // The step, or what a plan says of it.
    /// The run was stopped.
    #[error("stopped before")]
    Stopped,
    /// A path that leads through a link, or to no file.
    #[error("is not absolute, or its directory is a symbolic link, or has `.`, `..` or empty names in it")]
    NotPlain,
    /// The first word of a line, and the word of the action.
    #[error("it begins with `{0}`; write `keep` or `{1}`")]
    WrongWord(String, &'static str),
    /// A path in a plan.
    #[error("a backslash in its path begins no escape: write `\\\\` or `\\xHH`")]
    WrongEscape,
    /// What another step does with it.
    #[error("it is already {0}")]
    Already(&'static str),
    /// A line of a plan acts on it.
    #[error(
        "it stays: a line keeps it, no other file of its group has its size, it is the last copy, in a reference, where files are moved to, or not below a path that was searched"
    )]
    Stays,

    // Half done.
    /// Some of its names.
    #[error("done for {done} of {of} names; {}: {why}", visible_path(next))]
    PartlyDone {
        /// Names that are done.
        done: usize,
        /// All its names.
        of: usize,
        /// The name that could not be done.
        next: PathBuf,
        /// Why.
        why: Box<Self>,
    },
    /// Where the file is that had the name.
    #[error("it is now {}", visible_path(.0))]
    NowAt(PathBuf),
    /// Where a file is that another program gave the name.
    #[error("what another program saved is {}", visible_path(.0))]
    SavedAt(PathBuf),
    /// The error of a step that was not recovered, and how many more there are.
    #[error("{}{}; the next run tries again", .0, more(*.1))]
    NotRecovered(String, usize),
    /// Before it was begun.
    #[error("the run was killed before")]
    Killed,
    /// The temporary name of the file.
    #[error(
        "the run was killed in this step, and its directory cannot be opened now; if the file is there as {0}, the next run puts it back"
    )]
    KilledInStep(String),

    // Undoing.
    /// The name that the file had, or is to get.
    #[error("another file has its name now")]
    NameTaken,
    /// What undo needs, or made, was edited.
    #[error("has changed since, or is another file")]
    ChangedSince,
}

impl RefusalReason {
    /// A process wants to write to it.
    pub(super) const OPENING: Self = Self::InUse(Cow::Borrowed("another process is opening it for writing"));
    /// A process has locked it.
    pub(super) const LOCKED: Self = Self::InUse(Cow::Borrowed("another process has locked it"));

    /// Whether a stop came before.
    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Self::Stopped => true,
            Self::OfKept(_, why) => why.is_stopped(),
            _ => false,
        }
    }

    /// Whether the file system has no leases, or does not number its files.
    #[must_use]
    pub fn is_of_file_system(&self) -> bool {
        match self {
            Self::NoLeases(_) | Self::InodesDoNotIdentify => true,
            Self::OfKept(_, why) => why.is_of_file_system(),
            _ => false,
        }
    }
}

fn more(steps: usize) -> String {
    let more = (steps > 0).then(|| format!(" (and {steps} more of that run)"));
    more.unwrap_or_default()
}

impl From<RefusalReason> for String {
    fn from(reason: RefusalReason) -> Self {
        reason.to_string()
    }
}

impl<'d> Deserialize<'d> for RefusalReason {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|words| Self::Told(words.into()))
    }
}

/// The reason for which a call failed.
pub(super) fn cannot<E: Display>(action: impl Into<Cow<'static, str>>) -> impl Fn(E) -> RefusalReason {
    let action = action.into();
    move |error| RefusalReason::Cannot(action.clone(), error.to_string())
}

/// Like [`cannot`], for a call that a stop may end.
pub(super) fn unless_stopped(action: impl Into<Cow<'static, str>>) -> impl Fn(io::Error) -> RefusalReason {
    let failed = cannot(action);
    move |error| match error.kind() {
        io::ErrorKind::Interrupted => RefusalReason::Stopped,
        _ => failed(error),
    }
}

/// The same, of the kept file.
pub(super) fn of_kept(path: &Path) -> impl Fn(RefusalReason) -> RefusalReason + '_ {
    move |why| RefusalReason::OfKept(path.to_owned(), Box::new(why))
}
