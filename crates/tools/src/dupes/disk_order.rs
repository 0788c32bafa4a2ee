//! The order in which files are read: by inode or, if the device has to move a head, by their places on it.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::PoisonError;

use seekless_engine::batch::Threads;
use seekless_engine::facts::SeekFacts;
use seekless_engine::plan::{FIRST_BYTES, Scan};
use seekless_engine::{Scanner, cache, files, plan};

use super::Search;
use super::cache::{is_digest_kept, meet_systems};
use super::opened::layout_of;
use crate::disk_order::{self, MEASURED_BYTES, resident_bytes, spread};

/// How many files are sampled to see whether they are in memory.
const LOOKED_AT: usize = 64;

/// Plans how files are read, and puts them in that order. They must be sorted by device and inode.
pub(super) fn look_at_devices(search: &mut Search<'_>, numbers: &mut [u32]) {
    meet_systems(search, numbers);
    if !spread(numbers, LOOKED_AT).any(|number| is_cold(search, *number)) {
        return;
    }
    let of_devices = numbers.chunk_by(|one, other| search.files.get(*one).device == search.files.get(*other).device);
    let devices: Vec<SeekFacts> = of_devices.clone().map(|numbers| seek_facts(search, numbers)).collect();
    let most = of_devices.max_by_key(|numbers| numbers.len()).unwrap_or_default();
    let beginnings = Scan {
        files: numbers.len() as u64,
        bytes: (numbers.len() * FIRST_BYTES) as u64,
        resident: Some(0.0),
    };
    let path = most
        .first()
        .map(|number| search.files.path(*number))
        .unwrap_or_default();
    let batch = Scanner::batch_plan(&path, &beginnings, &search.process);
    search.threads = Threads::new(batch.threads);
    let moves_head = devices.iter().any(SeekFacts::moves_head);
    let memory_bytes = moves_head.then(cache::memory).flatten();
    let memory_bytes = memory_bytes.map_or(0, |memory| memory.available_bytes);
    search.plan = plan::duplicates(batch, &search.process, &devices, memory_bytes);
    if search.plan.is_by_place() {
        let place = |number: &u32| {
            let place = search.files.open(*number).and_then(|(file, _)| files::place(&file));
            // If it is not known, the inode is the best estimate.
            place.ok().flatten().unwrap_or_else(|| search.files.get(*number).inode)
        };
        numbers.sort_by_cached_key(|number| (search.files.get(*number).device, place(number)));
    }
}

/// Whether a part of a file is not in memory.
pub(super) fn is_cold(search: &Search<'_>, number: u32) -> bool {
    let bytes = search.files.get(number).bytes;
    let opened = search.files.open(number);
    opened.is_ok_and(|(file, _)| resident_bytes(&file).is_none_or(|resident| resident < bytes))
}

/// What is known of the device that these files lie on.
fn seek_facts(search: &Search<'_>, numbers: &[u32]) -> SeekFacts {
    let is_long = |number: &&u32| search.files.get(**number).bytes >= MEASURED_BYTES;
    disk_order::seek_facts(&search.files.path(numbers[0]), |most| {
        let long: Vec<u32> = numbers.iter().filter(is_long).copied().collect();
        spread(&long, most).map(|number| search.files.path(*number)).collect()
    })
}

/// Fetches ranges of files into the page cache in the order in which they lie on the device, and of blocks that were fetched for
/// another file at most `again_bytes`. Returns the files of which nothing was in memory.
pub(super) fn fetch_in_order(
    search: &Search<'_>,
    wanted: impl Iterator<Item = (u32, Range<u64>)>,
    again_bytes: u64,
) -> Vec<u32> {
    let open = |number: u32| Ok(search.files.open(number)?.0);
    disk_order::fetch_in_order(wanted, again_bytes, open, || !search.stop.is_stopped())
}

/// If files are read in the order of the device, fetches what will be read of the files of as many groups as may be in memory, at
/// most `bytes_max` of each. Returns the number of groups: at least one, which is not fetched if it alone is too large.
pub(super) fn fetch_groups(search: &Search<'_>, groups: &[&Vec<u32>], bytes_max: u64) -> usize {
    let Some(window_bytes) = search.plan.window_bytes else {
        return groups.len();
    };
    let (mut wanted, mut bytes, mut fitting) = (Vec::new(), 0_u64, 0);
    for group in groups {
        let read = read_of(search, group, bytes_max);
        bytes = read.iter().map(|(_, range)| range.end).fold(bytes, u64::saturating_add);
        if bytes > window_bytes {
            break;
        }
        fitting += 1;
        wanted.extend(read);
    }
    let cold = fetch_in_order(search, wanted.into_iter(), u64::MAX);
    if !search.options.keeps_cached {
        search.cold.write().unwrap_or_else(PoisonError::into_inner).extend(cold);
    }
    fitting.max(1)
}

/// What will be read of the files of a group, within their first `bytes_max`.
fn read_of(search: &Search<'_>, group: &[u32], bytes_max: u64) -> Vec<(u32, Range<u64>)> {
    // A file that only stands for its twins is not read again.
    if group.len() < 2 {
        return Vec::new();
    }
    let bytes = search.files.get(group[0]).bytes;
    let mut layouts = HashSet::new();
    // Of files that share all blocks, one is read, unless only their beginnings are.
    let mut is_first = |number: u32| layout_of(search, number).is_none_or(|layout| layouts.insert(layout));
    let mut read = group.to_vec();
    read.retain(|number| !is_digest_kept(search, *number) && (bytes > bytes_max || is_first(*number)));
    read.into_iter()
        .map(|number| (number, 0..bytes.min(bytes_max)))
        .collect()
}

/// Puts groups in the order of their first files.
pub(super) fn put_in_order(search: &Search<'_>, numbers: &[u32], groups: &mut [Vec<u32>]) {
    let mut position = vec![0_u32; search.files.len() as usize];
    for (at, number) in (0..).zip(numbers) {
        position[*number as usize] = at;
    }
    for group in &mut *groups {
        group.sort_unstable_by_key(|number| position[*number as usize]);
    }
    groups.sort_unstable_by_key(|group| position[group[0] as usize]);
}
