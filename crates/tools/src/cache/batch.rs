//! Acting on all files of a selection.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::OFlags;
use seekless_engine::cache::{CachedFile, Resident};
use seekless_engine::files::FileId;
use seekless_engine::full_text;
use seekless_engine::walk::is_sure;

use super::{CacheEvent, CacheFileState, Total, Watch};
use crate::walk::{FileAt, FileClass, Selection, SmallFiles, each_file};
use crate::watch::{JobCounters, PathFailure};

/// The action on each file, on several threads. Returns the residency before, if it changes it, and now.
pub(super) type Act<'a> = &'a (dyn Fn(&CachedFile) -> seekless_engine::Result<(Option<Resident>, Resident)> + Sync);

/// Acts on every file, and returns a total for each path that was named.
pub(super) fn run(selection: &Selection, act: Act<'_>, watch: Watch<'_>, counters: &JobCounters) -> Vec<Total> {
    let threads = SmallFiles::new();
    // Files with several hard links that were found.
    let mut met = HashSet::new();
    let mut totals = Vec::new();
    for root in selection.roots() {
        let mut total = Total {
            path: root.path.clone(),
            is_directory: root.is_directory,
            ..Total::default()
        };
        let mut walk = selection.walk(root, watch.stop());
        let flow = each_file(
            &mut walk,
            &threads,
            &mut |_| FileClass::Small,
            &|file| one(selection, act, file),
            &mut |left, told| {
                let unlisted = match told {
                    Ok((_, Ok(done))) => {
                        let is_met = done.is_elsewhere || (done.has_more_names && !met.insert(done.id));
                        if root.is_directory && is_met {
                            left.repeated += 1;
                            return ControlFlow::Continue(());
                        }
                        total.count(&done.state);
                        watch.progress(&counters.add(1, 0));
                        return watch.event(CacheEvent::File(&done.state));
                    }
                    Ok((file, Err(reason))) => (file.path().to_owned(), reason),
                    Err(unlisted) => unlisted,
                };
                total.failed += 1;
                let (path, reason) = (&unlisted.0, &unlisted.1);
                watch.event(CacheEvent::Failed(PathFailure { path, reason }))
            },
        );
        total.left = walk.rules.left;
        totals.push(total);
        if flow.is_break() {
            break;
        }
    }
    totals
}

/// A file that was acted on.
struct Done {
    id: FileId,
    /// Whether it is also named itself.
    is_elsewhere: bool,
    has_more_names: bool,
    state: CacheFileState,
}

fn one(selection: &Selection, act: Act<'_>, file: &FileAt) -> Result<Done, String> {
    let path = file.path();
    let is_device = file.is_named() && path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let cached = if is_device {
        CachedFile::open_device(path)
    } else if file.is_named() {
        CachedFile::open(path)
    } else {
        let opened = file.open(OFlags::RDONLY);
        let opened = opened.map_err(|(action, error)| format!("cannot {action}: {error}"))?;
        CachedFile::of(opened, path)
    };
    let acted = cached.and_then(|cached| Ok((act(&cached)?, cached)));
    let ((before, resident), cached) = acted.map_err(reason_of)?;
    let metadata = cached.metadata();
    let id = FileId::of(metadata);
    Ok(Done {
        id,
        is_elsewhere: selection.contains(id) && is_sure(cached.file()),
        has_more_names: metadata.nlink() > 1 && is_sure(cached.file()),
        state: CacheFileState {
            path: path.to_owned(),
            is_named: file.is_named(),
            bytes: match resident {
                Resident::Known { total_bytes, .. } if is_device => total_bytes,
                _ => metadata.len(),
            },
            before,
            resident,
        },
    })
}

/// The text of an error after the path.
fn reason_of(error: seekless_engine::Error) -> String {
    match error {
        seekless_engine::Error::System { action, source, .. } => format!("cannot {action}: {source}"),
        seekless_engine::Error::NotRegular { kind, .. } => format!("became {kind} meanwhile"),
        error => full_text(&error),
    }
}
