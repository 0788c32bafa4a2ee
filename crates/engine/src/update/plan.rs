//! In which order, and with which gap, updates are best written: pure functions from measured costs to a method and the
//! time it will take. No I/O here; the costs are measured by `update::facts`.
//!
//! A call that writes is like a remote call: it costs more than the bytes it carries, so neighbours share one until the
//! bytes between them cost more than the call they save.

use std::time::Duration;

use super::batch::Updates;
use super::writes::{Layout, Writes};
use crate::method::{Durability, Method, Options, UpdateOrder};

/// What writing costs on a storage with the wished durability, and the file's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateFacts {
    /// Nanoseconds of a call that writes, but for its bytes.
    pub write_call_ns: f64,
    /// Nanoseconds of a byte written.
    pub write_byte_ns: f64,
    /// Nanoseconds of bringing a few bytes to the device: a flush, or what writing through adds to a call.
    pub flush_ns: f64,
    /// Nanoseconds of a call that reads, but for its bytes.
    pub read_call_ns: f64,
    /// Nanoseconds of a byte read.
    pub read_byte_ns: f64,
    /// The file's size in bytes.
    pub file_bytes: u64,
}

impl UpdateFacts {
    /// What is taken where nothing can be measured: a disk that answers in a millisecond.
    #[must_use]
    pub fn assumed(file_bytes: u64, durability: Durability) -> Self {
        Self {
            write_call_ns: 2_000.0,
            write_byte_ns: 1.0,
            flush_ns: if durability == Durability::None { 0.0 } else { 1e6 },
            read_call_ns: 2_000.0,
            read_byte_ns: 1.0,
            file_bytes,
        }
    }
}

/// What a plan has to keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanLimits {
    /// What is on the device in the end.
    pub durability: Durability,
    /// The most bytes written for each byte that updates name.
    pub amplification_max: Option<f64>,
    /// Whether only bytes may be written that updates name.
    pub is_exact: bool,
}

/// What a method makes of updates, and the time that follows from the facts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateCost {
    /// Calls that write.
    pub writes: u64,
    /// Calls that read what lies between updates.
    pub reads: u64,
    /// Bytes that updates name, each once.
    pub requested_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// What it will take.
    pub predicted: Duration,
}

impl UpdateCost {
    /// Bytes written for each byte that updates name: what flash wears by.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.written_bytes as f64 / self.requested_bytes.max(1) as f64
    }
}

/// A method for a batch, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    /// The method to use.
    pub method: Method,
    /// What it will cost.
    pub cost: UpdateCost,
    /// Why, for people.
    pub why: String,
}

/// The smallest gap that is tried beside none, and the largest, as powers of two.
const GAP_BITS: std::ops::RangeInclusive<u32> = 5..=20;
/// What is written at once where each call waits for the device.
const THROUGH_BLOCK_BYTES: u64 = 8 << 20;
const BLOCK_BYTES: u64 = 1 << 20;
/// What every update pays without being asked for: a write of its own, in the order given.
const NAIVE: &str = "update/sync,order=as-given";

