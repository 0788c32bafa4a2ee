//! Fetches pairs of files in the order of their places, on a device whose head has to move between the two trees.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use rustix::fs::{FileType, Mode, openat};
use seekless_engine::cache;
use seekless_engine::facts::SeekFacts;
use seekless_engine::plan::LARGE_BYTES;
use seekless_engine::walk::{FOUND_FILE, StatFacts};
use seekless_sys::{first_difference, lock_mutex};

use super::pair::{BLOCK_BYTES, OpenedPair, differ_in_size};
use super::shared::{CompareJob, Matched, PairPiece, Pairs};
use crate::disk_order::{self, MEASURED_BYTES, resident_bytes, spread};
use crate::handle::path_of;

/// At most this many pairs are looked at.
const LOOKED_AT: usize = 64;
/// With fewer pairs, looking does not pay.
const LEAST_LOOKED_AT: usize = 16;
/// From so many that are not in memory, it can be measured whether a head moves.
const LEAST_COLD: usize = 3;
/// Files up to this size are fetched as a whole: a track has 1 to 2 MiB, so coming back for the rest would take longer.
const TRACK_BYTES: u64 = 1 << 20;
/// What is fetched of larger files that may not be read as a whole.
const BEGINNING_BYTES: u64 = BLOCK_BYTES as u64;
/// There are two windows, one being fetched and one being compared. Each takes the available memory divided by this.
const WINDOW_PART: u64 = 8;

/// A regular file of a pair: the piece of the batch that it is in, its entry, and its side.
type FileOfPair = (usize, Matched, usize);

/// If files are read in the order of their places, fetches what will be read of as many pairs as a window holds. `begin_alike` says
/// that their beginnings are equal. Returns the number of pairs and the turn to compare them. One thread fetches at a time, while
/// another compares what it has fetched.
pub(super) fn fetch<'a>(
    job: &'a CompareJob<'_>,
    pieces: &[PairPiece],
    jobs: &[(usize, Matched)],
    begin_alike: bool,
) -> (usize, Option<MutexGuard<'a, ()>>) {
    if job.place.device().is_none() || job.is_stopped() {
        return (jobs.len(), None);
    }
    let fetching = lock_mutex(&job.place.fetching);
    let window_bytes = cache::memory().map_or(0, |memory| memory.available_bytes / WINDOW_PART);
    let (mut wanted, mut bytes, mut fetched) = (Vec::new(), 0, 0);
    for (index, matched) in jobs {
        let ranges = to_be_read(job, &pieces[*index].pairs, matched, begin_alike);
        bytes += ranges.iter().map(|range| range.end).sum::<u64>();
        if fetched > 0 && bytes > window_bytes {
            break;
        }
        fetched += 1;
        let sides = ranges.into_iter().enumerate().filter(|(_, range)| !range.is_empty());
        wanted.extend(sides.map(|(side, range)| ((*index, *matched, side), range)));
    }
    let open = |(index, matched, side): FileOfPair| open(&pieces[index].pairs, &matched, side);
    disk_order::fetch_in_order(wanted, u64::MAX, open, || !job.is_stopped());
    // The next thread fetches when this one compares.
    let comparing = lock_mutex(&job.place.comparing);
    drop(fetching);
    (fetched, Some(comparing))
}

/// Finds out whether files are read in the order of their places, unless those that are read next are in memory. Meanwhile, threads
/// that compare wait, so that nothing else moves the head.
pub(super) fn look_at_device(job: &CompareJob<'_>, mine: impl FnOnce() -> Vec<(Arc<Pairs>, Matched)>, is_warm: bool) {
    if job.place.device.get().is_some() {
        return;
    }
    let mut was_warm = lock_mutex(&job.place.was_warm);
    if job.place.device.get().is_some() || *was_warm && is_warm {
        return;
    }
    let mut pairs = job.waiting_files();
    pairs.extend(mine());
    let pairs: Vec<_> = spread(&pairs, LOOKED_AT).cloned().collect();
    if pairs.len() >= LEAST_LOOKED_AT {
        match cold(&pairs) {
            files if files.len() >= LEAST_COLD => _ = job.place.device.set(moving_head(&files)),
            _ if is_warm => *was_warm = true,
            // What is not in memory is too short, or its residency is not told: it is not looked at again.
            _ => _ = job.place.device.set(None),
        }
    }
}

