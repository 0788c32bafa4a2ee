//! A process that updates a file is killed before each of its steps in turn; what it leaves is recovered and held against
//! what was there before and what was wanted. A write that fails instead is undone.
//!
//! A kill leaves the page cache as it is, so most of these tests notice a missing fsync only by the order of the
//! steps. What a loss of power leaves is tested by `recover_of_what_a_killed_update_left_on_the_device`: it takes the image of
//! the loop device right after the kill and mounts that.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use seekless_engine::full_text;
use seekless_engine::update::{
    Recovered, Safety, StepKind, Updates, WatchedStep, commit, commit_watched, journal_path, recover, recover_watched,
};
use tempfile::TempDir;

use super::watches::{Before, assert_alone, at, before_nth, both, by, failing, full, updates_of};
use super::{Mounted, directories, file_of, of_these, sample};

const METHODS: &str = "update/sync update/sync,gap=64 update/io_uring,depth=2,gap=0";
/// How the test tells its child what to do: the words, apart by tabs.
const CHILD: &str = "SEEKLESS_TEST_CRASH";

pub fn updates() -> Updates {
    let offsets = [20_000, 0, 50, 4000, 4090, 9998, 10_050];
    updates_of(offsets.map(|offset| (offset, b"updated")))
}

pub fn wanted() -> Vec<u8> {
    let mut bytes = sample(10_000);
    bytes.resize(20_007, 0);
    for (offset, update) in updates().iter() {
        bytes[offset as usize..offset as usize + update.len()].copy_from_slice(update);
    }
    bytes
}

/// Not a test of its own: what the child of the tests below does.
#[test]
fn child_that_is_killed() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = words.split('\t').collect();
    let [action, method, steps, path] = words.as_slice() else {
        panic!("{words:?}")
    };
    let killing = before_nth(|_| true, steps.parse::<u64>().unwrap() + 1, || std::process::abort());
    let path = Path::new(path);
    let update = |updates: &Updates, safety| {
        commit_watched(path, updates, &by(method, safety), &killing).unwrap();
    };
    match *action {
        "journal" => update(&updates(), Safety::Journal),
        "replace" => update(&updates(), Safety::Replace),
        _ => drop(recover_watched(path, &killing).unwrap()),
    }
}

