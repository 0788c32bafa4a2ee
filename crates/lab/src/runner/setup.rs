//! What one trial measures, its files, the paths that its process is told, and why it may not be recorded.
//!
//! Not here: making the files, and measuring (`trial`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use seekless_engine::Visits;
use seekless_record::{self as record, Contest, Entry, EntryVerdict, Target};

use super::BenchError;
use crate::testfile::TestFile;
use crate::trial::TrialPaths;

/// What one trial measures, and its files.
pub(super) struct TrialSetup {
    pub contest: Contest,
    pub entry: Entry,
    pub sources: Vec<TestFile>,
    /// The second files of a comparison.
    pub others: Vec<TestFile>,
    pub targets: Vec<PathBuf>,
    /// For random access, the blocks to move in each file, and the seed of their order.
    pub visits: Vec<Visits>,
    pub draw_seed: u64,
    /// The seed of the written bytes.
    pub seed: u64,
}

impl TrialSetup {
    /// The files that are read, each once.
    pub fn read(&self) -> impl Iterator<Item = &TestFile> + Clone {
        let pairs = self.others.iter().zip(&self.sources);
        let distinct = pairs.filter(|(other, source)| other.path != source.path);
        self.sources.iter().chain(distinct.map(|(other, _)| other))
    }

    /// The files that must be in the cache state of the trial: those that are read or overwritten.
    pub fn held(&self, target: Target) -> impl Iterator<Item = &Path> + Clone {
        let sources = self.read().map(|file| file.path.as_path());
        let overwritten = self.targets.iter().filter(move |_| target == Target::Overwrite);
        sources.chain(overwritten.map(PathBuf::as_path))
    }

    /// The paths for the child, in the order in which it takes them.
    pub fn paths(&self) -> Vec<TrialPaths> {
        let contest = &self.contest;
        let path = |path: Option<&PathBuf>| path.map(OsString::from).unwrap_or_default();
        let paths = |index: usize| TrialPaths {
            source: path(self.sources.get(index).map(|file| &file.path)),
            other: path(self.others.get(index).map(|file| &file.path)),
            target: path(self.targets.get(index)),
            bytes: contest.size_bytes,
            part_start: self.sources.get(index).and_then(TestFile::part_start),
        };
        if !self.entry.command().is_some_and(record::Command::takes_tree) {
            return (0..contest.files as usize).map(paths).collect();
        }
        let of_files = paths(0);
        vec![TrialPaths {
            source: contest.tree.as_ref().map_or(of_files.source, OsString::from),
            bytes: self.sources.iter().map(|file| file.bytes).sum(),
            ..of_files
        }]
    }
}

impl Drop for TrialSetup {
    /// Removes what the trial wrote, except files with random overwrites, which are used again.
    fn drop(&mut self) {
        let is_kept = !self.visits.is_empty() && self.contest.target == Target::Overwrite;
        for path in self.targets.iter().filter(|_| !is_kept) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The seed of the old content of a file to overwrite or update.
pub(super) fn target_seed(seed: u64) -> u64 {
    !seed
}

/// Why a trial is not recorded.
#[derive(Debug)]
pub(super) enum UnrecordedTrial {
    /// Its entry is no longer measured.
    Retired(EntryVerdict),
    /// The run is stopped, and its entry is still measured.
    Stopped,
    Failed(BenchError),
}

impl<E: Into<BenchError>> From<E> for UnrecordedTrial {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl UnrecordedTrial {
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Retired(EntryVerdict::unavailable(why))
    }
}
