//! The identity of a storage across starts of the machine: by it runs are combined, and a profile is found.

use std::fs::{self, File};
use std::path::Path;

use seekless_record::{DeviceId, StorageId};
use seekless_sys::{self as sys, FileSystemTrait};

use super::device::{BlockDevice, BlockLayer};
use crate::StorageFacts;

/// The identity of a directory's storage; unknown parts are `None`.
#[must_use]
pub fn identity(directory: &Path, facts: &StorageFacts) -> StorageId {
    let mut devices = Vec::new();
    if let Some(device) = &facts.device {
        push_chain(device, &mut devices);
    }
    StorageId {
        file_system: facts.file_system.clone(),
        // A tmpfs has another one whenever it is mounted: its mount point identifies it.
        uuid: (!FileSystemTrait::InMemory.is_of(&facts.file_system))
            .then(|| told_uuid(directory))
            .flatten()
            .or_else(|| uuid_of_device(facts)),
        devices,
        kernel: StorageId::kernel_of(&sys::kernel_release()),
        read_ahead_kib: facts.device.as_ref().and_then(|device| device.read_ahead_kib),
    }
}

fn push_chain(device: &BlockDevice, chain: &mut Vec<DeviceId>) {
    let is_of_simulated = device.below.iter().any(|below| below.kind == BlockLayer::Simulated);
    // The loop of a simulated disk is any that is free.
    let name = if is_of_simulated { "loop" } else { &device.name };
    chain.push(DeviceId {
        name: name.to_owned(),
        model: device.model.clone(),
        serial: device.serial.clone(),
    });
    for below in &device.below {
        push_chain(below, chain);
    }
}

/// The UUID that the file system reports.
fn told_uuid(directory: &Path) -> Option<String> {
    let directory = File::open(directory).ok()?;
    let bytes = sys::file_system_uuid(&directory).ok()?.available()?;
    // FAT has 4 bytes, which udev writes in its own way; some images have zeros.
    if bytes.len() != 16 || bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    let dash = |at: usize| if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
    let digits = bytes
        .iter()
        .enumerate()
        .map(|(at, byte)| format!("{}{byte:02x}", dash(at)));
    Some(digits.collect())
}

/// The UUID by which `/sys` and udev list a device: btrfs and older kernels do not answer.
fn uuid_of_device(facts: &StorageFacts) -> Option<String> {
    let name = &facts.device.as_ref()?.name;
    let entries = |directory: &str| fs::read_dir(directory).into_iter().flatten().flatten();
    let is_of_btrfs = |entry: &fs::DirEntry| entry.path().join("devices").join(name).exists();
    let is_link = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with(name));
    let is_btrfs = FileSystemTrait::Subvolumes.is_of(&facts.file_system);
    let btrfs = is_btrfs.then(|| entries("/sys/fs/btrfs").find(is_of_btrfs)).flatten();
    let found = btrfs.or_else(|| entries("/dev/disk/by-uuid").find(is_link))?;
    Some(found.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_tmpfs_is_known_by_its_mount_point() {
        let Ok(facts) = StorageFacts::of("/dev/shm") else {
            return;
        };
        if FileSystemTrait::InMemory.is_of(&facts.file_system) {
            assert_eq!(identity(Path::new("/dev/shm"), &facts).uuid, None);
        }
    }

    #[test]
    fn what_identifies_a_storage_is_the_same_without_its_other_facts() {
        let places = ["/", "/tmp", "/proc", "/dev/shm", "/boot"].map(Path::new);
        for place in places.into_iter().filter(|place| place.is_dir()) {
            let place = fs::canonicalize(place).unwrap();
            let Ok(facts) = StorageFacts::of(&place) else { continue };
            let brief = StorageFacts::identifying(&place, fs::metadata(&place).unwrap().dev());
            let found = identity(&place, &brief);
            assert_eq!(found, identity(&place, &facts), "{}", place.display());
            let expected = (facts.mount_point, facts.mount_options);
            assert_eq!((brief.mount_point, brief.mount_options), expected, "{place:?}");
        }
    }
}
