//! Files that change while they are used.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Once;

use seekless_engine::method::Operation;
use seekless_engine::{Chunk, Consumer, Error, Reader};

use super::consumers::ForEach;
use super::pairs::is_long;
use super::{directories, each_method, file_of, methods, sample, with_block};

/// Does something to the file when the first chunk arrives.
fn meddling(act: impl Fn() + Sync) -> impl Consumer {
    let once = Once::new();
    ForEach(move |data: Option<Chunk<'_>>| {
        once.call_once(&act);
        let Some(chunk) = data else {
            return ControlFlow::Continue(());
        };
        // The bytes are used, so that a map is really read.
        chunk.for_each_slice(|_start, bytes| {
            std::hint::black_box(bytes);
            ControlFlow::Continue(())
        })
    })
}

fn truncate(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// More than a method has in flight.
fn file_bytes() -> usize {
    if is_long() { 16 << 20 } else { 4 << 20 }
}

#[test]
fn read_of_a_shrinking_file_is_an_error_by_every_method() {
    let bytes = sample(file_bytes());
    for directory in directories() {
        for (n, method) in methods(Operation::Read, directory.path()).into_iter().enumerate() {
            let method = with_block(&method, 64 << 10).unwrap_or(method);
            // To a page, to a length within the last page, and to nothing: in turn, but for the long run.
            let lengths = [4096, bytes.len() as u64 - 100, 0].into_iter().enumerate();
            for (_, left) in lengths.filter(|(at, _)| is_long() || at % 3 == n % 3) {
                let path = file_of(&directory, "file", &bytes);
                let meddle = meddling(|| truncate(&path, left));
                let mut reader = Reader::prepare_for(&method, bytes.len() as u64).unwrap();
                let read = reader.read(&path, &meddle);
                match read {
                    Err(error @ Error::Resized { .. }) => assert!(error.to_string().contains("file"), "{error}"),
                    other => panic!("{method} cut to {left}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn read_of_a_growing_file_ends_at_the_size_it_had() {
    let bytes = sample(file_bytes() / 4);
    for (directory, method) in each_method(Operation::Read) {
        let method = with_block(&method, 64 << 10).unwrap_or(method);
        let path = file_of(&directory, "file", &bytes);
        let meddle = meddling(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(&vec![1; 100_000]).unwrap();
        });
        let mut reader = Reader::prepare_for(&method, 4 * bytes.len() as u64).unwrap();
        let transfer = reader.read(&path, &meddle).unwrap();
        assert_eq!(transfer.bytes, bytes.len() as u64, "{method}");
    }
}
