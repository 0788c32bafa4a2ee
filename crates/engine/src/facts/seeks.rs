//! The cost of seeking on a device, measured by single direct reads, which leave the page cache unchanged.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Buffer, Opening};

use crate::setup::MEMORY_ALIGNMENT;

/// Median times of a direct read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeks {
    /// Of a sequential read.
    pub in_a_row: Duration,
    /// Of a read elsewhere.
    pub apart: Duration,
}

/// What is known of a device that files lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekFacts {
    /// What it reports; virtual disks report that they rotate, whatever is behind them.
    pub claims_rotational: Option<bool>,
    /// Whether it is a virtual disk.
    pub is_virtual: bool,
    /// What reading two of the files in turn costs, where that was measured.
    pub seeks: Option<Seeks>,
}

/// A direct read: the file, the offset, and for which of the two figures its time counts.
type Read = (usize, u64, Option<usize>);

const IN_A_ROW: Option<usize> = Some(0);
const APART: Option<usize> = Some(1);

/// The size of a read, and how many of each kind are enough.
const FILE_BLOCK_BYTES: u64 = 4 << 10;
const ENOUGH: usize = 3;
/// A read that moves a head takes at least this much longer than a sequential one: 2 to 15 ms on rotating disks, less than
/// 1 ms on others.
const HEAD_MOVES_FROM: Duration = Duration::from_micros(1500);
pub(crate) const HEAD_MOVES_FROM_NS: f64 = HEAD_MOVES_FROM.as_nanos() as f64;
/// The time after which no more beginnings are read.
const BEGINNINGS_TIME: Duration = Duration::from_millis(250);
/// Reads of each kind within a file, and the time after which no more are started.
const FILE_READS: u64 = 64;
const FILE_TIME: Duration = Duration::from_secs(1);

impl SeekFacts {
    /// Whether a measurement can tell more than the device reports.
    #[must_use]
    pub fn are_in_doubt(&self) -> bool {
        self.claims_rotational != Some(false) && self.seeks.is_none()
    }

    /// Whether a head has to move between files: by the measurement, or else by what a device reports that is not virtual.
    #[must_use]
    pub fn moves_head(&self) -> bool {
        match self.seeks {
            Some(seeks) => seeks.moves_head(),
            None => self.claims_rotational == Some(true) && !self.is_virtual,
        }
    }
}

/// Why a head has to move between files, or why not.
impl fmt::Display for SeekFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seeks {
            Some(seeks) => {
                let digits = usize::from(!seeks.moves_head());
                let more = seeks.head_moves_for().as_secs_f64() * 1e3;
                write!(
                    f,
                    "measured just now, a read elsewhere takes {more:.digits$} ms longer than a sequential one"
                )
            }
            None if self.moves_head() => {
                f.write_str("the device reports as rotational, and too few files were suitable for measuring seeks")
            }
            None => f.write_str("the device has no head to move, as far as is known"),
        }
    }
}

impl Seeks {
    /// Whether a head has to move for a read elsewhere.
    #[must_use]
    pub fn moves_head(&self) -> bool {
        self.head_moves_for() >= HEAD_MOVES_FROM
    }

    /// How much longer a read elsewhere takes.
    pub(crate) fn head_moves_for(&self) -> Duration {
        self.apart.saturating_sub(self.in_a_row)
    }

    /// Measures reading the beginnings of files that lie apart, and the block after each. A drive that reads ahead may answer from its
    /// cache when two files are read in turn; of files that nobody has read yet, it has nothing. `None` without direct I/O, or if
    /// too few are long enough.
    #[must_use]
    pub fn of_beginnings(paths: &[&Path]) -> Option<Self> {
        let files: Vec<File> = paths.iter().copied().filter_map(open_direct).collect();
        let reads = (0..files.len()).flat_map(|file| [(file, 0, APART), (file, FILE_BLOCK_BYTES, IN_A_ROW)]);
        time(&files, FILE_BLOCK_BYTES, BEGINNINGS_TIME, reads)
    }

    /// Measures seeking within a file of this many bytes, at places drawn by a seed. `None` without direct I/O, or if
    /// the file is too short.
    #[must_use]
    pub fn within(path: &Path, bytes: u64, seed: u64) -> Option<Self> {
        let blocks = bytes / FILE_BLOCK_BYTES;
        let mut rng = fastrand::Rng::with_seed(seed);
        let start = rng.u64(..blocks.checked_sub(FILE_READS).filter(|&left| left > 0)?);
        let read = |block: u64, counts| (0, block * FILE_BLOCK_BYTES, counts);
        let in_a_row = (0..FILE_READS).map(|n| read(start + n, IN_A_ROW));
        let elsewhere = (0..FILE_READS).map(|_| read(rng.u64(..blocks), APART));
        time(
            &[open_direct(path)?],
            FILE_BLOCK_BYTES,
            FILE_TIME,
            in_a_row.chain(elsewhere),
        )
    }
}

fn time(files: &[File], block_bytes: u64, limit: Duration, reads: impl Iterator<Item = Read>) -> Option<Seeks> {
    let mut buffer = Buffer::new(block_bytes as usize, MEMORY_ALIGNMENT).ok()?;
    let mut times = [Vec::new(), Vec::new()];
    let begin = Instant::now();
    for (file, offset, counts) in reads {
        if begin.elapsed() > limit {
            break;
        }
        let start = Instant::now();
        if files[file].read_exact_at(&mut buffer, offset).is_err() {
            break;
        }
        if let Some(place) = counts {
            times[place].push(start.elapsed());
        }
    }
    if times.iter().any(|times| times.len() < ENOUGH) {
        return None;
    }
    let [in_a_row, apart] = times.map(median);
    Some(Seeks { in_a_row, apart })
}

pub(super) fn open_direct(path: &Path) -> Option<File> {
    let direct = Opening {
        direct: true,
        keeps_atime: true,
        ..Opening::plain(Access::Read)
    };
    sys::open(path, direct).ok()?.available()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What this thread alone has read from devices.
    #[cfg(target_os = "linux")]
    pub fn read_bytes() -> u64 {
        thread_io("read_bytes")
    }

    /// A counter of this thread alone.
    #[cfg(target_os = "linux")]
    pub fn thread_io(name: &str) -> u64 {
        let counters = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = counters
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap().parse().unwrap()
    }

    /// Drops files from the page cache; whether they are gone from there, and can be read past it.
    pub(crate) fn are_cold(paths: &[&Path]) -> bool {
        for path in paths {
            let resident = crate::cache::drop_file(path).unwrap();
            if resident.part() != Some(0.0) || open_direct(path).is_none() {
                println!("skipped: no direct I/O, or no cold files, at {}", path.display());
                return false;
            }
        }
        true
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_is_measured_past_the_page_cache_and_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 20 << 20]).unwrap();
        if !are_cold(&[&path]) {
            return;
        }
        let accessed = || std::fs::metadata(&path).unwrap().accessed().unwrap();
        let before = accessed();
        assert!(Seeks::within(&path, 20 << 20, 1).is_some_and(|found| found.apart > Duration::ZERO));
        assert_eq!(crate::cache::resident(&path).unwrap().part(), Some(0.0));
        assert_eq!(accessed(), before);
        assert_eq!(
            Seeks::within(&path, FILE_BLOCK_BYTES * FILE_READS, 1),
            None,
            "too short"
        );
    }
}
