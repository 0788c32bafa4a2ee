//! The files that a job is about: those named, and those in folders, each once.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Selection;
use crate::cache::selection::{Found, id_of};

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

/// Calls `file` with each file, in the order in which the system lists it, and `failed` with each folder that cannot be
/// listed and the reason. `Break` ends it.
pub fn files(
    selection: &Selection,
    file: &mut dyn FnMut(&Path) -> ControlFlow<()>,
    failed: &mut dyn FnMut(PathBuf, String),
) -> Left {
    let mut left = Left::default();
    let mut several_names = HashSet::new();
    for root in selection.roots() {
        for found in selection.walk(root) {
            match found {
                Found::File(path) => {
                    // What cannot be looked at says so when it is opened.
                    let metadata = fs::metadata(&path).ok().filter(|_| root.is_folder);
                    let is_repeated = metadata.is_some_and(|metadata| {
                        let id = id_of(&metadata);
                        selection.is_named(id) || (metadata.nlink() > 1 && !several_names.insert(id))
                    });
                    if is_repeated {
                        left.repeated += 1;
                    } else if file(&path).is_break() {
                        return left;
                    }
                }
                Found::Link | Found::Special => left.special += 1,
                Found::OtherFileSystem => left.other_file_systems += 1,
                Found::Repeated => left.repeated += 1,
                Found::Failed(path, reason) => failed(path, reason),
            }
        }
    }
    left
}
