//! Copies are compared with their sources by a naive walk, and by what only a careful copy keeps.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use seekless_engine::walk::Limit;

use super::copying::{Copying, LARGE_BYTES};
use super::journal::UNFINISHED;
use super::pair::{At, Pair, PairState};
use super::target::NewFile;
use super::*;
use crate::testing::{Mounted, cases, long_or, mounts, naive_walk};
use crate::{JobProgress, JobWatch, Stop};

/// What a naive walk finds: the path, mode, time of modification, number of names, and bytes or target of each entry.
type Seen = Vec<(PathBuf, u32, i64, i64, u64, Vec<u8>)>;

fn seen(root: &Path) -> Seen {
    let entries = naive_walk(root).into_iter().map(|(path, (found, bytes))| {
        let names = if found.is_dir() { 0 } else { found.nlink() };
        let path = path.strip_prefix(root).unwrap().to_owned();
        (path, found.mode(), found.mtime(), found.mtime_nsec(), names, bytes)
    });
    entries.collect()
}

fn options(change: impl FnOnce(&mut CpOptions)) -> CpOptions {
    let mut options = CpOptions::default();
    change(&mut options);
    options
}

fn copy(from: &Path, to: &Path, options: &CpOptions) -> CpSummary {
    let options = CpOptions {
        target: TargetMeaning::Name,
        ..options.clone()
    };
    copy_trees(&[from], to, &options, &Stop::default()).unwrap()
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn cp_copies_what_a_naive_walk_finds_and_again(
        entries in proptest::collection::vec((0..12_u8, 0..7_usize, 0..70_000_usize, 0..0o1000_u32), 0..30),
    ) {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        let (mut directories, mut files) = (vec![from.clone()], Vec::new());
        for (number, (kind, above, length, mode)) in entries.into_iter().enumerate() {
            let path = directories[above % directories.len()].join(format!("{number}"));
            match (kind, files.get(length)) {
                (0..3, _) => {
                    fs::create_dir(&path).unwrap();
                    directories.push(path);
                }
                (3, _) => {
                    symlink(format!("../{length}"), &path).unwrap();
                    files.push(path);
                }
                (4, _) if !files.is_empty() => fs::hard_link(&files[length % files.len()], &path).unwrap(),
                _ => {
                    let file = File::create(&path).unwrap();
                    let at = if kind == 5 { 300_000 } else { 0 };
                    file.write_all_at(&vec![kind; length], at).unwrap();
                    file.set_permissions(Permissions::from_mode(mode | 0o600)).unwrap();
                    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + length as u64, mode);
                    file.set_times(FileTimes::new().set_modified(then)).unwrap();
                    files.push(path);
                }
            }
        }
        let wanted = seen(&from);
        for _ in 0..2 {
            let summary = copy(&from, &to, &CpOptions { verify: true, ..CpOptions::default() });
            prop_assert!(summary.is_complete(), "{summary:?}");
            prop_assert_eq!(&seen(&to), &wanted);
            prop_assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing is left beside the copy");
        }
        let summary = copy(&from, &place.path().join("other"), &CpOptions { dry_run: true, ..CpOptions::default() });
        prop_assert_eq!(summary.directories, directories.len() as u64);
        prop_assert!(!place.path().join("other").exists());
    }
}

fn copied(from: &Path, to: &Path, watch: &dyn for<'e> JobWatch<CpEvent<'e>>) -> CpSummary {
    copy_trees(&[from], to, &CpOptions::default(), watch).unwrap()
}

/// Does something when it is first told of a copy.
struct Then<F>(Mutex<Option<F>>, Stop);

impl<F: FnOnce() + Send> Then<F> {
    fn new(act: F) -> Self {
        Self(Mutex::new(Some(act)), Stop::default())
    }
}

impl<F: FnOnce() + Send> JobWatch<CpEvent<'_>> for Then<F> {
    fn wants_progress(&self) -> bool {
        false
    }

    fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
        if let CpEvent::Copied { to, .. } = event
            && to().file_name().is_some_and(|name| name == "0")
            && let Some(act) = self.0.lock().unwrap().take()
        {
            act();
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> &Stop {
        &self.1
    }
}

/// Stops when it is first told of a copy.
fn stopping() -> impl for<'e> JobWatch<CpEvent<'e>> {
    let stop = Stop::default();
    let asked = stop.clone();
    Then(Mutex::new(Some(move || asked.stop())), stop)
}

/// Many files in `from`, and an empty directory `into`.
fn many_and_into(place: &Path) -> (PathBuf, PathBuf) {
    fs::create_dir(place.join("into")).unwrap();
    (many(place), place.join("into"))
}

fn many(place: &Path) -> PathBuf {
    let from = place.join("from");
    for number in 0..50 {
        fs::create_dir_all(from.join(format!("d{number}"))).unwrap();
        fs::write(from.join(format!("d{number}/0")), vec![number; 3000]).unwrap();
    }
    from
}

