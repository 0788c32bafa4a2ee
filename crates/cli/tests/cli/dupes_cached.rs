//! Digests that `seekless dupes --cache` keeps: when they are not trusted, and where they cannot be kept.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use super::dupes_disks::{Seen, bytes, groups};
use super::place::{Mount, Place};
use super::unprivileged::Common;

#[test]
fn digests_of_files_whose_changes_do_not_show_are_neither_kept_nor_trusted() {
    let place = Place::new();
    let tree = cached(&place);
    let mounted = place.path("mounted");
    fs::create_dir(&mounted).unwrap();
    let Some(mount) = Mount::bindfs(&tree, &mounted, &[]) else {
        return;
    };
    let run = || place.succeeds("dupes --json --cache --cache-file digests mounted");
    for _ in 0..2 {
        let ended = run();
        assert!(!ended.stdout.contains("cached blake3"), "{}", ended.stdout);
        assert_eq!(Seen::of(&ended).groups.len(), 2);
    }
    drop(mount);
    let Some(_mount) = Mount::tmpfs(&mounted, "size=1m") else {
        return;
    };
    for name in ["a", "b"] {
        fs::write(mounted.join(name), "same").unwrap();
    }
    std::thread::sleep(Duration::from_millis(2100));
    for _ in 0..2 {
        let ended = run();
        assert!(!ended.stdout.contains("cached blake3"), "{}", ended.stdout);
        assert_eq!(Seen::of(&ended).groups.len(), 1);
    }
}

/// Files that are equal, and one that is changed without a trace in size and mtime.
fn cached(place: &Place) -> PathBuf {
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    for (name, seed) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3)] {
        fs::write(tree.join(name), bytes(seed, 30_000)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2100));
    tree
}

const WITH_CACHE: [&str; 5] = ["dupes", "--json", "--cache", "--cache-file", "digests"];

#[test]
fn a_digest_of_a_file_whose_size_and_time_were_put_back_is_not_trusted() {
    let place = Place::new();
    let tree = cached(&place);
    let run = || place.run(&[&WITH_CACHE[..], &["tree"]].concat()).succeeded();
    let before = groups(&["tree/a tree/b", "tree/c tree/d"]);
    assert_eq!(Seen::of(&run()).groups, before);
    assert!(run().stdout.contains("cached blake3"));
    let times = fs::metadata(tree.join("b")).unwrap().modified().unwrap();
    let file = File::options().write(true).open(tree.join("b")).unwrap();
    file.write_all_at(&bytes(3, 30_000), 0).unwrap();
    file.set_modified(times).unwrap();
    drop(file);
    assert_eq!(Seen::of(&run()).groups, groups(&["tree/b tree/e", "tree/c tree/d"]));
    // Another file by the same name, with the same time.
    fs::write(place.path("new"), bytes(1, 30_000)).unwrap();
    File::options()
        .write(true)
        .open(place.path("new"))
        .unwrap()
        .set_modified(times)
        .unwrap();
    fs::rename(place.path("new"), tree.join("d")).unwrap();
    assert_eq!(Seen::of(&run()).groups, groups(&["tree/a tree/d", "tree/b tree/e"]));
}

/// Runs with a damaged file of digests, which must not change what is found.
#[track_caller]
fn found_nevertheless(place: &Place, what: &str) -> String {
    let ended = place.run(&[&WITH_CACHE[..], &["tree"]].concat()).succeeded();
    assert_eq!(
        Seen::of(&ended).groups,
        groups(&["tree/a tree/b", "tree/c tree/d"]),
        "{what}: {}",
        ended.stderr
    );
    ended.stderr
}

