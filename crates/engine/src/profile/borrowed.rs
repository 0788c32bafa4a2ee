//! Profiles of other storages that were imported, used for a storage of the same kind that has none of its own.

use std::fs;
use std::path::{Path, PathBuf};

use seekless_method as method;
use seekless_record::{DEVIATION_BETWEEN_STORAGES, StorageId, driver};

use super::{ProfileMismatch, StorageProfile};

/// The directory of imported profiles, in that of profiles.
const DIRECTORY: &str = "borrowed";
/// At most this many are read, because each plan of a process would wait for more.
pub const MOST_BORROWED: usize = 32;
/// Of fewer machines, one of them decides.
const FEWEST_MACHINES: u32 = 3;

/// Where imported profiles are, for a directory of profiles.
#[must_use]
pub fn directory_of_borrowed(profiles: &Path) -> PathBuf {
    profiles.join(DIRECTORY)
}

/// The imported profile that is the most like a storage: of the same kind; if possible, of the same model, of several machines, and of
/// the same kernel; the newest.
pub(super) fn find(
    directories: &[PathBuf],
    id: &StorageId,
    read: fn(&Path) -> Result<StorageProfile, ProfileMismatch>,
) -> Option<StorageProfile> {
    if id.is_simulated() {
        return None;
    }
    let entries = directories.iter().flat_map(|directory| {
        fs::read_dir(directory_of_borrowed(directory))
            .into_iter()
            .flatten()
            .flatten()
    });
    let paths = entries.map(|entry| entry.path());
    let documents = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let found = documents.take(MOST_BORROWED).filter_map(|path| read(&path).ok());
    let alike = found.filter(|found| {
        let storage = &found.head.storage;
        found.head.revision.mechanisms == method::REVISION
            && !storage.is_simulated()
            && (&storage.file_system, kind_of(storage)) == (&id.file_system, kind_of(id))
            && found
                .head
                .claims_rotational
                .is_none_or(|claim| claims_rotational(id) == Some(claim))
    });
    let models = |id: &StorageId| {
        let mut models: Vec<_> = id.devices.iter().map(|device| device.model.clone()).collect();
        // Of a partition and its disk, one.
        models.dedup();
        models
    };
    let nearest = alike.max_by_key(|found| {
        let storage = &found.head.storage;
        (
            models(storage) == models(id),
            found.head.machines.is_some_and(|machines| machines >= FEWEST_MACHINES),
            storage.kernel == id.kernel,
            found.head.newest_unix_seconds,
        )
    });
    let mut nearest = nearest?.without_unlike_memory();
    if nearest.head.memory_bytes.is_none() {
        nearest.without_warm = Some("measured with an unknown size of memory");
    }
    Some(nearest)
}

/// Whether the disk of a storage reports as rotational; `None` if it is not known.
fn claims_rotational(id: &StorageId) -> Option<bool> {
    let disk = Path::new("/sys/class/block").join(&id.devices.last()?.name);
    let claim = fs::read(disk.join("queue/rotational")).ok()?;
    Some(claim.starts_with(b"1"))
}

/// The kind of a storage's devices in words, from the one that is mounted down to the disks; none of a file system without devices.
#[must_use]
pub fn kind_of(id: &StorageId) -> String {
    let words = id.devices.iter().map(|device| match driver(&device.name) {
        Some("vd" | "xvd") => "virtual disk",
        Some("nvme") => "NVMe disk",
        Some("sd" | "hd") => "SCSI or SATA disk",
        Some("mmcblk") => "memory card",
        Some("loop") => "loop",
        Some("simulated") => "simulated disk",
        Some("dm") => "mapped device",
        Some("md") => "array",
        Some("nbd" | "rbd" | "drbd") => "network disk",
        Some("zram" | "ram" | "pmem") => "memory",
        _ => "other device",
    });
    let mut words: Vec<&str> = words.collect();
    // Of a partition and its disk, one.
    words.dedup();
    words.join(" on ")
}

