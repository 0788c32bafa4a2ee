//! Updating.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};
use std::time::Duration;

use seekless_engine::Method;
use seekless_engine::error::UpdateErrorKind;
use seekless_engine::method::{CachePolicy, Operation, Preallocate};
use seekless_engine::update::{
    Batch, PlanLimits, Safety, StepKind, UpdateEstimate, Updates, WatchedStep, commit, commit_watched, cost,
};

use super::pairs::is_long;
use super::watches::{Before, LIMITS, assert_alone, at, by, how, updates_of};
use super::{Setting, cases, directories, each_method, file_of, is_available, of_these, sample, wait_until_closed};

/// Updates of all kinds in and behind a file of this many bytes, and the file's new content.
fn updated(before: &[u8], is_dense: bool) -> (Updates, Vec<u8>) {
    let (mut batch, mut after) = (Batch::new(), before.to_vec());
    let mut update = |offset: usize, bytes: &[u8]| {
        batch.push(offset as u64, bytes).unwrap();
        after.resize(after.len().max(offset + bytes.len()), 0);
        after[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    // Each may be a write that waits for the device: 200 are enough.
    let step = if is_dense { (before.len() / 200).max(100) } else { 9000 };
    for offset in (0..before.len()).step_by(step).rev() {
        update(offset, &[offset as u8, 1, 2, 3]);
    }
    update(before.len() / 2, &sample(5000));
    // One partly overwritten, one behind the end with a gap, and one twice.
    update(before.len() / 2 + 100, b"later wins");
    update(before.len() + 7000, b"behind the end");
    update(3, b"first");
    update(3, b"twice");
    (batch.resolve(), after)
}

#[test]
fn update_leaves_what_a_naive_file_holds_by_every_method() {
    for (directory, method) in each_method(Operation::Update) {
        let cases = cases(&method);
        let step = (cases.len() / 3).max(1);
        for (method, size) in cases.into_iter().step_by(step) {
            for is_dense in [true, false] {
                let before = sample(size);
                let path = file_of(&directory, "file", &before);
                let (updates, after) = updated(&before, is_dense);
                let facts = UpdateEstimate::assuming(&path, &LIMITS).unwrap().facts;
                let told = cost(&updates, &facts, &method, Safety::InPlace);
                let done = commit(&path, &updates, &how(method, Safety::InPlace))
                    .unwrap_or_else(|error| panic!("{method}, {size} bytes: {error}"));
                let done = (done.writes, done.requested_bytes, done.written_bytes);
                let told = (told.work.writes, told.requested_bytes, told.work.written_bytes);
                assert_eq!(done, told, "what {method} did of {size} bytes, and what was told");
                let is_right = std::fs::read(&path).unwrap() == after;
                assert!(is_right, "{method} left {size} bytes wrong");
                std::fs::remove_file(&path).unwrap();
            }
        }
    }
}

#[test]
fn update_by_journal_and_replacement_leaves_nothing_beside() {
    for (directory, method) in each_method(Operation::Update) {
        for safety in [Safety::Journal, Safety::Replace] {
            if method.options().cache() == CachePolicy::Direct || method.options().preallocate() == Preallocate::Both {
                continue;
            }
            let before = sample(40_000);
            let path = file_of(&directory, "file", &before);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            let (updates, after) = updated(&before, false);
            let limits = PlanLimits { safety, ..LIMITS };
            let facts = UpdateEstimate::assuming(&path, &limits).unwrap().facts;
            let told = cost(&updates, &facts, &method, safety);
            let done = commit(&path, &updates, &how(method, safety));
            let done = done.unwrap_or_else(|error| panic!("{method}: {error}"));
            assert!(std::fs::read(&path).unwrap() == after, "{method}, {safety:?}");
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
            assert_eq!(done.safety_bytes(), told.safety_bytes, "{method}, {safety:?}");
            let is_shared = safety == Safety::Replace && facts.copied_bytes == 0;
            assert_eq!(done.safety_bytes() == 0, is_shared, "{method}, {safety:?}: {done:?}");
            let is_more = is_shared || done.amplification() > 2.0;
            assert!(is_more, "{method}, {safety:?}: {done:?}");
            assert_alone(&path);
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn update_fills_gaps_only_where_others_are_kept_out() {
    let directory = &directories()[0];
    let path = file_of(directory, "file", &sample(10_000));
    let updates = updates_of([(10, b"one"), (100, b"two")]);
    let reader = std::fs::File::open(&path).unwrap();
    let gaps = by("update/sync,gap=4K", Safety::InPlace);
    let refused = commit(&path, &updates, &gaps).unwrap_err();
    assert!(refused.not_exclusive().is_some(), "{refused:?}");
    assert!(std::fs::read(&path).unwrap() == sample(10_000));
    for (text, is_unsafe, writes) in [("update/sync", false, 2), ("update/sync,gap=4K", true, 1)] {
        let mut how = gaps;
        (how.method, how.is_unsafe) = (text.parse().unwrap(), is_unsafe);
        let done = commit(&path, &updates, &how);
        assert_eq!(done.unwrap().writes, writes, "{text}");
    }
    drop(reader);
    wait_until_closed(&path);
    assert_eq!(commit(&path, &updates, &gaps).unwrap().writes, 1);
}

/// A file that is not in memory, updates all along it, optionally with one of its last four bytes, and its new content.
fn cold(directory: &Path, bytes: usize, reaches_end: bool) -> (PathBuf, Updates, Vec<u8>) {
    let before = sample(bytes);
    let path = directory.join("file");
    std::fs::write(&path, &before).unwrap();
    let (mut batch, mut after) = (Batch::new(), before);
    let end = reaches_end.then_some(bytes - 4);
    for offset in (4..bytes - 600).step_by(400).chain(end) {
        batch.push(offset as u64, b"cold").unwrap();
        after[offset..offset + 4].copy_from_slice(b"cold");
    }
    drop_from_memory(&path);
    (path, batch.resolve(), after)
}

fn drop_from_memory(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    seekless_sys::sync(&file).unwrap();
    seekless_sys::drop_from_cache(&file).unwrap();
    drop(file);
    wait_until_closed(path);
}

#[test]
fn update_passes_the_page_cache_for_cold_files_not_at_the_end() {
    for directory in directories() {
        for (bytes, reaches_end) in [(1 << 20, false), ((1 << 20) - 300, true)] {
            let (path, updates, after) = cold(directory.path(), bytes, reaches_end);
            let estimate = UpdateEstimate::assuming(&path, &LIMITS).unwrap();
            let method = estimate.plan(&updates, &LIMITS).plan.method;
            let is_direct = method.options().cache() == CachePolicy::Direct;
            let may_be = estimate.facts.absent_part > 0.99 && estimate.facts.direct_alignment.is_some();
            assert_eq!(is_direct, may_be && !reaches_end, "{method}, {:?}", estimate.facts);
            println!("{}: {bytes} bytes: {method}", directory.path().display());
            commit(&path, &updates, &by("update/planned,fsync", Safety::InPlace)).unwrap();
            assert!(std::fs::read(&path).unwrap() == after, "{method}");
        }
    }
}

#[test]
fn update_past_the_page_cache_goes_on_when_others_open_the_file() {
    let directory = &directories()[0];
    let (path, updates, after) = cold(directory.path(), 30 << 20, false);
    let estimate = UpdateEstimate::assuming(&path, &LIMITS).unwrap();
    let method = estimate.plan(&updates, &LIMITS).plan.method;
    if method.options().cache() != CachePolicy::Direct {
        println!("skipped: it is planned as {method}");
        return;
    }
    let watch = || {
        at(StepKind::Write, 2, || {
            let how = seekless_sys::Opening::plain(seekless_sys::Access::Read);
            // Does not wait; the lease begins to end.
            assert!(seekless_sys::open(&path, how).is_err());
            Ok(())
        })
    };
    let partly = commit_watched(&path, &updates, &how(method, Safety::InPlace), &watch());
    let partly = partly.unwrap_err();
    let is_told = matches!(partly.update_kind(), Some(UpdateErrorKind::PartlyUpdated { .. }));
    assert!(is_told, "{partly:?}");
    drop_from_memory(&path);
    let planned = by("update/planned,fsync", Safety::InPlace);
    commit_watched(&path, &updates, &planned, &watch()).unwrap();
    assert!(std::fs::read(&path).unwrap() == after);
}

#[test]
fn update_keeps_what_others_write_between_its_writes() {
    const STEP: usize = 64 << 10;
    for directory in directories() {
        // Which writes are in flight when it comes depends on the system, so there are several attempts.
        let [cached, direct] = [
            "update/io_uring,depth=8,gap=4K",
            "update/io_uring,depth=8,direct,gap=4K",
        ];
        let attempts = [cached, cached, cached, cached, direct, direct].join(" ");
        for method in of_these(&attempts, directory.path()) {
            let (mut batch, mut after) = (Batch::new(), sample(30 * STEP));
            let mut update = |offset: usize, bytes: usize| {
                batch.push(offset as u64, &vec![b'u'; bytes]).unwrap();
                after[offset..offset + bytes].fill(b'u');
            };
            // It comes before a write without gaps, after the reads for one with gaps.
            for n in 0..30 {
                if n > 8 && n % 2 == 1 {
                    update(n * STEP, 4096);
                } else {
                    update(n * STEP, 4);
                    update(n * STEP + 100, 4);
                }
            }
            let path = file_of(&directory, "file", &sample(30 * STEP));
            wait_until_closed(&path);
            let places = [8, 10, 12, 28].map(|n| n * STEP + 50);
            let (first, going) = (Once::new(), Mutex::new(None));
            // Another process, which opens the file before a write, waits for the lease, and then writes bytes.
            let watch = Before(|step: &WatchedStep<'_>| {
                if step.offset >= 9 * STEP as u64 {
                    first.call_once(|| {
                        let path = step.path.to_owned();
                        let write = move || write_marks(&path, &places).unwrap();
                        *going.lock().unwrap() = Some(std::thread::spawn(write));
                    });
                    // Time for it to open the file, and to write once it may.
                    std::thread::sleep(Duration::from_millis(8));
                }
                Ok(())
            });
            let done = commit_watched(&path, &batch.resolve(), &by(method, Safety::InPlace), &watch);
            going.into_inner().unwrap().unwrap().join().unwrap();
            let found = std::fs::read(&path).unwrap();
            for at in places {
                assert_eq!(found[at], b'!', "{method} undid byte {at}");
                after[at] = b'!';
            }
            match done {
                Ok(_) => assert!(found == after, "{method}"),
                // Without the page cache, nothing but whole blocks can be written.
                Err(error) => assert!(error.not_exclusive().is_some() && method.contains("direct"), "{error}"),
            }
        }
    }
}

/// Marks bytes of a file that may have to be waited for.
fn write_marks(path: &Path, places: &[usize]) -> std::io::Result<()> {
    let file = std::fs::File::options().write(true).open(path)?;
    places.iter().try_for_each(|&at| file.write_all_at(b"!", at as u64))
}

#[test]
fn update_keeps_what_others_wrote_while_its_lease_ran_out() {
    const STEP: usize = 16 << 10;
    let Some(_time) = Setting::of("/proc/sys/fs/lease-break-time", "1") else {
        println!("skipped: setting the time of leases needs root on Linux");
        return;
    };
    for directory in directories() {
        for (method, in_short) in [
            ("update/sync,gap=4K", 3),
            ("update/io_uring,depth=1,gap=4K", 3),
            ("update/io_uring,depth=4,gap=4K", 0),
        ] {
            let method: Method = method.parse().unwrap();
            if !is_available(&method, directory.path()) {
                continue;
            }
            // Each stop takes the second of a lease.
            for stops_before in [0, 3].into_iter().filter(|&stop| is_long() || stop == in_short) {
                let mut after = sample(6 * STEP);
                let offsets: Vec<usize> = (0..6).flat_map(|n| [n * STEP, n * STEP + 100]).collect();
                for &offset in &offsets {
                    after[offset..offset + 4].copy_from_slice(b"upda");
                }
                let marks: Vec<usize> = (0..6).map(|n| n * STEP + 50).collect();
                for &at in &marks {
                    after[at] = b'!';
                }
                let path = file_of(&directory, "file", &sample(6 * STEP));
                wait_until_closed(&path);
                // As if this process was stopped for longer than its lease lasts.
                let watch = at(StepKind::Write, stops_before + 1, || {
                    let other = || write_marks(&path, &marks);
                    std::thread::scope(|scope| scope.spawn(other).join().expect("the other does not panic"))
                });
                let updates = updates_of(offsets.iter().map(|&offset| (offset as u64, b"upda")));
                commit_watched(&path, &updates, &how(method, Safety::InPlace), &watch).unwrap();
                let found = std::fs::read(&path).unwrap();
                let lost: Vec<_> = marks.iter().filter(|&&at| found[at] != b'!').collect();
                let case = format!("{method}, stopped before write {stops_before}");
                assert!(lost.is_empty(), "{case}: lost {lost:?}");
                assert!(found == after, "{case}");
            }
        }
    }
}
