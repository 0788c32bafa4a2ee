//! Plans for processing many files, without choosing a method for each.

use seekless_method::Operation;

use super::cost::{Amounts, Of};
use super::{Plan, Predicted, usual};
use crate::facts::Facts;

/// Files, or pairs of files, to process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Whether files are read, or pairs of them compared.
    pub operation: Operation,
    /// How many.
    pub files: u64,
    /// The total bytes, or those of one side of the pairs; 0 if files are only opened.
    pub bytes: u64,
    /// The part of them that is in the page cache, if known.
    pub resident: Option<f64>,
    /// Threads, each of which processes one file at a time.
    pub threads: usize,
}

/// The plan for many files, each read in a few calls; its method is always the same, and its time is predicted. The
/// threads share the processors, but their waits for the device overlap: each file that is not cached is one wait.
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
        why: why(scan),
        facts: resident.into_iter().chain(amounts.facts(&facts.costs)).collect(),
    }
}

fn why(scan: &Scan) -> String {
    match (scan.files, scan.threads) {
        (0, _) => "there are no files".to_owned(),
        (1, _) => "there is one file".to_owned(),
        (_, 0 | 1) => "one thread works on one file at a time".to_owned(),
        (files, threads) => format!(
            "{} threads work on one file each, so their waits for the device overlap",
            files.min(threads as u64)
        ),
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

/// How threads share the scanning of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// Bytes that a thread takes at a time. A file that is not longer is scanned by one thread.
    pub piece_bytes: u64,
    /// Bytes per read.
    pub buffer_bytes: usize,
    /// The most bytes that are scanned before the caller gets results.
    pub batch_bytes: u64,
    /// The same in pieces.
    pub batch_pieces: usize,
}

/// The plan for all files. A buffer is a huge page. Reading is cheaper than mapping, for which threads of a process
/// wait for each other. Buffers of 256K took 1.15 times as long as 1M; 2M took 0.95 times as long. The limit of pieces
/// per batch keeps the list of runs short.
pub const SCAN: ScanPlan = ScanPlan {
    piece_bytes: 8 << 20,
    buffer_bytes: 2 << 20,
    batch_bytes: 256 << 20,
    batch_pieces: 4096,
};
