//! One contract for every mechanism: what goes in comes out, whatever the size, the block, the options and the file
//! system. The oracle is std's plain reading and writing.
//!
//! Runs in a temporary folder, or in each of the folders of `SEEKLESS_TEST_DIRS` (separated by colons).

mod changing;
mod comparing;
mod copying;
mod crashing;
mod hugefiles;
mod reading;
mod recovering;
mod refusing;
mod replacing;
mod sparse;
mod spilling;
mod updating;
mod writing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seekless::method::{CachePolicy, Durability, Hint, Operation, mechanisms, variants};
use seekless::{Availability, Generator, Method, Probe};
use tempfile::TempDir;

/// A folder for each file system under test, removed at the end.
fn folders() -> Vec<TempDir> {
    seekless::allow_mapping().expect("the handler can be installed");
    match std::env::var_os("SEEKLESS_TEST_DIRS") {
        None => vec![tempfile::tempdir().expect("a temporary folder")],
        Some(list) => std::env::split_paths(&list)
            .map(|folder| tempfile::tempdir_in(folder).expect("a folder on the file system under test"))
            .collect(),
    }
}

/// The methods of an operation that a folder's storage supports: each variant of each mechanism, in some blocks. Says
/// which are not to be had and why.
fn methods(operation: Operation, folder: &Path) -> Vec<Method> {
    let mut probe = Probe::new(folder).expect("a probe");
    let mut missing = BTreeMap::<String, u32>::new();
    let mut found = Vec::new();
    for mechanism in mechanisms().filter(|mechanism| mechanism.operation == operation && mechanism.name != "null") {
        for method in variants(mechanism) {
            match probe.availability(&method) {
                Availability::Available => found.push(method),
                Availability::Unavailable(reason) => *missing.entry(reason).or_default() += 1,
            }
        }
    }
    for (reason, count) in missing {
        println!(
            "skipped: {count} variants of {operation} in {}: {reason}",
            folder.display()
        );
    }
    assert!(
        !found.is_empty(),
        "nothing of {operation} is available in {}",
        folder.display()
    );
    found
}

/// The sizes and blocks that a method is tried with: all of them for those with at most one option, some for the
/// combinations of several, of which there are hundreds.
fn cases(method: &Method) -> Vec<(Method, usize)> {
    let options = method.options();
    let departures = usize::from(options.cache != CachePolicy::Cached)
        + usize::from(options.hint != Hint::None)
        + usize::from(Some(&options.preallocate) != method.mechanism().accepts.preallocate.first())
        + usize::from(options.durability != Durability::None);
    let blocks: &[u64] = if departures <= 1 {
        &[4 << 10, 12 << 10, 64 << 10]
    } else {
        &[12 << 10]
    };
    let mut cases = Vec::new();
    for method in blocks.iter().filter_map(|&block| with_block(method, block)) {
        let block = method.options().block_bytes.unwrap_or(4096);
        let sizes = if departures <= 1 {
            sizes(block)
        } else {
            vec![0, 1, 3 * block - 1, 3 * block + 513]
        };
        cases.extend(sizes.into_iter().map(|size| (method, size as usize)));
    }
    if cases.is_empty() {
        cases.extend(sizes(4096).into_iter().map(|size| (*method, size as usize)));
    }
    // The block of the mechanism, or the whole file.
    cases.push((*method, 300_000));
    cases
}

/// A method with another block, where it takes one.
fn with_block(method: &Method, block_bytes: u64) -> Option<Method> {
    let options = seekless::Options {
        block_bytes: Some(block_bytes),
        ..*method.options()
    };
    Method::new(method.mechanism(), options).ok()
}

/// Bytes that no two offsets have in common.
fn sample(bytes: usize) -> Vec<u8> {
    let mut sample = vec![0; bytes];
    Generator::new(42).fill(0, &mut sample);
    sample
}

fn file_of(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a test file");
    path
}

/// Sizes around every edge of a block.
fn sizes(block_bytes: u64) -> Vec<u64> {
    let block = block_bytes;
    let mut sizes = vec![0, 1, 511, 512, 513, 4095, 4096, 4097];
    sizes.extend([block - 1, block, block + 1, 2 * block, 3 * block - 1, 5 * block + 17]);
    sizes
}

/// Waits until nobody has a file open: a child that another test starts has all that is open here until it runs its own
/// program.
fn wait_until_closed(path: &Path) {
    let started = std::time::Instant::now();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    while matches!(seekless_sys::take_write_lease(&file), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    {
        assert!(started.elapsed().as_secs() < 20, "{} stays open", path.display());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
