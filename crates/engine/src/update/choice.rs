//! Which order and block are best for updates by the facts: every one is tried on the gaps, counted by size.

use super::commit::Safety;
use super::cost::nanoseconds;
use super::plan::{PlanLimits, UpdateFacts};
use super::resolved::Updates;
use seekless_method::{CachePolicy, Durability, Hint, Method, Options, Platform, Setting, UpdateOrder};

/// The smallest gap that is tried beside none, and the largest, as powers of two.
const GAP_BITS: std::ops::RangeInclusive<u32> = 5..=20;
/// The same where the file has holes: shorter than a block of any file system, so that no block is written that no update
/// touches.
const GAP_BITS_BESIDE_HOLES: std::ops::RangeInclusive<u32> = 5..=11;
/// What is written at once where each call waits for the device, and else.
const THROUGH_BLOCKS: &[u64] = &[512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];
const BLOCKS: &[u64] = &[1 << 20];
/// Nanoseconds of a byte of the buffer at its first touch: 18 GB/s by huge pages.
const TOUCH_BYTE_NS: f64 = 0.06;
/// Nanoseconds of a byte of the first block that is not in memory: nothing is written until it is read, and only the blocks
/// behind it are read ahead meanwhile. It lies between file systems, and nearer to btrfs, since the others pass the page
/// cache by then. Cold, 4 MB in blocks of 512K, 1M, 2M and 8M took 16.3, 12.4, 10.5 and 9.9 ms on btrfs, where each wait costs
/// more, and 6.2, 6.5, 8.1 and 9.3 ms on ext4; 40 MB in blocks of 1M, 4M, 8M and 16M took 124, 93, 87 and 86 ms on btrfs.
const ABSENT_BYTE_NS: f64 = 0.1;
/// Where less than this part of the file is in memory, reading it in costs more than what is in there saves.
const DIRECT_FROM_ABSENT: f64 = 0.9;
/// What is read and written at once past the page cache: with huge pages 4 MB took 2.7 ms in one piece, 3.0 in four.
const DIRECT_BLOCK_BYTES: u64 = 8 << 20;
/// Writes that are shorter on average are waited for more than transferred, so that their reads are worth a hint.
const SHORT_BYTES: u64 = 128 << 10;

/// What calls, flushes and bytes cost, in nanoseconds.
pub(super) struct Costs {
    call: f64,
    flush: f64,
    byte: f64,
}

/// A flash disk that need not flush, behind a slow link.
pub(super) const DEAR_BYTES: Costs = Costs {
    call: 300.0,
    flush: 20_000.0,
    byte: 8.0,
};
/// A turning disk.
pub(super) const DEAR_CALLS: Costs = Costs {
    call: 20_000.0,
    flush: 20e6,
    byte: 0.1,
};
/// A virtual disk, in between.
pub(super) const USUAL: Costs = Costs {
    call: 2_000.0,
    flush: 200_000.0,
    byte: 1.0,
};

impl Costs {
    pub fn on(&self, facts: &UpdateFacts) -> UpdateFacts {
        UpdateFacts {
            write_call_ns: self.call,
            write_byte_ns: self.byte,
            flush_ns: self.flush,
            read_call_ns: self.call,
            read_byte_ns: self.byte,
            ..*facts
        }
    }
}

/// The best order and block.
pub(super) struct Choice {
    pub order: UpdateOrder,
    block_bytes: u64,
    /// Writes, as far as gaps tell, and their bytes.
    writes: u64,
    written_bytes: u64,
    /// Whether the bound on the amplification ruled out a better one.
    is_bounded: bool,
}

