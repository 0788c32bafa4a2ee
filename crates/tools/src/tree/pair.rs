//! Two regular files of one name: opened, looked at, read and compared.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, openat};
use seekless::files::read_full;
use seekless_sys::first_difference;

use super::large::{LARGE_BYTES, Large, LargePair};
use super::look::{both, compare_metadata, failed};
use super::{Contents, Difference, Options, Side, What};
use crate::walk::{FOUND_FILE, Facts, Kind};

/// Bytes of a read: few files are longer, and two such buffers stay in a processor's second cache.
const BLOCK_BYTES: usize = 128 << 10;

/// Two open files, before they are read.
pub(super) struct Opened {
    pub files: [Arc<File>; 2],
    pub facts: [Facts; 2],
}

/// What comparing two files takes beside them.
pub(super) struct Means<'a> {
    pub options: Options,
    pub large: &'a Large,
    pub stop: &'a AtomicBool,
}

/// What became of a pair.
#[derive(Default)]
pub(super) struct Compared {
    pub found: Vec<What>,
    pub bytes: u64,
    pub is_identical: bool,
}

impl Opened {
    /// Opens both, and compares their metadata where that is asked for. `None` where nothing is left to compare.
    pub fn new(
        directories: [BorrowedFd<'_>; 2],
        name: &CStr,
        options: Options,
        compared: &mut Compared,
    ) -> Option<Self> {
        let found = &mut compared.found;
        let files = both("opening", found, |side| {
            openat(directories[side as usize], name, FOUND_FILE, Mode::empty())
        })?;
        let facts = both("looking at it", found, |side| Facts::of(&files[side as usize]))?;
        for side in Side::BOTH {
            if facts[side as usize].kind != Kind::File {
                found.push(failed(
                    side,
                    "opening",
                    io::Error::other("it is no regular file any more"),
                ));
                return None;
            }
        }
        if Facts::are_of_one_file(&facts, [files[0].as_fd(), files[1].as_fd()]) {
            compared.is_identical = true;
            return None;
        }
        if options.metadata {
            compare_metadata(&facts, [files[0].as_fd(), files[1].as_fd()], found);
        }
        let sizes = [facts[0].bytes, facts[1].bytes];
        // A size of 0 may be one that the file system does not know, as in /proc.
        if options.brief && sizes[0] != sizes[1] && !sizes.contains(&0) {
            // Contents come before metadata.
            found.insert(0, What::Difference(Difference::Contents(Contents::Sizes(sizes))));
            return None;
        }
        Some(Self {
            files: files.map(|file| Arc::new(File::from(file))),
            facts,
        })
    }

    /// Compares, after the beginnings of both were read: all of them, as a rule.
    pub fn compare(
        &self,
        heads: [&[u8]; 2],
        path: &dyn Fn() -> [PathBuf; 2],
        buffers: &mut [Vec<u8>; 2],
        means: &Means<'_>,
        compared: &mut Compared,
    ) {
        let [one, other] = heads;
        let common = one.len().min(other.len());
        let sizes = [self.facts[0].bytes, self.facts[1].bytes];
        let contents = if let Some(offset) = first_difference(one, other) {
            Ok(Some(Contents::At(offset as u64)))
        } else if sizes == [one.len() as u64, other.len() as u64] {
            compared.bytes += common as u64;
            Ok(end(sizes))
        } else {
            compared.bytes += common as u64;
            self.compare_rest(common as u64, path, buffers, means, &mut compared.bytes)
        };
        match contents {
            Ok(None) | Err(None) => {}
            Ok(Some(contents)) => compared
                .found
                .insert(0, What::Difference(Difference::Contents(contents))),
            Err(Some(failure)) => compared.found.insert(0, failure),
        }
    }

    /// Compares from `start` on. `Err(None)` where all was to stop.
    fn compare_rest(
        &self,
        start: u64,
        paths: &dyn Fn() -> [PathBuf; 2],
        buffers: &mut [Vec<u8>; 2],
        means: &Means<'_>,
        bytes: &mut u64,
    ) -> Result<Option<Contents>, Option<What>> {
        let common = self.facts[0].bytes.min(self.facts[1].bytes);
        let mut at = start;
        if common >= LARGE_BYTES {
            let pair = LargePair {
                paths: paths(),
                files: &self.files,
                bytes: common,
            };
            if let Some(offset) = means.large.compare(pair, means.stop)? {
                *bytes += offset.saturating_sub(start);
                return Ok(Some(Contents::At(offset)));
            }
            at = common;
        }
        let contents = self.read_on(at, buffers, means.stop)?;
        let end = match contents {
            Some(Contents::At(offset) | Contents::Ends(_, offset)) => offset,
            _ => common,
        };
        *bytes += end.saturating_sub(start);
        // What was written to between two reads is neither what it was nor what it is.
        for side in Side::BOTH {
            let before = &self.facts[side as usize];
            let now =
                Facts::of(&self.files[side as usize]).map_err(|error| Some(failed(side, "looking at it", error)))?;
            if let Some(change) = change(before, &now) {
                return Err(Some(failed(side, "comparing", io::Error::other(change))));
            }
        }
        Ok(contents)
    }

    /// Reads both from `at` to the end of one, whatever the sizes say: those of /proc and /sys say nothing.
    fn read_on(
        &self,
        mut at: u64,
        buffers: &mut [Vec<u8>; 2],
        stop: &AtomicBool,
    ) -> Result<Option<Contents>, Option<What>> {
        for buffer in &mut *buffers {
            buffer.resize(BLOCK_BYTES, 0);
        }
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(None);
            }
            let mut lengths = [0; 2];
            for side in Side::BOTH {
                let index = side as usize;
                let read = read_full(&self.files[index], &mut buffers[index], at);
                lengths[index] = read.map_err(|error| Some(failed(side, "reading", error)))?;
            }
            let (one, other) = (&buffers[0][..lengths[0]], &buffers[1][..lengths[1]]);
            let common = lengths[0].min(lengths[1]);
            if let Some(offset) = first_difference(one, other) {
                return Ok(Some(Contents::At(at + offset as u64)));
            }
            at += common as u64;
            match lengths[0].cmp(&lengths[1]) {
                std::cmp::Ordering::Less => return Ok(Some(Contents::Ends(Side::One, at))),
                std::cmp::Ordering::Greater => return Ok(Some(Contents::Ends(Side::Other, at))),
                std::cmp::Ordering::Equal if common < buffers[0].len() => return Ok(None),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
}

/// What has happened to a file that is not as it was, in words.
fn change(before: &Facts, now: &Facts) -> Option<String> {
    let (was, is) = (before.bytes, now.bytes);
    match is.cmp(&was) {
        std::cmp::Ordering::Less => Some(format!("it shrank from {was} to {is} bytes meanwhile")),
        std::cmp::Ordering::Greater => Some(format!("it grew from {was} to {is} bytes meanwhile")),
        std::cmp::Ordering::Equal if before.modified != now.modified => Some("it was written to meanwhile".to_owned()),
        std::cmp::Ordering::Equal => None,
    }
}

/// Where the shorter ends, if one is shorter.
fn end(sizes: [u64; 2]) -> Option<Contents> {
    match sizes[0].cmp(&sizes[1]) {
        std::cmp::Ordering::Less => Some(Contents::Ends(Side::One, sizes[0])),
        std::cmp::Ordering::Greater => Some(Contents::Ends(Side::Other, sizes[1])),
        std::cmp::Ordering::Equal => None,
    }
}
