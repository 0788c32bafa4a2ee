//! Blocks of zeros in the data of a file: found by several threads, at the speed of memory where the file is cached.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;

use rayon::prelude::*;
use seekless_engine::files::{data_ranges, read_full};
use seekless_sys::{Advice, Buffer, MappedBytes};

use super::error::{Worked, cannot};
use crate::Stop;

/// Bytes that a thread takes at a time. A file that is not longer is searched by one thread.
pub const PIECE_BYTES: u64 = 8 << 20;
/// Bytes of a read: a huge page. Reading is cheaper than mapping, for which threads of a process wait for each other. Buffers of 256K
/// took 1.15 times as long as 1M; 2M took 0.95 times as long.
pub const BUFFER_BYTES: usize = 2 << 20;
/// The most bytes that are searched before the caller gets results, and the most pieces, so that the list of runs stays short.
const BATCH_BYTES: u64 = 256 << 20;
const BATCH_PIECES: usize = 4096;
const BUFFER_ALIGNMENT: usize = 4096;
thread_local! {
    /// The buffer of a thread, kept from file to file.
    static BUFFER: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

/// Finds runs of zeros.
pub(super) struct Zeros<'a> {
    /// The size of a block.
    pub block_bytes: u64,
    /// Shorter runs are ignored.
    pub min_bytes: u64,
    /// Whether zeros that fill whole buffers are dropped from the page cache as they are found: the searching threads do that in
    /// parallel, so a punch has fewer pages to free while it locks the file. Only for files without dirty pages.
    pub evict: bool,
    /// Called with the bytes of each piece that is done, holes included: in the end with those of the file.
    pub moved: &'a (dyn Fn(u64) + Sync),
}

impl Zeros<'_> {
    /// Calls `run` with each run of whole blocks of zeros in the data of a file of `bytes`. Runs
    /// come in order, and neighbours are merged; the last block of the file counts, however short it is. A long run is
    /// given in parts, each starting where the one before ended, while the search continues. The threads call `go_on`
    /// before each piece; `false` ends the search.
    pub fn find(
        &self,
        file: &File,
        bytes: u64,
        go_on: &(dyn Fn() -> bool + Sync),
        run: &mut dyn FnMut(Range<u64>) -> io::Result<()>,
    ) -> Worked<()> {
        let found = self.find_runs(file, bytes, go_on, run);
        found.map_err(cannot("search it for zeros"))
    }

    /// Counts them.
    pub fn count(&self, file: &File, bytes: u64, stop: &Stop) -> Worked<ZeroRuns> {
        let mut counted = ZeroRuns::default();
        self.find(file, bytes, &|| !stop.is_stopped(), &mut |run| {
            counted.add(&run);
            Ok(())
        })?;
        Ok(counted)
    }

    fn find_runs(
        &self,
        file: &File,
        bytes: u64,
        go_on: &(dyn Fn() -> bool + Sync),
        run: &mut dyn FnMut(Range<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut pieces = pieces(data_ranges(file, 0..bytes), self.block_bytes, bytes).peekable();
        let mut telling = Telling::new(self.min_bytes, run);
        let mut at = 0;
        while pieces.peek().is_some() && go_on() {
            let mut batch = Vec::new();
            let mut batch_bytes = 0;
            while batch.len() < BATCH_PIECES && batch_bytes < BATCH_BYTES {
                let Some(piece) = pieces.next() else { break };
                let piece = piece?;
                batch_bytes += piece.end - piece.start;
                batch.push(piece);
            }
            let found = self.scan(file, &batch, go_on)?;
            let end = batch.last().map_or(at, |piece| piece.end);
            // The holes between the pieces.
            (self.moved)(end.saturating_sub(at).saturating_sub(batch_bytes));
            at = end;
            for found in found.into_iter().flatten() {
                telling.take(found)?;
            }
            telling.tell_if_long()?;
        }
        (self.moved)(bytes.saturating_sub(at));
        telling.tell()
    }

    fn scan(
        &self,
        file: &File,
        pieces: &[Range<u64>],
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Vec<Vec<Range<u64>>>> {
        let one = |piece: &Range<u64>| {
            let mut runs = Runs::new(self.block_bytes as usize);
            if go_on() {
                self.with_buffer(|buffer| runs.read(file, buffer, piece, self.evict))?;
                (self.moved)(piece.end - piece.start);
            }
            Ok(runs.found)
        };
        // Most files are small, and starting threads is expensive.
        let length: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        if length <= PIECE_BYTES {
            pieces.iter().map(one).collect()
        } else {
            pieces.par_iter().map(one).collect()
        }
    }

    fn with_buffer(&self, read: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
        let wanted = BUFFER_BYTES.next_multiple_of(self.block_bytes as usize);
        BUFFER.with_borrow_mut(|kept| {
            let buffer = match kept.take() {
                Some(buffer) if buffer.len() == wanted => buffer,
                _ => Buffer::new(wanted, BUFFER_ALIGNMENT)?,
            };
            read(kept.insert(buffer))
        })
    }
}

/// Counts runs, some of which come in parts.
#[derive(Default)]
pub(super) struct ZeroRuns {
    pub holes: u64,
    pub bytes: u64,
    end: Option<u64>,
}

impl ZeroRuns {
    /// Counts a run, or a further part of one. Returns whether it is a new run.
    pub fn add(&mut self, run: &Range<u64>) -> bool {
        let is_new = self.end != Some(run.start);
        self.holes += u64::from(is_new);
        self.bytes = self.bytes.saturating_add(run.end - run.start);
        self.end = Some(run.end);
        is_new
    }
}

/// Merges neighbouring runs before they are reported.
struct Telling<'a> {
    min_bytes: u64,
    run: &'a mut dyn FnMut(Range<u64>) -> io::Result<()>,
    last: Range<u64>,
    /// The end of what was reported.
    told: Option<u64>,
}