impl Choice {
    pub fn of(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Self {
        let mut best = (Self::nothing(), f64::MAX);
        // The best of those that the bound rules out.
        let mut ruled_out = f64::MAX;
        for order in orders(facts.has_holes) {
            let exact = !order.fills_gaps();
            if limits.is_exact && !exact {
                continue;
            }
            for &block_bytes in blocks(limits.durability) {
                let estimate = updates.gaps.estimate(order, updates, facts, block_bytes);
                let first_bytes = block_bytes.min(updates.end());
                let first = first_bytes as f64 * (TOUCH_BYTE_NS + facts.absent_part * ABSENT_BYTE_NS);
                let nanoseconds = nanoseconds(&estimate, facts, limits.durability) + first;
                let amplification = estimate.written_bytes as f64 / updates.requested_bytes().max(1) as f64;
                if !exact && limits.amplification_max.is_some_and(|most| amplification > most) {
                    ruled_out = ruled_out.min(nanoseconds);
                } else if nanoseconds < best.1 {
                    let choice = Self {
                        order,
                        block_bytes,
                        writes: estimate.writes,
                        written_bytes: estimate.written_bytes,
                        ..Self::nothing()
                    };
                    best = (choice, nanoseconds);
                }
            }
        }
        Self {
            is_bounded: ruled_out < best.1,
            ..best.0
        }
    }

    fn nothing() -> Self {
        Self {
            order: UpdateOrder::Coalesce(0),
            block_bytes: BLOCKS[0],
            writes: 0,
            written_bytes: 0,
            is_bounded: false,
        }
    }

    /// Whether the page cache is passed by: where it holds next to nothing of the file, and the file's end is not touched,
    /// for which a longer one would be on the device for a moment.
    fn is_direct(&self, updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> bool {
        let Some(alignment) = facts.direct_alignment.filter(|_| limits.safety == Safety::InPlace) else {
            return false;
        };
        let end = match self.order {
            UpdateOrder::Rewrite => updates.end().max(facts.file_bytes),
            _ => updates.end(),
        };
        facts.absent_part >= DIRECT_FROM_ABSENT
            && limits.durability != Durability::None
            && self.order.fills_gaps()
            && self.written_bytes / self.writes.max(1) >= SHORT_BYTES
            && end.next_multiple_of(alignment) <= facts.file_bytes
    }

    pub fn method(&self, updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Method {
        if self.is_direct(updates, facts, limits) {
            let plain = Method::known("update/sync");
            let options = Options::default()
                .with(CachePolicy::Direct)
                .with(Setting::block_bytes(DIRECT_BLOCK_BYTES));
            let options = options.with(self.order).with(limits.durability);
            return Method::new(plain.mechanism(), options).unwrap_or(plain);
        }
        self.method_through_cache(facts, limits)
    }

    pub fn method_through_cache(&self, facts: &UpdateFacts, limits: &PlanLimits) -> Method {
        let plain = Method::known("update/sync");
        let is_scattered = self.writes > 1 && self.written_bytes / self.writes < SHORT_BYTES;
        let hint = if Platform::HERE == Platform::Linux && facts.absent_part > 0.01 && is_scattered {
            Hint::WillNeed
        } else {
            Hint::None
        };
        let options = Options::default()
            .with(Setting::block_bytes(self.block_bytes))
            .with(hint);
        let options = options.with(self.order).with(limits.durability);
        Method::new(plain.mechanism(), options).unwrap_or(plain)
    }

    /// What forbids to write what lies between updates.
    pub fn restriction(&self, facts: &UpdateFacts, limits: &PlanLimits) -> Option<&'static str> {
        match () {
            () if limits.is_exact => Some("only what updates name may be written"),
            () if facts.has_holes => Some("no more than what updates touch may be written, as the file has holes"),
            () if self.is_bounded => {
                Some("the bound on the amplification leaves no room for what lies between updates")
            }
            () => None,
        }
    }

    pub fn why(&self, method: &Method, updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> String {
        let flush_ns = match limits.durability {
            Durability::WriteThrough => facts.flush_ns,
            Durability::None | Durability::Fsync => 0.0,
        };
        let call = (facts.write_call_ns + flush_ns) / 1e3;
        let worth = (facts.write_call_ns + flush_ns) / (facts.write_byte_ns + facts.read_byte_ns).max(1e-3);
        let measured = format!("a write costs {call:.1} µs here, as much as {worth:.0} bytes more");
        let rest = match self.order {
            UpdateOrder::Rewrite => "so the whole file is written at once".to_owned(),
            UpdateOrder::Coalesce(1..) => "so neighbours up to the gap share one".to_owned(),
            _ => match self.restriction(facts, limits) {
                Some(restriction) => format!("but {restriction}"),
                None if updates.gaps.has_up_to(worth) => {
                    "but reading what lies between updates would take longer than fewer writes save".to_owned()
                }
                None => "so nothing between updates is written".to_owned(),
            },
        };
        let bounded = if self.is_bounded && self.order.fills_gaps() {
            "; without the bound on the amplification more would be written at once"
        } else {
            ""
        };
        format!("{measured}, {rest}{bounded}{}", past_cache(method))
    }
}

/// What is said of a method that passes the page cache by.
pub(super) fn past_cache(method: &Method) -> &'static str {
    match method.options().cache() {
        CachePolicy::Direct => "; past the page cache, which holds next to nothing of the file",
        _ => "",
    }
}

fn orders(has_holes: bool) -> impl Iterator<Item = UpdateOrder> {
    let bits = if has_holes { GAP_BITS_BESIDE_HOLES } else { GAP_BITS };
    let gaps = bits.map(|bits| UpdateOrder::Coalesce(1 << bits));
    std::iter::once(UpdateOrder::Coalesce(0))
        .chain(gaps)
        .chain((!has_holes).then_some(UpdateOrder::Rewrite))
}

fn blocks(durability: Durability) -> &'static [u64] {
    match durability {
        Durability::WriteThrough => THROUGH_BLOCKS,
        Durability::Fsync | Durability::None => BLOCKS,
    }
}
