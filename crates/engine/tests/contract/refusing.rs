//! Refusals and their errors.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use seekless_engine::method::Operation;
use seekless_engine::{Destination, Error, Method, Reader, Writer, full_text};

use super::marks::Marks;
use super::{directories, file_of, methods, sample};

fn method(text: &str) -> Method {
    text.parse().unwrap()
}

fn read(path: &Path) -> Error {
    let mut reader = Reader::prepare_for(&method("read/sync"), 1).unwrap();
    reader
        .read(path, Marks::default())
        .expect_err("nothing that can be read")
}

#[test]
fn engine_takes_only_regular_files_and_says_what_it_met() {
    let directory = &directories()[0];
    let fifo = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let cases = [
        (directory.path(), "a directory"),
        (fifo.as_path(), "a FIFO"),
        (socket.as_path(), "a socket"),
        (Path::new("/dev/null"), "a device"),
    ];
    for (path, kind) in cases {
        let error = read(path).to_string();
        let is_named = error.contains(kind) && error.contains(&*path.to_string_lossy());
        assert!(is_named, "{error}");
    }
    assert!(full_text(&read(&directory.path().join("missing"))).contains("No such file"));
    let (mut writer, device) = (Writer::prepare(&method("write/sync")).unwrap(), Path::new("/dev/null"));
    let written = writer.write(device, Destination::Overwrite, 1, &b"x".as_slice());
    assert!(matches!(written, Err(Error::NotRegular { .. })));
}

#[test]
fn methods_of_another_operation_or_platform_are_refused() {
    let read = Reader::prepare(&method("write/sync"));
    assert!(matches!(read, Err(Error::WrongOperation { .. })));
    let written = Writer::prepare(&method("copy/sync"));
    assert!(matches!(written, Err(Error::WrongOperation { .. })));
    let foreign = if cfg!(target_os = "linux") {
        "copy/fcopyfile"
    } else {
        "copy/splice"
    };
    let Err(error) = seekless_engine::Copier::prepare(&method(foreign)) else {
        panic!("{foreign} cannot exist here")
    };
    assert!(error.is_unavailable() && error.to_string().contains("only"), "{error}");
}

#[test]
fn paths_that_are_no_utf_8_work_by_every_method() {
    for directory in directories() {
        let name = directory.path().join(OsStr::from_bytes(b"\xff\xfe name"));
        let bytes = sample(10_000);
        if let Err(error) = std::fs::write(&name, &bytes) {
            println!("skipped: {} takes no such name: {error}", directory.path().display());
            continue;
        }
        for method in methods(Operation::Read, directory.path()) {
            let mut reader = Reader::prepare_for(&method, 10_000).unwrap();
            let transfer = reader.read(&name, Marks::default()).unwrap();
            assert_eq!(transfer.bytes, 10_000, "{method}");
        }
    }
}

#[test]
fn direct_io_with_unaligned_blocks_is_unavailable_or_right() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(100_000));
        let odd = method("read/sync,direct,block=5000");
        let mut reader = Reader::prepare_for(&odd, 100_000).unwrap();
        match reader.read(&path, Marks::default()) {
            Ok(transfer) => assert_eq!(transfer.bytes, 100_000),
            Err(error) => {
                let is_told = error.is_unavailable() && error.to_string().contains("multiple");
                assert!(is_told, "{error}");
            }
        }
    }
}
