//! Pairs of one kind, many at a time, in the order of their inodes: the engine reads their beginnings, and here they are
//! compared.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use seekless::batch::{Each, Failed, Heads};

use super::Side;
use super::directory::{Directory, Pair};
use super::look::{compare_special, failed};
use super::pair::{Compared, Means, Opened};
use super::queue::Shared;
use crate::walk::{Kind, Name, Names};

/// The pairs in a directory that are neither directories nor alone.
pub(super) struct Pairs {
    pub directory: Arc<Directory>,
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

/// Part of a batch: pairs of one directory.
pub(super) struct Piece {
    pub pairs: Arc<Pairs>,
    pub range: Range<usize>,
}

/// What a thread needs to compare batches.
pub(super) struct Bench<'a> {
    shared: &'a Shared<'a>,
    heads: Heads<2>,
    /// What is behind the beginnings of long files.
    rest: [Vec<u8>; 2],
}

/// A batch at work.
struct Batch<'a> {
    shared: &'a Shared<'a>,
    means: Means<'a>,
    rest: &'a mut [Vec<u8>; 2],
    /// What came of the pairs of each piece.
    results: Vec<Vec<(u32, Compared)>>,
}

/// A pair of a batch, with the open directories that it is in.
struct Job<'p> {
    piece: &'p Piece,
    /// The piece's number.
    index: usize,
    matched: Matched,
    directories: Arc<Pair>,
}

impl Job<'_> {
    fn name(&self) -> &std::ffi::CStr {
        self.piece.pairs.names.c_str(self.matched.name)
    }

    /// What the pair is called in errors of the engine's.
    fn paths(&self, shared: &Shared<'_>) -> [PathBuf; 2] {
        let name = self.piece.pairs.names.bytes(self.matched.name);
        shared.paths(&self.piece.pairs.directory, name)
    }
}

impl<'p> Each<2> for Batch<'p> {
    type Item = Job<'p>;
    type Opened = (Job<'p>, Opened, Compared);

    fn open(&mut self, job: Job<'p>) -> Option<Self::Opened> {
        if self.shared.is_stopped() {
            return None;
        }
        let mut compared = Compared::default();
        let (directories, options) = (job.directories.borrowed(), self.means.options);
        if job.matched.kind == Kind::File {
            if let Some(opened) = Opened::new(directories, job.name(), options, &mut compared) {
                return Some((job, opened, compared));
            }
        } else {
            let found = &mut compared.found;
            compare_special(job.matched.kind, directories, job.name(), options.metadata, found);
        }
        self.results[job.index].push((job.matched.entry, compared));
        None
    }

    fn files((_, opened, _): &Self::Opened) -> &[Arc<File>; 2] {
        &opened.files
    }

    fn take(&mut self, (job, opened, mut compared): Self::Opened, heads: Result<[&[u8]; 2], Failed>) {
        match heads {
            Ok(heads) => {
                let paths = || job.paths(self.shared);
                opened.compare(heads, &paths, self.rest, &self.means, &mut compared);
            }
            Err((side, error)) => compared.found.insert(0, failed(Side::BOTH[side], "reading", error)),
        }
        self.results[job.index].push((job.matched.entry, compared));
    }
}

impl<'a> Bench<'a> {
    pub fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            heads: Heads::new(&shared.plan),
            rest: [Vec::new(), Vec::new()],
        }
    }

    /// Whether files were met that were not in memory, and read by a ring.
    pub fn has_ring(&self) -> bool {
        self.heads.has_ring()
    }

    /// Compares all pairs of a batch, and tells their directories.
    pub fn run(&mut self, pieces: &[Piece]) {
        let mut batch = Batch {
            shared: self.shared,
            means: self.shared.means(),
            rest: &mut self.rest,
            results: pieces.iter().map(|_| Vec::new()).collect(),
        };
        let mut jobs = Vec::with_capacity(self.shared.plan.batch);
        for (index, piece) in pieces.iter().enumerate() {
            let matched = piece.pairs.matched[piece.range.clone()].iter().copied();
            match piece.pairs.directory.handles() {
                Ok(directories) => jobs.extend(matched.map(|matched| Job {
                    piece,
                    index,
                    matched,
                    directories: Arc::clone(&directories),
                })),
                Err((side, error)) => batch.results[index].extend(matched.map(|matched| {
                    let found = vec![failed(Side::BOTH[side], "opening its directory again", error)];
                    let compared = Compared {
                        found,
                        ..Compared::default()
                    };
                    (matched.entry, compared)
                })),
            }
        }
        self.heads.read(jobs, &mut batch);
        for (piece, done) in pieces.iter().zip(batch.results) {
            self.tell(piece, done);
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
        pairs.directory.release(piece.range.len());
        pairs.directory.update(|state| {
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
