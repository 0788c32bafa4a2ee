//! The first difference of two streams.

use seekless_sys as sys;

use super::error::Error;
use super::lines::LineCount;
use super::lockstep::{Lockstep, SideBySide};
use super::{ByteDifference, CmpVerdict, End};

/// Reads until the first difference. Returns the verdict, the length of the equal part, and its lines if requested: they are counted
/// meanwhile, because a stream cannot be read again.
pub(super) fn first_difference(
    streams: &mut Lockstep<'_>,
    counts_lines: bool,
) -> Result<(CmpVerdict, u64, Option<LineCount>), Error> {
    let mut equal_bytes = 0;
    let mut lines = counts_lines.then(LineCount::default);
    let mut pass = |equal: &[u8]| {
        if let Some(lines) = &mut lines {
            lines.pass(equal);
        }
        equal_bytes += equal.len() as u64;
    };
    let verdict = loop {
        match streams.next()? {
            SideBySide::Bytes(one, other) => match sys::first_difference(one, other) {
                None => pass(one),
                Some(index) => {
                    pass(&one[..index]);
                    break CmpVerdict::Differ(ByteDifference {
                        offset: equal_bytes,
                        line: lines.map(|lines| lines.newlines + 1),
                        bytes: [one[index], other[index]],
                    });
                }
            },
            SideBySide::End => break CmpVerdict::Equal,
            SideBySide::Ended(side) => break CmpVerdict::Ended(End::new(side, equal_bytes, lines)),
        }
    };
    Ok((verdict, equal_bytes, lines))
}
