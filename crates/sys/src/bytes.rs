//! Bytes of a mapped file, which other processes may change at any moment.
//!
//! A `&[u8]` promises that nobody writes while it lives, and nobody can promise that for a shared mapping; so these types
//! stay raw pointers, and each method reads a byte once and trusts it no further than "some `u8`". `difference` finds
//! where two runs of bytes differ.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

/// Part of a [`crate::Map`], for reading.
///
/// If the file shrinks, its lost pages read as zeros. Check [`crate::Map::faulted`] before trusting a result.
#[derive(Clone, Copy, Debug)]
pub struct MappedBytes<'a> {
    start: *const u8,
    len: usize,
    map: PhantomData<&'a ()>,
}

// SAFETY: threads only read through it, and it cannot outlive the mapping, which is not tied to a thread. A writer at the
// same time, another process or a `MappedBytesMut`, can change which `u8` is read and nothing else.
unsafe impl Send for MappedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for MappedBytes<'_> {}

impl MappedBytes<'_> {
    /// The `len` bytes from `start`.
    ///
    /// # Safety
    /// They must be part of a mapping that is live, readable and guarded against SIGBUS for all of the lifetime.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        Self {
            start,
            len,
            map: PhantomData,
        }
    }

    /// Their address.
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes in `range`.
    ///
    /// # Panics
    /// Where the range is not within the bytes, as slices do.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is not within {} bytes",
            self.len
        );
        // SAFETY: the range was checked to be within the bytes that `new`'s caller vouched for.
        unsafe { Self::new(self.start.add(range.start), range.len()) }
    }

    /// Copies all bytes into `target`.
    ///
    /// # Panics
    /// Where the lengths differ.
    pub fn copy_to(&self, target: &mut [u8]) {
        assert_eq!(target.len(), self.len, "a copy needs equal lengths");
        // SAFETY: both are valid for `len` bytes (`new`; the slice); they do not overlap, because no `&mut [u8]` is ever
        // made over a mapping of a file.
        unsafe { ptr::copy_nonoverlapping(self.start, target.as_mut_ptr(), self.len) };
    }

    /// Reads one byte of each page, which brings all pages into memory.
    pub fn touch(&self) {
        for offset in (0..self.len).step_by(crate::page_bytes()) {
            // SAFETY: `offset` is less than `len`, within the bytes that `new`'s caller vouched for.
            unsafe { self.start.add(offset).read_volatile() };
        }
    }

    /// How often `byte` occurs.
    #[must_use]
    pub fn count(&self, byte: u8) -> u64 {
        // SAFETY: the range is that of one live, readable mapping (`new`), so `end` is within it or just past it.
        unsafe { count_raw(byte, self.start, self.start.add(self.len)) as u64 }
    }

    /// Adds to each entry of `histogram` how often its byte occurs.
    pub fn histogram(&self, histogram: &mut [u64; 256]) {
        const WORD: usize = size_of::<u64>();
        // One table would stall on runs of one byte, each increment waiting for the last one's store.
        let mut tables = [[0_u64; 256]; 4];
        let words = self.len / WORD;
        for word in 0..words {
            // SAFETY: the word ends at (word + 1) * 8 <= len, within the bytes that `new`'s caller vouched for.
            let bytes = unsafe { self.start.add(word * WORD).cast::<u64>().read_unaligned() }.to_ne_bytes();
            for (n, &byte) in bytes.iter().enumerate() {
                tables[n % 4][usize::from(byte)] += 1;
            }
        }
        for rest in words * WORD..self.len {
            // SAFETY: `rest` is less than `len`.
            let byte = unsafe { self.start.add(rest).read() };
            tables[0][usize::from(byte)] += 1;
        }
        for (byte, count) in histogram.iter_mut().enumerate() {
            *count += tables.iter().map(|table| table[byte]).sum::<u64>();
        }
    }
}

/// A slice is a special case of bytes that may change.
impl<'a> From<&'a [u8]> for MappedBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice is live and readable for its lifetime, and memory of ours raises no SIGBUS.
        unsafe { Self::new(bytes.as_ptr(), bytes.len()) }
    }
}

