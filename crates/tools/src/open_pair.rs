//! Comparing two open files by a method of the engine: by path if the method opens them again,
//! otherwise by descriptor. Or without one, where sizes may be wrong, or all has to be read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use seekless_engine::files::{first_data, read_full};
use seekless_engine::method::CachePolicy;
use seekless_engine::plan::Plan;
use seekless_engine::{Comparer, Comparison, FileRange, Method, Progress, Result};
use seekless_sys::first_difference;

/// A range of an open file, with a path for opening it again, which direct methods need.
pub(crate) struct OpenRange<'a> {
    pub file: &'a File,
    pub path: PathBuf,
    pub range: Range<u64>,
}

impl OpenRange<'_> {
    fn part(&self, by_path: bool) -> FileRange<'_> {
        let part = if by_path {
            FileRange::whole(&self.path)
        } else {
            FileRange::of_file(self.file).named(&self.path)
        };
        part.range(self.range.clone())
    }
}

/// Plans comparing two ranges. A file that cannot be opened again is read through the page cache.
pub(crate) fn plan_pair(pair: [&OpenRange<'_>; 2], is_predicted: bool) -> Result<Plan> {
    let plan_by = |by_path: bool| {
        let [one, other] = pair.map(|range| range.part(by_path));
        Comparer::plan(one, other, is_predicted)
    };
    plan_by(true).or_else(|_| plan_by(false))
}

/// Compares two ranges by a method that is prepared. An open descriptor reads through the page
/// cache.
pub(crate) fn compare_pair(
    pair: [&OpenRange<'_>; 2],
    method: &Method,
    comparer: &mut Comparer,
    progress: Option<&dyn Progress>,
) -> Result<Comparison> {
    let by_path = method.options().cache() != CachePolicy::Cached;
    let [one, other] = pair.map(|range| range.part(by_path));
    comparer.compare_told(&one, &other, progress)
}

/// What reading two files side by side found.
pub(crate) enum PairRead {
    /// The offset of the first difference.
    Differ(u64),
    /// The end of each, one of which may be an offset within a longer file. Up to the lesser one
    /// they are equal.
    Ends([u64; 2]),
    /// It was to stop.
    Stopped,
}

/// Reads two files from `at` to the end of one, whatever their sizes say, in blocks as long as the
/// buffers. Unlike a [`Comparer`], it also reads blocks that the files share. Where both have
/// holes, they are not read up to `holes_end`.
///
/// # Errors
/// The number of the file, and the system's reason.
pub(crate) fn read_side_by_side(
    files: [&File; 2],
    mut at: u64,
    holes_end: u64,
    buffers: [&mut [u8]; 2],
    goes_on: impl Fn() -> bool,
) -> std::result::Result<PairRead, (usize, io::Error)> {
    let [first, second] = buffers;
    while goes_on() {
        if at < holes_end {
            at = first_data(&files, at..holes_end).map_err(|error| (0, error))?;
        }
        let one = read_full(files[0], first, at).map_err(|error| (0, error))?;
        let other = read_full(files[1], second, at).map_err(|error| (1, error))?;
        if let Some(index) = first_difference(&first[..one], &second[..other]) {
            return Ok(PairRead::Differ(at + index as u64));
        }
        if [one, other] != [first.len(); 2] {
            return Ok(PairRead::Ends([one, other].map(|length| at + length as u64)));
        }
        at += one as u64;
    }
    Ok(PairRead::Stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_side_by_side_differ_at_a_byte_or_end() {
        let directory = tempfile::tempdir().unwrap();
        let read = |contents: [&[u8]; 2], block_bytes: usize| {
            let files = [0, 1].map(|side: usize| {
                let path = directory.path().join(side.to_string());
                std::fs::write(&path, contents[side]).unwrap();
                File::open(path).unwrap()
            });
            let mut buffers = [vec![0; block_bytes], vec![0; block_bytes]];
            let buffers = buffers.each_mut().map(|buffer| &mut buffer[..]);
            read_side_by_side(files.each_ref(), 0, 0, buffers, || true).unwrap()
        };
        let whole = [7; 10];
        for block_bytes in 1..12 {
            let found = read([&whole, &whole], block_bytes);
            assert!(matches!(found, PairRead::Ends([10, 10])), "{block_bytes}");
            for at in 0..10 {
                let found = read([&whole, &whole[..at]], block_bytes);
                assert!(matches!(found, PairRead::Ends([one, other]) if other == at as u64 && one > other));
                let mut changed = whole;
                changed[at] = 8;
                let found = read([&changed, &whole], block_bytes);
                assert!(matches!(found, PairRead::Differ(offset) if offset == at as u64));
            }
        }
    }
}
