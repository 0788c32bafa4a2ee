//! The first difference of two streams.

use seekless_sys as sys;

use super::error::Error;
use super::lines::LineCount;
use super::lockstep::{Lockstep, SideBySide};
use super::{ByteDifference, CmpVerdict, End};

/// The result for two streams: the length of the equal part, and its lines if requested.
pub(super) struct FoundFirst {
    pub(super) verdict: CmpVerdict,
    pub(super) equal_bytes: u64,
    pub(super) lines: Option<LineCount>,
}

/// Reads until the first difference. Lines are counted during that, if requested, because a stream cannot be read
/// again.
pub(super) fn first_difference(streams: &mut Lockstep<'_>, counts_lines: bool) -> Result<FoundFirst, Error> {
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
                        newlines: lines.map(|lines| lines.newlines),
                        bytes: [one[index], other[index]],
                    });
                }
            },
            SideBySide::End => break CmpVerdict::Equal,
            SideBySide::Ended(side) => break CmpVerdict::Ended(End::new(side, equal_bytes, lines)),
        }
    };
    Ok(FoundFirst {
        verdict,
        equal_bytes,
        lines,
    })
}
