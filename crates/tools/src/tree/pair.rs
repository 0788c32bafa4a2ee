//! Comparing two regular files with one name.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::FileType;
use seekless_engine::files::read_full;
use seekless_engine::plan::LARGE_BYTES;
use seekless_engine::walk::{StatFacts, in_each};
use seekless_sys::{extended_attributes, first_difference};

use super::large::Large;
use super::look::{compare_metadata, failed, failures};
use super::{ContentsDiffer, EntryDifference, Side, TreeFinding, TreeOptions};
use crate::Stop;
use crate::open_pair::{PairRead, read_side_by_side};

/// Bytes of a read: few files are longer, and two such buffers stay in a processor's second cache.
pub(super) const BLOCK_BYTES: usize = 128 << 10;

/// Two open files, before they are read.
pub(super) struct OpenedPair {
    pub files: [Arc<File>; 2],
    pub facts: [StatFacts; 2],
}

/// The resources for comparing two files.
pub(super) struct CompareContext<'a> {
    pub options: TreeOptions<'a>,
    pub large: &'a Large,
    pub stop: &'a Stop,
    /// Buffers for the rest of long files.
    pub rest: [Vec<u8>; 2],
}

/// The result of a pair.
#[derive(Clone, Default)]
pub(super) struct ComparedPair {
    pub found: Vec<TreeFinding>,
    /// Bytes of each that were compared: up to the first difference.
    pub bytes: u64,
    pub is_identical: bool,
}

impl OpenedPair {
    /// Opens both, and compares their metadata if requested. `None` if nothing is left to compare.
    pub fn new(
        open: impl FnMut(usize) -> io::Result<File>,
        options: TreeOptions<'_>,
        compared: &mut ComparedPair,
    ) -> Option<Self> {
        let found = &mut compared.found;
        let files = in_each("open", &mut failures(found), open)?.map(Arc::new);
        let facts = in_each("stat", &mut failures(found), |side| Ok(StatFacts::of(&files[side])?))?;
        if let Some(side) = facts.iter().position(|facts| facts.kind != FileType::RegularFile) {
            let error = io::Error::other("it is no longer a regular file");
            found.push(failed(side, "open", error));
            return None;
        }
        if !options.same_files && StatFacts::are_of_one_file(&facts, files.each_ref().map(AsFd::as_fd)) {
            compared.is_identical = true;
            return None;
        }
        if options.metadata {
            compare_metadata(&facts, found, |side| extended_attributes(files[side].as_fd()));
        }
        if let Some(difference) = differ_in_size(&facts).filter(|_| options.brief) {
            // Contents come before metadata.
            found.insert(0, difference);
            return None;
        }
        Some(Self { files, facts })
    }

    /// Compares the files, given their heads, which are usually the whole files.
    pub fn compare(&self, [one, other]: [&[u8]; 2], means: &mut CompareContext<'_>, compared: &mut ComparedPair) {
        let common = one.len().min(other.len()) as u64;
        let sizes = [self.facts[0].bytes, self.facts[1].bytes];
        let contents = if let Some(offset) = first_difference(one, other) {
            Ok(Some(ContentsDiffer::At(offset as u64)))
        } else if sizes == [one.len() as u64, other.len() as u64] {
            Ok(end(sizes))
        } else {
            self.compare_rest(common, means)
        };
        compared.bytes = match &contents {
            Ok(Some(ContentsDiffer::At(offset))) => offset + 1,
            Ok(Some(ContentsDiffer::Ends(_, bytes))) => *bytes,
            // A size may be less than the bytes read, as in /proc.
            Ok(_) => common.max(sizes[0]),
            Err(_) => common,
        };
        match contents {
            Ok(None) | Err(None) => {}
            Ok(Some(contents)) => compared
                .found
                .insert(0, TreeFinding::Difference(EntryDifference::Contents(contents))),
            Err(Some(failure)) => compared.found.insert(0, failure),
        }
    }

