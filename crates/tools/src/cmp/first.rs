//! The first difference of two streams.

use memchr::memchr_iter;
use seekless_sys as sys;

use super::error::Error;
use super::lockstep::{Lockstep, Step};
use super::{Difference, End, Verdict};

/// What two streams came to, and how much of them is equal.
pub(super) struct Found {
    pub(super) verdict: Verdict,
    pub(super) equal_bytes: u64,
}

/// Reads until the first difference. Newlines are counted on the way where asked for, because a stream cannot be read
/// again.
pub(super) fn first_difference(streams: &mut Lockstep<'_>, counts_lines: bool) -> Result<Found, Error> {
    let (mut equal_bytes, mut newlines, mut last_byte) = (0, 0, None);
    let mut pass = |equal: &[u8], newlines: &mut u64| {
        if counts_lines {
            *newlines += memchr_iter(b'\n', equal).count() as u64;
        }
        last_byte = equal.last().copied().or(last_byte);
        last_byte
    };
    let verdict = loop {
        match streams.next()? {
            Step::Bytes(one, other) => match sys::first_difference(one, other) {
                None => {
                    pass(one, &mut newlines);
                    equal_bytes += one.len() as u64;
                }
                Some(index) => {
                    pass(&one[..index], &mut newlines);
                    equal_bytes += index as u64;
                    break Verdict::Differ(Difference {
                        offset: equal_bytes,
                        newlines: counts_lines.then_some(newlines),
                        bytes: [one[index], other[index]],
                    });
                }
            },
            Step::End => break Verdict::Equal,
            Step::Ended(side) => {
                let last_byte = pass(&[], &mut newlines);
                break Verdict::Ended(End {
                    side,
                    offset: equal_bytes,
                    newlines: counts_lines.then_some(newlines),
                    is_within_line: last_byte.is_some_and(|byte| byte != b'\n'),
                });
            }
        }
    };
    Ok(Found { verdict, equal_bytes })
}
