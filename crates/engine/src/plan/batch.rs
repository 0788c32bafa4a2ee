//! Plans for many small files: how many are processed together, and how. For cold files, most of the time is waiting
//! for the device.

use std::time::Duration;

use seekless_method::{Durability, MechanismId, Method, Operation, ScanMechanism};

use super::cost::{Amounts, Of};
use super::{Plan, Predicted, Reason, Task, Unit, measured_plan, resident, usual};
use crate::facts::{Facts, ProcessFacts};

/// Files to read, many of which are small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// How many; of pairs, both.
    pub files: u64,
    /// Their total bytes; 0 if they are only opened.
    pub bytes: u64,
    /// The part of them that is in the page cache, if known.
    pub resident: Option<f64>,
}

/// How batches of small files are processed.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlan {
    /// The method that it stands for.
    pub method: Method,
    /// The reason for it, if that was measured on the storage.
    pub reason: Option<Reason>,
    /// Threads that list directories and read files.
    pub threads: usize,
    /// Whether one call of `io_uring` reads many cold files.
    pub has_rings: bool,
    /// Files, or pairs of files, in a batch.
    pub batch: usize,
    /// Bytes that are read of a file that is in memory, and of each file of a batch.
    pub head_bytes: [usize; 2],
    /// Directories of each side that stay open, besides those in use.
    pub open_directories: usize,
    /// Entries that may be listed before they are reported. Beyond that, only the directory that is reported next is
    /// listed.
    pub entries_ahead: u64,
    /// Whether to read with `RWF_NOWAIT` if the file system supports it: it shows that a file is not in memory.
    pub asks_not_to_wait: bool,
    /// Without `RWF_NOWAIT`, a read that takes longer means that the file was not in memory.
    pub patience: Duration,
}

/// The usual method where `io_uring` is available. Warming 10,000 small files on a virtual disk took 1.3 to 1.9 s with one thread, 0.9
/// with 4, 0.5 to 0.6 with 16, 0.5 to 0.9 with 64. Most files are not longer than its block; for longer ones, reading it starts the
/// kernel's read-ahead.
const BY_RINGS: &str = "scan/io_uring,threads=16,depth=32";
/// Files in a batch, if their number is not that of the reads in one call of a ring.
pub const BATCH: usize = 32;
/// The fewest files, or pairs of files, for which a ring pays off.
pub(crate) const FEWEST_FOR_RING: usize = 3;
/// For fewer files, even if none is in memory, reading the profile takes more than a small part of the time.
pub const FEWEST_TO_ASK: u64 = 256;
/// Files given to [`crate::batch::Threads`] at a time: enough to keep all threads busy, and few enough for memory and
/// for steady progress.
pub const FILES_AHEAD: usize = 2048;
/// From this size on, preparing a method costs little compared with reading. Smaller files are read by the threads for
/// small files.
pub const LARGE_BYTES: u64 = 8 << 20;
/// Reading a file in memory takes 10 microseconds.
const PATIENCE: Duration = Duration::from_micros(100);
/// Descriptors reserved for the program.
const OWN_FILES: usize = 64;
/// Descriptors that a thread may need at once: a pair of files, their directories and those above, and a ring.
const FILES_OF_A_THREAD: usize = 16;

/// The plan for small files, if nothing is known of their storage.
#[must_use]
pub fn batch(process: &ProcessFacts) -> BatchPlan {
    BatchPlan::by(&usual_here(process), process)
}

/// The files of a scan where their number is not given.
pub const FILES_OF_SCAN: u64 = 1000;

impl Scan {
    /// The files of a task.
    pub(super) fn of(task: &Task, facts: &Facts) -> Self {
        Self {
            files: task.files,
            bytes: task.files.saturating_mul(task.bytes),
            resident: facts.files[0].resident,
        }
    }

    /// Files of which nothing is known but their number: most are small, and what takes long is what is not in the page cache.
    #[must_use]
    pub fn of_unknown(files: usize) -> Self {
        Self {
            files: files as u64,
            bytes: files as u64 * usual(Operation::Scan).options().block_bytes().unwrap_or(0),
            resident: Some(0.0),
        }
    }
}

