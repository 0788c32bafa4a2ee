//! Where and on what a search was made, as reports and plans say it: the machine, the paths, the file systems.
//!
//! After a restart, a device number may mean another file system; on another machine, an inode number means another file. So a
//! report names its machine and, for each device number, the file system.
//!
//! Not here: reading groups (`report`) and steps (`plan`).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Seen;
use super::directory::Tree;
use crate::json::{path_in, with_path};

/// The version of reports and plans.
const VERSION: u64 = 1;

/// Where a search was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    machine: String,
    /// The working directory, from which relative paths start.
    pub directory: PathBuf,
    /// The paths that were given, then the references.
    pub roots: Vec<Root>,
    /// By device number.
    file_systems: BTreeMap<u64, String>,
}

/// A path that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// As it was given.
    pub given: PathBuf,
    /// Absolute, without links and `..`.
    pub path: PathBuf,
    /// Its `st_dev`; 0 if it cannot be read.
    pub device: u64,
    /// Whether it is a reference.
    pub is_reference: bool,
}

impl Origin {
    /// A search of these paths here.
    ///
    /// # Errors
    /// If there is no working directory.
    pub fn here(paths: &[PathBuf], references: &[PathBuf]) -> io::Result<Self> {
        let directory = std::env::current_dir()?;
        let root = |given: &PathBuf, is_reference| Root {
            path: fs::canonicalize(given).unwrap_or_else(|_| directory.join(given)),
            device: device_of(given),
            given: given.clone(),
            is_reference,
        };
        let given = paths.iter().map(|path| root(path, false));
        let roots = given.chain(references.iter().map(|path| root(path, true))).collect();
        Ok(Self {
            machine: machine(),
            directory,
            roots,
            file_systems: BTreeMap::new(),
        })
    }

    /// Notes the file system of a file that was found.
    pub fn meet(&mut self, device: u64, path: &Path) {
        self.file_systems.entry(device).or_insert_with(|| system_of(path));
    }

    /// Forgets all file systems.
    pub(super) fn forget_devices(&mut self) {
        self.file_systems.clear();
    }

    /// Writes it into an object, with a digest of the object: users may edit groups and steps, which can be checked
    /// against the files; which paths are references cannot be checked.
    #[must_use]
    pub fn write(&self, object: Value) -> Value {
        let mut object = with_path(object, "directory", Some(&self.directory));
        object["version"] = VERSION.into();
        object["machine"] = self.machine.as_str().into();
        let root = |root: &Root| {
            let kind = json!({"is_reference": root.is_reference});
            with_path(with_path(kind, "given", Some(&root.given)), "path", Some(&root.path))
        };
        object["roots"] = self.roots.iter().map(root).collect();
        let system = |(device, name): (&u64, &String)| json!({"device": device, "name": name});
        object["file_systems"] = self.file_systems.iter().map(system).collect();
        object["digest"] = digest(&object).into();
        object
    }

    /// Reads it back.
    ///
    /// # Errors
    /// What is missing, or that it is of another machine.
    pub fn read(object: &Value) -> Result<Self, String> {
        let missing = |what: &str| format!("it has no valid `{what}`");
        match object.get("version").map(Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(version)) => {
                return Err(format!(
                    "it has version {version}; this program reads version {VERSION}"
                ));
            }
            Some(None) => return Err(missing("version")),
            None => return Err("it was made by an older version of seekless; search again".to_owned()),
        }
        let made_on = object.get("machine").and_then(Value::as_str);
        if made_on.ok_or_else(|| missing("machine"))? != machine() {
            return Err("it was made on another machine; search on this one".to_owned());
        }
        let directory = absolute_in(object, "directory").ok_or_else(|| missing("directory"))?;
        let list = |name: &str| object.get(name).and_then(Value::as_array).ok_or_else(|| missing(name));
        let root = |root: &Value| {
            let path = absolute_in(root, "path")?;
            Some(Root {
                given: whole_path_in(root, "given")?,
                device: device_of(&path),
                path,
                is_reference: root.get("is_reference")?.as_bool()?,
            })
        };
        let system = |system: &Value| {
            let name = system.get("name")?.as_str()?;
            Some((system.get("device")?.as_u64()?, name.to_owned()))
        };
        let roots: Option<_> = list("roots")?.iter().map(root).collect();
        let file_systems: Option<_> = list("file_systems")?.iter().map(system).collect();
        if object.get("digest").and_then(Value::as_str) != Some(&digest(object)) {
            return Err(
                "the part that says where it was made was edited; only groups and steps may be edited".to_owned(),
            );
        }
        Ok(Self {
            machine: machine(),
            directory,
            roots: roots.ok_or_else(|| missing("roots"))?,
            file_systems: file_systems.ok_or_else(|| missing("file_systems"))?,
        })
    }
}

/// Of an object without its digest.
fn digest(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("digest");
    }
    let digest = blake3::derive_key("seekless dupes: where a report was made", object.to_string().as_bytes());
    crate::json::digits(&digest[..16])
}

fn device_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.dev())
}

/// A path that the system may have; [`path_in`] accepts more.
pub(super) fn whole_path_in(object: &Value, name: &str) -> Option<PathBuf> {
    let path = path_in(object, name)?;
    let bytes = path.as_os_str().as_encoded_bytes();
    (!bytes.is_empty() && !bytes.contains(&0)).then_some(path)
}

