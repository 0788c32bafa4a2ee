//! `seekless update` with more updates than fit into memory.

use std::fs;

use crate::common::place::{Mount, Place};

/// Updates in the binary form that need more than the smallest allowed memory, and the file that they make of zeros.
fn more_than_memory(place: &Place) -> Vec<u8> {
    let mut after = vec![0; 4_000_000];
    let mut updates = b"SKLSUPDT\x01\0\0\0".to_vec();
    for n in 0..1_000_000_u32 {
        let offset = (u64::from(n) * 7919) % 999_999 * 4;
        let bytes = n.to_le_bytes();
        updates.extend_from_slice(&offset.to_le_bytes());
        updates.extend_from_slice(&4_u32.to_le_bytes());
        updates.extend_from_slice(&bytes);
        after[offset as usize..offset as usize + 4].copy_from_slice(&bytes);
    }
    place.file("updates", &updates);
    after
}

#[test]
fn updates_that_do_not_fit_into_memory_are_sorted_on_the_disk() {
    let place = Place::new();
    let after = more_than_memory(&place);
    let path = place.file("file", &vec![0; 4_000_000]);
    for memory in ["16M", "1G"] {
        fs::write(&path, vec![0; 4_000_000]).unwrap();
        let told = place
            .succeeds(("update file --from updates --json --memory", memory))
            .json();
        assert_eq!(
            told["spilled_bytes"].as_u64().is_some_and(|bytes| bytes > 4_000_000),
            memory == "16M"
        );
        assert!(fs::read(&path).unwrap() == after, "{memory}");
    }
    let as_given = "update file --from updates --memory 16M --method update/sync,order=as-given";
    place.fails(2, as_given).warns("use another order");
}

#[test]
fn a_directory_that_cannot_take_what_does_not_fit_is_named_and_nothing_is_changed() {
    let place = Place::new();
    more_than_memory(&place);
    let path = place.file("file", b"precious");
    let small = place.path("small");
    let mount = Mount::tmpfs(&small, "size=1M");
    for (directory, reason) in [("small", "No space left"), ("missing", "No such file")] {
        if directory == "small" && mount.is_none() {
            continue;
        }
        let ended = place.run(("update file --from updates --memory 16M --spill", directory));
        ended.failed_with(2, &[directory, reason]);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
