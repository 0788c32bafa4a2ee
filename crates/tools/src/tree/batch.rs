//! Pairs of one kind, many at a time, in the order of their inodes: that is the order in which file systems lay out what
//! was written together.
//!
//! Files that are in memory are opened, read and closed one after the other, which costs least. As soon as a pair keeps
//! its thread waiting, the rest of its batch is opened and handed to the system in one call of `io_uring`: what lies side
//! by side on the device is then fetched in one request. Comparing 100,000 files of 8 KiB with their copies, cold, on a
//! virtual disk took 24 thousand requests and about half the time of 32 threads that read, which made 200 thousand.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use seekless::plan::BATCH;
use seekless_sys::{Ring, RingFlags, Support};

use super::Side;
use super::folder::{Folder, Pair};
use super::look::{compare_special, failed};
use super::pair::{BLOCK_BYTES, Compared, Means, Opened};
use super::queue::Shared;
use crate::walk::{Kind, Name, Names};

/// Bytes of a slot. Most files are not longer; of those that are, reading so much makes the system read ahead.
const SLOT_BYTES: usize = 16 << 10;
/// A ring does not pay for fewer pairs.
const FEWEST: usize = 3;

/// The pairs in a folder that are neither folders nor alone.
pub(super) struct Pairs {
    pub folder: Arc<Folder>,
    pub names: Names,
    /// In the order of their inodes.
    pub matched: Vec<Matched>,
}

/// Two entries of one name and kind.
#[derive(Clone, Copy)]
pub(super) struct Matched {
    pub inode: u64,
    pub name: Name,
    /// Its number in the order of names.
    pub entry: u32,
    pub kind: Kind,
}

/// Part of a batch: pairs of one folder.
pub(super) struct Piece {
    pub pairs: Arc<Pairs>,
    pub range: Range<usize>,
}

/// What a thread needs to compare batches.
pub(super) struct Bench<'a> {
    shared: &'a Shared<'a>,
    means: Means<'a>,
    /// Beginnings of files.
    heads: [Vec<u8>; 2],
    /// What is behind them, in long ones.
    rest: [Vec<u8>; 2],
    ring: Lazy,
}

enum Lazy {
    Unmade,
    Made(Box<Ring>),
    Missing,
}

/// A pair of a batch, with the open folders that it is in.
struct Job<'p> {
    piece: &'p Piece,
    matched: Matched,
    folders: Arc<Pair>,
}

impl Job<'_> {
    fn name(&self) -> &std::ffi::CStr {
        self.piece.pairs.names.c_str(self.matched.name)
    }

    /// What the pair is called in errors of the engine's.
    fn paths(&self, shared: &Shared<'_>) -> [PathBuf; 2] {
        let name = self.piece.pairs.names.bytes(self.matched.name);
        shared.paths(&self.piece.pairs.folder, name)
    }
}

