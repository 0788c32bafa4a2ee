//! Test files, and the known answers with which the result of every trial is compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use seekless::method::{Durability, Operation};
use seekless::{Chunk, Consumer, Destination, Reader, Visits, Writer, plan};
use seekless_record::Differ;

use crate::generator::Generator;
use crate::kernel::{Kernel, KernelAnswer, Tally};
use crate::layout::{self, Layout};

/// A file that trials read or overwrite, and its expected content.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes that have blocks on the device; `None` if the file system does not report them.
    pub allocated_bytes: Option<u64>,
    /// The byte in which the second file of a comparison differs from the first; `None` if they are equal.
    pub difference: Option<u64>,
    /// How often each byte occurs; `None` if not counted yet.
    histogram: Option<Vec<u64>>,
    /// The streams of its blocks; `None` for other content.
    made_of: Option<Streams>,
}

/// The size of blocks, and for each the seed of its stream.
#[derive(Clone, Debug)]
struct Streams {
    block_bytes: u64,
    seeds: Vec<u64>,
}

/// Returns the expected bytes of a file from an offset on.
type Content<'a> = Box<dyn FnMut(u64, &mut [u8]) -> io::Result<()> + 'a>;

impl TestFile {
    /// Makes a file of the stream of a seed, written through to the device.
    ///
    /// # Errors
    /// The engine's.
    pub fn create(path: &Path, bytes: u64, seed: u64) -> seekless::Result<Self> {
        write_stream(path, bytes, seed)?;
        Ok(Self::describe(path)?.of_stream(bytes.max(1), seed))
    }

    /// The same for one of very many files, which are synced together before each trial. It is not read to find its answers.
    ///
    /// # Errors
    /// The engine's.
    pub fn create_unsynced(path: &Path, bytes: u64, seed: u64) -> seekless::Result<Self> {
        let generator = Generator::new(seed);
        Writer::prepare(&plan::usual(Operation::Write))?.write(path, Destination::New, bytes, &generator)?;
        Ok(Self::unread(path, bytes).of_stream(bytes.max(1), seed))
    }

    /// The same for a file that trials overwrite in blocks of a size, so that the content of each block is known.
    ///
    /// # Errors
    /// The engine's.
    pub fn create_blocks(path: &Path, bytes: u64, block_bytes: u64, seed: u64) -> seekless::Result<Self> {
        write_stream(path, bytes, seed)?;
        Ok(Self::unread(path, bytes).of_stream(block_bytes, seed))
    }

    /// Makes the second file of a comparison: the stream of a seed, with one byte changed. All bytes are written, so
    /// that it shares no blocks with the first.
    ///
    /// # Errors
    /// The engine's.
    pub fn create_second(path: &Path, bytes: u64, seed: u64, differ: Differ) -> seekless::Result<Self> {
        write_stream(path, bytes, seed)?;
        let difference = offset_of(differ, bytes);
        if let Some(offset) = difference {
            change_byte(path, offset)?;
        }
        Ok(Self {
            difference,
            ..Self::unread(path, bytes).of_stream(bytes.max(1), seed)
        })
    }

    fn of_stream(self, block_bytes: u64, seed: u64) -> Self {
        let seeds = vec![seed; self.bytes.div_ceil(block_bytes) as usize];
        Self {
            made_of: Some(Streams { block_bytes, seeds }),
            ..self
        }
    }

    /// Makes a file of a layout, with the stream of a seed as its data, written through to the device. If the file
    /// system creates another layout, returns a sentence, and removes the file.
    ///
    /// # Errors
    /// The system's.
    pub fn create_as(path: &Path, pieces: &Layout, bytes: u64, seed: u64) -> seekless::Result<Result<Self, String>> {
        let tally = Tally::new(Kernel::Histogram);
        let laid_out = match pieces {
            Layout::Dense => return Self::create(path, bytes, seed).map(Ok),
            Layout::Fragmented => layout::make_fragmented(path, bytes, seed),
            Layout::Pieces(_) => layout::lay_out(path, pieces, seed, &tally),
        };
        let made = laid_out.and_then(|()| layout::verify(path, pieces));
        let made = made.map_err(|source| failed(path, "lay it out", source));
        if !matches!(made, Ok(Ok(()))) {
            let _ = fs::remove_file(path);
        }
        match made? {
            Ok(()) if *pieces == Layout::Fragmented => Self::describe(path).map(Ok),
            made => Ok(made.map(|()| Self::known(path, bytes, &tally))),
        }
    }