#[test]
fn a_file_of_digests_that_is_damaged_is_told_and_changes_nothing() {
    let place = Place::new();
    cached(&place);
    assert_eq!(found_nevertheless(&place, "new"), "");
    let good = fs::read(place.path("digests")).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut told = 0;
    for trial in 0..60 {
        let mut bad = good.clone();
        let what = match trial % 4 {
            0 => {
                bad.truncate(random.usize(..good.len()));
                format!("cut to {} bytes", bad.len())
            }
            1 => {
                // Where something is.
                let used: Vec<usize> = (0..good.len()).filter(|at| good[*at] != 0).collect();
                let at = used[random.usize(..used.len())];
                bad[at] ^= 1 << random.u32(..8);
                format!("a bit at {at} is another")
            }
            2 => {
                let at = random.usize(..good.len() - 4096);
                bad[at..at + 4096].fill(random.u8(..));
                format!("4096 bytes at {at} are overwritten")
            }
            _ => {
                let at = random.usize(..320);
                bad[at] = random.u8(..);
                format!("byte {at} is {}", bad[at])
            }
        };
        place.file("digests", &bad);
        told += usize::from(!found_nevertheless(&place, &what).is_empty());
        // What was told is no file of digests stays as it is; another works again.
        found_nevertheless(&place, &format!("{what}, again"));
    }
    println!("{told} of 60 were told");
    assert!(told > 0);
    for (what, content) in [("text", b"no digests".to_vec()), ("zeros", vec![0; 1 << 20])] {
        place.file("digests", &content);
        let stderr = found_nevertheless(&place, what);
        assert!(
            stderr.contains("digests: cannot open the cache of digests: "),
            "{what}: {stderr}"
        );
        assert_eq!(fs::read(place.path("digests")).unwrap(), content, "{what}");
    }
    fs::remove_file(place.path("digests")).unwrap();
    fs::create_dir(place.path("digests")).unwrap();
    assert!(found_nevertheless(&place, "directory").contains("cannot open the cache of digests"));
}

#[test]
fn a_file_of_digests_that_is_locked_or_closed_to_us_is_told_and_the_search_goes_on() {
    let place = Place::new();
    cached(&place);
    found_nevertheless(&place, "new");
    let locked = File::options()
        .read(true)
        .write(true)
        .open(place.path("digests"))
        .unwrap();
    locked.lock().unwrap();
    assert!(found_nevertheless(&place, "locked").contains("cannot open the cache of digests"));
    drop(locked);
    assert_eq!(found_nevertheless(&place, "unlocked"), "");
    let common = Common::new();
    for name in ["a", "b"] {
        fs::write(common.directory().join("open").join(name), "same").unwrap();
    }
    let ended = common
        .run(&["dupes", "--cache", "--cache-file", "shut/below/digests", "open"])
        .succeeded();
    assert!(
        ended.stderr.contains("Permission denied") && ended.stdout.starts_with("2 files of 4 B"),
        "{}",
        ended.stderr
    );
}

/// A copy of an image has its UUID, and the inode numbers and times of its files.
#[test]
fn digests_of_a_drive_are_not_those_of_its_copy_beside_it() {
    let place = Place::new();
    for name in ["disk", "copy"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let [image, copy] = ["image", "image of the copy"].map(|name| place.directory().parent().unwrap().join(name));
    let Some(mount) = Mount::image("ext4", 16 << 20, &image, &place.path("disk")) else {
        return;
    };
    let content = bytes(1, 30_000);
    fs::write(place.path("disk/f"), &content).unwrap();
    drop(mount);
    let mut damaged = fs::read(&image).unwrap();
    let at = damaged
        .windows(100)
        .position(|window| window == &content[..100])
        .unwrap();
    damaged[at] ^= 1;
    fs::write(&copy, damaged).unwrap();
    std::thread::sleep(Duration::from_millis(2100));
    let mounts =
        [(&image, "disk"), (&copy, "copy")].map(|(image, to)| Mount::image_again(image, "noatime", &place.path(to)));
    if mounts.iter().any(Option::is_none) {
        return;
    }
    for _ in 0..3 {
        let found = place.run(&[&WITH_CACHE[..], &["disk", "copy"]].concat()).succeeded();
        assert_eq!(Seen::of(&found).groups, groups(&[]));
    }
}

#[test]
fn digests_for_which_there_is_no_space_are_told_and_the_search_goes_on() {
    let place = Place::new();
    fs::create_dir(place.path("full")).unwrap();
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..4000_u64 {
        fs::write(tree.join(number.to_string()), (number / 2).to_string().repeat(3)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2100));
    let expected = Seen::of(&place.succeeds("dupes --json tree")).groups;
    assert_eq!(expected.len(), 2000);
    let mut told = BTreeSet::new();
    for size in ["4k", "64k", "1m", "1200k", "1600k", "2m"] {
        let Some(_mount) = Mount::tmpfs(&place.path("full"), &format!("size={size}")) else {
            return;
        };
        for _ in 0..2 {
            let ended = place.run_line("dupes --json --cache --cache-file full/digests tree");
            assert_eq!(
                (ended.code, &Seen::of(&ended).groups),
                (Some(0), &expected),
                "{size}: {}",
                ended.stderr
            );
            told.extend(ended.stderr.lines().map(str::to_owned));
        }
    }
    let is_right = |line: &String| line.contains("full/digests: cannot ") && line.contains("No space left on device");
    assert!(!told.is_empty() && told.iter().all(is_right), "{told:?}");
}
