//! Files that are not in memory are fetched before they are copied: on a device with a head in the order in which they lie on it, on
//! others some at the same time.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::fs::{FileType, Mode, openat};
use seekless_engine::cache;
use seekless_engine::facts::SeekFacts;
use seekless_engine::walk::{FOUND_FILE, StatFacts};

use super::Existing;
use super::copying::{CopyBatch, Copying, ListedEntries};
use super::data::is_cold;
use crate::disk_order::{MEASURED_BYTES, fetch_in_order, seek_facts, spread};

/// With fewer files, looking does not pay.
const LEAST_LOOKED_AT: usize = 16;
/// Larger files are read by large requests anyway.
const FETCHED_BYTES_MAX: u64 = 8 << 20;
/// The most that is fetched at a time, where memory has it.
const WINDOW_BYTES: u64 = 256 << 20;
/// In so many directories at most, files are looked for that are far enough from each other.
const LOOKS: u32 = 16;

/// So many files are fetched before they are copied: a device without a head serves them at the same time.
const AHEAD: usize = 32;
/// So much of each; the kernel reads ahead in the rest.
const AHEAD_BYTES: u64 = 1 << 20;

/// Finds out by the files of a directory whether a head moves between them, unless that is known.
pub(super) fn look_at_device(shared: &Copying<'_>, listed: &ListedEntries) {
    if shared.options.dry_run || shared.by_place.get().is_some() {
        return;
    }
    let entries = listed.listing.entries().iter();
    let files: Vec<_> = entries.filter(|entry| entry.kind == FileType::RegularFile).collect();
    if files.len() < LEAST_LOOKED_AT {
        return;
    }
    let is_long = |path: &PathBuf| path.metadata().is_ok_and(|found| found.len() >= MEASURED_BYTES);
    let path = |entry| listed.directory.path_of(listed.listing.name(entry));
    let paths = |most: usize| {
        spread(&files, 64)
            .map(|entry| path(entry))
            .filter(is_long)
            .take(most)
            .collect()
    };
    let facts = seek_facts(&listed.directory.path_of(b""), paths);
    // Other files may lie farther apart, and a head sometimes happens to be near. Without one, three measurements say so.
    let weight = match facts.claims_rotational {
        Some(false) => LOOKS,
        _ if facts.are_in_doubt() => 1,
        _ => LOOKS.div_ceil(3),
    };
    if facts.moves_head() || shared.looks.fetch_add(weight, Ordering::Relaxed) + weight >= LOOKS {
        let _ = shared.by_place.set(Some(facts).filter(SeekFacts::moves_head));
    }
}

/// Fetches the files of batches in the order in which they lie on the device, and returns those batches that have to wait for the
/// next time because of the memory.
pub(super) fn fetch(shared: &Copying<'_>, batches: &mut Vec<CopyBatch>) -> Vec<CopyBatch> {
    let most = cache::memory().map_or(0, |memory| memory.available_bytes / 8);
    let most = most.clamp(FETCHED_BYTES_MAX, WINDOW_BYTES);
    let (mut bytes, mut count, mut wanted) = (0, 0, Vec::new());
    for batch in &*batches {
        if bytes > most {
            break;
        }
        if let Ok(handles) = batch.listed.directory.handles() {
            for number in batch.range.clone() {
                if may_stay(shared, batch, number, handles.borrowed()[1]) {
                    continue;
                }
                let found = StatFacts::at(handles.borrowed()[0], batch.listed.name(number)).ok();
                let is_wanted = |found: &StatFacts| {
                    found.is_file() && found.bytes <= FETCHED_BYTES_MAX && !may_be_linked(shared, batch, found)
                };
                if let Some(found) = found.filter(is_wanted) {
                    wanted.push(((count, number), 0..found.bytes));
                    bytes += found.bytes;
                }
            }
        }
        count += 1;
    }
    let rest = batches.split_off(count);
    let open = |(count, number): (usize, usize)| {
        let listed = &batches[count].listed;
        let handles = listed.directory.handles().map_err(|(_, error)| error)?;
        let opened = openat(handles.borrowed()[0], listed.name(number), FOUND_FILE, Mode::empty());
        Ok(File::from(opened?))
    };
    let fetched = fetch_in_order(wanted, u64::MAX, open, || !shared.stop.is_stopped());
    for (count, number) in fetched {
        batches[count].fetched.insert(number);
    }
    rest
}

/// Whether the target has something that may stay in the place of a file, which then is not read.
fn may_stay(shared: &Copying<'_>, batch: &CopyBatch, number: usize, target: BorrowedFd<'_>) -> bool {
    let resumes = shared.journal.as_ref().is_some_and(|journal| !journal.is_first);
    let may_stay = resumes || shared.options.existing != Existing::Replaced || shared.options.same.is_some();
    let is_new = batch.listed.directory.own.is_new.load(Ordering::Relaxed);
    may_stay && !is_new && StatFacts::at(target, batch.listed.name(number)).is_ok()
}

/// Whether a name may only be linked, because another name of the file was met or may be in the target.
fn may_be_linked(shared: &Copying<'_>, batch: &CopyBatch, found: &StatFacts) -> bool {
    let is_new = batch.listed.directory.own.is_new.load(Ordering::Relaxed);
    found.names > 1 && shared.options.preserved.links && (!is_new || shared.links.is_met(found.id()))
}

/// Begins to fetch those of the `next` files of a batch that are not in memory, and does not wait for them. Those before `ahead` were
/// fetched.
pub(super) fn fetch_ahead(shared: &Copying<'_>, batch: &mut CopyBatch, next: usize, ahead: &mut usize) {
    if shared.is_by_place() {
        return;
    }
    let Ok(handles) = batch.listed.directory.handles() else {
        return;
    };
    let until = batch.range.end.min(next + AHEAD);
    for number in next.max(*ahead)..until {
        if batch.listed.listing.entries()[number].kind != FileType::RegularFile {
            continue;
        }
        if may_stay(shared, batch, number, handles.borrowed()[1]) {
            continue;
        }
        // Errors are told when it is copied.
        let name = batch.listed.name(number);
        if let Ok(file) = openat(handles.borrowed()[0], name, FOUND_FILE, Mode::empty()) {
            let file = File::from(file);
            let Ok(found) = StatFacts::of(&file) else { continue };
            let bytes = found.bytes.min(AHEAD_BYTES);
            if bytes > 0
                && !may_be_linked(shared, batch, &found)
                && is_cold(&file, true).unwrap_or(false)
                && cache::fetch(&file, 0..bytes).is_ok()
            {
                batch.fetched.insert(number);
            }
        }
    }
    *ahead = until.max(*ahead);
}
