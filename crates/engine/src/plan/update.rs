//! In which order, and with which gap, updates are best written. Every order is tried on the gaps, counted by size.
//!
//! A call that writes is like a remote call: it costs more than the bytes it carries, so neighbours share one until the
//! bytes between them cost more than the call they save.

use seekless_method::{CachePolicy, Durability, Hint, Method, Operation, Options, Platform, Setting, UpdateOrder};

use super::cost::{Amounts, Of};
use super::{Gaps, Plan, Safety, resident, usual};
use crate::facts::Costs;

/// What writing costs on a storage, and what the file is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateFacts {
    /// What calls and bytes cost.
    pub costs: Costs,
    /// The file's size in bytes.
    pub file_bytes: u64,
    /// The part of the file that is not in memory, 0 to 1.
    pub absent_part: f64,
    /// Whether the file has holes, which would take space if what lies between updates were written.
    pub has_holes: bool,
    /// What offsets and lengths of direct I/O are multiples of; none where the file system does not tell of direct I/O.
    pub direct_alignment: Option<u64>,
    /// What a copy of the file takes at most: its data, or nothing where blocks can be shared. Counts with
    /// [`Safety::Replace`] only.
    pub copied_bytes: u64,
}

impl UpdateFacts {
    /// What is taken where nothing is known of a file but its size.
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

/// What a plan has to keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanLimits {
    /// What is on the device in the end.
    pub durability: Durability,
    /// The most bytes written for each byte that updates name.
    pub amplification_max: Option<f64>,
    /// Whether only bytes may be written that updates name.
    pub is_exact: bool,
    /// What becomes of the file when it ends early. A journal and a new file that was just copied take the page cache, and
    /// are written beside the file.
    pub safety: Safety,
}

/// Calls, and the bytes that they move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls that write.
    pub writes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Calls that read what lies between updates.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
}

/// What some work takes. What is not in memory waits for the device at each read, and past the page cache everything does: some
/// device's answer to a read is taken to be as far as that to a write.
pub(crate) fn amounts(work: &Work, durability: Durability, absent_part: f64, is_direct: bool) -> Amounts {
    let waiting_part = if is_direct { 1.0 } else { absent_part };
    let direct_writes = if is_direct { work.writes } else { 0 };
    let flushes = match durability {
        Durability::WriteThrough => work.writes,
        Durability::Fsync => 1 + direct_writes,
        Durability::None => direct_writes,
    };
    Amounts::of([
        (Of::WriteCalls, work.writes as f64),
        (bytes_of(durability != Durability::None), work.written_bytes as f64),
        (Of::ReadCalls, work.reads as f64),
        (Of::ReadBytes, work.read_bytes as f64),
        (Of::Flushes, flushes as f64 + waiting_part * work.reads as f64),
    ])
}

/// What safety takes beside the file: bytes written and read, and files and names brought to the device.
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

/// What decides. The flush at the end takes longest to measure and is the same in every order, and so is bringing what was
/// written to the device.
fn deciding(work: &Work, durability: Durability) -> Amounts {
    let is_through = durability == Durability::WriteThrough;
    let decided_by = if is_through { durability } else { Durability::None };
    amounts(work, decided_by, 0.0, false)
}

/// The method that will be fastest by the facts, within the limits. Where it is the same whatever calls and bytes cost on
/// today's storages, the costs do not count: measuring them takes longer than a small update. Its other method goes through
/// the page cache, as past it whole blocks of the device are written, which may be more than the limits allow.
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
    let why = match choice.order {
        UpdateOrder::Coalesce(0) => choice
            .restriction(facts, limits)
            .unwrap_or("no gap is short enough to be worth writing, whatever a write costs"),
        UpdateOrder::Rewrite => "rewriting the whole file at once is fastest, whatever a write costs",
        _ => "combining updates up to the method's gap apart pays off, whatever a write costs",
    };
    choice.plan(gaps, facts, limits, why.to_owned(), true)
}

