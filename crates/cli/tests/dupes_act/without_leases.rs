//! `--without-leases` where people's files are and no lease keeps other processes out: FUSE, exFAT, NTFS, mergerfs, NFS, SMB.
//!
//! File systems that cannot be mounted here are skipped.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::place::{Mount, Place, long_or, prepared, set_mode, words};

const KINDS: [&str; 5] = ["bindfs", "mergerfs", "exfat", "ntfs-3g", "fuse2fs"];
const IMAGE_BYTES: u64 = 48 << 20;

/// Mounts a file system on the directory `m` of a place.
fn mounted(kind: &str, place: &Place) -> Option<Mount> {
    let path = |name| place.path(name);
    place.directories("m source other");
    let image = place.sparse("image", IMAGE_BYTES);
    let make = |program: &str, options: &[&str]| {
        let words = options.iter().map(OsStr::new).chain([image.as_os_str()]);
        let is_made = prepared(program, &words.collect::<Vec<_>>());
        if !is_made {
            println!("skipped: {program} cannot make {kind} here");
        }
        is_made
    };
    match kind {
        "bindfs" => Mount::bindfs(&path("source"), &path("m"), &[]),
        "mergerfs" => {
            let branches = format!("{}:{}", path("source").display(), path("other").display());
            let words = ["-o", "category.create=rand", &branches].map(OsStr::new);
            Mount::by("mergerfs", &words, &path("m"))
        }
        "exfat" if make("mkfs.exfat", &[]) => Mount::exfat(&image, &path("m")),
        "ntfs-3g" if make("mkfs.ntfs", &["-F", "-q"]) => Mount::by("ntfs-3g", &[image.as_os_str()], &path("m")),
        "fuse2fs" if make("mkfs.ext4", &["-q", "-F"]) => Mount::fuse2fs(&image, &path("m")),
        _ => None,
    }
}

/// Runs on every kind that can be mounted here; each kind is named, so that it is seen which were.
fn on_each(run: impl Fn(&str, &Place)) {
    for kind in KINDS {
        let place = Place::new();
        if let Some(_mount) = mounted(kind, &place) {
            run(kind, &place);
            println!("tried on {kind}");
        }
    }
}

/// Equal files `m/d/x/keep`, `m/d/y/0` and so on, and another.
fn write(place: &Place, number: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
    let _ = fs::remove_dir_all(place.path("m/d"));
    place.file("m/d/x/keep", &bytes);
    place.file("m/d/y/other", b"precious");
    for name in 0..number {
        place.file(format!("m/d/y/{name}"), &bytes);
    }
    bytes
}

