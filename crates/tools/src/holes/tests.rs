//! Holes compared with a naive model, in the temporary directory and each of the directories of `SEEKLESS_TEST_DIRS`.

use std::convert::Infallible;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use seekless_engine::error::UpdateErrorKind;
use seekless_engine::update::{Batch, Commit, Safety, StepKind, Watch, WatchedStep, commit, commit_watched};
use tempfile::TempDir;

use super::dig::dig_held;
use super::fill::fill_held;
use super::held::HeldFile;
use super::punch as punch_examined;
use super::punch::punch_held;
use super::*;
use crate::testing::{cases, long_or};
use crate::walk::{FileAt, Selection};
use crate::{ClosureWatch, JobProgress, JobWatch, Stop};

/// Directories in which holes can be made.
fn with_holes() -> Vec<TempDir> {
    let mut directories = directories();
    directories.retain(|directory| has_holes(directory.path()));
    directories
}

fn directories() -> Vec<TempDir> {
    let mut directories = vec![tempfile::tempdir().unwrap()];
    if let Some(list) = std::env::var_os("SEEKLESS_TEST_DIRS") {
        directories.extend(std::env::split_paths(&list).map(|directory| tempfile::tempdir_in(directory).unwrap()));
    }
    directories
}

/// Whether holes can be made in a directory; says why not.
fn has_holes(directory: &Path) -> bool {
    let path = directory.join("trial");
    fs::write(&path, vec![0; 100_000]).unwrap();
    let done = punch(&named(&path), 0, 100_000, false);
    fs::remove_file(&path).unwrap();
    if let Err(error) = &done {
        println!("skipped: {error}");
    }
    done.is_ok()
}

fn dug(path: &Path) -> Result<Dug> {
    dig(&named(path), Dig::default(), &Stop::default())
}

/// The errors of all jobs on a file, of which none may be done.
fn refusals(path: &Path) -> [Error; 3] {
    [
        dug(path).unwrap_err(),
        punch(&named(path), 0, 1, false).unwrap_err(),
        fill(&named(path), false).unwrap_err(),
    ]
}

/// Punches a hole as one who agrees to it at once.
fn punch(file: &FileAt, offset: u64, length: u64, is_unsafe: bool) -> Result<Punched> {
    let range = punch_range(file, offset, length, is_unsafe)?;
    punch_examined(file, &range, is_unsafe)
}

fn named(path: &Path) -> FileAt {
    FileAt::named(path)
}

fn stretches(path: &Path) -> (Shown, Vec<HoleStretch>) {
    let (stop, done_bytes, mut found) = (Stop::default(), AtomicU64::new(0), Vec::new());
    let watch = ClosureWatch::new(&stop, most_bytes(&done_bytes), |stretch: &HoleStretch| {
        found.push(stretch.clone());
        ControlFlow::Continue(())
    });
    let shown = show(&named(path), true, &watch).unwrap();
    drop(watch);
    assert_eq!(done_bytes.into_inner(), shown.bytes, "what was told of the progress");
    (shown, found)
}

/// Keeps how many bytes were done at last.
fn most_bytes(done_bytes: &AtomicU64) -> impl Fn(&JobProgress) + Sync {
    |progress: &JobProgress| _ = done_bytes.fetch_max(progress.done_bytes, Ordering::Relaxed)
}

fn ignore(never: Infallible) -> ControlFlow<()> {
    match never {}
}

/// A file of pieces, in 4K blocks: data, zeros, a hole. The last piece ends `tail` bytes later.
fn make(path: &Path, pieces: &[(u8, u64)], tail: u64) -> Vec<u8> {
    let file = File::create(path).unwrap();
    let mut bytes = Vec::new();
    for (n, &(kind, blocks)) in pieces.iter().enumerate() {
        let more = if n + 1 == pieces.len() { tail } else { 0 };
        let piece = vec![u8::from(kind == 0); (blocks * 4096 + more) as usize];
        if kind < 2 {
            file.write_all_at(&piece, bytes.len() as u64).unwrap();
        }
        bytes.extend(piece);
    }
    file.set_len(bytes.len() as u64).unwrap();
    bytes
}