/// Whether the order is the same whatever calls and bytes cost on today's storages. Of the facts only what they tell of the
/// file counts.
pub(crate) fn is_certain(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> bool {
    let order = |costs: Costs| Choice::of(gaps, &UpdateFacts { costs, ..*facts }, limits).order;
    order(Costs::ASSUMED.dear_bytes()) == order(Costs::ASSUMED.dear_calls())
}

/// The method that is fastest by these costs.
pub(crate) fn by_costs(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Plan {
    let choice = Choice::of(gaps, facts, limits);
    choice.plan(gaps, facts, limits, choice.why(gaps, facts, limits), false)
}

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

/// The best order and block.
struct Choice {
    order: UpdateOrder,
    block_bytes: u64,
    /// What it comes to, as far as gaps tell.
    work: Work,
    /// Whether the bound on the amplification ruled out a better one.
    is_bounded: bool,
}

impl Choice {
    fn of(gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> Self {
        let nothing = Self {
            order: UpdateOrder::Coalesce(0),
            block_bytes: BLOCKS[0],
            work: Work::default(),
            is_bounded: false,
        };
        let mut best = (nothing, f64::MAX);
        // The best of those that the bound rules out.
        let mut ruled_out = f64::MAX;
        for order in orders(facts.has_holes) {
            let exact = !order.fills_gaps();
            if limits.is_exact && !exact {
                continue;
            }
            for &block_bytes in blocks(limits.durability) {
                let work = gaps.work(order, facts.file_bytes, block_bytes);
                let first_bytes = block_bytes.min(gaps.end);
                let first = first_bytes as f64 * (TOUCH_BYTE_NS + facts.absent_part * ABSENT_BYTE_NS);
                let nanoseconds = deciding(&work, limits.durability).nanoseconds(&facts.costs) + first;
                let amplification = work.written_bytes as f64 / gaps.requested_bytes.max(1) as f64;
                if !exact && limits.amplification_max.is_some_and(|most| amplification > most) {
                    ruled_out = ruled_out.min(nanoseconds);
                } else if nanoseconds < best.1 {
                    let choice = Self {
                        order,
                        block_bytes,
                        work,
                        is_bounded: false,
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

    /// Whether the page cache is passed by: where it holds next to nothing of the file, and the file's end is not touched,
    /// for which a longer one would be on the device for a moment.
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

    fn plan(&self, gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits, why: String, is_certain: bool) -> Plan {
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
            why,
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

    /// What forbids to write what lies between updates.
    fn restriction(&self, facts: &UpdateFacts, limits: &PlanLimits) -> Option<&'static str> {
        match () {
            () if limits.is_exact => Some("only the bytes of the updates may be written"),
            () if facts.has_holes => Some("only blocks that updates touch may be written, because the file has holes"),
            () if self.is_bounded => Some("the limit on write amplification leaves no room for gaps"),
            () => None,
        }
    }

    fn why(&self, gaps: &Gaps, facts: &UpdateFacts, limits: &PlanLimits) -> String {
        let of_one = |writes, bytes| {
            let work = Work {
                writes,
                written_bytes: bytes,
                read_bytes: bytes,
                ..Work::default()
            };
            deciding(&work, limits.durability).nanoseconds(&facts.costs)
        };
        let each = of_one(1, 0);
        let worth = each / of_one(0, 1).max(1e-3);
        let measured = format!(
            "a write costs {:.1} µs here, as much as {worth:.0} bytes of a gap",
            each / 1e3
        );
        let rest = match self.order {
            UpdateOrder::Rewrite => "so the whole file is written at once".to_owned(),
            UpdateOrder::Coalesce(1..) => "so updates up to the method's gap apart share a write".to_owned(),
            _ => match self.restriction(facts, limits) {
                Some(restriction) => format!("but {restriction}"),
                None if gaps.has_up_to(worth) => {
                    "but reading the gaps would take longer than fewer writes save".to_owned()
                }
                None => "so no gap is written".to_owned(),
            },
        };
        let bounded = if self.is_bounded && self.order.fills_gaps() {
            "; without the limit on write amplification, more gaps would be written"
        } else {
            ""
        };
        format!("{measured}, {rest}{bounded}")
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