#[test]
fn cp_that_was_stopped_goes_on_with_what_is_missing() {
    let options = CpOptions::default();
    let stopped = || {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (many(place.path()), place.path().join("to"));
        // What changed in the same tick of the clock may have changed later.
        std::thread::sleep(Duration::from_millis(20));
        let first = copy_trees(&[&from], &to, &options, &stopping()).unwrap();
        first.is_unfinished.then_some((place, from, to, first))
    };
    // The thread that stops the others may have to wait until they are done.
    let (place, from, to, first) = (0..10).find_map(|_| stopped()).unwrap();
    assert!(first.files < 50, "{first:?}");
    for name in seen(&to).into_iter().filter(|entry| entry.0.ends_with("0")) {
        assert_eq!(
            name.5,
            fs::read(from.join(&name.0)).unwrap(),
            "every file that has its name is whole"
        );
    }
    // Alike, but not by this copy: it has the size and the time, and other bytes.
    let changed = from.join("d7/0");
    fs::write(&changed, vec![99; 3000]).unwrap();
    // The same call: the target is a directory now.
    let second = copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert!(
        second.resumed + second.files == 50 && second.resumed >= first.files.saturating_sub(1),
        "{second:?}"
    );
    assert_eq!(seen(&to), seen(&from));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "the journal is gone");
}

#[test]
fn cp_does_not_follow_a_directory_that_becomes_a_link() {
    for exists in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let (from, into) = (many(place.path()), place.path().join("into"));
        let (to, elsewhere) = (into.join("to"), place.path().join("elsewhere"));
        fs::create_dir_all(if exists { &to } else { &into }).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let outside = elsewhere.clone();
        let watch = Then::new(move || {
            // One that did not exist is staged.
            let all = fs::read_dir(&into).unwrap();
            let trees = all.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
            for copies in trees {
                for number in 0..50 {
                    let name = copies.join(format!("d{number}"));
                    let _ = fs::rename(&name, copies.join(format!("moved{number}")));
                    let _ = symlink(&outside, &name);
                }
            }
        });
        let options = options(|options| options.target = TargetMeaning::Name);
        let summary = copy_trees(&[&from], &to, &options, &watch).unwrap();
        assert!(summary.failures > 0, "{summary:?}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

#[test]
fn cp_tells_a_file_that_changes_all_the_time() {
    for is_growing in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        let log = File::create(from.join("log")).unwrap();
        log.set_len(64 << 20).unwrap();
        log.write_all_at(&vec![1; 32 << 20], 0).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let watch = Slow::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = if is_growing { 64 << 20 } else { 0 };
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    log.write_all_at(b"more", at).unwrap();
                    at = if is_growing { at + 4 } else { (at + 4096) % (60 << 20) };
                }
            });
            // By blocks that are shared, a copy is of one moment, but the file changes nonetheless.
            let summary = copied(&from, &to, &watch);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!((summary.changed, summary.failures), (1, 1), "{summary:?}");
        });
        assert!(watch.failures.lock().unwrap()[0].contains("changed during both attempts"));
        let copied = fs::read(to.join("log")).unwrap();
        assert!(!is_growing || fs::read(from.join("log")).unwrap().starts_with(&copied));
    }
}

#[test]
fn cp_refuses_a_tree_into_itself_and_a_file_over_itself() {
    let place = tempfile::tempdir().unwrap();
    let from = many(place.path());
    fs::hard_link(from.join("d0/0"), place.path().join("same")).unwrap();
    for (source, target) in [
        (from.clone(), from.join("d1")),
        (from.clone(), from.join("d1/new")),
        (from.clone(), from.clone()),
        (from.join("d0/0"), place.path().join("same")),
    ] {
        let before = seen(place.path());
        let summary = copied(&source, &target, &Stop::default());
        assert_eq!((summary.files, summary.failures), (0, 1), "{}", target.display());
        let names = |seen: &Seen| seen.iter().map(|entry| entry.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&seen(place.path())), names(&before), "{}", target.display());
    }
}

/// The staged trees in a directory.
fn staged(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_string_lossy().contains(".seekless-cp-tree-"))
        .collect()
}

#[test]
fn cp_names_a_new_tree_only_when_it_is_complete() {
    let place = tempfile::tempdir().unwrap();
    let (from, into) = many_and_into(place.path());
    let there = into.clone();
    let watch = Then::new(move || {
        let staged = staged(&there);
        assert_eq!((staged.len(), there.join("from").exists()), (1, false));
        assert_eq!(fs::metadata(&staged[0]).unwrap().mode() & 0o7777, 0o700);
    });
    copied(&from, &into, &watch);
    assert_eq!(seen(&into.join("from")), seen(&from));
    assert!(staged(&into).is_empty());
}

/// Copies `from` into a directory where its name is taken meanwhile: what was copied is left, as by a kill.
fn left_in(from: &Path, into: &Path) -> PathBuf {
    let taken = into.join("from");
    let watch = Then::new(|| fs::write(&taken, b"mine").unwrap());
    assert_eq!(copied(from, into, &watch).failures, 1);
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
    fs::remove_file(&taken).unwrap();
    let mut all = staged(into);
    assert_eq!(all.len(), 1);
    // Beside the marker.
    assert_eq!(seen(&all[0]).len(), seen(from).len() + 1);
    all.remove(0)
}