impl<'a> Telling<'a> {
    fn new(min_bytes: u64, run: &'a mut dyn FnMut(Range<u64>) -> io::Result<()>) -> Self {
        Self {
            min_bytes,
            run,
            last: 0..0,
            told: None,
        }
    }

    fn take(&mut self, found: Range<u64>) -> io::Result<()> {
        if self.last.end == found.start {
            self.last.end = found.end;
            return Ok(());
        }
        self.tell()?;
        self.last = found;
        Ok(())
    }

    fn tell_if_long(&mut self) -> io::Result<()> {
        if self.last.end - self.last.start < BATCH_BYTES.max(self.min_bytes) {
            return Ok(());
        }
        self.tell()
    }

    fn tell(&mut self) -> io::Result<()> {
        let (last, end) = (self.last.clone(), self.last.end);
        self.last = end..end;
        let goes_on = self.told == Some(last.start);
        if last.is_empty() || (last.end - last.start < self.min_bytes && !goes_on) {
            return Ok(());
        }
        self.told = Some(end);
        (self.run)(last)
    }
}

/// The runs of zeros of a piece.
struct Runs {
    block_bytes: usize,
    found: Vec<Range<u64>>,
}

impl Runs {
    fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            found: Vec::new(),
        }
    }

    fn read(&mut self, file: &File, buffer: &mut [u8], piece: &Range<u64>, evict: bool) -> io::Result<()> {
        for start in piece.clone().step_by(buffer.len()) {
            let wanted = (piece.end - start).min(buffer.len() as u64) as usize;
            let length = read_full(file, &mut buffer[..wanted], start)?;
            self.look(MappedBytes::from(&buffer[..length]), start);
            let is_zeros = self
                .found
                .last()
                .is_some_and(|run| run.contains(&start) && run.end >= start + length as u64);
            if evict && is_zeros {
                // The punch drops the rest.
                let _ = seekless_sys::advise(file, Advice::DontNeed, start, length as u64);
            }
            if length < wanted {
                break;
            }
        }
        Ok(())
    }

    fn look(&mut self, bytes: MappedBytes<'_>, start: u64) {
        zero_runs(bytes, self.block_bytes, |found| {
            let found = start + found.start as u64..start + found.end as u64;
            match self.found.last_mut() {
                Some(last) if last.end == found.start => last.end = found.end,
                _ => self.found.push(found),
            }
        });
    }
}

