//! Test files, and the known answers with which the result of every trial is compared.

mod check;
mod set;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fs, io};

use seekless_engine::cache::CachedFile;
use seekless_engine::{Chunk, Consumer, Visits};

use self::check::CHECK_BYTES;
pub use self::check::{TestPart, check_copy, check_updated};
pub use self::set::{TestFileRole, TestFileSet, go_on, write_stream};
use seekless_results::bytes;

use crate::generator::Generator;
use crate::kernel::{Kernel, KernelAnswer, Tally};

/// A file that trials read or overwrite, and its expected content.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes that the device has as they are read; `None` if the file system does not report them.
    pub stored_bytes: Option<u64>,
    /// The byte in which the second file of a comparison differs from the first; `None` if they are equal.
    pub difference: Option<u64>,
    /// The content of a file that the lab made; `None` for a file of the user, whose own bytes are the expected ones.
    made_of: Option<Streams>,
    /// Where it starts, if only a part of a file of the user is read.
    part_start: Option<u64>,
    /// How often each byte occurs, counted when an answer is checked for the first time.
    histogram: Arc<OnceLock<Vec<u64>>>,
}

/// Why reading a file says nothing about its storage: not all of its bytes are on the device as they are read. `None` if they are, or
/// the file system does not tell.
#[must_use]
pub fn stored_otherwise(path: &Path) -> Option<String> {
    let all = fs::metadata(path).ok()?.len();
    let extents = seekless_engine::extents(path).ok().flatten()?;
    let forms = [
        (all.saturating_sub(extents.allocated_bytes), "holes"),
        (extents.reserved_bytes, "reserved, never written"),
        (extents.encoded_bytes, "compressed or stored with the metadata"),
    ];
    let told = forms.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, form)| format!("{} are {form}", bytes(*count)))
        .collect();
    let of_itself = "They are not read as others are, so this run speaks for this file only: it is combined with no other, and is in \
                     no profile.";
    let (path, told) = (path.display(), told.join(", and "));
    (!told.is_empty()).then(|| format!("{path}: of its {}, {told}. {of_itself}", bytes(all)))
}

/// Blocks of a size, for each the seed of its stream, and the ranges that are zeros instead, in order.
#[derive(Clone, Debug)]
struct Streams {
    block_bytes: u64,
    seeds: Vec<u64>,
    zeros: Vec<Range<u64>>,
}

/// Returns the expected bytes of a file from an offset on.
type Content<'a> = Box<dyn FnMut(u64, &mut [u8]) -> io::Result<()> + 'a>;

impl TestFile {
    /// A file of the user.
    pub fn existing(path: &Path, bytes: u64) -> Self {
        let extents = seekless_engine::extents(path).ok().flatten();
        Self {
            path: path.to_owned(),
            bytes,
            stored_bytes: extents.map(|extents| {
                (extents.allocated_bytes - extents.reserved_bytes).saturating_sub(extents.encoded_bytes)
            }),
            difference: None,
            made_of: None,
            part_start: None,
            histogram: Arc::default(),
        }
    }

    /// A part of a file of the user. How much of it comes from the device is known only if the file has no holes.
    pub fn part(&self, start: u64, bytes: u64) -> Self {
        let is_dense = self.stored_bytes.is_none_or(|stored| stored >= self.bytes);
        Self {
            bytes,
            stored_bytes: (!is_dense).then_some(0),
            part_start: Some(start),
            histogram: Arc::default(),
            ..self.clone()
        }
    }

    /// Where the part starts; `None` for a whole file.
    pub fn part_start(&self) -> Option<u64> {
        self.part_start
    }

    /// Reads it, until it is stopped.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Interrupted`] if it is stopped.
    pub fn read(&self, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
        self.pieces(self.bytes, is_stopped, |_| {})
    }

