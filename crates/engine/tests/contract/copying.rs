//! Copying.

use seekless_engine::method::{Durability, Operation};
use seekless_engine::{Copier, Destination, Error, Method};

use super::pairs::is_long;
use super::{cases, directories, each_method, file_of, methods, sample};

#[test]
fn copy_is_what_std_reads_back_by_every_method() {
    for (directory, method) in each_method(Operation::Copy) {
        for (method, size) in cases(&method) {
            let bytes = sample(size);
            let source = file_of(&directory, "source", &bytes);
            let target = directory.path().join("target");
            let mut copier = Copier::prepare_for(&method, size as u64).unwrap();
            for before in [None, Some(size + 5000), Some(size / 2)] {
                if let Some(before) = before {
                    std::fs::write(&target, vec![0xaa; before]).unwrap();
                }
                let destination = before.map_or(Destination::New, |_| Destination::Overwrite);
                let transfer = copier.copy(&source, &target, destination);
                let transfer = transfer.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
                assert_eq!(transfer.bytes, size as u64);
                let is_right = std::fs::read(&target).unwrap() == bytes;
                assert!(is_right, "{method} copied {size} bytes over {before:?} wrong");
            }
            assert!(std::fs::read(&source).unwrap() == bytes, "{method} changed its source");
            std::fs::remove_file(&target).unwrap();
        }
    }
}

#[test]
fn copy_onto_itself_or_of_nothing_leaves_no_target() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"precious");
        let link = directory.path().join("link");
        std::fs::hard_link(&path, &link).unwrap();
        for method in methods(Operation::Copy, directory.path()) {
            let copied = Copier::prepare_for(&method, 100)
                .unwrap()
                .copy(&path, &link, Destination::Overwrite);
            assert!(matches!(copied, Err(Error::SameFile { .. })), "{method}");
            assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        }
        let source = file_of(&directory, "source", &sample(10_000));
        let target = directory.path().join("target");
        let reflink: Method = "copy/reflink".parse().unwrap();
        let copied = Copier::prepare(&reflink).and_then(|mut copier| copier.copy(&source, &target, Destination::New));
        assert_eq!(copied.is_ok(), target.exists());
    }
}

#[test]
fn copier_copies_one_file_after_the_other() {
    for (directory, method) in each_method(Operation::Copy) {
        if method.options().durability() != Durability::None && !is_long() {
            continue;
        }
        let mut copier = Copier::prepare_for(&method, 1).unwrap();
        for size in [10, 2_000_000, 0, 4096] {
            let source = file_of(&directory, "source", &sample(size));
            let target = directory.path().join("target");
            copier.copy(&source, &target, Destination::New).unwrap();
            assert!(std::fs::read(&target).unwrap() == sample(size), "{method}");
            std::fs::remove_file(&target).unwrap();
        }
    }
}

#[test]
fn copy_has_blocks_of_its_own_for_reading_and_writing() {
    let directory = tempfile::tempdir().unwrap();
    let target = file_of(&directory, "target", b"");
    for mechanism in ["sync", "double-buffer"] {
        for cache in ["", ",direct"] {
            let calls = |[block, write_block]: [u64; 2], bytes: &[u8]| {
                let text = format!("copy/{mechanism}{cache},block={block},write-block={write_block}");
                let method: Method = text.parse().unwrap();
                let source = file_of(&directory, "source", bytes);
                let mut copier = Copier::prepare_for(&method, bytes.len() as u64).unwrap();
                let done = copier.copy(&source, &target, Destination::Overwrite);
                match done {
                    Err(Error::Unavailable { .. }) => return None,
                    done => assert!(std::fs::read(&target).unwrap() == bytes, "{text}: {done:?}"),
                }
                Some(copier.copy(&source, &target, Destination::Overwrite).unwrap().calls)
            };
            let large = sample(256 << 10);
            for blocks in [[64 << 10, 16 << 10], [16 << 10, 64 << 10], [48 << 10, 20 << 10]] {
                let (Some(found), Some(as_one)) = (calls(blocks, &large), calls([256 << 10; 2], &large)) else {
                    println!("skipped: copy/{mechanism}{cache}");
                    continue;
                };
                // A call for each block of either, where one block would take one call of each. A third one is at the end of a step.
                let steps = (256_u64 << 10).div_ceil(blocks[0].max(blocks[1]));
                let least = (256_u64 << 10).div_ceil(blocks[0]) + (256_u64 << 10).div_ceil(blocks[1]);
                let more = found - as_one + 2;
                let is_within = (least..=least + steps).contains(&more);
                assert!(is_within, "{mechanism}{cache} {blocks:?}: {more}, {least}");
            }
            for size in [0, 1, 4095, 70_001] {
                let _ = calls([8 << 10, 4 << 10], &sample(size));
                let _ = calls([4 << 10, 12 << 10], &sample(size));
            }
        }
    }
    let refused = "copy/splice,write-block=4K".parse::<Method>();
    assert!(refused.is_err());
    let canonical: Method = "copy/sync,write-block=1M,block=2M".parse().unwrap();
    assert_eq!(canonical.to_string(), "copy/sync,block=2M,write-block=1M");
}
