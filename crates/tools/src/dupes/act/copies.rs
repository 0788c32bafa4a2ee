//! What the rules need to know of equal files: where the search was made, absolute paths, and which copies count.
//!
//! Not here: what follows from it (`choose`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use seekless_engine::Mounts;
use seekless_engine::files::{FileId, FileState, hexadecimal};
use seekless_sys::{Directory, FileSystemTrait};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dir_handle::Systems;
use super::record::{MACHINE_ID, machine_id};
use super::rules::CopyName;
use super::{Action, KeepReason, RefusalReason, TEMPORARY, cannot};
use crate::dupes::{Equal, EqualFiles, FoundName};
use crate::json;
use crate::walk::is_in_trash;

/// The version of plans.
const VERSION: u64 = 2;

/// Where a search was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchOrigin {
    version: u64,
    machine: String,
    /// The working directory, from which relative paths start.
    #[serde(with = "json::path")]
    pub directory: PathBuf,
    /// The paths that were given, then the references.
    pub roots: Vec<GivenRoot>,
}

/// A path that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenRoot {
    /// As it was given.
    #[serde(with = "json::path")]
    pub given: PathBuf,
    /// Absolute, without links and `..`.
    #[serde(with = "json::path")]
    pub path: PathBuf,
    /// Its `st_dev`; 0 if it cannot be read.
    #[serde(skip)]
    pub device: u64,
    /// Whether it is a reference.
    pub is_reference: bool,
}

impl SearchOrigin {
    /// A search of these paths here.
    ///
    /// # Errors
    /// If there is no working directory.
    pub fn here(paths: &[PathBuf], references: &[PathBuf]) -> io::Result<Self> {
        let directory = std::env::current_dir()?;
        let root = |given: &PathBuf, is_reference| GivenRoot {
            path: fs::canonicalize(given).unwrap_or_else(|_| directory.join(given)),
            device: device_of(given),
            given: given.clone(),
            is_reference,
        };
        let given = paths.iter().map(|path| root(path, false));
        let roots = given.chain(references.iter().map(|path| root(path, true))).collect();
        Ok(Self {
            version: VERSION,
            machine: machine(),
            directory,
            roots,
        })
    }

    /// The absolute paths that were given.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }

    /// Writes it into an object.
    #[must_use]
    pub fn write(&self, mut object: Value) -> Value {
        if let (Some(fields), Value::Object(own)) = (object.as_object_mut(), json::written(self)) {
            fields.extend(own);
        }
        object
    }

    /// Reads it back.
    ///
    /// # Errors
    /// What is missing, or that it is of another machine.
    pub fn read(object: &Value) -> Result<Self, String> {
        match object.get("version").map(Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(version)) => {
                return Err(format!(
                    "it has version {version}; this program reads version {VERSION}"
                ));
            }
            _ => return Err("it has no valid `version`".to_owned()),
        }
        let mut origin: Self = json::read(object.clone())?;
        if origin.machine != machine() {
            return Err("it was made on another machine; search on this one".to_owned());
        }
        for root in &mut origin.roots {
            root.device = device_of(&root.path);
        }
        Ok(origin)
    }
}

fn device_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.dev())
}

/// A digest of the machine's ID, which is a secret (machine-id(5)), or its name where it has no ID.
fn machine() -> String {
    let id = machine_id(Path::new(MACHINE_ID)).unwrap_or_default();
    if id.is_empty() {
        return seekless_sys::host_name().unwrap_or_else(|| "unnamed".to_owned());
    }
    let digest = blake3::derive_key("seekless dupes: the machine of a report", &id);
    hexadecimal(&digest[..16])
}

/// A file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// All names that are known.
    pub names: Vec<CopyName>,
    /// What it was.
    pub state: FileState,
    /// The space that is free if all names are removed.
    pub own_bytes: u64,
    /// Why it is not acted on, whatever the rules are.
    pub fixed: Option<KeepReason>,
    /// A number that copies have in common that may be linked.
    pub file_system: u64,
    /// Whether others can share its blocks, and it cannot share theirs.
    pub is_read_only: bool,
}

impl Copy {
    /// Makes a file below this directory stay, and not count.
    pub fn stay_below(&mut self, directory: &Path) {
        for name in self.names.iter_mut().filter(|name| name.path.starts_with(directory)) {
            name.is_poor = true;
            self.fixed.get_or_insert(KeepReason::Moved);
        }
    }

    pub(super) fn is_poor(&self) -> bool {
        self.names.iter().all(|name| name.is_poor)
    }

    /// The paths of its names, a path for each directory entry.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let names = self.names.iter().filter(|name| !name.is_again);
        let mut paths: Vec<_> = names.map(|name| name.path.clone()).collect();
        paths.sort();
        paths
    }

    /// The name to rely on.
    pub(super) fn best_name(&self) -> Option<&CopyName> {
        let names = self.names.iter().filter(|name| !name.is_again);
        names.min_by_key(|name| (name.is_poor, &name.path))
    }

    pub(super) fn least<T: Ord>(&self, key: impl Fn(&CopyName) -> T) -> Option<T> {
        self.names.iter().map(key).min()
    }
}