    /// Reads an existing file once, by plain reads, to learn its answers.
    ///
    /// # Errors
    /// The engine's.
    pub fn describe(path: &Path) -> seekless::Result<Self> {
        let tally = Tally::new(Kernel::Histogram);
        let transfer = Reader::prepare(&plan::usual(Operation::Read))?.read(path, &tally)?;
        Ok(Self::known(path, transfer.bytes, &tally))
    }

    /// A file that was not read yet, so that its answers are unknown.
    #[must_use]
    pub fn unread(path: &Path, bytes: u64) -> Self {
        let extents = seekless::extents(path).ok().flatten();
        Self {
            path: path.to_owned(),
            bytes,
            allocated_bytes: extents.map(|extents| extents.allocated_bytes),
            difference: None,
            histogram: None,
            made_of: None,
        }
    }

    fn known(path: &Path, bytes: u64, tally: &Tally) -> Self {
        Self {
            histogram: Some(tally.counts().to_vec()),
            ..Self::unread(path, bytes)
        }
    }

    /// The answer that a kernel must give.
    #[must_use]
    pub fn answer(&self, kernel: Kernel) -> Option<KernelAnswer> {
        if let Some(histogram) = &self.histogram {
            return Some(kernel.answer(histogram));
        }
        self.made_of.as_ref()?;
        let tally = Tally::new(kernel);
        self.pieces(self.bytes, |piece| {
            let _ = tally.data(0, Chunk::Memory(piece));
        })
        .ok()?;
        Some(tally.answer())
    }

    /// The answer that a kernel must give of some of its blocks, found without the engine.
    ///
    /// # Errors
    /// The system's, of opening and reading a file whose bytes are not known.
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
    /// The system's, of opening and reading a file whose bytes are not known.
    pub fn equal_lines(&self) -> io::Result<u64> {
        let mut lines = 0;
        self.pieces(self.difference.unwrap_or(self.bytes), |piece| lines += lines_in(piece))?;
        Ok(lines)
    }

    /// Passes its first bytes to `take` in pieces.
    fn pieces(&self, bytes: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let (mut piece, mut content) = (vec![0; CHECK_BYTES], self.content()?);
        (0..bytes).step_by(CHECK_BYTES).try_for_each(|offset| {
            let piece = &mut piece[..(bytes - offset).min(CHECK_BYTES as u64) as usize];
            content(offset, piece)?;
            take(piece);
            Ok(())
        })
    }

    /// Records that blocks were overwritten by those of another stream.
    pub fn written(&mut self, visits: &Visits, seed: u64) {
        if let Some(Streams { block_bytes, seeds }) = &mut self.made_of {
            for range in visits.ranges() {
                seeds[(range.start / *block_bytes) as usize] = seed;
            }
        }
    }

    /// Checks that each block has the stream that was written there last. Returns the bytes that were compared, or what
    /// is wrong.
    ///
    /// # Errors
    /// The system's, of opening and reading.
    pub fn check(&self, part: TestPart) -> io::Result<Result<u64, String>> {
        check(&self.path, self.bytes, part, self.content()?)
    }

    /// The expected bytes: those of its streams, or if these are unknown, its own.
    fn content(&self) -> io::Result<Content<'_>> {
        let Some(Streams { block_bytes, seeds }) = &self.made_of else {
            let file = File::open(&self.path)?;
            return Ok(Box::new(move |offset, bytes| file.read_exact_at(bytes, offset)));
        };
        let mut generators = BTreeMap::new();
        Ok(Box::new(move |mut offset, mut bytes| {
            while !bytes.is_empty() {
                let block = offset / block_bytes;
                let length = ((block + 1) * block_bytes - offset).min(bytes.len() as u64);
                let seed = seeds[block as usize];
                let (piece, rest) = bytes.split_at_mut(length as usize);
                let generator = generators.entry(seed).or_insert_with(|| Generator::new(seed));
                generator.fill(offset, piece);
                (offset, bytes) = (offset + length, rest);
            }
            Ok(())
        }))
    }
}

