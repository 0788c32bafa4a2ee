//! `seekless update` where the disk, or what may be written, is full in the middle of it.

use std::fs;
use std::path::Path;

use super::place::{Mount, Place};

const MIB: u64 = 1 << 20;

/// Calls a test with an empty file system of about so many bytes, of each kind that can be made here.
fn on_small_disks(bytes: u64, mut test: impl FnMut(&Place, &Path, &str)) {
    for kind in ["ext3", "ext4", "xfs", "btrfs", "tmpfs"] {
        let place = Place::new();
        let folder = place.path("small");
        fs::create_dir(&folder).unwrap();
        let mounted = match kind {
            "tmpfs" => Mount::tmpfs(&folder, &format!("size={bytes}")),
            _ => Mount::image(kind, bytes, &place.path("image"), &folder),
        };
        if mounted.is_some() {
            test(&place, &folder, kind);
        } else {
            println!("skipped: {kind}");
        }
    }
}

fn free_bytes(folder: &Path) -> u64 {
    // What is not on the device may not have its blocks yet.
    seekless_sys::sync_file_system(&fs::File::open(folder).unwrap()).unwrap();
    seekless_sys::file_system(folder).unwrap().free_bytes
}

#[test]
fn what_was_allocated_before_the_disk_was_full_is_free_again_and_nothing_is_said_to_be_written() {
    on_small_disks(320 * MIB, |place, folder, kind| {
        let (path, before) = (folder.join("file"), vec![7; (5 * MIB) as usize]);
        place.file("changes", b"{\"offset\": 400000000, \"text\": \"x\"}\n");
        for method in [
            "update/sync,preallocate=both",
            "update/sync,preallocate=allocate",
            "update/mmap,preallocate=both",
        ] {
            fs::write(&path, &before).unwrap();
            let free = free_bytes(folder);
            let arguments = ["--from", "changes", "--method", method];
            let ended = place.run(&[&["update", path.to_str().unwrap()], &arguments[..]].concat());
            let said = &ended.stderr;
            assert_eq!(ended.code, Some(2), "{kind} {method}: {said}");
            assert!(
                (said.contains("allocating its blocks failed") || said.contains("is not available"))
                    && !said.contains("may be"),
                "{kind} {method}: {said}"
            );
            assert!(fs::read(&path).unwrap() == before, "{kind} {method}");
            let missing = free.saturating_sub(free_bytes(folder));
            assert!(missing < MIB, "{kind} {method}: {missing} bytes are not free any more");
        }
    });
}
