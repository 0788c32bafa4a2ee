//! Reading two streams side by side, a block of each in turn, without trusting sizes.
//!
//! It reads until the system reports the end, but never past the limit, so that the next reader of a shared descriptor
//! gets the following bytes.

use std::ffi::OsStr;
use std::io::{self, Read};

use super::error::{CmpProblem, Error};
use super::side::{Bytes, CmpInput};
use super::{CmpRequest, TOLD_BYTES};
use crate::watch::{JobProgress, JobWatch};

/// Blocks grow, so that a difference near the start is found before much is read.
const FIRST_BLOCK_BYTES: usize = 16 << 10;
/// The capacity of a pipe. Both blocks fit into the processor's caches.
const BLOCK_BYTES: usize = 64 << 10;

/// Progress is reported after this many bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Both streams.
pub(super) struct Lockstep<'a> {
    feeds: [Feed<'a>; 2],
    /// How many of the buffered bytes were returned.
    given_bytes: usize,
    passed_bytes: u64,
    /// The total number of bytes, if known.
    of_bytes: Option<u64>,
    /// The next position at which progress is reported.
    told_at: u64,
    watch: &'a dyn JobWatch,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SideBySide<'a> {
    /// Bytes of both, equally many, at least one.
    Bytes(&'a [u8], &'a [u8]),
    /// The end of both, or the limit.
    End,
    /// Only this one has ended.
    Ended(usize),
}

struct Feed<'a> {
    name: &'a OsStr,
    bytes: &'a mut Bytes,
    unskipped_bytes: u64,
    /// Bytes that may still be read.
    left_bytes: u64,
    read_bytes: u64,
    position: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    has_ended: bool,
}

impl<'a> Lockstep<'a> {
    /// Reads from the current positions, at most `limit_bytes` of each.
    pub(super) fn new(
        request: &CmpRequest,
        sides: &'a mut [CmpInput; 2],
        limit_bytes: u64,
        watch: &'a dyn JobWatch,
    ) -> Self {
        let ahead = sides.iter().filter_map(CmpInput::bytes_ahead).min();
        let of_bytes = ahead.map(|bytes| u64::try_from(bytes).unwrap_or(0).min(limit_bytes));
        Self {
            feeds: sides.each_mut().map(|side| Feed::new(side, limit_bytes)),
            given_bytes: 0,
            passed_bytes: 0,
            of_bytes: of_bytes.or(request.limit_bytes),
            told_at: TOLD_BYTES,
            watch,
        }
    }

    #[cold]
    fn tell(&mut self) {
        self.told_at = self.passed_bytes + STEP_BYTES;
        if self.watch.wants_progress() {
            let progress = JobProgress::of_bytes(self.passed_bytes, self.of_bytes);
            self.watch.progress(&progress);
        }
    }

    /// The next bytes of both.
    pub(super) fn next(&mut self) -> Result<SideBySide<'_>, Error> {
        for feed in &mut self.feeds {
            feed.start += self.given_bytes;
        }
        self.passed_bytes += self.given_bytes as u64;
        self.given_bytes = 0;
        if self.passed_bytes >= self.told_at {
            self.tell();
        }
        if self.watch.stop().is_stopped() {
            return Err(Error::Stopped);
        }
        // Both are read before the end of one is reported, so that an error of the other comes first.
        for feed in &mut self.feeds {
            feed.fill()?;
        }
        let [one, other] = &self.feeds;
        let bytes = one.at_hand().len().min(other.at_hand().len());
        if bytes > 0 {
            self.given_bytes = bytes;
            return Ok(SideBySide::Bytes(&one.at_hand()[..bytes], &other.at_hand()[..bytes]));
        }
        Ok(match (one.at_hand().is_empty(), other.at_hand().is_empty()) {
            (true, false) => SideBySide::Ended(0),
            (false, true) => SideBySide::Ended(1),
            _ => SideBySide::End,
        })
    }
}

impl<'a> Feed<'a> {
    fn new(side: &'a mut CmpInput, limit_bytes: u64) -> Self {
        Self {
            name: &side.name,
            bytes: &mut side.bytes,
            unskipped_bytes: side.unskipped_bytes,
            left_bytes: limit_bytes,
            read_bytes: 0,
            position: side.position.unwrap_or(0),
            buffer: vec![0; FIRST_BLOCK_BYTES],
            start: 0,
            end: 0,
            has_ended: false,
        }
    }

    fn at_hand(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads if the buffer is empty, unless the stream or the limit has ended.
    fn fill(&mut self) -> Result<(), Error> {
        if self.start < self.end || self.has_ended {
            return Ok(());
        }
        while self.unskipped_bytes > 0 {
            let wanted = self.unskipped_bytes.min(self.buffer.len() as u64) as usize;
            let read = self.read(wanted)?;
            if read == 0 {
                self.has_ended = true;
                return Ok(());
            }
            self.unskipped_bytes -= read as u64;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(BLOCK_BYTES, 0);
        }
        let wanted = self.left_bytes.min(self.buffer.len() as u64) as usize;
        // Read once even under a limit of 0, so that an unreadable file is an error.
        if wanted == 0 && self.read_bytes > 0 {
            self.has_ended = true;
            return Ok(());
        }
        self.end = self.read(wanted)?;
        self.start = 0;
        self.left_bytes -= self.end as u64;
        self.has_ended = self.end == 0;
        Ok(())
    }

    fn read(&mut self, wanted: usize) -> Result<usize, Error> {
        loop {
            match self.bytes.read(&mut self.buffer[..wanted]) {
                Ok(read) => {
                    self.read_bytes += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let position = if self.read_bytes == 0 { 0 } else { self.position };
                    return Err(CmpProblem::Read(position + self.read_bytes, error).of(self.name));
                }
            }
        }
    }
}