/// Makes a file of the stream of a seed, written through to the device.
///
/// # Errors
/// The engine's.
pub fn write_stream(path: &Path, bytes: u64, seed: u64) -> seekless::Result<()> {
    let plain = plan::usual(Operation::Write);
    let durable = plain.with(Durability::Fsync).unwrap_or(plain);
    let generator = Generator::new(seed);
    Writer::prepare(&durable)?.write(path, Destination::New, bytes, &generator)?;
    Ok(())
}

/// The offset of the byte that differs in files of a size; `None` if none does.
#[must_use]
pub fn offset_of(differ: Differ, bytes: u64) -> Option<u64> {
    match differ {
        Differ::None | Differ::Itself => None,
        Differ::First => Some(0),
        Differ::Early => Some(bytes / 100),
        Differ::Middle => Some(bytes / 2),
        Differ::Last => Some(bytes.saturating_sub(1)),
    }
}

/// Changes one byte of a file, through to the device.
fn change_byte(path: &Path, offset: u64) -> seekless::Result<()> {
    let changed = || -> io::Result<()> {
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset)?;
        file.write_all_at(&[!byte[0]], offset)?;
        file.sync_all()
    };
    changed().map_err(|source| failed(path, "change a byte", source))
}

/// How many newlines there are.
fn lines_in(bytes: &[u8]) -> u64 {
    bytes.split(|&byte| byte == b'\n').count() as u64 - 1
}

pub(crate) fn failed(path: &Path, action: &'static str, source: io::Error) -> seekless::Error {
    seekless::Error::System {
        path: path.to_owned(),
        action: action.into(),
        method: None,
        source,
    }
}

/// How much of what a trial wrote is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPart {
    /// All of it.
    Whole,
    /// The first piece, the last, and one in sixteen of the others, drawn by this seed.
    Sample(u64),
}

/// Checks that a file has the same bytes as another. Returns the bytes that were compared, or what is wrong.
///
/// # Errors
/// The system's, of opening and reading.
pub fn check_copy(path: &Path, source: &Path, part: TestPart) -> io::Result<Result<u64, String>> {
    let original = File::open(source)?;
    let bytes = original.metadata()?.len();
    check(path, bytes, part, |offset, expected| {
        original.read_exact_at(expected, offset)
    })
}

/// Checks that a file is the first `bytes` of a stream, with updates at their offsets. Returns the bytes that were
/// compared, or what is wrong.
///
/// # Errors
/// The system's, of opening and reading.
pub fn check_updated(
    path: &Path,
    bytes: u64,
    seed: u64,
    updates: &BTreeMap<u64, Vec<u8>>,
    part: TestPart,
) -> io::Result<Result<u64, String>> {
    let generator = Generator::new(seed);
    let longest = updates.values().map(Vec::len).max().unwrap_or(0) as u64;
    check(path, bytes, part, |offset, expected| {
        generator.fill(offset, expected);
        let end = offset + expected.len() as u64;
        for (&at, update) in updates.range(offset.saturating_sub(longest)..end) {
            // An update may start in the previous piece, or end in the next.
            let within = at.max(offset)..(at + update.len() as u64).min(end);
            if within.start < within.end {
                let piece = &update[(within.start - at) as usize..(within.end - at) as usize];
                expected[(within.start - offset) as usize..][..piece.len()].copy_from_slice(piece);
            }
        }
        Ok(())
    })
}

/// Two buffers of this size, the bytes read and the expected ones, fit into the second-level cache.
const CHECK_BYTES: usize = 128 << 10;
/// One of this many pieces is in a sample.
const SAMPLED_OF: u64 = 16;

