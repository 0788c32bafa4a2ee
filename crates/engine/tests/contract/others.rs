//! Changes by other programs during an update stay: a save by rename, appended lines, a longer file, other names.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use seekless_engine::full_text;
use seekless_engine::update::{
    Commit, Recovered, Safety, StepKind, Updates, Watch, commit, commit_watched, journal_path, recover,
};

use super::crashing::is_killed;
use super::pairs::is_long;
use super::watches::{assert_alone, at, both, by, full, names, updates_of};
use super::{Mounted, directories, file_of, of_these, sample, wait_until_closed};

fn updates(places: &[u64]) -> Updates {
    updates_of(places.iter().map(|&place| (place, b"updated")))
}

/// Saves as editors do: a new file takes the name.
fn save(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_file_name("saved-by-editor");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    File::options().append(true).open(path)?.write_all(text)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs a test in each directory where files can be replaced, with a file of 100 bytes. Elsewhere replacing is refused, and
/// nothing changes.
fn in_each_that_replaces(test: impl Fn(&Path)) {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(100));
        if let Err(error) = commit(&path, &updates(&[0]), &by("update/sync", Safety::Replace)) {
            assert!(error.to_string().contains("cannot exchange two names"), "{error}");
            assert!(fs::read(&path).unwrap() == sample(100));
            assert_alone(&path);
            println!("skipped: {error}");
            continue;
        }
        fs::write(&path, sample(100)).unwrap();
        wait_until_closed(&path);
        test(&path);
    }
}

/// The error of an update under a watch.
fn failed(path: &Path, places: &[u64], how: &Commit, watch: &dyn Watch) -> String {
    let error = commit_watched(path, &updates(places), how, watch).unwrap_err();
    error.to_string()
}

/// The error of replacing a file under a watch.
fn not_replaced(path: &Path, watch: &dyn Watch) -> String {
    failed(path, &[0], &by("update/sync", Safety::Replace), watch)
}

#[test]
fn replace_keeps_a_save_by_rename_just_before() {
    in_each_that_replaces(|path| {
        let error = not_replaced(path, &at(StepKind::Rename, 1, || save(path, "saved")));
        assert!(error.contains("another process changed or replaced"), "{error}");
        assert_eq!(fs::read(path).unwrap(), b"saved");
        assert_alone(path);
    });
}

#[test]
fn replace_keeps_and_names_both_of_two_saves_meanwhile() {
    in_each_that_replaces(|path| {
        let first = at(StepKind::Rename, 1, || save(path, "first"));
        let second = at(StepKind::Rename, 2, || save(path, "second"));
        let error = not_replaced(path, &both(first, second));
        let left = names(path.parent().unwrap());
        let mut held: Vec<_> = left.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        held.sort();
        assert_eq!(held, ["first", "second"], "{left:?}");
        let are_named = left.iter().all(|path| error.contains(path.to_str().unwrap()));
        assert!(are_named, "{error}");
    });
}

#[test]
fn replace_keeps_what_is_written_to_the_new_version_meanwhile() {
    in_each_that_replaces(|path| {
        let save_by_rename = at(StepKind::Rename, 1, || save(path, "saved"));
        let then_append = at(StepKind::Rename, 2, || append(path, b"appended"));
        let error = not_replaced(path, &both(save_by_rename, then_append));
        assert_eq!(fs::read_to_string(path).unwrap(), "saved");
        let left = names(path.parent().unwrap());
        let other = left.iter().find(|left| *left != path).unwrap();
        assert!(fs::read(other).unwrap().ends_with(b"appended"));
        assert!(error.contains(other.to_str().unwrap()), "{error}");
        // What the user is to compare stays.
        recover(path).unwrap();
        assert!(fs::read(other).unwrap().ends_with(b"appended"));
    });
}

#[test]
fn recover_keeps_a_foreign_file_out_of_the_exchange() {
    in_each_that_replaces(|path| {
        let saving = at(StepKind::Rename, 1, || save(path, "saved"));
        // As in a crash, nothing more is done.
        let error = not_replaced(path, &both(saving, at(StepKind::Rename, 2, full)));
        assert!(error.contains("its version cannot get the name back"), "{error}");
        let left = names(path.parent().unwrap());
        let error = recover(path).unwrap_err().to_string();
        assert_eq!(names(path.parent().unwrap()), left);
        let are_named = left.iter().all(|path| error.contains(path.to_str().unwrap()));
        assert!(are_named, "{error}");
        assert!(left.iter().any(|path| fs::read(path).unwrap() == b"saved"));
    });
}

