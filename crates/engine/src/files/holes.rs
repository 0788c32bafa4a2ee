//! Data and holes of a file, as the file system reports them: lseek(2) `SEEK_DATA` and `SEEK_HOLE`.
//!
//! They are queried range by range during the work, so a file with millions of extents takes no memory. Each answer is
//! valid for one moment: data that others write into a hole afterwards is missed, like data written before a reader's
//! position.

use std::fs::File;
use std::io;
use std::ops::Range;

use seekless_sys::{self as sys, Support};

use crate::error::FailedCall;

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Data(Range<u64>),
    Hole(Range<u64>),
}

/// How much counts as data before the next query, if data was there a moment ago.
const UNSURE_BYTES: u64 = 1 << 20;

/// The data and holes of a range of a file, in order. If the file system does not report holes, everything is data.
/// Data ranges are extended to an alignment, for direct I/O. `count_call` is called before each system call. An error
/// comes with the action, and is the last item.
pub(crate) fn stretches(
    file: &File,
    within: Range<u64>,
    alignment: u64,
    count_call: impl Fn(),
) -> impl Iterator<Item = Result<Stretch, (FailedCall, io::Error)>> {
    let (mut at, end) = (within.start, within.end);
    // The start of the data after the last hole.
    let mut told = None;
    let mut next = move || {
        if at >= end {
            return Ok(None);
        }
        // There are no items after an error.
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

/// The start of the first data at or after an offset; `u64::MAX` if only a hole is left.
fn next_data(file: &File, at: u64) -> io::Result<u64> {
    Ok(match sys::next_data(file, at)? {
        Support::Available(data) => data.unwrap_or(u64::MAX),
        Support::Unavailable(_) => at,
    })
}

/// The end of the data at an offset. There may be no data any more, because the file was changed since, or the file
/// system's answers are inconsistent.
fn end_of_data(file: &File, at: u64) -> io::Result<u64> {
    Ok(match sys::next_hole(file, at)? {
        Support::Available(hole) if hole > at => hole,
        Support::Available(_) => at.saturating_add(UNSURE_BYTES),
        Support::Unavailable(_) => u64::MAX,
    })
}

/// The data ranges within a range of a file, in order. If the file system does not report holes, everything is data.
/// Moves the file's position. An error is the last item.
///
/// # Errors
/// The system's.
pub fn data_ranges(file: &File, within: Range<u64>) -> impl Iterator<Item = io::Result<Range<u64>>> {
    stretches(file, within, 1, || ()).filter_map(|stretch| match stretch {
        Ok(Stretch::Data(range)) => Some(Ok(range)),
        Ok(Stretch::Hole(_)) => None,
        Err((_, error)) => Some(Err(error)),
    })
}

/// Where the first data begins that one of several files has within a range: its end, if all are holes there.
///
/// # Errors
/// The system's.
pub fn first_data(files: &[&File], within: Range<u64>) -> io::Result<u64> {
    let starts = files.iter().map(|file| next_data(file, within.start));
    let first = starts.reduce(|one, other| Ok(one?.min(other?)));
    Ok(first
        .transpose()?
        .unwrap_or(within.start)
        .clamp(within.start, within.end))
}

/// A file whose holes are longer than this is not digested: reading zeros would take hours.
pub const DIGESTED_HOLE_BYTES_MAX: u64 = 1 << 40;

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
