//! Where files lie on a device with a head: reading them in this order keeps the head from moving back and forth.
//!
//! Not here: deciding what to read, and in which order it is reported.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::facts::Seeks;
use seekless::plan::SeekFacts;
use seekless::{StorageFacts, cache, files};
use seekless_sys::residency;

/// The beginnings of this many files are read to measure what a read elsewhere costs.
const MEASURED_FILES: usize = 9;
/// The smallest size of such a file.
pub(crate) const MEASURED_BYTES: u64 = 8 << 10;

/// What the device below a path reports and, if that leaves doubt, what a measurement on files there that were not read yet shows.
/// `files` returns at most as many of them as it is asked for.
pub(crate) fn seek_facts(path: &Path, files: impl FnOnce(usize) -> Vec<PathBuf>) -> SeekFacts {
    let device = StorageFacts::of(path).ok().and_then(|facts| facts.device);
    let facts = SeekFacts {
        claims_rotational: device.as_ref().and_then(|device| device.claims_rotational),
        is_virtual: device.is_some_and(|device| device.is_virtual == Some(true)),
        seeks: None,
    };
    if !facts.are_in_doubt() {
        return facts;
    }
    let files = files(MEASURED_FILES);
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    // Where places are not known, as on networks, there is no order to gain by.
    let runs = |path: &Path| files::places(&File::open(path).ok()?, 0..MEASURED_BYTES).ok().flatten();
    if !files.iter().any(|path| runs(path).is_some_and(|runs| !runs.is_empty())) {
        return SeekFacts {
            claims_rotational: Some(false),
            ..facts
        };
    }
    SeekFacts {
        seeks: Seeks::of_beginnings(&files),
        ..facts
    }
}

/// At most `most` of these, evenly spread.
pub(crate) fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(most.max(1)).max(1))
}

/// How much of a file is in memory, if the system reports it.
pub(crate) fn resident_bytes(file: &File) -> Option<u64> {
    residency(file).ok()?.available().map(|found| found.resident_bytes)
}

/// Fetches ranges of files into the page cache in the order in which they lie on their devices. Errors are ignored here: the later read
/// of the file reports them.
pub(crate) fn fetch_in_order<N: Copy>(
    wanted: impl IntoIterator<Item = (N, Range<u64>)>,
    open: impl Fn(N) -> io::Result<File>,
    goes_on: impl Fn() -> bool,
) {
    let mut parts = Vec::new();
    for (name, range) in wanted.into_iter().take_while(|_| goes_on()) {
        let Ok(file) = open(name) else { continue };
        let device = file.metadata().map_or(0, |metadata| metadata.dev());
        let runs = files::places(&file, range).ok().flatten().unwrap_or_default();
        parts.extend(
            runs.into_iter()
                .map(|[at, place, bytes]| (device, place, at..at + bytes, name)),
        );
    }
    parts.sort_unstable_by_key(|(device, place, ..)| (*device, *place));
    for (.., range, name) in parts.into_iter().take_while(|_| goes_on()) {
        let _ = open(name).and_then(|file| cache::fetch(&file, range));
    }
}