#[test]
fn recover_does_not_believe_a_planted_file() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"precious");
        let inode = fs::metadata(&path).unwrap().ino();
        let planted = ["", "-1.1"].map(|end| format!(".seekless-new-1-{inode}{end}"));
        let planted = planted.map(|name| file_of(&directory, &name, b"theirs"));
        if planted.iter().any(|planted| chown(planted, Some(1234), None).is_err()) {
            println!("skipped: only root may give a file away");
            continue;
        }
        assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
        // The same for files of the owner.
        chown(&planted[1], Some(0), None).unwrap();
        assert!(recover(&path).unwrap_err().to_string().contains("compare the two"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        for planted in &planted {
            assert_eq!(fs::read(planted).unwrap(), b"theirs");
        }
    }
}

#[test]
fn recover_keeps_an_old_file_that_others_changed() {
    let write_late = |old: &Path| {
        std::thread::sleep(Duration::from_millis(20));
        append(old, b"late").unwrap();
    };
    for change in [write_late, |old: &Path| set_mode(old, 0o600)] {
        in_each_that_replaces(|path| {
            // Before the old file is removed.
            let error = not_replaced(path, &at(StepKind::Remove, 1, full));
            assert!(error.contains("all updates"), "{error}");
            let left = names(path.parent().unwrap());
            let old = left.iter().find(|name| *name != path).unwrap();
            let before = fs::metadata(old).unwrap();
            assert!(fs::read(old).unwrap() == sample(100));
            change(old);
            let changed = fs::metadata(old).unwrap();
            if (changed.mode(), changed.len()) == (before.mode(), before.len()) {
                return println!("skipped: no modes in {}", path.display());
            }
            let error = recover(path).unwrap_err().to_string();
            assert!(error.contains("another process changed it after"), "{error}");
            assert!(old.exists());
        });
    }
}

