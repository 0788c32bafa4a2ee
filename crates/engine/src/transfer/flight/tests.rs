//! Answers of a ring may be short, late or errors. Without `io_uring`, the tests print that they are skipped.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::Error;
use crate::setup::Setup;
use seekless_method::Method;

const BLOCK: usize = 128 << 10;

fn method() -> Method {
    "read/io_uring,depth=4,block=128K".parse().unwrap()
}

fn ring() -> Option<Ring> {
    let ring = Setup::new(&method(), u64::MAX >> 1).ring();
    ring.inspect_err(|error| println!("skipped: {error}")).ok()
}

fn side(file: impl Into<OwnedFd>, method: &Method, bytes: u64) -> OpenFile<'_> {
    let file = Arc::new(File::from(file.into()));
    let mut side = OpenFile::new(file, Path::new("file"), method, 0);
    side.bytes = bytes;
    side
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn file_of(bytes: usize) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&content(bytes), 0).unwrap();
    file
}

#[test]
fn flight_asks_for_the_rest_of_a_short_read() {
    let Some(mut ring) = ring() else { return };
    let method = method();
    let (reader, mut writer) = io::pipe().unwrap();
    let source = side(reader, &method, 5000);
    let mut flight = Flight::new(&mut ring, &source);
    let slot = flight.free_slot().unwrap();
    flight.read(slot, &source, 0, 5000).unwrap();
    assert_ne!(flight.free_slot(), Some(slot));
    for (part, done) in [(0..2000, 2000), (2000..2001, 2001)] {
        writer.write_all(&content(5000)[part]).unwrap();
        assert_eq!(flight.wait().unwrap(), slot);
        let request = *flight.request(slot);
        let expected = (done, false, false);
        assert_eq!((request.done, request.is_whole(), request.is_at_end()), expected);
        flight.request_rest(slot).unwrap();
    }
    writer.write_all(&content(5000)[2001..]).unwrap();
    assert_eq!(flight.wait_whole().unwrap(), Some(slot));
    assert_eq!(flight.bytes(slot), content(5000));
    assert_eq!(flight.wait_whole().unwrap(), None);
}

#[test]
fn flight_asks_for_the_rest_of_a_short_write_then_frees_it() {
    let Some(mut ring) = ring() else { return };
    let method = method();
    // Holds half a block.
    let (mut reader, writer) = io::pipe().unwrap();
    let target = side(writer, &method, BLOCK as u64);
    let written = std::thread::scope(|scope| {
        let mut flight = Flight::new(&mut ring, &target);
        let slot = flight.free_slot().unwrap();
        flight.buffer_mut(slot).copy_from_slice(&content(BLOCK));
        flight.write(slot, &target, 0, BLOCK).unwrap();
        flight.submit().unwrap();
        let read = scope.spawn(move || {
            let mut read = vec![0; BLOCK];
            reader.read_exact(&mut read).unwrap();
            read
        });
        assert_eq!(flight.wait_whole().unwrap(), Some(slot));
        assert_eq!(flight.free_slot(), Some(slot));
        read.join().unwrap()
    });
    assert_eq!(written, content(BLOCK));
}

#[test]
fn flight_error_says_where_a_file_ended_early() {
    let Some(mut ring) = ring() else { return };
    let method = method();
    for (alignment, requests) in [(1, 2), (512, 1)] {
        let mut source = side(file_of(5000), &method, 9000);
        source.alignment = alignment;
        let mut flight = Flight::new(&mut ring, &source);
        flight.read(0, &source, 4096, 4904).unwrap();
        let error = flight.wait_whole().unwrap_err();
        let Error::Resized { found_bytes, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(found_bytes, 5000);
        drop(flight);
        // Direct I/O returns an unaligned length only at the file's end, so there is no further request.
        assert_eq!(source.calls(), requests);
        // A caller may continue behind the end.
        let mut flight = Flight::new(&mut ring, &source);
        flight.read(0, &source, 4096, 4904).unwrap();
        while !flight.request(0).is_at_end() {
            flight.wait().unwrap();
            assert_eq!(flight.request(0).done, 904);
            if !flight.request(0).is_at_end() {
                flight.request_rest(0).unwrap();
            }
        }
    }
}

#[test]
fn flight_error_says_what_failed_and_leaves_nothing_in_flight() {
    let Some(mut ring) = ring() else { return };
    let method = method();
    let good = side(file_of(3 * BLOCK), &method, 3 * BLOCK as u64);
    let directory = tempfile::tempdir().unwrap();
    let only_written = side(File::create(directory.path().join("file")).unwrap(), &method, 0);
    let only_read = side(File::open("/dev/null").unwrap(), &method, 0);
    for action in ["look", "write"] {
        let mut flight = Flight::new(&mut ring, &good);
        flight.reading = "look";
        for n in 0..3 {
            flight.read(n, &good, u64::from(n) * BLOCK as u64, BLOCK).unwrap();
        }
        match action {
            "write" => flight.write(3, &only_read, 77, 100).unwrap(),
            _ => flight.read(3, &only_written, 77, 100).unwrap(),
        }
        let error = loop {
            match flight.wait_whole() {
                Ok(slot) => assert_ne!(slot, None),
                Err(error) => break error,
            }
        };
        let begin = format!("file: cannot {action} at byte 77 (");
        assert!(error.to_string().starts_with(&begin), "{error}");
        drop(flight);
        assert_eq!(ring.in_flight(), 0);
    }
}

#[test]
fn flight_waits_for_what_is_in_flight_in_a_panic() {
    let Some(mut ring) = ring() else { return };
    let method = method();
    let (reader, mut writer) = io::pipe().unwrap();
    let source = side(reader, &method, 9);
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        writer.write_all(b"too late.").unwrap();
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut flight = Flight::new(&mut ring, &source);
        flight.read(0, &source, 0, 9).unwrap();
        flight.submit().unwrap();
        std::panic::resume_unwind(Box::new("as asked"));
    }));
    assert!(panicked.is_err());
    assert_eq!(ring.in_flight(), 0);
    assert_eq!(&ring.buffer(0)[..9], b"too late.");
    assert_eq!(source.calls(), ring.calls());
    late.join().unwrap();
}
