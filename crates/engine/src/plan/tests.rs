//! Plans on several kinds of storages, and what holds for every plan, whatever the facts.

use proptest::prelude::*;
use seekless_method::Durability;

use super::*;
use crate::facts::{Costs, DeviceLimits, FileFacts, ProcessFacts};

const GIB: u64 = 1 << 30;
const COLD: FileFacts = FileFacts {
    bytes: GIB,
    allocated_bytes: GIB,
    device: 1,
    resident: Some(0.0),
    direct_alignment: Some(512),
};
const WARM: FileFacts = FileFacts {
    resident: Some(1.0),
    ..COLD
};

/// Equal within a tenth.
const fn about(value: f64) -> Fact {
    Fact::assumed(value * 0.9, value, value * 1.1)
}

/// A storage with these costs: the wait for a read in microseconds, a byte read and a byte written in nanoseconds, a flush in
/// microseconds.
const fn storage(wait_us: f64, fetch_ns: f64, device_ns: f64, flush_us: f64) -> Facts<'static> {
    Facts {
        planner: None,
        costs: Costs {
            write_call_ns: about(700.0),
            write_byte_ns: about(0.1),
            device_byte_ns: about(device_ns),
            flush_ns: about(flush_us * 1e3),
            read_call_ns: about(500.0),
            read_byte_ns: about(0.1),
            fill_byte_ns: about(0.2),
            compare_byte_ns: about(0.05),
            map_byte_ns: about(0.06),
            look_byte_ns: about(0.1),
            view_byte_ns: about(0.14),
            open_ns: about(3_000.0),
            wait_ns: about(wait_us * 1e3),
            fetch_byte_ns: about(fetch_ns),
            stream_byte_ns: about(fetch_ns * 0.9),
            scattered_ns: about(wait_us * 1e3 / 8.0),
            create_ns: about(20_000.0),
            sync_new_ns: about(flush_us * 2e3),
            grow_byte_ns: about(device_ns),
            buffer_byte_ns: about(0.4),
            seek_ns: about(0.0),
        },
        files: [COLD; 2],
        process: ProcessFacts {
            open_files_max: 1024,
            files_of_a_plan: 1,
            has_rings: true,
            can_map: true,
            processors: 4,
        },
        memory_bytes: 16 * GIB,
        free_bytes: 1024 * GIB,
        can_share: false,
        limits: DeviceLimits::NONE,
        expected_ns: 0.0,
        #[cfg(feature = "profile")]
        profile: None,
        #[cfg(not(feature = "profile"))]
        profile: std::marker::PhantomData,
    }
}