    /// Compares the files without their heads.
    pub fn compare_alone(&self, means: &mut CompareContext<'_>, compared: &mut ComparedPair) {
        let mut heads = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
        let read = |side: usize| read_full(&self.files[side], &mut heads[side], 0);
        let lengths = in_each("read", &mut failures(&mut compared.found), read);
        if let Some([one, other]) = lengths {
            self.compare([&heads[0][..one], &heads[1][..other]], means, compared);
        }
    }

    /// Compares from `start` on. `Err(None)` if the job was stopped.
    fn compare_rest(
        &self,
        start: u64,
        means: &mut CompareContext<'_>,
    ) -> Result<Option<ContentsDiffer>, Option<TreeFinding>> {
        let common = self.facts[0].bytes.min(self.facts[1].bytes);
        let mut at = start;
        if common >= LARGE_BYTES {
            let goes_on = || !means.stop.is_stopped();
            if let Some(offset) = means.large.compare(&self.files, common, &goes_on)? {
                return Ok(Some(ContentsDiffer::At(offset)));
            }
            at = common;
        }
        let contents = self.read_on(at, means)?;
        // If a file was written to between two reads, the bytes are neither its old nor its new content.
        for (side, before) in self.facts.iter().enumerate() {
            let now = StatFacts::of(&self.files[side]).map_err(|error| Some(failed(side, "stat", error)))?;
            if let Some(change) = change(before, &now) {
                return Err(Some(failed(side, "compare", io::Error::other(change))));
            }
        }
        Ok(contents)
    }

    /// Reads both from `at` to the end of one, ignoring sizes, which are meaningless in /proc and /sys.
    fn read_on(&self, at: u64, means: &mut CompareContext<'_>) -> Result<Option<ContentsDiffer>, Option<TreeFinding>> {
        let files = self.files.each_ref().map(|file| &**file);
        let buffers = means.rest.each_mut().map(|buffer| {
            buffer.resize(BLOCK_BYTES, 0);
            &mut buffer[..]
        });
        let found = read_side_by_side(files, at, 0, buffers, || !means.stop.is_stopped());
        match found.map_err(|(side, error)| Some(failed(side, "read", error)))? {
            PairRead::Differ(offset) => Ok(Some(ContentsDiffer::At(offset))),
            PairRead::Ends(ends) => Ok(end(ends)),
            PairRead::Stopped => Err(None),
        }
    }
}

/// The difference of two regular files whose sizes are known and differ. A size of 0 may mean that it is unknown, as in
/// /proc.
pub(super) fn differ_in_size(facts: &[StatFacts; 2]) -> Option<TreeFinding> {
    let sizes = [facts[0].bytes, facts[1].bytes];
    let are_files = facts.iter().all(|facts| facts.kind == FileType::RegularFile);
    let contents = EntryDifference::Contents(ContentsDiffer::Sizes(sizes));
    (are_files && sizes[0] != sizes[1] && !sizes.contains(&0)).then_some(TreeFinding::Difference(contents))
}

/// How a file has changed, in words.
fn change(before: &StatFacts, now: &StatFacts) -> Option<String> {
    let (was, is) = (before.bytes, now.bytes);
    match is.cmp(&was) {
        std::cmp::Ordering::Less => Some(format!("it shrank from {was} B to {is} B meanwhile")),
        std::cmp::Ordering::Greater => Some(format!("it grew from {was} B to {is} B meanwhile")),
        std::cmp::Ordering::Equal if before.modified != now.modified => Some("it was written to meanwhile".to_owned()),
        std::cmp::Ordering::Equal => None,
    }
}

/// The end of the shorter one, if they differ in size.
fn end(sizes: [u64; 2]) -> Option<ContentsDiffer> {
    match sizes[0].cmp(&sizes[1]) {
        std::cmp::Ordering::Less => Some(ContentsDiffer::Ends(Side::Left, sizes[0])),
        std::cmp::Ordering::Greater => Some(ContentsDiffer::Ends(Side::Right, sizes[1])),
        std::cmp::Ordering::Equal => None,
    }
}
