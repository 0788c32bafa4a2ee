use std::path::PathBuf;

use seekless_record::{Curve, CurvePoint, Interval, Profile, StorageId, UseSummary};

use super::super::{BatchPlan, Scan, compare, copy, read, scan, tests, write};
use super::*;
use crate::profile::tests::head;

/// A profile with these times for a MiB, in milliseconds; each method takes time in proportion to the size.
fn profile(curves: &[(&str, Cache, f64)]) -> StorageProfile {
    let point = |bytes: u64, seconds: f64| CurvePoint {
        bytes,
        seconds: Interval::around(seconds, 1.05, Some(0.95)),
        deviation: 0.02,
        cpu_part: 1.0,
        sittings: 3,
        ..CurvePoint::default()
    };
    let curves = curves.iter().map(|&(text, cache, milliseconds)| {
        let method: Method = text.parse().unwrap();
        let seconds = milliseconds / 1e3;
        Curve {
            conditions: Conditions {
                operation: method.operation(),
                cache,
                durability: method.options().durability(),
                ..Conditions::default()
            },
            method: text.to_owned(),
            level_deviation: 0.1,
            points: vec![point(1 << 10, seconds / 1024.0), point(1 << 30, seconds * 1024.0)],
        }
    });
    let mut head = head(&StorageId::default());
    head.sittings = 3;
    let curves = curves.collect();
    StorageProfile::new(Profile { head, curves }, PathBuf::new())
}

/// A profile of the reads that a function changes.
fn changed(reads: &[(&str, Cache, f64)], change: impl FnOnce(&mut [Curve])) -> StorageProfile {
    let mut profile = profile(reads).profile();
    change(&mut profile.curves);
    StorageProfile::new(profile, PathBuf::new())
}

fn facts_by(profile: StorageProfile, resident: f64) -> Facts<'static> {
    let file = FileFacts {
        bytes: 1 << 20,
        allocated_bytes: 1 << 20,
        resident: Some(resident),
        direct_alignment: Some(512),
        ..FileFacts::default()
    };
    let mut process = ProcessFacts::without_rings();
    process.can_map = true;
    Facts {
        profile: Some(Box::leak(Box::new(profile))),
        ..Facts::assumed([file; 2], process)
    }
}

fn facts(curves: &[(&str, Cache, f64)], resident: f64) -> Facts<'static> {
    facts_by(profile(curves), resident)
}

fn task(durability: Durability) -> Task {
    tests::task(1 << 20, durability)
}

const READS: [(&str, Cache, f64); 6] = [
    ("read/sync,block=1M", Cache::Cold, 2.0),
    ("read/sync,direct,block=4M", Cache::Cold, 1.0),
    ("read/mmap", Cache::Cold, 3.0),
    ("read/sync,block=1M", Cache::Warm, 0.5),
    ("read/sync,direct,block=4M", Cache::Warm, 1.0),
    ("read/mmap", Cache::Warm, 0.2),
];

#[test]
fn profile_bounds_are_wider_after_uses_that_it_did_not_predict() {
    let high = |off: Option<(Operation, Cache, u64)>| {
        let mut profile = changed(&READS, |curves| {
            let points = curves.iter_mut().flat_map(|curve| &mut curve.points);
            points.for_each(|point| point.newest_unix_seconds = 100);
        });
        profile.off = off
            .map(|(operation, cache, sitting)| UseSummary {
                conditions: Conditions {
                    operation,
                    cache,
                    ..Conditions::default()
                },
                uses: 8,
                median: 2.0,
                low: 1.8,
                high: 2.2,
                sitting_unix_seconds: Some(sitting),
            })
            .into_iter()
            .collect();
        let plan = read(&task(Durability::None), &facts_by(profile, 0.0));
        assert_eq!(plan.method.to_string(), "read/sync,direct,block=4M");
        plan.predicted.high
    };
    let usual = high(None);
    assert!(high(Some((Operation::Read, Cache::Cold, 100))) > 2 * usual);
    for other in [
        (Operation::Read, Cache::Warm, 100),
        (Operation::Copy, Cache::Cold, 100),
        // The curves were measured again since.
        (Operation::Read, Cache::Cold, 99),
    ] {
        assert_eq!(high(Some(other)), usual, "{other:?}");
    }
}

