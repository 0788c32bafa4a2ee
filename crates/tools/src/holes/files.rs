//! The files that a job is about: those named, and those in folders, each once.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::batch::Threads;
use seekless::files::Identity;
use seekless::plan::FILES_AHEAD;

use super::zeros::PIECE_BYTES;
use super::{Selection, Stop};
use crate::cache::selection::{Found, is_sure};

/// What of folders was not worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Further names of files that were worked on already.
    pub repeated: u64,
    /// Symbolic links, FIFOs, sockets, devices.
    pub special: u64,
    /// Folders of other file systems.
    pub other_file_systems: u64,
}

/// Works on each file, on several small ones at once, and tells what became of each, in the order in which the system lists
/// them; `failed` is told of each folder that cannot be listed, and the reason. `Break` ends it, and so does `stop`.
pub fn each_file<T: Send>(
    selection: &Selection,
    stop: &Stop,
    work: impl Fn(&Path) -> T + Sync,
    mut tell: impl FnMut(&Path, T) -> ControlFlow<()>,
    failed: &mut dyn FnMut(PathBuf, String),
) -> Left {
    let threads = Threads::default();
    let mut work_on = |paths: Vec<PathBuf>| {
        let done = threads.map(&paths, |path| (!stop.is_stopped()).then(|| work(path)));
        for (path, done) in paths.iter().zip(done) {
            // All that was done is told, whoever stopped the rest.
            if let Some(done) = done {
                tell(path, done)?;
            }
        }
        if stop.is_stopped() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let mut waiting = Vec::new();
    let mut take = |path: PathBuf, is_small: bool| {
        if is_small {
            waiting.push(path);
            if waiting.len() < FILES_AHEAD {
                return ControlFlow::Continue(());
            }
            return work_on(std::mem::take(&mut waiting));
        }
        // All threads work on a large one.
        work_on(std::mem::take(&mut waiting))?;
        work_on(vec![path])
    };
    let (left, ended) = files(selection, &mut take, failed);
    if ended.is_continue() {
        let _ = work_on(waiting);
    }
    left
}

/// Calls `file` with each file, and whether it is known to be small.
fn files(
    selection: &Selection,
    file: &mut dyn FnMut(PathBuf, bool) -> ControlFlow<()>,
    failed: &mut dyn FnMut(PathBuf, String),
) -> (Left, ControlFlow<()>) {
    let mut left = Left::default();
    let mut several_names = HashSet::new();
    for root in selection.roots() {
        for found in selection.walk(root) {
            match found {
                Found::File(path) => {
                    // What cannot be looked at says so when it is opened.
                    let metadata = fs::metadata(&path).ok().filter(|_| root.is_folder);
                    let is_repeated = metadata.as_ref().is_some_and(|metadata| {
                        let id = Identity::of(metadata);
                        selection.is_named(id, &path)
                            || (metadata.nlink() > 1 && !several_names.insert(id) && is_sure(&path))
                    });
                    if is_repeated {
                        left.repeated += 1;
                        continue;
                    }
                    let ended = file(path, metadata.is_some_and(|metadata| metadata.len() <= PIECE_BYTES));
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
