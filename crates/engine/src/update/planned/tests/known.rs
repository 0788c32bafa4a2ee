//! Plans by the costs that a profile has.

use std::path::PathBuf;

use proptest::prelude::*;
use seekless_record::{Interval, Profile, ProfileCosts, ProfileHead, StorageCosts, StorageId};

use super::*;
use crate::profile::tests::head;

/// A profile with these costs: of calls, of bytes in memory, of bytes at the device, of a flush.
fn profile([call, byte, device_byte, flush]: [f64; 4]) -> StorageProfile {
    let exactly = |median| Interval::around(median, 1.5, None);
    let costs = StorageCosts {
        write_call_ns: exactly(call),
        write_byte_ns: exactly(byte),
        device_byte_ns: exactly(device_byte),
        flush_ns: exactly(flush),
        read_call_ns: exactly(call / 2.0),
        read_byte_ns: exactly(byte / 2.0),
        fill_byte_ns: exactly(byte),
        fetch_byte_ns: exactly(device_byte),
        scattered_ns: exactly(flush / 10.0),
    };
    let head = ProfileHead {
        costs: Some(ProfileCosts {
            costs,
            sittings: 2,
            newest_unix_seconds: 0,
        }),
        ..head(&StorageId::default())
    };
    let curves = Vec::new();
    StorageProfile::new(Profile { head, curves }, PathBuf::new())
}

const USUAL: [f64; 4] = [2_000.0, 1.0, 1.0, 150_000.0];

fn file(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![1; bytes]).unwrap();
    (directory, path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The oracle tries each order, and counts the writes one by one. What is the same at any costs does not rest on these.
    #[test]
    fn update_plan_by_a_profile_is_the_fastest_of_all_orders(
        call in 100_f64..1e5,
        byte in 0.02_f64..5.0,
        flush in 1e4_f64..1e7,
        step_bits in 4_u32..15,
        count in 2_u64..60,
        durability in prop::sample::select(vec![Durability::None, Durability::WriteThrough]),
    ) {
        let (_directory, path) = file(1 << 20);
        let updates = every(1 << step_bits, count);
        let limits = PlanLimits { durability, ..THROUGH };
        let profile = profile([call, byte, byte, flush]);
        let estimate = UpdateEstimate::asking(&path, &updates, &limits, true, MeasuredFacts::of_process(), |estimate| estimate.is_known(&profile)).unwrap();
        prop_assert!(estimate.facts.absent_part <= 0.0);
        prop_assume!(!plan::is_certain(&updates.gaps, &estimate.facts, &limits));
        let found = estimate.plan(&updates, &limits);
        let block = found.plan.method.options().block_bytes().unwrap();
        let gaps = std::iter::once(0).chain((5..=20).map(|bits| 1 << bits)).map(UpdateOrder::Coalesce);
        let costs = gaps.chain([UpdateOrder::Rewrite]).map(|order| {
            let method = found.plan.method.with(order).unwrap();
            prop_assert_eq!(method.options().block_bytes(), Some(block));
            Ok(cost(&updates, &estimate.facts, &method, Safety::InPlace))
        });
        let costs = costs.collect::<std::result::Result<Vec<_>, TestCaseError>>()?;
        let is_sparing = |cost: &&UpdateCost| cost.work.written_bytes <= 16 * cost.changed_block_bytes;
        let sparing = costs.iter().filter(is_sparing).map(|cost| cost.predicted.value).min().unwrap();
        // Much more is written only to save a tenth of the time.
        let fastest = costs.iter().filter(|cost| is_sparing(cost) || cost.predicted.value < sparing.mul_f64(0.9));
        let fastest = fastest.map(|cost| cost.predicted.value).min().unwrap();
        prop_assert!(
            found.cost.predicted.value <= fastest.mul_f64(1.05),
            "{} takes {:?}, the fastest {fastest:?}", found.plan.method, found.cost.predicted.value
        );
    }
}

#[test]
fn update_plan_by_a_profile_says_so_and_has_its_bounds() {
    let (_directory, path) = file(4_000_000);
    let updates = every(40_000, 100);
    let profile = profile(USUAL);
    let estimate = UpdateEstimate::asking(
        &path,
        &updates,
        &THROUGH,
        true,
        MeasuredFacts::of_process(),
        |estimate| estimate.is_known(&profile),
    )
    .unwrap();
    assert!(estimate.is_measured() && estimate.doubt.is_none());
    assert_eq!(estimate.facts.costs.flush_ns.low.to_bits(), (USUAL[3] / 1.5).to_bits());
    let plan = estimate.plan(&updates, &THROUGH).plan;
    let start = "by 2 sittings on this storage, the newest ";
    let reason = plan.reason.to_string();
    let is_told = reason.starts_with(start) && reason.contains(" days old: a write costs 152.0 µs here");
    assert!(is_told, "{reason}");
    assert!(plan.facts[1..].iter().all(|known| known.fact.is_measured()));
}

#[cfg(target_os = "linux")]
#[test]
fn update_plan_by_a_profile_measures_nothing() {
    /// Calls of this thread that read or write.
    fn calls() -> [u64; 2] {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        ["syscr", "syscw"].map(|name| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap().parse().unwrap()
        })
    }
    let (_directory, path) = file(4_000_000);
    let profile = profile(USUAL);
    let counted = |durability, is_known: bool, is_predicted| {
        let limits = PlanLimits { durability, ..THROUGH };
        let updates = every(20_000, 200);
        let before = calls();
        let ask = |estimate: &mut UpdateEstimate| is_known && estimate.is_known(&profile);
        let estimate =
            UpdateEstimate::asking(&path, &updates, &limits, is_predicted, MeasuredFacts::of_process(), ask).unwrap();
        let after = calls();
        estimate.plan(&updates, &limits);
        [0, 1].map(|kind| after[kind] - before[kind])
    };
    // Reading the counts is a read of its own, or two.
    let nothing = [0; 2].map(|_| calls()[0]);
    let own_reads = nothing[1] - nothing[0];
    for durability in [Durability::Fsync, Durability::WriteThrough] {
        for is_predicted in [false, true] {
            let calls = counted(durability, true, is_predicted);
            assert_eq!(calls, [own_reads, 0], "{durability:?} {is_predicted}");
        }
    }
    assert!(counted(Durability::WriteThrough, false, true)[1] > 10);
}

#[test]
fn update_plan_asks_the_profile_where_that_takes_little_time() {
    let (_directory, path) = file(4_000_000);
    let mut limits = THROUGH;
    limits.durability = Durability::Fsync;
    for (count, is_predicted, asks) in [(10, false, false), (10, true, true), (500, false, true)] {
        let (updates, mut is_asked) = (every(8000, count), false);
        let ask = |estimate: &mut UpdateEstimate| {
            is_asked = true;
            estimate.is_known(&profile(USUAL))
        };
        UpdateEstimate::asking(&path, &updates, &limits, is_predicted, MeasuredFacts::of_process(), ask).unwrap();
        assert_eq!(is_asked, asks, "{count} {is_predicted}");
    }
}
