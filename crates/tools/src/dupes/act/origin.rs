//! Where and on what a search was made, as reports and plans say it: the machine, the paths, the file systems.
//!
//! After a restart, a device number may mean another file system; on another machine, an inode number means another file. So a
//! report names its machine and, for each device number, the file system.
//!
//! Not here: reading groups (`report`) and steps (`plan`).

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::{FileState, hexadecimal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::directory::ListedDirectory;
use super::{RefusalReason, cannot};
use crate::dupes::contents::Contents;
use crate::json;
use crate::volume::system_at;

/// The version of reports and plans.
const VERSION: u64 = 1;

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
    file_systems: Vec<NamedFileSystem>,
}

/// A file system of a device number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NamedFileSystem {
    device: u64,
    name: String,
    /// The device number that it has now, once a file on it was found.
    #[serde(skip)]
    device_now: OnceCell<u64>,
}

impl NamedFileSystem {
    /// Whether what was found at a path is on it.
    fn is_of(&self, path: &Path, found: &fs::Metadata) -> bool {
        // Without an identity, only the device number can be compared.
        let is_same = || self.name == system_at(path) && (self.name.contains(' ') || found.dev() == self.device);
        self.device_now.get().map_or_else(is_same, |now| *now == found.dev())
    }
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
            file_systems: Vec::new(),
        })
    }

    /// The absolute paths that were given.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }

    /// Notes the file system of a file that was found.
    pub fn meet(&mut self, device: u64, path: &Path) {
        if !self.file_systems.iter().any(|system| system.device == device) {
            self.file_systems.push(NamedFileSystem {
                device,
                name: system_at(&self.directory.join(path)),
                device_now: device.into(),
            });
        }
    }

    /// Stats a file, and returns its state with the number that its device has now.
    ///
    /// # Errors
    /// How it differs from what it was.
    pub(super) fn prove(&self, path: &Path, was: &FileState) -> Result<FileState, RefusalReason> {
        let found = self.found(path, was, false)?;
        unchanged(FileState::of(&found), was)
    }

    /// The same of a directory, which is listed.
    pub(super) fn prove_directory(
        &self,
        path: &Path,
        was: &FileState,
        contents: &Contents,
    ) -> Result<FileState, RefusalReason> {
        self.found(path, was, true)?;
        let (now, inside) = ListedDirectory::of(path)?.seen();
        if inside != *contents {
            return Err(RefusalReason::Changed);
        }
        unchanged(now, was)
    }

    /// Stats a file or directory that a search may have found, and returns its state. `is_it` is asked with the number that its device
    /// had at the search.
    ///
    /// # Errors
    /// That it is another one.
    pub(super) fn recognise(
        &self,
        path: &Path,
        is_directory: bool,
        mut is_it: impl FnMut(FileState) -> bool,
    ) -> Result<FileState, RefusalReason> {
        let found = stat(path, is_directory)?;
        let now = FileState::of(&found);
        let here = self.file_systems.iter().filter(|system| system.is_of(path, &found));
        let here: Vec<&NamedFileSystem> = here.collect();
        let is_it = |system: &&NamedFileSystem| {
            is_it(FileState {
                device: system.device,
                ..now
            })
        };
        let is_elsewhere = here.is_empty();
        let Some(system) = here.into_iter().find(is_it) else {
            return Err(if is_elsewhere {
                RefusalReason::OtherFileSystem
            } else {
                RefusalReason::OtherMark
            });
        };
        system.device_now.get_or_init(|| found.dev());
        Ok(now)
    }

    fn found(&self, path: &Path, was: &FileState, is_directory: bool) -> Result<fs::Metadata, RefusalReason> {
        let found = stat(path, is_directory)?;
        let mut named = self.file_systems.iter().filter(|system| system.device == was.device);
        let system = named.next();
        let system = system.ok_or(RefusalReason::UnlistedFileSystem)?;
        if !system.is_of(path, &found) {
            return Err(RefusalReason::OtherFileSystem);
        }
        if found.ino() != was.inode {
            return Err(RefusalReason::OtherInode);
        }
        system.device_now.get_or_init(|| found.dev());
        Ok(found)
    }

    /// Writes it into an object, with a digest of the object: users may edit groups and steps, which can be checked
    /// against the files; which paths are references cannot be checked.
    #[must_use]
    pub fn write(&self, mut object: Value) -> Value {
        let mut origin = self.clone();
        // The old number of a file system without a file may be another's now.
        origin.file_systems.retain(|system| system.device_now.get().is_some());
        for system in &mut origin.file_systems {
            system.device = system.device_now.get().copied().unwrap_or(system.device);
        }
        if let (Some(fields), Value::Object(own)) = (object.as_object_mut(), json::written(&origin)) {
            fields.extend(own);
        }
        object["digest"] = digest(&object).into();
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
            Some(None) => return Err("it has no valid `version`".to_owned()),
            None => return Err("it was made by an older version of seekless; search again".to_owned()),
        }
        let mut origin: Self = json::read(object.clone())?;
        if origin.machine != machine() {
            return Err("it was made on another machine; search on this one".to_owned());
        }
        if object.get("digest").and_then(Value::as_str) != Some(&digest(object)) {
            return Err(
                "the part that says where it was made was edited; only groups, and lines of a plan, may be edited"
                    .to_owned(),
            );
        }
        for root in &mut origin.roots {
            root.device = device_of(&root.path);
        }
        Ok(origin)
    }
}

