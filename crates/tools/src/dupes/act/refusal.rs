//! Why a file is left alone, why acting on it failed, and why it cannot be restored: reasons with their figures. Their words are
//! here only.
//!
//! Not here: what is wrong with a journal, a plan or a report as a whole (`Error`).

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use super::Needless;
use crate::visible::visible_path;

/// Why a file is left alone, or what failed. Journals have the words, which no program reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize)]
#[serde(into = "String")]
pub enum RefusalReason {
    // What a call, or another reason, is about.
    /// A call failed: what it was to do, which follows "cannot", and the system's reason.
    #[error("cannot {0}: {1}")]
    Cannot(Cow<'static, str>, String),
    /// The system lacks what the action needs.
    #[error("{0}")]
    Unavailable(Cow<'static, str>),
    /// The journal cannot be written or read.
    #[error("{0}")]
    Journal(String),
    /// A journal that was read says so.
    #[error("{0}")]
    Recorded(String),
    /// Of the kept file.
    #[error("the kept file {}: {}", visible_path(.0), .1)]
    OfKept(PathBuf, Box<Self>),
    /// Of the directory of a file.
    #[error("its directory: {0}")]
    OfDirectory(Box<Self>),
    /// Of another path than that of the step.
    #[error("{}: {}", visible_path(.0), .1)]
    Of(PathBuf, Box<Self>),
    /// Several.
    #[error("{}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
    /// There is nothing to gain.
    #[error(transparent)]
    Needless(Needless),

    // The file is not what was found.
    /// It has another size or time.
    #[error("changed since the search")]
    Changed,
    /// Nothing has its name.
    #[error("no longer exists")]
    Gone,
    /// Not a regular file.
    #[error("is not a regular file")]
    NotRegular,
    /// Not a directory.
    #[error("is not a directory")]
    NotDirectory,
    /// Another inode number.
    #[error("is now another file (another inode number)")]
    OtherInode,
    /// Another file system than at the search.
    #[error("is on another file system now")]
    OtherFileSystem,
    /// The report does not name its file system.
    #[error("the file system with its device number is not in the list")]
    UnlistedFileSystem,
    /// A line of a plan is not of this file.
    #[error("its mark differs: it changed since the search, or it is another file or group")]
    OtherMark,

    // It is not equal, or is the kept file.
    /// The first byte that differs.
    #[error("differs from the kept file at byte {0}")]
    DiffersAt(u64),
    /// The kept file has another size.
    #[error("differs from the kept file in size")]
    DiffersInSize,
    /// The file system compared them, too.
    #[error("the file system reports that it differs from the kept file")]
    DiffersThere,
    /// More holes than a digest is made of.
    #[error("has more than 1 TiB of holes, too many to digest")]
    TooManyHoles,
    /// The path of the kept file.
    #[error("it is the kept file: {} is another name of it", visible_path(.0))]
    IsKept(PathBuf),
    /// None is left for the kept name.
    #[error("it has no other name")]
    LastName,
    /// The path of the kept file.
    #[error("it may be the kept file, shown by an overlay: {} is on another file system", visible_path(.0))]
    MayBeKeptInOverlay(PathBuf),
    /// The path of the kept file.
    #[error("it may be the kept file: {} is on the same file system, shown by another device, or on a copy of it", visible_path(.0))]
    MayBeKeptOnDevice(PathBuf),
    /// The directory that was equal, and what differs.
    #[error("not equal to {}: {} is only in one of them, or differs in kind or size", visible_path(.0), visible_path(.1))]
    DirectoriesDiffer(PathBuf, PathBuf),

    // What other programs do.
    /// A process wants to write to it.
    #[error("in use: another process is opening it for writing")]
    Opening,
    /// A process has locked it.
    #[error("in use: another process has locked it")]
    Locked,
    /// Why it is not held alone.
    #[error("in use: {0}")]
    InUse(String),
    /// Since its bytes were compared.
    #[error("changed since it was compared")]
    ChangedSinceCompared,
    /// While its names were replaced.
    #[error("changed while links were made")]
    ChangedSinceLinked,
    /// While its name was replaced.
    #[error("it was changed at that moment")]
    ChangedNow,
    /// Its name leads to another file, or to nothing.
    #[error("another program replaced or removed it since it was compared")]
    Replaced,
    /// Its name led to another file.
    #[error("another program replaced it at that moment")]
    ReplacedNow,
    /// Its name led to nothing.
    #[error("another program renamed or removed it at that moment")]
    RemovedNow,
    /// The directory has files that no step was about.
    #[error("it is not empty")]
    NotEmpty,

    // Where it is.
    /// Its file system.
    #[error("on its file system, inode numbers do not identify files")]
    InodesDoNotIdentify,
    /// Its file system.
    #[error("nothing can be written there: a read-only mount or snapshot")]
    ReadOnly,
    /// Its file system.
    #[error("its file system cannot share blocks between files")]
    CannotShare,
    /// The call had no effect.
    #[error("the file system shared no blocks")]
    SharedNothing,
    /// Hard links and shared blocks need one file system.
    #[error("is on another file system than the kept file; hard links and shared blocks cannot cross file systems")]
    KeptOnOtherFileSystem,
    /// Hard links need one mount.
    #[error("is on another mount than the kept file, and hard links cannot cross mounts")]
    KeptOnOtherMount,
    /// Undo could not link its names.
    #[error("its hard links are on several mounts; undo cannot link across mounts")]
    SeveralMounts,
    /// The directory that files are moved to.
    #[error("is on another file system than {}", visible_path(.0))]
    TargetOnOtherFileSystem(PathBuf),
    /// The directory that files are moved to.
    #[error("is on another mount than {}", visible_path(.0))]
    TargetOnOtherMount(PathBuf),
    /// Its new path.
    #[error("{} exists", visible_path(.0))]
    Exists(PathBuf),
    /// A directory.
    #[error("{} is a mount point", visible_path(.0))]
    MountPoint(PathBuf),
    /// What is in a directory, and what it is.
    #[error("{} is {}", visible_path(.0), .1)]
    Special(PathBuf, &'static str),
    /// A symbolic link in a directory that would move.
    #[error("{} is a symbolic link, which may lead elsewhere after a move", visible_path(.0))]
    MovedLink(PathBuf),
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
    /// The link was checked before it got the name.
    #[error("the link would not lead to the kept file: a directory was renamed or replaced")]
    LinkLeadsElsewhere,

    // Rights.
    /// Its owner.
    #[error("belongs to another user (ID {0})")]
    OtherUser(u32),
    /// What others may write to.
    #[error("{0}")]
    Exposed(String),
    /// Which flag, and how to clear it.
    #[error("{0}")]
    Protected(&'static str),
    /// Leases are for owners.
    #[error("cannot keep other processes out: cannot take a lease (owner or root only)")]
    NoLease,
    /// Why its file system has no leases.
    #[error("cannot keep other processes out: {0}")]
    NoLeases(String),
    /// Of the file.
    #[error("this user may not write to it")]
    MayNotWrite,
    /// Of its directory.
    #[error("this user may not change names in its directory")]
    MayNotRename,
    /// The owner of a file.
    #[error(
        "its directory has the sticky bit, so only owners may remove files, and the owner is another user (ID {0})"
    )]
    Sticky(u32),
    /// A user namespace shows one ID for all that it does not map.
    #[error("its owner or group may be one that has no ID in this user namespace")]
    UnmappedOwner,
    /// The kernel stores another attribute than was set there.
    #[error("it has file capabilities, which undo cannot restore unchanged in this user namespace")]
    Capabilities,
    /// Its owner.
    #[error("only root could restore its owner (ID {0})")]
    RootRestoresOwner(u32),
    /// Its group.
    #[error("only root could restore its group (ID {0}), which this user is not in")]
    RootRestoresGroup(u32),
    /// An extended attribute.
    #[error("only root could restore its extended attribute {0}")]
    RootRestoresAttribute(String),
    /// What a new file did not take.
    #[error("undo could not restore it: {0}")]
    UndoFails(Box<Self>),
    /// Names of one file have one owner.
    #[error("its owner or group differs from that of the kept file, and hard links have only one")]
    LinkChangesOwner,
    /// Names of one file have one mode.
    #[error("its mode differs from that of the kept file, and hard links have only one")]
    LinkChangesMode,
    /// Names of one file have the same attributes.
    #[error(
        "its access control list or another extended attribute differs from that of the kept file, and hard links have only one"
    )]
    LinkChangesAttributes,
    /// Who reads the link reads the file of another user.
    #[error("its owner is not that of the kept file, and a symbolic link would give the rights of that file")]
    LinkGivesOwner,
    /// Who reads the link may do more.
    #[error(
        "its mode or access control list gives less than that of the kept file, and a symbolic link would give the rights of that file"
    )]
    LinkGivesMode,
    /// The link leads to another mount.
    #[error("its mount gives programs no privileges (nosuid), and that of the kept file does")]
    LinkGivesPrivileges,

    // The step, or what a report or a plan says of it.
    /// The run was stopped.
    #[error("stopped before")]
    Stopped,
    /// A step without a file.
    #[error("it has no path")]
    NoPath,
    /// A step for a directory.
    #[error("a directory has one path")]
    SeveralPaths,
    /// A root directory, or what ends with `..`.
    #[error("is not the path of a file")]
    NotAFile,
    /// Both files of a step are one.
    #[error("it is the file that is kept")]
    KeepsItself,
    /// An earlier step acts on it.
    #[error("it is already acted on")]
    ActedOn,
    /// An earlier step keeps it.
    #[error("it is already kept for another file")]
    KeptForAnother,
    /// An earlier step acts on the kept file.
    #[error("the file that is kept is already acted on")]
    KeptActedOn,
    /// An earlier step has its path.
    #[error("one of its paths already belongs to another file")]
    PathOfAnother,
    /// A line of a report, or an object in it.
    #[error("{0}")]
    NotAnEntry(String),
    /// A report of a group of directories.
    #[error("whole directories cannot be acted on this way: search for files")]
    WholeDirectory,
    /// The number of a path in a group, and what is wrong with it.
    #[error("path {0} {1}")]
    WrongPath(usize, &'static str),
    /// The first word of a line, and the word of the action.
    #[error("it begins with `{0}`; write `keep` or `{1}`")]
    WrongWord(String, &'static str),
    /// A line of a plan.
    #[error("it has no mark after the word")]
    NoMark,
    /// A path in a plan.
    #[error("a backslash in its path begins no escape: write `\\\\` or `\\xHH`")]
    WrongEscape,
    /// A path in a plan.
    #[error("is not absolute, or its directory is a symbolic link, or has `.`, `..` or empty names in it")]
    NotPlain,
    /// The number of an earlier line.
    #[error("it is on line {0}, too")]
    OnLine(usize),
    /// The number of a line.
    #[error("line {0} keeps this file")]
    KeptByLine(usize),
    /// A group of a plan.
    #[error("no line keeps a file of its group with the same size, and, for links, on its file system")]
    NothingKept,
    /// Nobody should rely on the kept file.
    #[error("the file that is kept is in the trash, in a snapshot, or not on a file system that was searched")]
    PoorKept,
    /// The action would leave empty directories.
    #[error("a directory can only be moved")]
    OnlyMoved,
    /// Whatever the rules are.
    #[error("it always stays: it is in a reference, behind a symbolic link, or where files are moved to")]
    AlwaysStays,
    /// Whatever a plan says.
    #[error("is not below a path that was searched")]
    NotSearched,

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
    /// What failed, why its name cannot be restored, and where it is.
    #[error("{}; cannot restore its name ({}); it is now {}", .0, .1, visible_path(.2))]
    NotPutBack(Box<Self>, String, PathBuf),
    /// What failed, what cannot be removed, and why.
    #[error("{}; cannot remove {}: {}", .0, visible_path(.1), .2)]
    NotRemoved(Box<Self>, PathBuf, String),
    /// What failed, and where a file is that another program saved.
    #[error("{}; what another program saved is {}", .0, visible_path(.1))]
    SavedAside(Box<Self>, PathBuf),
    /// The system's reason.
    #[error("blocks are shared, but its time cannot be restored: {0}")]
    TimeNotRestored(String),
    /// Where the file is.
    #[error("another program saved it meanwhile; what was there before is {}", visible_path(.0))]
    SavedMeanwhile(PathBuf),
    /// Where the version of the other program is.
    #[error("put back, but another program had just replaced the link; its version is {}", visible_path(.0))]
    LinkReplaced(PathBuf),
    /// The error of a step that was not settled, and how many more there are.
    #[error("{}{}; the next run tries again", .0, more(*.1))]
    NotSettled(String, usize),
    /// Before it was begun.
    #[error("the run was killed before")]
    Killed,

    // Undoing.
    /// The temporary name of the file.
    #[error(
        "the run was killed in this step, and its directory cannot be opened now; if the file is there as {0}, the next run puts it back"
    )]
    KilledInStep(String),
    /// The name that the file had.
    #[error("another file has its name now")]
    NameTaken,
    /// Where the file stays.
    #[error("another file has its name now; it stays {}", visible_path(.0))]
    StaysMoved(PathBuf),
    /// Where it was moved to.
    #[error("{} is not what was moved there, or has changed since", visible_path(.0))]
    NotMoved(PathBuf),
    /// Its new path, and the system's reason.
    #[error(
        "moved back, but a directory that was made for {} cannot be removed: {}; run undo again to retry",
        visible_path(.0), .1
    )]
    DirectoryStays(PathBuf, String),
    /// Nothing has its name.
    #[error("it is gone; the link that took its place was removed or renamed")]
    LinkGone,
    /// An undo restored it.
    #[error("it was restored, and has changed since")]
    RestoredChanged,
    /// What has its name now.
    #[error("the file that it was linked to has changed since")]
    LinkedChanged,
    /// The path of the kept file.
    #[error("the kept file {} has changed since: its bytes differ from those of the file", visible_path(.0))]
    KeptChanged(PathBuf),
}

impl RefusalReason {
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
        String::deserialize(from).map(Self::Recorded)
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
