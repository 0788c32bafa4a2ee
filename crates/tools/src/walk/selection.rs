//! The files of a job: the paths that the user named, and walks of directories among them.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use seekless_engine::files::{FileId, FileState, IoFailure, kind_of, with_article};
use seekless_engine::walk::{FileAt, StatFacts, Walk, WalkDirectory, WalkRules, is_sure, open_root};
use seekless_sys::{FileSystem, FileSystemTrait, file_system, file_system_of, mount_id};
use serde::Serialize;

use crate::Stop;

/// Files and directories that the user named.
#[derive(Debug)]
pub struct Selection {
    roots: Vec<Root>,
    /// Paths that are hard links of files named before.
    links: Vec<Root>,
    ids: HashSet<FileId>,
    /// Their paths without symbolic links: these identify them where inode numbers do not.
    places: HashSet<PathBuf>,
    /// The same for directories that several mounts show.
    mounts: SeenMounts,
    /// Whether one of them is a file.
    has_files: bool,
    /// What the others are compared with.
    references: Option<Box<Self>>,
    /// Number of paths, including those of references.
    paths: u32,
    pub(super) other_file_systems: bool,
}

/// A path that the user named.
#[derive(Debug)]
pub(crate) struct Root {
    pub path: PathBuf,
    /// Its position among the named paths.
    pub number: u32,
    pub is_directory: bool,
    /// What it led to when it was looked at; default if it is refused.
    pub(super) id: FileId,
    pub(super) system: System,
    /// Why it is refused.
    pub(super) refused: Option<String>,
}

/// What a file system is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Whether no two files have the same inode number.
    pub inodes_identify: bool,
    /// Whether files may share blocks.
    pub may_share: bool,
    pub is_overlay: bool,
    /// Whether an unchanged device, inode, size and times mean an unchanged file. On file systems in memory, writes through
    /// mappings do not update times, and an overlay does not tell which of these are not written back.
    pub tells_changes: bool,
    pub(super) is_pseudo: bool,
    pub(super) is_btrfs: bool,
}

impl System {
    pub fn of(found: &FileSystem) -> Self {
        Self {
            inodes_identify: found.inodes_identify,
            may_share: found.has(FileSystemTrait::SharesBlocks),
            is_overlay: found.has(FileSystemTrait::Overlay),
            tells_changes: found.inodes_identify
                && ![FileSystemTrait::InMemory, FileSystemTrait::Overlay]
                    .into_iter()
                    .any(|one| found.has(one)),
            is_pseudo: found.is_pseudo,
            is_btrfs: found.has(FileSystemTrait::Subvolumes),
        }
    }
}

/// What a walk left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Additional hard links, and directories that are also named themselves.
    pub repeated: u64,
    /// Symbolic links inside directories that were not followed.
    pub links: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
    /// Directories of other file systems, which were not entered. `/proc` and the like are never entered.
    pub other_file_systems: u64,
}

impl Left {
    /// Adds the counts of another walk.
    pub fn add(&mut self, other: &Self) {
        self.repeated += other.repeated;
        self.links += other.links;
        self.special += other.special;
        self.other_file_systems += other.other_file_systems;
    }

    /// Counts what is neither a regular file nor a directory.
    pub(super) fn pass(&mut self, kind: FileType) {
        if kind == FileType::Symlink {
            self.links += 1;
        } else {
            self.special += 1;
        }
    }
}

/// The rules of a walk below a path that was named.
pub(crate) struct SelectionRules<'a> {
    selection: &'a Selection,
    device: u64,
    pub stop: &'a Stop,
    pub left: Left,
}

impl WalkRules for SelectionRules<'_> {
    fn enters(&mut self, _directory: &WalkDirectory<1>, at: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        let is_pseudo = || file_system_of(at).is_ok_and(|system| system.is_pseudo);
        let is_repeated = self.selection.contains(facts.id()) && is_sure(at);
        let is_elsewhere = facts.device != self.device && (!self.selection.other_file_systems || is_pseudo());
        if is_repeated {
            self.left.repeated += 1;
        } else if is_elsewhere {
            self.left.other_file_systems += 1;
        }
        !is_repeated && !is_elsewhere
    }

    fn pass(&mut self, _directory: &WalkDirectory<1>, _name: &CStr, kind: FileType) {
        self.left.pass(kind);
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }
}

impl Root {
    /// Fails if a path that is opened leads to something else by now.
    pub(super) fn require_same(&self, now: &StatFacts) -> Result<(), IoFailure> {
        let is_same = now.id() == self.id || !self.system.inodes_identify;
        let why = "it leads to something else than before";
        is_same.then_some(()).ok_or_else(|| ("open", io::Error::other(why)))
    }
}

