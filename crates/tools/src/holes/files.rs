//! The files that a job is about: those named, and those in directories, each once.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seekless::batch::Threads;
use seekless::plan::FILES_AHEAD;

use super::Stop;
use super::zeros::PIECE_BYTES;
use crate::walk::{FileAt, Found, Selection};

/// What of directories was not worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Further names of files that were worked on already.
    pub repeated: u64,
    /// Symbolic links, FIFOs, sockets, devices.
    pub special: u64,
    /// Directories of other file systems.
    pub other_file_systems: u64,
}

/// Works on each file, on several small ones at once, and tells what became of each, in the order in which the system lists
/// them; `failed` is told of each directory that cannot be listed, and the reason. `Break` ends it, and so does `stop`.
pub fn each_file<T: Send>(
    selection: &Selection,
    stop: &Stop,
    work: impl Fn(&FileAt) -> T + Sync,
    mut tell: impl FnMut(&Path, T) -> ControlFlow<()>,
    failed: &mut dyn FnMut(PathBuf, String),
) -> Left {
    let threads = Threads::default();
    let mut work_on = |files: Vec<FileAt>| {
        let done = threads.map(&files, |file| (!stop.is_stopped()).then(|| work(file)));
        for (file, done) in files.iter().zip(done) {
            // All that was done is told, whoever stopped the rest.
            if let Some(done) = done {
                tell(file.path(), done)?;
            }
        }
        if stop.is_stopped() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let mut waiting = Vec::new();
    let mut take = |file: FileAt, is_small: bool| {
        if is_small {
            waiting.push(file);
            if waiting.len() < FILES_AHEAD {
                return ControlFlow::Continue(());
            }
            return work_on(std::mem::take(&mut waiting));
        }
        // All threads work on a large one.
        work_on(std::mem::take(&mut waiting))?;
        work_on(vec![file])
    };
    let (left, ended) = files(selection, &mut take, failed);
    if ended.is_continue() {
        let _ = work_on(waiting);
    }
    left
}

/// Calls `take` with each file, and whether it is known to be small.
fn files(
    selection: &Selection,
    take: &mut dyn FnMut(FileAt, bool) -> ControlFlow<()>,
    failed: &mut dyn FnMut(PathBuf, String),
) -> (Left, ControlFlow<()>) {
    let mut left = Left::default();
    let mut several_names = HashSet::new();
    for root in selection.roots() {
        for found in selection.walk(root) {
            match found {
                Found::File(file) => {
                    // What cannot be looked at says so when it is opened.
                    let facts = file.facts().ok().filter(|_| !file.is_named());
                    let is_repeated = facts.is_some_and(|facts| {
                        let id = facts.id();
                        let is_met = selection.contains(id) || (facts.names > 1 && !several_names.insert(id));
                        is_met && file.is_sure(&facts)
                    });
                    if is_repeated {
                        left.repeated += 1;
                        continue;
                    }
                    let ended = take(file, facts.is_some_and(|facts| facts.bytes <= PIECE_BYTES));
                    if ended.is_break() {
                        return (left, ended);
                    }
                }
                Found::Link | Found::Special => left.special += 1,
                Found::OtherFileSystem => left.other_file_systems += 1,
                Found::Repeated => left.repeated += 1,
                Found::Failed(path, reason) => failed(path, reason),
            }
        }
    }
    (left, ControlFlow::Continue(()))
}