#[test]
fn profile_plan_is_the_fastest_measured_for_cold_and_warm_files() {
    let plan = |resident| read(&task(Durability::None), &facts(&READS, resident));
    let cold = plan(0.0);
    assert_eq!(cold.method.to_string(), "read/sync,direct,block=4M");
    assert_eq!(cold.otherwise.to_string(), "read/sync,block=128K");
    assert!(cold.is_certain);
    for words in [
        "by 3 sittings on this storage",
        "0.50x as long as read/sync,block=1M",
        "in the page cache, read/mmap would be used",
    ] {
        assert!(cold.reason.to_string().contains(words), "{}", cold.reason);
    }
    let Predicted { low, value, high } = cold.predicted;
    assert!((value.as_secs_f64() - 1e-3).abs() < 1e-6, "{value:?}");
    assert!(low < value && value < high);
    assert_eq!(plan(1.0).method.to_string(), "read/mmap");
    // Half of it in memory: 1.25, 1.0 and 1.6 ms.
    assert_eq!(plan(0.5).method.to_string(), "read/sync,direct,block=4M");
    // 0.8, 1.0 and 0.76 ms.
    assert_eq!(plan(0.8).method.to_string(), "read/mmap");
}

#[test]
fn profile_candidate_must_be_usable_here() {
    let without = |change: fn(&mut Facts), resident| {
        let mut facts = facts(&READS, resident);
        change(&mut facts);
        read(&task(Durability::None), &facts).method.to_string()
    };
    let no_map: fn(&mut Facts) = |facts| facts.process.can_map = false;
    assert_eq!(without(no_map, 1.0), "read/sync,block=1M");
    let no_direct: fn(&mut Facts) = |facts| facts.files[0].direct_alignment = None;
    assert_eq!(without(no_direct, 0.0), "read/sync,block=1M");
    let no_memory: fn(&mut Facts) = |facts| facts.memory_bytes = 32 << 20;
    assert_eq!(without(no_memory, 0.0), "read/sync,block=1M");
}

#[test]
fn profile_plan_of_near_ties_is_the_simplest_that_stays_cached() {
    let curves = [
        ("read/io_uring,depth=8,direct,block=512K", Cache::Cold, 0.99),
        ("read/sync,block=1M", Cache::Cold, 1.0),
        ("read/double-buffer,block=1M", Cache::Cold, 1.0),
    ];
    let plan = read(&task(Durability::None), &facts(&curves, 0.0));
    assert_eq!(plan.method.to_string(), "read/sync,block=1M");
}

#[test]
fn profile_without_a_curve_plans_as_without_a_profile() {
    let mut facts = facts(&READS, 0.0);
    let far = tests::task(1 << 40, Durability::None);
    let plan = read(&far, &facts);
    assert!(!plan.reason.to_string().contains("sitting"), "{}", plan.reason);
    let written = write(&task(Durability::Fsync), &facts);
    assert!(!written.reason.to_string().contains("sitting"), "{}", written.reason);
    facts.profile = None;
    assert_eq!(read(&far, &facts), plan);
    let compared = |curve: &mut Curve| curve.conditions.operation = Operation::Compare;
    let profile = changed(&READS, |curves| curves.iter_mut().for_each(compared));
    let plan = compare(&task(Durability::None), &facts_by(profile, 0.0));
    assert_eq!(plan.method.operation(), Operation::Compare);
    assert!(!plan.reason.to_string().contains("sitting"), "{}", plan.reason);
}