/// Cuts stretches of data into pieces that begin and end at blocks, or at the end of the file.
fn pieces(
    data: impl Iterator<Item = io::Result<Range<u64>>>,
    block_bytes: u64,
    bytes: u64,
) -> impl Iterator<Item = io::Result<Range<u64>>> {
    let length = PIECE_BYTES.next_multiple_of(block_bytes);
    data.flat_map(move |stretch| {
        let (error, whole) = match stretch {
            Err(error) => (Some(Err(error)), 0..0),
            Ok(stretch) if stretch.end == bytes => (None, stretch.start.next_multiple_of(block_bytes)..bytes),
            Ok(stretch) => {
                let end = stretch.end - stretch.end % block_bytes;
                (None, stretch.start.next_multiple_of(block_bytes)..end)
            }
        };
        let cut = whole.clone().step_by(length as usize);
        error
            .into_iter()
            .chain(cut.map(move |start| Ok(start..(start + length).min(whole.end))))
    })
}

/// Reports the runs of zero blocks in bytes that start at a block boundary. A partial block at the end counts as one.
fn zero_runs(bytes: MappedBytes<'_>, block_bytes: usize, mut run: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at < bytes.len() {
        let nonzero = bytes.slice(at..bytes.len()).first_nonzero().map(|found| at + found);
        let end = nonzero.map_or(bytes.len(), |found| found - found % block_bytes);
        if end > at {
            run(at..end);
        }
        at = end + block_bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_those_of_looking_at_each_block(
            blocks in proptest::collection::vec(prop_oneof![Just(None), (0_usize..16).prop_map(Some)], 0..40),
            tail in 0_usize..16,
        ) {
            const BLOCK: usize = 16;
            let mut bytes = vec![0; blocks.len() * BLOCK + tail];
            for (n, place) in blocks.iter().enumerate() {
                if let Some(place) = place {
                    bytes[n * BLOCK + place] = 1;
                }
            }
            let mut found = Vec::new();
            zero_runs(MappedBytes::from(&bytes[..]), BLOCK, |run| found.extend(run));
            let naive: Vec<usize> = (0..bytes.len())
                .filter(|at| bytes[at - at % BLOCK..].iter().take(BLOCK).all(|&byte| byte == 0))
                .collect();
            prop_assert_eq!(found, naive);
        }

        #[test]
        fn what_is_told_is_what_was_found_but_for_what_is_too_short(
            found in proptest::collection::vec((0_u64..3, 1_u64..1 << 28, any::<bool>()), 0..40),
            min_bytes in prop_oneof![Just(0), 0_u64..1 << 29],
        ) {
            let (mut at, mut naive) = (0, Vec::<Range<u64>>::new());
            let mut told = Vec::<Range<u64>>::new();
            let mut run = |part: Range<u64>| {
                match told.last_mut() {
                    Some(last) if last.end == part.start => last.end = part.end,
                    _ => told.push(part),
                }
                Ok(())
            };
            let mut telling = Telling::new(min_bytes, &mut run);
            for (gap, length, ends_batch) in found {
                let start = at + gap;
                at = start + length;
                match naive.last_mut() {
                    Some(last) if last.end == start => last.end = at,
                    _ => naive.push(start..at),
                }
                telling.take(start..at).unwrap();
                if ends_batch {
                    telling.tell_if_long().unwrap();
                }
            }
            telling.tell().unwrap();
            naive.retain(|run| run.end - run.start >= min_bytes);
            prop_assert_eq!(told, naive);
        }

        #[test]
        fn pieces_cover_every_whole_block_of_data_once(
            cuts in proptest::collection::vec((0_u64..100_000, 1_u64..20_000_000), 0..5),
            tail in any::<bool>(),
        ) {
            const BLOCK: u64 = 4096;
            let mut at = 0;
            let data: Vec<_> = cuts.iter().map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                start..at
            }).collect();
            let bytes = at + u64::from(!tail) * 5000;
            let cut: Vec<_> = pieces(data.iter().cloned().map(Ok), BLOCK, bytes).map(Result::unwrap).collect();
            for piece in &cut {
                prop_assert!(piece.start < piece.end && piece.start % BLOCK == 0 && piece.end - piece.start <= PIECE_BYTES);
                prop_assert!(piece.end % BLOCK == 0 || piece.end == bytes);
            }
            let covered: u64 = cut.iter().map(|piece| piece.end - piece.start).sum();
            let whole: u64 = data.iter().map(|data| {
                let end = if data.end == bytes { bytes } else { data.end - data.end % BLOCK };
                end.saturating_sub(data.start.next_multiple_of(BLOCK))
            }).sum();
            prop_assert_eq!(covered, whole);
        }
    }
}
