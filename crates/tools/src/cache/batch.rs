//! Doing something to all files of a selection: several at once, told in the order of the walk, in bounded memory.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::OFlags;
use seekless::batch::Threads;
use seekless::cache::{CachedFile, Resident};
use seekless::files::Identity;
use seekless::full_text;
use seekless::plan::FILES_AHEAD;

use super::{Control, FileState, Total, Watch};
use crate::walk::{FileAt, Found, Root, Selection, is_sure};

/// What became of a file.
pub(super) struct Acted {
    pub before: Option<Resident>,
    pub resident: Resident,
}

/// What is done to each file, on several threads.
type Act<'a> = &'a (dyn Fn(&CachedFile) -> seekless::Result<Acted> + Sync);

/// Acts on every file, and gives a total for each path that was named.
pub(super) fn run(selection: &Selection, act: Act<'_>, control: &Control<'_>, watch: &mut dyn Watch) -> Vec<Total> {
    let mut job = Job {
        selection,
        act,
        control,
        threads: Threads::default(),
        names: HashSet::new(),
    };
    let mut totals = Vec::new();
    for root in selection.roots() {
        totals.push(job.root(root, watch));
        if control.is_stopped() {
            break;
        }
    }
    totals
}

struct Job<'a> {
    selection: &'a Selection,
    act: Act<'a>,
    control: &'a Control<'a>,
    threads: Threads,
    /// Files with several names that were met.
    names: HashSet<Identity>,
}

/// A file that was acted on.
struct Done {
    id: Identity,
    /// Whether it was named itself, too.
    is_elsewhere: bool,
    has_more_names: bool,
    state: FileState,
}

/// What became of a file, or its path and why nothing did.
type Outcome = Result<Done, (PathBuf, String)>;

impl Job<'_> {
    fn root(&mut self, root: &Root, watch: &mut dyn Watch) -> Total {
        let mut total = Total {
            path: root.path.clone(),
            is_directory: root.is_directory,
            ..Total::default()
        };
        let mut walk = self.selection.walk(root);
        let mut files = Vec::with_capacity(FILES_AHEAD);
        loop {
            let mut is_end = true;
            for found in walk.by_ref() {
                match found {
                    Found::File(file) => files.push(file),
                    Found::Link => total.links += 1,
                    Found::Special => total.special += 1,
                    Found::OtherFileSystem => total.other_file_systems += 1,
                    Found::Repeated => total.repeated += 1,
                    Found::Failed(path, reason) => {
                        total.failed += 1;
                        watch.failed(&path, &reason);
                    }
                }
                if files.len() == FILES_AHEAD {
                    is_end = false;
                    break;
                }
            }
            for done in self.act_on(&files) {
                if !self.tell(done, root, &mut total, watch) {
                    return total;
                }
            }
            if is_end || self.control.is_stopped() {
                return total;
            }
            files.clear();
        }
    }

    /// What became of the files, in their order; nothing of those that were not begun when all was stopped.
    fn act_on(&self, files: &[FileAt]) -> Vec<Option<Outcome>> {
        let one = |file: &FileAt| (!self.control.is_stopped()).then(|| self.one(file));
        self.threads.map(files, one)
    }

    fn one(&self, file: &FileAt) -> Outcome {
        let path = file.path();
        let failed = |reason| (path.to_owned(), reason);
        let cached = if file.is_named() {
            CachedFile::open(path)
        } else {
            let opened = file.open(OFlags::RDONLY);
            CachedFile::of(
                opened.map_err(|(action, error)| failed(format!("{action} failed: {error}")))?,
                path,
            )
        };
        let acted = cached.and_then(|cached| Ok(((self.act)(&cached)?, cached)));
        let (acted, cached) = acted.map_err(|error| failed(reason_of(error)))?;
        let metadata = cached.metadata();
        let id = Identity::of(metadata);
        Ok(Done {
            id,
            is_elsewhere: self.selection.contains(id) && is_sure(cached.file()),
            has_more_names: metadata.nlink() > 1 && is_sure(cached.file()),
            state: FileState {
                path: path.to_owned(),
                is_named: file.is_named(),
                bytes: metadata.len(),
                before: acted.before,
                resident: acted.resident,
            },
        })
    }

    /// Counts a file unless it was counted already, and tells of it. Whether to go on.
    fn tell(&mut self, done: Option<Outcome>, root: &Root, total: &mut Total, watch: &mut dyn Watch) -> bool {
        match done {
            None => return false,
            Some(Err(error)) => {
                total.failed += 1;
                watch.failed(&error.0, &error.1);
            }
            Some(Ok(done)) => {
                if root.is_directory && self.is_repeated(&done) {
                    total.repeated += 1;
                } else {
                    total.count(&done.state);
                    return watch.file(&done.state).is_continue();
                }
            }
        }
        true
    }

    fn is_repeated(&mut self, done: &Done) -> bool {
        done.is_elsewhere || (done.has_more_names && !self.names.insert(done.id))
    }
}

/// What an error says behind the path.
fn reason_of(error: seekless::Error) -> String {
    match error {
        seekless::Error::System { action, source, .. } => format!("{action} failed: {source}"),
        seekless::Error::NotRegular { kind, .. } => format!("has become {kind} meanwhile"),
        error => full_text(&error),
    }
}
