//! What is found out about two files before they are compared, in at most 50 ms: are they in the page cache, and does it
//! cost anything here to read them in turn?

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Buffer, Opening, Support};

use super::Part;
use crate::error::{Error, Result};
use crate::transfer::MEMORY_ALIGNMENT;

/// What a plan for comparing rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareFacts {
    /// Bytes to be compared of each, less those for which neither file has blocks.
    pub data_bytes: u64,
    /// The part of each file, as far as it has blocks, that is in the page cache, 0 to 1; `None` where that cannot be
    /// known.
    pub resident: [Option<f64>; 2],
    /// Whether both are on one file system.
    pub is_one_device: bool,
    /// How many times as long it takes to read the two in turn as one after the other. Measured; `None` where it was not.
    pub alternating_ratio: Option<f64>,
    /// Whether either has fewer blocks than bytes.
    pub is_sparse: bool,
    /// Whether files may be mapped in this process.
    pub can_map: bool,
    /// Threads that run at once.
    pub processors: usize,
}

/// Files shorter than this are not measured: that would take longer than it can save.
const MEASURED_FROM_BYTES: u64 = 16 << 20;
/// The time after which no more reads are begun: one takes up to 15 ms where a head must move.
const PROBE_TIME: Duration = Duration::from_millis(30);
const PROBE_BLOCK_BYTES: u64 = 16 << 10;
/// Blocks that are read of one file, and then of both in turn.
const RUN: u64 = 4;
const RUNS: u64 = 2;

