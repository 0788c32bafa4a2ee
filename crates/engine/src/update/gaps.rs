//! The gaps between updates, counted by size, and what follows from them for every order.

use std::time::Duration;

use super::cost::UpdateCost;
use super::plan::UpdateFacts;
use super::resolved::Updates;
use seekless_method::UpdateOrder;

/// How many gaps between updates are of which size: enough to judge every order in one pass over millions of them.
#[derive(Debug)]
pub(super) struct Gaps {
    /// By the number of bits of the gap: how many, and their bytes.
    by_bits: Box<[(u64, u64); 65]>,
}

impl Gaps {
    pub fn none() -> Self {
        Self {
            by_bits: Box::new([(0, 0); 65]),
        }
    }

    pub fn count(&mut self, gap: u64) {
        // One that is a power of two belongs to those up to it.
        let bits = (64 - gap.saturating_sub(1).leading_zeros()) as usize;
        let bits = if gap == 0 { 0 } else { bits + 1 };
        self.by_bits[bits.min(64)].0 += 1;
        self.by_bits[bits.min(64)].1 += gap;
    }

    /// Whether there are gaps of no more than so many bytes, as far as sizes are told apart.
    pub fn has_up_to(&self, bytes: f64) -> bool {
        let largest = |bits: usize| (1_u128 << (bits - 1)) as f64;
        let mut sizes = self.by_bits.iter().enumerate().skip(1);
        sizes.any(|(bits, &(count, _))| count > 0 && largest(bits) <= bytes)
    }

    /// What an order costs, but for where its blocks end.
    pub fn estimate(&self, order: UpdateOrder, updates: &Updates, facts: &UpdateFacts, block_bytes: u64) -> UpdateCost {
        let bits = match order {
            UpdateOrder::Coalesce(0) => 0,
            UpdateOrder::Coalesce(gap_bytes) => gap_bytes.ilog2() as usize + 1,
            _ => 64,
        };
        let joined = self.by_bits[..=bits].iter();
        let (joined, between_bytes) = joined.fold((0, 0_u64), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)));
        let mut written_bytes = updates.requested_bytes().saturating_add(between_bytes);
        let mut writes = updates.pieces - joined.min(updates.pieces);
        if order == UpdateOrder::Rewrite {
            written_bytes = updates.end().max(facts.file_bytes);
            writes = 1;
        }
        writes += written_bytes / block_bytes;
        let (reads, read_bytes) = if written_bytes > updates.requested_bytes() {
            (writes, written_bytes)
        } else {
            (0, 0)
        };
        UpdateCost {
            writes,
            reads,
            requested_bytes: updates.requested_bytes(),
            written_bytes,
            safety_bytes: 0,
            read_bytes,
            predicted: Duration::ZERO,
        }
    }
}
