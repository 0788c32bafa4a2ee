//! Tables of facts and the plans that follow.

#[cfg(feature = "profile")]
mod known;
mod predicted;

use std::time::Duration;

use super::*;
use crate::facts::{Costs, Fact};
use crate::plan::by_costs;
use crate::update::{Batch, cost, naive};
use seekless_method::UpdateOrder;

/// Roughly those of a virtual disk with ext4, written through.
const COSTS: Costs = Costs {
    write_call_ns: exactly(2_000.0),
    write_byte_ns: exactly(1.0),
    device_byte_ns: exactly(1.0),
    flush_ns: exactly(150_000.0),
    read_call_ns: exactly(1_000.0),
    read_byte_ns: exactly(0.2),
    ..Costs::ASSUMED
};
const FACTS: UpdateFacts = UpdateFacts {
    costs: COSTS,
    file_bytes: 4_000_000,
    absent_part: 0.0,
    has_holes: false,
    direct_alignment: None,
    copied_bytes: 4_000_000,
};
const THROUGH: PlanLimits = PlanLimits {
    durability: Durability::WriteThrough,
    amplification_max: None,
    is_exact: false,
    safety: Safety::InPlace,
};
const EXACT: PlanLimits = PlanLimits {
    is_exact: true,
    ..THROUGH
};

fn facts(change: impl FnOnce(&mut UpdateFacts)) -> UpdateFacts {
    let mut facts = FACTS;
    change(&mut facts);
    facts
}

/// With at most this write amplification.
fn within(most: impl Into<Option<f64>>) -> PlanLimits {
    PlanLimits {
        amplification_max: most.into(),
        ..THROUGH
    }
}

fn durably(durability: Durability) -> PlanLimits {
    PlanLimits { durability, ..THROUGH }
}

const fn exactly(value: f64) -> Fact {
    Fact::assumed(value, value, value)
}

