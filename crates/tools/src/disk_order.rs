//! Where files lie on a device with a head: reading them in this order keeps the head from moving back and forth.
//!
//! Not here: deciding what to read, and in which order it is reported.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_engine::facts::{SeekFacts, Seeks};
use seekless_engine::{BlockDevice, StorageFacts, cache, files};
use seekless_sys::residency;

use crate::handle::path_of;
use crate::threads::in_parts;

/// The beginnings of this many files are read to measure what a read elsewhere costs.
const MEASURED_FILES: usize = 9;
/// Of so many, those are taken that lie so far apart that a drive did not read one ahead for another.
const CANDIDATES: usize = 64;
const APART_BYTES: u64 = 16 << 20;
/// The smallest size of such a file.
pub(crate) const MEASURED_BYTES: u64 = 8 << 10;

/// What the device below a path reports and, if that leaves doubt, what a measurement on files there that were not read yet shows.
/// `files` returns at most as many of them as it is asked for.
pub(crate) fn seek_facts(path: &Path, files: impl FnOnce(usize) -> Vec<PathBuf>) -> SeekFacts {
    let device = StorageFacts::of(path).ok().and_then(|facts| facts.device);
    let facts = SeekFacts {
        claims_rotational: device.as_ref().and_then(|device| device.claims_rotational),
        is_virtual: device.is_some_and(|device| device.is_virtual == Some(true)),
        seeks: None,
    };
    if !facts.are_in_doubt() {
        return facts;
    }
    let place = |path: &Path| {
        let runs = files::places(&File::open(path).ok()?, 0..MEASURED_BYTES).ok()??;
        runs.first().map(|[_, place, _]| *place)
    };
    let (mut places, mut are_known): (Vec<u64>, bool) = Default::default();
    let mut files = files(CANDIDATES);
    files.retain(|path| {
        let place = place(path).filter(|_| places.len() < MEASURED_FILES);
        are_known |= place.is_some();
        let is_apart = |place: &u64| places.iter().all(|other| place.abs_diff(*other) >= APART_BYTES);
        let taken = place.filter(is_apart);
        places.extend(taken);
        taken.is_some()
    });
    // Where places are not known, as on networks, there is no order to gain by.
    if !are_known {
        return SeekFacts {
            claims_rotational: Some(false),
            ..facts
        };
    }
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    SeekFacts {
        seeks: Seeks::of_beginnings(&files),
        ..facts
    }
}

/// At most `most` of these, evenly spread.
pub(crate) fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(most.max(1)).max(1))
}

/// How much of a file is in memory, if the system reports it.
pub(crate) fn resident_bytes(file: &File) -> Option<u64> {
    residency(file).ok()?.available().map(|found| found.resident_bytes)
}

/// A run of blocks to be fetched: its device, its place there, the range of the file, and which file.
type Wanted<N> = (u64, u64, Range<u64>, N);

