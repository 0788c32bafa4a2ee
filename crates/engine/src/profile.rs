//! Finding and reading the profile that fits a path: what was measured on its storage by earlier runs of the lab.
//!
//! It is read once a process and storage, and used only if the file belongs to this user or root and nobody else can write it. What
//! does not fit (another kernel, read-ahead window or mount option) is ignored with the reason.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{env, fmt, io};

use seekless_method::{self as method, Method};
use seekless_record::{Cache, Conditions, Curve, DocumentError, MAX_PROFILE_BYTES, Profile, StorageId, is_same_memory};
use seekless_sys::Access;

use crate::StorageFacts;
use crate::files::{open_own, read_within};
use crate::log;
use crate::storage::identity::identity;

/// The variable that names another profile; if it is empty, none is used.
pub const VARIABLE: &str = "SEEKLESS_PROFILE";
/// Where the system's profiles are, below `/var/lib`.
const OF_SYSTEM: &str = "/var/lib/seekless/profiles";

/// A profile, with its methods.
#[derive(Debug, PartialEq)]
pub struct StorageProfile {
    /// The profile.
    pub profile: Profile,
    /// Its file.
    pub path: PathBuf,
    /// Why it is not used for the cache states in which memory decides, if so.
    pub without_warm: Option<&'static str>,
    /// By curve: its method; `None` for one that this version does not know, or that does something else.
    methods: Vec<Option<Method>>,
}

/// Why a profile is not used.
#[derive(Debug)]
pub enum Unfit {
    /// None was made for this storage.
    Missing,
    /// It was asked not to be used.
    Unwanted,
    /// No profile has updates.
    WithoutUpdates,
    /// The storage cannot be examined.
    Unknown(crate::Error),
    /// It cannot be read, or others can write it.
    Unreadable(PathBuf, io::Error),
    /// It is damaged, or of another version.
    Document(PathBuf, DocumentError),
    /// It is of other conditions: what differs, then what the profile has, and what there is here.
    Other(&'static str, String, String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("nothing was measured on this storage"),
            Self::Unwanted => f.write_str("profiles are turned off"),
            Self::WithoutUpdates => f.write_str("no profile has updates; their plan rests on the costs of writing"),
            Self::Unknown(error) => write!(f, "{}", crate::full_text(error)),
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Document(path, error) => write!(f, "{}: {}", path.display(), crate::full_text(error)),
            Self::Other(what, of_profile, here) => {
                write!(f, "the profile is for another {what} ({of_profile}; here {here})")
            }
        }
    }
}

/// Whether plans use no profiles in this process.
static UNWANTED: AtomicBool = AtomicBool::new(false);

/// Makes plans of this process use no profiles.
pub fn without_profiles() {
    UNWANTED.store(true, Relaxed);
}

type Loaded = (u64, Option<&'static StorageProfile>);
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// The profile for plans on a path and its device; `None` if none fits.
pub(crate) fn of_device(path: &Path, device: u64) -> Option<&'static StorageProfile> {
    if UNWANTED.load(Relaxed) || cfg!(test) {
        return None;
    }
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = loaded.iter().find(|(known, _)| *known == device) {
        return *found;
    }
    let found = match StorageProfile::of(path) {
        // It is as long-lived as the process, which has few storages.
        Ok(found) => Some(&*Box::leak(Box::new(found))),
        Err(why) => {
            log::debug!(path = %path.display(), %why, "planned without a profile");
            None
        }
    };
    loaded.push((device, found));
    found
}

/// The directories of profiles: the user's, then the system's.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    let absolute = |variable: &str| {
        env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let of_user = data.map(|data| data.join("seekless/profiles"));
    of_user.into_iter().chain([OF_SYSTEM.into()]).collect()
}

/// The name of the file of a storage's profile. Two file systems with one UUID on different devices have different names, and so have
/// mounts with different options.
#[must_use]
pub fn file_name(id: &StorageId, mount_point: Option<&str>, mount_options: Option<&str>) -> String {
    let mut hash = crc32fast::Hasher::new();
    for device in &id.devices {
        for part in [device.serial.as_ref(), device.model.as_ref()] {
            hash.update(part.map_or("", String::as_str).as_bytes());
            hash.update(b"\0");
        }
    }
    hash.update(mount_options.unwrap_or_default().as_bytes());
    let uuid = id.uuid.clone().unwrap_or_else(|| {
        hash.update(mount_point.unwrap_or_default().as_bytes());
        "none".to_owned()
    });
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    format!(
        "{}-{}-{:08x}.json",
        plain(&id.file_system),
        plain(&uuid),
        hash.finalize()
    )
}

