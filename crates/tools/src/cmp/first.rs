//! The first difference of two streams.

use seekless_sys as sys;

use super::error::Error;
use super::lines::Lines;
use super::lockstep::{Lockstep, Step};
use super::{Difference, End, Verdict};

/// The result for two streams: the length of the equal part, and its lines if requested.
pub(super) struct Found {
    pub(super) verdict: Verdict,
    pub(super) equal_bytes: u64,
    pub(super) lines: Option<Lines>,
}

/// Reads until the first difference. Lines are counted during that, if requested, because a stream cannot be read
/// again.
pub(super) fn first_difference(streams: &mut Lockstep<'_>, counts_lines: bool) -> Result<Found, Error> {
    let mut equal_bytes = 0;
    let mut lines = counts_lines.then(Lines::default);
    let mut pass = |equal: &[u8]| {
        if let Some(lines) = &mut lines {
            lines.pass(equal);
        }
        equal_bytes += equal.len() as u64;
    };
    let verdict = loop {
        match streams.next()? {
            Step::Bytes(one, other) => match sys::first_difference(one, other) {
                None => pass(one),
                Some(index) => {
                    pass(&one[..index]);
                    break Verdict::Differ(Difference {
                        offset: equal_bytes,
                        newlines: lines.map(|lines| lines.newlines),
                        bytes: [one[index], other[index]],
                    });
                }
            },
            Step::End => break Verdict::Equal,
            Step::Ended(side) => break Verdict::Ended(End::new(side, equal_bytes, lines)),
        }
    };
    Ok(Found {
        verdict,
        equal_bytes,
        lines,
    })
}
