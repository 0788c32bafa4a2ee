//! The read-ahead hint of a method: given once, or piece by piece ahead of the reading.

use std::ops::Range;

use seekless_sys::{self as sys, Advice, Support};

use super::OpenFile;
use crate::error::Result;
use seekless_method::Hint;

/// How far ahead of the reading the piecewise hints are given.
const AHEAD_BYTES: u64 = 8 << 20;
/// The kernel cuts a longer hint to the read-ahead window, whose usual size this is.
pub(crate) const PIECE_BYTES: u64 = 128 << 10;

/// Gives the method's read-ahead hint: once, or piece by piece ahead of the reading (`willneed`, `readahead`,
/// `rdadvise`).
pub(crate) struct Ahead<'a> {
    side: &'a OpenFile<'a>,
    told: u64,
    end: u64,
}

impl<'a> Ahead<'a> {
    /// Gives a hint that is given once; other hints follow piece by piece, within a range of the source.
    pub fn within(side: &'a OpenFile<'a>, range: Range<u64>) -> Result<Self> {
        let end = range.end;
        let advise = |advice| sys::advise(&side.file, advice, 0, 0);
        let given = match side.method.options().hint() {
            Hint::None | Hint::Populate => return Ok(Self::done(side)),
            Hint::WillNeed | Hint::ReadAhead | Hint::RdAdvise => {
                return Ok(Self {
                    side,
                    told: range.start,
                    end,
                });
            }
            Hint::Sequential => advise(Advice::Sequential),
            Hint::Random => advise(Advice::Random),
            Hint::SequentialNoReuse => match advise(Advice::Sequential) {
                Ok(Support::Available(())) => advise(Advice::NoReuse),
                other => other,
            },
            Hint::RdAhead => sys::enable_read_ahead(&side.file),
        };
        side.count_call();
        side.support(GIVING, given)?;
        Ok(Self::done(side))
    }

    /// No hint is left to give.
    fn done(side: &'a OpenFile<'a>) -> Self {
        Self {
            side,
            told: u64::MAX,
            end: 0,
        }
    }

    /// The same for a source that is mapped: the hints for maps are given to the map.
    pub fn for_map(side: &'a OpenFile<'a>, range: Range<u64>) -> Result<Self> {
        match side.method.options().hint() {
            Hint::RdAhead | Hint::RdAdvise => Self::within(side, range),
            _ => Ok(Self::done(side)),
        }
    }

    /// Gives the hints for what will be read after `offset`.
    pub fn reading_at(&mut self, offset: u64) -> Result<()> {
        let side = self.side;
        while self.told < self.end && self.told < offset.saturating_add(AHEAD_BYTES) {
            let given = match side.method.options().hint() {
                Hint::ReadAhead => sys::readahead(&side.file, self.told, PIECE_BYTES as usize),
                Hint::RdAdvise => sys::read_advice(&side.file, self.told, PIECE_BYTES),
                _ => sys::advise(&side.file, Advice::WillNeed, self.told, PIECE_BYTES),
            };
            side.count_call();
            side.support(GIVING, given)?;
            self.told += PIECE_BYTES;
        }
        Ok(())
    }
}

const GIVING: &str = "give the read-ahead hint";
