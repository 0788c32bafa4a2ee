//! Plans for updates: the order and the gap. Every order is evaluated on the gaps, counted by size.
//!
//! Like a remote call, a write costs more than the bytes it carries. So neighbouring updates share a write, unless the
//! bytes between them cost more than the write they save.

use seekless_method::{CachePolicy, Durability, Hint, Method, Operation, Options, Platform, Setting, UpdateOrder};

use super::cost::{Amounts, Of};
use super::{GapLimit, Gaps, Plan, Predicted, Reason, Safety, UpdateWork, resident, usual};
use crate::facts::Costs;

/// The costs of writing on a storage, and properties of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateFacts {
    /// What calls and bytes cost.
    pub costs: Costs,
    /// The file's size in bytes.
    pub file_bytes: u64,
    /// The part of the file that is not in memory, 0 to 1.
    pub absent_part: f64,
    /// Whether the file has holes, which would get blocks if gaps were written.
    pub has_holes: bool,
    /// The alignment of offsets and lengths for direct I/O; `None` if the file system does not report it.
    pub direct_alignment: Option<u64>,
    /// The most bytes that a copy of the file takes: its data, or nothing if blocks can be shared. Only for
    /// [`Safety::Replace`].
    pub copied_bytes: u64,
}

impl UpdateFacts {
    /// Assumed facts for a file of which only the size is known.
    #[must_use]
    pub fn assumed(file_bytes: u64) -> Self {
        Self {
            costs: Costs::ASSUMED,
            file_bytes,
            absent_part: 0.0,
            has_holes: false,
            direct_alignment: None,
            copied_bytes: file_bytes,
        }
    }
}

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanLimits {
    /// What must be on the device at the end.
    pub durability: Durability,
    /// The limit on write amplification: bytes written for each byte that changes.
    pub amplification_max: Option<f64>,
    /// Whether only the bytes of the updates may be written.
    pub is_exact: bool,
    /// The state of the file after an update that ends early. With a journal or a new file, the file is cached, and
    /// bytes are written beside it.
    pub safety: Safety,
}

impl PlanLimits {
    /// A durability and a safety; gaps may be written, without a limit on write amplification.
    #[must_use]
    pub fn new(durability: Durability, safety: Safety) -> Self {
        Self {
            durability,
            amplification_max: None,
            is_exact: false,
            safety,
        }
    }
}

/// The cost of some work. What is not in memory is read by a hint ahead of the writes, and so are, with direct I/O, all
/// gaps. An fsync writes back what is not side by side by one request each.
pub(crate) fn amounts(work: &UpdateWork, durability: Durability, absent_part: f64, is_direct: bool) -> Amounts {
    let waiting_part = if is_direct { 1.0 } else { absent_part };
    let direct_writes = if is_direct { work.writes } else { 0 };
    let (flushes, written_back) = match durability {
        Durability::WriteThrough | Durability::FdatasyncEach => (work.writes, 0),
        Durability::Fsync => (1 + direct_writes, work.writes - direct_writes),
        Durability::None => (direct_writes, 0),
    };
    let written = match durability {
        Durability::None => (Of::WrittenBytes, work.written_bytes as f64),
        _ => (Of::DeviceBytes, work.written_block_bytes as f64),
    };
    let read_bytes = work.read_bytes as f64;
    let requests = waiting_part * (work.reads + work.cut_blocks) as f64 + written_back as f64;
    Amounts::of([
        (Of::WriteCalls, work.writes as f64),
        written,
        (Of::ReadCalls, work.reads as f64),
        (Of::ReadBytes, read_bytes),
        (Of::FilledBytes, if is_direct { 0.0 } else { absent_part * read_bytes }),
        (Of::FetchedBytes, waiting_part * read_bytes),
        (Of::Scattered, requests),
        (Of::Flushes, flushes as f64),
    ])
}

/// The cost of safety: bytes written and read beside the file, and syncs of files and directories.
pub(crate) fn amounts_of_safety(written_bytes: u64, read_bytes: u64, syncs: u32, durability: Durability) -> Amounts {
    Amounts::of([
        (bytes_of(durability != Durability::None), written_bytes as f64),
        (Of::ReadBytes, read_bytes as f64),
        (Of::Flushes, f64::from(syncs)),
    ])
}