#[test]
fn profile_copy_keeps_holes_and_notices_a_full_disk_at_once() {
    let copies = [
        ("copy/sync,block=1M,fsync", Cache::Cold, 2.0),
        ("copy/sync,block=1M,preallocate=allocate,fsync", Cache::Cold, 1.0),
    ];
    let mut dense = facts(&copies, 0.0);
    let method = |facts: &Facts| copy(&task(Durability::Fsync), facts).method.to_string();
    assert_eq!(method(&dense), "copy/sync,block=1M,preallocate=allocate,fsync");
    dense.files[1].device = 7;
    // Copies to another storage were not measured.
    let elsewhere = copy(&task(Durability::Fsync), &dense).reason.to_string();
    assert!(!elsewhere.contains("sitting"), "{elsewhere}");
    dense.files[1].device = dense.files[0].device;
    dense.files[0].bytes = 2 << 20;
    let sparse = method(&dense);
    assert!(sparse.ends_with("holes=skip"), "{sparse}");
    let writes = [
        ("write/sync,block=1M,fsync", Cache::None, 2.0),
        ("write/sync,direct,block=4M,fsync", Cache::None, 1.0),
    ];
    let mut full = facts(&writes, 0.0);
    full.free_bytes = 1 << 20;
    let method = write(&task(Durability::Fsync), &full).method.to_string();
    assert_eq!(method, "write/sync,direct,block=4M,preallocate=allocate,fsync");
}

#[test]
fn profile_plans_comparisons_on_one_device_only() {
    let compares = [
        ("compare/sync,block=1M", Cache::Cold, 2.0),
        ("compare/io_uring,depth=8,direct,block=512K", Cache::Cold, 1.0),
    ];
    let mut facts = facts(&compares, 0.0);
    for file in &mut facts.files {
        (file.bytes, file.allocated_bytes) = (64 << 20, 64 << 20);
    }
    let task = tests::task(64 << 20, Durability::None);
    let method = |facts: &Facts| compare(&task, facts).method.to_string();
    assert_eq!(method(&facts), "compare/io_uring,depth=8,direct,block=512K");
    facts.files[1].device = 7;
    assert_ne!(method(&facts), "compare/io_uring,depth=8,direct,block=512K");
}

#[test]
fn profile_method_of_impossible_times_is_ignored() {
    // A MiB of single bytes in 1 ms, which is a nanosecond for each.
    let impossible = ("read/sync,block=1", Cache::Cold, 1.0);
    let curves = [READS[0], READS[1], impossible];
    let task = task(Durability::None);
    let found = alternatives(Operation::Read, &task, &facts(&curves, 0.0));
    assert_eq!(found.len(), 2);
    let slow = ("read/sync,block=1", Cache::Cold, 100.0);
    let found = alternatives(Operation::Read, &task, &facts(&[READS[0], READS[1], slow], 0.0));
    assert_eq!(found.len(), 3);
    let absurd: [fn(&mut Curve); 3] = [
        |curve| curve.level_deviation = 1e9,
        |curve| curve.points[0].seconds.low = 0.0,
        |curve| curve.points.iter_mut().for_each(|point| point.seconds.median = 1e30),
    ];
    for change in absurd {
        let facts = facts_by(changed(&READS[..2], |curves| change(&mut curves[0])), 0.0);
        let found = alternatives(Operation::Read, &task, &facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!read(&task, &facts).reason.to_string().contains("sitting"));
    }
}

#[test]
fn profile_regret_is_the_mean_of_what_a_method_takes_longer() {
    let measured = |seconds: f64, error: f64| MeasuredMethod {
        method: Method::known(if seconds > 1.0 {
            "read/mmap"
        } else {
            "read/sync,block=1M"
        }),
        seconds,
        error,
        level_deviation: 0.0,
        cpu_seconds: 0.0,
        is_within: true,
        sittings: 1,
        newest_unix_seconds: 0,
    };
    for (behind, error) in [(1.3, 0.1), (1.02, 0.05), (1.02, 0.2), (1.5, 0.01)] {
        let all = [measured(1.0, error), measured(behind, error)];
        let mut random = fastrand::Rng::with_seed(1);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let draws = 200_000;
        let regrets = (0..draws).map(|_| (behind.ln() + error * (normal() - normal())).exp_m1().max(0.0));
        let mean = regrets.sum::<f64>() / f64::from(draws);
        let found = all[1].regret(&all);
        assert!((found - mean).abs() < 0.004, "{behind} {error}: {found} {mean}");
    }
}

