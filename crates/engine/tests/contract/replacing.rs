//! Replacing a file while others have it open.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use seekless_engine::full_text;
use seekless_engine::update::{Commit, Recovered, Safety, StepKind, UpdateEstimate, Updates, WatchedStep};
use seekless_engine::update::{commit, commit_watched, recover};

use super::pairs::is_long;
use super::watches::{Before, LIMITS, assert_alone, at, by, full, updates_of};
use super::{directories, file_of, wait_until_closed};

fn one_byte() -> Updates {
    updates_of([(0, b"B")])
}

fn replace() -> Commit {
    by("update/sync", Safety::Replace)
}

pub fn has_leases(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    let taken = seekless_sys::take_lease(&file, seekless_sys::LeaseKind::AgainstWriters).unwrap();
    let found = taken.available().is_some();
    if !found {
        println!("skipped: no leases here");
    }
    found
}

#[test]
fn replace_refuses_a_file_that_others_write_and_not_readers() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"before");
        if !has_leases(&path) {
            continue;
        }
        let writer = File::options().write(true).open(&path).unwrap();
        let error = full_text(&commit(&path, &one_byte(), &replace()).unwrap_err());
        assert!(error.contains("open for writing"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"before");
        let unsafely = replace().unsafely();
        commit(&path, &one_byte(), &unsafely).unwrap();
        drop(writer);
        wait_until_closed(&path);
        let reader = File::open(&path).unwrap();
        commit(&path, &one_byte(), &replace()).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "Before", "the old one, whole");
        wait_until_closed(&path);
        let writer = Mutex::new(None);
        let watch = at(StepKind::Write, 1, || {
            let path = path.clone();
            let open = move || File::options().write(true).open(path).unwrap();
            *writer.lock().unwrap() = Some(std::thread::spawn(open));
            // It waits for the lease; this waits until the kernel has noticed it.
            std::thread::sleep(Duration::from_millis(200));
            Ok(())
        });
        let error = commit_watched(&path, &one_byte(), &replace(), &watch).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("another process opened it for writing"), "{error}");
        let writer = writer.lock().unwrap().take().unwrap().join().unwrap();
        writer.write_all_at(b"theirs", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_alone(&path);
    }
}

#[test]
fn replace_keeps_files_of_the_user_whose_names_are_like_ours() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"before");
        let names = [
            ".file.seekless-new",
            ".file.seekless-probe",
            ".seekless-new-1-2",
            ".seekless-new-1-2-3.4",
            ".seekless-new-",
        ];
        let theirs = names.map(|name| file_of(&directory, name, b"precious"));
        commit(&path, &one_byte(), &replace()).unwrap();
        recover(&path).unwrap();
        UpdateEstimate::measured(&path, &LIMITS).unwrap();
        for path in &theirs {
            assert_eq!(fs::read(path).unwrap(), b"precious", "{}", path.display());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1 + theirs.len());
    }
}

#[test]
fn update_without_room_for_the_name_of_a_journal() {
    for directory in directories() {
        let path = file_of(&directory, &"n".repeat(250), b"before");
        for safety in [Safety::InPlace, Safety::Journal, Safety::Replace] {
            let is_done = safety != Safety::Journal;
            fs::write(&path, b"before").unwrap();
            wait_until_closed(&path);
            let how = replace().safety(safety);
            let error = commit(&path, &one_byte(), &how).err().map(|error| error.to_string());
            let is_right = error
                .as_ref()
                .is_none_or(|error| error.contains("the file name is too long"));
            assert_eq!((error.is_none(), is_right), (is_done, true), "{error:?}");
            let expected: &[u8] = if is_done { b"Before" } else { b"before" };
            assert_eq!(fs::read(&path).unwrap(), expected);
            assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
            UpdateEstimate::measured(&path, &LIMITS).unwrap();
        }
    }
}

#[test]
fn update_beside_another_is_refused_and_the_first_goes_on() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"before and more");
        if !has_leases(&path) {
            continue;
        }
        let in_place = by("update/sync,gap=64", Safety::InPlace);
        let both = updates_of([(0, b"B"), (11, b"M")]);
        let safeties = [Safety::InPlace, Safety::Journal, Safety::Replace];
        let all = [replace(), in_place].map(|first| safeties.map(|safety| (first, in_place.safety(safety))));
        // Each waits a second for the first to end.
        for (first, second) in all.concat().into_iter().step_by(if is_long() { 1 } else { 2 }) {
            fs::write(&path, b"before and more").unwrap();
            wait_until_closed(&path);
            let watch = at(StepKind::Write, 1, || {
                let mut limits = LIMITS;
                limits.safety = second.safety;
                let estimate = UpdateEstimate::assuming(&path, &limits).unwrap_err().to_string();
                assert!(estimate.contains("is running"), "{estimate}");
                let refused = commit(&path, &one_byte(), &second).unwrap_err().to_string();
                assert!(refused.contains("another update of this file is running"), "{refused}");
                Ok(())
            });
            let done = commit_watched(&path, &both, &first, &watch).unwrap();
            // An update in place writes exactly the updates from then on.
            assert_eq!(done.requested_bytes, 2, "{first:?} {second:?}");
            assert_eq!(fs::read(&path).unwrap(), b"Before and More");
        }
    }
}

#[test]
fn replace_that_is_ended_leaves_the_old_file_and_nothing_else() {
    for directory in directories() {
        let before = vec![1; 40 << 20];
        let path = file_of(&directory, "file", &before);
        if !has_leases(&path) {
            continue;
        }
        match commit_watched(&path, &one_byte(), &replace(), &at(StepKind::Copy, 1, full)) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("the file is unchanged"), "{error}");
                assert_eq!(fs::read(&path).unwrap(), before);
            }
            Ok(done) => assert_eq!(done.copied_bytes, 0, "its blocks are shared"),
        }
        assert_alone(&path);
    }
}

