//! What going through many files takes, and how much of a file is looked at at a time, where no method is chosen for it.

use seekless_method::Operation;

use super::cost::{Amounts, Of};
use super::{Plan, Predicted, usual};
use crate::facts::Facts;

/// Files, or pairs of files, that are gone through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Whether files are read, or pairs of them compared.
    pub operation: Operation,
    /// How many.
    pub files: u64,
    /// Bytes of all of them together, or of one side of the pairs; 0 where files are only opened.
    pub bytes: u64,
    /// The part of them that is in the page cache, where that is known.
    pub resident: Option<f64>,
    /// Threads that take a file each.
    pub threads: usize,
}

/// The plan for many files, each read in a few calls: it is certain, and says what it will take. The threads share the
/// processors, and wait for the device side by side: each file that is not in the page cache is one wait.
#[must_use]
pub fn scan(scan: &Scan, facts: &Facts) -> Plan {
    let method = usual(scan.operation);
    let at = |resident: f64| amounts(scan, resident, facts);
    let amounts = at(scan.resident.unwrap_or(0.5));
    let least = at(scan.resident.unwrap_or(1.0)).predicted(&facts.costs);
    let most = at(scan.resident.unwrap_or(0.0)).predicted(&facts.costs);
    let resident = scan.resident.map(super::resident);
    Plan {
        method,
        otherwise: method,
        predicted: Predicted {
            low: least.low,
            value: amounts.predicted(&facts.costs).value,
            high: most.high,
        },
        is_certain: true,
        why: format!(
            "{} threads work on one file each, so their waits for the device overlap",
            scan.threads
        ),
        facts: resident.into_iter().chain(amounts.facts(&facts.costs)).collect(),
    }
}

fn amounts(scan: &Scan, resident: f64, facts: &Facts) -> Amounts {
    let sides = if scan.operation == Operation::Compare { 2.0 } else { 1.0 };
    let (files, bytes) = (sides * scan.files as f64, sides * scan.bytes as f64);
    let absent_bytes = bytes * (1.0 - resident);
    let is_read = f64::from(u8::from(scan.bytes > 0));
    let by_processors = Amounts::of([
        (Of::Opens, files),
        (Of::ReadCalls, is_read * files),
        (Of::ReadBytes, bytes),
        (Of::FilledBytes, absent_bytes),
        (Of::ComparedBytes, (sides - 1.0) * scan.bytes as f64),
    ]);
    let side_by_side = scan.threads.min(facts.process.processors).max(1) as f64;
    let waits = is_read * files * (1.0 - resident) / scan.threads.max(1) as f64;
    let by_device = Amounts::of([(Of::FetchedBytes, absent_bytes), (Of::Waits, waits)]);
    by_processors.times(1.0 / side_by_side).and(by_device)
}

/// What a file is brought into the page cache by at a time: large enough that calls are few, small enough to break off soon.
pub const WARMED_BYTES: u64 = 1 << 20;

/// How files are gone through by threads that share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// What a thread takes at a time, in bytes; a file no longer than this is one thread's.
    pub piece_bytes: u64,
    /// What it reads at a time.
    pub buffer_bytes: usize,
    /// What is scanned, at most, before the caller hears of it.
    pub batch_bytes: u64,
    /// The same in pieces.
    pub batch_pieces: usize,
}

/// The plan, whatever the file: what a thread reads at a time is a huge page. Copying into it is cheaper than mapping, which
/// several threads of a process wait for each other to do; with 256K it took 1.15 times as long as with 1M, with 2M 0.95. So
/// many pieces between two words to the caller keep a list of runs short whatever the file.
pub const SCAN: ScanPlan = ScanPlan {
    piece_bytes: 8 << 20,
    buffer_bytes: 2 << 20,
    batch_bytes: 256 << 20,
    batch_pieces: 4096,
};
