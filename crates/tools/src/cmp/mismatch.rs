//! Where two pieces of memory differ first.

/// Compared as a whole first, by the widest vectors that the C library's memcmp has for this processor.
const PIECE_BYTES: usize = 4096;
const WORD_BYTES: usize = size_of::<u64>();

/// The first index at which `one` and `other`, of equal lengths, differ.
pub(super) fn mismatch(one: &[u8], other: &[u8]) -> Option<usize> {
    let pieces = one.chunks(PIECE_BYTES).zip(other.chunks(PIECE_BYTES));
    let (number, (one, other)) = pieces.enumerate().find(|(_, (one, other))| one != other)?;
    Some(number * PIECE_BYTES + within_piece(one, other)?)
}

fn within_piece(one: &[u8], other: &[u8]) -> Option<usize> {
    let words = one.chunks_exact(WORD_BYTES).zip(other.chunks_exact(WORD_BYTES));
    for (number, (one, other)) in words.enumerate() {
        let difference = word(one) ^ word(other);
        if difference != 0 {
            return Some(number * WORD_BYTES + difference.trailing_zeros() as usize / 8);
        }
    }
    let start = one.len() / WORD_BYTES * WORD_BYTES;
    let rest = one[start..]
        .iter()
        .zip(&other[start..])
        .position(|(one, other)| one != other);
    rest.map(|index| start + index)
}

/// Eight bytes as a number whose lowest byte is the first.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_loop(
            len in prop_oneof![0..40_usize, 4088..4105_usize, 12_280..12_300_usize],
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), 1..=255_u8), 0..3),
        ) {
            let one: Vec<u8> = (0..len).map(|n| (n * n % 251) as u8).collect();
            let mut other = one.clone();
            for (index, change) in changes {
                if len > 0 {
                    other[index.index(len)] ^= change;
                }
            }
            let naive = (0..len).find(|&index| one[index] != other[index]);
            prop_assert_eq!(mismatch(&one, &other), naive);
        }
    }
}