/// The plan by these costs, and what it will cost.
fn by(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> UpdatePlan {
    followed(updates, facts, facts, limits, by_costs)
}

/// The plan, if it is the same at any costs.
fn certain(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Option<UpdatePlan> {
    let of_file = of_file(updates, facts, limits);
    let is_certain = plan::is_certain(&updates.gaps, facts, &of_file);
    is_certain.then(|| followed(updates, facts, facts, limits, plan::update))
}

fn every(step: u64, count: u64) -> Updates {
    let mut batch = Batch::new();
    for n in 0..count {
        batch.push(n * step, &[1; 4]).unwrap();
    }
    batch.resolve()
}

#[test]
fn update_plan_follows_from_the_facts() {
    let free = facts(|facts| {
        facts.costs.write_call_ns = exactly(100.0);
        facts.costs.flush_ns = exactly(0.0);
        facts.costs.device_byte_ns = exactly(10.0);
    });
    let sparse = facts(|facts| (facts.file_bytes, facts.has_holes) = (1 << 40, true));
    let absent = facts(|facts| facts.absent_part = 0.5);
    let slow_flush = facts(|facts| facts.costs.flush_ns = exactly(4e6));
    let bounded = within(100.0);
    let ahead = "512K,hint=willneed,|gap=0";
    let cases = [
        ("every 100th integer", every(400, 10_000), FACTS, THROUGH, "4M,|gap=512"),
        ("ten times as many", every(400, 100_000), FACTS, THROUGH, "8M,|gap=512"),
        ("slow flushes", every(400, 10_000), slow_flush, THROUGH, "4M,|gap=512"),
        ("two, far apart", every(1 << 39, 2), sparse, THROUGH, "512K,|gap=0"),
        ("gaps of 1,020, holes", every(1024, 1000), sparse, THROUGH, "1M,|gap=1K"),
        ("4,092, holes", every(4096, 1000), sparse, THROUGH, "512K,|gap=0"),
        ("the same without", every(4096, 1000), FACTS, THROUGH, "4M,|gap=4K"),
        ("calls cost little", every(4000, 1000), free, THROUGH, "512K,|gap=0"),
        ("bounded", every(400, 10_000), FACTS, within(10.0), "512K,|gap=0"),
        ("bounded enough", every(400, 10_000), FACTS, bounded, "4M,|gap=512"),
        ("exact", every(400, 10_000), FACTS, EXACT, "512K,|gap=0"),
        ("neighbours", every(4, 1000), FACTS, THROUGH, "512K,|gap=0"),
        ("not in memory", every(400, 10_000), absent, THROUGH, "2M,|gap=512"),
        ("scattered", every(1 << 30, 9), absent, THROUGH, ahead),
    ];
    require_plans(cases);
}

type Case = (&'static str, Updates, UpdateFacts, PlanLimits, &'static str);

fn require_plans(cases: impl IntoIterator<Item = Case>) {
    for (name, updates, facts, limits, options) in cases {
        let plan = by(&updates, &facts, &limits);
        let (cache, options) = match options.strip_prefix("direct,") {
            Some(options) => ("direct,", options),
            None => ("", options),
        };
        let text = format!("update/sync,{cache}block={}", options.replace('|', "write-through,"));
        assert_eq!(plan.plan.method.to_string(), text, "{name}: {}", plan.plan.reason);
        let is_within = plan.cost.amplification() <= limits.amplification_max.unwrap_or(f64::MAX);
        assert!(is_within, "{name}");
    }
}

#[test]
fn update_plan_bypasses_an_empty_page_cache_not_at_the_end() {
    let cold = facts(|facts| (facts.absent_part, facts.direct_alignment) = (1.0, Some(512)));
    let mut cached = THROUGH;
    cached.safety = Safety::Journal;
    let ahead = "512K,hint=willneed,|gap=0";
    require_plans([
        ("cold", every(400, 10_000), cold, THROUGH, "direct,8M,|gap=512"),
        ("cold, by a journal", every(400, 10_000), cold, cached, "2M,|gap=512"),
        ("cold, exact", every(400, 10_000), cold, EXACT, ahead),
        ("cold, up to the end", every(400, 10_001), cold, THROUGH, "2M,|gap=512"),
        ("cold, a few bytes", every(400, 3), cold, THROUGH, "512K,|gap=512"),
    ]);
}

#[test]
fn update_plan_joins_on_slow_devices_and_not_in_memory() {
    // Of a disk whose head moves for 5 ms and reads 100 MB/s.
    let mut costs = COSTS;
    costs.scattered_ns = exactly(5e6);
    costs.fetch_byte_ns = exactly(10.0);
    let order = |costs, absent_part, durability| {
        let facts = facts(|facts| (facts.costs, facts.absent_part) = (costs, absent_part));
        let plan = by(&every(40_000, 100), &facts, &durably(durability)).plan;
        (plan.method.options().update_order(), plan.predicted.value)
    };
    let apart = UpdateOrder::Coalesce(0);
    let (in_memory, _) = order(costs, 0.0, Durability::None);
    let (written_back, _) = order(costs, 0.0, Durability::Fsync);
    let (cold, predicted) = order(costs, 1.0, Durability::None);
    assert_eq!(in_memory, apart);
    assert!(written_back != apart && cold != apart, "{written_back:?} {cold:?}");
    // 100 waits would take 500 ms.
    assert!(predicted < Duration::from_millis(100), "{predicted:?}");
    let (on_flash, _) = order(COSTS, 1.0, Durability::None);
    assert_eq!(on_flash, apart);
}

#[test]
fn update_plan_reason_tells_what_decided() {
    let cheap = FACTS;
    let slow_reads = facts(|facts| facts.costs.read_call_ns = exactly(1e9));
    let fsync = |most| PlanLimits {
        durability: Durability::Fsync,
        ..within(most)
    };
    let slow = "but reading the gaps would take longer";
    let shared = "as much as rewriting 6875 bytes of a gap, so updates up to the method's gap apart share a write";
    let alone = "as much as rewriting 6875 bytes of a gap, so no gap is written";
    let table = [
        (every(400, 100), cheap, None, shared),
        (every(40_000, 100), cheap, None, alone),
        (every(400, 100), slow_reads, None, slow),
        (every(400, 100), cheap, Some(2.0), "leaves no room for gaps"),
        (every(40_000, 100), cheap, Some(2.0), "so no gap is written"),
    ];
    for (updates, facts, most, words) in table {
        let why = by(&updates, &facts, &fsync(most)).plan.reason.to_string();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn update_plan_names_what_forbids_to_fill_gaps() {
    let facts = UpdateFacts::assumed(4_000_000);
    let mut sparse = facts;
    sparse.has_holes = true;
    let near = every(400, 10_000);
    let far = every(1 << 30, 100);
    let no_room = "the limit on write amplification leaves no room";
    let only = "only the bytes of the updates may be written";
    for (updates, facts, limits, words) in [
        (&near, facts, within(20.0), no_room),
        (&near, facts, EXACT, only),
        (&far, sparse, THROUGH, "because the file has holes"),
        (&far, facts, THROUGH, "no gap is short enough"),
    ] {
        let plan = certain(updates, &facts, &limits).unwrap();
        assert_eq!(plan.plan.method.options().update_order(), UpdateOrder::Coalesce(0));
        assert!(plan.plan.reason.to_string().contains(words), "{}", plan.plan.reason);
    }
}

#[test]
fn update_plan_counts_whole_blocks_and_skips_too_many() {
    let cold = facts(|facts| (facts.absent_part, facts.direct_alignment) = (1.0, Some(4096)));
    let updates = every(400, 9_000);
    let through_cache = updates.end() as f64 / 36_000.0;
    let (enough, cached) = (within(101.0), within(through_cache));
    require_plans([
        ("enough", every(400, 9_000), cold, enough, "direct,8M,|gap=512"),
        ("through the cache", every(400, 9_000), cold, cached, "2M,|gap=512"),
    ]);
    let table = [
        ("update/sync,direct", 879, 3_600_384),
        ("update/sync,direct,order=as-given", 9_000, 9_000 * 4096),
        ("update/sync,direct,gap=512", 4, 3_600_384),
        ("update/io_uring,direct,block=1M", 879, 3_600_384),
        ("update/sync,direct,order=rewrite", 4, 4_001_792),
        ("update/sync,order=rewrite", 4, 4_000_000),
    ];
    for (method, writes, written_bytes) in table {
        let cost = cost(&updates, &cold, &Method::known(method), Safety::InPlace);
        let work = cost.work;
        assert_eq!((work.writes, work.written_bytes), (writes, written_bytes), "{method}");
    }
    let direct = Method::known("update/sync,direct");
    let one = cost(&every(1, 1), &cold, &direct, Safety::InPlace);
    assert_eq!((one.work.read_bytes, one.work.written_bytes), (4096, 4096));
}

#[test]
fn update_plan_counts_wear_in_blocks() {
    let updates = every(100_000, 20);
    for (method, blocks) in [("update/sync", 20), ("update/sync,order=rewrite", 977)] {
        let cost = cost(&updates, &FACTS, &Method::known(method), Safety::InPlace);
        assert_eq!(cost.changed_block_bytes, 20 * 4096, "{method}");
        assert_eq!(cost.work.written_block_bytes, blocks * 4096, "{method}");
        let error = cost.block_amplification() - blocks as f64 / 20.0;
        assert!(error.abs() < 1e-9, "{method}");
    }
}

#[test]
fn update_plan_never_rewrites_sparse_files_or_fills_holes() {
    let facts = facts(|facts| {
        (facts.file_bytes, facts.has_holes) = (1 << 20, true);
        facts.costs.flush_ns = exactly(1e9);
    });
    for step in [8, 1000, 4096, 5000, 100_000] {
        for durability in [Durability::None, Durability::Fsync, Durability::WriteThrough] {
            let plan = by(&every(step, 10), &facts, &durably(durability));
            let order = plan.plan.method.options().update_order();
            assert!(matches!(order, UpdateOrder::Coalesce(0..4096)), "{step}: {order:?}");
        }
    }
}

#[test]
fn update_plan_that_is_certain_holds_by_any_costs() {
    let certain = |updates: &Updates, limits: &PlanLimits| {
        let plan = certain(updates, &UpdateFacts::assumed(4_000_000), limits);
        plan.map(|plan| plan.plan.method.options().update_order())
    };
    assert_eq!(certain(&every(400, 10_000), &THROUGH), Some(UpdateOrder::Coalesce(512)));
    assert_eq!(certain(&every(1 << 40, 100), &THROUGH), Some(UpdateOrder::Coalesce(0)));
    // It depends on what a write costs.
    assert_eq!(certain(&every(40_000, 100), &THROUGH), None);
    assert_eq!(certain(&every(40_000, 100), &EXACT), Some(UpdateOrder::Coalesce(0)));
    for step in [4, 5, 40, 400, 4000, 40_000] {
        let updates = every(step, 500);
        for durability in [Durability::None, Durability::Fsync, Durability::WriteThrough] {
            let limits = durably(durability);
            if let Some(order) = certain(&updates, &limits) {
                let planned = by(&updates, &FACTS, &limits).plan.method.options().update_order();
                assert_eq!(planned, order, "{step} {durability:?}");
            }
        }
    }
}