impl StorageProfile {
    /// The profile that fits the storage of a path.
    ///
    /// # Errors
    /// Why none does.
    pub fn of(path: &Path) -> Result<Self, Unfit> {
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        if UNWANTED.load(Relaxed) || named.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(Unfit::Unwanted);
        }
        let directories = directories();
        if named.is_none() && !directories.iter().any(|directory| directory.is_dir()) {
            return Err(Unfit::Missing);
        }
        // An open file is named by a link in `/proc`.
        let path = fs::canonicalize(path).map_err(|error| Unfit::Unknown(crate::Error::system(path, "find", error)))?;
        let directory = if path.is_dir() {
            &*path
        } else {
            crate::files::directory_of(&path)
        };
        let facts = StorageFacts::of(directory).map_err(Unfit::Unknown)?;
        let id = identity(directory, &facts);
        let mount_point = facts.mount_point.as_ref().map(|path| path.display().to_string());
        let options = facts.mount_options.as_deref();
        let name = file_name(&id, mount_point.as_deref(), options);
        let of_name = || {
            directories
                .iter()
                .map(|directory| directory.join(&name))
                .find(|path| path.exists())
        };
        let file = named.or_else(of_name).ok_or(Unfit::Missing)?;
        let found = Self::read(&file).map_err(|why| match why {
            Unfit::Missing => Unfit::Unreadable(file.clone(), ErrorKind::NotFound.into()),
            why => why,
        })?;
        found.fits(&id, mount_point.as_deref(), options)
    }

    /// Reads a profile that nobody else can have written.
    ///
    /// # Errors
    /// [`Unfit`] if it cannot be read, others can write it, or it is damaged.
    pub fn read(path: &Path) -> Result<Self, Unfit> {
        let text = open_own(path, Access::Read).and_then(|file: File| read_within(file, MAX_PROFILE_BYTES as u64));
        let text = text.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Unfit::Missing,
            _ => Unfit::Unreadable(path.to_owned(), error),
        })?;
        let profile = Profile::from_json(&text).map_err(|error| Unfit::Document(path.to_owned(), error))?;
        Ok(Self::new(profile, path.to_owned()))
    }

    /// A profile that was read from a file.
    #[must_use]
    pub fn new(profile: Profile, path: PathBuf) -> Self {
        let known = |curve: &Curve| {
            let method: Method = curve.method.parse().ok()?;
            let Conditions {
                operation, durability, ..
            } = curve.conditions;
            let is_its = method.operation() == operation && method.options().durability() == durability;
            is_its.then_some(method)
        };
        let methods = profile.curves.iter().map(known).collect();
        Self {
            profile,
            path,
            without_warm: None,
            methods,
        }
    }

    /// Itself, if it is of this storage and of this version's mechanisms.
    fn fits(mut self, id: &StorageId, mount_point: Option<&str>, options: Option<&str>) -> Result<Self, Unfit> {
        let Profile { storage, revision, .. } = &self.profile;
        let words = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let number = |kib: Option<u64>| kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{kib} KiB"));
        let devices = |id: &StorageId| {
            let names = id
                .devices
                .iter()
                .map(|device| device.model.as_ref().unwrap_or(&device.name).as_str());
            names.collect::<Vec<_>>().join(" on ")
        };
        // A UUID identifies the storage wherever it is mounted.
        let mounted = |point: Option<&str>| words(point.filter(|_| storage.uuid.is_none()));
        let differing = [
            (
                "version of the methods",
                revision.mechanisms.to_string(),
                method::REVISION.to_string(),
            ),
            ("file system", storage.file_system.clone(), id.file_system.clone()),
            ("UUID", words(storage.uuid.as_deref()), words(id.uuid.as_deref())),
            (
                "mount point",
                mounted(self.profile.mount_point.as_deref()),
                mounted(mount_point),
            ),
            ("device", devices(storage), devices(id)),
            ("kernel", storage.kernel.clone(), id.kernel.clone()),
            (
                "read-ahead window",
                number(storage.read_ahead_kib),
                number(id.read_ahead_kib),
            ),
            (
                "set of mount options",
                words(self.profile.mount_options.as_deref()),
                words(options),
            ),
        ];
        if let Some((what, of_profile, here)) = differing.into_iter().find(|(_, one, other)| one != other) {
            return Err(Unfit::Other(what, of_profile, here));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = seekless_sys::memory().ok().and_then(seekless_sys::Support::available);
        let memory = self.profile.memory_bytes.zip(memory.map(|memory| memory.total_bytes));
        self.without_warm = if self.profile.processors as usize != processors {
            Some("measured with another number of processors")
        } else if memory.is_some_and(|(one, other)| !is_same_memory(one, other)) {
            Some("measured with another size of memory")
        } else {
            None
        };
        Ok(self)
    }

    /// How long ago its newest sitting began.
    #[must_use]
    pub fn age(&self) -> Duration {
        time_since(self.profile.newest_unix_seconds)
    }

    /// The curves of known methods under some conditions.
    pub fn curves(&self, conditions: Conditions) -> impl Iterator<Item = (&Method, &Curve)> {
        let is_left_out = self.without_warm.is_some() && matches!(conditions.cache, Cache::Warm | Cache::FirstTouch);
        let curves = self.profile.curves.iter().zip(&self.methods);
        let alike = curves.filter(move |(curve, _)| curve.conditions == conditions && !is_left_out);
        alike.filter_map(|(curve, method)| Some((method.as_ref()?, curve)))
    }
}

