//! Hints to the page cache: the same call on Linux and FreeBSD.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;

use crate::support::{ABSENT, Support, attempt};
use crate::types::Advice;

/// Gives a hint for `len` bytes from `offset` (0: to the end): `posix_fadvise(2)`.
///
/// `WillNeed` over more than one read-ahead window fetches only the first of them: issue it piecewise.
pub fn advise(file: &File, advice: Advice, offset: u64, len: u64) -> io::Result<Support<()>> {
    let advice = match advice {
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
        Advice::NoReuse => rustix::fs::Advice::NoReuse,
    };
    attempt(ABSENT, "the kernel has no posix_fadvise", || {
        rustix::fs::fadvise(file, offset, NonZeroU64::new(len), advice)
    })
}