impl<'a> Bench<'a> {
    pub fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            means: shared.means(),
            heads: [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]],
            rest: [Vec::new(), Vec::new()],
            ring: Lazy::Unmade,
        }
    }

    /// Compares all pairs of a batch, and tells their folders.
    pub fn run(&mut self, pieces: &[Piece]) {
        let mut results: Vec<Vec<(u32, Compared)>> = Vec::with_capacity(pieces.len());
        let mut jobs = Vec::with_capacity(BATCH);
        for piece in pieces {
            let mut done = Vec::new();
            match piece.pairs.folder.handles() {
                Ok(folders) => jobs.extend(piece.pairs.matched[piece.range.clone()].iter().map(|matched| {
                    let job = Job {
                        piece,
                        matched: *matched,
                        folders: Arc::clone(&folders),
                    };
                    (results.len(), job)
                })),
                Err((side, error)) => {
                    for matched in &piece.pairs.matched[piece.range.clone()] {
                        let found = vec![failed(Side::BOTH[side], "opening its folder again", error)];
                        let compared = Compared {
                            found,
                            ..Compared::default()
                        };
                        done.push((matched.entry, compared));
                    }
                }
            }
            results.push(done);
        }
        let mut next = 0;
        while next < jobs.len() && !self.shared.is_stopped() {
            let (piece, job) = &jobs[next];
            let begun = Instant::now();
            let compared = self.one(job);
            results[*piece].push((job.matched.entry, compared));
            next += 1;
            let is_worth_it = begun.elapsed() > self.shared.plan.patience && jobs.len() - next >= FEWEST;
            if is_worth_it && let Some(mut ring) = self.take_ring() {
                self.at_once(&mut ring, &jobs[next..], &mut results);
                // One that could not be waited for is not used again.
                if ring.in_flight() == 0 {
                    self.ring = Lazy::Made(ring);
                }
                break;
            }
        }
        drop(jobs);
        for (piece, done) in pieces.iter().zip(results) {
            self.tell(piece, done);
        }
    }

    /// Compares a pair by itself.
    fn one(&mut self, job: &Job<'_>) -> Compared {
        let mut compared = Compared::default();
        let folders = job.folders.borrowed();
        if job.matched.kind == Kind::File {
            if let Some(opened) = Opened::new(folders, job.name(), self.means.options, &mut compared) {
                self.read_and_compare(job, &opened, &mut compared);
            }
        } else {
            let with_metadata = self.means.options.metadata;
            compare_special(
                job.matched.kind,
                folders,
                job.name(),
                with_metadata,
                &mut compared.found,
            );
        }
        compared
    }

    fn read_and_compare(&mut self, job: &Job<'_>, opened: &Opened, compared: &mut Compared) {
        match opened.read_heads(&mut self.heads) {
            Ok(lengths) => {
                let heads = [&self.heads[0][..lengths[0]], &self.heads[1][..lengths[1]]];
                let paths = || job.paths(self.shared);
                opened.compare(heads, &paths, &mut self.rest, &self.means, compared);
            }
            Err(failure) => compared.found.insert(0, failure),
        }
    }

    /// Opens all files, reads the beginnings in one call, and compares them.
    fn at_once(&mut self, ring: &mut Ring, jobs: &[(usize, Job<'_>)], results: &mut [Vec<(u32, Compared)>]) {
        let mut opened = Vec::with_capacity(jobs.len());
        for (piece, job) in jobs {
            if job.matched.kind != Kind::File {
                let compared = self.one(job);
                results[*piece].push((job.matched.entry, compared));
                continue;
            }
            let mut compared = Compared::default();
            match Opened::new(job.folders.borrowed(), job.name(), self.means.options, &mut compared) {
                Some(files) => opened.push((*piece, job, files, compared)),
                None => results[*piece].push((job.matched.entry, compared)),
            }
        }
        let read = read_all(ring, opened.iter().map(|(_, _, files, _)| files));
        for (index, (piece, job, files, mut compared)) in opened.into_iter().enumerate() {
            if let [Some(one), Some(other)] = read[index] {
                let slot = 2 * index as u32;
                let heads = [&ring.buffer(slot)[..one], &ring.buffer(slot + 1)[..other]];
                let paths = || job.paths(self.shared);
                files.compare(heads, &paths, &mut self.rest, &self.means, &mut compared);
            } else {
                self.read_and_compare(job, &files, &mut compared);
            }
            results[piece].push((job.matched.entry, compared));
        }
    }

    /// The ring, made when it is first needed. None where the system does not let it, as in sandboxes, or may not lock more
    /// memory: then there are threads.
    fn take_ring(&mut self) -> Option<Box<Ring>> {
        match std::mem::replace(&mut self.ring, Lazy::Missing) {
            Lazy::Made(ring) => Some(ring),
            Lazy::Missing => None,
            Lazy::Unmade => match Ring::new(2 * BATCH as u32, SLOT_BYTES, 1) {
                Ok(Support::Available(ring)) => {
                    self.shared.rings.fetch_add(1, Ordering::Relaxed);
                    Some(Box::new(ring))
                }
                Ok(Support::Unavailable(_)) | Err(_) => None,
            },
        }
    }

    fn tell(&self, piece: &Piece, done: Vec<(u32, Compared)>) {
        let pairs = &piece.pairs;
        let mut bytes = 0;
        let mut identical = 0;
        let mut found = Vec::new();
        let mut finished = Vec::with_capacity(done.len());
        for (entry, compared) in done {
            bytes += compared.bytes;
            identical += u64::from(compared.is_identical);
            finished.push(entry);
            if !compared.found.is_empty() {
                found.push((entry, compared.found));
            }
        }
        let files = pairs.matched[piece.range.clone()]
            .iter()
            .filter(|pair| pair.kind == Kind::File)
            .count() as u64;
        self.shared
            .count_files(files, piece.range.len() as u64 - files, bytes, identical);
        let name_of = |entry| {
            let mut all = pairs.matched[piece.range.clone()].iter();
            let matched = all.find(|matched| matched.entry == entry);
            matched.map_or_else(Box::default, |matched| Box::from(pairs.names.bytes(matched.name)))
        };
        pairs.folder.release(piece.range.len());
        pairs.folder.update(|state| {
            for entry in &finished {
                state.is_waited_for[*entry as usize] = false;
            }
            state.waited_for -= finished.len();
            for (entry, what) in found {
                state.found.insert(entry, (name_of(entry), what));
            }
        });
    }
}

/// The lengths of what was read to the slots, two for each pair; `None` where that failed. Whoever reads such a file again
/// gets the system's reason.
fn read_all<'o>(ring: &mut Ring, opened: impl ExactSizeIterator<Item = &'o Opened>) -> Vec<[Option<usize>; 2]> {
    let mut lengths = vec![[None; 2]; opened.len()];
    for (index, files) in opened.enumerate() {
        for (side, file) in files.files.iter().enumerate() {
            let slot = (2 * index + side) as u32;
            if ring
                .submit_read(slot, file, 0, 0, SLOT_BYTES, RingFlags::default())
                .is_err()
            {
                return lengths;
            }
        }
    }
    while ring.in_flight() > 0 {
        let Ok(completed) = ring.wait() else { break };
        lengths[completed.slot as usize / 2][completed.slot as usize % 2] = completed.result.ok();
    }
    lengths
}
