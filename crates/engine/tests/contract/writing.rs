//! Writing.

use std::path::Path;

use seekless_engine::method::{CachePolicy, Operation, Preallocate};
use seekless_engine::{Destination, Method, Writer, full_text};

use super::consumers::repeated;
use super::{cases, each_method, file_of, sample};

#[test]
fn write_is_what_std_reads_back_by_every_method() {
    for (directory, method) in each_method(Operation::Write) {
        for (method, size) in cases(&method) {
            let path = directory.path().join("target");
            let bytes = sample(size);
            let mut writer = Writer::prepare_for(&method, size as u64).unwrap();
            // A new file, over a longer file, and over a shorter one.
            for before in [None, Some(size + 5000), Some(size / 2)] {
                if let Some(before) = before {
                    std::fs::write(&path, vec![0xaa; before]).unwrap();
                }
                let destination = before.map_or(Destination::New, |_| Destination::Overwrite);
                let transfer = writer.write(&path, destination, size as u64, &bytes.as_slice());
                let transfer = transfer.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
                assert_eq!(transfer.bytes, size as u64);
                let is_right = std::fs::read(&path).unwrap() == bytes;
                assert!(is_right, "{method} wrote {size} bytes over {before:?} wrong");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn write_new_never_overwrites_and_write_never_makes() {
    for (directory, method) in each_method(Operation::Write) {
        let path = file_of(&directory, "precious", b"precious");
        let missing = directory.path().join("missing");
        let mut writer = Writer::prepare_for(&method, 100).unwrap();
        for (path, destination) in [(&path, Destination::New), (&missing, Destination::Overwrite)] {
            let written = writer.write(path, destination, 100, &sample(100).as_slice());
            assert!(written.is_err(), "{method}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(!missing.exists(), "{method}");
    }
}

#[test]
fn write_to_a_full_file_system_is_an_error_with_the_path() {
    for (directory, method) in each_method(Operation::Write) {
        let path = directory.path().join("target");
        let (bytes, preallocate) = (1 << 60, method.options().preallocate());
        if method.mechanism().name == "mmap" || method.options().cache() == CachePolicy::Direct {
            continue;
        }
        // Those that allocate reach the limit at once. The others would fill the file system under the tests that run
        // beside this one.
        if !matches!(preallocate, Preallocate::Allocate | Preallocate::Both) {
            continue;
        }
        let mut writer = Writer::prepare_for(&method, 1 << 20).unwrap();
        let written = writer.write(&path, Destination::New, bytes, &repeated(0));
        let error = written.expect_err("no file system here holds an exbibyte").to_string();
        assert!(error.contains("target"), "{error}");
        let _ = std::fs::remove_file(&path);
    }
}

/// Fails unless a writer writes on after a failure or a panic.
fn writes_on(writer: &mut Writer, path: &Path, method: &Method) {
    let bytes = sample(1_000_000);
    let written = writer.write(path, Destination::New, 1_000_000, &bytes.as_slice());
    assert_eq!(written.unwrap().bytes, 1_000_000, "{method}");
    assert!(std::fs::read(path).unwrap() == bytes, "{method}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn writer_writes_on_after_its_producer_failed_or_panicked() {
    for (directory, method) in each_method(Operation::Write) {
        let path = directory.path().join("target");
        let failing = |offset: u64, bytes: &mut [u8]| {
            if offset >= 300_000 {
                return Err(std::io::Error::other("the source is gone"));
            }
            bytes.fill(1);
            Ok(())
        };
        let mut writer = Writer::prepare_for(&method, 3 << 20).unwrap();
        let error = writer.write(&path, Destination::New, 3 << 20, &failing).unwrap_err();
        let error = full_text(&error);
        let is_one_block = method.options().block_bytes().is_some_and(|block| block > 300_000);
        assert!(
            is_one_block || error.contains("the source is gone"),
            "{method}: {error}"
        );
        assert!(!path.exists(), "{method} left half a file");
        writes_on(&mut writer, &path, &method);
        let mut writer = Writer::prepare_for(&method, 8 << 20).unwrap();
        let panicking =
            |offset: u64, _: &mut [u8]| -> std::io::Result<()> { if offset > 0 { panic!("as asked") } else { Ok(()) } };
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = writer.write(&path, Destination::New, 8 << 20, &panicking);
        }));
        assert!(written.is_err(), "{method} swallowed a panic");
        let _ = std::fs::remove_file(&path);
        writes_on(&mut writer, &path, &method);
    }
}