#[test]
fn profile_crossovers_tell_sizes_at_which_the_method_changes() {
    // Direct reads cost a millisecond more for the smallest file.
    let profile = changed(&READS[..2], |curves| {
        curves[1].points[0].seconds = Interval::around(1.05e-3, 1.05, None);
    });
    let curve = curve(&profile, Operation::Read, Durability::None, 0.0);
    let found: Vec<&SizeTimes> = SizeTimes::changes(&curve).collect();
    let methods: Vec<String> = found.iter().map(|size| size.method.to_string()).collect();
    assert_eq!(methods, ["read/sync,block=1M", "read/sync,direct,block=4M"]);
    assert!(found[0].bytes == 1 << 10 && found[1].bytes > 1 << 20, "{found:?}");
    // The curve has the times of both, also where they are not used.
    let direct = found[1].method;
    assert!(curve[0].of(&direct).unwrap() > 1.0 && found[1].of(&direct).unwrap() < 1.0);
    assert_eq!((curve[0].bytes, curve.last().unwrap().bytes), (1 << 10, 1 << 30));
}

const SCANS: [(&str, Cache, f64); 6] = [
    ("scan/sync", Cache::Cold, 30.0),
    ("scan/sync,threads=8", Cache::Cold, 12.0),
    ("scan/io_uring,threads=4", Cache::Cold, 8.0),
    ("scan/sync", Cache::Warm, 2.0),
    ("scan/sync,threads=8", Cache::Warm, 3.0),
    ("scan/io_uring,threads=4", Cache::Warm, 3.0),
];

#[test]
fn profile_batches_follow_measurements_within_process_limits() {
    let many = |files, resident| Scan {
        files,
        bytes: files * 8192,
        resident,
    };
    let with_rings = |has_rings| {
        let mut facts = facts(&SCANS, 0.0);
        facts.process.has_rings = has_rings;
        facts
    };
    let plan = |files, resident, has_rings| scan(&many(files, resident), &with_rings(has_rings));
    let cold = plan(1000, Some(0.0), true);
    assert_eq!(cold.method.to_string(), "scan/io_uring,threads=4,depth=32,block=16K");
    let warm = "if the files were in the page cache, scan/sync,block=16K would";
    assert!(cold.reason.to_string().contains(warm), "{}", cold.reason);
    // 8 ms for a MiB, 1000 times for 8 KiB.
    let seconds = cold.predicted.value.as_secs_f64();
    assert!((seconds - 1000.0 * 8e-3 / 128.0).abs() < 1e-6, "{seconds}");
    let without_rings = plan(1000, Some(0.0), false).method.to_string();
    assert_eq!(without_rings, "scan/sync,threads=8,block=16K");
    assert_eq!(plan(1000, Some(1.0), true).method.to_string(), "scan/sync,block=16K");
    let unknown = plan(1000, None, true);
    assert_eq!(unknown.method, cold.method);
    // It is not known that none is in memory.
    assert_eq!((unknown.facts.len(), cold.facts.len()), (0, 1));
    assert!(unknown.predicted.low < unknown.predicted.value && unknown.predicted.high == cold.predicted.high);
    let batch = BatchPlan::of(cold, &with_rings(true).process);
    assert_eq!((batch.threads, batch.batch, batch.has_rings), (4, 32, true));
    assert!(batch.reason.is_some());
    let mut limited = with_rings(true).process;
    limited.open_files_max = 48;
    let batch = BatchPlan::of(unknown, &limited);
    assert_eq!((batch.threads, batch.batch), (3, 1));
    // What only opens files was not measured.
    let mut opened = many(1000, Some(0.0));
    opened.bytes = 0;
    assert!(!scan(&opened, &with_rings(true)).is_certain);
}
