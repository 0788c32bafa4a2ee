//! Disks with a head, against figures computed by hand.

use seekless_sim::models::DiskModel;
use seekless_sim::{BlockRequest, Drive, RequestKind};

fn read(offset_bytes: u64, length_bytes: u64) -> BlockRequest {
    BlockRequest {
        kind: RequestKind::Read,
        offset_bytes,
        length_bytes,
    }
}

/// One request after the other; the time that all take.
fn closed_loop(drive: &mut Drive, requests: impl IntoIterator<Item = BlockRequest>) -> u64 {
    let mut now_ns = 0;
    for (id, request) in requests.into_iter().enumerate() {
        drive.submit(id as u64, request, now_ns);
        let done = drive.complete().unwrap();
        assert!(done.at_ns >= now_ns, "completed before it was asked for");
        now_ns = done.at_ns;
    }
    now_ns
}

#[test]
fn reads_in_order_at_the_rate_of_the_zone() {
    let model = DiskModel::named("hdd-2009").unwrap();
    // Smaller blocks wait for commands: this disk takes one at a time.
    for block in [64 << 10, 128 << 10, 1 << 20] {
        let mut drive = Drive::new(model, 0, 1);
        let bytes = 100 << 20;
        let ns = closed_loop(&mut drive, (0..bytes / block).map(|index| read(index * block, block)));
        let rate = bytes as f64 / ns as f64 * 1e9;
        assert!((rate / 32_800_000.0 - 1.0).abs() < 0.01, "{block}: {rate}");
    }
}
