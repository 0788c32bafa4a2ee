//! Incompressible bytes that can be made again from any offset.
//!
//! Word `i` of the stream is a bijective mix of `seed + i * golden ratio` (`SplitMix64`: Steele, Lea, Flood, "Fast
//! splittable pseudorandom number generators", 2014). It needs no state, so what was written can be checked anywhere,
//! in any order. The lab measures its speed and shows it.

use std::io;

use seekless::Producer;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of incompressible bytes, given by its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
}

impl Generator {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn word(self, index: u64) -> [u8; 8] {
        let mut z = self.seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }

    /// Fills `bytes` with the stream from `offset` on.
    pub fn fill(self, offset: u64, bytes: &mut [u8]) {
        let (mut index, skip) = (offset / 8, (offset % 8) as usize);
        let mut rest = bytes;
        if skip != 0 {
            let (head, tail) = rest.split_at_mut(rest.len().min(8 - skip));
            head.copy_from_slice(&self.word(index)[skip..skip + head.len()]);
            rest = tail;
            index += 1;
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = self.word(index);
            index += 1;
        }
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }
}

impl Producer for Generator {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.fill(offset, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_part_is_the_same_as_in_the_whole(seed: u64, offset in 0u64..5000, length in 0usize..5000) {
            let generator = Generator::new(seed);
            let mut whole = vec![0; 10_000];
            generator.fill(0, &mut whole);
            let mut part = vec![0; length];
            generator.fill(offset, &mut part);
            prop_assert_eq!(&part[..], &whole[offset as usize..offset as usize + length]);
        }
    }
}
