//! Finding the first difference of two runs of bytes: by the C library's memcmp(3), which uses the processor's widest
//! vectors, and by two loops over bytes, which other programs use and which are here to be measured.

use crate::bytes::MappedBytes;

/// The size of the pieces for memcmp(3). A piece that differs is searched again for the byte.
const PIECE_BYTES: usize = 4096;
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// The first difference of two slices, up to the length of the shorter one, by memcmp(3).
#[must_use]
pub fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let common = one.len().min(other.len());
    MappedBytes::from(&one[..common]).mismatch(&MappedBytes::from(&other[..common]))
}

impl MappedBytes<'_> {
    /// The first byte that differs from `other`'s, by memcmp(3).
    ///
    /// # Panics
    /// If the lengths differ; so do the other two methods.
    #[must_use]
    pub fn mismatch(&self, other: &MappedBytes<'_>) -> Option<usize> {
        self.check(other);
        if self.equals(other, 0, self.len()) {
            return None;
        }
        let pieces = (0..self.len()).step_by(PIECE_BYTES);
        let piece = pieces.map(|start| (start, PIECE_BYTES.min(self.len() - start)));
        // Bytes that change meanwhile may be equal at the second read; then they count as equal.
        piece
            .filter(|&(start, length)| !self.equals(other, start, length))
            .find_map(|(start, length)| (start..start + length).find(|&at| self.byte(at) != other.byte(at)))
    }

    /// The same, by a loop over single bytes.
    #[must_use]
    pub fn mismatch_bytewise(&self, other: &MappedBytes<'_>) -> Option<usize> {
        self.check(other);
        (0..self.len()).find(|&at| self.byte(at) != other.byte(at))
    }

    /// The same, by a loop over single bytes that also counts newlines, as cmp did in 2012. Adds the newlines before
    /// the difference to `newlines`.
    #[must_use]
    pub fn mismatch_linewise(&self, other: &MappedBytes<'_>, newlines: &mut u64) -> Option<usize> {
        self.check(other);
        for at in 0..self.len() {
            let byte = self.byte(at);
            if byte != other.byte(at) {
                return Some(at);
            }
            if byte == b'\n' {
                *newlines += 1;
            }
        }
        None
    }

    /// The first byte that is not zero.
    #[must_use]
    pub fn first_nonzero(&self) -> Option<usize> {
        (0..self.len()).step_by(ZEROS.len()).find_map(|start| {
            let end = (start + ZEROS.len()).min(self.len());
            let zeros = MappedBytes::from(&ZEROS[..end - start]);
            self.slice(start..end).mismatch(&zeros).map(|at| start + at)
        })
    }

    fn check(&self, other: &MappedBytes<'_>) {
        assert_eq!(self.len(), other.len(), "the ranges must have equal lengths");
    }

    fn equals(&self, other: &MappedBytes<'_>, start: usize, length: usize) -> bool {
        debug_assert!(start + length <= self.len() && start + length <= other.len());
        // SAFETY: both ranges are within bytes that are readable for as long as the values live (`MappedBytes::new`);
        // what somebody writes to them meanwhile changes which bytes are seen, and nothing else.
        unsafe { libc::memcmp(self.start().add(start).cast(), other.start().add(start).cast(), length) == 0 }
    }

    /// One byte, read once. Volatile, so that the compiler keeps the loops over bytes.
    fn byte(&self, at: usize) -> u8 {
        debug_assert!(at < self.len());
        // SAFETY: `at` is within the bytes, which are readable for as long as the value lives (`MappedBytes::new`).
        unsafe { self.start().add(at).read_volatile() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(one: &[u8], other: &[u8]) -> (Option<usize>, u64) {
        let found = one.iter().zip(other).position(|(a, b)| a != b);
        let equal = &one[..found.unwrap_or(one.len())];
        (found, equal.iter().map(|&byte| u64::from(byte == b'\n')).sum())
    }

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        for length in [0_usize, 1, 31, 32, 33, 4095, 4096, 4097, 70_000] {
            let one: Vec<u8> = (0..length).map(|n| (n * 7 % 23) as u8).collect();
            let places = [0, 1, 30, 4095, 4096, 65_535, 65_536, length.wrapping_sub(1)];
            let within = places.into_iter().filter(|&place| place < length);
            for place in within.map(Some).chain([None]) {
                let mut other = one.clone();
                if let Some(place) = place {
                    other[place] ^= 0x80;
                    // A second one behind it must not be the answer.
                    *other.last_mut().unwrap() ^= 1;
                }
                let (found, lines) = naive(&one, &other);
                let (a, b) = (MappedBytes::from(&one[..]), MappedBytes::from(&other[..]));
                let mut newlines = 0;
                assert_eq!(a.mismatch(&b), found);
                assert_eq!(first_difference(&one, &other), found);
                let in_half = found.filter(|&at| at < length / 2);
                assert_eq!(first_difference(&one, &other[..length / 2]), in_half);
                assert_eq!(a.mismatch_bytewise(&b), found);
                assert_eq!(a.mismatch_linewise(&b, &mut newlines), found);
                assert_eq!(newlines, lines);
            }
        }
    }

    #[test]
    fn zeros_are_told_from_anything_else() {
        for place in [0, 100, 65_535, 65_536, 199_999] {
            let mut bytes = vec![0; 200_000];
            assert_eq!(MappedBytes::from(&bytes[..]).first_nonzero(), None);
            bytes[place] = 1;
            assert_eq!(MappedBytes::from(&bytes[..]).first_nonzero(), Some(place));
        }
    }

    #[test]
    #[should_panic(expected = "equal lengths")]
    fn unequal_lengths_are_refused() {
        let _ = MappedBytes::from(&[1_u8, 2][..]).mismatch(&MappedBytes::from(&[1_u8][..]));
    }
}
