//! The walk, the counts and the reports, on directories made for each test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::*;

#[derive(Default)]
struct Told {
    files: Vec<CacheFileState>,
    errors: Vec<String>,
    end_after: Option<usize>,
}

impl CacheWatch for Told {
    fn file(&mut self, file: &CacheFileState) -> ControlFlow<()> {
        self.files.push(file.clone());
        if self.end_after == Some(self.files.len()) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn failed(&mut self, path: &Path, reason: &str) {
        self.errors.push(format!("{}: {reason}", path.display()));
    }
}

fn shown(paths: &[&Path]) -> (Vec<Total>, Told) {
    let mut told = Told::default();
    let selection = Selection::new(paths, false);
    let totals = show(&selection, &Stop::default(), &mut told);
    (totals, told)
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
fn a_directory_is_counted_with_each_file_once() {
    let all = directory();
    let (totals, told) = shown(&[all.path()]);
    let [total] = totals.as_slice() else {
        panic!("{totals:?}")
    };
    assert_eq!((total.files, total.bytes, total.left.repeated), (3, 10_001, 1));
    assert_eq!((total.left.links, total.left.special, total.failed), (2, 1, 0));
    assert_eq!(
        total.cacheable_bytes,
        4 * 4096,
        "the whole pages of two files and an empty one"
    );
    assert!(told.errors.is_empty() && told.files.len() == 3);
    assert!(told.files.iter().all(|file| !file.is_named && file.before.is_none()));
    assert!(
        told.files
            .iter()
            .any(|file| file.path.as_os_str().as_bytes().ends_with(b"\xff\x1b"))
    );
}

#[test]
fn a_file_or_directory_named_beside_the_directory_it_is_in_is_counted_once() {
    let all = directory();
    let file = all.path().join("inner/file");
    for order in [[all.path(), &file], [&file, all.path()]] {
        let (totals, _) = shown(&order);
        assert_eq!(totals.iter().map(|total| total.bytes).sum::<u64>(), 10_001);
        assert_eq!(totals.iter().map(|total| total.files).sum::<u64>(), 3);
    }
    let inner = all.path().join("inner");
    let (totals, _) = shown(&[all.path(), &inner, &inner, all.path()]);
    assert_eq!(totals.len(), 2, "named twice, counted once");
    assert_eq!(totals.iter().map(|total| total.files).sum::<u64>(), 3);
}

#[test]
fn a_link_is_followed_where_it_is_named() {
    let all = directory();
    let (totals, told) = shown(&[&all.path().join("link")]);
    assert_eq!((totals[0].files, totals[0].bytes), (1, 10_000));
    assert!(told.files[0].is_named && told.files[0].path.ends_with("link"));
    let (totals, _) = shown(&[&all.path().join("inner/circle")]);
    assert!(totals[0].is_directory && totals[0].files == 3);
}

#[test]
fn a_path_that_nothing_can_be_done_with_fails_in_its_turn_and_the_rest_goes_on() {
    let all = directory();
    let path = |name: &str| all.path().join(name);
    let (gone, socket, file) = (path("gone"), path("socket"), path("inner/file"));
    let paths = [
        &gone,
        &file,
        &socket,
        Path::new("/dev/null"),
        Path::new("/proc/version"),
    ];
    let (totals, told) = shown(&paths);
    let reasons = [
        "cannot stat: No such file",
        "is a socket",
        "is a device",
        "not a storage file system (proc)",
    ];
    assert_eq!(told.errors.len(), reasons.len(), "{:?}", told.errors);
    for (error, reason) in told.errors.iter().zip(reasons) {
        assert!(error.contains(reason), "{error}");
    }
    let failed: Vec<u64> = totals.iter().map(|total| total.failed).collect();
    assert_eq!((failed, totals[1].files), (vec![1, 0, 1, 1, 1], 1));
}

#[test]
fn files_are_told_in_the_order_of_the_walk_whatever_the_threads_do() {
    let all = tempfile::tempdir().unwrap();
    let files = crate::testing::long_or(5000, 500);
    for n in 0..files {
        fs::write(all.path().join(n.to_string()), b"x").unwrap();
    }
    let (totals, told) = shown(&[all.path()]);
    assert_eq!(totals[0].files, files);
    let listed: Vec<_> = fs::read_dir(all.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(told.files.iter().map(|file| &file.path).eq(&listed));
}

#[test]
fn what_is_dropped_is_gone_and_what_is_warmed_is_there() {
    let all = directory();
    let selection = Selection::new([all.path()], false);
    let mut told = Told::default();
    let warmed = warm(&selection, &Stop::default(), &|_| (), &mut told).remove(0);
    assert_eq!(
        (warmed.resident_bytes, warmed.partial_files),
        (warmed.cacheable_bytes, 0)
    );
    let dropped = drop(&selection, &Stop::default(), &mut told).remove(0);
    assert_eq!(dropped.before_bytes, warmed.resident_bytes);
    if seekless::StorageFacts::of(all.path()).unwrap().file_system == "tmpfs" {
        println!("skipped: the temporary directory is memory, which keeps its files");
        assert_eq!(dropped.resident_bytes, dropped.before_bytes);
    } else {
        assert_eq!((dropped.resident_bytes, dropped.resident_files), (0, 0));
    }
}

#[test]
fn a_job_ends_where_its_watcher_or_its_stop_says_so() {
    let all = directory();
    let selection = Selection::new([all.path()], false);
    let mut told = Told {
        end_after: Some(1),
        ..Told::default()
    };
    assert_eq!(show(&selection, &Stop::default(), &mut told)[0].files, 1);
    let stop = Stop::default();
    stop.stop();
    assert_eq!(show(&selection, &stop, &mut Told::default())[0].files, 0);
}

#[test]
fn progress_tells_of_every_byte_once() {
    let all = directory();
    let selection = Selection::new([all.path().join("inner/file")], false);
    drop(&selection, &Stop::default(), &mut Told::default());
    let moved = std::sync::atomic::AtomicU64::new(0);
    let count = |bytes| {
        moved.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    };
    warm(&selection, &Stop::default(), &count, &mut Told::default());
    assert_eq!(moved.into_inner(), 10_000);
}
