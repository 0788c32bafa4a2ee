//! Files that are not in memory are fetched before they are copied: on a device with a head in the order in which they lie on it, on
//! others some at the same time.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, openat};
use seekless::cache;
use seekless::walk::{FOUND_FILE, StatFacts};

use super::data::is_cold;
use super::queue::{Copying, ListedEntries};
use crate::place::{MEASURED_BYTES, fetch_in_order, seek_facts, spread};

/// With fewer files, looking does not pay.
const LEAST_LOOKED_AT: usize = 16;
/// Larger files are read by large requests anyway.
const FETCHED_BYTES_MAX: u64 = 8 << 20;

/// So many files are fetched before they are copied: a device without a head serves them at the same time.
const AHEAD: usize = 32;
/// So much of each; the kernel reads ahead in the rest.
const AHEAD_BYTES: u64 = 1 << 20;

impl Copying<'_> {
    /// Finds out by the files of a directory whether a head moves between them, unless that is known.
    pub fn look_at_device(&self, listed: &ListedEntries) {
        let entries = listed.listing.entries().iter();
        let files: Vec<_> = entries.filter(|entry| entry.kind == FileType::RegularFile).collect();
        if self.by_place.get().is_some() || files.len() < LEAST_LOOKED_AT {
            return;
        }
        let Ok(handles) = listed.directory.handles() else {
            return;
        };
        let is_long = |path: &PathBuf| path.metadata().is_ok_and(|found| found.len() >= MEASURED_BYTES);
        let path = |entry| listed.directory.path_of(listed.listing.name(entry));
        let paths = |most: usize| {
            spread(&files, 64)
                .map(|entry| path(entry))
                .filter(is_long)
                .take(most)
                .collect()
        };
        let why = seek_facts(&listed.directory.path_of(b""), paths).why_by_place();
        drop(handles);
        let _ = self.by_place.set(why);
    }

    /// Fetches files of a directory, if a head moves between them. Returns the numbers of those of which nothing was in memory.
    pub fn fetch(&self, listed: &ListedEntries, range: Range<usize>) -> HashSet<usize> {
        if !matches!(self.by_place.get(), Some(Some(_))) {
            return HashSet::new();
        }
        let Ok(handles) = listed.directory.handles() else {
            return HashSet::new();
        };
        let source = handles.borrowed()[0];
        let name = |number: usize| listed.listing.c_str(&listed.listing.entries()[number]);
        let wanted = range.filter_map(|number| {
            let facts = StatFacts::at(source, name(number)).ok()?;
            (facts.is_file() && facts.bytes <= FETCHED_BYTES_MAX).then_some((number, 0..facts.bytes))
        });
        let open = |number: usize| Ok(openat(source, name(number), FOUND_FILE, Mode::empty())?.into());
        fetch_in_order(wanted, u64::MAX, open, || !self.stop.is_stopped())
            .into_iter()
            .collect()
    }

    /// Begins to fetch the next files of those in `range` that are not in memory, and does not wait for them. Those before `ahead` were
    /// fetched. Adds the numbers of those of which nothing was in memory.
    pub fn fetch_ahead(
        &self,
        listed: &ListedEntries,
        range: Range<usize>,
        ahead: &mut usize,
        fetched: &mut HashSet<usize>,
    ) {
        if matches!(self.by_place.get(), Some(Some(_))) {
            return;
        }
        let Ok(handles) = listed.directory.handles() else {
            return;
        };
        let until = range.end.min(range.start + AHEAD);
        for number in range.start.max(*ahead)..until {
            let entry = &listed.listing.entries()[number];
            if entry.kind != FileType::RegularFile {
                continue;
            }
            // Errors are told when it is copied.
            if let Ok(file) = openat(
                handles.borrowed()[0],
                listed.listing.c_str(entry),
                FOUND_FILE,
                Mode::empty(),
            ) {
                let file = File::from(file);
                let bytes = StatFacts::of(&file).map_or(0, |found| found.bytes.min(AHEAD_BYTES));
                if bytes > 0 && is_cold(&file).unwrap_or(false) && cache::fetch(&file, 0..bytes).is_ok() {
                    fetched.insert(number);
                }
            }
        }
        *ahead = until.max(*ahead);
    }
}