    /// The answer that a kernel must give, found without the engine.
    ///
    /// # Errors
    /// The system's, of opening and reading a file of the user; [`io::ErrorKind::Interrupted`] if it is stopped.
    pub fn answer(&self, kernel: Kernel, is_stopped: &dyn Fn() -> bool) -> io::Result<KernelAnswer> {
        if let Some(histogram) = self.histogram.get() {
            return Ok(kernel.answer(histogram));
        }
        let tally = Tally::new(Kernel::Histogram);
        self.pieces(self.bytes, is_stopped, |piece| {
            let _ = tally.data(0, Chunk::Memory(piece));
        })?;
        let counted = self.histogram.get_or_init(|| tally.counts().to_vec());
        Ok(kernel.answer(counted))
    }

    /// The answer that a kernel must give of some of its blocks.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn answer_of(&self, kernel: Kernel, visits: &Visits) -> io::Result<KernelAnswer> {
        let (tally, mut block, mut content) = (Tally::new(kernel), Vec::new(), self.content()?);
        for range in visits.ranges() {
            block.resize((range.end - range.start) as usize, 0);
            content(range.start, &mut block)?;
            let _ = tally.data(range.start, Chunk::Memory(&block));
        }
        Ok(tally.answer())
    }

    /// The number of lines in the part that is equal to the first file of a comparison.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn equal_lines(&self) -> io::Result<u64> {
        let mut lines = 0;
        self.pieces(self.difference.unwrap_or(self.bytes), &|| false, |piece| {
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
        })?;
        Ok(lines)
    }

    /// Passes its first bytes to `take` in pieces, until it is stopped.
    fn pieces(&self, bytes: u64, is_stopped: &dyn Fn() -> bool, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let (mut piece, mut content) = (vec![0; CHECK_BYTES], self.content()?);
        (0..bytes).step_by(CHECK_BYTES).try_for_each(|offset| {
            if is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = &mut piece[..(bytes - offset).min(CHECK_BYTES as u64) as usize];
            content(offset, piece)?;
            take(piece);
            Ok(())
        })
    }

    /// Records that blocks were overwritten by those of another stream.
    pub fn written(&mut self, visits: &Visits, seed: u64) {
        if let Some(Streams { block_bytes, seeds, .. }) = &mut self.made_of {
            for range in visits.written() {
                seeds[(range.start / *block_bytes) as usize] = seed;
            }
        }
        self.histogram = Arc::default();
    }

    /// Checks that each block has the stream that was written there last. Returns the bytes that were compared, or what
    /// is wrong.
    ///
    /// # Errors
    /// The system's, of opening and reading.
    pub fn check(&self, part: TestPart) -> io::Result<Result<u64, String>> {
        check::check(&self.path, self.bytes, part, self.content()?)
    }

    fn content(&self) -> io::Result<Content<'_>> {
        let Some(Streams {
            block_bytes,
            seeds,
            zeros,
        }) = &self.made_of
        else {
            let file = CachedFile::open(&self.path).map_err(io::Error::other)?;
            let start = self.part_start.unwrap_or(0);
            return Ok(Box::new(move |offset, bytes| {
                file.file().read_exact_at(bytes, start + offset)
            }));
        };
        let mut generators = BTreeMap::new();
        Ok(Box::new(move |offset, bytes| {
            let end = offset + bytes.len() as u64;
            let mut at = offset;
            while at < end {
                let block = at / block_bytes;
                let until = ((block + 1) * block_bytes).min(end);
                let seed = seeds[block as usize];
                let generator = generators.entry(seed).or_insert_with(|| Generator::new(seed));
                generator.fill(at, &mut bytes[(at - offset) as usize..(until - offset) as usize]);
                at = until;
            }
            let first = zeros.partition_point(|range| range.end <= offset);
            for range in zeros[first..].iter().take_while(|range| range.start < end) {
                let (start, until) = (range.start.max(offset), range.end.min(end));
                bytes[(start - offset) as usize..(until - offset) as usize].fill(0);
            }
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests;
