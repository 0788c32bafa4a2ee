//! Reading.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use seekless::method::{AccessPattern, Operation};
use seekless::{Chunk, Consumer, Job, Method, Part, Reader, sequential};

use super::marks::Marks;
use super::{cases, directories, file_of, methods, sample, with_block};

/// Keeps chunks at their offsets; takes them in any order.
struct Keep(Mutex<Vec<u8>>);

impl Consumer for Keep {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        let mut kept = self.0.lock().unwrap();
        chunk.for_each_slice(|start, bytes| {
            let at = offset as usize + start;
            assert!(
                kept[at..at + bytes.len()].iter().all(|&byte| byte == 0),
                "byte {at} came twice"
            );
            kept[at..at + bytes.len()].copy_from_slice(bytes);
            ControlFlow::Continue(())
        })
    }

    fn needs_order(&self) -> bool {
        false
    }
}

#[test]
fn every_method_reads_what_std_reads_whatever_the_size_and_block() {
    for directory in directories() {
        for method in methods(Operation::Read, directory.path()) {
            for (method, size) in cases(&method) {
                reads_like_std(&directory, &method, size);
            }
        }
    }
}

fn reads_like_std(directory: &tempfile::TempDir, method: &Method, size: usize) {
    let path = file_of(directory, "file", &sample(size));
    let expected = std::fs::read(&path).unwrap();
    // The sample has no long runs of zeros, so bytes that are not read are found, as they stay zero.
    let keep = Keep(Mutex::new(vec![0; size]));
    let transfer = Reader::prepare_for(method, size as u64).unwrap().read(&path, &keep);
    let transfer = transfer.unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
    assert_eq!(transfer.bytes, size as u64, "{method}");
    assert!(
        keep.0.into_inner().unwrap() == expected,
        "{method} read {size} bytes wrong"
    );
}

#[test]
fn every_method_fills_memory_up_to_its_end_or_that_of_the_part() {
    let bytes = sample(500_001);
    for directory in directories() {
        let path = file_of(&directory, "file", &bytes);
        for method in methods(Operation::Read, directory.path()) {
            let method = with_block(&method, 16 << 10).unwrap_or(method);
            for (part, length) in [
                (0..500_001, 500_001),
                (0..500_001, 4097),
                (4096..300_001, 500_001),
                (0..0, 9),
            ] {
                let mut memory = vec![7; length];
                let of_file = Part::whole(&path).range(part.start as u64..part.end as u64);
                let done = Job::by(method).read_into(of_file, &mut memory);
                let done = done.unwrap_or_else(|error| panic!("{method}, {part:?}: {error}"));
                let read = part.len().min(length);
                assert_eq!(done.bytes, read as u64, "{method}, {part:?}");
                assert!(memory[..read] == bytes[part.clone()][..read], "{method}, {part:?}");
                assert!(memory[read..].iter().all(|&byte| byte == 7), "{method}, {part:?}");
            }
        }
    }
}

#[test]
fn a_closure_gets_the_bytes_in_order() {
    for directory in directories() {
        let bytes = sample(500_001);
        let path = file_of(&directory, "file", &bytes);
        for method in methods(Operation::Read, directory.path()) {
            let method = with_block(&method, 16 << 10).unwrap_or(method);
            let mut kept = Vec::new();
            let consumer = sequential(|offset, bytes| {
                assert_eq!(offset, kept.len() as u64);
                kept.extend_from_slice(bytes);
                ControlFlow::Continue(())
            });
            let read = Reader::prepare_for(&method, 1 << 20).unwrap().read(&path, &consumer);
            let is_random = method.options().access() == AccessPattern::Random;
            if method.mechanism().name == "threads" || is_random {
                assert!(read.unwrap_err().is_unavailable(), "{method} cannot keep an order");
            } else {
                read.unwrap();
                assert!(kept == bytes, "{method}");
            }
        }
    }
}

/// Ends the read after some chunks.
struct Enough {
    seen: AtomicUsize,
    after: usize,
}

impl Consumer for Enough {
    fn data(&self, _offset: u64, _chunk: Chunk<'_>) -> ControlFlow<()> {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 >= self.after {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn needs_order(&self) -> bool {
        false
    }
}

#[test]
fn a_consumer_that_has_had_enough_ends_the_read_and_the_reader_reads_on() {
    for directory in directories() {
        let bytes = sample(1 << 20);
        let path = file_of(&directory, "file", &bytes);
        for method in methods(Operation::Read, directory.path()) {
            let method = with_block(&method, 16 << 10).unwrap_or(method);
            let mut reader = Reader::prepare_for(&method, 1 << 20).unwrap();
            let whole_map = method.mechanism().name == "mmap" && method.options().block_bytes().is_none();
            for after in if whole_map { vec![1] } else { vec![1, 2, 7] } {
                let enough = Enough {
                    seen: AtomicUsize::new(0),
                    after,
                };
                let transfer = reader.read(&path, &enough).unwrap();
                assert!(
                    transfer.stopped && transfer.bytes < bytes.len() as u64 || whole_map,
                    "{method}"
                );
                // Parallel ranges each finish their current block.
                assert!(enough.seen.into_inner() <= after + 2, "{method}");
            }
            let keep = Keep(Mutex::new(vec![0; bytes.len()]));
            reader.read(&path, &keep).unwrap();
            assert!(keep.0.into_inner().unwrap() == bytes, "{method} after an early end");
        }
    }
}

#[test]
fn a_reader_prepared_for_small_files_reads_a_larger_one() {
    for directory in directories() {
        let bytes = sample(3 << 20);
        let path = file_of(&directory, "file", &bytes);
        for method in methods(Operation::Read, directory.path()) {
            let mut reader = Reader::prepare_for(&method, 1).unwrap();
            let keep = Keep(Mutex::new(vec![0; bytes.len()]));
            reader.read(&path, &keep).unwrap();
            assert!(keep.0.into_inner().unwrap() == bytes, "{method}");
        }
    }
}

#[test]
fn a_block_larger_than_the_file_is_right() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(5000));
        for method in methods(Operation::Read, directory.path()) {
            let Some(method) = with_block(&method, 256 << 20) else {
                continue;
            };
            let marks = Marks::default();
            let transfer = Reader::prepare_for(&method, 5000).unwrap().read(&path, &marks).unwrap();
            assert_eq!(transfer.bytes, 5000);
        }
    }
}

/// Panics at the second chunk.
struct Panicking(AtomicUsize);

impl Consumer for Panicking {
    fn data(&self, _offset: u64, _chunk: Chunk<'_>) -> ControlFlow<()> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) == 0, "as asked");
        ControlFlow::Continue(())
    }

    fn needs_order(&self) -> bool {
        false
    }
}

#[test]
fn a_consumer_that_panics_leaves_a_reader_that_reads_on() {
    for directory in directories() {
        let bytes = sample(4 << 20);
        let path = file_of(&directory, "file", &bytes);
        for method in methods(Operation::Read, directory.path()) {
            let mut reader = Reader::prepare_for(&method, bytes.len() as u64).unwrap();
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = reader.read(&path, Panicking(AtomicUsize::new(0)));
            }));
            assert!(read.is_err(), "{method} swallowed a panic");
            let keep = Keep(Mutex::new(vec![0; bytes.len()]));
            reader.read(&path, &keep).unwrap();
            assert!(keep.0.into_inner().unwrap() == bytes, "{method} after a panic");
        }
    }
}

#[test]
fn readers_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Reader>();
    is_send::<seekless::Writer>();
    is_send::<seekless::Copier>();
}