#[test]
fn cp_takes_up_what_a_kill_left_without_incomplete_files() {
    let place = tempfile::tempdir().unwrap();
    let (from, into) = many_and_into(place.path());
    let taken = into.join("from");
    symlink("target", from.join("d2/link")).unwrap();
    for is_own in [true, false] {
        let hidden = left_in(&from, &into);
        // Without its times.
        fs::remove_file(hidden.join("d2/link")).unwrap();
        symlink("target", hidden.join("d2/link")).unwrap();
        // Incomplete; the source has no such file any more; somebody's, mounted or moved here with a directory.
        fs::write(hidden.join("d0/0"), b"unfinished").unwrap();
        fs::write(hidden.join("d1/vanished"), b"unfinished").unwrap();
        let mut entries = fs::read_dir(&hidden).unwrap().map(|entry| entry.unwrap().path());
        let marker = entries.find(|path| path.is_file()).expect("a marker");
        if !is_own {
            fs::remove_file(marker).unwrap();
        }
        let watch = Slow::default();
        let options = options(|options| options.existing = Existing::ReplacedIfOlder);
        let summary = copy_trees(&[&from], &into, &options, &watch).unwrap();
        assert_eq!(summary.failures, u64::from(!is_own), "{:?}", watch.failures);
        assert_eq!(seen(&taken), seen(&from));
        assert_eq!(hidden.exists(), !is_own);
        if !is_own {
            assert!(watch.failures.lock().unwrap()[0].contains("remove it"));
            assert_eq!(fs::read(hidden.join("d0/0")).unwrap(), b"unfinished");
        }
        fs::remove_dir_all(&taken).unwrap();
    }
}

/// Stops a copy of a tree with several directories in the middle.
fn interrupted(from: &Path, to: &Path) {
    interrupted_by(&[from], to, &CpOptions::default());
}

fn interrupted_by(sources: &[impl AsRef<Path> + Sync], to: &Path, options: &CpOptions) {
    let first = copy_trees(sources, to, options, &stopping()).unwrap();
    assert!(first.is_unfinished && (1..50).contains(&first.files), "{first:?}");
}

fn journal_of(directory: &Path) -> PathBuf {
    let mut all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.to_string_lossy().contains("-journal-"))
        .expect("a journal")
}

#[test]
fn cp_does_not_go_on_with_another_directory_of_that_name() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (many(place.path()), place.path().join("to"));
    interrupted(&from, &to);
    let before = seen(&to);
    // As where the file system of the source is not mounted.
    let aside = place.path().join("aside");
    fs::rename(&from, &aside).unwrap();
    fs::create_dir(&from).unwrap();
    let again = || copy_trees(&[&from], &to, &CpOptions::default(), &Stop::default());
    let refused = again().expect_err("another directory");
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.contains("mount its file system"), "{reason}");
    assert_eq!(seen(&to), before);
    fs::remove_dir(&from).unwrap();
    fs::rename(&aside, &from).unwrap();
    again().unwrap();
    assert_eq!(seen(&to), seen(&from));
    // It begins anew where the journal was removed.
    fs::remove_dir_all(&to).unwrap();
    interrupted(&from, &to);
    fs::remove_file(journal_of(place.path())).unwrap();
    fs::remove_dir_all(&from).unwrap();
    let from = many(place.path());
    assert_eq!(copy(&from, &to, &CpOptions::default()).files, 50);
}