fn bytes_of(at_device: bool) -> Of {
    if at_device { Of::DeviceBytes } else { Of::WrittenBytes }
}

/// The nanoseconds of a write that updates only, and of how many bytes of a gap that is the time.
pub(super) fn worth(costs: &Costs, durability: Durability, absent_part: f64) -> (f64, f64) {
    let of_one = |writes, bytes| {
        let work = UpdateWork {
            writes,
            written_bytes: bytes,
            written_block_bytes: bytes,
            read_bytes: bytes,
            cut_blocks: writes,
            ..UpdateWork::default()
        };
        deciding(&work, durability, absent_part).nanoseconds(costs)
    };
    let each = of_one(1, 0);
    (each, each / of_one(0, 1).max(1e-3))
}

/// The costs that differ between orders: not the final flush, which takes longest to measure. Before it, a byte is
/// assumed to be written as fast as it is read from the device.
fn deciding(work: &UpdateWork, durability: Durability, absent_part: f64) -> Amounts {
    if durability != Durability::Fsync {
        return amounts(work, durability, absent_part, false);
    }
    amounts(work, Durability::None, absent_part, false).and(Amounts::of([
        (Of::FetchedBytes, work.written_block_bytes as f64),
        (Of::Scattered, work.writes as f64),
    ]))
}

