//! Blocks of a file in random order, drawn outside the clock, or blocks to append; and the latency of each request.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use seekless_method::AccessPattern;

use super::Destination;

/// The seed of the order if none was drawn.
const SEED: u64 = 0x5eed;

/// Blocks of a file in random order, each at most once, or blocks to append to a new file; and the latency of each
/// request.
#[derive(Debug)]
pub struct Visits {
    pub(super) access: AccessPattern,
    pub(super) file_bytes: u64,
    pub(super) block_bytes: u64,
    /// Per cent of the blocks that are read where others are written, and the seed by which they are drawn.
    reads: (u32, u64),
    offsets: Vec<u64>,
    /// Requests that are done.
    done: AtomicUsize,
    /// Nanoseconds of each of these, times two, plus one for those that read where others write.
    latencies: Vec<AtomicU64>,
}

impl Visits {
    /// Draws at most this many blocks of a file by a seed. Each takes 16 bytes of memory.
    #[must_use]
    pub fn draw(file_bytes: u64, block_bytes: u64, at_most: u32, seed: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let blocks = Shuffled::new(file_bytes.div_ceil(block_bytes), seed).take(at_most as usize);
        let offsets = blocks.map(|block| block * block_bytes).collect();
        Self::of(AccessPattern::Random, offsets, file_bytes, block_bytes)
    }

    /// The same; about this many per cent of the blocks, drawn by the seed, are read where others are written.
    #[must_use]
    pub fn mixed(mut self, reads_percent: u32, seed: u64) -> Self {
        self.reads = (reads_percent, seed);
        self
    }

    /// The blocks of a new file of this size, one after the other. Each takes 16 bytes of memory.
    #[must_use]
    pub fn appends(file_bytes: u64, block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let offsets = (0..file_bytes).step_by(block_bytes as usize).collect();
        Self::of(AccessPattern::Sequential, offsets, file_bytes, block_bytes)
    }

    fn of(access: AccessPattern, offsets: Vec<u64>, file_bytes: u64, block_bytes: u64) -> Self {
        Self {
            access,
            file_bytes,
            block_bytes,
            reads: (0, 0),
            done: AtomicUsize::new(0),
            // Touches the memory, so that it is not touched for the first time inside the clock.
            latencies: offsets.iter().map(|&offset| AtomicU64::new(offset)).collect(),
            offsets,
        }
    }

    /// Whether the block at an offset is read where others are written.
    pub(super) fn is_read(&self, offset: u64) -> bool {
        let (percent, seed) = self.reads;
        percent > 0 && mixed(offset ^ seed) % 100 < u64::from(percent)
    }

    /// The ranges that are not read where others are written.
    pub fn written(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges().filter(|range| !self.is_read(range.start))
    }

    /// The ranges of the file, in the order in which they are visited.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let end = |start: u64| start.saturating_add(self.block_bytes).min(self.file_bytes);
        self.offsets.iter().map(move |&start| start..end(start))
    }

    /// Bytes of all blocks together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|range| range.end - range.start).sum()
    }

    /// Nanoseconds from asking for a block to having it, for each request of the last reading or writing, in the order in
    /// which they were done. Reads where others write are in [`Visits::read_latencies_ns`].
    #[must_use]
    pub fn latencies_ns(&self) -> Vec<u64> {
        self.latencies_of(0)
    }

    /// The same of the blocks that were read where others were written.
    #[must_use]
    pub fn read_latencies_ns(&self) -> Vec<u64> {
        self.latencies_of(1)
    }

    fn latencies_of(&self, mark: u64) -> Vec<u64> {
        let done = self.done.load(Ordering::Relaxed);
        let latencies = self.latencies.iter().take(done);
        let latencies = latencies.map(|latency| latency.load(Ordering::Relaxed));
        latencies
            .filter(|latency| latency & 1 == mark)
            .map(|latency| latency >> 1)
            .collect()
    }

    /// Whether the file is new.
    pub(crate) fn destination(&self) -> Destination {
        match self.access {
            AccessPattern::Random => Destination::Overwrite,
            AccessPattern::Sequential => Destination::New,
        }
    }

    /// Forgets the latencies of the last reading or writing.
    pub(super) fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// `#[cold]`, so that it costs nothing if requests are not timed.
    #[cold]
    pub(super) fn took(&self, offset: u64, started: Instant) {
        let nanoseconds = (started.elapsed().as_nanos() as u64) << 1 | u64::from(self.is_read(offset));
        if let Some(latency) = self.latencies.get(self.done.fetch_add(1, Ordering::Relaxed)) {
            latency.store(nanoseconds, Ordering::Relaxed);
        }
    }
}

