//! What writing costs beside a file, found out by writing: a few calls in a file without a name.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access, Opening, Support};

use super::place::Place;
use super::plan::UpdateFacts;
use crate::error::{Error, Result};
use crate::holes::DataRanges;
use crate::storage::cache;
use crate::storage::direct::direct_alignment;
use seekless_method::Durability;

/// What the calls are tried on.
const TRIED_BYTES: usize = 256 << 10;
const CALLS: u32 = 16;
/// So often each is timed.
const ROUNDS: u32 = 3;
/// Writing through is tried as often as fits in here, but twice at least: whoever asks for it waits for this too.
const THROUGH_BUDGET: Duration = Duration::from_millis(5);
const THROUGH_CALLS: usize = 8;

/// Measures what writing costs beside a file, in some 20 ms where the device is no slower than a disk.
///
/// # Errors
/// The system's, where no file can be made there.
pub fn update_facts(path: &Path, durability: Durability) -> Result<UpdateFacts> {
    tried(path, Tried::All(durability))
}

/// The same for what is not written through, without a flush, which takes longest: it is made once in the end, whatever the
/// order, and decides nothing.
///
/// # Errors
/// As of [`update_facts`].
pub(super) fn call_facts(path: &Path) -> Result<UpdateFacts> {
    tried(path, Tried::Calls)
}

/// What is tried.
#[derive(Clone, Copy)]
enum Tried {
    Calls,
    /// Flushes too, and bytes as they come to the device.
    All(Durability),
}

fn tried(path: &Path, what: Tried) -> Result<UpdateFacts> {
    let place = Place::of(path)?;
    let path = &place.path;
    let failed = |error| place.system("trying what writing costs beside it", error);
    let through = Opening {
        access: Access::Overwrite,
        direct: false,
        write_through: true,
    };
    let (file, through) = place.make_for_a_moment(through).map_err(failed)?;
    let costs = measure(&file, &through, what).map_err(failed)?;
    let about = assumed_facts(path)?;
    Ok(UpdateFacts {
        // Some device's answer to a read is taken to be as far as that to a write.
        read_call_ns: costs.read_call_ns + about.absent_part * costs.flush_ns,
        file_bytes: about.file_bytes,
        absent_part: about.absent_part,
        has_holes: about.has_holes,
        direct_alignment: about.direct_alignment,
        ..costs
    })
}

/// What a look at a file tells, without measuring: what writing costs is assumed.
///
/// # Errors
/// The system's.
pub fn assumed_facts(path: &Path) -> Result<UpdateFacts> {
    let found = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    let resident = cache::resident(path).ok().and_then(|resident| resident.part());
    Ok(UpdateFacts {
        absent_part: 1.0 - resident.unwrap_or(1.0),
        has_holes: has_holes(path, &found),
        direct_alignment: direct_alignment(path).map(|(_, offset)| u64::from(offset)),
        ..UpdateFacts::assumed(found.len())
    })
}

/// What a copy of a file takes: its data, or nothing where blocks are shared beside it.
pub(super) fn copied_bytes(path: &Path) -> Result<u64> {
    let path = &Place::of(path)?.path;
    if shares_blocks(path) {
        return Ok(0);
    }
    let failed = |error| Error::system(path, "asking where it has data", error);
    data_bytes(&File::open(path).map_err(failed)?).map_err(failed)
}

/// Whether files beside a file share their blocks, found out by a short one; not where none can be made.
fn shares_blocks(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let tried = || -> io::Result<Support<()>> {
        let (from, to) = (tempfile::tempfile_in(folder)?, tempfile::tempfile_in(folder)?);
        from.write_all_at(&vec![1; TRIED_BYTES], 0)?;
        sys::clone_file(&from, &to)
    };
    matches!(tried(), Ok(Support::Available(())))
}

/// How much of a file is not in holes.
fn data_bytes(file: &File) -> io::Result<u64> {
    let end = file.metadata()?.len();
    let ranges = DataRanges::of(file, 0..end);
    ranges.map(|range| range.map(|range| range.end - range.start)).sum()
}

/// Whether there are holes, or may be: blocks may be missing because they are compressed.
fn has_holes(path: &Path, found: &Metadata) -> bool {
    let bytes = found.len();
    found.blocks() * STAT_BLOCK_BYTES < bytes
        && File::open(path).is_ok_and(|file| match sys::next_hole(&file, 0) {
            Ok(Support::Available(hole)) if hole >= bytes => may_hide_holes(path),
            _ => true,
        })
}

fn may_hide_holes(path: &Path) -> bool {
    sys::file_system(path).is_ok_and(|found| found.may_hide_holes())
}

/// What `st_blocks` counts (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

fn measure(file: &File, through: &File, what: Tried) -> io::Result<UpdateFacts> {
    let mut bytes = vec![1; TRIED_BYTES];
    file.write_all_at(&bytes, 0)?;
    let whole = fastest(|_| file.write_all_at(&bytes, 0))?;
    let whole_read = fastest(|_| file.read_exact_at(&mut bytes, 0))?;
    let places = |round: u32| (round * CALLS..(round + 1) * CALLS).map(|n| u64::from(n) * 4096);
    let calls = fastest(|round| places(round).try_for_each(|at| file.write_all_at(&[2; 4], at)))?;
    let mut few = [0; 4];
    let reads = fastest(|round| places(round).try_for_each(|at| file.read_exact_at(&mut few, at)))?;
    let write_call_ns = calls / f64::from(CALLS);
    let mut write_byte_ns = whole / TRIED_BYTES as f64;
    let mut flush_ns = 0.0;
    if let Tried::All(durability) = what {
        sys::sync(file)?;
        flush_ns = (through_call_ns(through)? - write_call_ns).max(0.0);
        if durability != Durability::None {
            let (written, all) = timed(|| through.write_all_at(&bytes, 0));
            written?;
            write_byte_ns = (all - flush_ns).max(whole) / TRIED_BYTES as f64;
        }
    }
    Ok(UpdateFacts {
        write_call_ns,
        write_byte_ns,
        flush_ns,
        read_call_ns: reads / f64::from(CALLS),
        read_byte_ns: whole_read / TRIED_BYTES as f64,
        ..UpdateFacts::assumed(0)
    })
}

/// The median time of writing four bytes through; the lower one of two, as noise only adds to it.
fn through_call_ns(through: &File) -> io::Result<f64> {
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 2 || (times.len() < THROUGH_CALLS && started.elapsed() < THROUGH_BUDGET) {
        let offset = times.len() as u64 * 8192;
        let (written, nanoseconds) = timed(|| through.write_all_at(&[3; 4], offset));
        written?;
        times.push(nanoseconds);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[(times.len() - 1) / 2])
}

/// The nanoseconds of the fastest of some rounds: what else goes on only adds to them.
fn fastest(mut work: impl FnMut(u32) -> io::Result<()>) -> io::Result<f64> {
    let mut least = f64::MAX;
    for round in 0..ROUNDS {
        let (done, nanoseconds) = timed(|| work(round));
        done?;
        least = least.min(nanoseconds);
    }
    Ok(least)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed().as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_stalls_once_is_not_what_calls_cost() {
        let stall = Duration::from_millis(50);
        let slow_at = |slow: u32| {
            fastest(|round| {
                if round == slow {
                    std::thread::sleep(stall);
                }
                Ok(())
            })
        };
        for round in 0..ROUNDS {
            assert!(slow_at(round).unwrap() < stall.as_nanos() as f64, "{round}");
        }
    }
}
