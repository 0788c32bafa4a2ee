//! Comparing pairs of entries in batches, in the order of their inodes. The engine reads the heads of files.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, openat};
use seekless_engine::batch::{HeadConsumer, HeadFailure, HeadReader};
use seekless_engine::walk::{FOUND_FILE, StatFacts, in_each};

use super::disk_order::{fetch, is_rest_wanted, look_at_device};
use super::look::{compare_special, failed};
use super::pair::{CompareContext, ComparedPair, OpenedPair, differ_in_size};
use super::shared::{CompareJob, Matched, PairPiece};
use super::{TreeFinding, TreeSummary};

/// The state of a thread that compares batches.
pub(super) struct PairBatch<'a> {
    job: &'a CompareJob<'a>,
    means: CompareContext<'a>,
    pieces: Vec<PairPiece>,
    /// Pairs that begin alike, and whose rest is fetched before they are compared.
    alike: Vec<(usize, Matched)>,
    /// Whether the pairs that are compared now are such pairs.
    begin_alike: bool,
    /// What was done in this batch.
    summary: TreeSummary,
}

impl HeadConsumer<2> for PairBatch<'_> {
    type Item = (usize, Matched);
    type Opened = (usize, Matched, OpenedPair, ComparedPair);

    fn open(&mut self, (index, matched): (usize, Matched)) -> Option<Self::Opened> {
        if self.means.stop.is_stopped() {
            return None;
        }
        let pairs = Arc::clone(&self.pieces[index].pairs);
        let mut compared = ComparedPair::default();
        let handles = match pairs.directory.handles() {
            Ok(handles) => handles,
            Err((side, error)) => {
                compared.found.push(failed(side, "open its directory again", error));
                self.done(index, matched, compared);
                return None;
            }
        };
        let directories = handles.borrowed();
        let (kind, name) = (matched.entry.kind, pairs.listing.c_str(&matched.entry));
        let options = self.means.options;
        if kind == FileType::RegularFile {
            let open = |side: usize| Ok(File::from(openat(directories[side], name, FOUND_FILE, Mode::empty())?));
            if let Some(opened) = OpenedPair::new(open, options, &mut compared) {
                return Some((index, matched, opened, compared));
            }
            // Files that may not be read differ if their sizes do.
            let is_unread = compared
                .found
                .iter()
                .any(|what| matches!(what, TreeFinding::Failed { .. }));
            if options.brief && is_unread {
                let facts = in_each("stat", &mut |_, _, _| (), |side| {
                    Ok(StatFacts::at(directories[side], name)?)
                });
                if let Some(difference) = facts.and_then(|facts| differ_in_size(&facts)) {
                    compared.found = vec![difference];
                }
            }
        } else {
            compare_special(kind, directories, name, options.metadata, &mut compared.found);
        }
        self.done(index, matched, compared);
        None
    }

    fn files((.., opened, _): &Self::Opened) -> &[Arc<File>; 2] {
        &opened.files
    }

    fn take(&mut self, (index, matched, opened, mut compared): Self::Opened, heads: Result<[&[u8]; 2], HeadFailure>) {
        match heads {
            Ok(heads) if !self.begin_alike && is_rest_wanted(self.job, &opened, heads) => {
                self.alike.push((index, matched));
                return;
            }
            Ok(heads) => opened.compare(heads, &mut self.means, &mut compared),
            Err((side, error)) => compared.found.insert(0, failed(side, "read", error)),
        }
        self.done(index, matched, compared);
    }
}

impl<'a> PairBatch<'a> {
    pub fn new(job: &'a CompareJob<'a>) -> Self {
        Self {
            job,
            means: job.means(),
            pieces: Vec::new(),
            alike: Vec::new(),
            begin_alike: false,
            summary: TreeSummary::default(),
        }
    }

    /// Compares all pairs of a batch, and reports the results to their directories.
    pub fn run(&mut self, heads: &mut HeadReader<2>, pieces: Vec<PairPiece>) {
        self.pieces = pieces;
        let jobs = self.pieces.iter().enumerate().flat_map(|(index, piece)| {
            let matched = piece.pairs.matched[piece.range.clone()].iter().copied();
            matched.map(move |matched| (index, matched))
        });
        let jobs: Vec<(usize, Matched)> = jobs.collect();
        let mine = || {
            jobs.iter()
                .map(|(index, matched)| (Arc::clone(&self.pieces[*index].pairs), *matched))
        };
        look_at_device(self.job, || mine().collect(), heads.is_warm());
        self.read(heads, &jobs);
        let alike = std::mem::take(&mut self.alike);
        self.begin_alike = true;
        self.read(heads, &alike);
        self.begin_alike = false;
        for PairPiece { pairs, range, done } in self.pieces.drain(..) {
            pairs.directory.release(range.len());
            pairs.directory.own.update(|state| {
                for (matched, found) in done {
                    state.is_waited_for[matched.number as usize] = false;
                    state.add(matched.number, pairs.listing.name(&matched.entry), found);
                }
            });
        }
        let batch = std::mem::take(&mut self.summary);
        self.job.count(|all| {
            all.files += batch.files;
            all.others += batch.others;
            all.bytes = all.bytes.saturating_add(batch.bytes);
            all.identical += batch.identical;
        });
    }

    /// Compares pairs, as many at a time as are fetched.
    fn read(&mut self, heads: &mut HeadReader<2>, jobs: &[(usize, Matched)]) {
        let mut rest = jobs;
        while !rest.is_empty() {
            let (fetched, turn) = fetch(self.job, &self.pieces, rest, self.begin_alike);
            let (now, later) = rest.split_at(fetched);
            heads.read(now.iter().copied(), self);
            drop(turn);
            rest = later;
        }
    }

    fn done(&mut self, piece: usize, matched: Matched, compared: ComparedPair) {
        let is_file = matched.entry.kind == FileType::RegularFile;
        self.summary.files += u64::from(is_file);
        self.summary.others += u64::from(!is_file);
        self.summary.bytes = self.summary.bytes.saturating_add(compared.bytes);
        self.summary.identical += u64::from(compared.is_identical);
        self.pieces[piece].done.push((matched, compared.found));
    }
}