fn files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut directories) = (BTreeMap::new(), vec![place.path("m/d")]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                directories.push(path);
            // FUSE gives removed files that a process still has open such names.
            } else if !name.starts_with(".fuse_hidden") {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

const ACT: &str = "dupes --action remove --keep name:keep --unsafe-owner --yes m/d";
const WITHOUT_LEASES: (&str, &str) = (ACT, "--without-leases");

#[test]
fn files_are_moved_beside_instead_of_removed_and_undo_moves_them_back() {
    on_each(|kind, place| {
        write(place, 3);
        let before = files(place);
        // Nothing can be done there: that is said once, before the search.
        let refused = place.fails(2, ACT);
        refused.warns("m/d: cannot remove files: ");
        refused.warns("--without-leases");
        assert_eq!(refused.stderr.lines().count(), 2, "{}", refused.stderr);
        assert_eq!(files(place), before);
        place.succeeds(WITHOUT_LEASES).says("3 files moved to .seekless-trash-");
        let aside: Vec<PathBuf> = files(place).into_keys().filter(|path| is_aside(path)).collect();
        assert_eq!(aside.len(), 3, "{kind}: {aside:?}");
        assert!(!place.path("m/d/y/0").exists() && place.path("m/d/x/keep").exists());
        // What lies there is neither found again nor relied on.
        place.succeeds("dupes m/d").says("0 groups");
        place.succeeds("dupes undo");
        assert_eq!(files(place), before, "{kind}");
    });
}

fn is_aside(path: &Path) -> bool {
    path.to_string_lossy().contains("/.seekless-trash-")
}

/// Whether something is so soon: a server may still do what a killed process asked for.
fn settles(is_so: impl Fn() -> bool) -> bool {
    (0..20).any(|_| {
        is_so() || {
            thread::sleep(Duration::from_millis(100));
            false
        }
    })
}

#[test]
fn a_kill_at_any_moment_loses_nothing_and_undo_restores_all() {
    on_each(|kind, place| {
        let mut kills = 0;
        for millis in (0..12).step_by(2) {
            let bytes = write(place, 20);
            let before = files(place);
            let mut child = place.start(WITHOUT_LEASES);
            thread::sleep(Duration::from_millis(millis * 7));
            kills += u64::from(child.try_wait().unwrap().is_none());
            let _ = child.kill();
            child.wait().unwrap();
            let has_all = || files(place).values().filter(|found| **found == bytes).count() == 21;
            assert!(settles(has_all), "{kind}, {millis}");
            // Nothing may have been begun.
            let is_undone = || {
                place.run("dupes undo");
                files(place) == before
            };
            assert!(settles(is_undone), "{kind}, {millis}: {:?}", files(place).keys());
        }
        println!("{kind}: {kills} kills");
    });
}

#[test]
fn what_others_append_or_save_at_the_same_time_is_not_lost() {
    on_each(|kind, place| {
        let (mut appended, mut saved) = (0, 0);
        for _ in 0..long_or(3, 1) {
            write(place, 20);
            let is_over = AtomicBool::new(false);
            let wrote = thread::scope(|scope| {
                let disturbing = scope.spawn(|| {
                    let (mut wrote, mut number) = (Vec::new(), 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let path = place.path(format!("m/d/y/{}", number % 20));
                        let (mark, done) = if number % 2 == 0 {
                            let mark = format!("mark {number};");
                            let file = File::options().append(true).open(&path);
                            (mark.clone(), file.and_then(|mut file| file.write_all(mark.as_bytes())))
                        } else {
                            let (mark, new) = (format!("saved {number};"), place.path("m/d/new"));
                            (
                                mark.clone(),
                                fs::write(&new, &mark).and_then(|()| fs::rename(&new, &path)),
                            )
                        };
                        if done.is_ok() {
                            wrote.push(mark);
                        }
                        // It would replace what it saved.
                        number += if number < 20 { 1 } else { 2 };
                    }
                    wrote
                });
                place.run(WITHOUT_LEASES);
                place.run("dupes undo");
                is_over.store(true, Ordering::Relaxed);
                disturbing.join().unwrap()
            });
            let all = files(place).into_values().collect::<Vec<_>>().concat();
            let all = String::from_utf8_lossy(&all);
            for mark in &wrote {
                assert!(all.contains(mark.as_str()), "{kind}: {mark} is lost");
            }
            let of_saves = wrote.iter().filter(|mark| mark.starts_with("saved")).count();
            (appended, saved) = (appended + wrote.len() - of_saves, saved + of_saves);
        }
        println!("{kind}: {appended} appended, {saved} saved");
    });
}

/// Real servers and clients, which this kernel may lack: those of a user-mode Linux.
#[test]
fn on_nfs_and_smb_files_are_moved_beside_and_come_back() {
    // It takes a minute, and a busy machine is too slow for its moments.
    if std::env::var_os("SEEKLESS_TEST_NETWORK").is_none() {
        println!("skipped: SEEKLESS_TEST_NETWORK is not set");
        return;
    }
    let place = Place::new();
    let needed = ["linux.uml", "modprobe", "rpc.nfsd", "smbd", "mount.cifs", "mkfs.ext4"];
    let is_missing = |program: &&&str| {
        !["/usr/sbin", "/usr/bin", "/sbin"]
            .iter()
            .any(|at| Path::new(at).join(program).exists())
    };
    if let Some(program) = needed.iter().find(is_missing) {
        println!("skipped: there is no {program}");
        return;
    }
    let disk = place.sparse("ubd", 4 * IMAGE_BYTES);
    assert!(prepared("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), disk.as_os_str()]));
    place.file("bytes", &[7; 10_000]);
    let script = place.file("init", include_bytes!("network.sh"));
    set_mode(&script, 0o755);
    let mut linux = place.command_of("timeout");
    let line = "-s KILL 400 linux.uml mem=512M rootfstype=hostfs rootflags=/ rw con=null con0=fd:0,fd:1";
    linux.args(words(line)).env("HOME", place.directory());
    linux
        .arg(format!("ubda={}", disk.display()))
        .arg(format!("init={}", script.display()));
    linux.arg(format!("DIR={}", place.directory().display()));
    linux.arg(format!("SEEKLESS={}", env!("CARGO_BIN_EXE_seekless")));
    // Its processes may outlast it.
    let status = linux.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let Ok(log) = fs::read_to_string(place.path("log")) else {
        println!("skipped: user-mode Linux does not run here: {status:?}");
        return;
    };
    assert!(!log.contains("FAILED") && !log.contains("panicked"), "{log}");
    for kind in ["nfs: ", "cifs: "] {
        let told = log
            .lines()
            .find(|line| line.starts_with(kind))
            .unwrap_or_else(|| panic!("{log}"));
        println!("{told}");
    }
}
