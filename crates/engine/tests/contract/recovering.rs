//! Journals that are not trusted: those that other users may have made, and those of an older state of the file. Files
//! that a flag protects from changes.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_engine::update::{Recovered, Safety, commit, journal_path, recover};
use seekless_sys::{self as sys, Support};

use super::crashing::{is_killed, updates, wanted};
use super::watches::{assert_alone, by, updates_of};
use super::{directories, file_of, sample};

/// A file with some of its updates, and its journal.
fn interrupted(directory: &tempfile::TempDir) -> (PathBuf, PathBuf) {
    let path = file_of(directory, "file", &sample(10_000));
    // Create, sync, sync of the directory, two writes.
    assert!(is_killed("journal", "update/sync", 5, &path));
    let journal = journal_path(&path);
    assert!(journal.exists());
    (path, journal)
}

fn refused(path: &Path, words: &str) {
    let before = fs::read(path).unwrap();
    let error = recover(path).unwrap_err().to_string();
    let is_named = error.contains(words) && error.contains(".seekless-journal");
    assert!(is_named, "{words}: {error}");
    assert!(fs::read(path).unwrap() == before, "{words}");
    assert!(fs::symlink_metadata(journal_path(path)).is_ok(), "{words}");
}

#[test]
fn recover_refuses_a_journal_that_others_may_have_made() {
    for directory in directories() {
        let (path, journal) = interrupted(&directory);
        for mode in [0o620, 0o602, 0o666] {
            fs::set_permissions(&journal, Permissions::from_mode(mode)).unwrap();
            refused(&path, "may have been changed by other users");
        }
        fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
        let other = directory.path().join("other");
        match fs::hard_link(&journal, &other) {
            Ok(()) => refused(&path, "2 hard links"),
            Err(error) => println!("skipped: {}: {error}", directory.path().display()),
        }
        let _ = fs::remove_file(&other);
        if chown(&journal, Some(65_534), None).is_ok() {
            refused(&path, "belongs to user 65534");
            chown(&journal, Some(0), None).unwrap();
        } else {
            println!("skipped: only root may give a file away");
        }
        fs::rename(&journal, &other).unwrap();
        symlink(&other, &journal).unwrap();
        refused(&path, "not a regular file");
        fs::rename(&other, &journal).unwrap();
        fs::set_permissions(&journal, Permissions::from_mode(0o622)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
        refused(&path, "may have been changed by other users");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(recover(&path).unwrap(), Recovered::Finished(_)));
        assert!(fs::read(&path).unwrap() == wanted());
    }
}

/// A lease ends a moment after its holder died, when its requests in a ring have ended.
#[test]
fn update_waits_for_a_lease_that_ends_in_a_moment() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"before");
        let held = File::options().read(true).write(true).open(&path).unwrap();
        let Ok(Support::Available(())) = sys::take_lease(&held, sys::LeaseKind::Exclusive) else {
            println!("skipped: no lease in {}", directory.path().display());
            continue;
        };
        let holder = thread::spawn(|| {
            thread::sleep(Duration::from_millis(700));
            drop(held);
        });
        assert!(matches!(recover(&path).unwrap(), Recovered::Nothing));
        holder.join().unwrap();
    }
}

#[test]
fn recover_refuses_damage_where_whole_seconds_hide_writes() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(10_000));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let set_time = |path: &Path, seconds| {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(time).unwrap();
        };
        set_time(&path, now);
        assert!(is_killed("journal", "update/sync", 5, &path));
        let journal = journal_path(&path);
        let mut bytes = fs::read(&journal).unwrap();
        let at = bytes.len() - 30;
        bytes[at] ^= 1;
        fs::write(&journal, &bytes).unwrap();
        // As on a file system with times in seconds.
        set_time(&path, now);
        set_time(&journal, now + 1);
        refused(&path, "may have been written to since");
        fs::remove_file(&journal).unwrap();
        // The file was last written to an hour before, and the journal is cut off.
        fs::write(&path, sample(10_000)).unwrap();
        set_time(&path, now - 3600);
        assert!(is_killed("journal", "update/sync", 1, &path));
        let file = File::options().write(true).open(&journal).unwrap();
        file.set_len(100).unwrap();
        assert_eq!(recover(&path).unwrap(), Recovered::Undone);
        assert!(fs::read(&path).unwrap() == sample(10_000));
    }
}

#[test]
fn recover_refuses_a_journal_of_an_older_state_or_later_link() {
    for directory in directories() {
        let (path, _) = interrupted(&directory);
        let link = directory.path().join("link");
        if let Err(error) = fs::hard_link(&path, &link) {
            println!("skipped: {}: {error}", directory.path().display());
        } else {
            // An update through a link that was made later. The old bytes in the journal.
            let old = updates_of([(50, &sample(10_000)[50..51])]);
            commit(&link, &old, &by("update/sync", Safety::InPlace)).unwrap();
            refused(&path, "has 2 hard links and had 1");
            fs::remove_file(&link).unwrap();
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 4001).unwrap();
        let neither = (0..=255).find(|other| *other != byte[0] && *other != b'p').unwrap();
        file.write_all_at(&[neither], 4001).unwrap();
        refused(&path, "byte 4001 is neither");
        file.write_all_at(&byte, 4001).unwrap();
        // Only their owner's.
        file.write_all_at(&[!sample(10_000)[2000]], 2000).unwrap();
        assert!(matches!(recover(&path).unwrap(), Recovered::Finished(_)));
        let mut expected = wanted();
        expected[2000] = !expected[2000];
        assert!(fs::read(&path).unwrap() == expected);
    }
}

/// Changes a flag of a file, as in `+i`; whether it could.
fn is_flagged(path: &Path, flag: &str) -> bool {
    let changed = Command::new("chattr").arg(flag).arg(path).output();
    changed.is_ok_and(|changed| changed.status.success())
}

#[test]
fn update_leaves_a_flagged_file_alone_and_names_the_flag() {
    for directory in directories() {
        for (flag, words) in [('i', "immutable (`chattr -i"), ('a', "append-only (`chattr -a")] {
            let path = file_of(&directory, "file", &sample(10_000));
            if !is_flagged(&path, &format!("+{flag}")) {
                println!("skipped: no flag {flag} in {}", directory.path().display());
                continue;
            }
            let safeties = [Safety::InPlace, Safety::Journal, Safety::Replace];
            let errors = safeties.map(|safety| commit(&path, &updates(), &by("update/sync", safety)).err());
            let recovered = recover(&path);
            is_flagged(&path, &format!("-{flag}"));
            for error in errors {
                let error = error.expect("the flag is set").to_string();
                assert!(error.contains(words) && error.contains("open for writing"), "{error}");
            }
            let error = recovered.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(fs::read(&path).unwrap() == sample(10_000), "{flag}");
            assert_alone(&path);
        }
    }
}