#[test]
fn holes_dig_that_is_stopped_is_no_error_and_keeps_the_cache() {
    const MIB: usize = 1 << 20;
    for directory in with_holes() {
        let path = directory.path().join("file");
        let mut bytes = vec![0; 16 * MIB];
        for at in (0..bytes.len()).step_by(128 << 10) {
            bytes[at] = 1;
        }
        fs::write(&path, &bytes).unwrap();
        let stop = Stop::default();
        let watch = ClosureWatch::new(&stop, |_| stop.stop(), ignore);
        let done = dig(&named(&path), Dig::default(), &watch).unwrap();
        assert!(done.zero_bytes < 15 * MIB as u64, "{done:?}");
        assert!(fs::read(&path).unwrap() == bytes);
        make(&path, &[(1, 1000)], 0);
        let done = dig(&named(&path), Dig::default(), &stop).unwrap();
        assert_eq!(done.holes, 0, "it was stopped before it began");
        let mut bytes = vec![0; 8 * MIB];
        bytes[3 * MIB..4 * MIB].fill(1);
        // A buffer of zeros except for its last byte.
        bytes[6 * MIB - 1] = 1;
        fs::write(&path, &bytes).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let dug = dug(&path).unwrap();
        assert_eq!(dug.zero_bytes, 7 * MIB as u64 - 4096);
        let file = File::open(&path).unwrap();
        if let Ok(seekless_sys::Support::Available(found)) = seekless_sys::residency(&file) {
            assert!(found.resident_bytes >= MIB as u64 + 4096, "{found:?}");
        }
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

/// Fails at a step and all later ones, as if the process had been killed before it.
struct DyingAt(AtomicUsize);

impl Watch for DyingAt {
    fn before(&self, _step: &WatchedStep<'_>) -> io::Result<()> {
        let left = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("killed"))
    }
}

#[test]
fn holes_change_nothing_else_after_a_death_at_any_step() {
    type Job<'a> = &'a dyn Fn(&HeldFile<'_>) -> bool;
    const PUNCHED: std::ops::Range<usize> = 3000..20_000;
    let how = Dig {
        past_end: true,
        verify: true,
        ..Dig::default()
    };
    for directory in with_holes() {
        let path = directory.path().join("file");
        let file = named(&path);
        let range = |offset: usize, end: usize| punch_range(&file, offset as u64, (end - offset) as u64, false);
        let digging: Job<'_> =
            &|held| dig_held(held, how, &Stop::default(), &|_| ()).is_ok() && held.restore_times().is_ok();
        let filling: Job<'_> = &|held| fill_held(held).is_ok();
        for (name, job) in [("dig", Some(digging)), ("fill", Some(filling)), ("punch", None)] {
            let mut steps = 0;
            loop {
                let before = make(&path, &[(0, 2), (1, 3), (0, 1), (2, 4), (1, 2), (0, 1)], 77);
                let range = range(PUNCHED.start, PUNCHED.end).unwrap();
                let watch = DyingAt(AtomicUsize::new(steps));
                let held = HeldFile::open(&file, false).unwrap();
                let held = HeldFile { watch: &watch, ..held };
                let is_done = job.map_or_else(|| punch_held(&held, &range).is_ok(), |job| job(&held));
                drop(held);
                let now = fs::read(&path).unwrap();
                let is_zero = |at: usize| job.is_none() && PUNCHED.contains(&at) && now[at] == 0;
                assert_eq!(now.len(), before.len(), "{name}, step {steps}");
                let wrong = (0..now.len()).find(|&at| now[at] != before[at] && !is_zero(at));
                assert_eq!(wrong, None, "{name}, step {steps}");
                if is_done {
                    break;
                }
                steps += 1;
            }
            assert!(steps >= 2, "{name} has {steps} steps");
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn holes_dig_keeps_bytes_and_leaves_no_block_of_zeros(
        pieces in proptest::collection::vec((0_u8..3, 1_u64..40), 0..12),
        tail in 0_u64..4096,
        verify: bool,
    ) {
        for directory in with_holes() {
            let path = directory.path().join("file");
            let bytes = make(&path, &pieces, tail);
            // Like any read, showing changes the access time.
            let look = dig(&named(&path), Dig { dry_run: true, ..Dig::default() }, &Stop::default()).unwrap();
            let times = FileTimes::new()
                .set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_000_000))
                .set_accessed(SystemTime::UNIX_EPOCH + Duration::new(1_100_000_000, 456_000_000));
            OpenOptions::new().write(true).open(&path).unwrap().set_times(times).unwrap();
            // Only digging by root keeps a file's set-user-ID bit.
            set_mode(&path, if seekless_sys::effective_user() == 0 { 0o4751 } else { 0o751 });
            let before = fs::metadata(&path).unwrap();

            let (stop, done_bytes) = (Stop::default(), AtomicU64::new(0));
            let watch = ClosureWatch::new(&stop, most_bytes(&done_bytes), ignore);
            let dug = dig(&named(&path), Dig { verify, ..Dig::default() }, &watch).unwrap();
            drop(watch);
            assert_eq!(done_bytes.into_inner(), dug.bytes * if verify { 3 } else { 1 });
            let after = fs::metadata(&path).unwrap();
            let kept = |m: &fs::Metadata| (m.len(), m.mode(), m.uid(), m.mtime(), m.mtime_nsec(), m.atime(), m.atime_nsec());
            prop_assert_eq!(kept(&before), kept(&after));
            prop_assert_eq!(after.blocks() * 512, dug.allocated_bytes);

            let (shown, found) = stretches(&path);
            // XFS reserves what is behind a write, and takes that for data once it was read or read ahead.
            let never_written: u64 = pieces.iter().filter(|(kind, _)| *kind == 2).map(|(_, blocks)| (blocks + 1) * 4096).sum();
            prop_assert!(shown.zero_bytes.unwrap() <= never_written, "{:?}", found);
            if never_written == 0 {
                prop_assert_eq!((look.holes, look.zero_bytes), (dug.holes, dug.zero_bytes));
            }
            let mut at = 0;
            for stretch in &found {
                prop_assert!(stretch.range.start == at && stretch.range.end > at, "{:?}", found);
                at = stretch.range.end;
            }
            prop_assert_eq!(at, bytes.len() as u64);
            prop_assert_eq!(shown.data_bytes + shown.hole_bytes + shown.reserved_bytes, at);

            let filled = fill(&named(&path), false).unwrap();
            prop_assert!(filled.allocated_bytes >= at, "{:?}", filled);
            prop_assert_eq!(fs::read(&path).unwrap(), bytes);
            let after = fs::metadata(&path).unwrap();
            prop_assert_eq!((before.len(), before.mtime_nsec()), (after.len(), after.mtime_nsec()));
        }
    }

    #[test]
    fn holes_punch_makes_zeros_of_the_range_only(offset in 0_u64..200_000, length in 1_u64..300_000) {
        for directory in with_holes() {
            let path = directory.path().join("file");
            let mut bytes = make(&path, &[(0, 48)], 17);
            let done = punch(&named(&path), offset, length, false);
            if offset + length > bytes.len() as u64 {
                let is_refused = matches!(done.map_err(|error| error.kind), Err(HoleErrorKind::Range { .. }));
                prop_assert!(is_refused);
            } else {
                let done = done.unwrap();
                prop_assert_eq!((done.length, done.data_bytes), (length, length));
                bytes[offset as usize..(offset + length) as usize].fill(0);
                prop_assert!(done.allocated_bytes <= done.allocated_before_bytes);
            }
            prop_assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
}

#[test]
fn holes_punch_counts_data_and_leaves_changed_files_alone() {
    for directory in with_holes() {
        let path = directory.path().join("file");
        // 4 blocks of data, 4 of a hole, 4 of data.
        let bytes = make(&path, &[(0, 4), (2, 4), (0, 4)], 0);
        let range = |offset, length| punch_range(&named(&path), offset, length, false).unwrap();
        for (offset, length, data_bytes) in [
            (0, 48 << 10, 32 << 10),
            (16 << 10, 16 << 10, 0),
            (12 << 10, 8 << 10, 4 << 10),
            (100, 1, 1),
        ] {
            assert_eq!(range(offset, length).data_bytes, data_bytes, "{offset} {length}");
        }
        let examined = range(0, 4096);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[9], 5000).unwrap();
        drop(file);
        let refused = punch_examined(&named(&path), &examined, false).unwrap_err();
        assert!(matches!(refused.kind, HoleErrorKind::Changed), "{refused}");
        assert_eq!(fs::read(&path).unwrap()[..5000], bytes[..5000]);
    }
}

/// A change of a file by its name, which does not end the lease.
type Other<'a> = &'a dyn Fn(&Path);

/// Digs in a file, with another process changing it never, before the first hole, between two, and after the last, in turn.
fn dug_while(begun: Other<'_>, other: Other<'_>, ended: &dyn Fn(&Path, bool)) {
    let moments = ["never", "before", "between", "after"];
    let directories = with_holes();
    let each = directories
        .iter()
        .flat_map(|directory| moments.map(|moment| (directory, moment)));
    for (directory, moment) in each {
        println!("{moment}, in {}", directory.path().display());
        let path = directory.path().join(moment);
        make(&path, &[(1, 10), (0, 1), (1, 10)], 0);
        begun(&path);
        let file = named(&path);
        let held = HeldFile::open(&file, false).unwrap();
        if moment == "before" {
            other(&path);
        }
        held.punch(0, 4096).unwrap();
        if moment == "between" {
            other(&path);
        }
        let dug = dig_held(&held, Dig::default(), &Stop::default(), &|_| ()).unwrap();
        assert_eq!(dug.holes, 2);
        if moment == "after" {
            other(&path);
        }
        held.restore_times().unwrap();
        ended(&path, moment != "never");
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn holes_keep_a_mode_and_times_that_others_set_meanwhile() {
    // Only digging by root keeps a file's set-user-ID bit.
    let before = if seekless_sys::effective_user() == 0 {
        0o4755
    } else {
        0o755
    };
    dug_while(
        &|path| set_mode(path, before),
        &|path| set_mode(path, 0o700),
        &|path, is_changed| assert_eq!(mode(path), if is_changed { 0o700 } else { before }),
    );
    dug_while(
        &|path| set_modified(path, 1_000_000),
        &|path| set_modified(path, 2_000_000),
        &|path, is_changed| {
            let is_restored = fs::metadata(path).unwrap().mtime() == 1_000_000;
            assert_eq!(is_restored, !is_changed);
        },
    );
}

/// Sets the times of a file by its name: opening it would end the lease.
fn set_modified(path: &Path, seconds: i64) {
    let time = rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
}

#[test]
fn holes_restore_times_unless_others_changed_the_mode() {
    for directory in with_holes() {
        for (wanted, is_restored) in [(0o644, true), (0o600, false)] {
            let path = directory.path().join("file");
            fs::write(&path, b"before").unwrap();
            set_mode(&path, 0o644);
            set_modified(&path, 1_000_000_000);
            let file = named(&path);
            let held = HeldFile::open(&file, false).unwrap();
            let written = held.change(|file| {
                // By its name, as another process does.
                set_mode(&path, wanted);
                file.write_all_at(b"B", 0)
            });
            written.unwrap().unwrap();
            held.restore_times().unwrap();
            drop(held);
            assert_eq!(fs::metadata(&path).unwrap().mtime() == 1_000_000_000, is_restored);
            assert_eq!(mode(&path), wanted);
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn holes_leave_a_file_with_capabilities_alone() {
    // CAP_NET_RAW, permitted and effective: `struct vfs_cap_data` of linux/capability.h.
    let value: Vec<u8> = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let name = c"security.capability";
    for directory in directories() {
        let [path, full] = ["file", "full"].map(|name| directory.path().join(name));
        make(&path, &[(1, 10)], 0);
        make(&full, &[(0, 10)], 0);
        let set = |path: &Path| {
            let file = File::open(path).unwrap();
            seekless_sys::set_extended_attribute(file.as_fd(), name, &value).is_ok()
        };
        if !has_holes(directory.path()) || !set(&path) || !set(&full) {
            println!("skipped: capabilities need root");
            continue;
        }
        let before = fs::metadata(&path).unwrap();
        for error in refusals(&path) {
            let is_right = matches!(error.kind, HoleErrorKind::Privileged(Privilege::Capabilities));
            assert!(is_right, "{error}");
        }
        let after = fs::metadata(&path).unwrap();
        assert_eq!(
            (before.blocks(), before.mtime_nsec()),
            (after.blocks(), after.mtime_nsec())
        );
        assert_eq!(dug(&full).unwrap().holes, 0, "nothing to lose");
        for path in [&path, &full] {
            assert!(seekless_sys::has_capabilities(&File::open(path).unwrap()));
        }
    }
}

#[test]
fn holes_join_neighbours_and_name_the_user_of_a_busy_file() {
    let directory = tempfile::tempdir().unwrap();
    if !has_holes(directory.path()) {
        return;
    }
    let path = directory.path().join("file");
    // The long run is longer than what a thread takes at a time.
    make(&path, &[(0, 1), (1, 5000), (0, 1), (1, 2), (0, 1)], 0);
    // The space that it takes varies for a moment, while the system writes it.
    File::open(&path).unwrap().sync_all().unwrap();
    let how = Dig {
        min_bytes: 64 << 10,
        ..Dig::default()
    };
    let done = dig(&named(&path), how, &Stop::default()).unwrap();
    assert_eq!((done.holes, done.zero_bytes), (1, 5000 * 4096));
    assert!(
        done.allocated_before_bytes - done.allocated_bytes >= 5000 * 4096,
        "{done:?}"
    );
    assert_eq!(stretches(&path).0.zero_bytes, Some(2 * 4096));
    make(&path, &[(1, 100)], 0);
    let before = fs::metadata(&path).unwrap();
    let child = std::process::Command::new("sleep")
        .arg("60")
        .stdin(File::open(&path).unwrap())
        .spawn();
    let mut child = child.unwrap();
    for error in refusals(&path) {
        let text = error.to_string();
        assert!(matches!(error.kind, HoleErrorKind::InUse(_)), "{text}");
        assert!(text.contains(&format!("sleep ({})", child.id())), "{text}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.blocks(), before.mtime_nsec(), before.ctime_nsec()),
        (after.blocks(), after.mtime_nsec(), after.ctime_nsec())
    );
    assert!(dug(&path).is_ok());
}

/// Tries to punch a file whenever an update is about to write to it.
struct Punching<'a>(&'a Path);

impl Watch for Punching<'_> {
    fn before(&self, step: &WatchedStep<'_>) -> io::Result<()> {
        if step.kind == StepKind::Write {
            let refused = punch(&named(self.0), 0, 10, false).unwrap_err();
            assert!(matches!(refused.kind, HoleErrorKind::InUse(_)), "{refused}");
        }
        Ok(())
    }
}

#[test]
fn holes_and_updates_refuse_each_others_file() {
    let mut batch = Batch::new();
    batch.push(10, b"updated").unwrap();
    batch.push(5000, b"updated").unwrap();
    let updates = batch.resolve();
    for directory in with_holes() {
        let path = directory.path().join("file");
        fs::write(&path, vec![0; 100_000]).unwrap();
        for safety in [Safety::InPlace, Safety::Journal, Safety::Replace]
            .into_iter()
            .step_by(long_or(1, 2))
        {
            let how = Commit::by("update/sync,gap=16K".parse::<seekless_engine::Choice>().unwrap()).safety(safety);
            let file = named(&path);
            let held = HeldFile::open(&file, false).unwrap();
            let refused = commit(&path, &updates, &how).unwrap_err();
            assert!(
                matches!(refused.update_kind(), Some(UpdateErrorKind::Running)),
                "{refused}"
            );
            drop(held);
            // Opening a file ends the lease on it. An update in place can continue without one.
            let done = commit_watched(&path, &updates, &how, &Punching(&path));
            assert_eq!(done.is_ok(), safety != Safety::Replace, "{done:?}");
        }
    }
}

#[test]
fn holes_meet_each_file_of_a_directory_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("one"), b"bytes").unwrap();
    fs::hard_link(path("one"), path("other name")).unwrap();
    fs::create_dir(path("inner")).unwrap();
    fs::write(path("inner/two"), b"bytes").unwrap();
    std::os::unix::fs::symlink("one", path("link")).unwrap();
    let selection = Selection::new([directory.path().to_owned(), path("inner/two")], false);
    let mut met = Vec::new();
    let stop = Stop::default();
    let watch = ClosureWatch::new(
        &stop,
        |_| (),
        |file: HoleEvent<'_, ()>| {
            file.result.unwrap();
            met.push(file.path.to_owned());
            ControlFlow::Continue(())
        },
    );
    let left = each_file(&selection, |_, _| (), &watch);
    met.sort();
    assert_eq!(met.len(), 2, "{met:?}");
    assert_eq!((left.repeated, left.links), (2, 1));
}

/// A directory of small files and some large ones, and their paths.
fn small_and_large(directory: &Path, files: u32) -> Selection {
    for n in 0..files {
        let bytes = if n < 50 && n % 20 == 7 { 9 << 20 } else { 10 };
        File::create(directory.join(n.to_string()))
            .unwrap()
            .set_len(bytes)
            .unwrap();
    }
    Selection::new([directory.to_owned()], false)
}

fn listed(selection: &Selection) -> Vec<PathBuf> {
    let stop = Stop::default();
    let found = selection.roots().iter().flat_map(|root| selection.walk(root, &stop));
    found.map(|found| found.unwrap().path().to_owned()).collect()
}

#[test]
fn holes_tell_files_in_the_order_of_the_list() {
    let directory = tempfile::tempdir().unwrap();
    // Somewhere between the large ones are more small ones than are processed at a time.
    let selection = small_and_large(directory.path(), long_or(10_000, 1_200));
    let (stop, mut told) = (Stop::default(), Vec::new());
    let work = |file: &FileAt, _: &dyn JobWatch| {
        let path = file.path();
        let number: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_micros(number % 7 * 100));
        path.to_owned()
    };
    let watch = ClosureWatch::new(
        &stop,
        |_| (),
        |file: HoleEvent<'_, PathBuf>| {
            assert_eq!(file.result.as_deref(), Ok(file.path));
            told.push(file.path.to_owned());
            ControlFlow::Continue(())
        },
    );
    each_file(&selection, work, &watch);
    assert_eq!(told, listed(&selection));
}

#[test]
fn holes_stop_tells_what_was_done_and_does_no_more() {
    for listens in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let selection = small_and_large(directory.path(), 50);
        let (stop, worked) = (Stop::default(), AtomicUsize::new(0));
        let work = |_: &FileAt, _: &dyn JobWatch| {
            if worked.fetch_add(1, Ordering::SeqCst) == 4 && listens {
                stop.stop();
            }
        };
        let mut told = 0_usize;
        let watch = ClosureWatch::new(
            &stop,
            |_| (),
            |file: HoleEvent<'_, ()>| {
                told += usize::from(file.result.is_ok());
                if listens {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        );
        each_file(&selection, work, &watch);
        let worked = worked.into_inner();
        if listens {
            assert!(told == worked && (5..50).contains(&worked), "{told} {worked}");
        } else {
            // The files before the first large one were processed together.
            assert!(told == 1 && worked <= 47, "{told} {worked}");
        }
    }
}