/// Fetches ranges of files into the page cache in the order in which they lie on their devices, and from several disks at the same time.
/// Of blocks that were fetched for another file, at most `again_bytes` are fetched: each file has pages of its own. Errors are ignored
/// here: the later read of the file reports them. Returns the files of which nothing was in memory.
pub(crate) fn fetch_in_order<N: Copy + Send + Sync>(
    wanted: impl IntoIterator<Item = (N, Range<u64>)>,
    again_bytes: u64,
    open: impl Fn(N) -> io::Result<File> + Sync,
    goes_on: impl Fn() -> bool + Sync,
) -> Vec<N> {
    let (mut parts, mut cold): (Vec<Wanted<N>>, _) = (Vec::new(), Vec::new());
    for (name, range) in wanted.into_iter().take_while(|_| goes_on()) {
        let Ok(file) = open(name) else { continue };
        if resident_bytes(&file) == Some(0) {
            cold.push(name);
        }
        let device = file.metadata().map_or(0, |metadata| metadata.dev());
        let runs = files::places(&file, range).ok().flatten().unwrap_or_default();
        parts.extend(
            runs.into_iter()
                .map(|[at, place, bytes]| (device, place, at..at + bytes, name)),
        );
    }
    let key = |(device, place, range, _): &Wanted<N>| (*device, *place, range.end - range.start);
    parts.sort_unstable_by_key(key);
    for same in parts.chunk_by_mut(|one, other| key(one) == key(other)) {
        for (.., range, _) in &mut same[1..] {
            range.end = range.end.min(range.start.saturating_add(again_bytes));
        }
    }
    let sweep = |parts: &[Wanted<N>]| {
        for (.., range, name) in parts.iter().take_while(|_| goes_on()) {
            let _ = open(*name).and_then(|file| cache::fetch(&file, range.clone()));
        }
    };
    let devices: Vec<&[Wanted<N>]> = parts.chunk_by(|one, other| one.0 == other.0).collect();
    let disks = |parts: &&[Wanted<N>]| open(parts[0].3).map_or_else(|_| Vec::new(), |file| disks_below(&file));
    let apart = match &devices[..] {
        [_, _, ..] => by_disk(devices.iter().map(disks).collect()),
        _ => vec![(0..devices.len()).collect()],
    };
    let sweep_all = |numbers: &[usize]| numbers.iter().for_each(|number| sweep(devices[*number]));
    in_parts(apart.len(), apart.len(), 1, |turn| sweep_all(&apart[turn.start])).for_each(drop);
    cold
}

/// The disks that a file lies on; empty if they are not known.
fn disks_below(file: &File) -> Vec<String> {
    let facts = path_of(file).and_then(|path| StorageFacts::of(path).ok());
    let Some(device) = facts.and_then(|facts| facts.device) else {
        return Vec::new();
    };
    // Simulated disks of one model have one name.
    let identity = |disk: &BlockDevice| format!("{} {}", disk.name, disk.serial.as_deref().unwrap_or_default());
    device.disks().into_iter().map(identity).collect()
}

/// Which of some devices, each with its disks, have to be read one after the other, because they share a disk. One whose disks are not
/// known may share that of any other.
fn by_disk(devices: Vec<Vec<String>>) -> Vec<Vec<usize>> {
    if devices.iter().any(Vec::is_empty) {
        return vec![(0..devices.len()).collect()];
    }
    let mut apart: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for (number, disks) in devices.into_iter().enumerate() {
        let shares = |(others, _): &(Vec<String>, _)| disks.iter().any(|disk| others.contains(disk));
        let (sharing, others): (Vec<_>, Vec<_>) = apart.into_iter().partition(shares);
        let mut joined = (disks, vec![number]);
        for (disks, numbers) in sharing {
            joined.0.extend(disks);
            joined.1.extend(numbers);
        }
        apart = others;
        apart.push(joined);
    }
    apart.into_iter().map(|(_, numbers)| numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::by_disk;

    #[test]
    fn devices_are_swept_at_the_same_time_unless_they_share_a_disk() {
        let groups = |devices: &[&[&str]]| {
            let disks = |disks: &&[&str]| disks.iter().map(ToString::to_string).collect();
            let mut groups = by_disk(devices.iter().map(disks).collect());
            for group in &mut groups {
                group.sort_unstable();
            }
            groups.sort_unstable();
            groups
        };
        assert_eq!(groups(&[&["a"], &["b"], &["c"]]), [vec![0], vec![1], vec![2]]);
        assert_eq!(groups(&[&["a"], &["b"], &["a"]]), [vec![0, 2], vec![1]]);
        assert_eq!(groups(&[&["a"], &["b"], &["c"], &["c", "a"]]), [vec![0, 2, 3], vec![1]]);
        assert_eq!(
            groups(&[&["a"], &["b"], &[], &["c"]]),
            [vec![0, 1, 2, 3]],
            "an unknown one"
        );
    }
}