impl Selection {
    /// Stats all paths, following links, but opens nothing. A path that is named twice counts once.
    /// `other_file_systems` sets whether directories of other file systems are entered. A path that is missing, neither
    /// a regular file nor a directory, or not on a storage file system (`/proc`) fails when its turn comes; the others
    /// are processed.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, other_file_systems: bool) -> Self {
        Self::numbered(0, paths, other_file_systems)
    }

    /// Adds paths that the others are compared with. What is in both is a reference.
    #[must_use]
    pub fn against<P: AsRef<Path>>(self, paths: impl IntoIterator<Item = P>) -> Self {
        let references = Self::numbered(self.paths, paths, self.other_file_systems);
        Self {
            paths: references.paths,
            references: (!references.roots.is_empty()).then(|| Box::new(references)),
            ..self
        }
    }

    /// Takes block devices, too, which are refused otherwise.
    #[must_use]
    pub fn with_devices(mut self) -> Self {
        let is_device =
            |root: &&mut Root| fs::metadata(&root.path).is_ok_and(|found| found.file_type().is_block_device());
        for root in self.roots.iter_mut().filter(is_device) {
            root.refused = None;
        }
        self
    }

    fn numbered<P: AsRef<Path>>(first: u32, paths: impl IntoIterator<Item = P>, other_file_systems: bool) -> Self {
        let mut selection = Self {
            roots: Vec::new(),
            links: Vec::new(),
            ids: HashSet::new(),
            places: HashSet::new(),
            mounts: SeenMounts::default(),
            has_files: false,
            references: None,
            paths: first,
            other_file_systems,
        };
        for path in paths {
            selection.add(path.as_ref());
        }
        selection
    }

    fn add(&mut self, path: &Path) {
        let mut root = Root {
            path: path.to_owned(),
            number: self.paths,
            is_directory: false,
            id: FileId::new(0, 0),
            system: System::default(),
            refused: None,
        };
        self.paths += 1;
        match look(path) {
            Ok((metadata, system)) => {
                if !self.places.insert(place(path)) {
                    return;
                }
                root.is_directory = metadata.is_dir();
                self.has_files |= !root.is_directory;
                root.id = FileId::of(&metadata);
                root.system = System::of(&system);
                if root.is_directory && !system.inodes_identify && self.mounts.show_again(path) {
                    return;
                }
                if !self.ids.insert(FileId::of(&metadata)) && system.inodes_identify {
                    if !root.is_directory {
                        self.links.push(root);
                    }
                    return;
                }
            }
            Err(reason) => root.refused = Some(reason),
        }
        self.roots.push(root);
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Other hard links of files among these.
    pub(super) fn links(&self) -> &[Root] {
        &self.links
    }

    pub(super) fn references(&self) -> Option<&Self> {
        self.references.as_deref()
    }

    /// Whether several paths were named, so that one may be inside another.
    pub(super) fn has_several(&self) -> bool {
        self.roots.len() > 1 || self.references.is_some()
    }

    /// Whether the file or directory at this place was named itself, here or as a reference.
    pub(super) fn is_at(&self, place: &Path) -> bool {
        self.places.contains(place) || self.references().is_some_and(|references| references.is_at(place))
    }

    /// Whether a directory was named itself, by a path below another mount.
    pub(super) fn is_mounted_at_another(&self, directory: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        self.mounts.have(directory, facts)
    }

    /// Whether a file may have been named itself, here or as a reference, as far as its identity tells.
    pub(super) fn may_name(&self, id: FileId, system: System) -> bool {
        (self.has_files && (!system.inodes_identify || self.contains(id)))
            || self
                .references()
                .is_some_and(|references| references.may_name(id, system))
    }

    /// Whether a file or directory with this identity was named itself; then it does not count again in its directory.
    pub(crate) fn contains(&self, id: FileId) -> bool {
        self.ids.contains(&id)
    }

    /// Walks the files at or below a path that was named, in the order in which the system lists them, until the job
    /// stops.
    pub(crate) fn walk<'a>(&'a self, root: &Root, stop: &'a Stop) -> Walk<SelectionRules<'a>> {
        let rules = SelectionRules {
            selection: self,
            device: root.id.device,
            stop,
            left: Left::default(),
        };
        match &root.refused {
            Some(reason) => Walk::only(Err((root.path.clone(), reason.clone())), rules),
            None if !root.is_directory => Walk::only(Ok(FileAt::named(&root.path)), rules),
            None => Walk::below(&root.path, rules),
        }
    }
}

/// The first mount that shows each directory, for directories that inode numbers do not identify. The key identifies a directory at
/// least within one mount. A bind mount shows a directory in two places.
#[derive(Debug, Default)]
pub(super) struct SeenMounts(HashMap<FileState, u64>);

impl SeenMounts {
    /// Whether another mount shows this directory, too.
    fn have(&self, directory: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        let first = self.0.get(&facts.state);
        first.is_some_and(|first| mount_id(directory).is_some_and(|mount| mount != *first))
    }

    /// As [`Self::have`]; also adds the directory.
    pub(super) fn add(&mut self, directory: BorrowedFd<'_>, facts: &StatFacts) -> bool {
        let Some(mount) = mount_id(directory) else {
            return false;
        };
        *self.0.entry(facts.state).or_insert(mount) != mount
    }

    fn show_again(&mut self, path: &Path) -> bool {
        let opened = open_root(path).and_then(|opened| Ok((StatFacts::of(&opened)?, opened)));
        opened.is_ok_and(|(facts, opened)| self.add(opened.as_fd(), &facts))
    }
}

/// A path without symbolic links; the path itself if it cannot be resolved.
pub(super) fn place(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The path of an open directory, without symbolic links.
pub(super) fn place_of(directory: BorrowedFd<'_>, path: impl FnOnce() -> PathBuf) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap_or_else(|_| place(&path()))
}

/// The metadata and file system of a path, or why it is refused.
fn look(path: &Path) -> Result<(Metadata, FileSystem), String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot stat: {error}"))?;
    if !metadata.is_file() && !metadata.is_dir() {
        let kind = with_article(kind_of(&metadata));
        return Err(format!("is {kind}; name a regular file or a directory"));
    }
    let system = file_system(path).map_err(|error| format!("cannot stat its file system: {error}"))?;
    if system.is_pseudo {
        return Err(format!("not a storage file system ({})", system.type_name));
    }
    // Unlike stat(2), statfs(2) mounts what is mounted on demand.
    let metadata = fs::metadata(path).map_err(|error| format!("cannot stat: {error}"))?;
    Ok((metadata, system))
}