/// The plan for many files. If it is not known which are in the page cache, it is the one for none, because what is used for
/// these costs little for others; the bounds of its time are then those of both.
#[must_use]
pub fn scan(scan: &Scan, facts: &Facts) -> Plan {
    let at = |resident| with_resident(scan, resident, facts);
    let Some(resident) = scan.resident else {
        let [cold, half, warm] = [0.0, 0.5, 1.0].map(at);
        let predicted = Predicted {
            low: warm.predicted.low,
            value: half.predicted.value,
            high: cold.predicted.high,
        };
        // That none is there is only supposed.
        let facts = cold.facts.into_iter().filter(|known| known.unit != Unit::Part);
        return Plan {
            predicted,
            facts: facts.collect(),
            ..cold
        };
    };
    at(resident)
}

/// The plan if this part of the files is in the page cache.
fn with_resident(scan: &Scan, part: f64, facts: &Facts) -> Plan {
    let mut facts = *facts;
    facts.files[0].resident = Some(part);
    let task = Task {
        files: scan.files,
        // A shorter file takes as long as a page.
        bytes: (scan.bytes / scan.files.max(1)).max(4096),
        durability: Durability::None,
    };
    let known = (scan.bytes > 0).then(|| measured_plan(Operation::Scan, &task, &facts));
    if let Some(plan) = known.flatten() {
        return plan;
    }
    let method = usual_here(&facts.process);
    let threads = method.options().threads();
    let amounts = amounts(scan, part, threads.into(), facts.process.processors as f64);
    Plan {
        method,
        otherwise: usual(Operation::Scan),
        predicted: amounts.predicted(&facts.costs),
        is_certain: false,
        reason: Reason::Overlapping {
            files: scan.files,
            threads,
            depth: method.options().depth(),
        },
        facts: (scan.resident.map(resident).into_iter())
            .chain(amounts.facts(&facts.costs))
            .collect(),
    }
}

/// The threads share the processors, but their waits for the device overlap: each file that is not cached is one wait.
fn amounts(scan: &Scan, resident: f64, threads: f64, processors: f64) -> Amounts {
    let (files, bytes) = (scan.files as f64, scan.bytes as f64);
    let absent_bytes = bytes * (1.0 - resident);
    let is_read = f64::from(u8::from(scan.bytes > 0));
    let by_processors = Amounts::of([
        (Of::Opens, files),
        (Of::ReadCalls, is_read * files),
        (Of::ReadBytes, bytes),
        (Of::FilledBytes, absent_bytes),
    ]);
    let waits = is_read * files * (1.0 - resident) / threads;
    let by_device = Amounts::of([(Of::FetchedBytes, absent_bytes), (Of::Waits, waits)]);
    by_processors
        .times(1.0 / threads.min(processors).max(1.0))
        .and(by_device)
}

/// The usual method of this process.
fn usual_here(process: &ProcessFacts) -> Method {
    if process.has_rings {
        Method::known(BY_RINGS)
    } else {
        usual(Operation::Scan)
    }
}

impl BatchPlan {
    /// What a plan of a scan stands for, within the limits of this process.
    #[must_use]
    pub fn of(plan: Plan, process: &ProcessFacts) -> Self {
        Self {
            reason: plan.is_certain.then_some(plan.reason),
            ..Self::by(&plan.method, process)
        }
    }

    /// The plan that a method of scanning stands for, within the limits of this process.
    #[must_use]
    pub fn by(method: &Method, process: &ProcessFacts) -> Self {
        let options = method.options();
        let threads = (options.threads() as usize)
            .min(process.open_files_max / FILES_OF_A_THREAD)
            .max(1);
        let spare = process.open_files_max.saturating_sub(OWN_FILES);
        let most = options.depth().map_or(BATCH, |depth| depth as usize);
        let batch = (spare / 2 / (2 * threads)).clamp(1, most);
        let open_directories = (spare.saturating_sub(2 * threads * (batch + 1)) / 4).clamp(1, 1024);
        Self {
            method: *method,
            reason: None,
            threads,
            has_rings: method.mechanism().id == MechanismId::Scan(ScanMechanism::IoUring),
            batch,
            head_bytes: [options.block_bytes().unwrap_or(0) as usize; 2],
            open_directories,
            entries_ahead: 1 << 18,
            asks_not_to_wait: true,
            patience: PATIENCE,
        }
    }
}