/// Runs a child; whether it was killed before it was done.
pub fn is_killed(action: &str, method: &str, steps: u64, path: &Path) -> bool {
    let words = format!("{action}\t{method}\t{steps}\t{}", path.display());
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashing::child_that_is_killed"])
        .env(CHILD, words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let has_run = status.success() || status.signal().is_some();
    assert!(has_run, "{action} {method} {steps}: {status}");
    !status.success()
}

/// Kills an update by a journal before each of its steps, or before some of them, and holds what is recovered against the
/// file before and after. Returns how often an update was finished, and the number of kills.
pub fn finished_after_kills(
    directory: &TempDir,
    [action, method]: [&str; 2],
    every: usize,
    [before, after]: [&[u8]; 2],
) -> [u64; 2] {
    let mut finished = 0;
    for steps in (0..).step_by(every) {
        let path = file_of(directory, "file", before);
        let killed = is_killed(action, method, steps, &path);
        let recovered = recover(&path).unwrap();
        finished += u64::from(matches!(recovered, Recovered::Finished(_)));
        // Without a journal, nothing was begun yet, or all is done.
        let is_after = recovered != Recovered::Undone && finished > 0;
        let found = std::fs::read(&path).unwrap();
        let expected = if is_after { after } else { before };
        assert!(found == expected, "{method}, killed before step {steps}: {recovered:?}");
        assert!(!journal_path(&path).exists());
        assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
        if !killed {
            assert!(found == after);
            return [finished, steps];
        }
    }
    unreachable!("an update ends")
}

#[test]
fn journal_leaves_old_or_wanted_bytes_after_a_kill_at_any_step() {
    for directory in directories() {
        for method in of_these(METHODS, directory.path()).chain(["update/planned"]) {
            let contents = [&sample(10_000)[..], &wanted()];
            let [finished, steps] = finished_after_kills(&directory, ["journal", method], 1, contents);
            assert!(finished > 0, "{method}");
            println!("{method}: killed before each of {steps} steps");
        }
    }
}

#[test]
fn replace_leaves_old_or_wanted_bytes_after_a_kill_at_any_step() {
    for directory in directories() {
        let opened = seekless_sys::Directory::open(directory.path()).unwrap();
        let is_unnamed = seekless_sys::unnamed_file(opened).unwrap().available().is_some();
        let (mut steps, mut leaving) = (0, 0);
        loop {
            let path = file_of(&directory, "file", &sample(10_000));
            let killed = is_killed("replace", "update/sync,gap=64", steps, &path);
            leaving += std::fs::read_dir(directory.path()).unwrap().count() - 1;
            let found = std::fs::read(&path).unwrap();
            let is_whole = found == wanted() || found == sample(10_000);
            assert!(is_whole, "killed before step {steps}");
            assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
            let names = std::fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(names, 1, "killed before step {steps}");
            if !killed {
                assert!(found == wanted());
                break;
            }
            steps += 1;
        }
        assert!(steps > 5);
        // It has a name only from before its last fsync to the exchange, and then the old one has that until it is removed.
        assert!(!is_unnamed || leaving == 4, "{leaving} of {steps} kills left a file");
    }
}

#[test]
fn recover_that_is_killed_is_recovered() {
    let directory = &directories()[0];
    for steps in 0.. {
        let path = file_of(directory, "file", &sample(10_000));
        // Make, sync, sync of the directory, two writes.
        assert!(is_killed("journal", "update/sync", 5, &path));
        let killed = is_killed("recover", "update/sync", steps, &path);
        recover(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted(), "killed before step {steps}");
        if !killed {
            break;
        }
    }
}

/// A file as it is announced to watches.
fn file_in(directory: &TempDir) -> PathBuf {
    file_of(directory, "file", &sample(10_000)).canonicalize().unwrap()
}

#[test]
fn update_whose_write_fails_says_how_far_it_went_or_is_undone() {
    let directory = &directories()[0];
    for method in of_these(METHODS, directory.path()) {
        let failed = |safety, nth| {
            let path = file_in(directory);
            let failing = failing(&path, StepKind::Write, nth);
            let done = commit_watched(&path, &updates(), &by(method, safety), &failing);
            (done, std::fs::read(&path).unwrap())
        };
        let (done, found) = failed(Safety::Replace, 1);
        assert!(done.is_ok() && found == wanted());
        let (done, found) = failed(Safety::InPlace, 3);
        let error = done.unwrap_err().to_string();
        assert!(error.contains("the first "), "{error}");
        assert!(found != sample(10_000), "{method}: {error}");
        for failures in 0.. {
            let path = file_in(directory);
            let failing = failing(&path, StepKind::Write, failures + 1);
            let done = commit_watched(&path, &updates(), &by(method, Safety::Journal), &failing);
            let found = std::fs::read(&path).unwrap();
            assert!(!journal_path(&path).exists());
            let Err(error) = done else {
                assert!(found == wanted(), "{method}");
                assert!(failures > 3, "{method}: {failures} writes failed");
                break;
            };
            assert!(error.to_string().contains("unchanged"), "{error}");
            let is_unchanged = found == sample(10_000);
            assert!(is_unchanged, "{method}, write {failures}: {} bytes", found.len());
        }
    }
}

#[test]
fn update_claims_nothing_after_a_failed_fsync() {
    let directory = &directories()[0];
    for method in ["update/sync,fsync", "update/mmap,fsync"] {
        let path = file_in(directory);
        let failing = failing(&path, StepKind::Sync, 1);
        let result = commit_watched(&path, &updates(), &by(method, Safety::InPlace), &failing);
        let error = full_text(&result.unwrap_err());
        let made = "all 7 writes reached the page cache, but may be missing from the device";
        assert!(error.contains("fsync failed") && error.contains(made), "{error}");
        assert!(!error.contains("applied"), "{error}");
    }
}

#[test]
fn update_that_fails_when_made_or_undone_says_that_it_is() {
    let directory = &directories()[0];
    let path = file_in(directory);
    let journal = journal_path(&path);
    let removing = "removing the journal failed";
    for (safety, kind, nth, file, words) in [
        (Safety::Replace, StepKind::Sync, 1, &path, "may have it again"),
        (Safety::Journal, StepKind::Sync, 3, &journal, removing),
        (Safety::Journal, StepKind::Remove, 1, &journal, removing),
    ] {
        std::fs::write(&path, sample(10_000)).unwrap();
        let failing = failing(file, kind, nth);
        let error = commit_watched(&path, &updates(), &by("update/sync", safety), &failing).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("all updates") && error.contains(words), "{error}");
        assert!(std::fs::read(&path).unwrap() == wanted(), "{safety:?}");
        recover(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted(), "{safety:?}");
        assert_alone(&path);
    }
    std::fs::write(&path, sample(10_000)).unwrap();
    let no_write = Before(|step: &WatchedStep<'_>| if step.kind == StepKind::Write { full() } else { Ok(()) });
    let watch = both(no_write, at(StepKind::Remove, 1, full));
    let error = commit_watched(&path, &updates(), &by("update/sync", Safety::Journal), &watch).unwrap_err();
    let error = error.to_string();
    let words = "the file is unchanged; its journal may still exist";
    assert!(error.contains(words), "{error}");
    assert!(std::fs::read(&path).unwrap() == sample(10_000));
}

#[test]
fn journal_is_on_the_device_before_and_until_after_the_file() {
    let directory = &directories()[0];
    let path = file_in(directory);
    let steps = Mutex::new(Vec::new());
    let watch = Before(|step: &WatchedStep<'_>| {
        steps.lock().unwrap().push((step.kind, step.path.to_owned()));
        Ok(())
    });
    commit_watched(&path, &updates(), &by("update/sync,gap=16K", Safety::Journal), &watch).unwrap();
    let journal = journal_path(&path);
    let expected = [
        (StepKind::Make, &journal),
        (StepKind::Sync, &journal),
        (StepKind::Sync, &journal),
        (StepKind::Write, &path),
        (StepKind::Sync, &path),
        (StepKind::Remove, &journal),
        (StepKind::Sync, &journal),
    ];
    let expected = expected.map(|(kind, path)| (kind, path.clone()));
    assert_eq!(steps.into_inner().unwrap(), expected);
}

