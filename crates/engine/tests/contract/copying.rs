//! Copying.

use seekless::method::Operation;
use seekless::{Copier, Destination, Error, Method};

use super::{cases, directories, file_of, methods, sample};

#[test]
fn every_method_copies_what_std_reads_back_whatever_the_size_and_block() {
    for directory in directories() {
        for method in methods(Operation::Copy, directory.path()) {
            for (method, size) in cases(&method) {
                copies_for_std(&directory, &method, size);
            }
        }
    }
}

fn copies_for_std(directory: &tempfile::TempDir, method: &Method, size: usize) {
    let bytes = sample(size);
    let source = file_of(directory, "source", &bytes);
    let target = directory.path().join("target");
    let mut copier = Copier::prepare_for(method, size as u64).unwrap();
    let mut copy = |destination| {
        let transfer = copier.copy(&source, &target, destination);
        transfer.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"))
    };
    assert_eq!(copy(Destination::New).bytes, size as u64);
    assert!(
        std::fs::read(&target).unwrap() == bytes,
        "{method} copied {size} bytes wrong"
    );
    for before in [size + 5000, size / 2] {
        std::fs::write(&target, vec![0xaa; before]).unwrap();
        copy(Destination::Overwrite);
        assert!(
            std::fs::read(&target).unwrap() == bytes,
            "{method} copied {size} bytes over {before} wrong"
        );
    }
    assert!(std::fs::read(&source).unwrap() == bytes, "{method} changed its source");
    std::fs::remove_file(&target).unwrap();
}

#[test]
fn a_copy_of_a_file_onto_itself_is_refused_and_changes_nothing() {
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
    }
}

#[test]
fn a_copier_copies_one_file_after_the_other() {
    for directory in directories() {
        for method in methods(Operation::Copy, directory.path()) {
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
}

#[test]
fn a_copy_that_is_not_to_be_had_leaves_no_target() {
    for directory in directories() {
        let source = file_of(&directory, "source", &sample(10_000));
        let target = directory.path().join("target");
        let reflink: Method = "copy/reflink".parse().unwrap();
        let copied = Copier::prepare(&reflink).and_then(|mut copier| copier.copy(&source, &target, Destination::New));
        assert_eq!(copied.is_ok(), target.exists());
    }
}
