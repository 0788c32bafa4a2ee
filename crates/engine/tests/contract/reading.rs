//! Reading.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use seekless_engine::method::{AccessPattern, Operation};
use seekless_engine::{Chunk, FileRange, IoOptions, Method, Reader, sequential};

use super::consumers::{ForEach, Kept, in_order};
use super::{cases, each_method, file_of, sample, with_block};

#[test]
fn read_is_what_std_reads_by_every_method() {
    for (directory, method) in each_method(Operation::Read) {
        for (method, size) in cases(&method) {
            reads_like_std(&directory, &method, size);
        }
        if let Some(method) = with_block(&method, 256 << 20) {
            reads_like_std(&directory, &method, 5000);
        }
    }
}

fn reads_like_std(directory: &tempfile::TempDir, method: &Method, size: usize) {
    let path = file_of(directory, "file", &sample(size));
    let expected = std::fs::read(&path).unwrap();
    let kept = Kept::default();
    let transfer = Reader::prepare_for(method, size as u64).unwrap().read(&path, &kept);
    let transfer = transfer.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
    assert_eq!(transfer.bytes, size as u64, "{method}");
    assert!(kept.bytes() == expected, "{method} read {size} bytes wrong");
}

#[test]
fn read_into_memory_fills_it_by_every_method() {
    let bytes = sample(500_001);
    for (directory, method) in each_method(Operation::Read) {
        let path = file_of(&directory, "file", &bytes);
        let method = with_block(&method, 16 << 10).unwrap_or(method);
        for (part, length) in [
            (0..500_001, 500_001),
            (0..500_001, 4097),
            (4096..300_001, 500_001),
            (0..0, 9),
        ] {
            let mut memory = vec![7; length];
            let of_file = FileRange::whole(&path).range(part.start as u64..part.end as u64);
            let done = IoOptions::method(method).read_into(of_file, &mut memory[..]);
            let done = done.unwrap_or_else(|error| panic!("{method}, {part:?}: {error}"));
            let read = part.len().min(length);
            assert_eq!(done.bytes, read as u64, "{method}, {part:?}");
            assert!(memory[..read] == bytes[part.clone()][..read], "{method}, {part:?}");
            assert!(memory[read..].iter().all(|&byte| byte == 7), "{method}, {part:?}");
        }
    }
}

#[test]
fn read_gives_a_closure_the_bytes_in_order() {
    for (directory, method) in each_method(Operation::Read) {
        let bytes = sample(500_001);
        let path = file_of(&directory, "file", &bytes);
        let method = with_block(&method, 16 << 10).unwrap_or(method);
        let mut kept = Vec::new();
        let mut reader = Reader::prepare_for(&method, 1 << 20).unwrap();
        let read = reader.read(&path, sequential(in_order(&mut kept)));
        let is_random = method.options().access() == AccessPattern::Random;
        if method.mechanism().name == "threads" || is_random {
            assert!(read.unwrap_err().is_unavailable(), "{method} cannot keep an order");
        } else {
            read.unwrap();
            assert!(kept == bytes, "{method}");
        }
    }
}

fn read_again(reader: &mut Reader, path: &Path) -> Vec<u8> {
    let kept = Kept::default();
    reader.read(path, &kept).unwrap();
    kept.bytes()
}

#[test]
fn reader_reads_on_after_its_consumer_ended_or_panicked() {
    for (directory, method) in each_method(Operation::Read) {
        let bytes = sample(1 << 20);
        let path = file_of(&directory, "file", &bytes);
        let method = with_block(&method, 16 << 10).unwrap_or(method);
        let mut reader = Reader::prepare_for(&method, 1 << 20).unwrap();
        let whole_map = method.mechanism().name == "mmap" && method.options().block_bytes().is_none();
        for after in if whole_map { vec![1] } else { vec![1, 2, 7] } {
            let seen = AtomicUsize::new(0);
            let enough = ForEach(|_: Option<Chunk<'_>>| match seen.fetch_add(1, Ordering::SeqCst) + 1 {
                seen if seen >= after => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            let transfer = reader.read(&path, &enough).unwrap();
            let has_ended = transfer.stopped && transfer.bytes < bytes.len() as u64 || whole_map;
            assert!(has_ended, "{method}");
            // Parallel ranges each finish their current block.
            assert!(seen.into_inner() <= after + 2, "{method}");
        }
        assert!(read_again(&mut reader, &path) == bytes, "{method} after an early end");
        let bytes = sample(4 << 20);
        let path = file_of(&directory, "file", &bytes);
        let mut reader = Reader::prepare_for(&method, bytes.len() as u64).unwrap();
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let seen = AtomicUsize::new(0);
            let panicking = ForEach(|_: Option<Chunk<'_>>| {
                assert!(seen.fetch_add(1, Ordering::SeqCst) == 0, "as asked");
                ControlFlow::Continue(())
            });
            let _ = reader.read(&path, &panicking);
        }));
        assert!(read.is_err(), "{method} swallowed a panic");
        assert!(read_again(&mut reader, &path) == bytes, "{method} after a panic");
        let bytes = sample(3 << 20);
        let path = file_of(&directory, "file", &bytes);
        let mut reader = Reader::prepare_for(&method, 1).unwrap();
        assert!(read_again(&mut reader, &path) == bytes, "{method}");
    }
}

#[test]
fn readers_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Reader>();
    is_send::<seekless_engine::Writer>();
    is_send::<seekless_engine::Copier>();
}