/// The same, of an absolute path.
pub(super) fn absolute_in(object: &Value, name: &str) -> Option<PathBuf> {
    whole_path_in(object, name).filter(|path| path.is_absolute())
}

/// Proves that files of a report or plan are what they were.
#[derive(Debug)]
pub struct Prover<'a> {
    origin: &'a Origin,
    /// File systems by their numbers now.
    now: HashMap<u64, String>,
}

impl<'a> Prover<'a> {
    /// For what an origin says.
    #[must_use]
    pub fn new(origin: &'a Origin) -> Self {
        Self {
            origin,
            now: HashMap::new(),
        }
    }

    /// Stats a file, or lists a directory, and returns its state with the current device number of its file system.
    ///
    /// # Errors
    /// How it differs from what it was.
    pub fn prove(&mut self, path: &Path, seen: &Seen) -> Result<Seen, String> {
        let found = fs::symlink_metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "no longer exists".to_owned(),
            _ => format!("cannot stat: {error}"),
        })?;
        match seen.contents {
            None if !found.is_file() => return Err("is not a regular file".to_owned()),
            Some(_) if !found.is_dir() => return Err("is not a directory".to_owned()),
            _ => {}
        }
        let was = self.origin.file_systems.get(&seen.device);
        let was = was.ok_or("the file system with its device number is not in the list")?;
        let now = self.now.entry(found.dev()).or_insert_with(|| system_of(path));
        // Without an identity, only the device number can be compared.
        if was != now || (!was.contains(' ') && found.dev() != seen.device) {
            return Err("is on another file system now".to_owned());
        }
        if found.ino() != seen.inode {
            return Err("is now another file (another inode number)".to_owned());
        }
        let nanoseconds = |seconds: i64, more: i64| seconds.saturating_mul(1_000_000_000).saturating_add(more);
        let now = Seen {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
            changed_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
            contents: None,
        };
        let now = match seen.contents {
            None => now,
            Some(_) => Tree::of(path)?.seen(),
        };
        let was = Seen {
            device: now.device,
            ..*seen
        };
        if now == was {
            return Ok(now);
        }
        Err("changed since the search".to_owned())
    }
}

/// The type of a file system, and its identity on this machine, whatever its device number: statvfs(3), `f_fsid`.
fn system_of(path: &Path) -> String {
    let name = seekless_sys::file_system(path).map_or_else(|_| "unknown".to_owned(), |found| found.type_name);
    match rustix::fs::statvfs(path).map_or(0, |found| found.f_fsid) {
        0 => name,
        id => format!("{name} {id:016x}"),
    }
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
    crate::json::digits(&digest[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(place: &Path) -> Origin {
        let mut origin = Origin::here(&[place.to_owned()], &[]).unwrap();
        origin.meet(fs::metadata(place).unwrap().dev(), place);
        origin
    }

    fn seen(path: &Path) -> Seen {
        let found = fs::metadata(path).unwrap();
        Seen {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            changed_ns: found.ctime() * 1_000_000_000 + found.ctime_nsec(),
            contents: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_may_be_missing_or_of_another_kind() {
        let place = tempfile::tempdir().unwrap();
        let origin = here(place.path());
        let object = origin.write(json!({}));
        assert_eq!(Origin::read(&object), Ok(origin));
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
                assert!(Origin::read(&object).is_err(), "{object}");
            }
        }
    }

    #[test]
    fn a_file_proves_itself_with_another_device_number_on_the_same_file_system_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "x").unwrap();
        let (mut origin, seen) = (here(place.path()), seen(&path));
        assert_eq!(Prover::new(&origin).prove(&path, &seen), Ok(seen));
        let name = origin.file_systems[&seen.device].clone();
        origin.file_systems = [(7, name.clone()), (8, "ext4 1".to_owned()), (9, "tmpfs".to_owned())].into();
        let on = |device| Prover::new(&origin).prove(&path, &Seen { device, ..seen });
        assert_eq!(on(7).is_ok(), name.contains(' '));
        assert!(on(8).unwrap_err().contains("another file system"));
        assert!(on(9).unwrap_err().contains("another file system"));
        assert!(on(10).unwrap_err().contains("not in the list"));
    }

    #[test]
    fn a_file_that_is_not_what_it_was_proves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "x").unwrap();
        let (origin, seen) = (here(place.path()), seen(&path));
        let others: [fn(&mut Seen); 4] = [
            |seen| seen.inode += 1,
            |seen| seen.bytes += 1,
            |seen| seen.modified_ns -= 1,
            |seen| seen.changed_ns -= 1,
        ];
        for other in others {
            let mut other_seen = seen;
            other(&mut other_seen);
            assert!(Prover::new(&origin).prove(&path, &other_seen).is_err());
        }
        let link = place.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert!(
            Prover::new(&origin)
                .prove(&link, &seen)
                .unwrap_err()
                .contains("regular")
        );
        assert!(
            Prover::new(&origin)
                .prove(&place.path().join("no"), &seen)
                .unwrap_err()
                .contains("exists")
        );
    }
}
