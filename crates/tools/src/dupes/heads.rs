//! Grouping files of one size by their beginnings.

use std::collections::HashSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use seekless_engine::batch::HeadReader;
use seekless_engine::plan::{FIRST_BYTES, WHOLE_BYTES};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::cache_of;
use super::disk_order::{fetch_in_order, put_in_order};
use super::heads_part::{Digest, HeadsPart};
use super::opened::forget;
use super::resident::LeftResident;
use super::twins::Twins;
use super::{Failed, Search};
use crate::threads::in_threads;
use crate::watch::{JobPhase, JobProgress};

/// Files that a thread takes at a time. A few in tests, so that equal files fall into several chunks.
const CHUNK: usize = if cfg!(test) { 4 } else { 256 };

/// The same where files are fetched in the order of the device: in one sweep of the head.
const FETCHED_FILES: usize = 4096;

/// Files that are read between two pauses of [`Search::all_heads`].
const TOGETHER: usize = 1 << 16;

/// What reading the beginnings of files found.
#[derive(Default)]
pub(super) struct AllHeads {
    pub digests: Vec<Digest>,
    pub failed: Vec<Failed>,
    /// Files whose digests may not be used later.
    pub unkept: Vec<u32>,
    /// Files whose beginning is all of them, with its digest.
    pub small: Vec<(u32, blake3::Hash)>,
}

/// Files by their beginnings.
#[derive(Default)]
pub(super) struct Beginnings {
    /// Files of one size with equal beginnings; also single ones, if they have twins.
    pub groups: Vec<Vec<u32>>,
    pub failed: Vec<Failed>,
    /// Files that were not in memory, not even in part.
    pub cold: HashSet<u32>,
}

/// Groups files by their beginnings.
pub(super) fn by_heads(search: &mut Search<'_>, numbers: &[u32]) -> Beginnings {
    let mut found = Beginnings::default();
    let mut digests = Vec::new();
    let mut twins = Vec::new();
    let in_turn = (!search.plan.is_by_place()).then(|| by_name(search, numbers));
    for part in read_heads(search, in_turn.as_deref().unwrap_or(numbers), numbers.len()) {
        keep_heads(search, &part.new);
        digests.push(part.digests);
        twins.push(part.twins);
        found.failed.extend(part.failed);
        found.cold.extend(part.cold);
    }
    search.twins = Twins::of(twins, search.files.len());
    found.groups = alike(search, digests);
    put_in_order(search, numbers, &mut found.groups);
    found
}

fn keep_heads(search: &Search<'_>, new: &[Digest]) {
    if let Some(cache) = &search.cache {
        cache.add_heads(new.iter().map(|(digest, number)| (*number, *digest)));
    }
}

