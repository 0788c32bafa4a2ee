//! The pieces of a batch of updates and the gaps between them, counted by size, and the work of each order that follows
//! from them.

use seekless_method::UpdateOrder;

/// The blocks in which pieces are, counted in the order of the file: pages, in which a page cache writes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockCount {
    count: u64,
    /// How many blocks the file has up to the end of the last piece.
    met: u64,
}

impl BlockCount {
    pub(crate) const BYTES: u64 = 4096;

    /// Counts the blocks of the next piece, which the piece before it is not in.
    pub(crate) fn add(&mut self, offset: u64, length: u64) {
        let first = (offset / Self::BYTES).max(self.met);
        self.met = offset.saturating_add(length).div_ceil(Self::BYTES).max(first);
        self.count += self.met - first;
    }

    /// How many blocks a piece begins or ends in the middle of.
    pub(crate) fn cut(offset: u64, length: u64) -> u64 {
        let [first, last] = [offset, offset + length].map(|at| (at % Self::BYTES > 0).then_some(at / Self::BYTES));
        u64::from(first.is_some()) + u64::from(last.is_some() && last != first)
    }

    /// Their bytes. A device writes at least these, however few bytes change in each.
    pub(crate) fn bytes(&self) -> u64 {
        self.count.saturating_mul(Self::BYTES)
    }
}

/// Calls, and the bytes that they move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateWork {
    /// Calls that write.
    pub writes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Bytes of the blocks of 4 KiB in which bytes are written: a device writes at least these.
    pub written_block_bytes: u64,
    /// Calls that read gaps.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Blocks of 4 KiB that writes without gaps begin or end in: those not in memory are read first.
    pub cut_blocks: u64,
}

/// The number of pieces, and of gaps by size. One pass over millions of updates suffices to judge every order.
#[derive(Debug)]
pub struct Gaps {
    /// How many pieces there are.
    pub(crate) pieces: u64,
    /// Their bytes.
    pub(crate) requested_bytes: u64,
    /// Where the last of them ends.
    pub(crate) end: u64,
    /// The blocks that they are in, and how many of these pieces begin or end in the middle of.
    pub(crate) blocks: BlockCount,
    cut_blocks: u64,
    /// By the number of bits of a gap's size: how many gaps, and their bytes.
    by_bits: Box<[(u64, u64); 65]>,
}

impl Gaps {
    pub(crate) fn none() -> Self {
        Self {
            pieces: 0,
            requested_bytes: 0,
            end: 0,
            blocks: BlockCount::default(),
            cut_blocks: 0,
            by_bits: Box::new([(0, 0); 65]),
        }
    }

    /// Updates of so many bytes each, at equal distances in a file; `None` if they do not fit into it.
    #[cfg(feature = "profile")]
    pub(crate) fn spread(count: u64, bytes: u64, file_bytes: u64) -> Option<Self> {
        let mut gaps = Self::none();
        let distance = file_bytes.checked_div(count)?;
        if bytes == 0 || distance < bytes {
            return None;
        }
        (0..count).for_each(|update| gaps.count(update * distance, bytes));
        Some(gaps)
    }

    /// Counts the next piece, by offset.
    pub(crate) fn count(&mut self, offset: u64, length: u64) {
        if self.pieces > 0 {
            let gap = offset - self.end;
            // A gap that is a power of two counts with the smaller ones.
            let bits = gap.checked_sub(1).map_or(0, |below| 65 - below.leading_zeros());
            let (count, bytes) = &mut self.by_bits[bits.min(64) as usize];
            *count += 1;
            *bytes += gap;
        }
        self.pieces += 1;
        self.requested_bytes += length;
        self.end = offset + length;
        self.blocks.add(offset, length);
        self.cut_blocks += BlockCount::cut(offset, length);
    }

    /// Whether there are gaps of at most this many bytes, as far as sizes are distinguished.
    pub(super) fn has_up_to(&self, bytes: f64) -> bool {
        let largest = |bits: usize| (1_u128 << (bits - 1)) as f64;
        let mut sizes = self.by_bits.iter().enumerate().skip(1);
        sizes.any(|(bits, &(count, _))| count > 0 && largest(bits) <= bytes)
    }

    /// The work of an order in a file of this many bytes, ignoring block boundaries.
    pub(super) fn work(&self, order: UpdateOrder, file_bytes: u64, block_bytes: u64) -> UpdateWork {
        let bits = match order {
            UpdateOrder::Coalesce(0) => 0,
            UpdateOrder::Coalesce(gap_bytes) => gap_bytes.ilog2() as usize + 1,
            _ => 64,
        };
        let joined = self.by_bits[..=bits].iter();
        let (joined, between_bytes) = joined.fold((0, 0_u64), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)));
        let mut written_bytes = self.requested_bytes.saturating_add(between_bytes);
        let mut writes = self.pieces - joined.min(self.pieces);
        if order == UpdateOrder::Rewrite {
            written_bytes = self.end.max(file_bytes);
            writes = 1;
        }
        writes += written_bytes / block_bytes;
        let reads_first = u64::from(written_bytes > self.requested_bytes);
        UpdateWork {
            writes,
            written_bytes,
            written_block_bytes: written_bytes.max(self.blocks.bytes()),
            reads: reads_first * writes,
            read_bytes: reads_first * written_bytes,
            cut_blocks: (1 - reads_first) * self.cut_blocks.min(self.blocks.count),
        }
    }
}