impl StorageProfile {
    /// Whether it is of another storage.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.path
            .parent()
            .is_some_and(|directory| directory.ends_with(DIRECTORY))
    }

    /// The standard deviation between storages that its bounds lack: those of a profile over machines include their spread.
    pub(crate) fn deviation_elsewhere(&self) -> f64 {
        if self.is_borrowed() && self.head.machines.is_none() {
            DEVIATION_BETWEEN_STORAGES
        } else {
            0.0
        }
    }

    /// Of which storage it is, if of another one: its name, and in brackets its kind and how many machines it rests on, if it is not of
    /// one storage.
    #[must_use]
    pub fn borrowed_from(&self) -> Option<String> {
        let name = self.path.file_stem().filter(|_| self.is_borrowed())?.to_string_lossy();
        let storage = &self.head.storage;
        let kind = Some(kind_of(storage)).filter(|kind| !kind.is_empty());
        let kind = kind.map_or_else(String::new, |kind| format!("{kind}, "));
        let kernel = match storage.kernel.as_str() {
            "" => "several kernels".to_owned(),
            kernel => format!("kernel {kernel}"),
        };
        let machines = match self.head.machines {
            None => String::new(),
            Some(1) => ", by only 1 machine of this kind".to_owned(),
            Some(few @ ..FEWEST_MACHINES) => format!(", by only {few} machines of this kind"),
            Some(count) => format!(", by {count} machines of this kind"),
        };
        Some(format!("{name} ({kind}{}, {kernel}{machines})", storage.file_system))
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::DeviceId;

    use super::super::tests::{head, id, without_curves};
    use super::*;

    fn on(name: &str) -> StorageId {
        let mut id = id();
        id.devices = vec![DeviceId {
            name: name.to_owned(),
            ..DeviceId::default()
        }];
        id
    }

    #[test]
    fn the_nearest_profile_of_the_same_kind_is_borrowed() {
        let place = tempfile::tempdir().unwrap();
        let directories = [place.path().to_owned()];
        fs::create_dir(directory_of_borrowed(place.path())).unwrap();
        let lend = |name: &str, id: &StorageId, newest: u64| {
            let mut head = head(id);
            (head.newest_unix_seconds, head.memory_bytes) = (newest, None);
            let profile = without_curves(head).anonymous();
            let path = directory_of_borrowed(place.path()).join(name);
            fs::write(&path, profile.to_text().unwrap()).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(path, private).unwrap();
        };
        let found = |id: &StorageId| find(&directories, id, StorageProfile::read);
        assert_eq!(found(&on("vda")), None);
        let mut other_kernel = on("vdb1");
        other_kernel.kernel = "6.1".to_owned();
        lend("old.json", &other_kernel, 1);
        lend("disk.json", &on("sda"), 9);
        let mut other = on("vda");
        other.file_system = "xfs".to_owned();
        lend("other.json", &other, 9);
        let nearest = found(&on("vda")).unwrap();
        assert_eq!(nearest.borrowed_from().unwrap(), "old (virtual disk, ext4, kernel 6.1)");
        assert!(nearest.without_warm.is_some(), "its memory is unknown");
        lend("new.json", &on("vdc"), 0);
        let is_new = found(&on("vda")).unwrap().borrowed_from().unwrap().starts_with("new ");
        assert!(is_new, "the same kernel");
        // Nothing is known of the disk here, which does not exist.
        let absent = on("vd-absent");
        assert!(found(&absent).is_some());
        for name in ["old.json", "new.json"] {
            let path = directory_of_borrowed(place.path()).join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replacen('{', "{\"claims_rotational\":true,", 1)).unwrap();
        }
        assert_eq!(found(&absent), None);
        // What others could have written, or what is damaged, is not used.
        for name in ["new.json", "old.json"] {
            fs::write(directory_of_borrowed(place.path()).join(name), "{").unwrap();
        }
        assert_eq!(found(&on("vda")), None);
    }

    #[test]
    fn a_profile_over_machines_says_how_many_and_has_their_spread_already() {
        let over = |machines: Option<u32>, kernel: &str, directory: &str| {
            let mut head = head(&on("vda"));
            (head.machines, head.storage.kernel) = (machines, kernel.to_owned());
            StorageProfile::new(without_curves(head), Path::new(directory).join("kind.json"))
        };
        for (machines, kernel, words) in [
            (None, "6.1", "kernel 6.1"),
            (Some(1), "6.1", "kernel 6.1, by only 1 machine of this kind"),
            (Some(2), "6.1", "kernel 6.1, by only 2 machines of this kind"),
            (Some(12), "", "several kernels, by 12 machines of this kind"),
        ] {
            let found = over(machines, kernel, "p/borrowed");
            let expected = format!("kind (virtual disk, ext4, {words})");
            assert_eq!(found.borrowed_from(), Some(expected));
            let is_assumed = found.deviation_elsewhere() > 0.0;
            assert_eq!(is_assumed, machines.is_none(), "{machines:?}");
        }
        assert!(over(None, "6.1", "p").deviation_elsewhere() <= 0.0, "its own");
    }

    #[test]
    fn a_volume_is_of_another_kind_than_its_disk_and_a_partition_is_not() {
        let chain = |names: &[&str]| {
            let devices = names.iter().map(|name| on(name).devices.remove(0)).collect();
            kind_of(&StorageId { devices, ..id() })
        };
        assert_eq!(chain(&["vda1", "vda"]), chain(&["vdb"]));
        assert_eq!(chain(&["dm-0", "nvme0n1p2", "nvme0n1"]), "mapped device on NVMe disk");
        assert_eq!(chain(&[]), "", "a file system in memory");
    }
}