/// The same with a head that takes 8 ms to move.
const fn moving_head(mut facts: Facts<'static>) -> Facts<'static> {
    facts.costs.seek_ns = about(8e6);
    facts
}

const TURNING: Facts = moving_head(storage(300.0, 6.0, 6.0, 10_000.0));
const SATA: Facts = storage(80.0, 1.9, 2.0, 1_000.0);
const NVME: Facts = storage(70.0, 0.3, 0.4, 20.0);
const TMPFS: Facts = Facts {
    files: [FileFacts {
        direct_alignment: None,
        ..WARM
    }; 2],
    ..storage(1.0, 0.1, 0.1, 0.5)
};
const NETWORK: Facts = Facts {
    files: [FileFacts {
        direct_alignment: None,
        ..COLD
    }; 2],
    ..storage(1_000.0, 9.0, 9.0, 3_000.0)
};
const THROTTLED: Facts = storage(700.0, 8.0, 8.0, 2_000.0);
/// Shingled: writing is slow, and a flush slower.
const SHINGLED: Facts = moving_head(storage(300.0, 6.0, 25.0, 60_000.0));
const NEARLY_FULL: Facts = Facts {
    free_bytes: GIB + (GIB >> 1),
    ..SATA
};
const TINY_MEMORY: Facts = Facts {
    memory_bytes: 16 << 20,
    ..NVME
};
const ONE_PROCESSOR: Facts = Facts {
    files: [WARM; 2],
    process: ProcessFacts {
        processors: 1,
        ..NVME.process
    },
    ..NVME
};

const OPERATIONS: [&str; 6] = ["read", "write", "write durably", "copy", "copy durably", "compare"];

pub(super) fn task(bytes: u64, durability: Durability) -> Task {
    Task {
        files: 1,
        bytes,
        durability,
    }
}

/// The plan of an operation for this many bytes.
fn plan_of(operation: &str, bytes: u64, facts: &Facts) -> Plan {
    let durability = if operation.ends_with("durably") {
        Durability::Fsync
    } else {
        Durability::None
    };
    let request = task(bytes, durability);
    match operation {
        "read" => read(&request, facts),
        "compare" => compare(&request, facts),
        _ if operation.starts_with("copy") => copy(&request, facts),
        _ => write(&request, facts),
    }
}

#[test]
fn plan_follows_from_the_storage() {
    const CACHED: [&str; 5] = [
        "read/sync,block=128K",
        "write/sync,block=1M",
        "write/sync,block=1M,fsync",
        "copy/sync,block=128K,holes=skip",
        "copy/sync,block=128K,fsync,holes=skip",
    ];
    const DIRECT_READ: &str = "read/io_uring,depth=8,direct,block=512K";
    const DIRECT_WRITE: &str = "write/sync,direct,block=4M,fsync";
    const DIRECT_COPY: &str = "copy/sync,direct,block=1M,fsync,holes=skip";
    const IN_TURN: &str = "compare/sync,block=128K";
    let [read, write, durable_write, copy, durable_copy] = CACHED;
    let mut shared = SATA;
    shared.can_share = true;
    let mut limited = NVME;
    limited.limits.read_bytes = 2e8;
    limited.limits.write_bytes = 2e8;
    let (full, full_durable) = (
        "write/sync,block=1M,preallocate=allocate",
        "write/sync,block=1M,preallocate=allocate,fsync",
    );
    let one_by_one = "compare/sync,block=1M,window=32M";
    let (mapped, mapped_alone) = ("compare/mmap,threads=4,block=8M", "compare/mmap,block=8M");
    let cached = |compare| [read, write, durable_write, copy, durable_copy, compare];
    let in_flight = "compare/io_uring,depth=8,direct,block=512K";
    let directly = [DIRECT_READ, write, DIRECT_WRITE, copy, DIRECT_COPY, in_flight];
    let allocated = [read, full, full_durable, copy, durable_copy, IN_TURN];
    let (clone, durable_clone) = ("copy/reflink", "copy/reflink,fsync");
    let cloned = [read, write, durable_write, clone, durable_clone, IN_TURN];
    let in_little_memory = [read, write, durable_write, copy, DIRECT_COPY, IN_TURN];
    let in_memory = |compare| ["read/mmap", write, durable_write, copy, durable_copy, compare];
    let by_one = ["read/mmap", write, DIRECT_WRITE, copy, durable_copy, mapped_alone];
    let table = [
        ("turning", TURNING, cached(one_by_one)),
        ("SATA", SATA, cached(IN_TURN)),
        ("NVMe", NVME, directly),
        ("tmpfs", TMPFS, in_memory(mapped)),
        ("network", NETWORK, cached(IN_TURN)),
        ("throttled", THROTTLED, cached(IN_TURN)),
        (
            "limited",
            limited,
            [read, write, durable_write, copy, DIRECT_COPY, IN_TURN],
        ),
        ("shingled", SHINGLED, cached(one_by_one)),
        ("nearly full", NEARLY_FULL, allocated),
        ("tiny memory", TINY_MEMORY, in_little_memory),
        ("one processor", ONE_PROCESSOR, by_one),
        ("that shares blocks", shared, cloned),
    ];
    for (name, facts, methods) in table {
        for (operation, method) in OPERATIONS.into_iter().zip(methods) {
            let plan = plan_of(operation, GIB, &facts);
            assert_eq!(plan.method.to_string(), method, "{name}: {operation}: {}", plan.reason);
        }
    }
}

#[test]
fn plan_of_comparisons_follows_from_where_files_are() {
    let file = |resident| FileFacts { resident, ..COLD };
    let mut sparse = WARM;
    sparse.allocated_bytes = GIB / 2;
    let with = |files| Facts { files, ..SATA };
    let apart = with([COLD, FileFacts { device: 2, ..COLD }]);
    let mut unmapped = with([WARM; 2]);
    unmapped.process.can_map = false;
    let (threads, in_memory) = ("compare/sync,threads=2,block=1M", "compare/sync,threads=4,block=1M");
    let plan = |bytes, facts: &Facts| plan_of("compare", bytes, facts).method.to_string();
    for (name, facts, method) in [
        ("no maps", unmapped, in_memory),
        (
            "nearly warm",
            with([WARM, file(Some(0.95))]),
            "compare/mmap,threads=4,block=8M",
        ),
        ("half", with([WARM, COLD]), threads),
        ("unknown", with([file(None); 2]), threads),
        ("sparse", with([sparse, WARM]), in_memory),
        ("on a turning disk", TURNING, "compare/sync,block=1M,window=32M"),
        ("two devices", apart, "compare/sync,block=1M,order=parallel"),
    ] {
        assert_eq!(plan(GIB, &facts), method, "{name}");
    }
    assert_eq!(plan(1000, &SATA), "compare/sync,block=128K");
    assert_eq!(plan(15 << 20, &TURNING), "compare/sync,block=128K");
    // Only for large cold files of one device is it in doubt whether a head moves.
    let is_certain = |bytes, facts: Facts| {
        let mut facts = facts;
        facts.costs.seek_ns = Costs::ASSUMED.seek_ns;
        plan_of("compare", bytes, &facts).is_certain
    };
    assert!(!is_certain(GIB, SATA));
    assert!(is_certain(GIB, with([WARM; 2])) && is_certain(GIB, apart));
}

#[test]
fn plan_of_updates_follows_from_the_storage() {
    let mut gaps = Gaps::none();
    for n in 0..10_000 {
        gaps.count(n * 100_000, 4);
    }
    let limits = PlanLimits::new(Durability::WriteThrough, Safety::InPlace);
    for (name, storage, order) in [
        ("turning", TURNING, "gap=128K"),
        ("SATA", SATA, "gap=128K"),
        ("NVMe", NVME, "gap=0"),
        ("tmpfs", TMPFS, "gap=0"),
        ("network", NETWORK, "gap=128K"),
        ("shingled", SHINGLED, "gap=128K"),
    ] {
        let mut facts = UpdateFacts::assumed(GIB);
        facts.costs = storage.costs;
        let plan = update(&gaps, &facts, &limits);
        let method = plan.method.to_string();
        assert!(method.ends_with(order) && !plan.is_certain, "{name}: {method}");
    }
}

#[test]
fn plan_of_batches_follows_from_limits_of_the_process() {
    let with = |open_files_max, has_rings| {
        let plan = batch(&ProcessFacts {
            open_files_max,
            has_rings,
            ..NVME.process
        });
        (plan.threads, plan.batch)
    };
    assert_eq!(with(1 << 20, true), (16, BATCH));
    assert_eq!(with(1 << 20, false), (32, BATCH), "each waits for a file of its own");
    assert_eq!(with(64, true), (4, 1), "a thread has several files open");
    assert_eq!(with(8, false).0, 1);
}

#[test]
fn plan_of_many_files_has_more_time_on_slow_devices() {
    let many = |resident| Scan {
        files: 10_000,
        bytes: 10_000 << 14,
        resident,
    };
    for (name, facts) in [("turning", TURNING), ("NVMe", NVME), ("network", NETWORK)] {
        let time = |resident| scan(&many(resident), &facts).predicted;
        let (warm, cold, unknown) = (time(Some(1.0)), time(Some(0.0)), time(None));
        assert!(warm.value < cold.value, "{name}");
        assert_eq!((unknown.low, unknown.high), (warm.low, cold.high), "{name}");
    }
    let mut opened = many(Some(0.0));
    opened.bytes = 0;
    assert!(scan(&opened, &TURNING).predicted.value < scan(&many(Some(1.0)), &TURNING).predicted.value);
}

#[test]
fn plan_of_small_or_cached_files_needs_no_measuring() {
    let assumed = |file| Facts {
        files: [file; 2],
        ..Facts::assumed([file; 2], NVME.process)
    };
    for operation in OPERATIONS {
        assert!(plan_of(operation, 1 << 19, &assumed(COLD)).is_certain, "{operation}");
    }
    assert!(plan_of("read", 1 << 20, &assumed(WARM)).is_certain);
    for operation in ["copy", "compare"] {
        assert!(plan_of(operation, GIB, &assumed(WARM)).is_certain, "{operation}");
    }
    for operation in ["read", "write durably", "copy durably", "compare"] {
        assert!(!plan_of(operation, GIB, &assumed(COLD)).is_certain, "{operation}");
    }
}

/// Costs that are each between their bounds, at the given parts.
fn costs_at(bounds: &Costs, parts: &[f64]) -> Costs {
    let mut costs = *bounds;
    for (fact, part) in costs.all_mut().into_iter().zip(parts) {
        fact.value = fact.low + (fact.high - fact.low) * part;
    }
    costs
}

fn storages() -> impl Strategy<Value = Facts<'static>> {
    let resident = prop_oneof![Just(None), (0.0..=1.0).prop_map(Some)];
    let known = [TURNING, SATA, NVME, TMPFS, NETWORK, THROTTLED, SHINGLED, TINY_MEMORY];
    let of = prop::sample::select(known.to_vec());
    (of, resident, any::<bool>(), any::<bool>()).prop_map(|(mut facts, resident, can_share, is_measured)| {
        facts.files[0].resident = resident;
        facts.can_share = can_share;
        if !is_measured {
            facts.costs = Costs::ASSUMED;
        }
        facts
    })
}