/// As [`many`], but all files have this byte and one time.
fn alike(top: &Path, byte: u8) {
    for number in 0..50 {
        let directory = top.join(format!("d{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("0"), [byte; 3000]).unwrap();
        let file = File::open(directory.join("0")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
}

#[test]
fn cp_takes_over_no_file_that_came_from_elsewhere() {
    use FollowedLinks::{All, Named};
    let mut wrong = Vec::new();
    for (case, followed) in [
        ("the source is a link", Named),
        ("links to files", All),
        ("a link to a directory", All),
        ("a mount", FollowedLinks::None),
        ("a mount that goes", FollowedLinks::None),
        ("a file in a mount", FollowedLinks::None),
    ] {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let (tree, into) = (path("tree"), path("into"));
        alike(&path("one"), 1);
        alike(&path("two"), 2);
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&into).unwrap();
        let is_mount = followed == FollowedLinks::None;
        // What leads to one tree, and then to another.
        let shown = if case == "a file in a mount" || !is_mount {
            path("shown")
        } else {
            tree.join("shown")
        };
        let mut sources = vec![tree.clone()];
        match case {
            "the source is a link" => sources = vec![shown.clone()],
            "links to files" => {
                for number in 0..50 {
                    let name = format!("d{number}");
                    fs::create_dir(tree.join(&name)).unwrap();
                    symlink(shown.join(&name).join("0"), tree.join(&name).join("0")).unwrap();
                }
            }
            "a link to a directory" => symlink(&shown, tree.join("link")).unwrap(),
            "a mount that goes" => alike(&shown, 2),
            "a file in a mount" => {
                alike(&tree, 2);
                sources.push(shown.join("d0/0"));
            }
            _ => {}
        }
        let show = |name: &str| {
            if is_mount {
                fs::create_dir_all(&shown).unwrap();
                let source = path(name);
                let words = ["--bind".as_ref(), source.as_os_str(), shown.as_os_str()];
                mounts("mount", &words).then(|| Mounted(shown.clone()))
            } else {
                let _ = fs::remove_file(&shown);
                symlink(name, &shown).unwrap();
                None
            }
        };
        let one = show("one");
        if is_mount && one.is_none() {
            return;
        }
        // What changed in the same tick of the clock may have changed later.
        std::thread::sleep(Duration::from_millis(20));
        let options = options(|options| options.followed = followed);
        interrupted_by(&sources, &into, &options);
        drop(one);
        let _two = (case != "a mount that goes").then(|| show("two"));
        copy_trees(&sources, &into, &options, &Stop::default()).unwrap();
        let mut copied = seen(&into).into_iter().filter(|entry| !entry.5.is_empty());
        if copied.any(|entry| entry.5 != [2; 3000]) {
            wrong.push(case);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn cp_tells_a_staged_tree_whose_journal_is_gone() {
    let place = tempfile::tempdir().unwrap();
    let (from, into) = many_and_into(place.path());
    let taken = into.join("from");
    left_in(&from, &into);
    fs::remove_file(journal_of(&into)).unwrap();
    fs::remove_dir_all(&from).unwrap();
    fs::create_dir(&from).unwrap();
    fs::write(from.join("other"), b"other").unwrap();
    let watch = Slow::default();
    let summary = copied(&from, &into, &watch);
    let told = watch.failures.lock().unwrap().join("\n");
    assert!(summary.failures == 1 && told.contains("remove this, too"), "{told}");
    assert_eq!(seen(&taken), seen(&from));
}

#[test]
fn cp_leaves_no_skipped_file_in_the_page_cache() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    let files = long_or(200, 40);
    for number in 0..files {
        fs::write(from.join(format!("{number}")), vec![7; 9000]).unwrap();
        // Further names are linked.
        fs::hard_link(from.join(format!("{number}")), from.join(format!("{number}.too"))).unwrap();
    }
    copy(&from, &to, &CpOptions::default());
    let all: Vec<File> = fs::read_dir(&from)
        .unwrap()
        .map(|entry| File::open(entry.unwrap().path()).unwrap())
        .collect();
    let resident = || {
        all.iter()
            .filter(|file| crate::disk_order::resident_bytes(file) != Some(0))
            .count()
    };
    for kept in [Existing::Kept, Existing::ReplacedIfOlder, Existing::Replaced] {
        for file in &all {
            file.sync_all().unwrap();
            seekless_sys::drop_from_cache(file).unwrap();
        }
        if resident() > 0 {
            println!("skipped: what is dropped stays in memory here");
            return;
        }
        // Some are missing, so that cold files are met.
        for number in (0..files).step_by(3) {
            let _ = fs::remove_file(to.join(format!("{number}")));
        }
        let options = options(|options| options.existing = kept);
        copy(&from, &to, &options);
        // Of the first that each thread meets, the system may have read the first byte before it answered that it has not.
        let resident = resident();
        assert!(resident <= all.len() / 8, "{kept:?}: {resident}");
    }
}

#[test]
fn cp_ignores_a_journal_that_is_no_text() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (many(place.path()), place.path().join("to"));
    interrupted(&from, &to);
    let journal = journal_of(place.path());
    fs::remove_file(&journal).unwrap();
    fs::write(&journal, b"\xff\xfe\n").unwrap();
    let other = File::open(&journal).unwrap();
    let summary = copied(&from, &to, &Stop::default());
    assert_eq!((summary.files, summary.resumed, summary.failures), (50, 0, 0));
    // It may be a file of somebody else.
    let mut bytes = [0; 10];
    assert_eq!(other.read_at(&mut bytes, 0).unwrap(), 3, "it is not written to");
    assert_eq!(seen(&to), seen(&from));
}

#[test]
fn cp_links_further_names_to_copies_that_stay() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (many(place.path()), place.path().join("to"));
    for number in 0..50 {
        fs::hard_link(from.join(format!("d{number}/0")), from.join(format!("d{number}/1"))).unwrap();
    }
    // What changed in the same tick of the clock may have changed later.
    std::thread::sleep(Duration::from_millis(20));
    interrupted(&from, &to);
    // A kill comes between the first name and the second one.
    for number in 0..50 {
        let _ = fs::remove_file(to.join(format!("d{number}/1")));
    }
    let options = options(|options| options.existing = Existing::Kept);
    let summary = copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert!(summary.kept > 0 && summary.is_complete(), "{summary:?}");
    for (copied, source) in seen(&to).iter().zip(seen(&from)) {
        assert_eq!((&copied.0, copied.4), (&source.0, source.4), "the number of names");
    }
}

/// Writes a file of this mode, with one time.
fn write_old(path: &Path, bytes: &[u8], mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[test]
fn cp_separates_sources_where_the_target_has_one_file() {
    for same in [Sameness::Bytes, Sameness::Time] {
        for linked in [&[][..], &[("a", "b"), ("c", "d")], &[("a", "c"), ("b", "d")]] {
            let place = tempfile::tempdir().unwrap();
            let (from, to) = (place.path().join("from"), place.path().join("to"));
            for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
                write_old(&from.join(name), b"bytes", 0o600 + number as u32);
            }
            for (one, other) in linked {
                fs::remove_file(from.join(other)).unwrap();
                fs::hard_link(from.join(one), from.join(other)).unwrap();
            }
            write_old(&to.join("a"), b"bytes", 0o777);
            for name in ["b", "c", "d"] {
                fs::hard_link(to.join("a"), to.join(name)).unwrap();
            }
            let options = options(|options| options.same = Some(same));
            for round in 0..2 {
                let summary = copy(&from, &to, &options);
                assert!(summary.is_complete(), "{summary:?}");
                assert_eq!(seen(&to), seen(&from), "{same:?} {linked:?} {round}");
            }
            // The second time, all of them stay.
            let numbers = ["a", "b", "c", "d"].map(|name| inode(&to.join(name)));
            copy(&from, &to, &options);
            assert_eq!(["a", "b", "c", "d"].map(|name| inode(&to.join(name))), numbers);
        }
    }
}

#[test]
fn cp_joins_names_that_a_kill_left_apart_or_tells() {
    let apart = [("x/a", "bytes"), ("y/b", "bytes")];
    for (existing, left, names, not_preserved) in [
        (Existing::ReplacedIfOlder, &apart[..], 2, 0),
        (Existing::ReplacedIfOlder, &apart[..1], 2, 0),
        (Existing::ReplacedIfOlder, &apart[1..], 2, 0),
        (Existing::Kept, &apart, 1, 1),
        (Existing::Kept, &apart[..1], 2, 0),
        (Existing::Kept, &apart[1..], 2, 0),
        (Existing::ReplacedIfOlder, &[("x/a", "bytes"), ("y/b", "BYTES")], 1, 1),
        (Existing::Kept, &[("x/a", "BYTES")], 1, 1),
        (Existing::Kept, &[("y/b", "BYTES")], 1, 1),
        // It is no copy at all.
        (Existing::Kept, &[("y/b", "other")], 1, 0),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        write_old(&from.join("x/a"), b"bytes", 0o640);
        fs::create_dir(from.join("y")).unwrap();
        fs::hard_link(from.join("x/a"), from.join("y/b")).unwrap();
        for (name, bytes) in left {
            write_old(&to.join(name), bytes.as_bytes(), 0o640);
            if *bytes == "other" {
                File::open(to.join(name))
                    .unwrap()
                    .set_modified(SystemTime::now())
                    .unwrap();
            }
        }
        let options = options(|options| options.existing = existing);
        let summary = copy(&from, &to, &options);
        let case = format!("{existing:?} {left:?}: {summary:?}");
        assert_eq!(fs::metadata(to.join("x/a")).unwrap().nlink(), names, "{case}");
        let told = summary.not_preserved.get("hard links").copied().unwrap_or(0);
        assert_eq!((told, summary.failures), (not_preserved, 0), "{case}");
        for name in ["x/a", "y/b"] {
            let stays = left.iter().find(|(left, _)| *left == name);
            let bytes = stays.map_or("bytes", |(_, bytes)| bytes);
            assert_eq!(fs::read(to.join(name)).unwrap(), bytes.as_bytes(), "{case}");
        }
    }
}

#[test]
fn cp_joins_a_missing_name_of_a_link_or_fifo_if_equal() {
    for (is_equal, names) in [(true, 2), (false, 1)] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        for (top, target) in [(&from, "target"), (&to, if is_equal { "target" } else { "other" })] {
            symlink(target, top.join("link")).unwrap();
        }
        mknodat(CWD, from.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
        let kind = if is_equal { FileType::Fifo } else { FileType::Socket };
        mknodat(CWD, to.join("fifo"), kind, Mode::from_raw_mode(0o640), 0).unwrap();
        for name in ["link", "fifo"] {
            fs::hard_link(from.join(name), from.join(format!("{name}.too"))).unwrap();
        }
        copy(&from, &to, &options(|options| options.existing = Existing::Kept));
        for name in ["link", "fifo"] {
            let found = fs::symlink_metadata(to.join(name)).unwrap();
            assert_eq!(
                (
                    found.nlink(),
                    to.join(format!("{name}.too")).symlink_metadata().unwrap().nlink()
                ),
                (names, names)
            );
        }
    }
}

#[test]
fn cp_keeps_the_time_of_a_complete_directory_it_links_into() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    write_old(&from.join("x/a"), b"bytes", 0o640);
    // It is met when the other directory is complete.
    let deep = "y/".repeat(200);
    fs::create_dir_all(from.join(&deep)).unwrap();
    fs::hard_link(from.join("x/a"), from.join(&deep).join("b")).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    File::open(from.join("x")).unwrap().set_modified(then).unwrap();
    copy(&from, &to, &CpOptions::default());
    fs::remove_file(to.join("x/a")).unwrap();
    let summary = copy(
        &from,
        &to,
        &options(|options| options.existing = Existing::ReplacedIfOlder),
    );
    assert!(summary.is_complete(), "{summary:?}");
    assert_eq!(fs::metadata(to.join("x")).unwrap().modified().unwrap(), then);
    assert_eq!(fs::metadata(to.join("x/a")).unwrap().nlink(), 2);
}

#[test]
fn cp_gives_equal_links_and_fifos_attributes_if_compared() {
    for same in [Sameness::Bytes, Sameness::Time] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        for name in ["same", "other"] {
            symlink(name, from.join(name)).unwrap();
        }
        for name in ["fifo", "file"] {
            mknodat(CWD, from.join(name), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
        }
        fs::hard_link(from.join("same"), from.join("too")).unwrap();
        copy(&from, &to, &CpOptions::default());
        for name in ["other", "file"] {
            fs::remove_file(to.join(name)).unwrap();
        }
        symlink("elsewhere", to.join("other")).unwrap();
        fs::write(to.join("file"), b"bytes").unwrap();
        fs::set_permissions(to.join("fifo"), Permissions::from_mode(0o600)).unwrap();
        let numbers = || ["same", "too", "fifo", "other", "file"].map(|name| inode(&to.join(name)));
        let before = numbers();
        let summary = copy(&from, &to, &options(|options| options.same = Some(same)));
        assert_eq!(seen(&to), seen(&from), "{same:?}");
        assert_eq!(numbers()[..3], before[..3], "{same:?}");
        let counts = (summary.resumed, summary.symbolic_links, summary.special);
        assert_eq!(counts, (2, 1, 1), "{summary:?}");
    }
}

#[test]
fn cp_takes_no_older_file_for_a_copy_by_another_name() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    for directory in [&from, &to] {
        fs::create_dir(directory).unwrap();
    }
    // They differ in their bytes only.
    let write = |path: &Path, bytes: u8| {
        fs::write(path, [bytes; 3000]).unwrap();
        File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    write(&to.join("0"), b'o');
    for name in ["0", "1", "2"] {
        write(&from.join(name), name.as_bytes()[0]);
        let _ = fs::hard_link(to.join("0"), to.join(name));
    }
    std::thread::sleep(Duration::from_millis(20));
    let options = options(|options| options.target = TargetMeaning::Name);
    let first = copy_trees(&[&from], &to, &options, &stopping()).unwrap();
    assert!(first.is_unfinished && first.files > 0, "{first:?}");
    // Of what looks like a file of a copy, only that of this copy goes.
    let mine = to.join(".seekless-cp-0123456789abcdef");
    fs::write(&mine, b"mine").unwrap();
    let second = copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert_eq!((second.resumed, second.files + first.files), (first.files, 3));
    fs::remove_file(mine).unwrap();
    assert_eq!(seen(&to)[1..], seen(&from)[1..]);
}

/// Copies three files into an existing directory, and stops after the one called `0`.
fn interrupted_in_existing(from: &Path, to: &Path) {
    for directory in [from, to] {
        fs::create_dir(directory).unwrap();
    }
    for name in ["0", "1", "2"] {
        write_old(&from.join(name), &[b's'; 3000], 0o4755);
    }
    std::thread::sleep(Duration::from_millis(20));
    let options = options(|options| options.target = TargetMeaning::Name);
    let first = copy_trees(&[from], to, &options, &stopping()).unwrap();
    assert!(first.is_unfinished && first.files > 0, "{first:?}");
}

#[test]
fn cp_as_root_takes_no_file_of_another_user_for_a_copy() {
    if seekless_sys::effective_user() != 0 {
        println!("skipped: needs root");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    interrupted_in_existing(&from, &to);
    let theirs = to.join("0");
    fs::remove_file(&theirs).unwrap();
    write_old(&theirs, &[b't'; 3000], 0o755);
    chown(&theirs, Some(77), None).unwrap();
    let options = options(|options| options.target = TargetMeaning::Name);
    let second = copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert!(second.is_complete(), "{second:?}");
    let found = theirs.metadata().unwrap();
    assert_eq!(fs::read(&theirs).unwrap(), [b's'; 3000]);
    assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o4755));
    // Nor where that is asked for.
    fs::remove_file(&theirs).unwrap();
    write_old(&theirs, &[b't'; 3000], 0o755);
    chown(&theirs, Some(77), None).unwrap();
    let options = CpOptions {
        same: Some(Sameness::Time),
        ..options
    };
    copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert_eq!(fs::read(&theirs).unwrap(), [b's'; 3000]);
}

#[test]
fn cp_copies_again_what_was_mounted_over_a_source() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    let other = place.path().join("other");
    write_old(&other, &[b'o'; 3000], 0o755);
    let point = from.join("0");
    for directory in [&from, &to] {
        fs::create_dir(directory).unwrap();
    }
    for name in ["0", "1", "2"] {
        write_old(&from.join(name), &[b's'; 3000], 0o755);
    }
    if !mounts("mount", &["--bind".as_ref(), other.as_os_str(), point.as_os_str()]) {
        return;
    }
    let mounted = Mounted(point);
    std::thread::sleep(Duration::from_millis(20));
    let options = options(|options| options.target = TargetMeaning::Name);
    copy_trees(&[&from], &to, &options, &stopping()).unwrap();
    assert_eq!(fs::read(to.join("0")).unwrap(), [b'o'; 3000]);
    drop(mounted);
    copy_trees(&[&from], &to, &options, &Stop::default()).unwrap();
    assert_eq!(fs::read(to.join("0")).unwrap(), [b's'; 3000]);
}