#[test]
fn replace_keeps_holes() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"before");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_all_at(b"the end", (1 << 30) - 7).unwrap();
        drop(file);
        wait_until_closed(&path);
        if fs::metadata(&path).unwrap().blocks() * 512 > 1 << 20 {
            println!("skipped: no holes here");
            continue;
        }
        commit(&path, &one_byte(), &replace()).unwrap();
        let file = File::open(&path).unwrap();
        let taken_bytes = file.metadata().unwrap().blocks() * 512;
        assert!(taken_bytes < 1 << 20, "{taken_bytes}");
        let mut found = [0; 7];
        for (offset, expected) in [(0, b"Before\0"), (1 << 29, &[0; 7]), ((1 << 30) - 7, b"the end")] {
            file.read_exact_at(&mut found, offset).unwrap();
            assert_eq!(&found, expected, "{offset}");
        }
    }
}

/// An access control list as the kernel stores it: permissions of the owner, user 1234, the group and others, and the mask.
#[cfg(target_os = "linux")]
fn list_with_user_1234() -> Vec<u8> {
    let nobody = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (1, 7, nobody),
        (2, 4, 1234),
        (4, 5, nobody),
        (16, 7, nobody),
        (32, 5, nobody),
    ];
    let entries = entries.iter().flat_map(|(tag, permissions, id)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    2_u32.to_le_bytes().into_iter().chain(entries).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn replace_lets_nobody_in_by_rights_of_its_directory() {
    use std::os::fd::AsFd;
    for directory in directories() {
        let path = file_of(&directory, "file", b"before");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let attributes = |path: &Path| {
            let file = File::open(path).unwrap();
            let attributes = seekless_sys::extended_attributes(file.as_fd()).unwrap();
            attributes.available().unwrap()
        };
        let before = attributes(&path);
        let opened = File::open(directory.path()).unwrap();
        let list = list_with_user_1234();
        if let Err(error) = seekless_sys::set_extended_attribute(opened.as_fd(), c"system.posix_acl_default", &list) {
            println!("skipped: no access control lists in {directory:?}: {error}");
            continue;
        }
        commit(&path, &one_byte(), &replace()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"Before");
        assert_eq!(attributes(&path), before, "{}", directory.path().display());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn replace_keeps_flags() {
    let flags_of = |path: &Path| {
        let output = Command::new("lsattr").arg(path).output().unwrap();
        let flags = String::from_utf8(output.stdout).unwrap();
        let xfs = Command::new("xfs_io").args(["-r", "-c", "stat"]).arg(path).output();
        let xfs = xfs.map_or_else(|_| String::new(), |output| String::from_utf8(output.stdout).unwrap());
        // The number repeats the letters. X marks a file that has had extended attributes.
        let is_kept = |line: &&str| line.starts_with("fsxattr.") && !line.contains("nextents");
        let kept = xfs
            .lines()
            .filter(is_kept)
            .map(|line| line.rsplit(" = ").next().unwrap_or_default());
        let kept = kept.map(|value| value.rsplit(' ').next().unwrap_or_default().replace('X', "-"));
        let flags = flags.split(' ').next().unwrap_or_default().to_owned();
        [flags].into_iter().chain(kept).collect::<Vec<_>>().join(" ")
    };
    for directory in directories() {
        let xfs = ["extsize 65536", "cowextsize 65536", "chattr +f", "chproj 77"];
        let flags = ["+d", "+A", "+C", "+m"].map(|flag| ["chattr", flag]);
        for [program, flag] in flags.into_iter().chain(xfs.map(|words| ["xfs_io -c", words])) {
            let path = directory.path().join("file");
            File::create(&path).unwrap();
            let mut set = Command::new(program.split(' ').next().unwrap());
            let set = set.args(program.split(' ').skip(1)).arg(flag).arg(&path).output();
            // xfs_io always exits with 0.
            if !set.is_ok_and(|set| set.status.success() && set.stderr.is_empty()) {
                println!("skipped: {} does not take {program} {flag}", directory.path().display());
                continue;
            }
            fs::write(&path, b"before").unwrap();
            let before = flags_of(&path);
            commit(&path, &one_byte(), &replace()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"Before");
            assert_eq!(flags_of(&path), before, "{flag} in {}", directory.path().display());
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn replace_keeps_a_mode_that_others_change_meanwhile() {
    let narrow = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o600));
    // The second waits for the exchange, and then changes the old file.
    let early = |_: &Path| true;
    let late = |path: &Path| fs::read(path).unwrap() == b"Before";
    for (is_time, words) in [
        (early as fn(&Path) -> bool, "changed or replaced the file meanwhile"),
        (late, "that version is kept"),
    ] {
        for directory in directories() {
            let path = file_of(&directory, "file", b"before").canonicalize().unwrap();
            let inode = fs::metadata(&path).unwrap().ino();
            let watch = Before(|step: &WatchedStep<'_>| {
                let entries = fs::read_dir(path.parent().unwrap())?;
                let is_old = |path: &Path| fs::metadata(path).is_ok_and(|found| found.ino() == inode);
                let mut paths = entries.map(|entry| entry.unwrap().path());
                match paths.find(|path| is_old(path)) {
                    Some(old) if step.kind == StepKind::Sync && is_time(&path) => narrow(&old),
                    _ => Ok(()),
                }
            });
            let refused = commit_watched(&path, &one_byte(), &replace(), &watch);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            assert_eq!(fs::read(&path).unwrap(), b"before");
            assert_alone(&path);
        }
    }
}
