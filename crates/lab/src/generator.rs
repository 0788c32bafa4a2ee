//! Incompressible bytes that can be generated again from any offset, at the speed of memory.
//!
//! A block is drawn once, outside the measurement (`SplitMix64`: Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014). Each piece of the stream is that block combined with a word of its own: one load, one exclusive or and
//! one store for each word, from the first-level cache. No eight bytes occur twice, so nothing below can compress or
//! de-duplicate the stream. Any part of it can be checked, in any order. The lab measures and shows its speed.

use std::io;

use seekless_engine::Producer;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes of the block.
const PIECE_BYTES: usize = 4096;
const PIECE_WORDS: u64 = PIECE_BYTES as u64 / 8;

/// A stream of incompressible bytes, given by its seed.
#[derive(Clone, Debug)]
pub struct Generator {
    seed: u64,
    block: Box<[u8]>,
}

impl Generator {
    /// The stream of a seed, with its block drawn.
    pub fn new(seed: u64) -> Self {
        let words = (0..PIECE_WORDS).flat_map(|index| drawn(seed, index));
        Self {
            seed,
            block: words.collect(),
        }
    }

    /// Fills `bytes` with the stream from `offset` on.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let (mut index, mut start) = (offset / PIECE_BYTES as u64, (offset % PIECE_BYTES as u64) as usize);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at_mut(rest.len().min(PIECE_BYTES - start));
            self.fill_piece(index, start, piece);
            (index, start, rest) = (index + 1, 0, tail);
        }
    }

    /// Fills `bytes` with piece `index` from its byte `start` on.
    fn fill_piece(&self, index: u64, start: usize, bytes: &mut [u8]) {
        // Drawn behind the words of the block.
        let mut key = drawn(self.seed, PIECE_WORDS.wrapping_add(index));
        key.rotate_left(start % 8);
        let (words, tail) = bytes.as_chunks_mut::<8>();
        let (block, block_tail) = self.block[start..][..words.len() * 8 + tail.len()].as_chunks::<8>();
        for (word, from) in words.iter_mut().zip(block) {
            *word = (u64::from_ne_bytes(*from) ^ u64::from_ne_bytes(key)).to_ne_bytes();
        }
        for ((byte, from), key) in tail.iter_mut().zip(block_tail).zip(key) {
            *byte = from ^ key;
        }
    }
}

/// The bytes of word `index` that a seed draws.
fn drawn(seed: u64, index: u64) -> [u8; 8] {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

impl Producer for Generator {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.fill(offset, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn generator_repeats_no_word_and_seeds_share_none() {
        let mut stream = vec![0; if crate::is_long() { 1 << 20 } else { 1 << 18 }];
        Generator::new(7).fill(0, &mut stream);
        let eights: HashSet<&[u8]> = stream.windows(8).collect();
        assert_eq!(eights.len(), stream.len() - 7, "a compressor would find these");
        let mut counts = [0_u32; 256];
        for &byte in &stream {
            counts[usize::from(byte)] += 1;
        }
        // The deviation is the root of the mean.
        let mean = stream.len() as f64 / 256.0;
        let are_usual = counts
            .iter()
            .all(|&count| (f64::from(count) - mean).abs() < 6.0 * mean.sqrt());
        assert!(are_usual, "{counts:?}");
        let words = |seed| {
            let mut stream = vec![0; 1 << 18];
            Generator::new(seed).fill(0, &mut stream);
            stream.as_chunks::<8>().0.to_vec()
        };
        let one: HashSet<[u8; 8]> = words(1).into_iter().collect();
        assert!(words(2).iter().all(|word| !one.contains(word)));
    }

    proptest! {
        #[test]
        fn any_part_is_the_same_as_in_the_whole(seed: u64, offset in 0u64..10_000, length in 0usize..10_000) {
            let generator = Generator::new(seed);
            let mut whole = vec![0; 20_000];
            generator.fill(0, &mut whole);
            let mut part = vec![0; length];
            generator.fill(offset, &mut part);
            prop_assert_eq!(&part[..], &whole[offset as usize..offset as usize + length]);
        }
    }
}
