//! `compare/stdio` and `compare/stdio-unlocked`: getc(3) of each in turn, as programs of 2009 did. One loop; the two differ
//! in the lock that each call takes.

use std::ops::Range;

use seekless_sys::{Access, Locking, Stdio, StdioEnd};

use super::pair::Pair;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::transfer::Ahead;
use seekless_method::Differ;

pub(super) const LOCKED_PREPARE: PrepareCompare = |_| Ok(Box::new(Streams(Locking::Locked)));
pub(super) const UNLOCKED_PREPARE: PrepareCompare = |_| Ok(Box::new(Streams(Locking::Unlocked)));

struct Streams(Locking);

impl CompareBytes for Streams {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        let side = &pair.sides[file];
        let place = pair.place(file, &range);
        let length = place.end - place.start;
        let skipped = open(pair, file, range.start)?.skip(self.0, length);
        let skipped = skipped.map_err(|error| side.failed(("skip with getc", place.start), error))?;
        if skipped < length {
            return Err(side.resized(place.start + skipped));
        }
        Ok(())
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        let (mut one, mut other) = (open(pair, 0, range.start)?, open(pair, 1, range.start)?);
        let counts = pair.sides[0].method.options().differ() == Differ::Linewise;
        let length = range.end - range.start;
        let end = one.compare(&mut other, self.0, length, counts.then_some(newlines));
        let end = end.map_err(|failure| {
            let file = usize::from(failure.is_second);
            let at = pair.starts[file] + range.start + failure.done;
            pair.sides[file].failed(("getc", at), failure.source)
        })?;
        match end {
            StdioEnd::Equal => Ok(None),
            StdioEnd::Differ(at) => Ok(Some(range.start + at)),
            StdioEnd::FirstEnded(at) => Err(pair.sides[0].resized(pair.starts[0] + range.start + at)),
            StdioEnd::SecondEnded(at) => Err(pair.sides[1].resized(pair.starts[1] + range.start + at)),
        }
    }
}

fn open(pair: &Pair<'_>, file: usize, at: u64) -> Result<Stdio> {
    let side = &pair.sides[file];
    Ahead::within(side, 0..side.bytes)?;
    // dup, fdopen's fcntl, lseek and close; the reads are the C library's own.
    side.count_calls(4);
    let own = side.with_own_position(Access::Read)?;
    Stdio::new(&own, pair.starts[file] + at).map_err(|error| side.failed("open a stream", error))
}
