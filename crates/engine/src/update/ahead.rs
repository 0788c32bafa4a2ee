//! The read-ahead hint of an update: the kernel reads data for later writes while the current write waits for the
//! device.
//!
//! It covers gaps, and pages that are written in part, whose rest the kernel reads.

use seekless_sys::{self as sys, Advice, page_bytes};

use super::target::Target;
use super::writes::{Write, Writes};
use crate::error::Result;
use crate::transfer::PIECE_BYTES;
use seekless_method::Hint;

/// How many writes the hint is ahead.
const AHEAD_WRITES: u64 = 64;
const AHEAD_BYTES: u64 = 8 << 20;

pub(super) struct WriteAhead<'a> {
    target: &'a Target<'a>,
    /// The writes without a hint yet; `None` if the hint is given once.
    coming: Option<Writes<'a>>,
    /// Writes and bytes with a hint that are not written yet.
    pending: u64,
    pending_bytes: u64,
}

impl<'a> WriteAhead<'a> {
    /// Gives a hint that is given only once.
    pub fn new(target: &'a Target<'a>, block_bytes: usize) -> Result<Self> {
        let hint = target.side.method.options().hint();
        if hint == Hint::Random {
            target.side.count_call();
            let given = sys::advise(&target.side.file, Advice::Random, 0, 0);
            target.side.support(GIVING, given)?;
        }
        Ok(Self {
            target,
            coming: (hint == Hint::WillNeed).then(|| target.writes(block_bytes)),
            pending: 0,
            pending_bytes: 0,
        })
    }

    /// Gives the hints for writes after the one that is about to be made.
    pub fn writing(&mut self, write: &Write) -> Result<()> {
        let Some(coming) = &mut self.coming else {
            return Ok(());
        };
        while self.pending <= AHEAD_WRITES && self.pending_bytes <= AHEAD_BYTES {
            let Some(next) = coming.next() else { break };
            self.pending += 1;
            self.pending_bytes += next.length;
            // The current write reads at once.
            if next.offset != write.offset {
                tell(self.target, &next)?;
            }
        }
        self.pending = self.pending.saturating_sub(1);
        self.pending_bytes = self.pending_bytes.saturating_sub(write.length);
        Ok(())
    }
}

/// Gives the hint for a write: for all of it, or for pages that it writes in part.
fn tell(target: &Target<'_>, write: &Write) -> Result<()> {
    let (page, end) = (page_bytes() as u64, write.offset + write.length);
    if write.has_gaps() || write.length <= 2 * page {
        return advise(target, write.offset, end);
    }
    for edge in [write.offset, end] {
        if !edge.is_multiple_of(page) {
            advise(target, edge, edge + 1)?;
        }
    }
    Ok(())
}

fn advise(target: &Target<'_>, offset: u64, end: u64) -> Result<()> {
    let mut at = offset;
    while at < end.min(target.side.bytes) {
        let bytes = PIECE_BYTES.min(end - at);
        target.side.count_call();
        let given = sys::advise(&target.side.file, Advice::WillNeed, at, bytes);
        target.side.support(GIVING, given)?;
        at += bytes;
    }
    Ok(())
}

const GIVING: &str = "give the read-ahead hint";
