//! `bench copy --dir A --to B`: copies from one storage to another.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seekless_record::{Entry, EntryVerdict, Trial};

use crate::common::place::{Place, assert_contains};

/// A directory on another file system than the place's.
fn elsewhere(place: &Place) -> Option<tempfile::TempDir> {
    let other = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    if device(other).is_none_or(|device_of_other| Some(device_of_other) == device(&place.directory())) {
        println!("skipped: /dev/shm is not another file system");
        return None;
    }
    tempfile::tempdir_in(other).ok()
}

#[test]
fn bench_copy_to_omits_methods_that_cannot_cross_storages() {
    let place = Place::new();
    let Some(other) = elsewhere(&place) else { return };
    let to = other.path().to_str().unwrap();
    let bench = ["bench", "copy", "--to", to, "--size", "1M", "--rounds", "1"];
    let ended = place.succeeds((&bench, "--all"));
    let title = format!("to another storage, fsync, . to {to}");
    assert_contains(&ended.stdout, &[&title]);
    let run = place.only_run();
    assert_eq!(run.storages.len(), 2);
    let [contest] = run.contests.as_slice() else {
        panic!("{} contests", run.contests.len())
    };
    assert_eq!((contest.storage, contest.other_storage), (0, Some(1)));
    let entry = |name: &str| {
        let mut entries = contest.entries.iter();
        entries.find(|entry| entry.name().starts_with(name)).unwrap()
    };
    let is_measured = |entry: &Entry| entry.verdict.is_measured();
    assert!(is_measured(entry("copy/sync,block=1M,fsync")) && is_measured(entry("copy/splice")));
    let EntryVerdict::Unavailable { why } = &entry("copy/reflink").verdict else {
        panic!("{:?}", entry("copy/reflink").verdict)
    };
    assert_contains(why, &["cannot share blocks between these two files"]);
    let is_sound = |trial: &Trial| trial.valid && trial.checked_bytes == Some(8 << 20);
    assert!(
        run.trials.len() >= 8 && run.trials.iter().all(is_sound),
        "{:?}",
        run.trials
    );
    for directory in [other.path(), &place.directory()] {
        let left = fs::read_dir(directory).unwrap().count();
        assert_eq!(left, 0, "in {}", directory.display());
    }
    let again = place.succeeds("bench --like latest --rounds 1");
    assert_contains(&again.stdout, &[&title]);
}
