//! What a file consists of: data, holes, and what is reserved for data that never came.

use std::fs::File;
use std::io;
use std::ops::Range;

use seekless_sys::{self as sys, Extent, ExtentFlags, Support};

/// What a stretch of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that were written.
    Data,
    /// No blocks; reads as zeros.
    Hole,
    /// Blocks that were allocated and not written; reads as zeros.
    Reserved,
}

impl Kind {
    /// Its name in outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Hole => "hole",
            Self::Reserved => "reserved",
        }
    }
}

/// A stretch of a file, as long as it is of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// What it is.
    pub kind: Kind,
    /// The bytes.
    pub range: Range<u64>,
}

/// The stretches of data of a file, in order.
pub(super) struct Data<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> Data<'a> {
    pub fn of(file: &'a File, range: Range<u64>) -> Self {
        Self {
            file,
            at: range.start,
            end: range.end,
        }
    }

    /// The next one; everything is data where the file system does not tell.
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

impl Iterator for Data<'_> {
    type Item = io::Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.find().transpose()
    }
}

/// Tells a hole, cut where blocks are reserved. `extents` are in order and hold what is not behind `range`.
pub(super) fn tell_hole(range: Range<u64>, extents: &mut &[Extent], tell: &mut dyn FnMut(Stretch)) {
    let mut at = range.start;
    while let Some(extent) = extents.first()
        && extent.logical < range.end
    {
        let end = extent.logical.saturating_add(extent.length);
        let reserved = extent.logical.max(at)..end.min(range.end);
        if extent.flags.contains(ExtentFlags::UNWRITTEN) && !reserved.is_empty() {
            if at < reserved.start {
                tell(Stretch {
                    kind: Kind::Hole,
                    range: at..reserved.start,
                });
            }
            at = reserved.end;
            tell(Stretch {
                kind: Kind::Reserved,
                range: reserved,
            });
        }
        if end > range.end {
            break;
        }
        *extents = &extents[1..];
    }
    if at < range.end {
        tell(Stretch {
            kind: Kind::Hole,
            range: at..range.end,
        });
    }
}
