//! The order in which files are read: by inode or, if the device has to move a head, by their places on it.

use std::ops::Range;

use seekless::batch::Threads;
use seekless::plan::{FIRST_BYTES, Scan, SeekFacts};
use seekless::{Scanner, cache, files, plan};

use super::Search;
use crate::place::{self, MEASURED_BYTES, resident_bytes, spread};

/// How many files are sampled to see whether they are in memory.
const LOOKED_AT: usize = 64;

impl Search<'_> {
    /// Plans how files are read, and puts them in that order. They must be sorted by device and inode.
    pub fn look_at_devices(&mut self, numbers: &mut [u32]) {
        if !spread(numbers, LOOKED_AT).any(|number| self.is_cold(*number)) {
            return;
        }
        let of_devices = numbers.chunk_by(|one, other| self.files.get(*one).device == self.files.get(*other).device);
        let devices: Vec<SeekFacts> = of_devices.clone().map(|numbers| self.seek_facts(numbers)).collect();
        let most = of_devices.max_by_key(|numbers| numbers.len()).unwrap_or_default();
        let beginnings = Scan {
            files: numbers.len() as u64,
            bytes: (numbers.len() * FIRST_BYTES) as u64,
            resident: Some(0.0),
        };
        let path = most.first().map(|number| self.files.path(*number)).unwrap_or_default();
        let batch = Scanner::batch_plan(&path, &beginnings, &self.process);
        self.threads = Threads::new(batch.threads);
        let memory_bytes = cache::memory().map_or(0, |memory| memory.available_bytes);
        self.plan = plan::duplicates(batch, &self.process, &devices, memory_bytes);
        if self.plan.is_by_place {
            let place = |number: &u32| {
                let place = self.files.open(*number).and_then(|(file, _)| files::place(&file));
                // If it is not known, the inode is the best estimate.
                place.ok().flatten().unwrap_or_else(|| self.files.get(*number).inode)
            };
            numbers.sort_by_cached_key(|number| (self.files.get(*number).device, place(number)));
        }
    }

    /// Whether a part of a file is not in memory.
    fn is_cold(&self, number: u32) -> bool {
        let bytes = self.files.get(number).bytes;
        let opened = self.files.open(number);
        opened.is_ok_and(|(file, _)| resident_bytes(&file).is_none_or(|resident| resident < bytes))
    }

    /// What is known of the device that these files lie on.
    fn seek_facts(&self, numbers: &[u32]) -> SeekFacts {
        let is_long = |number: &&u32| self.files.get(**number).bytes >= MEASURED_BYTES;
        place::seek_facts(&self.files.path(numbers[0]), |most| {
            let long: Vec<u32> = numbers.iter().filter(is_long).copied().collect();
            spread(&long, most).map(|number| self.files.path(*number)).collect()
        })
    }

    /// Fetches ranges of files into the page cache in the order in which they lie on the device.
    pub fn fetch_in_order(&self, wanted: impl Iterator<Item = (u32, Range<u64>)>) {
        let open = |number: u32| Ok(self.files.open(number)?.0);
        place::fetch_in_order(wanted, open, || !self.stop.is_stopped());
    }

    /// Puts groups in the order of their first files.
    pub fn put_in_order(&self, numbers: &[u32], groups: &mut [Vec<u32>]) {
        let mut position = vec![0_u32; self.files.len() as usize];
        for (at, number) in (0..).zip(numbers) {
            position[*number as usize] = at;
        }
        for group in &mut *groups {
            group.sort_unstable_by_key(|number| position[*number as usize]);
        }
        groups.sort_unstable_by_key(|group| position[group[0] as usize]);
    }
}