#[test]
fn recover_refuses_journals_of_others_and_damaged_ones() {
    let directory = &directories()[0];
    let path = file_of(directory, "file", &sample(10_000));
    assert!(is_killed("journal", "update/sync", 5, &path));
    let journal = journal_path(&path);
    let whole = std::fs::read(&journal).unwrap();
    let refused = commit(&path, &updates(), &by("update/sync", Safety::InPlace));
    assert!(refused.unwrap_err().to_string().contains("recover the file first"));
    let refused = |what: &str| {
        let error = recover(&path).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("move"), "{error}");
        assert!(journal.exists());
    };
    let mut damaged = whole.clone();
    damaged[whole.len() - 30] ^= 1;
    std::fs::write(&journal, &damaged).unwrap();
    refused("written to since");
    std::fs::write(&journal, [&b"SKLSJRNL\x01\0\0\0"[..], &[0; 68]].concat()).unwrap();
    refused("use that version");
    std::fs::write(&journal, vec![b'x'; 1000]).unwrap();
    refused("not a seekless journal");
    std::fs::write(&journal, &whole).unwrap();
    // Made while the old file is there, so that it cannot get its inode.
    std::fs::rename(file_of(directory, "newer", &sample(100)), &path).unwrap();
    refused("an older file");
    assert_eq!(std::fs::read(&path).unwrap(), sample(100));
}

/// The image file of the loop device that holds a directory.
fn image_below(directory: &Path) -> PathBuf {
    let output = Command::new("findmnt")
        .args(["-n", "-o", "SOURCE", "-T"])
        .arg(directory)
        .output()
        .unwrap();
    let source = String::from_utf8(output.stdout).unwrap();
    let device = source.trim().rsplit('/').next().unwrap().to_owned();
    let image = std::fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap();
    PathBuf::from(image.trim_end())
}

/// A copy of a mounted image, mounted beside it. The image must lie where files can be cloned, or its copy would be of no
/// one moment.
fn moment_of(image: &Path) -> Mounted {
    let directory = tempfile::tempdir_in(image.parent().unwrap()).unwrap();
    let (copy, moment) = (directory.path().join("copy"), Mounted { directory });
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {told}");
    };
    run(Command::new("cp").arg("--reflink=always").args([image, &copy]));
    std::fs::create_dir(moment.path()).unwrap();
    let kind = image.file_stem().unwrap();
    // Two XFS of one UUID are mounted only where that is asked for.
    let options = if kind == "xfs" { "loop,nouuid" } else { "loop" };
    let mut mount = Command::new("mount");
    run(mount
        .arg("-t")
        .arg(kind)
        .args(["-o", options])
        .args([copy, moment.path()]));
    moment
}

/// `write-through` changes the file on the device before any sync of the file. So the image shows a journal that was
/// synced too late.
const ON_THE_DEVICE: &str =
    "update/sync update/sync,gap=64 update/sync,write-through update/io_uring,depth=2,write-through";

#[test]
#[ignore = "needs file systems of its own, in images on XFS: cargo xtask test --only crash"]
fn recover_of_what_a_killed_update_left_on_the_device() {
    let (directories, mut moments) = (directories(), 0);
    let each = directories.iter().flat_map(|directory| {
        let methods = of_these(ON_THE_DEVICE, directory.path());
        methods.flat_map(move |method| ["journal", "replace"].map(|action| (directory, action, method)))
    });
    for (directory, action, method) in each {
        let image = image_below(directory.path());
        let mut killed = true;
        for steps in 0.. {
            let path = file_of(directory, "file", &sample(10_000));
            for durable in [&path, directory.path(), directory.path().parent().unwrap()] {
                std::fs::File::open(durable).unwrap().sync_all().unwrap();
            }
            killed = is_killed(action, method, steps, &path);
            let moment = moment_of(&image);
            let below = path.strip_prefix(directory.path().parent().unwrap()).unwrap();
            let held = moment.path().join(below);
            let recovered = recover(&held).unwrap_or_else(|error| panic!("{action} {method} {steps}: {error}"));
            let found = std::fs::read(&held).unwrap();
            let context = format!(
                "{action} by {method} on {}, killed before step {steps}: {recovered:?}",
                image.display()
            );
            assert!(found == sample(10_000) || found == wanted(), "{context}");
            if let Recovered::Finished(_) = recovered {
                assert!(found == wanted(), "{context}");
            }
            // What has succeeded is there after a loss of power.
            assert!(killed || found == wanted(), "{context}");
            assert!(!journal_path(&held).exists(), "{context}");
            moments += 1;
            recover(&path).unwrap();
            if !killed {
                break;
            }
        }
        assert!(!killed, "an update ends");
    }
    println!("{moments} images of devices recovered");
}
