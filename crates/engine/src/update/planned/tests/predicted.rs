//! The predicted times of plans, and that they decide.

use super::*;

#[test]
fn update_prediction_counts_what_safety_writes() {
    // 12 bytes and twice the four changed bytes for each of 10,000 updates, and at most the 4,000,000 of a copy.
    let updates = every(400, 10_000);
    let planned = |safety, most| {
        let limits = PlanLimits { safety, ..within(most) };
        let planned = by(&updates, &FACTS, &limits);
        let order = planned.plan.method.options().update_order();
        let is_gap_0 = order == UpdateOrder::Coalesce(0);
        (planned.cost.safety_bytes, is_gap_0, planned.cost.is_within(&limits))
    };
    // Two headers, one record of pieces, and the end.
    let journal = 44 + 67 + 20 + 200_000 + 28;
    for (safety, most, expected) in [
        (Safety::InPlace, 100.0, (0, false, true)),
        (Safety::InPlace, 1.0, (0, true, true)),
        (Safety::Journal, 106.0, (journal, false, true)),
        (Safety::Journal, 104.0, (journal, true, true)),
        (Safety::Journal, 6.0, (journal, true, false)),
        (Safety::Replace, 200.0, (4_000_000, false, true)),
        (Safety::Replace, 190.0, (4_000_000, true, true)),
        (Safety::Replace, 100.0, (4_000_000, true, false)),
    ] {
        assert_eq!(planned(safety, most), expected, "{safety:?} {most}");
    }
}

#[test]
fn update_prediction_of_2008_is_a_small_part_of_the_naive_one() {
    let updates = every(400, 10_000);
    let planned = by(&updates, &FACTS, &THROUGH).cost;
    let (method, naive) = naive(&updates, &FACTS, Durability::WriteThrough);
    assert_eq!(method.to_string(), "update/sync,block=1M,write-through,order=as-given");
    assert_eq!((naive.work.writes, naive.work.written_bytes), (10_000, 40_000));
    assert_eq!(planned.work.writes, 1);
    let is_small = planned.predicted.value * 150 < naive.predicted.value;
    assert!(is_small, "{planned:?} {naive:?}");
}

#[test]
fn update_plan_is_what_is_never_slower_by_the_facts() {
    for step in [4, 5, 40, 400, 4000, 40_000] {
        let updates = every(step, 500);
        for durability in [Durability::None, Durability::Fsync, Durability::WriteThrough] {
            let planned = by(&updates, &FACTS, &durably(durability)).cost.predicted.value;
            for order in UpdateOrder::ALL {
                let other = Method::known("update/sync").with(*order).unwrap();
                let other = other.with(durability).unwrap();
                let other = cost(&updates, &FACTS, &other, Safety::InPlace).predicted;
                let is_fast = planned <= other.value.mul_f64(1.05);
                assert!(is_fast, "{step} {durability:?} {order:?}");
            }
        }
    }
}

#[test]
fn update_prediction_includes_the_time_of_safety() {
    let updates = every(400, 10_000);
    let predicted = |method: &'static str, safety| {
        let cost = cost(&updates, &FACTS, &Method::known(method), safety);
        cost.predicted.value.as_nanos() as f64
    };
    // 40 kB of new bytes, with their offsets and lengths, and the old bytes.
    let journal = cost(&updates, &FACTS, &Method::known("update/sync"), Safety::Journal);
    let journal_bytes = journal.safety_bytes;
    assert!((200_000..201_000).contains(&journal_bytes), "{journal_bytes}");
    let journal = journal_bytes as f64 * COSTS.write_byte_ns.value + 40_000.0 * COSTS.read_byte_ns.value;
    let copy = 4e6 * (COSTS.write_byte_ns.value + COSTS.read_byte_ns.value);
    for (method, syncs) in [
        ("update/sync", 1.0),
        ("update/sync,fsync", 0.0),
        ("update/sync,write-through", 1.0),
    ] {
        let alone = predicted(method, Safety::InPlace);
        let close_to = |found: f64, expected: f64| (found - expected).abs() < 2.0;
        for (safety, writing, flushes) in [(Safety::Journal, journal, 3.0), (Safety::Replace, copy, 1.0)] {
            let more = predicted(method, safety) - alone;
            let expected = writing + (flushes + syncs) * COSTS.flush_ns.value;
            assert!(close_to(more, expected), "{method} {safety:?} {more}");
        }
    }
    let nothing = Batch::new().resolve();
    let cost = cost(&nothing, &FACTS, &Method::known("update/sync,fsync"), Safety::Journal);
    assert_eq!(cost.safety_bytes, 0);
}

#[test]
fn update_prediction_changes_no_plan() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![0; 4_000_000]).unwrap();
    for (step, durability) in [
        (400, Durability::Fsync),
        (40_000, Durability::Fsync),
        (400, Durability::WriteThrough),
    ] {
        let updates = every(step, 100);
        let limits = durably(durability);
        let plain = UpdateEstimate::at(&path, &updates, &limits, false).unwrap();
        let told = UpdateEstimate::at(&path, &updates, &limits, true).unwrap();
        assert!(told.is_measured());
        let mut slow = told.clone();
        slow.facts.costs.device_byte_ns = exactly(1e4);
        if durability == Durability::Fsync {
            slow.facts.costs.flush_ns = exactly(1e9);
        }
        let [plain, told, slow] = [plain, told, slow].map(|estimate| estimate.plan(&updates, &limits));
        assert_eq!(
            (plain.plan.method, &plain.plan.reason),
            (told.plan.method, &told.plan.reason)
        );
        assert_eq!(
            (told.plan.method, &told.plan.reason),
            (slow.plan.method, &slow.plan.reason)
        );
        assert!(slow.cost.predicted.value > told.cost.predicted.value);
    }
}
