//! Comparing two roots: the threads that list and compare, and the one that reports.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::FileType;
use seekless_engine::Scanner;
use seekless_engine::batch::HeadReader;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::files::{FileId, kind_of, read_some};
use seekless_engine::plan::{self, BatchPlan, Scan};
use seekless_engine::walk::{Limit, open_root};

use super::batch::PairBatch;
use super::directory::{Directory, ListProgress, dismantle};
use super::list::list;
use super::look::compare_with_none;
use super::pair::{ComparedPair, OpenedPair};
use super::shared::{CompareJob, QueuedWork, for_pairs};
use super::tell::Teller;
use super::{EntryDifference, Side, TreeError, TreeEvent, TreeFinding, TreeOptions, TreeSummary};
use crate::threads::beside;
use crate::watch::JobWatch;

/// Compares two trees, or two regular files, and reports findings in the order of the names, depth first. Roots that
/// are symbolic links are followed.
///
/// # Errors
/// If a root is not accessible (one that is missing is empty if new files count), or neither is a directory and not both are files. Errors below the roots are reported, and the comparison
/// continues.
pub fn compare(
    one: &Path,
    other: &Path,
    options: &TreeOptions<'_>,
    watch: &dyn for<'e> JobWatch<TreeEvent<'e>>,
) -> Result<TreeSummary, TreeError> {
    let process = ProcessFacts::here();
    let plan = for_pairs(plan::batch(&process));
    // What no scan measures: the threads also list directories, and read equal files in pairs to their ends.
    let ask = |pairs: usize| {
        let asked = Scanner::batch_plan(one, &Scan::of_unknown(2 * pairs), &process);
        for_pairs(BatchPlan {
            threads: asked.threads.max(plan.threads),
            batch: asked.batch.min(plan.batch),
            open_directories: asked.open_directories.min(plan.open_directories),
            head_bytes: asked.head_bytes.map(|bytes| bytes.max(plan.head_bytes[1])),
            ..asked
        })
    };
    compare_by(plan.clone(), Some(&ask), [one, other], *options, watch)
}

/// Plans for a number of pairs.
type Ask<'a> = &'a dyn Fn(usize) -> BatchPlan;

/// The same by a given plan, or by the one that is asked for when the roots are listed.
pub(super) fn compare_by(
    plan: BatchPlan,
    ask: Option<Ask<'_>>,
    roots: [&Path; 2],
    mut options: TreeOptions<'_>,
    watch: &dyn for<'e> JobWatch<TreeEvent<'e>>,
) -> Result<TreeSummary, TreeError> {
    let is_there = |side: usize| fs::metadata(roots[side]).is_ok_and(|found| found.is_dir() || found.is_file());
    let is_gone = |side: usize| fs::metadata(roots[side]).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let only = [0, 1]
        .into_iter()
        .find(|side| options.new_files && is_there(*side) && is_gone(1 - side));
    let [one, other] = only.map_or(roots, |only| [roots[only]; 2]);
    let stat = |path: &Path| fs::metadata(path).map_err(|source| root_error(path, "stat", source));
    let found = [stat(one)?, stat(other)?];
    let kinds = found.each_ref().map(kind_of);
    options.same_files |= FileId::of(&found[0]) == FileId::of(&found[1]);
    let job = CompareJob::new(options, plan, watch.stop());
    let mut teller = Teller::new(&job, watch);
    if kinds == [FileType::RegularFile; 2] {
        let _ = teller.tell(b"", &compare_files(&job, roots, only));
        return Ok(job.summary());
    }
    if !kinds.contains(&FileType::Directory) {
        let (one, other) = (one.to_owned(), other.to_owned());
        return Err(TreeError::NoDirectories { one, other });
    }
    if kinds[0] != kinds[1] {
        let _ = teller.tell(b"", &[TreeFinding::Difference(EntryDifference::Kinds(kinds))]);
        return Ok(job.summary());
    }
    let open = |path: &Path| open_root(path).map_err(|error| root_error(path, "open", error));
    let limit = Limit::new(job.plan().open_directories);
    let handles = [open(one)?, open(other)?];
    let mut root = Directory::root(handles, Path::new(""), &limit, ListProgress::default());
    if let Some(only) = only {
        root = root.only_in(only);
    }
    if root.own.claim() {
        list(&job, &root);
    }
    if let Some(ask) = ask {
        job.asked.get_or_init(|| ask(job.expected_pairs()));
    }
    let tell = || {
        // The threads end even if the teller panics.
        let _end = End(&job);
        teller.tell_all(root);
    };
    // With fewer threads it is slower, but even the teller alone can do all the work.
    beside(job.threads_for_roots(), || work(&job), tell);
    dismantle(job.take_directories());
    Ok(job.summary())
}

/// Compares two named files, or the only one that exists with none.
fn compare_files(job: &CompareJob<'_>, roots: [&Path; 2], only: Option<usize>) -> Vec<TreeFinding> {
    let mut compared = ComparedPair::default();
    if let Some(only) = only {
        let read = fs::File::open(roots[only]).and_then(|file| read_some(&file, &mut [0], 0));
        let is_empty = read.map(|bytes| bytes == 0).map_err(|error| (only, error));
        compared.found = compare_with_none(Side::BOTH[only], is_empty);
    } else if let Some(opened) = OpenedPair::new(|side| fs::File::open(roots[side]), job.options, &mut compared) {
        opened.compare_alone(&mut job.means(), &mut compared);
    }
    job.count(|done| {
        done.files += 1;
        done.bytes += compared.bytes;
        done.identical += u64::from(compared.is_identical);
    });
    compared.found
}

struct End<'a, 's>(&'a CompareJob<'s>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn root_error(path: &Path, action: &'static str, source: std::io::Error) -> TreeError {
    TreeError::Root {
        path: path.to_owned(),
        action,
        source,
    }
}

/// The work of a thread: listing directories, and comparing pairs in batches.
fn work(job: &CompareJob<'_>) {
    let (mut heads, mut batch) = (HeadReader::new(job.plan()), PairBatch::new(job));
    while let Some(next) = job.next() {
        match next {
            QueuedWork::List(directory) => list(job, &directory),
            QueuedWork::Compare(pieces) => batch.run(&mut heads, pieces),
        }
    }
    job.count(|done| done.rings += usize::from(heads.has_ring()));
}
