//! Runs as machines would have measured them: each machine has a speed of its own, and each run noise.

use seekless_method::{Durability, Operation, REVISION};
use seekless_record::{Cache, Contest, Device, Ended, Entry, EntryVerdict, Revision, Run, Storage, Subject, Trial};
use seekless_results::{anonymous, simulation};

use crate::common::KNOWN;

const KINDS: [(&str, &str, Option<bool>, f64); 4] = [
    ("nvme0n1", "Samsung SSD 980 PRO 1TB", Some(false), 3e9),
    ("sda", "Samsung SSD 870 EVO 1TB", Some(false), 5e8),
    ("sdb", "TOSHIBA MG08ACA16TE", Some(true), 2.4e8),
    ("vda", "QEMU HARDDISK", Some(true), 1e9),
];
const KERNELS: [&str; 4] = ["6.1.2", "6.6.9", "6.12.3", "6.18.1"];
const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
const SIZES: [u64; 4] = [16 << 10, 1 << 20, 64 << 20, 1 << 30];
const ROUNDS: u32 = 6;

/// A run of a machine; the same numbers give the same run.
pub fn run(machine: u64, number: u64) -> Run {
    let mut of_machine = fastrand::Rng::with_seed(machine);
    let mut random = fastrand::Rng::with_seed(machine * 100_003 + number);
    let (name, model, claims_rotational, rate) = KINDS[of_machine.usize(..KINDS.len())];
    let speed = rate * (0.7 + 0.6 * of_machine.f64());
    let mut run = simulation::run(&[("read/sync", 1.0)], 1);
    run.contests.clear();
    run.trials.clear();
    run.seed = random.u64(..);
    run.ended = Ended::Complete;
    run.started = format!("2026-{:02}-{:02}T10:00:00Z", 1 + number % 12, 1 + random.u64(..28));
    run.revision = Some(Revision {
        protocol: 1,
        mechanisms: REVISION,
    });
    "Linux".clone_into(&mut run.machine.system);
    "x86_64".clone_into(&mut run.machine.architecture);
    KERNELS[(number as usize + of_machine.usize(..2)) % KERNELS.len()].clone_into(&mut run.machine.kernel);
    run.machine.processors = 1 << of_machine.u32(1..6);
    run.machine.memory_bytes = Some(8 << (30 + of_machine.u32(..4)));
    run.machine.host = Some(format!("machine-{machine:016x}"));
    run.storages = vec![Storage {
        path: "storage-1".to_owned(),
        file_system: FILE_SYSTEMS[of_machine.usize(..3)].to_owned(),
        device: Some(Device {
            name: name.to_owned(),
            model: Some(model.to_owned()),
            claims_rotational,
            is_virtual: Some(name == "vda"),
            ..Device::default()
        }),
        ..Storage::default()
    }];
    for size in SIZES {
        for (operation, cache, methods) in [
            (
                Operation::Read,
                Cache::Cold,
                &[
                    "read/sync",
                    "read/mmap",
                    "read/sync,direct,block=1M",
                    "read/io_uring,block=1M",
                ][..],
            ),
            (
                Operation::Read,
                Cache::Warm,
                &["read/sync", "read/mmap", "read/sync,block=1M"][..],
            ),
            (
                Operation::Write,
                Cache::None,
                &["write/sync", "write/mmap", "write/io_uring,block=1M"][..],
            ),
        ] {
            contest(&mut run, (operation, cache, size), methods, speed, &mut random);
        }
    }
    anonymous(&run, &KNOWN)
}

fn contest(
    run: &mut Run,
    (operation, cache, size_bytes): (Operation, Cache, u64),
    methods: &[&str],
    speed: f64,
    random: &mut fastrand::Rng,
) {
    let entries = methods.iter().map(|method| Entry {
        subject: Subject::Method((*method).to_owned()),
        label: None,
        verdict: EntryVerdict::Measured,
        summary: None,
    });
    let contest = Contest {
        operation,
        cache,
        durability: Durability::None,
        ..simulation::contest(size_bytes, entries.collect())
    };
    let number = run.contests.len();
    run.contests.push(contest);
    for round in 0..ROUNDS {
        for (entry, method) in methods.iter().enumerate() {
            // Which is faster depends on the size and on the mechanism.
            let calls = if method.contains("block=1M") { 1.0 } else { 1.3 };
            let start = match *method {
                mmap if mmap.contains("mmap") => 4e-3,
                large if large.contains("block=1M") => 2e-3,
                _ => 1.5e-3,
            };
            let seconds = start + size_bytes as f64 / speed * calls;
            let trial = simulation::trial(entry, round, seconds * (0.97 + 0.06 * random.f64()));
            run.trials.push(Trial {
                contest: number,
                bytes: size_bytes,
                ..trial
            });
        }
    }
}