impl CompareFacts {
    /// Finds out about two files, of which so many bytes from their starts are to be compared.
    ///
    /// # Errors
    /// The system's, where a file cannot be opened or looked at.
    pub fn of(one: &Part<'_>, other: &Part<'_>, bytes: u64) -> Result<Self> {
        let (one_open, other_open) = (open(one)?, open(other)?);
        let facts = [look_at(one, &one_open)?, look_at(other, &other_open)?];
        let is_one_device = facts[0].device == facts[1].device;
        let is_cold = facts.iter().all(|file| file.resident.is_some_and(|part| part < 0.5));
        let data_bytes = bytes.min(facts[0].allocated_bytes.max(facts[1].allocated_bytes));
        let worth_it = data_bytes >= MEASURED_FROM_BYTES && is_one_device && is_cold;
        Ok(Self {
            data_bytes,
            resident: [facts[0].resident, facts[1].resident],
            is_one_device,
            alternating_ratio: worth_it.then(|| alternating_ratio([one, other], bytes)).flatten(),
            is_sparse: facts.iter().any(|file| file.is_sparse),
            can_map: sys::guard_installed(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }
}

fn open(part: &Part<'_>) -> Result<std::sync::Arc<File>> {
    match &part.file {
        Some(file) => Ok(std::sync::Arc::clone(file)),
        None => File::open(part.path)
            .map(std::sync::Arc::new)
            .map_err(|error| Error::system(part.path, "opening it", error)),
    }
}

/// What is found out about one file.
struct Looked {
    device: u64,
    allocated_bytes: u64,
    is_sparse: bool,
    resident: Option<f64>,
}

fn look_at(part: &Part<'_>, file: &File) -> Result<Looked> {
    let metadata = file
        .metadata()
        .map_err(|error| Error::system(part.path, "looking at it", error))?;
    let allocated_bytes = metadata.blocks().saturating_mul(512);
    let is_sparse = allocated_bytes < metadata.len();
    let asked = sys::residency(file).ok().and_then(Support::available);
    // Of a file with holes, what can be read from the device counts, not its length.
    let resident = asked.map(|found| {
        let whole = if is_sparse { allocated_bytes } else { found.total_bytes };
        if whole == 0 {
            1.0
        } else {
            (found.resident_bytes as f64 / whole as f64).min(1.0)
        }
    });
    Ok(Looked {
        device: metadata.dev(),
        allocated_bytes,
        is_sparse,
        resident,
    })
}

/// Times direct reads: runs of blocks of one file against runs of the two in turn. `None` where there is no direct I/O, or
/// too few reads could be made to tell.
fn alternating_ratio(parts: [&Part<'_>; 2], bytes: u64) -> Option<f64> {
    let [one, other] = parts.map(|part| open_direct(part.path));
    let (one, other) = (one?, other?);
    let mut buffer = Buffer::new(PROBE_BLOCK_BYTES as usize, MEMORY_ALIGNMENT).ok()?;
    let begin = Instant::now();
    let mut read = |file: &File, block: u64| {
        if begin.elapsed() > PROBE_TIME {
            return None;
        }
        let start = Instant::now();
        file.read_exact_at(&mut buffer, block * PROBE_BLOCK_BYTES).ok()?;
        Some(start.elapsed())
    };
    let (mut in_turn, mut in_a_row) = (Vec::new(), Vec::new());
    // Behind the starts, each run at a place of its own, away from the last one's read-ahead in the device.
    let apart = bytes / PROBE_BLOCK_BYTES / (RUNS + 1);
    'runs: for run in 0..RUNS {
        let first = parts.map(|part| part.start.div_ceil(PROBE_BLOCK_BYTES) + run * apart);
        for step in 0..RUN {
            let Some(time) = read(&one, first[0] + step) else {
                break 'runs;
            };
            // The first read of a run goes to a new place.
            if step > 0 {
                in_a_row.push(time);
            }
        }
        for step in 0..RUN {
            let (Some(a), Some(b)) = (read(&other, first[1] + step), read(&one, first[0] + RUN + step)) else {
                break 'runs;
            };
            in_turn.extend([a, b]);
        }
    }
    (in_turn.len() >= 3 && in_a_row.len() >= 3).then(|| median(in_turn) / median(in_a_row))
}

fn open_direct(path: &Path) -> Option<File> {
    let opening = Opening {
        access: Access::Read,
        direct: true,
        write_through: false,
    };
    sys::open(path, opening).ok()?.available()
}

/// The middle one, in seconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this thread alone has read from devices.
    #[cfg(target_os = "linux")]
    fn read_bytes() -> u64 {
        let counters = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_in_memory_is_not_measured_and_what_is_not_by_few_reads_past_the_page_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        for name in ["one", "other"] {
            std::fs::write(path(name), vec![1; 70 << 20]).unwrap();
        }
        let (one, other) = (path("one"), path("other"));
        let facts = || CompareFacts::of(&Part::whole(&one), &Part::whole(&other), 70 << 20).unwrap();
        let before = read_bytes();
        assert!(facts().is_one_device && !facts().is_sparse);
        assert_eq!(facts().alternating_ratio, None, "files in memory are not measured");
        assert_eq!(read_bytes(), before);
        for path in [&one, &other] {
            crate::cache::drop_file(path).unwrap();
        }
        if facts().resident != [Some(0.0); 2] || open_direct(&one).is_none() {
            println!(
                "skipped: no direct I/O, or no cold files, in {}",
                folder.path().display()
            );
            return;
        }
        let before = read_bytes();
        let found = facts();
        // Of each run the blocks of one file, and as many of both in turn; fewer where the device takes its time.
        let most = RUNS * RUN * 3 * PROBE_BLOCK_BYTES;
        let read = read_bytes() - before;
        assert!(
            (PROBE_BLOCK_BYTES..=most).contains(&read),
            "{read} bytes, at most {most}"
        );
        assert!(found.alternating_ratio.is_none_or(|ratio| ratio > 0.0));
        assert_eq!(
            found.alternating_ratio.is_some(),
            read >= 2 * RUN * PROBE_BLOCK_BYTES,
            "{read} bytes"
        );
        assert_eq!(facts().resident, [Some(0.0); 2], "measuring leaves files as they are");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = CompareFacts::of(&Part::whole(Path::new("/nonexistent")), &Part::whole(Path::new("/")), 1);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("/nonexistent: opening it failed")
        );
    }
}