/// Reads the beginnings of files, in their order, and does something now and then.
pub(super) fn all_heads(
    search: &mut Search<'_>,
    numbers: &[u32],
    mut now_and_then: impl FnMut(&Search<'_>),
) -> AllHeads {
    let mut found = AllHeads::default();
    let mut cold = HashSet::new();
    for some in numbers.chunks(TOGETHER) {
        for part in read_heads(search, some, numbers.len()) {
            keep_heads(search, &part.new);
            found.digests.extend(part.digests);
            found.failed.extend(part.failed);
            found.unkept.extend(part.unkept);
            found.small.extend(part.small);
            cold.extend(part.cold);
        }
        now_and_then(search);
    }
    if !search.options.keeps_cached {
        forget(search, &cold, &[]);
        search.cold = RwLock::new(cold);
    }
    found
}

/// Puts small files with the same name and size after each other. Copies of directories have many of these; most equal files
/// are then open at the same time.
fn by_name(search: &Search<'_>, numbers: &[u32]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let mut last = vec![NONE; (2 * numbers.len()).next_power_of_two()];
    // Where the next file of the same name is.
    let mut next = vec![NONE; numbers.len()];
    let mut has_one_before = vec![false; numbers.len()];
    for (at, number) in numbers.iter().enumerate() {
        let (name, bytes) = (search.files.name(*number), search.files.get(*number).bytes);
        if bytes > WHOLE_BYTES {
            continue;
        }
        let slot = xxh3_64_with_seed(name, bytes) as usize & (last.len() - 1);
        let before = std::mem::replace(&mut last[slot], at as u32) as usize;
        let is_same = |other: &u32| search.files.get(*other).bytes == bytes && search.files.name(*other) == name;
        if numbers.get(before).is_some_and(is_same) {
            next[before] = at as u32;
            has_one_before[at] = true;
        }
    }
    let mut ordered = Vec::with_capacity(numbers.len());
    for first in (0..numbers.len()).filter(|at| !has_one_before[*at]) {
        let mut at = first;
        while let Some(number) = numbers.get(at) {
            ordered.push(*number);
            at = next[at] as usize;
        }
    }
    ordered
}

/// Reads the beginnings of files, in their order; `of` is how many the search reads in all.
fn read_heads<'s>(search: &'s Search<'s>, numbers: &[u32], of: usize) -> Vec<HeadsPart<'s>> {
    let next = AtomicUsize::new(0);
    let is_cold = AtomicBool::new(false);
    let sizes = numbers.iter().map(|number| search.files.get(*number).bytes);
    let fetched_bytes = search.plan.fetched_bytes(sizes);
    let work = |until_cold: bool| {
        let mut part = HeadsPart::new(search);
        let mut heads = HeadReader::new(&search.plan.batch);
        // To keep digests in the cache, each file is opened and checked by itself.
        let mut resident = search
            .finds_twins
            .then(|| LeftResident::new(search.plan.batch.batch, &search.process))
            .flatten();
        let mut is_warm = true;
        let taken = if fetched_bytes.is_some() { FETCHED_FILES } else { CHUNK };
        while !(until_cold && is_cold.load(Ordering::Relaxed) || search.stop.is_stopped()) {
            let start = next.fetch_add(taken, Ordering::Relaxed);
            let Some(chunk) = numbers
                .get(start..numbers.len().min(start + taken))
                .filter(|chunk| !chunk.is_empty())
            else {
                break;
            };
            let mut unknown = chunk.to_vec();
            unknown.retain(|number| {
                let cache = cache_of(search, *number);
                let known = cache.and_then(|cache| cache.head(*number, search.files.get(*number)));
                part.digests.extend(known.map(|digest| (digest, *number)));
                known.is_none()
            });
            if let Some(fetched_bytes) = fetched_bytes {
                let wanted = unknown.iter().map(|number| (*number, 0..fetched_bytes));
                part.cold.extend(fetch_in_order(search, wanted, FIRST_BYTES as u64));
            }
            if let Some(resident) = resident.as_mut().filter(|_| is_warm) {
                let rest = resident.read(&unknown, &mut part);
                is_warm = !rest.is_cold;
                part.are_missed = true;
                heads.read(rest.missed, &mut part);
                part.are_missed = false;
                heads.read(rest.untried, &mut part);
            } else {
                heads.read(unknown, &mut part);
                is_warm = heads.is_warm();
            }
            is_cold.fetch_or(!is_warm, Ordering::Relaxed);
            part.compare_open();
            let done = search.done.fetch_add(chunk.len() as u64, Ordering::Relaxed) + chunk.len() as u64;
            let progress = JobProgress::of_entries(JobPhase::Beginnings, done, Some(of as u64));
            search.watch.progress(&progress);
        }
        part
    };
    // Reading from memory keeps all processors busy; more threads only help to wait for a device.
    let threads = search.plan.batch.threads;
    let mut parts = in_threads(threads.min(search.process.processors), || work(true));
    if is_cold.load(Ordering::Relaxed) {
        parts.extend(in_threads(threads, || work(false)));
    }
    parts
}

/// Groups of files with the same size and digest; a file that equals only its twins is a group of its own.
pub(super) fn alike(search: &Search<'_>, parts: Vec<Vec<Digest>>) -> Vec<Vec<u32>> {
    let mut digests = Vec::new();
    digests.reserve_exact(parts.iter().map(Vec::len).sum());
    for part in parts {
        digests.extend(part);
    }
    digests.sort_unstable();
    let mut groups = Vec::new();
    for alike in digests.chunk_by_mut(|one, other| one.0 == other.0) {
        // One digest of two sizes is very rare.
        alike.sort_by_key(|(_, number)| search.files.get(*number).bytes);
        let sizes = alike.chunk_by(|one, other| search.files.get(one.1).bytes == search.files.get(other.1).bytes);
        for group in sizes.filter(|group| search.is_group(group.iter().map(|(_, number)| *number))) {
            groups.push(group.iter().map(|(_, number)| *number).collect::<Vec<u32>>());
        }
    }
    groups
}
