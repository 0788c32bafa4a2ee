//! What holds for every model, and disks with a head against figures computed by hand.

// Times are not negative here.
#![allow(clippy::cast_sign_loss)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_sim::models::{Disk, DiskMechanism, DiskModel, Flash, MODELS};
use seekless_sim::{BlockRequest, Drive, RequestKind};

const KINDS: [RequestKind; 4] = [
    RequestKind::Read,
    RequestKind::Write,
    RequestKind::Flush,
    RequestKind::Discard,
];
const MIB: u64 = 1 << 20;

fn read(offset_bytes: u64, length_bytes: u64) -> BlockRequest {
    BlockRequest::new(RequestKind::Read, offset_bytes, length_bytes)
}

fn named(name: &str) -> &'static DiskModel {
    DiskModel::named(name).unwrap()
}

/// The seconds that a new drive takes for requests of which `depth` are in flight.
fn seconds(model: &'static DiskModel, requests: impl IntoIterator<Item = BlockRequest>, depth: usize) -> f64 {
    closed_loop(&mut Drive::new(model, 0, 1), requests, depth)
}

/// Serves one request after the other from a time on, and returns when the last was completed.
fn one_by_one(drive: &mut Drive, requests: impl IntoIterator<Item = BlockRequest>, mut now_ns: u64) -> u64 {
    for (id, request) in requests.into_iter().enumerate() {
        drive.submit(id as u64, request, now_ns);
        now_ns = drive.complete().unwrap().at_ns;
    }
    now_ns
}

/// Keeps `depth` requests in flight; the time that all take, in seconds.
fn closed_loop(drive: &mut Drive, requests: impl IntoIterator<Item = BlockRequest>, depth: usize) -> f64 {
    let (mut now_ns, mut in_flight) = (0, 0);
    for (id, request) in requests.into_iter().enumerate() {
        if in_flight == depth {
            now_ns = drive.complete().unwrap().at_ns;
            in_flight -= 1;
        }
        drive.submit(id as u64, request, now_ns);
        in_flight += 1;
    }
    let last = std::iter::from_fn(|| drive.complete()).last();
    last.map_or(now_ns, |done| done.at_ns) as f64 / 1e9
}

fn in_order(kind: RequestKind, bytes: u64, block_bytes: u64) -> impl Iterator<Item = BlockRequest> {
    (0..bytes / block_bytes).map(move |index| BlockRequest::new(kind, index * block_bytes, block_bytes))
}

fn at_random(kind: RequestKind, size_bytes: u64, count: usize, seed: u64) -> impl Iterator<Item = BlockRequest> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(move |_| BlockRequest::new(kind, random.u64(..size_bytes / 4096) * 4096, 4096))
}

/// Two models of disks that differ in something, for tests.
fn disk(name: &str, change: impl FnOnce(&mut Disk)) -> &'static DiskModel {
    let DiskMechanism::Disk(known) = &named(name).mechanism else {
        unreachable!()
    };
    let mut disk = known.clone();
    change(&mut disk);
    model(DiskMechanism::Disk(disk), named(name))
}

fn flash(change: impl FnOnce(&mut Flash)) -> &'static DiskModel {
    let DiskMechanism::Flash(known) = &named("ssd-sata").mechanism else {
        unreachable!()
    };
    let mut flash = known.clone();
    change(&mut flash);
    model(DiskMechanism::Flash(flash), named("ssd-sata"))
}

