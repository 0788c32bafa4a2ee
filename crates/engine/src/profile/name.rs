//! The name of a storage, by which its profile and uses are found, and the directories that have them.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_record::StorageId;

use crate::StorageFacts;
use crate::error::{Error, Result};
use crate::files::directory_of;
use crate::storage::identity::identity;

/// Where the system's profiles are, which all users may read.
pub const OF_SYSTEM: &str = "/var/lib/seekless/profiles";

/// The user's directory of profiles; `None` if neither `XDG_DATA_HOME` nor `HOME` says where that is.
#[must_use]
pub fn own_directory() -> Option<PathBuf> {
    let data = user_directory("XDG_DATA_HOME", ".local/share", |_| true);
    data.map(|data| data.join("seekless/profiles"))
}

/// The directory that a variable of the XDG Base Directory Specification names, or this one below the home; `None` if neither is usable.
pub(crate) fn user_directory(variable: &str, below_home: &str, is_usable: fn(&Path) -> bool) -> Option<PathBuf> {
    let named = |variable: &str| {
        let path = env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute() && is_usable(path))
    };
    named(variable).or_else(|| Some(named("HOME")?.join(below_home)))
}

/// The directories of profiles: the user's, then the system's.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    own_directory().into_iter().chain([OF_SYSTEM.into()]).collect()
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

/// What identifies a storage and how it is mounted.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageName {
    /// The storage.
    pub id: StorageId,
    /// Where it is mounted, which identifies a storage without a UUID.
    pub mount_point: Option<String>,
    /// The options of the mount.
    pub mount_options: Option<String>,
    /// The name of the file of its profile.
    pub file: String,
}

impl StorageName {
    /// The storage of a path.
    ///
    /// # Errors
    /// The system's, if the path cannot be examined.
    pub fn of(path: &Path) -> Result<Self> {
        let failed = |action| move |error| Error::system(path, action, error);
        // An open file is named by a link in `/proc`.
        let place = fs::canonicalize(path).map_err(failed("find"))?;
        let directory = if place.is_dir() { &*place } else { directory_of(&place) };
        let metadata = fs::metadata(directory).map_err(failed("stat"))?;
        let facts = StorageFacts::identifying(directory, metadata.dev());
        let mount_point = facts.mount_point.as_ref().map(|path| path.display().to_string());
        Ok(Self::new(identity(directory, &facts), mount_point, facts.mount_options))
    }

    /// A storage with its mount.
    #[must_use]
    pub fn new(id: StorageId, mount_point: Option<String>, mount_options: Option<String>) -> Self {
        Self {
            file: file_name(&id, mount_point.as_deref(), mount_options.as_deref()),
            id,
            mount_point,
            mount_options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{id, id_with};
    use super::*;

    #[test]
    fn two_devices_with_one_uuid_have_two_profiles_and_two_mounts_of_one_have_one() {
        let cloned = id_with(|id| id.devices[0].serial = Some("B".to_owned()));
        let name = |id: &StorageId, mount_point| file_name(id, Some(mount_point), Some("rw"));
        assert_ne!(name(&id(), "/a"), name(&cloned, "/a"));
        assert_eq!(name(&id(), "/a"), name(&id(), "/b"));
        assert_ne!(name(&id(), "/a"), file_name(&id(), Some("/a"), Some("rw,sync")));
        let unnamed = StorageId { uuid: None, ..id() };
        assert_ne!(name(&unnamed, "/a"), name(&unnamed, "/b"));
        let odd = id_with(|id| id.uuid = Some("../../x".to_owned()));
        assert!(!name(&odd, "/a").contains('/'));
    }
}