/// Compares pieces of a file with what `expect` returns for their offsets.
fn check(
    path: &Path,
    bytes: u64,
    part: TestPart,
    mut expect: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Result<u64, String>> {
    let size = fs::metadata(path)?.len();
    if size != bytes {
        return Ok(Err(format!("it has {size} B instead of {bytes} B")));
    }
    let mut drawn = match part {
        TestPart::Whole => None,
        TestPart::Sample(seed) => Some(fastrand::Rng::with_seed(seed)),
    };
    let file = File::open(path)?;
    let (mut found, mut expected) = (vec![0; CHECK_BYTES], vec![0; CHECK_BYTES]);
    let mut checked_bytes = 0;
    for offset in (0..bytes).step_by(CHECK_BYTES) {
        let is_first_or_last = offset == 0 || bytes - offset <= CHECK_BYTES as u64;
        if drawn.as_mut().is_some_and(|rng| rng.u64(..SAMPLED_OF) > 0) && !is_first_or_last {
            continue;
        }
        let length = (bytes - offset).min(CHECK_BYTES as u64) as usize;
        let (found, expected) = (&mut found[..length], &mut expected[..length]);
        file.read_exact_at(found, offset)?;
        expect(offset, expected)?;
        if found != expected {
            let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
            return Ok(Err(format!("byte {} is wrong", offset + wrong.unwrap_or(0) as u64)));
        }
        checked_bytes += length as u64;
    }
    Ok(Ok(checked_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_counted_has_the_answers_of_its_stream() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let bytes = CHECK_BYTES as u64 + 5000;
        let counted = TestFile::create(&path("counted"), bytes, 7).unwrap();
        let unsynced = TestFile::create_unsynced(&path("unsynced"), bytes, 7).unwrap();
        assert_eq!(fs::read(&counted.path).unwrap(), fs::read(&unsynced.path).unwrap());
        for kernel in Kernel::ALL {
            assert_eq!(unsynced.answer(kernel), counted.answer(kernel), "{kernel}");
        }
        assert_eq!(TestFile::unread(&counted.path, bytes).answer(Kernel::Count), None);
    }

    #[test]
    fn a_second_file_differs_in_the_byte_that_is_said_and_in_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let first = directory.path().join("original");
        TestFile::create(&first, 5000, 7).unwrap();
        let bytes = fs::read(&first).unwrap();
        for differ in [Differ::None, Differ::First, Differ::Early, Differ::Middle, Differ::Last] {
            let path = directory.path().join(differ.name());
            let other = TestFile::create_second(&path, 5000, 7, differ).unwrap();
            let found = fs::read(&path).unwrap();
            let differing: Vec<usize> = (0..5000).filter(|&at| bytes[at] != found[at]).collect();
            let expected: Vec<usize> = other.difference.iter().map(|&at| at as usize).collect();
            assert_eq!(differing, expected, "{}", differ.name());
            let equal = &bytes[..expected.first().copied().unwrap_or(5000)];
            assert_eq!(other.equal_lines().unwrap(), lines_in(equal), "{}", differ.name());
        }
    }

    #[test]
    fn an_update_that_was_not_made_is_found_and_so_is_one_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = CHECK_BYTES as u64 + 5000;
        TestFile::create(&path, bytes, 3).unwrap();
        // One lies across the border of two pieces.
        let places = [0, 4000, CHECK_BYTES as u64 - 2, bytes - 4];
        let updates: BTreeMap<u64, Vec<u8>> = places.iter().map(|&at| (at, vec![9, 8, 7, 6])).collect();
        let checked = || check_updated(&path, bytes, 3, &updates, TestPart::Whole).unwrap();
        assert_eq!(checked(), Err("byte 0 is wrong".to_owned()), "nothing was done");
        let file = File::options().write(true).open(&path).unwrap();
        for (at, update) in &updates {
            assert!(checked().is_err(), "before the one at {at}");
            file.write_all_at(update, *at).unwrap();
        }
        assert_eq!(checked(), Ok(bytes));
        change_byte(&path, 12_345).unwrap();
        assert_eq!(checked(), Err("byte 12345 is wrong".to_owned()));
    }

    #[test]
    fn a_block_that_was_not_written_over_is_found_and_so_is_one_too_many() {
        let directory = tempfile::tempdir().unwrap();
        // Blocks lie across the border of two pieces, and the last is short.
        let (bytes, block_bytes) = (2 * CHECK_BYTES as u64 + 5000, 12_000);
        let mut file = TestFile::create_blocks(&directory.path().join("file"), bytes, block_bytes, 3).unwrap();
        let checked = |file: &TestFile| file.check(TestPart::Whole).unwrap();
        assert_eq!(checked(&file), Ok(bytes));
        let writer = File::options().write(true).open(&file.path).unwrap();
        for seed in [4, 5] {
            let visits = Visits::draw(bytes, block_bytes, 10, seed);
            file.written(&visits, seed);
            for range in visits.ranges() {
                assert!(checked(&file).is_err(), "before the one at {}", range.start);
                let mut block = vec![0; (range.end - range.start) as usize];
                Generator::new(seed).fill(range.start, &mut block);
                writer.write_all_at(&block, range.start).unwrap();
            }
            assert_eq!(checked(&file), Ok(bytes));
        }
        change_byte(&file.path, 12_345).unwrap();
        assert_eq!(checked(&file), Err("byte 12345 is wrong".to_owned()));
    }

    #[test]
    fn the_answer_of_blocks_is_that_of_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = 100_000;
        let made = TestFile::create(&path, bytes, 9).unwrap();
        let found = TestFile::describe(&path).unwrap();
        let some = Visits::draw(bytes, 4096, 7, 1);
        let all = Visits::draw(bytes, 4096, u32::MAX, 1);
        for kernel in Kernel::ALL {
            let answer = |file: &TestFile, visits| file.answer_of(kernel, visits).unwrap();
            assert_eq!(answer(&made, &some), answer(&found, &some), "{kernel}");
            assert_eq!(Some(answer(&made, &all)), made.answer(kernel), "{kernel}");
        }
    }

    #[test]
    fn a_sample_has_both_ends_and_other_pieces_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let pieces = 64;
        let bytes = pieces * CHECK_BYTES as u64 + 5;
        write_stream(&path, bytes, 3).unwrap();
        let checked = |part| check_updated(&path, bytes, 3, &BTreeMap::new(), part).unwrap();
        assert_eq!(checked(TestPart::Whole), Ok(bytes));
        let sampled: Vec<u64> = (0..20).map(|seed| checked(TestPart::Sample(seed)).unwrap()).collect();
        let mean = sampled.iter().sum::<u64>() / 20;
        assert!((bytes / 32..bytes / 8).contains(&mean), "{sampled:?}");
        // Whichever byte is wrong, some sample finds it; at an end, every one does.
        for (at, always) in [(0, true), (bytes / 2, false), (bytes - 1, true)] {
            change_byte(&path, at).unwrap();
            let wrong = Err(format!("byte {at} is wrong"));
            assert_eq!(checked(TestPart::Whole), wrong);
            let found = (0..200)
                .filter(|&seed| checked(TestPart::Sample(seed)) == wrong)
                .count();
            assert!(
                if always { found == 200 } else { (2..40).contains(&found) },
                "{found} at {at}"
            );
            change_byte(&path, at).unwrap();
        }
    }

    #[test]
    fn the_answers_of_a_layout_are_those_of_reading_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let layout: Layout = "64K hole, 8K data, 3 x (64K hole, 4K zeros, 128K data), 64K hole"
            .parse()
            .unwrap();
        let made = TestFile::create_as(&path, &layout, layout.bytes(), 9).unwrap().unwrap();
        let read = TestFile::describe(&path).unwrap();
        assert_eq!((made.bytes, &made.histogram), (read.bytes, &read.histogram));
        assert_eq!(made.bytes, layout.bytes());
    }

    #[test]
    fn lines_are_counted_by_their_ends() {
        for (bytes, lines) in [(&b""[..], 0), (b"a", 0), (b"\n", 1), (b"a\n\nb", 2)] {
            assert_eq!(lines_in(bytes), lines);
        }
    }

    #[test]
    fn a_file_of_one_byte_differs_in_it() {
        for differ in [Differ::First, Differ::Early, Differ::Middle, Differ::Last] {
            assert_eq!(offset_of(differ, 1), Some(0));
        }
    }
}