/// Waits until it is told a total or a failure, for two seconds at most, and keeps what it is told.
struct Slow {
    until: Instant,
    /// Entries and bytes.
    totals: Mutex<BTreeSet<(u64, u64)>>,
    failures: Mutex<Vec<String>>,
    stop: Stop,
}

impl Default for Slow {
    fn default() -> Self {
        Self {
            until: Instant::now() + Duration::from_secs(2),
            totals: Mutex::default(),
            failures: Mutex::default(),
            stop: Stop::default(),
        }
    }
}

impl Slow {
    fn wait(&self) {
        let is_told = || !self.totals.lock().unwrap().is_empty() || !self.failures.lock().unwrap().is_empty();
        while Instant::now() < self.until && !is_told() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl JobWatch<CpEvent<'_>> for Slow {
    fn progress(&self, progress: &JobProgress) {
        if let Some(total) = progress.of_entries.zip(progress.of_bytes) {
            self.totals.lock().unwrap().insert(total);
        } else if progress.done_bytes >= 256 << 10 {
            self.wait();
        }
    }

    fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
        match event {
            CpEvent::Copied { to, .. } if to().is_file() || to().ends_with("0") => self.wait(),
            CpEvent::Failed(failure) => self.failures.lock().unwrap().push(failure.reason.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

#[test]
fn cp_finds_out_meanwhile_what_there_is_to_copy() {
    let place = tempfile::tempdir().unwrap();
    let from = many(place.path());
    fs::hard_link(from.join("d0/0"), from.join("d1/1")).unwrap();
    let (watch, to) = (Slow::default(), place.path().join("to"));
    let summary = copied(&from, &to, &watch);
    let all = [(summary.files + 1, summary.bytes)];
    assert!(watch.totals.lock().unwrap().iter().eq(&all));
    assert_eq!((summary.hard_links, summary.failures), (1, 0));
}

#[test]
fn cp_tells_a_target_that_is_too_small_before_it_is_full() {
    let (place, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(_mounted) = Mounted::tmpfs(small.path().to_owned(), "size=8m") else {
        return;
    };
    let from = many(place.path());
    for (size, failures) in [(9 << 20, 1), (1 << 20, 0)] {
        fs::write(from.join("d49/large"), vec![1; size]).unwrap();
        let (watch, to) = (Slow::default(), small.path().join("to"));
        let summary = copied(&from, &to, &watch);
        let told = watch.failures.lock().unwrap().join("\n");
        assert_eq!(summary.failures, failures, "{told}");
        assert_eq!(told.contains(" MiB needed, "), failures > 0, "{told}");
        let _ = fs::remove_dir_all(&to);
    }
    // A named file is large enough to be surveyed, unless its copy is preallocated, which fails at once.
    let large = place.path().join("large");
    fs::write(&large, vec![1; LARGE_BYTES as usize]).unwrap();
    let watch = Slow::default();
    let summary = copied(&large, small.path(), &watch);
    let told = watch.failures.lock().unwrap().join("\n");
    let is_told = told.contains("64 MiB needed, 7 MiB free") || told.contains("No space left");
    assert!(summary.failures > 0 && summary.bytes == 0 && is_told, "{told}");
}

#[test]
fn cp_skips_what_the_target_has_by_bytes_or_time() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    for (same, copied) in [
        (None, &["alike", "later", "other", "shorter"][..]),
        (Some(Sameness::Bytes), &["other", "shorter"]),
        (Some(Sameness::Time), &["later", "shorter"]),
    ] {
        for directory in [&from, &to] {
            let _ = fs::remove_dir_all(directory);
            fs::create_dir(directory).unwrap();
        }
        // The bytes of the source and of the target, and whether their times are the same.
        for (name, bytes, before, is_timed) in [
            ("alike", "bytes", "bytes", true),
            ("later", "bytes", "bytes", false),
            ("other", "bytes", "BYTES", true),
            ("shorter", "bytes", "byte", true),
        ] {
            fs::write(to.join(name), before).unwrap();
            fs::write(from.join(name), bytes).unwrap();
            fs::set_permissions(from.join(name), Permissions::from_mode(0o640)).unwrap();
            let second = Duration::from_secs(u64::from(!is_timed));
            for (directory, time) in [(&from, SystemTime::UNIX_EPOCH + second), (&to, SystemTime::UNIX_EPOCH)] {
                File::open(directory.join(name)).unwrap().set_modified(time).unwrap();
            }
        }
        let numbers = || {
            let numbers = fs::read_dir(&to).unwrap().map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.metadata().unwrap().ino())
            });
            numbers.collect::<BTreeMap<_, _>>()
        };
        let before = numbers();
        let options = options(|options| options.same = same);
        let summary = copy(&from, &to, &options);
        let after = numbers();
        let changed: Vec<_> = before.keys().filter(|name| before[*name] != after[*name]).collect();
        assert_eq!(changed, copied, "{same:?}");
        assert_eq!(
            (summary.files, summary.resumed),
            (copied.len() as u64, 4 - copied.len() as u64)
        );
        let mut seen_alike = (seen(&from), seen(&to));
        if same == Some(Sameness::Time) {
            // That is what it means.
            seen_alike.1.iter_mut().for_each(|entry| {
                if entry.0.ends_with("other") {
                    entry.5 = b"bytes".to_vec();
                }
            });
        }
        assert_eq!(seen_alike.0, seen_alike.1, "{same:?}");
    }
}

/// Stops a copy after so many bytes, and keeps how many were done at each report.
struct StopAt(u64, Stop, Mutex<Vec<u64>>);

impl JobWatch<CpEvent<'_>> for StopAt {
    fn progress(&self, progress: &JobProgress) {
        self.2.lock().unwrap().push(progress.done_bytes);
        if progress.done_bytes >= self.0 {
            self.1.stop();
        }
    }