/// The fastest counting loop of this processor.
///
/// # Safety
/// `start..end` must be a readable range of one mapping.
unsafe fn count_raw(byte: u8, start: *const u8, end: *const u8) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use memchr::arch::x86_64::{avx2, sse2};
        if let Some(counter) = avx2::memchr::One::new(byte) {
            // SAFETY: the caller vouches for the range.
            return unsafe { counter.count_raw(start, end) };
        }
        if let Some(counter) = sse2::memchr::One::new(byte) {
            // SAFETY: the caller vouches for the range.
            return unsafe { counter.count_raw(start, end) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(counter) = memchr::arch::aarch64::neon::memchr::One::new(byte) {
        // SAFETY: the caller vouches for the range.
        return unsafe { counter.count_raw(start, end) };
    }
    // SAFETY: the caller vouches for the range.
    unsafe { memchr::arch::all::memchr::One::new(byte).count_raw(start, end) }
}

/// Part of a [`crate::Map`] made for writing.
///
/// If the file shrinks, writes to its lost pages are discarded; check [`crate::Map::faulted`]. If several threads write
/// one range at the same time, the file may contain bytes of each, as with several processes.
#[derive(Clone, Copy, Debug)]
pub struct MappedBytesMut<'a>(MappedBytes<'a>);

impl MappedBytesMut<'_> {
    /// The `len` bytes from `start`.
    ///
    /// # Safety
    /// They must be part of a mapping that is live, writable and guarded against SIGBUS for all of the lifetime.
    pub(crate) unsafe fn new(start: *mut u8, len: usize) -> Self {
        // SAFETY: the caller vouches for the range; what is writable can be read.
        Self(unsafe { MappedBytes::new(start, len) })
    }

    /// Overwrites all bytes with those of `source`.
    ///
    /// # Panics
    /// Where the lengths differ.
    pub fn copy_from(&self, source: &[u8]) {
        self.copy_from_mapped(MappedBytes::from(source));
    }

    /// Overwrites all bytes with those of another mapping, which may be of the same file.
    ///
    /// # Panics
    /// Where the lengths differ.
    pub fn copy_from_mapped(&self, source: MappedBytes<'_>) {
        assert_eq!(source.len, self.0.len, "a copy needs equal lengths");
        // SAFETY: both are valid for `len` bytes, these for writing (`new`); `copy` allows them to overlap.
        unsafe { ptr::copy(source.start, self.0.start.cast_mut(), self.0.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * n % 251) as u8).collect()
    }

    fn mapped(bytes: &[u8]) -> MappedBytes<'_> {
        // SAFETY: a slice is as good as a mapping, and the lifetime is its own.
        unsafe { MappedBytes::new(bytes.as_ptr(), bytes.len()) }
    }

    #[test]
    fn bytes_count_and_histogram_agree_with_a_plain_loop() {
        for len in [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 4095, 4096, 10_001] {
            let content = sample(len);
            for start in [0, 1, 3].into_iter().filter(|&start| start <= len) {
                let bytes = &content[start..];
                let mut expected = [0_u64; 256];
                for &byte in bytes {
                    expected[usize::from(byte)] += 1;
                }
                let mut histogram = [5; 256];
                mapped(bytes).histogram(&mut histogram);
                let added = histogram.map(|count| count - 5);
                assert_eq!(added, expected, "{len} from {start}");
                let counted: Vec<u64> = (0..=255).map(|byte| mapped(bytes).count(byte)).collect();
                assert_eq!(counted, expected, "{len} from {start}");
            }
        }
    }

    #[test]
    fn slices_and_halves_copy_their_own_bytes() {
        let content = sample(100);
        let high = mapped(&content).slice(30..100);
        let mut bytes = [0; 10];
        high.slice(5..15).copy_to(&mut bytes);
        assert_eq!(bytes, content[35..45]);
        assert!(high.slice(70..70).is_empty());
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn slice_past_the_end_panics() {
        let _ = mapped(&[1, 2, 3]).slice(1..4);
    }

    #[test]
    #[should_panic(expected = "equal lengths")]
    fn copy_to_a_shorter_target_panics() {
        mapped(&[1, 2, 3]).copy_to(&mut [0; 2]);
    }
}
