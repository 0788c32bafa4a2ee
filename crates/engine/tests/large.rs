//! Files over 4 GiB, whose offsets do not fit into 32 bits. In memory, because a disk would take minutes, and only in
//! an optimized build: `cargo test --release -p seekless --test large`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use seekless_engine::method::{MECHANISMS, Operation, Setting};
use seekless_engine::{Copier, Destination, Method, Reader, Writer};

#[path = "contract/marks.rs"]
mod marks;

use marks::Marks;

const BYTES: u64 = (4 << 30) + 12_345;

/// A directory in memory with room for two such files, or the reason for skipping.
fn directory() -> Option<tempfile::TempDir> {
    seekless_engine::allow_mapping().unwrap();
    let shared = Path::new("/dev/shm");
    let free = seekless_engine::StorageFacts::of(shared).map_or(0, |facts| facts.free_bytes);
    if free < 3 * BYTES {
        println!("skipped: files over 4 GiB: /dev/shm has no room for three of them");
        return None;
    }
    tempfile::tempdir_in(shared).ok()
}

/// Every mechanism once, in large blocks.
fn methods(operation: Operation) -> impl Iterator<Item = Method> {
    let here = MECHANISMS.iter().filter(move |mechanism| {
        mechanism.operation == operation && mechanism.is_here() && !["reflink", "clonefile"].contains(&mechanism.name)
    });
    here.map(|mechanism| {
        let plain = Method::plain(mechanism);
        let options = plain.options();
        let options = options
            .with(Setting::block_bytes(options.block_bytes().map(|_| 4 << 20)))
            .with(Setting::depth(options.depth().map(|_| 1)));
        Method::new(mechanism, options).unwrap()
    })
}

/// A file of zeros with a mark at each side of 4 GiB and at the end.
fn marked(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(BYTES).unwrap();
    for offset in [0, (4 << 30) - 1, 4 << 30, BYTES - 1] {
        file.write_all_at(&[0xff], offset).unwrap();
    }
}

fn marks(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), BYTES);
    let mut marks = vec![0; 4];
    for (mark, offset) in marks.iter_mut().zip([0, (4 << 30) - 1, 4 << 30, BYTES - 1]) {
        file.read_exact_at(std::slice::from_mut(mark), offset).unwrap();
    }
    marks
}

#[test]
#[cfg_attr(debug_assertions, ignore = "moves gigabytes: needs an optimised build")]
fn files_over_4_gib_are_whole_by_every_mechanism() {
    let Some(directory) = directory() else { return };
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    marked(&source);
    for method in methods(Operation::Read) {
        let marks = Marks::default();
        let transfer = Reader::prepare_for(&method, BYTES)
            .unwrap()
            .read(&source, &marks)
            .unwrap();
        assert_eq!((transfer.bytes, marks.found()), (BYTES, (4, BYTES)), "{method}");
    }
    for method in methods(Operation::Copy) {
        Copier::prepare_for(&method, BYTES)
            .unwrap()
            .copy(&source, &target, Destination::New)
            .unwrap();
        assert_eq!(marks(&target), [0xff; 4], "{method}");
        std::fs::remove_file(&target).unwrap();
    }
    let zeros_but_marks = |offset: u64, bytes: &mut [u8]| {
        bytes.fill(0);
        for mark in [0, (4 << 30) - 1, 4 << 30, BYTES - 1] {
            if (offset..offset + bytes.len() as u64).contains(&mark) {
                bytes[(mark - offset) as usize] = 0xff;
            }
        }
        Ok(())
    };
    for method in methods(Operation::Write) {
        Writer::prepare_for(&method, BYTES)
            .unwrap()
            .write(&target, Destination::New, BYTES, &zeros_but_marks)
            .unwrap();
        assert_eq!(marks(&target), [0xff; 4], "{method}");
        std::fs::remove_file(&target).unwrap();
    }
}
