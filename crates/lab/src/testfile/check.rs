//! Comparing what a trial wrote with the expected bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::generator::Generator;

/// How much of what a trial wrote is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPart {
    /// All of it.
    Whole,
    /// The first piece, the last, and one in sixteen of the others, drawn by this seed.
    Sample(u64),
}

/// Checks that a file has the same bytes as another. Returns the bytes that were compared, or what is wrong.
///
/// # Errors
/// The system's, of opening and reading.
pub fn check_copy(path: &Path, source: &Path, part: TestPart) -> io::Result<Result<u64, String>> {
    let original = File::open(source)?;
    let bytes = original.metadata()?.len();
    check(path, bytes, part, |offset, expected| {
        original.read_exact_at(expected, offset)
    })
}

/// Checks that a file is the first `bytes` of a stream, with updates at their offsets. Returns the bytes that were
/// compared, or what is wrong.
///
/// # Errors
/// The system's, of opening and reading.
pub fn check_updated(
    path: &Path,
    bytes: u64,
    seed: u64,
    updates: &BTreeMap<u64, Vec<u8>>,
    part: TestPart,
) -> io::Result<Result<u64, String>> {
    let generator = Generator::new(seed);
    let longest = updates.values().map(Vec::len).max().unwrap_or(0) as u64;
    check(path, bytes, part, |offset, expected| {
        generator.fill(offset, expected);
        let end = offset + expected.len() as u64;
        for (&at, update) in updates.range(offset.saturating_sub(longest)..end) {
            // An update may start in the previous piece, or end in the next.
            let within = at.max(offset)..(at + update.len() as u64).min(end);
            if within.start < within.end {
                let piece = &update[(within.start - at) as usize..(within.end - at) as usize];
                expected[(within.start - offset) as usize..][..piece.len()].copy_from_slice(piece);
            }
        }
        Ok(())
    })
}

/// Two buffers of this size, the bytes read and the expected ones, fit into the second-level cache.
pub(super) const CHECK_BYTES: usize = 128 << 10;
/// One of this many pieces is in a sample.
const SAMPLED_OF: u64 = 16;

/// Compares pieces of a file with what `expect` returns for their offsets.
pub(super) fn check(
    path: &Path,
    bytes: u64,
    part: TestPart,
    mut expect: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Result<u64, String>> {
    let size = fs::metadata(path)?.len();
    if size != bytes {
        return Ok(Err(format!("it has {size} B instead of {bytes} B")));
    }
    let mut drawn = match part {
        TestPart::Whole => None,
        TestPart::Sample(seed) => Some(fastrand::Rng::with_seed(seed)),
    };
    let file = File::open(path)?;
    let (mut found, mut expected) = (vec![0; CHECK_BYTES], vec![0; CHECK_BYTES]);
    let mut checked_bytes = 0;
    for offset in (0..bytes).step_by(CHECK_BYTES) {
        let is_first_or_last = offset == 0 || bytes - offset <= CHECK_BYTES as u64;
        if drawn.as_mut().is_some_and(|rng| rng.u64(..SAMPLED_OF) > 0) && !is_first_or_last {
            continue;
        }
        let length = (bytes - offset).min(CHECK_BYTES as u64) as usize;
        let (found, expected) = (&mut found[..length], &mut expected[..length]);
        file.read_exact_at(found, offset)?;
        expect(offset, expected)?;
        if found != expected {
            let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
            return Ok(Err(format!("byte {} is wrong", offset + wrong.unwrap_or(0) as u64)));
        }
        checked_bytes += length as u64;
    }
    Ok(Ok(checked_bytes))
}