/// The directories of files.
#[derive(Debug)]
pub struct CopyPlaces<'a> {
    origin: &'a SearchOrigin,
    /// The devices of the given paths.
    devices: HashSet<u64>,
    /// The given paths that are references: of a list, they may be many.
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
        let references = origin.roots.iter().filter(|root| root.is_reference);
        Self {
            origin,
            devices: origin.roots.iter().map(|root| root.device).collect(),
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
            own_bytes: file.own_bytes,
            fixed: None,
            file_system: file.state.device,
            is_read_only: false,
        };
        for found in &file.names {
            let resolved = self.resolved(&found.path);
            let (path, is_link) = resolved.map_err(|reason| (found.path.clone(), reason))?;
            match self.fixed(found, &path, is_link) {
                Some(KeepReason::Reference) => copy.fixed = Some(KeepReason::Reference),
                fixed => copy.fixed = copy.fixed.take().or(fixed),
            }
            copy.file_system = self.file_system(&path, file.state.device);
            let directory = path.parent().unwrap_or(&path);
            copy.is_read_only |= self.is_sharing && self.place(directory).is_ok_and(|place| place.is_read_only);
            // A list of paths may name one in several ways.
            if copy.names.iter().any(|known| known.path == path) {
                continue;
            }
            let name = CopyName {
                is_poor: self.is_poor(&path, file.state.device),
                path,
                given: found.path.clone(),
                root: found.root,
                is_again: false,
            };
            for (path, root) in self.again(&name.path) {
                if self.is_reference(root, &path) {
                    copy.fixed = Some(KeepReason::Reference);
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

    /// The absolute path of a file, and whether a symbolic link leads to it.
    fn resolved(&mut self, path: &Path) -> Result<(PathBuf, bool), RefusalReason> {
        let path = self.absolute(path)?;
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok((fs::canonicalize(&path).map_err(cannot("find it"))?, true));
        }
        Ok((path, false))
    }

    /// Why a file is not acted on that was found by a name, which leads to a path.
    fn fixed(&self, name: &FoundName, path: &Path, is_link: bool) -> Option<KeepReason> {
        if self.is_reference(name.root, path) {
            return Some(KeepReason::Reference);
        }
        let root = self.origin.roots.get(name.root as usize);
        let below = |root: &GivenRoot| Some(root.path.join(name.path.strip_prefix(&root.given).ok()?));
        // Links above a path that was given are the user's; those behind it may lead anywhere.
        let is_behind = is_link || root.and_then(below).as_deref() != Some(path);
        is_behind.then_some(KeepReason::Link)
    }

    /// The other paths of a file below given ones, and the numbers of those: bind mounts show them.
    fn again(&mut self, path: &Path) -> Vec<(PathBuf, u32)> {
        let mut found = Vec::new();
        for above in path.ancestors().skip(1) {
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

    fn id(&mut self, directory: &Path) -> Option<FileId> {
        let known = self.ids.entry(directory.to_owned());
        *known.or_insert_with(|| directory_id(directory))
    }

    /// Whether the given path with this number is a reference, or a path is in one.
    fn is_reference(&self, root: u32, path: &Path) -> bool {
        let root = self.origin.roots.get(root as usize);
        root.is_some_and(|root| root.is_reference) || path.ancestors().any(|above| self.references.contains(above))
    }

    /// Whether nobody should rely on the file with this absolute path: it is in the trash, in a read-only snapshot, in memory (tmpfs), on a device
    /// without a given path, or has the temporary name of a killed run, which may be put back.
    fn is_poor(&mut self, path: &Path, device: u64) -> bool {
        let is_temporary = path
            .file_name()
            .is_some_and(|name| name.as_bytes().starts_with(TEMPORARY.as_bytes()));
        let place = path.parent().and_then(|parent| self.place(parent).ok());
        let is_poor = is_temporary || !self.devices.contains(&device) || place.is_none_or(|place| place.is_poor);
        is_poor && !self.is_sharing
    }

    /// A number that files have in common that may be linked: that of the device or, where blocks are shared, of the file system.
    fn file_system(&self, path: &Path, device: u64) -> u64 {
        let open = || Directory::open(path.parent()?).ok();
        let look = || self.systems.of(device, &open()?).ok();
        let behind = (self.is_sharing).then(|| self.systems.known(device).or_else(look));
        behind.flatten().map_or(device, |behind| behind.sharing)
    }

    /// An absolute path, whose directory has no links and no `..` in it. The file itself is not followed.
    ///
    /// # Errors
    /// Why there is none.
    fn absolute(&mut self, path: &Path) -> Result<PathBuf, RefusalReason> {
        let path = self.origin.directory.join(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(RefusalReason::NotPlain);
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
        let own = root.path.parent().filter(|_| !root.path.is_dir());
        for directory in below.chain([own.unwrap_or(&root.path)]) {
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

/// Whether the files of a directory are gone after a restart.
fn is_in_memory(directory: &Path) -> bool {
    seekless_sys::file_system(directory).is_ok_and(|found| found.has(FileSystemTrait::InMemory))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_may_be_missing_or_of_another_kind() {
        let place = tempfile::tempdir().unwrap();
        let origin = SearchOrigin::here(&[place.path().to_owned()], &[]).unwrap();
        let object = origin.write(json!({}));
        assert_eq!(SearchOrigin::read(&object).unwrap(), origin);
        for key in ["version", "machine", "directory", "roots"] {
            for value in [
                None,
                Some(json!(null)),
                Some(json!("x")),
                Some(json!(1)),
                Some(json!([{}])),
            ] {
                let mut object = object.clone();
                match value {
                    Some(value) => object[key] = value,
                    None => drop(object.as_object_mut().unwrap().remove(key)),
                }
                // Any path can be the working directory.
                let is_path = key == "directory" && object[key].is_string();
                assert!(is_path || SearchOrigin::read(&object).is_err(), "{object}");
            }
        }
    }
}