/// The method that will be fastest by the facts, within the limits.
#[must_use]
pub fn plan(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> UpdatePlan {
    let gaps = Gaps::of(updates);
    let block_bytes = match limits.durability {
        Durability::WriteThrough => THROUGH_BLOCK_BYTES,
        Durability::Fsync | Durability::None => BLOCK_BYTES,
    };
    let mut best = (UpdateOrder::Coalesce(0), f64::MAX);
    let mut is_bounded = false;
    for order in orders() {
        let estimate = gaps.estimate(order, updates, facts, block_bytes);
        let amplification = estimate.written_bytes as f64 / updates.requested_bytes().max(1) as f64;
        let exact = !order.fills_gaps();
        if limits.is_exact && !exact {
            continue;
        }
        let nanoseconds = nanoseconds(&estimate, facts, limits.durability);
        if !exact && limits.amplification_max.is_some_and(|most| amplification > most) {
            is_bounded |= nanoseconds < best.1;
        } else if nanoseconds < best.1 {
            best = (order, nanoseconds);
        }
    }
    let method = method(best.0, block_bytes, limits.durability);
    UpdatePlan {
        method,
        cost: cost(updates, facts, &method),
        why: why(best.0, facts, limits, is_bounded),
    }
}

/// What a method costs by the facts.
#[must_use]
pub fn cost(updates: &Updates, facts: &UpdateFacts, method: &Method) -> UpdateCost {
    let options = method.options();
    let order = match options.update_order {
        // As many writes, without sorting back into the order given.
        None | Some(UpdateOrder::AsGiven) => UpdateOrder::Ascending,
        Some(order) => order,
    };
    let layout = Layout {
        order,
        block_bytes: options.block_bytes.unwrap_or(1 << 30),
        alignment: 1,
        end: updates.end().max(facts.file_bytes),
    };
    let mut cost = UpdateCost {
        writes: 0,
        reads: 0,
        requested_bytes: updates.requested_bytes(),
        written_bytes: 0,
        read_bytes: 0,
        predicted: Duration::ZERO,
    };
    for write in Writes::new(updates, layout) {
        cost.writes += 1;
        cost.written_bytes += write.length;
        if write.has_gaps() {
            cost.reads += 1;
            cost.read_bytes += write.length;
        }
    }
    let nanoseconds = nanoseconds(&cost, facts, options.durability);
    cost.predicted = Duration::try_from_secs_f64(nanoseconds / 1e9).unwrap_or(Duration::MAX);
    cost
}

/// What the batch costs when every update is a write of its own, in the order given.
#[must_use]
pub fn naive(updates: &Updates, facts: &UpdateFacts, durability: Durability) -> (Method, UpdateCost) {
    let plain = Method::known(NAIVE);
    let options = Options {
        durability,
        ..*plain.options()
    };
    let method = Method::new(plain.mechanism(), options).unwrap_or(plain);
    let cost = cost(updates, facts, &method);
    (method, cost)
}

fn orders() -> impl Iterator<Item = UpdateOrder> {
    let gaps = GAP_BITS.map(|bits| UpdateOrder::Coalesce(1 << bits));
    std::iter::once(UpdateOrder::Coalesce(0))
        .chain(gaps)
        .chain(std::iter::once(UpdateOrder::Rewrite))
}

fn method(order: UpdateOrder, block_bytes: u64, durability: Durability) -> Method {
    let plain = Method::known("update/sync");
    let options = Options {
        block_bytes: Some(block_bytes),
        update_order: Some(order),
        durability,
        ..*plain.options()
    };
    Method::new(plain.mechanism(), options).unwrap_or(plain)
}

fn nanoseconds(cost: &UpdateCost, facts: &UpdateFacts, durability: Durability) -> f64 {
    let flushes = match durability {
        Durability::None => 0,
        Durability::Fsync => 1,
        Durability::WriteThrough => cost.writes,
    };
    cost.writes as f64 * facts.write_call_ns
        + cost.written_bytes as f64 * facts.write_byte_ns
        + cost.reads as f64 * facts.read_call_ns
        + cost.read_bytes as f64 * facts.read_byte_ns
        + flushes as f64 * facts.flush_ns
}

/// How many gaps between updates are of which size: enough to judge every order in one pass over millions of them.
struct Gaps {
    /// By the number of bits of the gap: how many, and their bytes.
    by_bits: [(u64, u64); 65],
}

impl Gaps {
    fn of(updates: &Updates) -> Self {
        let mut by_bits = [(0, 0); 65];
        for two in updates.pieces.windows(2) {
            let gap = two[1].offset - two[0].end();
            // One that is a power of two belongs to those up to it.
            let bits = (64 - gap.saturating_sub(1).leading_zeros()) as usize;
            let bits = if gap == 0 { 0 } else { bits + 1 };
            by_bits[bits.min(64)].0 += 1;
            by_bits[bits.min(64)].1 += gap;
        }
        Self { by_bits }
    }

    /// What an order costs, but for where its blocks end.
    fn estimate(&self, order: UpdateOrder, updates: &Updates, facts: &UpdateFacts, block_bytes: u64) -> UpdateCost {
        let bits = match order {
            UpdateOrder::Coalesce(0) => 0,
            UpdateOrder::Coalesce(gap_bytes) => gap_bytes.ilog2() as usize + 1,
            _ => 64,
        };
        let joined = self.by_bits[..=bits].iter();
        let (joined, between_bytes) = joined.fold((0, 0_u64), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)));
        let mut written_bytes = updates.requested_bytes().saturating_add(between_bytes);
        let mut writes = updates.pieces.len() as u64 - joined.min(updates.pieces.len() as u64);
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
            read_bytes,
            predicted: Duration::ZERO,
        }
    }
}