/// Of an object without its digest.
fn digest(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("digest");
    }
    let digest = blake3::derive_key("seekless dupes: where a report was made", object.to_string().as_bytes());
    hexadecimal(&digest[..16])
}

fn device_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.dev())
}

fn stat(path: &Path, is_directory: bool) -> Result<fs::Metadata, RefusalReason> {
    let found = fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RefusalReason::Gone,
        _ => cannot("stat")(error),
    })?;
    match found.file_type() {
        kind if is_directory && !kind.is_dir() => Err(RefusalReason::NotDirectory),
        kind if !is_directory && !kind.is_file() => Err(RefusalReason::NotRegular),
        _ => Ok(found),
    }
}

fn unchanged(now: FileState, was: &FileState) -> Result<FileState, RefusalReason> {
    let device = now.device;
    let is_same = now == FileState { device, ..*was };
    is_same.then_some(now).ok_or(RefusalReason::Changed)
}

/// Where this machine's ID is: machine-id(5).
pub(super) const MACHINE_ID: &str = "/etc/machine-id";

/// The machine's ID in this file; empty if it has none.
pub(super) fn machine_id(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read?.trim_ascii().to_vec()),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn here(place: &Path) -> SearchOrigin {
        let mut origin = SearchOrigin::here(&[place.to_owned()], &[]).unwrap();
        origin.meet(fs::metadata(place).unwrap().dev(), place);
        origin
    }

    fn seen(path: &Path) -> FileState {
        FileState::of(&fs::metadata(path).unwrap())
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_may_be_missing_or_of_another_kind() {
        let place = tempfile::tempdir().unwrap();
        let origin = here(place.path());
        let object = origin.write(json!({}));
        let read = SearchOrigin::read(&object).unwrap();
        let known = seen(place.path());
        assert_eq!(read.recognise(place.path(), true, |then| then == known), Ok(known));
        assert_eq!(read, origin);
        for key in ["version", "machine", "directory", "roots", "file_systems", "digest"] {
            for value in [
                None,
                Some(json!(null)),
                Some(json!("x")),
                Some(json!(2)),
                Some(json!([{}])),
            ] {
                let mut object = object.clone();
                match value {
                    Some(value) => object[key] = value,
                    None => drop(object.as_object_mut().unwrap().remove(key)),
                }
                assert!(SearchOrigin::read(&object).is_err(), "{object}");
            }
        }
    }

    #[test]
    fn a_file_proves_itself_if_it_is_what_it_was_with_another_device_number_on_the_same_file_system_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "x").unwrap();
        let (origin, seen) = (here(place.path()), seen(&path));
        let others: [fn(&mut FileState); 4] = [
            |seen| seen.inode += 1,
            |seen| seen.bytes += 1,
            |seen| seen.modified_ns -= 1,
            |seen| seen.changed_ns -= 1,
        ];
        for other in others {
            let mut other_seen = seen;
            other(&mut other_seen);
            assert!(origin.prove(&path, &other_seen).is_err());
        }
        let link = place.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(origin.prove(&link, &seen), Err(RefusalReason::NotRegular));
        assert_eq!(origin.prove(&place.path().join("no"), &seen), Err(RefusalReason::Gone));
        assert_eq!(origin.prove(&path, &seen), Ok(seen));
        let name = origin.file_systems[0].name.clone();
        let named = |device, name: &str| NamedFileSystem {
            device,
            name: name.to_owned(),
            device_now: OnceCell::new(),
        };
        let mut origin = origin;
        origin.file_systems = vec![named(7, &name), named(8, "ext4 1"), named(9, "tmpfs")];
        let on = |device| origin.prove(&path, &FileState { device, ..seen });
        assert_eq!(on(7).is_ok(), name.contains(' '));
        assert_eq!(on(8), Err(RefusalReason::OtherFileSystem));
        assert_eq!(on(9), Err(RefusalReason::OtherFileSystem));
        assert_eq!(on(10), Err(RefusalReason::UnlistedFileSystem));
        let number = name.contains(' ').then_some(seen.device);
        assert_eq!(origin.write(json!({}))["file_systems"][0]["device"], json!(number));
    }
}
