//! The walk, the counts and the reports, on directories made for each test.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::*;
use crate::{ClosureWatch, JobProgress, Stop};

fn shown(paths: &[&Path]) -> (Vec<Total>, Vec<CacheFileState>) {
    let (stop, mut files) = (Stop::default(), Vec::new());
    let watch = ClosureWatch::new(
        &stop,
        |_| (),
        |event: CacheEvent<'_>| {
            let CacheEvent::File(file) = event else {
                panic!("{event:?}")
            };
            files.push(file.clone());
            ControlFlow::Continue(())
        },
    );
    let totals = show(&Selection::new(paths, false), &watch);
    (totals, files)
}

/// A directory with a file in a directory, a second name of it, a link, a socket, and a name that is no text.
fn directory() -> tempfile::TempDir {
    let all = tempfile::tempdir().unwrap();
    let path = all.path();
    fs::create_dir(path.join("inner")).unwrap();
    fs::write(path.join("inner/file"), vec![1; 10_000]).unwrap();
    fs::hard_link(path.join("inner/file"), path.join("second name")).unwrap();
    fs::write(path.join(OsStr::from_bytes(b"\xff\x1b")), b"x").unwrap();
    fs::write(path.join("empty"), b"").unwrap();
    symlink("inner/file", path.join("link")).unwrap();
    symlink(path, path.join("inner/circle")).unwrap();
    let _ = UnixListener::bind(path.join("socket")).unwrap();
    all
}

#[test]
fn cache_counts_a_named_file_once_and_follows_a_named_link() {
    let all = directory();
    let file = all.path().join("inner/file");
    for order in [[all.path(), &file], [&file, all.path()]] {
        let (totals, _) = shown(&order);
        assert_eq!(totals.iter().map(|total| total.bytes).sum::<u64>(), 10_001);
        assert_eq!(totals.iter().map(|total| total.files).sum::<u64>(), 3);
    }
    let (inner, circle) = (all.path().join("inner"), all.path().join("inner/circle"));
    for named in [[all.path(), &inner], [&inner, all.path()], [&circle, all.path()]] {
        let (totals, _) = shown(&named);
        assert_eq!(totals.iter().map(|total| total.files).sum::<u64>(), 3);
        let repeated: u64 = totals.iter().map(|total| total.left.repeated).sum();
        assert!(repeated == 2 || named[0] == circle, "a hard link and a directory");
    }
    let (totals, _) = shown(&[all.path(), &inner, &inner, all.path()]);
    assert_eq!(totals.len(), 2, "named twice, counted once");
    assert_eq!(totals.iter().map(|total| total.files).sum::<u64>(), 3);
    let (totals, told) = shown(&[&all.path().join("link")]);
    assert_eq!((totals[0].files, totals[0].bytes), (1, 10_000));
    assert!(told[0].is_named && told[0].path.ends_with("link"));
    let (totals, _) = shown(&[&all.path().join("inner/circle")]);
    assert!(totals[0].is_directory && totals[0].files == 3);
}

#[test]
fn cache_job_ends_by_watcher_or_stop_and_tells_every_byte() {
    let all = directory();
    let selection = Selection::new([all.path()], false);
    let stop = Stop::default();
    let ends = ClosureWatch::new(&stop, |_| (), |_: CacheEvent<'_>| ControlFlow::Break(()));
    assert_eq!(show(&selection, &ends)[0].files, 1);
    stop.stop();
    assert_eq!(show(&selection, &stop)[0].files, 0);
    let selection = Selection::new([all.path().join("inner/file")], false);
    let (stop, last) = (Stop::default(), Mutex::default());
    drop(&selection, &stop);
    let progress = |now: &JobProgress| *lock_mutex(&last) = now.clone();
    warm(
        &selection,
        &ClosureWatch::new(&stop, progress, |_: CacheEvent<'_>| ControlFlow::Continue(())),
    );
    let last = into_unlocked(last);
    assert_eq!((last.done_entries, last.done_bytes), (1, 10_000));
}