/// Whether the heads of two files are equal, and the rest will be read but was not fetched.
pub(super) fn is_rest_wanted(job: &CompareJob<'_>, pair: &OpenedPair, [one, other]: [&[u8]; 2]) -> bool {
    let [size, other_size] = pair.facts.each_ref().map(|facts| facts.bytes);
    let is_short = (TRACK_BYTES + 1..LARGE_BYTES).contains(&size.min(other_size));
    job.place.device().is_some() && size != other_size && is_short && first_difference(one, other).is_none()
}

/// What will be read of a pair: nothing if the result is known without reading. If the sizes differ, most files differ in their
/// beginnings; the rest of long ones is fetched if they are known to begin alike. Large files are read by a method of their own.
fn to_be_read(job: &CompareJob<'_>, pairs: &Pairs, matched: &Matched, begin_alike: bool) -> [Range<u64>; 2] {
    let nothing = [0..0, 0..0];
    if matched.entry.kind != FileType::RegularFile {
        return nothing;
    }
    match facts(pairs, matched) {
        Ok(facts) if !(facts[0].id() == facts[1].id() || job.options.brief && differ_in_size(&facts).is_some()) => {
            let common = facts[0].bytes.min(facts[1].bytes);
            let is_likely = begin_alike || facts[0].bytes == facts[1].bytes || common <= TRACK_BYTES;
            let is_whole = is_likely && common < LARGE_BYTES;
            // Reading ends with the block in which the shorter one ends.
            let end = common.next_multiple_of(BEGINNING_BYTES);
            let end = if is_whole { end } else { BEGINNING_BYTES };
            facts.map(|facts| 0..end.min(facts.bytes))
        }
        _ => nothing,
    }
}

/// The files of which nothing is in memory.
fn cold(pairs: &[(Arc<Pairs>, Matched)]) -> Vec<File> {
    // From both trees in turn, so that the files are not adjacent.
    let sides = pairs.iter().zip([0, 1].into_iter().cycle());
    let opened = sides.filter_map(|((pairs, matched), side)| open(pairs, matched, side).ok());
    let is_cold = |file: &File| {
        let is_long = file.metadata().is_ok_and(|found| found.len() >= MEASURED_BYTES);
        is_long && resident_bytes(file) == Some(0)
    };
    opened.filter(is_cold).collect()
}

/// The device of files that are not in memory, if its head has to move between them.
fn moving_head(files: &[File]) -> Option<SeekFacts> {
    let first = path_of(files.first()?)?;
    let paths = |most: usize| spread(files, most).filter_map(path_of).collect();
    Some(disk_order::seek_facts(&first, paths)).filter(SeekFacts::moves_head)
}

fn facts(pairs: &Pairs, matched: &Matched) -> io::Result<[StatFacts; 2]> {
    let handles = pairs.directory.handles().map_err(|(_, error)| error)?;
    let [one, other] = handles.borrowed();
    let name = pairs.listing.c_str(&matched.entry);
    Ok([StatFacts::at(one, name)?, StatFacts::at(other, name)?])
}

fn open(pairs: &Pairs, matched: &Matched, side: usize) -> io::Result<File> {
    let handles = pairs.directory.handles().map_err(|(_, error)| error)?;
    let name = pairs.listing.c_str(&matched.entry);
    Ok(File::from(openat(
        handles.borrowed()[side],
        name,
        FOUND_FILE,
        Mode::empty(),
    )?))
}
