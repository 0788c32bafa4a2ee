//! Where a file has data and where holes, as its file system tells: lseek(2) `SEEK_DATA` and `SEEK_HOLE`.
//!
//! Asked stretch by stretch while the file is worked on, so that a file of millions of extents takes no memory. Each answer
//! is true of one moment: what others write into a hole afterwards is not seen, as what they write behind a reader is not.

use std::fs::File;
use std::io;
use std::ops::Range;

use seekless_sys::{self as sys, Support};

use crate::error::Action;

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Data(Range<u64>),
    Hole(Range<u64>),
}

/// What counts as data before asking again where there was data a moment ago.
const UNSURE_BYTES: u64 = 1 << 20;

/// The stretches of a range of a file, in order. Everything is data where the file system does not tell. Data is rounded out
/// to an alignment, so that direct I/O can reach it: it never is less than there is. `count_call` is called before each system
/// call. An error comes with what was being done, and is the last answer.
pub(crate) fn stretches(
    file: &File,
    within: Range<u64>,
    alignment: u64,
    count_call: impl Fn(),
) -> impl Iterator<Item = Result<Stretch, (Action, io::Error)>> {
    let (mut at, end) = (within.start, within.end);
    // Where the data behind the hole begins that was told last.
    let mut told = None;
    let mut next = move || {
        if at >= end {
            return Ok(None);
        }
        // Nothing is asked behind an error.
        let from = std::mem::replace(&mut at, end);
        let ask = || {
            count_call();
            next_data(file, from).map_err(|error| (("find data", from).into(), error))
        };
        let data = told.take().map_or_else(ask, Ok)?;
        let start = (data - data % alignment).clamp(from, end);
        if start > from {
            at = start;
            told = Some(data);
            return Ok(Some(Stretch::Hole(from..start)));
        }
        count_call();
        let hole = end_of_data(file, data).map_err(|error| (("find holes", data).into(), error))?;
        at = hole.min(end).next_multiple_of(alignment).min(end);
        Ok(Some(Stretch::Data(from..at)))
    };
    std::iter::from_fn(move || next().transpose())
}

/// Where the first data at or after an offset begins: `u64::MAX` where only a hole is left.
fn next_data(file: &File, at: u64) -> io::Result<u64> {
    Ok(match sys::next_data(file, at)? {
        Support::Available(data) => data.unwrap_or(u64::MAX),
        Support::Unavailable(_) => at,
    })
}

/// Where the data at an offset ends. There may be none any more, because the file was changed since it was found, or its map
/// makes no sense.
fn end_of_data(file: &File, at: u64) -> io::Result<u64> {
    Ok(match sys::next_hole(file, at)? {
        Support::Available(hole) if hole > at => hole,
        Support::Available(_) => at.saturating_add(UNSURE_BYTES),
        Support::Unavailable(_) => u64::MAX,
    })
}

/// Where a file has data: the ranges within a range, in order. Everything is data where the file system does not tell. Moves
/// the file's position. An error is the last answer.
///
/// # Errors
/// The system's, of asking.
pub fn data_ranges(file: &File, within: Range<u64>) -> impl Iterator<Item = io::Result<Range<u64>>> {
    stretches(file, within, 1, || ()).filter_map(|stretch| match stretch {
        Ok(Stretch::Data(range)) => Some(Ok(range)),
        Ok(Stretch::Hole(_)) => None,
        Err((_, error)) => Some(Err(error)),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    /// No file system here has smaller blocks.
    const STEP: u64 = 512;

    proptest! {
        #[test]
        fn stretches_are_those_of_asking_at_each_place(
            pieces in proptest::collection::vec((any::<bool>(), 1_u64..40), 0..12),
            ends in (0_u64..500, 0_u64..500),
            alignment in prop::sample::select(vec![1, 512, 4096, 12 << 10]),
        ) {
            let file = tempfile::tempfile().unwrap();
            let mut bytes = 0;
            for (is_data, blocks) in pieces {
                if is_data {
                    file.write_all_at(&vec![1; (blocks << 12) as usize], bytes).unwrap();
                }
                bytes += blocks << 12;
            }
            file.set_len(bytes).unwrap();
            let place = |end: u64| (end * STEP).min(bytes);
            let within = place(ends.0.min(ends.1))..place(ends.0.max(ends.1));
            let has_data = |at: u64| {
                let found = sys::next_data(&file, at).unwrap();
                found.available().is_none_or(|data| data == Some(at))
            };
            // What is in one unit of the alignment with data is data.
            let mut naive: Vec<bool> = (0..bytes / STEP).map(|step| has_data(step * STEP)).collect();
            let unit = (alignment / STEP).max(1) as usize;
            let from = (within.start / STEP) as usize;
            for (step, is_data) in naive.clone().into_iter().enumerate() {
                if is_data && step >= from {
                    let start = step - step % unit;
                    let end = (start + unit).min(naive.len());
                    naive[start..end].fill(true);
                }
            }
            let (calls, mut at, mut found) = (Cell::new(0), within.start, 0);
            for stretch in stretches(&file, within.clone(), alignment, || calls.set(calls.get() + 1)) {
                let (is_data, range) = match stretch.unwrap() {
                    Stretch::Data(range) => (true, range),
                    Stretch::Hole(range) => (false, range),
                };
                prop_assert!(range.start == at && range.end > at, "{range:?} at {at}");
                let steps = (range.start / STEP) as usize..(range.end / STEP) as usize;
                prop_assert!(naive[steps].iter().all(|&naive| naive == is_data), "{range:?} {is_data}");
                (at, found) = (range.end, found + 1);
            }
            prop_assert_eq!(at, within.end);
            prop_assert!(calls.get() <= 2 * found, "{} calls for {found} stretches", calls.get());
        }
    }
}