#[test]
fn recover_does_not_cut_appended_zeros_and_tells_of_a_save() {
    for directory in directories() {
        for safety in [Safety::Journal, Safety::InPlace] {
            for longer in [14_096, 1 << 20] {
                let path = file_of(&directory, "file", &sample(10_000));
                let set_longer = || File::options().write(true).open(&path)?.set_len(longer);
                let both = both(at(StepKind::Write, 1, set_longer), at(StepKind::Write, 3, full));
                failed(&path, &[0, 20_000, 30_000], &by("update/sync", safety), &both);
                assert!(fs::metadata(&path).unwrap().len() >= longer, "{safety:?} {longer}");
            }
            let path = file_of(&directory, "file", &sample(100));
            let saving = at(StepKind::Write, 1, || save(&path, "saved"));
            let error = failed(&path, &[0], &by("update/sync", safety), &saving);
            assert!(error.contains("another program replaced the file meanwhile"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"saved");
            assert_alone(&path);
        }
    }
}

#[test]
fn update_undo_keeps_what_others_appended_meanwhile() {
    for directory in directories() {
        // Within the file, and behind its end.
        for places in [[0, 5000, 9000], [0, 5000, 30_000]] {
            let path = file_of(&directory, "file", &sample(10_000));
            let appending = at(StepKind::Write, 2, || append(&path, b"a line\n"));
            let both = both(appending, at(StepKind::Write, 3, full));
            let error = failed(&path, &places, &by("update/sync", Safety::Journal), &both);
            assert!(error.contains("failed and was undone"), "{error}");
            let expected = [&sample(10_000), &b"a line\n"[..]].concat();
            assert!(fs::read(&path).unwrap() == expected, "{places:?}: {error}");
            assert!(error.contains("7 B longer"), "{error}");
            assert_alone(&path);
        }
    }
}

#[test]
fn update_undo_cuts_its_own_growth_where_nobody_has_the_file() {
    let methods = "update/sync update/sync,preallocate=allocate update/sync,gap=64K";
    for directory in directories() {
        for method in of_these(methods, directory.path()) {
            let path = file_of(&directory, "file", &sample(10_000));
            wait_until_closed(&path);
            let failing = || at(StepKind::Sync, 3, full);
            let how = by(method, Safety::Journal);
            let error = failed(&path, &[0, 20_000, 30_000], &how, &failing());
            if super::replacing::has_leases(&path) {
                assert!(error.contains("the file is unchanged"), "{method}: {error}");
                assert!(fs::read(&path).unwrap() == sample(10_000), "{method}");
            }
            // The process that has it open might have written there.
            let reader = File::open(&path).unwrap();
            let how = by("update/sync", Safety::Journal);
            let error = failed(&path, &[0, 20_000], &how, &failing());
            assert!(error.contains("10007 B longer"), "{error}");
            let expected = [sample(10_000), vec![0; 10_007]].concat();
            assert!(fs::read(&path).unwrap() == expected);
            drop(reader);
        }
    }
}

#[test]
fn update_does_not_cut_growth_of_others_beyond_its_reach() {
    let methods =
        "update/sync,preallocate=truncate update/sync,preallocate=both update/mmap update/mmap,preallocate=both";
    for directory in directories() {
        for method in of_these(methods, directory.path()) {
            let path = file_of(&directory, "file", &sample(10_000));
            // The size is known, but not reached yet.
            let appending = at(StepKind::Make, 1, || append(&path, &vec![b'a'; 50_000]));
            let done = commit_watched(&path, &updates(&[20_000]), &by(method, Safety::Journal), &appending);
            if let Err(error) = &done {
                assert!(full_text(&error).contains("not available"), "{error}");
                println!("skipped: {error}");
                continue;
            }
            let mut expected = [sample(10_000), vec![b'a'; 50_000]].concat();
            expected[20_000..20_007].copy_from_slice(b"updated");
            assert!(fs::read(&path).unwrap() == expected, "{method}");
        }
    }
}

#[test]
fn update_cuts_padding_while_another_process_waits_to_open() {
    const BYTES: usize = 13_823;
    let methods = "update/sync,direct,block=64K,write-through update/io_uring,direct,block=64K,write-through";
    let all = updates_of([(0, [2; BYTES])]);
    for directory in directories() {
        let path = directory.path().join("file");
        for method in of_these(methods, directory.path()) {
            for delay in (0..600).step_by(20).map(Duration::from_micros) {
                fs::write(&path, vec![1; BYTES]).unwrap();
                wait_until_closed(&path);
                let opener = Mutex::new(None);
                let comes = at(StepKind::Write, 1, || {
                    let path = path.clone();
                    *opener.lock().unwrap() = Some(std::thread::spawn(move || {
                        std::thread::sleep(delay);
                        // Does not wait; if the lease still stands, it begins to end.
                        let how = seekless_sys::Opening::plain(seekless_sys::Access::Overwrite);
                        drop(seekless_sys::open(&path, how));
                    }));
                    Ok(())
                });
                let done = commit_watched(&path, &all, &by(method, Safety::InPlace), &comes);
                opener.lock().unwrap().take().unwrap().join().unwrap();
                let found = fs::read(&path).unwrap();
                assert_eq!(found.len(), BYTES, "{method} {delay:?} {done:?}");
                assert!(done.is_err() || found == [2; BYTES], "{method}");
            }
        }
    }
}

#[test]
fn update_in_place_that_fails_does_not_cut_appended_bytes() {
    let methods = "update/sync,preallocate=truncate update/sync,preallocate=both update/sync";
    for directory in directories() {
        for method in of_these(methods, directory.path()) {
            let path = file_of(&directory, "file", &sample(10_000));
            let appending = at(StepKind::Write, 1, || append(&path, b"a line\n"));
            let both = both(appending, at(StepKind::Write, 2, full));
            let how = by(method, Safety::InPlace);
            let error = commit_watched(&path, &updates(&[0, 30_000]), &how, &both);
            let error = full_text(&error.unwrap_err());
            if error.contains("not available") {
                println!("skipped: {error}");
                continue;
            }
            let found = fs::read(&path).unwrap();
            let at = if method == "update/sync" { 10_000 } else { 30_007 };
            assert!(found[at..].starts_with(b"a line\n"), "{method}: {} bytes", found.len());
        }
    }
}

#[test]
fn recover_of_a_file_that_has_grown_keeps_what_was_appended() {
    for directory in directories() {
        for places in [&[0, 5000][..], &[0, 5000, 60_000]] {
            let path = file_of(&directory, "file", &sample(10_000));
            let journal = Mutex::default();
            let copying = at(StepKind::Write, 1, || {
                *journal.lock().unwrap() = fs::read(journal_path(&path))?;
                Ok(())
            });
            commit_watched(&path, &updates(places), &by("update/sync", Safety::Journal), &copying).unwrap();
            let mut expected = fs::read(&path).unwrap();
            // As if it had been killed after the first write.
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(10_000).unwrap();
            file.write_all_at(&sample(10_000)[5000..5007], 5000).unwrap();
            append(&path, b"a line\n").unwrap();
            // Also behind the end of the update.
            file.set_len(100_000).unwrap();
            drop(file);
            fs::write(journal_path(&path), &*journal.lock().unwrap()).unwrap();
            set_mode(&journal_path(&path), 0o600);
            assert_eq!(recover(&path).unwrap(), Recovered::Finished(places.len() as u64));
            expected.resize(100_000, 0);
            expected[10_000..10_007].copy_from_slice(b"a line\n");
            assert!(fs::read(&path).unwrap() == expected);
        }
    }
}

#[test]
fn update_lets_a_file_grow_only_where_allowed() {
    for directory in directories() {
        for safety in [Safety::InPlace, Safety::Journal, Safety::Replace] {
            let path = file_of(&directory, "file", &sample(10_000));
            let how = Commit::by("update/planned".parse::<seekless_engine::Choice>().unwrap()).safety(safety);
            let error = commit(&path, &updates(&[0, 9_994]), &how).unwrap_err().to_string();
            assert!(error.contains("ends at byte 10001, past the end"), "{error}");
            assert!(fs::read(&path).unwrap() == sample(10_000), "{safety:?}");
            assert_alone(&path);
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn journal_is_refused_for_a_file_with_several_names() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(10_000));
        let other = directory.path().join("other");
        if let Err(error) = fs::hard_link(&path, &other) {
            println!("skipped: {}: {error}", directory.path().display());
            continue;
        }
        for safety in [Safety::Replace, Safety::Journal] {
            let error = commit(&path, &updates(&[0]), &by("update/sync", safety)).unwrap_err();
            assert!(error.to_string().contains("2 hard links"), "{error}");
            assert!(fs::read(&path).unwrap() == sample(10_000));
            assert_eq!(names(directory.path()), [path.clone(), other.clone()]);
        }
        let how = by("update/sync", Safety::Journal).unsafely();
        commit(&path, &updates(&[0]), &how).unwrap();
        assert!(fs::read(&other).unwrap().starts_with(b"updated"));
    }
}

#[test]
fn journal_and_new_file_are_made_in_the_directory_that_was_open() {
    for directory in directories() {
        for safety in [Safety::Journal, Safety::Replace] {
            let (ours, moved) = (directory.path().join("ours"), directory.path().join("moved"));
            let theirs = directory.path().join("theirs");
            fs::create_dir(&ours).unwrap();
            fs::create_dir(&theirs).unwrap();
            let path = ours.join("file");
            fs::write(&path, sample(10_000)).unwrap();
            fs::write(theirs.join("file"), sample(10_000)).unwrap();
            let inode = fs::metadata(theirs.join("file")).unwrap().ino();
            let swapping = at(StepKind::Make, 1, || {
                fs::rename(&ours, &moved)?;
                symlink(&theirs, &ours)
            });
            // Otherwise it may refuse, or update the file that it opened.
            let _ = commit_watched(&path, &updates(&[0]), &by("update/sync", safety), &swapping);
            assert_eq!(names(&theirs), [theirs.join("file")], "{safety:?}");
            assert!(fs::read(theirs.join("file")).unwrap() == sample(10_000), "{safety:?}");
            assert_eq!(fs::metadata(theirs.join("file")).unwrap().ino(), inode);
            assert_eq!(names(&moved), [moved.join("file")], "{safety:?}");
            fs::remove_dir_all(&moved).unwrap();
            fs::remove_dir_all(&theirs).unwrap();
            fs::remove_file(&ours).unwrap();
        }
    }
}

#[test]
fn recover_removes_leftovers_though_others_saved_the_file() {
    in_each_that_replaces(|path| {
        // Before the exchange, and after it.
        for steps in 0.. {
            fs::write(path, sample(10_000)).unwrap();
            let killed = is_killed("replace", "update/sync", steps, path);
            save(path, "saved").unwrap();
            recover(path).unwrap();
            assert_eq!(fs::read(path).unwrap(), b"saved", "killed before step {steps}");
            assert_alone(path);
            if !killed {
                break;
            }
        }
    });
}

/// A small file system of its own.
fn small(kind: &str) -> Option<Mounted> {
    let directory = tempfile::tempdir().unwrap();
    let (image, small) = (directory.path().join("image"), Mounted { directory });
    fs::create_dir(small.path()).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let (image, point) = (image.to_str().unwrap(), small.path());
    let point = point.to_str().unwrap();
    let is_mounted = if kind == "tmpfs" {
        run("mount", &["-t", "tmpfs", "-o", "size=4M", "none", point])
    } else {
        File::create(image).unwrap().set_len(64 << 20).unwrap();
        let mixed: &[&str] = if kind == "btrfs" { &["-q", "--mixed"] } else { &["-q"] };
        run(&format!("mkfs.{kind}"), &[mixed, &[image]].concat()) && run("mount", &["-o", "loop", image, point])
    };
    if !is_mounted {
        println!("skipped: no {kind} can be mounted here");
    }
    is_mounted.then_some(small)
}

#[test]
fn update_that_a_full_disk_ends_is_undone() {
    const ROUNDS: usize = 10;
    for kind in ["tmpfs", "btrfs", "ext4"] {
        let Some(small) = small(kind) else { continue };
        let mut ended = 0;
        for round in (0..ROUNDS).step_by(if is_long() { 1 } else { 3 }) {
            let path = small.path().join("file");
            let file = File::create(&path).unwrap();
            // Data and holes in turn.
            let piece = sample(20_000 + round * 137);
            for n in 0..10 {
                file.write_all_at(&piece, n * 100_000).unwrap();
            }
            file.sync_all().unwrap();
            let before = fs::read(&path).unwrap();
            drop(file);
            // Its blocks stay allocated when others are written instead.
            let shared = small.path().join("shared");
            let copy = ["--reflink=auto".as_ref(), path.as_path(), &shared];
            let _ = Command::new("cp").args(copy).status();
            let updates = updates_of((0..40).map(|n| (n * 24_000, vec![7; 11_000 + round])));
            // There is space for the journal and little more.
            let watch = at(StepKind::Sync, 2, || {
                file_fill(&small.path().join("filler"), round as u64 * 40_960);
                Ok(())
            });
            let done = commit_watched(&path, &updates, &by("update/sync", Safety::Journal), &watch);
            if let Err(error) = done {
                let error = error.to_string();
                let words = "the update failed and was undone; the file is unchanged";
                assert!(error.contains(words), "{kind}: {error}");
                assert!(fs::read(&path).unwrap() == before, "{kind}: {error}");
                assert!(!journal_path(&path).exists(), "{kind}");
                ended += 1;
            }
            let _ = fs::remove_file(small.path().join("filler"));
            let _ = fs::remove_file(&shared);
            fs::remove_file(&path).unwrap();
        }
        println!("{kind}: {ended} updates ended by a full disk");
        assert!(ended > 0, "{kind}");
    }
}

/// Fills the disk except for this many bytes.
fn file_fill(path: &Path, spare_bytes: u64) {
    let mut file = File::create(path).unwrap();
    let block = vec![1; 4096];
    let mut written = 0;
    while file.write_all(&block).is_ok() {
        written += block.len() as u64;
        if written.is_multiple_of(1 << 20) && file.sync_all().is_err() {
            break;
        }
    }
    let _ = file.set_len(written.saturating_sub(spare_bytes));
    let _ = file.sync_all();
}