/// The time since a moment in seconds since 1970; none for one in the future.
pub(crate) fn time_since(unix_seconds: u64) -> Duration {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds));
    moment.and_then(|moment| moment.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use seekless_record::{DeviceId, PROFILE_VERSION, Revision};

    use super::*;

    fn profile(id: &StorageId) -> Profile {
        Profile {
            version: PROFILE_VERSION,
            seekless: "0.1.0".to_owned(),
            newest_unix_seconds: 0,
            sittings: 1,
            revision: Revision {
                protocol: 1,
                mechanisms: method::REVISION,
            },
            storage: id.clone(),
            mount_point: Some("/".to_owned()),
            mount_options: Some("rw".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from) as u32,
            memory_bytes: None,
            alternating_ns: None,
            curves: Vec::new(),
        }
    }

    fn id() -> StorageId {
        StorageId {
            file_system: "ext4".to_owned(),
            uuid: Some("0-1".to_owned()),
            devices: vec![DeviceId {
                name: "vda".to_owned(),
                model: None,
                serial: Some("A".to_owned()),
            }],
            kernel: "6.18".to_owned(),
            read_ahead_kib: Some(128),
        }
    }

    #[test]
    fn what_differs_from_the_storage_here_is_named() {
        let fit = |profile: Profile, options| {
            let found = StorageProfile::new(profile, PathBuf::new());
            found.fits(&id(), Some("/"), options)
        };
        assert_eq!(fit(profile(&id()), Some("rw")).unwrap().without_warm, None);
        let kernel = StorageId {
            kernel: "7.0".to_owned(),
            ..id()
        };
        let window = StorageId {
            read_ahead_kib: Some(4096),
            ..id()
        };
        for (id, options, word) in [
            (kernel, Some("rw"), "another kernel (7.0; here 6.18)"),
            (window, Some("rw"), "another read-ahead window (4096 KiB; here 128 KiB)"),
            (id(), Some("rw,sync"), "another set of mount options (rw; here rw,sync)"),
        ] {
            let why = fit(profile(&id), options).unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
        let more = Profile {
            processors: 1000,
            ..profile(&id())
        };
        assert!(fit(more, Some("rw")).unwrap().without_warm.is_some());
    }

    #[test]
    fn two_devices_with_one_uuid_have_two_profiles_and_two_mounts_of_one_have_one() {
        let mut cloned = id();
        cloned.devices[0].serial = Some("B".to_owned());
        let name = |id: &StorageId, mount_point| file_name(id, Some(mount_point), Some("rw"));
        assert_ne!(name(&id(), "/a"), name(&cloned, "/a"));
        assert_eq!(name(&id(), "/a"), name(&id(), "/b"));
        assert_ne!(name(&id(), "/a"), file_name(&id(), Some("/a"), Some("rw,sync")));
        let unnamed = StorageId { uuid: None, ..id() };
        assert_ne!(name(&unnamed, "/a"), name(&unnamed, "/b"));
        let odd = StorageId {
            uuid: Some("../../x".to_owned()),
            ..id()
        };
        assert!(!name(&odd, "/a").contains('/'));
    }

    #[test]
    fn a_profile_that_others_can_write_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        assert!(matches!(StorageProfile::read(&path), Err(Unfit::Missing)));
        fs::write(&path, profile(&id()).to_json().unwrap()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        StorageProfile::read(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(StorageProfile::read(&path), Err(Unfit::Unreadable(..))));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(matches!(StorageProfile::read(&path), Err(Unfit::Document(..))));
    }
}
