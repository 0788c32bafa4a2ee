//! What the rules need to know of equal files: absolute paths, and which copies count.
//!
//! Not here: what follows from it (`choose`).

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use seekless::Mounts;
use seekless::files::{FileId, FileState};
use seekless_sys::Directory;

use super::choose::{Copy, Fixed};
use super::origin::{GivenRoot, SearchOrigin};
use super::place::Systems;
use super::rules::CopyName;
use super::{Action, RefusalReason, TEMPORARY, cannot};
use crate::dupes::{Equal, EqualFiles};
use crate::walk::is_in_trash;

/// The directories of files.
#[derive(Debug)]
pub struct CopyPlaces<'a> {
    origin: &'a SearchOrigin,
    /// The devices of the given paths.
    devices: HashSet<u64>,
    /// The given paths, and those of them that are references: of a list, they may be many.
    roots: HashSet<&'a Path>,
    references: HashSet<&'a Path>,
    /// Whether all given paths are in memory: then no copy is safer than one there.
    is_all_in_memory: bool,
    known: HashMap<PathBuf, ResolvedDirectory>,
    /// The directories of given paths and of mounts below them, each with the number of the given path: a bind mount shows in them what
    /// is found elsewhere, too.
    shown: HashMap<FileId, Vec<(PathBuf, u32)>>,
    ids: HashMap<PathBuf, Option<FileId>>,
    /// Whether files are to share blocks. Then nothing goes: every copy counts, and one that cannot be changed is the one to keep.
    is_sharing: bool,
    systems: Systems,
}

/// What a directory is, by one of its paths.
#[derive(Clone, Debug)]
struct ResolvedDirectory {
    /// Without links and `..`.
    path: PathBuf,
    /// Whether it is in the trash, in a read-only snapshot, or in memory.
    is_poor: bool,
    /// Whether nothing can be written there, as in a read-only snapshot or mount.
    is_read_only: bool,
}

impl<'a> CopyPlaces<'a> {
    /// For files of a search on which this is done.
    #[must_use]
    pub fn new(origin: &'a SearchOrigin, action: &Action) -> Self {
        let roots = origin.roots.iter();
        let references = roots.clone().filter(|root| root.is_reference);
        Self {
            origin,
            devices: origin.roots.iter().map(|root| root.device).collect(),
            roots: roots.map(|root| root.path.as_path()).collect(),
            references: references.map(|root| root.path.as_path()).collect(),
            is_all_in_memory: origin.roots.iter().all(|root| is_in_memory(&root.path)),
            known: HashMap::new(),
            shown: shown_directories(origin),
            ids: HashMap::new(),
            is_sharing: *action == Action::Reflink,
            systems: Systems::default(),
        }
    }

    /// The files of a group; and those that can no longer be found, with the reason.
    pub fn copies(&mut self, group: &EqualFiles) -> (Vec<Copy>, Vec<(PathBuf, RefusalReason)>) {
        let (mut copies, mut gone) = (Vec::new(), Vec::new());
        for file in &group.files {
            match self.copy(file, group.bytes) {
                Ok(copy) => copies.push(copy),
                Err(lost) => gone.push(lost),
            }
        }
        (copies, gone)
    }

    fn copy(&mut self, file: &Equal, bytes: u64) -> Result<Copy, (PathBuf, RefusalReason)> {
        let mut copy = Copy {
            names: Vec::new(),
            state: FileState { bytes, ..file.state },
            files: file.contents.map(|contents| contents.files),
            own_bytes: file.own_bytes,
            fixed: None,
            file_system: file.state.device,
            is_read_only: false,
        };
        for name in &file.names {
            let lost = |reason| (name.path.clone(), reason);
            let mut path = self.absolute(&name.path).map_err(lost)?;
            let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
            if is_link {
                path = fs::canonicalize(&path).map_err(|error| lost(cannot("find it")(error)))?;
            }
            if self.is_root_reference(name.root) || self.is_reference(&path) {
                copy.fixed = Some(Fixed::Reference);
            }
            let root = self.origin.roots.get(name.root as usize);
            let below = |root: &GivenRoot| {
                let rest = name.path.strip_prefix(&root.given).ok()?;
                let is_whole = rest.as_os_str().is_empty();
                Some(if is_whole {
                    root.path.clone()
                } else {
                    root.path.join(rest)
                })
            };
            // Links above a path that was given are the user's; those behind it may lead anywhere.
            if copy.fixed.is_none() && (is_link || root.and_then(below).as_ref() != Some(&path)) {
                copy.fixed = Some(Fixed::Link);
            }
            let is_directory = file.contents.is_some();
            copy.file_system = self.file_system(&path, is_directory, file.state.device);
            let directory = directory_of(&path, is_directory);
            copy.is_read_only |= self.is_sharing && self.place(directory).is_ok_and(|place| place.is_read_only);
            // A report may write one path in several ways.
            if copy.names.iter().any(|known| known.path == path) {
                continue;
            }
            let name = CopyName {
                is_poor: self.is_poor(&path, file.state.device) || is_directory && self.is_poor_in(&path),
                path,
                given: name.path.clone(),
                root: name.root,
                is_again: false,
            };
            for (path, root) in self.again(&name.path, is_directory) {
                if self.is_root_reference(root) || self.is_reference(&path) {
                    copy.fixed = Some(Fixed::Reference);
                }
                let GivenRoot { path: below, given, .. } = &self.origin.roots[root as usize];
                copy.names.push(CopyName {
                    given: given.join(path.strip_prefix(below).unwrap_or(&path)),
                    path,
                    root,
                    is_again: true,
                    ..name
                });
            }
            copy.names.push(name);
        }
        Ok(copy)
    }

