//! Reading many small files.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seekless_engine::cache;
use seekless_engine::method::Operation;
use seekless_engine::{Error, Method, ScanFile, Scanner, sequential};

use super::consumers::in_order;
use super::{each_method, file_of, sample, sizes, with_block};

/// What a method finds in files of these sizes.
fn scanned(method: &Method, files: &[(PathBuf, u64)]) -> seekless_engine::Result<(u64, Vec<Vec<u8>>)> {
    let mut kept = vec![Vec::new(); files.len()];
    let consumers: Vec<_> = kept.iter_mut().map(|kept| sequential(in_order(kept))).collect();
    let files = files.iter().zip(&consumers).map(|((path, bytes), consumer)| ScanFile {
        path,
        bytes: *bytes,
        consumer,
    });
    let done = Scanner::prepare(method)?.scan(&files.collect::<Vec<_>>())?;
    drop(consumers);
    Ok((done.bytes, kept))
}

/// Files around the edges of blocks, several times, so that there are batches of them.
fn files(directory: &tempfile::TempDir, block_bytes: u64) -> Vec<(PathBuf, u64)> {
    let of_block = sizes(block_bytes).into_iter().chain([0, 1, 200_000]);
    let many = of_block.cycle().take(100).enumerate();
    let made = many.map(|(number, bytes)| {
        let content = sample(bytes as usize + number);
        let path = file_of(directory, &number.to_string(), &content[number..]);
        (path, bytes)
    });
    made.collect()
}

fn evict(path: &Path) {
    cache::drop_file(path).unwrap();
}

#[test]
fn scan_is_what_std_reads_cached_or_not_by_every_method() {
    for (directory, method) in each_method(Operation::Scan) {
        for block_bytes in [4 << 10, 16 << 10] {
            let method = with_block(&method, block_bytes).unwrap();
            let files = files(&directory, block_bytes);
            let expected: Vec<Vec<u8>> = files.iter().map(|(path, _)| fs::read(path).unwrap()).collect();
            for cold_every in [1, 3, usize::MAX] {
                files.iter().step_by(cold_every).for_each(|(path, _)| evict(path));
                let (bytes, found) = scanned(&method, &files).unwrap();
                assert!(found == expected, "{method}, every {cold_every} cold");
                assert_eq!(bytes, files.iter().map(|(_, bytes)| bytes).sum::<u64>(), "{method}");
            }
        }
    }
}

#[test]
fn scan_ends_with_a_missing_or_shortened_file() {
    for (directory, method) in each_method(Operation::Scan) {
        let mut files = files(&directory, 4 << 10);
        files[70].1 += 1;
        let error = scanned(&method, &files).unwrap_err();
        let is_named = matches!(&error, Error::Resized { path, .. } if *path == files[70].0);
        assert!(is_named, "{method}: {error}");
        files[70].1 -= 1;
        fs::remove_file(&files[7].0).unwrap();
        let error = scanned(&method, &files).unwrap_err();
        let is_named = error.to_string().contains(files[7].0.to_str().unwrap());
        assert!(is_named, "{method}: {error}");
    }
}

#[test]
fn scan_of_nothing_or_that_is_ended_is_no_error() {
    let enough = sequential(|_, _| ControlFlow::Break(()));
    for (directory, method) in each_method(Operation::Scan) {
        let path = file_of(&directory, "file", &sample(300_000));
        let mut scanner = Scanner::prepare(&method).unwrap();
        assert_eq!(scanner.scan(&[]).unwrap().bytes, 0);
        let file = ScanFile {
            path: &path,
            bytes: 300_000,
            consumer: &enough,
        };
        let done = scanner.scan(&[file; 50]).unwrap();
        assert!(done.stopped && done.bytes < 50 * 300_000, "{method}");
    }
}
