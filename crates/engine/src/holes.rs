//! Where a file has data and where holes, as its file system tells: lseek(2) `SEEK_DATA` and `SEEK_HOLE`.
//!
//! Asked stretch by stretch while the file is worked on, so that a file of millions of extents takes no memory. Each answer
//! is true of one moment: what others write into a hole afterwards is not seen, as what they write behind a reader is not.

use std::fs::File;
use std::io;
use std::ops::Range;

use seekless_sys::{self as sys, Support};

use crate::error::Result;
use crate::transfer::Side;

/// Where the first data at or after an offset begins: at the offset where the file system does not tell, `u64::MAX` where
/// only a hole is left.
pub(crate) fn next_data(side: &Side<'_>, at: u64) -> Result<u64> {
    side.count_call();
    match sys::next_data(&side.file, at) {
        Ok(Support::Available(data)) => Ok(data.unwrap_or(u64::MAX)),
        Ok(Support::Unavailable(_)) => Ok(at),
        Err(error) => Err(side.failed_at("asking for data", at, error)),
    }
}

/// Where the data at an offset ends: `u64::MAX` where the file system does not tell, `None` where there is none, because the
/// file was changed since it was found, or its map makes no sense.
pub(crate) fn end_of_data(side: &Side<'_>, at: u64) -> Result<Option<u64>> {
    side.count_call();
    match sys::next_hole(&side.file, at) {
        Ok(Support::Available(hole)) => Ok(Some(hole).filter(|&hole| hole > at)),
        Ok(Support::Unavailable(_)) => Ok(Some(u64::MAX)),
        Err(error) => Err(side.failed_at("asking for holes", at, error)),
    }
}

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Data(Range<u64>),
    Hole(Range<u64>),
}

/// What is read before asking again where there was data a moment ago.
const UNSURE_BYTES: u64 = 1 << 20;

/// The stretches of a source, up to the size that it had when it was opened. Data is rounded out to an alignment, so that
/// direct I/O can reach it: it never is less than there is.
pub(crate) struct Stretches<'a> {
    side: &'a Side<'a>,
    alignment: u64,
    at: u64,
    /// Where the data behind the hole begins that was told last.
    data: Option<u64>,
}

impl<'a> Stretches<'a> {
    pub fn of(side: &'a Side<'a>, alignment: u64) -> Self {
        Self {
            side,
            alignment,
            at: 0,
            data: None,
        }
    }

    pub fn next(&mut self) -> Result<Option<Stretch>> {
        let (at, bytes) = (self.at, self.side.bytes);
        if at >= bytes {
            return Ok(None);
        }
        let data = match self.data.take() {
            Some(data) => data,
            None => next_data(self.side, at)?,
        };
        let start = (data - data % self.alignment).clamp(at, bytes);
        if start > at {
            self.at = start;
            self.data = (start < bytes).then_some(data);
            return Ok(Some(Stretch::Hole(at..start)));
        }
        let end = end_of_data(self.side, data)?.unwrap_or(data.saturating_add(UNSURE_BYTES));
        self.at = end.min(bytes).next_multiple_of(self.alignment).min(bytes);
        Ok(Some(Stretch::Data(at..self.at)))
    }
}

/// Where a file has data: the ranges within a range, in order. Everything is data where the file system does not tell.
pub struct DataRanges<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> DataRanges<'a> {
    /// Of a file that stays open.
    #[must_use]
    pub fn of(file: &'a File, within: Range<u64>) -> Self {
        Self {
            file,
            at: within.start,
            end: within.end,
        }
    }

    fn find(&mut self) -> io::Result<Option<Range<u64>>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = match sys::next_data(self.file, self.at)? {
            Support::Unavailable(_) => self.at,
            Support::Available(Some(start)) if start < self.end => start,
            Support::Available(_) => return Ok(None),
        };
        let end = match sys::next_hole(self.file, start)? {
            // A hole that begins where there is data: the file changes, or its map makes no sense.
            Support::Available(hole) if hole > start => hole.min(self.end),
            Support::Available(_) | Support::Unavailable(_) => self.end,
        };
        self.at = end;
        Ok(Some(start..end))
    }
}

impl Iterator for DataRanges<'_> {
    type Item = io::Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.find().transpose()
    }
}