proptest! {
    #[test]
    fn plan_that_is_certain_is_the_same_wherever_facts_lie(
        facts in storages(),
        operation in prop::sample::select(OPERATIONS.to_vec()),
        bytes in 0..GIB,
        parts in prop::collection::vec(0.0..=1.0, KINDS),
    ) {
        let plan = plan_of(operation, bytes, &facts);
        prop_assert!(plan.predicted.low <= plan.predicted.value && plan.predicted.value <= plan.predicted.high);
        let costs = costs_at(&facts.costs, &parts);
        let elsewhere = plan_of(operation, bytes, &Facts { costs, ..facts });
        if plan.is_certain {
            prop_assert_eq!(plan.method, elsewhere.method);
        }
        if plan.method == elsewhere.method {
            let time = elsewhere.predicted.value;
            prop_assert!(plan.predicted.low <= time && time <= plan.predicted.high, "{:?}", time);
        }
    }

    #[test]
    fn plan_predicts_no_less_time_for_more_bytes(
        facts in storages(),
        operation in prop::sample::select(OPERATIONS.to_vec()),
        bytes in 0..GIB,
        more in 0..GIB,
    ) {
        let (less, more) = (plan_of(operation, bytes, &facts), plan_of(operation, bytes + more, &facts));
        if less.method == more.method {
            prop_assert!(less.predicted.value <= more.predicted.value);
        }
    }
}