    /// The other paths of a file or directory below given ones, and the numbers of those: bind mounts show them.
    fn again(&mut self, path: &Path, is_directory: bool) -> Vec<(PathBuf, u32)> {
        let mut found = Vec::new();
        for above in path.ancestors().skip(usize::from(!is_directory)) {
            let id = self.id(above);
            let rest = path.strip_prefix(above).unwrap_or(path);
            for (shown, root) in id.and_then(|id| self.shown.get(&id)).into_iter().flatten() {
                let again: PathBuf = shown.components().chain(rest.components()).collect();
                if again != path && again.starts_with(&self.origin.roots[*root as usize].path) {
                    found.push((again, *root));
                }
            }
        }
        found
    }

    /// The directory of a path, and the name in it, unless numbers do not identify directories there.
    pub(super) fn entry(&mut self, path: &Path) -> Option<(FileId, OsString)> {
        Some((self.id(path.parent()?)?, path.file_name()?.to_owned()))
    }

    fn id(&mut self, directory: &Path) -> Option<FileId> {
        let known = self.ids.entry(directory.to_owned());
        *known.or_insert_with(|| directory_id(directory))
    }

    /// Whether the path with this number is a reference.
    pub(super) fn is_root_reference(&self, root: u32) -> bool {
        let root = self.origin.roots.get(root as usize);
        root.is_some_and(|root| root.is_reference)
    }

    /// Whether a path is in a reference.
    #[must_use]
    pub fn is_reference(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.references.contains(above))
    }

    /// Whether a path is one of those that were given, or below it.
    pub(super) fn is_below_a_root(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.roots.contains(above))
    }

    /// Whether nobody should rely on the file with this absolute path: it is in the trash, in a read-only snapshot, in memory (tmpfs), on a device
    /// without a given path, or has the temporary name of a killed run, which may be put back.
    pub fn is_poor(&mut self, path: &Path, device: u64) -> bool {
        let is_temporary = path
            .file_name()
            .is_some_and(|name| name.as_bytes().starts_with(TEMPORARY.as_bytes()));
        !self.is_sharing
            && (is_temporary
                || !self.devices.contains(&device)
                || path.parent().is_none_or(|parent| self.is_poor_in(parent)))
    }

    /// A number that files have in common that may be linked: that of the device or, where blocks are shared, of the file system.
    pub(super) fn file_system(&self, path: &Path, is_directory: bool, device: u64) -> u64 {
        let open = || Directory::open(directory_of(path, is_directory)).ok();
        let look = || self.systems.of(device, &open()?).ok();
        let behind = (self.is_sharing).then(|| self.systems.known(device).or_else(look));
        behind.flatten().map_or(device, |behind| behind.sharing)
    }

    /// The same for a directory and everything in it.
    pub(super) fn is_poor_in(&mut self, directory: &Path) -> bool {
        self.place(directory).map_or(true, |place| place.is_poor)
    }

    /// An absolute path, whose directory has no links and no `..` in it. The file itself is not followed.
    ///
    /// # Errors
    /// Why there is none.
    pub fn absolute(&mut self, path: &Path) -> Result<PathBuf, RefusalReason> {
        let path = self.origin.directory.join(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(RefusalReason::NotAFile);
        };
        let place = self.place(parent).map_err(cannot("find its directory"))?;
        Ok(place.path.join(name))
    }

    fn place(&mut self, directory: &Path) -> io::Result<ResolvedDirectory> {
        if let Some(place) = self.known.get(directory) {
            return Ok(place.clone());
        }
        let path = fs::canonicalize(directory)?;
        let is_read_only = accessat(CWD, &path, Access::WRITE_OK, AtFlags::empty()) == Err(Errno::ROFS);
        // Its file system is mounted read-write.
        let is_snapshot = || is_read_only && seekless_sys::file_system(&path).is_ok_and(|found| !found.read_only);
        let place = ResolvedDirectory {
            is_poor: is_in_trash(&path) || is_snapshot() || !self.is_all_in_memory && is_in_memory(&path),
            is_read_only,
            path,
        };
        self.known.insert(directory.to_owned(), place.clone());
        Ok(place)
    }
}

/// The directories of given paths and of mounts below them, by their identities.
fn shown_directories(origin: &SearchOrigin) -> HashMap<FileId, Vec<(PathBuf, u32)>> {
    let mounts = Mounts::of_this_process();
    let mut shown: HashMap<_, Vec<_>> = HashMap::new();
    for (number, root) in (0..).zip(&origin.roots) {
        let below = mounts
            .iter()
            .map(|mount| &*mount.point)
            .filter(|point| point.starts_with(&root.path));
        for directory in below.chain([directory_of(&root.path, root.path.is_dir())]) {
            if let Some(id) = directory_id(directory) {
                shown.entry(id).or_default().push((directory.to_owned(), number));
            }
        }
    }
    shown
}

/// The identity of a directory, unless numbers do not identify it.
fn directory_id(path: &Path) -> Option<FileId> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
    let is_sure = seekless_sys::file_system(path).is_ok_and(|system| system.inodes_identify);
    is_sure.then(|| FileId::of(&found))
}

/// The directory that a path is, or that holds its file.
fn directory_of(path: &Path, is_directory: bool) -> &Path {
    path.parent().filter(|_| !is_directory).unwrap_or(path)
}

/// Whether the files of a directory are gone after a restart.
fn is_in_memory(directory: &Path) -> bool {
    seekless_sys::file_system(directory).is_ok_and(|found| ["tmpfs", "ramfs"].contains(&found.type_name.as_str()))
}