fn model(mechanism: DiskMechanism, like: &'static DiskModel) -> &'static DiskModel {
    Box::leak(Box::new(DiskModel {
        mechanism,
        name: like.name,
        about: like.about,
        claims: like.claims,
        parameters: Vec::new(),
        published: Vec::new(),
    }))
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, usize, u64, u64)>> {
    proptest::collection::vec((0..3_000_000_u64, 0..4_usize, 0..1_000_u64, 1..300_u64), 1..60)
}

/// All completions of requests that arrive after given pauses, by the number of the request; checks what holds for every drive.
fn completions(model: &'static DiskModel, arrivals: &[(u64, usize, u64, u64)], seed: u64) -> BTreeMap<u64, u64> {
    let mut drive = Drive::new(model, 64 * MIB, seed);
    let (mut now_ns, mut last_ns, mut done) = (0, 0, BTreeMap::new());
    let mut arrived = Vec::new();
    let mut take = |drive: &mut Drive, arrived: &[u64], until_ns: u64| {
        while let Some(next) = drive.next().filter(|next| next.at_ns <= until_ns) {
            assert_eq!(drive.complete(), Some(next));
            assert!(next.at_ns >= last_ns, "{}: time runs backwards", model.name);
            let is_after = next.at_ns >= arrived[next.id as usize];
            assert!(is_after, "{}: completed before its request", model.name);
            let before = done.insert(next.id, next.at_ns);
            assert!(before.is_none(), "{}: completed twice", model.name);
            last_ns = next.at_ns;
        }
    };
    for (id, (pause_ns, kind, at, length)) in arrivals.iter().enumerate() {
        now_ns += pause_ns;
        take(&mut drive, &arrived, now_ns);
        let sectors = if KINDS[*kind] == RequestKind::Flush { 0 } else { *length };
        drive.submit(
            id as u64,
            BlockRequest::new(KINDS[*kind], at * 65536, sectors * 512),
            now_ns,
        );
        arrived.push(now_ns);
    }
    take(&mut drive, &arrived, u64::MAX);
    assert_eq!(done.len(), arrivals.len(), "{}: a request never completed", model.name);
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sim_completes_every_request_once_as_the_seed_decides(arrivals in arrivals(), seed in any::<u64>()) {
        for model in MODELS.iter() {
            prop_assert_eq!(completions(model, &arrivals, seed), completions(model, &arrivals, seed));
        }
    }

    #[test]
    fn sim_without_a_queue_completes_in_order_of_arrival(arrivals in arrivals()) {
        let done: Vec<_> = completions(named("hdd-2009"), &arrivals, 1).into_values().collect();
        prop_assert!(done.is_sorted());
    }

    #[test]
    fn sim_flush_completes_after_all_completed_writes_are_down(count in 1..40_usize, seed in any::<u64>()) {
        let mut drive = Drive::new(named("hdd-2009"), 0, 1);
        let written = closed_loop(&mut drive, at_random(RequestKind::Write, 1 << 36, count, seed), 1);
        drive.submit(u64::MAX, BlockRequest::new(RequestKind::Flush, 0, 0), (written * 1e9) as u64);
        let flushed = drive.complete().unwrap().at_ns as f64 / 1e9;
        // Each is at a place of its own: a seek of 2 ms, at least, unless it was written before the others came.
        prop_assert!(flushed - written > (count as f64 - 1.0) * 0.002 - written, "{written} {flushed}");
        drive.submit(0, BlockRequest::new(RequestKind::Flush, 0, 0), (flushed * 1e9) as u64);
        prop_assert_eq!(drive.complete().unwrap().at_ns, (flushed * 1e9) as u64 + 300_000);
    }
}

/// The oracle of a single read of a drive at rest: command, seek by a curve through three points, the rest of the turn, transfer.
#[test]
fn sim_read_takes_command_seek_turn_and_transfer() {
    let model = named("hdd-2009");
    let (turn_ns, rate) = (60e9 / 7200.0, 32.6e6);
    for (part, seek_ns) in [(0.0, 0.0), (1.0 / 3.0, 8.9e6), (0.999_999, 21e6)] {
        let at = (80e9 * part) as u64 / 4096 * 4096;
        let wait = |seed| {
            let zone = (at / 5_000_000_000) as f64 / 15.0;
            let transfer_ns = 4096.0 / (rate * (1.0 - zone) + 20e6 * zone) * 1e9;
            let mut drive = Drive::new(model, 0, seed);
            closed_loop(&mut drive, [read(at, 4096)], 1) * 1e9 - 0.3e6 - seek_ns - transfer_ns
        };
        let waits: Vec<f64> = (0..64).map(wait).collect();
        let are_within = waits.iter().all(|wait| (-2e3..turn_ns + 2e3).contains(wait));
        assert!(are_within, "{part}: {waits:?}");
        let turns = waits.iter().sum::<f64>() / waits.len() as f64 / turn_ns;
        let is_half = (turns - 0.5).abs() < 0.12;
        assert!(is_half, "{part}: half a turn on the average, not {turns}");
    }
}

#[test]
fn sim_angle_follows_from_the_time() {
    // A read of the same sector, without a cache, is due once a turn.
    let model = disk("hdd-nas", |disk| (disk.segment_count, disk.segment_bytes) = (1, 0));
    let mut drive = Drive::new(model, 0, 3);
    let (mut times, mut now_ns) = (Vec::new(), 0);
    for _ in 0..10 {
        now_ns = one_by_one(&mut drive, [read(0, 512)], now_ns);
        times.push(now_ns);
        now_ns = one_by_one(&mut drive, [read(100 * MIB, 512)], now_ns);
    }
    for pair in times.windows(2) {
        let turns = (pair[1] - pair[0]) as f64 / (60e9 / 7200.0);
        assert!((turns - turns.round()).abs() < 1e-3 && turns > 0.5, "{turns}");
    }
}

#[test]
fn sim_sequential_io_goes_at_the_rate_of_the_zone() {
    // Smaller blocks wait for commands: this disk takes one at a time.
    for block in [64 << 10, 128 << 10, MIB] {
        let reads = in_order(RequestKind::Read, 200 * MIB, block);
        let rate = (200 * MIB) as f64 / seconds(named("hdd-2009"), reads, 1);
        assert!((rate / 32.6e6 - 1.0).abs() < 0.01, "{block}: {rate}");
    }
    let writes = in_order(RequestKind::Write, 1 << 30, MIB).chain([BlockRequest::new(RequestKind::Flush, 0, 0)]);
    let rate = (1_u64 << 30) as f64 / seconds(named("hdd-nas"), writes, 1);
    assert!((rate / 250e6 - 1.0).abs() < 0.03, "{rate}");
    let inner = |index| read(80_000_000_000 - 100 * MIB + index * MIB, MIB);
    let rate = (90 * MIB) as f64 / seconds(named("hdd-2009"), (0..90).map(inner), 1);
    assert!((rate / 20e6 - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn sim_queue_makes_random_reads_no_slower() {
    let (queued, plain) = (named("hdd-nas"), disk("hdd-nas", |disk| disk.queue_depth = 1));
    let seconds = |model, seed, depth| {
        let reads = at_random(RequestKind::Read, 1 << 42, 400, seed);
        closed_loop(&mut Drive::new(model, 0, seed), reads, depth)
    };
    for seed in 0..12 {
        let (with, without) = (seconds(queued, seed, 16), seconds(plain, seed, 16));
        assert!(with < without * 0.75, "{seed}: {with} {without}");
        // One at a time, there is nothing to choose.
        let ratio = seconds(queued, seed, 1) / seconds(plain, seed, 1);
        assert!((ratio - 1.0).abs() < 0.02, "{seed}: {ratio}");
    }
}

#[test]
fn sim_absurd_list_of_requests_ends_soon() {
    let all_at_once = at_random(RequestKind::Read, 1 << 36, 50_000, 1);
    let strange = [
        BlockRequest::new(RequestKind::Write, 0, 0),
        BlockRequest::new(RequestKind::Read, 0, 1 << 30),
        BlockRequest::new(RequestKind::Write, (1 << 50) - (1 << 30), 1 << 30),
        BlockRequest::new(RequestKind::Discard, 0, 1 << 50),
        BlockRequest::new(RequestKind::Flush, 0, 0),
    ];
    let requests: Vec<_> = all_at_once.chain(strange).collect();
    for model in MODELS.iter() {
        seconds(model, requests.iter().copied(), requests.len());
    }
}

#[test]
fn sim_overtaken_request_is_served_at_last() {
    let mut drive = Drive::new(named("hdd-nas"), 0, 1);
    let near = |id: u64| read((1 << 42) + (id * 7919 % 512) * MIB, 4096);
    drive.submit(0, near(0), 0);
    drive.submit(1, read(5 << 40, 4096), 0);
    let (mut id, mut overtaken) = (2, 0);
    drive.submit(id, near(id), 0);
    loop {
        let done = drive.complete().unwrap();
        if done.id == 1 {
            break;
        }
        overtaken += 1;
        assert!(done.at_ns < 1_000_000_000, "starved");
        // There is always one that is nearer.
        id += 1;
        drive.submit(id, near(id), done.at_ns);
    }
    assert!(overtaken > 10, "{overtaken}");
}

#[test]
fn sim_shingled_disk_slows_when_its_cache_is_full() {
    let model = disk("hdd-smr", |disk| disk.disk_cache_bytes = 256 * MIB);
    let mut drive = Drive::new(model, 0, 1);
    let filled = closed_loop(&mut drive, in_order(RequestKind::Write, 4 << 30, MIB), 1);
    // The first writing in order goes to its place.
    assert!((4_u64 << 30) as f64 / filled > 150e6, "{filled}");
    let mut random = fastrand::Rng::with_seed(1);
    let mut now_ns = (filled * 1e9) as u64;
    let mut write = |drive: &mut Drive, now_ns: &mut u64| {
        let begun = *now_ns;
        let write = |_| BlockRequest::new(RequestKind::Write, random.u64(..8_192) * (MIB / 2), MIB / 2);
        *now_ns = one_by_one(drive, (0..100).map(write), begun);
        (*now_ns - begun) as f64 / 1e9
    };
    let fresh = write(&mut drive, &mut now_ns);
    let rounds: Vec<f64> = (0..14).map(|_| write(&mut drive, &mut now_ns)).collect();
    let full = rounds[13];
    assert!(full > 5.0 * fresh, "{fresh} {rounds:?}");
    now_ns += 3_600_000_000_000;
    let rested = write(&mut drive, &mut now_ns);
    assert!(rested < 2.0 * fresh, "{rested} {fresh}");
}

#[test]
fn sim_flash_reads_and_writes_by_its_parameters() {
    let model = named("ssd-sata");
    let rate = |requests: &mut dyn Iterator<Item = BlockRequest>, bytes: u64, depth| {
        bytes as f64 / closed_loop(&mut Drive::new(model, 1 << 33, 1), requests, depth)
    };
    let reads = rate(&mut in_order(RequestKind::Read, 1 << 30, MIB), 1 << 30, 4);
    assert!((reads / 560e6 - 1.0).abs() < 0.03, "{reads}");
    // A device of 8 GiB has 378 MB of fast cells.
    let fast = rate(&mut in_order(RequestKind::Write, 300 * MIB, MIB), 300 * MIB, 4);
    assert!((fast / 530e6 - 1.0).abs() < 0.03, "{fast}");
    let one = 4096.0 / rate(&mut at_random(RequestKind::Read, 1 << 33, 1_000, 1), 1_000 * 4096, 1) * 1e6;
    let is_slow = (95.0..105.0).contains(&one);
    assert!(is_slow, "10,000 per second, one at a time, not one in {one} us");
}

#[test]
fn sim_flash_slows_when_fast_cells_are_full_and_recovers() {
    let model = named("ssd-sata");
    let mut drive = Drive::new(model, 1 << 33, 1);
    let mut now_ns = 0;
    let write = |drive: &mut Drive, now_ns: &mut u64, from: u64| {
        let begun = *now_ns;
        let write = |id| BlockRequest::new(RequestKind::Write, (from + id) * MIB, MIB);
        *now_ns = one_by_one(drive, (0..300).map(write), begun);
        300.0 * MIB as f64 / (*now_ns - begun) as f64 * 1e9
    };
    let first = write(&mut drive, &mut now_ns, 0);
    write(&mut drive, &mut now_ns, 300);
    let full = write(&mut drive, &mut now_ns, 600);
    now_ns += 10_000_000_000;
    let rested = write(&mut drive, &mut now_ns, 900);
    let is_full = (full / 300e6 - 1.0).abs() < 0.05;
    assert!(first > 500e6 && is_full && rested > 500e6, "{first} {full} {rested}");
}

#[test]
fn sim_flash_without_free_blocks_moves_pages_a_discard_spares() {
    let model = flash(|flash| (flash.fast_bytes, flash.block_bytes) = (0, 4 * MIB));
    let size = 256 * MIB;
    let rewrite = |discard: bool| {
        let mut drive = Drive::new(model, size, 1);
        let discards = discard.then(|| BlockRequest::new(RequestKind::Discard, 0, size));
        let all = in_order(RequestKind::Write, size, MIB).chain(discards);
        let begun = closed_loop(&mut drive, all, 1);
        let writes = at_random(RequestKind::Write, size / if discard { 2 } else { 1 }, 60_000, 1);
        let ended_ns = one_by_one(&mut drive, writes, (begun * 1e9) as u64);
        (ended_ns as f64 / 1e9 - begun) / 60_000.0
    };
    let (full, discarded) = (rewrite(false), rewrite(true));
    assert!(full > 2.0 * discarded, "{full} {discarded}");
    let some = at_random(RequestKind::Write, size, 2_000, 1);
    let fresh = closed_loop(&mut Drive::new(model, size, 1), some, 1) / 2_000.0;
    assert!(full > 1.5 * fresh && fresh < 40e-6, "{full} {fresh}");
}

#[test]
fn sim_volume_bursts_until_its_credits_are_spent() {
    let reads = at_random(RequestKind::Read, 1 << 36, 30_000, 1);
    let burst = seconds(named("cloud-burst"), reads, 16);
    assert!((30_000.0 / burst / 3_000.0 - 1.0).abs() < 0.02, "{burst}");
    let mut spent = named("cloud-burst");
    if let DiskMechanism::Volume(volume) = &spent.mechanism {
        let mut volume = volume.clone();
        volume.credits_max = 100;
        spent = model(DiskMechanism::Volume(volume), spent);
    }
    let slow = seconds(spent, at_random(RequestKind::Read, 1 << 36, 6_000, 1), 16);
    assert!((6_000.0 / slow / 300.0 - 1.0).abs() < 0.05, "{slow}");
    let in_order = seconds(named("cloud-burst"), in_order(RequestKind::Read, 1 << 30, MIB), 8);
    let rate = (1_u64 << 30) as f64 / in_order;
    assert!((rate / (128.0 * MIB as f64) - 1.0).abs() < 0.02, "{in_order}");
}