    fn stop(&self) -> &Stop {
        &self.1
    }
}

#[test]
fn cp_goes_on_in_a_large_file_unless_its_source_changed() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    let mut bytes = vec![0; 160 << 20];
    for (number, block) in bytes.chunks_mut(4096).enumerate() {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    let cases = [(true, false), (false, false), (true, true)];
    for (is_tree, is_changed) in cases.into_iter().take(long_or(3, 1)) {
        for path in [&from, &to] {
            let _ = (fs::remove_dir_all(path), fs::remove_file(path));
        }
        let (source, above) = if is_tree {
            (from.join("large"), to.clone())
        } else {
            (from.clone(), place.path().to_owned())
        };
        fs::create_dir_all(source.parent().unwrap()).unwrap();
        fs::write(&source, &bytes).unwrap();
        let run = |most| {
            let watch = StopAt(most, Stop::default(), Mutex::default());
            let options = options(|options| options.target = TargetMeaning::Name);
            let summary = copy_trees(&[&from], &to, &options, &watch).unwrap();
            (summary, watch.2.into_inner().unwrap())
        };
        let (first, _) = run(64 << 20);
        if first.reflinked > 0 {
            println!("skipped: copies share blocks here");
            return;
        }
        assert!(first.is_unfinished && first.failures == 0, "{first:?}");
        let unfinished = fs::read_dir(&above).unwrap().map(|entry| entry.unwrap().path());
        let mut unfinished = unfinished.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(".seekless-cp-") && !name.contains("journal")
        });
        let unfinished = unfinished.next().expect("the unfinished copy");
        let length = unfinished.metadata().unwrap().len();
        assert!((64 << 20..bytes.len() as u64).contains(&length), "{length}");
        // What was synced is not copied again.
        File::options()
            .write(true)
            .open(&unfinished)
            .unwrap()
            .write_all_at(b"seen", 0)
            .unwrap();
        // Another copy to the same place leaves it.
        let other = tempfile::tempdir().unwrap();
        fs::create_dir(other.path().join("other")).unwrap();
        copied(&other.path().join("other"), &above, &Stop::default());
        assert!(unfinished.exists());
        fs::remove_dir(above.join("other")).unwrap();
        if is_changed {
            File::options()
                .write(true)
                .open(&source)
                .unwrap()
                .write_all_at(b"other", 100)
                .unwrap();
        }
        let (second, told) = run(u64::MAX);
        assert!(
            !second.is_unfinished && second.files == 1 && second.failures == 0,
            "{second:?}"
        );
        assert_eq!(told[0] >= 64 << 20, !is_changed, "{told:?}");
        assert_eq!(told.iter().max(), Some(&(bytes.len() as u64)));
        let target = if is_tree { to.join("large") } else { to.clone() };
        let (copied, source) = (fs::read(target).unwrap(), fs::read(&source).unwrap());
        assert_eq!(&copied[..4] == b"seen", !is_changed);
        assert!(copied[4..] == source[4..], "the rest");
        let all = fs::read_dir(place.path()).unwrap();
        assert!(all.count() == 2 && !unfinished.exists(), "something was left");
    }
}