fn why(order: UpdateOrder, facts: &UpdateFacts, limits: &PlanLimits, is_bounded: bool) -> String {
    let flush_ns = match limits.durability {
        Durability::WriteThrough => facts.flush_ns,
        Durability::None | Durability::Fsync => 0.0,
    };
    let call = (facts.write_call_ns + flush_ns) / 1e3;
    let worth = (facts.write_call_ns + flush_ns) / (facts.write_byte_ns + facts.read_byte_ns).max(1e-3);
    let measured = format!("a write costs {call:.1} µs here, as much as {worth:.0} bytes more");
    let rest = match order {
        UpdateOrder::Rewrite => "so the whole file is written at once",
        UpdateOrder::Coalesce(1..) => "so neighbours up to the gap share one",
        _ if limits.is_exact => "and only what updates name may be written",
        _ => "so nothing between updates is written",
    };
    let bounded = if is_bounded {
        "; without the bound on the amplification more would be written at once"
    } else {
        ""
    };
    format!("{measured}, {rest}{bounded}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::Batch;

    /// Roughly those of a virtual disk with ext4, written through.
    const FACTS: UpdateFacts = UpdateFacts {
        write_call_ns: 2_000.0,
        write_byte_ns: 1.0,
        flush_ns: 150_000.0,
        read_call_ns: 1_000.0,
        read_byte_ns: 0.2,
        file_bytes: 4_000_000,
    };
    const THROUGH: PlanLimits = PlanLimits {
        durability: Durability::WriteThrough,
        amplification_max: None,
        is_exact: false,
    };

    fn every(step: u64, count: u64) -> Updates {
        let mut batch = Batch::new();
        for n in 0..count {
            batch.push(n * step, &[1; 4]).unwrap();
        }
        batch.resolve()
    }

    #[test]
    fn the_plan_follows_from_the_facts() {
        let free = UpdateFacts {
            write_call_ns: 100.0,
            flush_ns: 0.0,
            write_byte_ns: 10.0,
            ..FACTS
        };
        let sparse = UpdateFacts {
            file_bytes: 1 << 40,
            ..FACTS
        };
        let bounded = |most| PlanLimits {
            amplification_max: Some(most),
            ..THROUGH
        };
        let exact = PlanLimits {
            is_exact: true,
            ..THROUGH
        };
        let cases = [
            ("every 100th integer", every(400, 10_000), FACTS, THROUGH, "gap=512"),
            ("two, far apart", every(1 << 39, 2), sparse, THROUGH, "gap=0"),
            ("calls cost little", every(4000, 1000), free, THROUGH, "gap=0"),
            ("bounded", every(400, 10_000), FACTS, bounded(10.0), "gap=0"),
            ("bounded enough", every(400, 10_000), FACTS, bounded(100.0), "gap=512"),
            ("exact", every(400, 10_000), FACTS, exact, "gap=0"),
            ("neighbours", every(4, 1000), FACTS, THROUGH, "gap=0"),
        ];
        for (name, updates, facts, limits, order) in cases {
            let plan = plan(&updates, &facts, &limits);
            let text = format!("update/sync,block=8M,write-through,{order}");
            assert_eq!(plan.method.to_string(), text, "{name}: {}", plan.why);
            assert!(
                plan.cost.amplification() <= limits.amplification_max.unwrap_or(f64::MAX),
                "{name}"
            );
        }
    }

    #[test]
    fn the_planned_time_of_2008_is_a_small_part_of_the_naive_one() {
        let updates = every(400, 10_000);
        let planned = plan(&updates, &FACTS, &THROUGH).cost;
        let (method, naive) = naive(&updates, &FACTS, Durability::WriteThrough);
        assert_eq!(method.to_string(), "update/sync,block=1M,write-through,order=as-given");
        assert_eq!((naive.writes, naive.written_bytes), (10_000, 40_000));
        assert_eq!(planned.writes, 1);
        assert!(planned.predicted * 150 < naive.predicted, "{planned:?} {naive:?}");
    }

    #[test]
    fn what_is_never_slower_by_the_facts_is_planned() {
        for step in [4, 5, 40, 400, 4000, 40_000] {
            let updates = every(step, 500);
            for durability in [Durability::None, Durability::Fsync, Durability::WriteThrough] {
                let limits = PlanLimits { durability, ..THROUGH };
                let planned = plan(&updates, &FACTS, &limits);
                for order in UpdateOrder::ALL {
                    let other = method(*order, 1 << 20, durability);
                    let other = cost(&updates, &FACTS, &other).predicted;
                    assert!(
                        planned.cost.predicted <= other.mul_f64(1.05),
                        "{step} {durability:?} {order:?}"
                    );
                }
            }
        }
    }
}