/// The fastest method by the facts, within the limits. If it is the same at every plausible cost, the costs are not
/// used, because measuring them takes longer than a small update. The fallback method goes through the page cache,
/// because direct I/O writes whole blocks of the device, which may exceed the limits.
#[must_use]
pub fn update(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Plan {
    if !is_certain(gaps, facts, limits) {
        return by_costs(gaps, facts, limits);
    }
    let at_any_costs = UpdateFacts {
        costs: Costs::ASSUMED,
        ..*facts
    };
    let choice = Choice::of(gaps, &at_any_costs, limits);
    let reason = Reason::AtAnyCost {
        order: choice.order,
        limit: choice.limit(facts, limits),
    };
    choice.plan(gaps, facts, limits, reason, true)
}

/// The extremes, with their predicted times: only the updates are written, and the whole file.
#[must_use]
pub fn extremes(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Vec<(Method, Predicted)> {
    let extremes =
        orders(facts.has_holes).filter(|order| matches!(order, UpdateOrder::Coalesce(0) | UpdateOrder::Rewrite));
    let plan = |order| {
        let block_bytes = BLOCKS[0];
        let choice = Choice {
            order,
            block_bytes,
            work: gaps.work(order, facts.file_bytes, block_bytes),
            bound: None,
        };
        let reason = Reason::AtAnyCost { order, limit: None };
        let plan = choice.plan(gaps, facts, limits, reason, false);
        (plan.method, plan.predicted)
    };
    extremes.map(plan).collect()
}

/// Whether the order is the same at every plausible cost. Of the facts, only the properties of the file are used.
pub(crate) fn is_certain(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> bool {
    let choices = [Costs::ASSUMED.dear_bytes(), Costs::ASSUMED.dear_calls()]
        .map(|costs| Choice::of(gaps, &UpdateFacts { costs, ..*facts }, limits));
    choices[0].order == choices[1].order && !choices.iter().any(|choice| choice.weighs_wear(gaps))
}

/// The time of the choice by these costs, in nanoseconds.
pub(crate) fn expected_ns(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> f64 {
    let work = Choice::of(gaps, facts, limits).work;
    amounts(&work, limits.durability, facts.absent_part, false).nanoseconds(&facts.costs)
}

/// Whether the choice by these costs depends on the wear of the device, and so on the whole time.
pub(crate) fn weighs_wear(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> bool {
    Choice::of(gaps, facts, limits).weighs_wear(gaps)
}

/// Whether some work writes so much more than the blocks that change that it must save time for it.
fn is_wearing(gaps: &Gaps, work: &UpdateWork) -> bool {
    work.written_bytes > gaps.blocks.bytes().saturating_mul(WEAR_MAX)
}

/// The fastest method by these costs.
pub(crate) fn by_costs(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Plan {
    let choice = Choice::of(gaps, facts, limits);
    choice.plan(gaps, facts, limits, choice.reason(gaps, facts, limits), false)
}

/// The smallest and the largest gap to try, as powers of two.
const GAP_BITS: std::ops::RangeInclusive<u32> = 5..=20;
/// The same for a file with holes: shorter than a block of any file system, so that only blocks that updates touch are
/// written.
const GAP_BITS_BESIDE_HOLES: std::ops::RangeInclusive<u32> = 5..=11;
/// The block if each call waits for the device, and otherwise.
const THROUGH_BLOCKS: &[u64] = &[512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];
const BLOCKS: &[u64] = &[1 << 20];
/// Nanoseconds per byte for the first touch of the buffer: 18 GB/s with huge pages.
const TOUCH_BYTE_NS: f64 = 0.06;
/// Nanoseconds per byte of the first block that is not in memory: nothing is written until it is read; only later
/// blocks are read ahead meanwhile. A compromise between file systems, nearer to btrfs, because on the others the plan
/// bypasses the page cache. Cold, 4 MB in blocks of 512K, 1M, 2M and 8M took 16.3, 12.4, 10.5 and 9.9 ms on btrfs,
/// where each wait costs more, and 6.2, 6.5, 8.1 and 9.3 ms on ext4; 40 MB in blocks of 1M, 4M, 8M and 16M took 124,
/// 93, 87 and 86 ms on btrfs.
const ABSENT_BYTE_NS: f64 = 0.1;
/// From this absent part on, loading the file into memory costs more than the cached part saves.
const DIRECT_FROM_ABSENT: f64 = 0.9;
/// The block for direct I/O: with huge pages, 4 MB took 2.7 ms in one piece and 3.0 ms in four.
const DIRECT_BLOCK_BYTES: u64 = 8 << 20;
/// How many times the blocks that change may be written without saving time for the wear of the device.
const WEAR_MAX: u64 = 16;
/// A plan that writes more takes at most this part of the time of every plan that does not.
const WEARING_TIME: f64 = 0.9;
/// For shorter writes (on average), the latency of their reads outweighs the transfer, so a read-ahead hint pays off.
const SHORT_BYTES: u64 = 128 << 10;

/// The best order and block.
#[derive(Clone, Copy)]
struct Choice {
    order: UpdateOrder,
    block_bytes: u64,
    /// Its work, estimated from the gaps.
    work: UpdateWork,
    /// What excluded a faster choice.
    bound: Option<GapLimit>,
}

impl Choice {
    fn of(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Self {
        // With the time by the costs that decide, and by all costs.
        let mut choices: Vec<(Self, f64, f64)> = Vec::new();
        for order in orders(facts.has_holes) {
            let exact = !order.fills_gaps();
            if limits.is_exact && !exact {
                continue;
            }
            for &block_bytes in blocks(limits.durability) {
                let work = gaps.work(order, facts.file_bytes, block_bytes);
                let first_bytes = block_bytes.min(gaps.end);
                let first = first_bytes as f64 * (TOUCH_BYTE_NS + facts.absent_part * ABSENT_BYTE_NS);
                let whole = amounts(&work, limits.durability, facts.absent_part, false);
                let [decides, whole] = [deciding(&work, limits.durability, facts.absent_part), whole]
                    .map(|amounts| amounts.nanoseconds(&facts.costs) + first);
                let amplification = work.written_bytes as f64 / gaps.requested_bytes.max(1) as f64;
                let is_bounded = !exact && limits.amplification_max.is_some_and(|most| amplification > most);
                let choice = Self {
                    order,
                    block_bytes,
                    work,
                    bound: is_bounded.then_some(GapLimit::Amplification),
                };
                choices.push((choice, decides, whole));
            }
        }
        let sparing = choices
            .iter()
            .filter(|(choice, ..)| choice.bound.is_none() && !is_wearing(gaps, &choice.work));
        let sparing_ns = sparing.map(|(.., whole)| *whole).fold(f64::MAX, f64::min);
        for (choice, _, whole) in &mut choices {
            if choice.bound.is_none() && is_wearing(gaps, &choice.work) && *whole > WEARING_TIME * sparing_ns {
                choice.bound = Some(GapLimit::Wear);
            }
        }
        let fastest = |is_bounded: bool| {
            let choices = choices
                .iter()
                .filter(|(choice, ..)| choice.bound.is_some() == is_bounded);
            choices.min_by(|one, other| one.1.total_cmp(&other.1))
        };
        // Writing only the updates, which is the first, is always allowed.
        let (best, best_ns, _) = fastest(false).unwrap_or(&choices[0]);
        let excluded = fastest(true).filter(|(_, decides, _)| decides < best_ns);
        Self {
            bound: excluded.and_then(|(choice, ..)| choice.bound),
            ..*best
        }
    }

    fn weighs_wear(&self, gaps: &Gaps) -> bool {
        self.bound == Some(GapLimit::Wear) || is_wearing(gaps, &self.work)
    }

    /// Whether to bypass the page cache: if it holds hardly any of the file, and no update touches the end of the file,
    /// where the padding of direct I/O would make the file longer for a moment.
    fn is_direct(&self, gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> bool {
        let Some(alignment) = facts.direct_alignment.filter(|_| limits.safety == Safety::InPlace) else {
            return false;
        };
        let end = match self.order {
            UpdateOrder::Rewrite => gaps.end.max(facts.file_bytes),
            _ => gaps.end,
        };
        facts.absent_part >= DIRECT_FROM_ABSENT
            && limits.durability != Durability::None
            && self.order.fills_gaps()
            && self.work.written_bytes / self.work.writes.max(1) >= SHORT_BYTES
            && end.next_multiple_of(alignment) <= facts.file_bytes
    }

    fn plan(&self, gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits, reason: Reason, is_certain: bool) -> Plan {
        let otherwise = self.through_cache(facts, limits);
        let block = Setting::block_bytes(DIRECT_BLOCK_BYTES);
        let direct = Options::default().with(CachePolicy::Direct).with(block);
        let direct = direct.with(self.order).with(limits.durability);
        let direct = Method::new(otherwise.mechanism(), direct).ok();
        let method = direct
            .filter(|_| self.is_direct(gaps, facts, limits))
            .unwrap_or(otherwise);
        let is_direct = method != otherwise;
        let amounts = amounts(&self.work, limits.durability, facts.absent_part, is_direct);
        let resident = resident(1.0 - facts.absent_part);
        Plan {
            method,
            otherwise,
            predicted: amounts.predicted(&facts.costs),
            is_certain,
            reason,
            facts: std::iter::once(resident).chain(amounts.facts(&facts.costs)).collect(),
        }
    }

    fn through_cache(&self, facts: &UpdateFacts, limits: &PlanLimits) -> Method {
        let plain = usual(Operation::Update);
        let is_scattered = self.work.writes > 1 && self.work.written_bytes / self.work.writes < SHORT_BYTES;
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

    /// The limit on writing gaps, or on writing more of them.
    fn limit(&self, facts: &UpdateFacts, limits: &PlanLimits) -> Option<GapLimit> {
        if self.order.fills_gaps() {
            self.bound
        } else if limits.is_exact {
            Some(GapLimit::Exact)
        } else if facts.has_holes {
            Some(GapLimit::Holes)
        } else {
            self.bound
        }
    }

    fn reason(&self, gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Reason {
        let (write_ns, gap_bytes) = worth(&facts.costs, limits.durability, facts.absent_part);
        Reason::AtWriteCost {
            write_ns,
            gap_bytes,
            has_gaps: gaps.has_up_to(gap_bytes),
            order: self.order,
            limit: self.limit(facts, limits),
        }
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
    if durability.is_of_each_call() {
        THROUGH_BLOCKS
    } else {
        BLOCKS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::Fact;

    fn costs() -> impl Strategy<Value = Costs> {
        let range = |low: f64, high: f64| (low.ln()..high.ln()).prop_map(f64::exp);
        let [call, flush] = [range(100.0, 1e6), range(1e3, 1e8)];
        let bytes = (range(0.02, 10.0), range(0.02, 10.0), range(0.02, 10.0));
        (call, flush, bytes).prop_map(|(call, flush, (write, read, device))| {
            let fact = |value| Fact::assumed(value, value, value);
            Costs {
                write_call_ns: fact(call),
                read_call_ns: fact(call / 2.0),
                flush_ns: fact(flush),
                write_byte_ns: fact(write),
                read_byte_ns: fact(read),
                device_byte_ns: fact(device),
                ..Costs::ASSUMED
            }
        })
    }

    proptest! {
        #[test]
        fn many_times_the_blocks_that_change_are_written_only_to_save_a_tenth_of_the_time(
            costs in costs(),
            pieces in proptest::collection::vec((0_u32..22, 1_u64..5000), 1..60),
            durability in prop::sample::select(vec![Durability::None, Durability::Fsync, Durability::WriteThrough]),
            absent_part in prop::sample::select(vec![0.0, 0.5, 1.0]),
        ) {
            let (mut gaps, mut end, mut blocks) = (Gaps::none(), 0, std::collections::BTreeSet::new());
            for (gap_bits, length) in pieces {
                let offset = end + (1 << gap_bits) - 1;
                gaps.count(offset, length);
                end = offset + length;
                blocks.extend(offset / 4096..=(end - 1) / 4096);
            }
            prop_assert_eq!(gaps.blocks.bytes(), 4096 * blocks.len() as u64);
            let facts = UpdateFacts { costs, absent_part, ..UpdateFacts::assumed(end) };
            let limits = PlanLimits::new(durability, Safety::InPlace);
            let choice = Choice::of(&gaps, &facts, &limits);
            let nanoseconds = |work: &UpdateWork, block: u64| {
                let first = block.min(end) as f64 * (TOUCH_BYTE_NS + absent_part * ABSENT_BYTE_NS);
                amounts(work, durability, absent_part, false).nanoseconds(&costs) + first
            };
            let own = nanoseconds(&choice.work, choice.block_bytes);
            for order in orders(false) {
                for &block in super::blocks(durability) {
                    let work = gaps.work(order, end, block);
                    let (sparing, wearing) = (4096 * 16 * blocks.len() as u64, choice.work.written_bytes);
                    if work.written_bytes <= sparing && wearing > sparing {
                        prop_assert!(own <= 0.9 * nanoseconds(&work, block), "{:?} and {:?}", choice.work, work);
                    }
                }
            }
        }
    }

    #[test]
    fn a_little_time_is_not_worth_the_wear_of_the_device() {
        let fact = |value| Fact::assumed(value, value, value);
        // 20 updates of a block, 2.5 MB apart, each write of which waits for the device.
        let mut gaps = Gaps::none();
        for n in 0..20 {
            gaps.count(n * 2_500_000, 4096);
        }
        let plan = |flush_ns| {
            let costs = Costs {
                flush_ns: fact(flush_ns),
                write_byte_ns: fact(0.1),
                read_byte_ns: fact(0.1),
                device_byte_ns: fact(0.2),
                ..Costs::ASSUMED
            };
            let mut facts = UpdateFacts::assumed(50_000_000);
            facts.costs = costs;
            let limits = PlanLimits::new(Durability::WriteThrough, Safety::InPlace);
            by_costs(&gaps, &facts, &limits)
        };
        let order = |flush_ns| plan(flush_ns).method.options().update_order();
        assert_eq!(order(500e3), UpdateOrder::Coalesce(0));
        assert_eq!(order(1.2e6), UpdateOrder::Coalesce(0));
        assert_eq!(order(5e6), UpdateOrder::Rewrite);
        let why = plan(1.2e6).reason.to_string();
        let is_told = why.ends_with("but writing gaps would wear the device more than the time saved is worth");
        assert!(is_told, "{why}");
    }
}