#[test]
fn cp_makes_entries_where_others_put_nothing_in_their_place() {
    let place = tempfile::tempdir().unwrap();
    let (options, stop) = (CpOptions::default(), Stop::default());
    let copying = Copying::new(&options, &stop);
    let to = place.path().join("to");
    fs::create_dir(&to).unwrap();
    let handles = [place.path(), &to].map(|path| File::open(path).unwrap().into());
    let own = PairState::of_root(&to, &Arc::default());
    let pair = Pair::root(handles, place.path(), &Limit::new(8), own);
    let handles = pair.handles().ok().unwrap();
    let at = At::of(&pair, handles.borrowed(), c"name");
    let names = || {
        let names = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    let made = || {
        let fifo =
            |directory: BorrowedFd<'_>, name: &CStr| Ok(mknodat(directory, name, FileType::Fifo, Mode::RUSR, 0)?);
        NewFile::make_entry(&at, &fifo, &copying).unwrap()
    };
    for mode in [0o700, 0o755] {
        fs::set_permissions(&to, Permissions::from_mode(mode)).unwrap();
        let dropped = made();
        let temporary = to.join(&names()[0]);
        assert!(
            names().len() == 1 && names()[0].starts_with(UNFINISHED),
            "{:?}",
            names()
        );
        // Others may rename what is in the directory, and open no directory in it.
        let found = temporary.symlink_metadata().unwrap();
        assert_eq!(found.is_dir(), mode == 0o755);
        assert_eq!(found.mode() & 0o077, 0);
        drop(dropped);
        assert!(names().is_empty(), "{:?}", names());
        made().publish(&at, false, None).ok().unwrap();
        assert_eq!(names(), ["name"]);
        assert!(made().publish(&at, false, None).is_err());
        made().publish(&at, true, None).ok().unwrap();
        assert_eq!(names(), ["name"]);
        fs::remove_file(to.join("name")).unwrap();
    }
    let mut moved = made();
    let temporary = to.join(&names()[0]);
    fs::rename(&temporary, place.path().join("moved")).unwrap();
    fs::create_dir(&temporary).unwrap();
    fs::write(temporary.join("entry"), "another's").unwrap();
    moved.publish(&at, false, None).ok().unwrap();
    let kind = to.join("name").symlink_metadata().unwrap().file_type();
    assert!(kind.is_fifo());
    assert_eq!(fs::read_to_string(temporary.join("entry")).unwrap(), "another's");
}
