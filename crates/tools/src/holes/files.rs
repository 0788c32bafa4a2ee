//! The files of a job: those named, and those in directories, each once.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::zeros::PIECE_BYTES;
use crate::walk::{FileAt, FileClass, Left, Selection, SmallFiles, each_file as each_below};
use crate::watch::{ClosureWatch, JobCounters, JobProgress, JobWatch};

/// An event of a job: a file was processed. Events come in the order in which the system lists the files, by the thread that
/// called [`each_file`].
#[derive(Debug)]
pub struct HoleEvent<'a, T> {
    /// The path.
    pub path: &'a Path,
    /// What was done; or why it cannot be processed or listed.
    pub result: Result<T, String>,
}

impl<'a, T> HoleEvent<'a, T> {
    fn new(path: &'a Path, result: Result<T, String>) -> Self {
        Self { path, result }
    }
}

/// Processes each file, several small ones at a time. `work` has a watch for its file, whose progress is added to that of the
/// job.
pub fn each_file<T: Send>(
    selection: &Selection,
    work: impl Fn(&FileAt, &dyn JobWatch) -> T + Sync,
    watch: &dyn for<'e> JobWatch<HoleEvent<'e, T>>,
) -> Left {
    let threads = SmallFiles::new();
    let mut left = Left::default();
    let mut several_names = HashSet::new();
    let mut look = |file: &FileAt| {
        // A file that cannot be examined fails when it is opened.
        let Some(facts) = file.facts().ok().filter(|_| !file.is_named()) else {
            return FileClass::Large;
        };
        let id = facts.id();
        let is_met = selection.contains(id) || (facts.names > 1 && !several_names.insert(id));
        if is_met && file.is_sure(&facts) {
            FileClass::Repeated
        } else if facts.bytes <= PIECE_BYTES {
            FileClass::Small
        } else {
            FileClass::Large
        }
    };
    let counters = JobCounters::default();
    let work = |file: &FileAt| {
        let done_bytes = AtomicU64::new(0);
        let progress = |progress: &JobProgress| {
            let before = done_bytes.fetch_max(progress.done_bytes, Ordering::Relaxed);
            watch.progress(&counters.add(0, progress.done_bytes.saturating_sub(before)));
        };
        let no_event = |never: Infallible| match never {};
        work(file, &ClosureWatch::new(watch.stop(), progress, no_event))
    };
    for root in selection.roots() {
        let mut walk = selection.walk(root, watch.stop());
        let flow = each_below(&mut walk, &threads, &mut look, &work, &mut |_, told| {
            watch.progress(&counters.add(1, 0));
            match told {
                Ok((file, done)) => watch.event(HoleEvent::new(file.path(), Ok(done))),
                Err((path, reason)) => watch.event(HoleEvent::new(&path, Err(reason))),
            }
        });
        left.add(&walk.rules.left);
        if flow.is_break() {
            break;
        }
    }
    left
}