/// The numbers below a count, each once, in an order that a seed gives. It keeps no list: a Feistel network permutes the
/// numbers below a power of four, and those that are not below the count are skipped (Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002).
struct Shuffled {
    numbers: Range<u64>,
    keys: [u64; 4],
    half_bits: u32,
}

impl Shuffled {
    fn new(count: u64, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self {
            numbers: 0..count,
            keys: std::array::from_fn(|_| rng.u64(..)),
            half_bits: bits.div_ceil(2).max(1),
        }
    }

    fn permuted(&self, number: u64) -> u64 {
        let half = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & half);
        for key in self.keys {
            (left, right) = (right, (left ^ mixed(right ^ key)) & half);
        }
        left << self.half_bits | right
    }
}

/// The mixing of `SplitMix64`.
fn mixed(bits: u64) -> u64 {
    let mut mixed = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Iterator for Shuffled {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let next = self.numbers.next()?;
        let mut number = self.permuted(next);
        while number >= self.numbers.end {
            number = self.permuted(number);
        }
        Some(number)
    }
}

/// The blocks of a range, in the order in which they are moved.
pub(crate) struct Blocks<'a> {
    order: Order<'a>,
    left: Range<u64>,
    block_bytes: usize,
}

enum Order<'a> {
    Sequential,
    Drawn(std::slice::Iter<'a, u64>),
    Shuffled(Shuffled),
}

impl<'a> Blocks<'a> {
    /// The blocks of a range, from its start to its end or as they were drawn.
    pub fn new(visits: Option<&'a Visits>, access: AccessPattern, block_bytes: usize, range: Range<u64>) -> Self {
        let shuffled = || Shuffled::new((range.end - range.start).div_ceil(block_bytes.max(1) as u64), SEED);
        Self {
            order: match (visits, access) {
                (Some(visits), _) => Order::Drawn(visits.offsets.iter()),
                (None, AccessPattern::Sequential) => Order::Sequential,
                (None, AccessPattern::Random) => Order::Shuffled(shuffled()),
            },
            left: range,
            block_bytes,
        }
    }
}

impl Iterator for Blocks<'_> {
    type Item = (u64, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let offset = match &mut self.order {
            Order::Sequential => {
                let offset = self.left.start;
                if self.left.is_empty() {
                    return None;
                }
                self.left.start += (self.block_bytes as u64).min(self.left.end - offset);
                offset
            }
            Order::Drawn(offsets) => *offsets.next()?,
            Order::Shuffled(blocks) => self.left.start + blocks.next()? * self.block_bytes as u64,
        };
        Some((offset, (self.block_bytes as u64).min(self.left.end - offset) as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shuffled_numbers_are_each_once_and_as_many_follow_upwards_as_downwards() {
        for count in [0, 1, 2, 3, 4, 5, 15, 16, 17, 1000, 1 << 16] {
            let shuffled: Vec<u64> = Shuffled::new(count, 7).collect();
            let mut sorted = shuffled.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            if count >= 1000 {
                let part = |is_so: fn(u64, u64) -> bool| {
                    let pairs = shuffled.windows(2).filter(|pair| is_so(pair[0], pair[1]));
                    pairs.count() as f64 / count as f64
                };
                assert!((0.45..0.55).contains(&part(|one, next| one < next)));
                assert!(part(|one, next| next == one + 1) < 0.01);
                // Far enough apart: a third of the numbers on the mean.
                let mean = |pair: &[u64]| pair[0].abs_diff(pair[1]) as f64 / count as f64;
                let distance = shuffled.windows(2).map(mean).sum::<f64>() / count as f64;
                assert!((0.3..0.37).contains(&distance), "{distance}");
            }
        }
        let many: std::collections::BTreeSet<u64> = Shuffled::new(u64::MAX, 1).take(1000).collect();
        assert_eq!(many.len(), 1000);
    }

    proptest! {
        #[test]
        fn each_block_comes_at_most_once_and_a_seed_gives_the_same_again(
            file_bytes in 0u64..100_000, block_bytes in 1u64..9000, at_most in 0u32..200, seed: u64,
        ) {
            let draw = || Visits::draw(file_bytes, block_bytes, at_most, seed);
            let ranges: Vec<_> = draw().ranges().collect();
            prop_assert_eq!(ranges.len() as u64, u64::from(at_most).min(file_bytes.div_ceil(block_bytes)));
            prop_assert!(ranges.iter().all(|range| range.start % block_bytes == 0 && range.start < range.end));
            prop_assert!(ranges.iter().all(|range| range.end == file_bytes || range.end - range.start == block_bytes));
            let distinct: std::collections::BTreeSet<u64> = ranges.iter().map(|range| range.start).collect();
            prop_assert_eq!(distinct.len(), ranges.len());
            prop_assert_eq!(draw().ranges().collect::<Vec<_>>(), ranges);
        }
    }
}
