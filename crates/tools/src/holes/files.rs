//! The files of a job: those named, and those in directories, each once.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use super::zeros::PIECE_BYTES;
use crate::Stop;
use crate::walk::{FileAt, FileClass, Left, Selection, SmallFiles, each_file as each_below};

/// Processes each file, several small ones at a time, and reports each result in the order in which the system lists
/// the files; for a path that cannot be processed or listed, the reason. `Break` and `stop` end it.
pub fn each_file<T: Send>(
    selection: &Selection,
    stop: &Stop,
    work: impl Fn(&FileAt) -> T + Sync,
    mut tell: impl FnMut(&Path, Result<T, String>) -> ControlFlow<()>,
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
    for root in selection.roots() {
        let mut walk = selection.walk(root, stop);
        let flow = each_below(&mut walk, &threads, &mut look, &work, &mut |_, told| match told {
            Ok((file, done)) => tell(file.path(), Ok(done)),
            Err((path, reason)) => tell(&path, Err(reason)),
        });
        left.add(&walk.rules.left);
        if flow.is_break() {
            break;
        }
    }
    left
}
