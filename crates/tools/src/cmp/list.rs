//! Listing every difference of two streams, one row each.

use std::io::{self, Write};

use seekless_sys::first_difference;

use super::error::Error;
use super::lockstep::{Lockstep, SideBySide};
use super::row::Rows;
use super::{CmpVerdict, End};

/// Rows are written in pieces of this size, as large as the pipes of most systems may be.
const PIECE_BYTES: usize = 256 << 10;
/// A last part of at most this size is left to the caller, who may have to print something first. C's standard output
/// holds back as much.
const HELD_BACK_BYTES: usize = 4096;
/// After a difference, this many bytes are compared one by one, because starting a search costs more.
const NEAR_BYTES: usize = 16;

/// Writes a row for each difference. Returns the result, the number of bytes compared, and the rows that are not
/// written yet.
pub(super) fn list(
    streams: &mut Lockstep<'_>,
    rows: &mut Rows,
    out: &mut dyn Write,
) -> Result<(CmpVerdict, u64, Vec<u8>), Error> {
    let mut text = Vec::with_capacity(HELD_BACK_BYTES);
    let (mut offset, mut differences, mut has_written) = (0, 0, false);
    let mut failed = None;
    let end = loop {
        let (one, other) = match streams.next()? {
            SideBySide::Bytes(one, other) => (one, other),
            SideBySide::End => break None,
            SideBySide::Ended(side) => break Some(side),
        };
        // A few thousand bytes at a time, so that the text is not much longer than its piece.
        for (one, other) in one.chunks(PIECE_BYTES / 64).zip(other.chunks(PIECE_BYTES / 64)) {
            differences += push_differences(one, other, offset, rows, &mut text);
            offset += one.len() as u64;
            if text.len() >= PIECE_BYTES {
                write(out, &mut text, &mut failed)?;
                has_written = true;
            }
        }
    };
    if has_written || text.len() > HELD_BACK_BYTES {
        write(out, &mut text, &mut failed)?;
    }
    let end = end.map(|side| End::new(side, offset, None));
    if let Some(source) = failed {
        return Err(Error::Write { source, end });
    }
    let verdict = match (end, differences) {
        (Some(end), _) => CmpVerdict::Ended(end),
        (None, 0) => CmpVerdict::Equal,
        (None, differences) => CmpVerdict::Listed { differences },
    };
    Ok((verdict, offset, text))
}

/// Writes the text. If that fails, the files are still read to the end, to report which one is shorter, unless the
/// reader has closed the output.
fn write(out: &mut dyn Write, text: &mut Vec<u8>, failed: &mut Option<io::Error>) -> Result<(), Error> {
    if failed.is_none() {
        match out.write_all(text) {
            Err(source) if source.kind() == io::ErrorKind::BrokenPipe => {
                return Err(Error::Write { source, end: None });
            }
            written => *failed = written.err(),
        }
    }
    text.clear();
    Ok(())
}

fn push_differences(one: &[u8], other: &[u8], offset: u64, rows: &mut Rows, text: &mut Vec<u8>) -> u64 {
    let mut differences = 0;
    let mut start = 0;
    while let Some(equal) = first_difference(&one[start..], &other[start..]) {
        start += equal;
        // The bytes after a difference often differ, too.
        let mut equal_since = 0;
        for (one, other) in one[start..].iter().zip(&other[start..]) {
            if one == other {
                equal_since += 1;
                if equal_since == NEAR_BYTES {
                    start += 1;
                    break;
                }
            } else {
                equal_since = 0;
                differences += 1;
                rows.push(text, offset + start as u64, *one, *other);
            }
            start += 1;
        }
    }
    differences
}
