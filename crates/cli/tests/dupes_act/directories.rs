//! Directories with equal files: those that acting empties, and those that contain others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::disks::{blocks_bytes, set_modified};
use crate::common::place::{Place, assert_lacks, long_or, words};

/// Makes a file in directories that are made, too, with an mtime.
fn write(place: &Place, name: &str, bytes: &[u8], seconds: u64) {
    set_modified(&place.file(name, bytes), seconds);
}

/// What is in a directory, for comparing by the simplest means: by path from there, the bytes, or none of a directory.
fn inside(at: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            let below = inside(&path).into_iter();
            found.extend(below.map(|(below, bytes)| (name.join(below), bytes)));
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
    found
}

/// Makes random directories, many of which are equal.
fn grow(at: &Path, random: &mut fastrand::Rng, depth: usize) {
    fs::create_dir_all(at).unwrap();
    for name in ["a", "b", "c"] {
        let path = at.join(name);
        match random.u8(..6) {
            0 | 1 => fs::write(path, [b'x' + random.u8(..2)].repeat(3)).unwrap(),
            2 if random.u8(..4) == 0 => fs::write(path, "").unwrap(),
            3 if depth > 0 => grow(&path, random, depth - 1),
            // One of a few, which are the same wherever they are.
            4 | 5 if depth > 0 => grow(&path, &mut fastrand::Rng::with_seed(random.u64(..4)), depth - 1),
            _ => {}
        }
    }
}

#[test]
fn after_acting_on_random_trees_all_content_is_there_and_a_copy_of_each_stays() {
    let mut directories_removed = 0;
    for seed in 0..long_or(120, 4) {
        let mut random = fastrand::Rng::with_seed(seed);
        let place = Place::new();
        fs::create_dir(place.path("old")).unwrap();
        for name in ["one", "two"] {
            grow(&place.path(name), &mut random, 3);
        }
        let rule = words("first shortest longest newest name:a path:two/** at-least:2");
        let rule = rule[random.usize(..rule.len())];
        let trees = if random.bool() { "--against two one" } else { "one two" };
        let (snapshot, before) = (place.content(), inside(&place.directory()));
        place.succeeds(("dupes --action move --to old --prune --yes", trees, ("--keep", rule)));
        let after = inside(&place.directory());
        let root = place.directory().canonicalize().unwrap();
        let target = Path::new("old").join(root.strip_prefix("/").unwrap());
        let origin = |path: &Path| path.strip_prefix(&target).unwrap_or(path).to_owned();
        // All is there, with its bytes, at its old place or below the target.
        let is_file = |(path, content): &(&PathBuf, &Option<_>)| !path.starts_with("old") && content.is_some();
        let is_gone = |(path, content): &(&PathBuf, &Option<_>)| content.is_none() && !place.path(path).exists();
        directories_removed += before.iter().filter(is_gone).count();
        for (path, content) in before.iter().filter(is_file) {
            let places = [path.clone(), target.join(path)];
            let there: Vec<_> = places.iter().filter_map(|path| after.get(path)).collect();
            let is_right = !there.is_empty() && there.iter().all(|found| *found == content);
            assert!(is_right, "{seed}: {}: {there:?}", path.display());
            assert!(there.len() == 1, "{seed}: {} is there twice", path.display());
        }
        for (path, content) in after
            .iter()
            .filter(|(path, content)| path.starts_with(&target) && content.is_some())
        {
            assert_eq!(before.get(&origin(path)), Some(content), "{seed}");
            // A copy stays where it was.
            let mut stays = after.iter().filter(|(path, _)| !path.starts_with("old"));
            assert!(stays.any(|(_, other)| other == content), "{seed}: {}", path.display());
        }
        let has_moved = before.keys().ne(after.keys());
        if has_moved {
            place.succeeds("dupes undo");
        }
        assert_eq!(place.content(), snapshot, "{seed}");
    }
    assert!(directories_removed > long_or(100, 0), "{directories_removed}");
}

#[test]
fn a_directory_that_another_contains_is_told_with_what_that_has_more() {
    let place = Place::new();
    for (name, bytes) in [
        ("card/100/a", "one"),
        ("card/100/b", "two"),
        ("card/101/c", "alone"),
        ("photos/here/sea", "one"),
        ("photos/here/hill", "two"),
        ("photos/here/new", "three"),
    ] {
        write(&place, name, bytes.as_bytes(), 1);
    }
    let ended = place.succeeds("dupes --dirs card photos");
    let gain = seekless_results::bytes(2 * blocks_bytes(&place.path("card/100/a")));
    let expected = format!(
        "1 directory of 2 files, 6 B, in another: {gain} to gain\n  card/100/\n  photos/here/  (has 1 file, 5 B, with other contents)\n\n\
         card: 55 % of its bytes and 67 % of its files are also in photos.\n\
         photos: 55 % of its bytes and 67 % of its files are also in card.\n6 files, 2 groups"
    );
    ended.says(&expected);
    // A third path makes it no pair, and a part of the trees is no less contained.
    for (paths, says, lacks) in [
        ("card --against photos", "photos/here/  (reference, has 1 file", &[][..]),
        ("photos --against card", "card: 55 %", &["in another"]),
        ("card/100 card/101 photos", "in another", &[" % "]),
    ] {
        let found = place.succeeds(("dupes --dirs", paths));
        found.says(says);
        assert_lacks(&found.stdout, lacks);
    }
}
