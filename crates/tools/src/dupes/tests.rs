use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use redb::ReadableDatabase as _;

use super::heads::alike;
use super::opened::{cause, member, open_file};
use super::*;
use crate::testing::{Mounted, cases, long_or, mounts, naive_walk};
use crate::walk::CHANGED;
use crate::{ClosureWatch, JobPhase, JobProgress};

/// The files of each group: those of a file with several names are one.
type Groups = BTreeSet<BTreeSet<BTreeSet<PathBuf>>>;

fn options(change: impl FnOnce(&mut SearchOptions)) -> SearchOptions {
    let mut options = SearchOptions::default();
    change(&mut options);
    options
}

fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

fn searched(selection: &Selection, options: &SearchOptions) -> FoundDuplicates {
    find(selection, &Filter::default(), options, &Stop::default())
}

fn searched_by(selection: &Selection, filter: &Filter) -> FoundDuplicates {
    find(selection, filter, &SearchOptions::default(), &Stop::default())
}

/// Searches in an hour, when no file has changed a moment ago.
fn searched_later(root: &Path, options: &SearchOptions) -> FoundDuplicates {
    let selection = Selection::new([root], true);
    let later = SystemTime::now() + Duration::from_hours(1);
    let filter = filter(|filter| filter.bytes = 1..=u64::MAX);
    find_at(&selection, &filter, options, &Stop::default(), later)
}

/// The names of the files of each group, without their directories.
fn file_names(found: &FoundDuplicates) -> Vec<Vec<String>> {
    let name = |file: &Equal| file.names[0].path.file_name().unwrap().to_str().unwrap().to_owned();
    found
        .groups()
        .map(|group| group.files.iter().map(name).collect())
        .collect()
}

/// A new directory with these files and their contents.
fn planted(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    place
}

/// The names of all files in groups below a directory, those of one file joined by `|`.
fn names_below(found: &FoundDuplicates, root: &Path) -> Vec<String> {
    let below = |name: &FoundName| name.path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let files = found.groups().flat_map(|group| group.files);
    files
        .map(|file| file.names.iter().map(below).collect::<Vec<_>>().join("|"))
        .collect()
}

/// The bytes that a file takes.
fn blocks_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn find_below(root: &Path, min_bytes: u64, options: &SearchOptions) -> FoundDuplicates {
    let selection = Selection::new([root], true);
    let filter = filter(|filter| filter.bytes = min_bytes..=u64::MAX);
    find(&selection, &filter, options, &Stop::default())
}

fn found(root: &Path, min_bytes: u64, options: &SearchOptions) -> Groups {
    let found = find_below(root, min_bytes, options);
    assert_eq!(found.failures, []);
    groups_of(&found)
}

fn groups_of(found: &FoundDuplicates) -> Groups {
    let paths = |file: Equal| file.names.into_iter().map(|name| name.path).collect();
    let groups = found.groups();
    groups
        .map(|group| group.files.into_iter().map(paths).collect())
        .collect()
}

/// Reads all files, and groups them by their bytes.
fn naive(root: &Path, min_bytes: u64) -> Groups {
    let mut groups: BTreeMap<Vec<u8>, BTreeMap<u64, BTreeSet<PathBuf>>> = BTreeMap::new();
    for (path, (metadata, bytes)) in naive_walk(root) {
        if metadata.is_file() && metadata.len() >= min_bytes {
            let files = groups.entry(bytes).or_default();
            files.entry(metadata.ino()).or_default().insert(path);
        }
    }
    let groups = groups.into_values().filter(|files| files.len() > 1);
    groups.map(|files| files.into_values().collect()).collect()
}

/// What a file of a test holds: its size, where one byte differs from zero or from a pattern, and whether zeros are a hole.
#[derive(Clone, Debug)]
struct Content {
    bytes: u64,
    is_sparse: bool,
    at: u64,
    byte: u8,
}

fn content() -> impl Strategy<Value = Content> {
    let sizes = prop::sample::select(vec![0, 1, 4095, 4096, 4097, 20_000, 70_000, 9 << 20]);
    let at = prop::sample::select(vec![0, 5000, 69_999, 8 << 20]);
    (sizes, any::<bool>(), at, 0..3_u8).prop_map(|(bytes, is_sparse, at, byte)| Content {
        bytes,
        is_sparse,
        at,
        byte,
    })
}

fn write(path: &Path, content: &Content) {
    let file = File::create_new(path).unwrap();
    if content.is_sparse {
        file.set_len(content.bytes).unwrap();
    } else {
        file.write_all_at(&vec![0; content.bytes as usize], 0).unwrap();
    }
    if content.at < content.bytes {
        file.write_all_at(&[content.byte], content.at).unwrap();
    }
}

proptest! {
    #![proptest_config(cases(48))]
    #[test]
    fn dupes_are_what_reading_everything_finds(
        contents in proptest::collection::vec((content(), 0..4_u8, any::<bool>()), 0..24),
        min_bytes in 0..2_u64,
        is_paranoid: bool,
    ) {
        let place = tempfile::tempdir().unwrap();
        let roots = ["0", "1", "2", "3", "linked"].map(|root| place.path().join(root));
        for root in &roots {
            fs::create_dir_all(root.join("below")).unwrap();
        }
        for (number, (content, directory, has_link)) in contents.iter().enumerate() {
            let directory = roots[usize::from(*directory)].join("below");
            let path = directory.join(format!("{number}\n"));
            write(&path, content);
            std::os::unix::fs::symlink(&path, directory.join(format!("{number} symbolic"))).unwrap();
            if *has_link {
                fs::hard_link(&path, roots[4].join(number.to_string() + " again")).unwrap();
            }
        }
        let all = naive(place.path(), min_bytes);
        prop_assert_eq!(&found(place.path(), min_bytes, &SearchOptions { is_paranoid, ..SearchOptions::default() }), &all);
        // A file is below all the roots that have a name of it, and a reference if one of these is.
        let roots_of = |names: &BTreeSet<PathBuf>| -> BTreeSet<usize> {
            names.iter().map(|name| roots.iter().position(|root| name.starts_with(root)).unwrap()).collect()
        };
        let is_reference = |names: &BTreeSet<PathBuf>| roots_of(names).contains(&2) || roots_of(names).contains(&3);
        let filter = filter(|filter| filter.bytes = min_bytes..=u64::MAX);
        let searched = |selection: &Selection, across| {
            let options = SearchOptions { across, is_paranoid, ..SearchOptions::default() };
            groups_of(&find(selection, &filter, &options, &Stop::default()))
        };
        let is_across = |group: &&BTreeSet<BTreeSet<PathBuf>>| group.iter().flat_map(&roots_of).collect::<BTreeSet<_>>().len() > 1;
        let expected: Groups = all.iter().filter(is_across).cloned().collect();
        prop_assert_eq!(searched(&Selection::new(&roots, true), Across::Roots), expected);
        let [one, other, references @ ..] = &roots;
        let against = Selection::new([one, other, &roots[4]], true).against(&references[..2]);
        let has_both = |group: &&BTreeSet<BTreeSet<PathBuf>>| {
            group.iter().any(&is_reference) && !group.iter().all(&is_reference)
        };
        let expected: Groups = all.iter().filter(has_both).cloned().collect();
        prop_assert_eq!(searched(&against, Across::References(3)), expected);
    }
}

proptest! {
    #![proptest_config(cases(64))]
    #[test]
    fn dupes_by_name_are_grouped_and_read_only_where_names_agree(
        planted in proptest::collection::vec((0..6_usize, 0..3_usize, prop::option::weighted(0.3, 0..6_usize)), 0..24),
        is_cached: bool,
    ) {
        const NAMES: [&str; 6] = ["a.x", "b.x", "a.y", "a", ".x", "a.b.x"];
        const CONTENTS: [&str; 3] = ["same", "SAME", "longer"];
        let place = tempfile::tempdir().unwrap();
        let mut files: Vec<(&str, Vec<PathBuf>)> = Vec::new();
        for (number, (name, content, link)) in planted.iter().enumerate() {
            let below = |name: usize, directory: &str| {
                let path = place.path().join(format!("{number}{directory}"));
                fs::create_dir(&path).unwrap();
                path.join(NAMES[name])
            };
            let mut paths = vec![below(*name, "")];
            fs::write(&paths[0], CONTENTS[*content]).unwrap();
            if let Some(link) = link {
                paths.push(below(*link, "link"));
                fs::hard_link(&paths[0], &paths[1]).unwrap();
            }
            files.push((CONTENTS[*content], paths));
        }
        let parts: [(NamePart, [&str; 6]); 3] = [
            (NamePart::Name, NAMES),
            (NamePart::Stem, ["a", "b", "a", "a", ".x", "a.b"]),
            (NamePart::Extension, ["x", "x", "y", "", "", "x"]),
        ];
        for (part, parts) in parts {
            let part_of = |path: &PathBuf| parts[NAMES.iter().position(|name| path.ends_with(name)).unwrap()];
            let are_alike = |one: &[PathBuf], other: &[PathBuf]| one.iter().any(|one| other.iter().any(|other| part_of(one) == part_of(other)));
            let mut expected: Vec<(&str, Vec<&Vec<PathBuf>>)> = Vec::new();
            for (content, paths) in &files {
                let mut joined = vec![paths];
                expected.retain(|(group, all)| {
                    let is_joined = group == content && all.iter().any(|other| are_alike(paths, other));
                    joined.extend(all.iter().filter(|_| is_joined));
                    !is_joined
                });
                expected.push((content, joined));
            }
            let expected: Groups = expected.into_iter().filter(|(_, all)| all.len() > 1)
                .map(|(_, all)| all.into_iter().map(|names| names.iter().cloned().collect()).collect()).collect();
            let digests = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let cache = is_cached.then(|| digests.path().join("digests"));
            let options = SearchOptions { matching: Some(part), cache, ..SearchOptions::default() };
            let result = find_below(place.path(), 1, &options);
            prop_assert_eq!(groups_of(&result), expected);
            let is_read = |(content, paths): &&(&str, Vec<PathBuf>)| {
                let mut like = files.iter().filter(|(other, others)| content.len() == other.len() && are_alike(paths, others));
                like.nth(1).is_some()
            };
            prop_assert_eq!(result.read_files, files.iter().filter(is_read).count() as u64);
        }
    }
}

#[test]
fn dupes_of_more_files_than_can_be_open_are_found() {
    let place = tempfile::tempdir().unwrap();
    let write = |length: usize| {
        for number in 0..300_u32 {
            let mut bytes = vec![7; length];
            bytes[9_000] = (number % 3) as u8;
            if number == 299 {
                bytes[9_999] = 1;
            }
            fs::write(place.path().join(number.to_string()), bytes).unwrap();
        }
    };
    let of_bytes = Proof::Bytes;
    for (length, is_paranoid, proof) in [
        (20_000, false, Proof::Blake3),
        (20_000, true, of_bytes),
        (10_000, false, of_bytes),
    ] {
        write(length);
        let options = options(|options| options.is_paranoid = is_paranoid);
        assert_eq!(found(place.path(), 1, &options), naive(place.path(), 1));
        let found = find_below(place.path(), 1, &options);
        let groups: Vec<_> = found.groups().collect();
        let sizes: Vec<_> = groups.iter().map(|group| group.files.len()).collect();
        assert_eq!(sizes, [100, 100, 99]);
        assert!(groups.iter().all(|group| group.proof == proof));
    }
}

#[test]
fn dupes_by_one_for_many_stay_a_group_when_that_one_changes() {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<PathBuf> = (0..12).map(|number| place.path().join(number.to_string())).collect();
    let first_names = |group: EqualFiles| group.files.into_iter().map(|file| file.names[0].path.clone()).collect();
    let mut sizes = BTreeSet::new();
    for changes in &names {
        for name in &names {
            fs::write(name, "same").unwrap();
        }
        let selection = Selection::new([place.path()], true);
        let progress = |now: &JobProgress| {
            if now.phase == JobPhase::Beginnings && Some(now.done_entries) == now.of_entries {
                fs::write(changes, "else").unwrap();
            }
        };
        let (filter, options, stop) = (Filter::default(), SearchOptions::default(), Stop::default());
        let watch = ClosureWatch::new(&stop, progress, |never: Infallible| match never {});
        let found = find(&selection, &filter, &options, &watch);
        let groups: Vec<BTreeSet<PathBuf>> = found.groups().map(first_names).collect();
        let told: Vec<&PathBuf> = found.changed.iter().map(|(path, _)| path).collect();
        let [group] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(told, if group.contains(changes) { vec![] } else { vec![changes] });
        assert_eq!(group.len(), names.len() - told.len());
        sizes.insert(group.len());
    }
    assert!(sizes.contains(&11), "none of them stood for others");
}

#[test]
fn dupes_leave_no_hole_in_memory_that_was_not_there() {
    let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    // Small ones, of which all is read at once, and larger ones; some have data in the end.
    for (number, bytes) in [8_192_u64, 16_384, 20_000, 300_000].into_iter().enumerate() {
        for (name, last) in [("a", 0), ("b", 0), ("c", 1), ("d", 1)] {
            let file = File::create(place.path().join(format!("{number}{name}"))).unwrap();
            file.set_len(bytes).unwrap();
            if last > 0 {
                file.write_all_at(&[last], bytes - 1).unwrap();
                file.sync_all().unwrap();
            }
        }
    }
    let paths: Vec<PathBuf> = fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in &paths {
        if seekless_engine::cache::drop_file(path).unwrap().part() != Some(0.0) {
            println!("skipped: files cannot be dropped from the page cache here");
            return;
        }
    }
    assert_eq!(
        find_below(place.path(), 1, &SearchOptions::default()).sum().duplicates,
        8
    );
    for path in &paths {
        let found = seekless_engine::cache::resident(path).unwrap();
        assert_eq!(found.part(), Some(0.0), "{}", path.display());
    }
}

/// What a tree of a test holds below a directory: contents of files, targets of links, `None` for directories.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let found = naive_walk(directory).into_iter().skip(1);
    let found = found.map(|(path, (metadata, bytes))| {
        let what = match metadata.file_type() {
            kind if kind.is_dir() => None,
            kind if kind.is_symlink() => Some([b"->", &bytes[..]].concat()),
            _ => Some(bytes),
        };
        (path.strip_prefix(directory).unwrap().to_owned(), what)
    });
    found.collect()
}

/// A directory, one in it, and a file there: its name, content, and whether it is a link.
type Planted = (usize, Option<usize>, usize, usize, bool);

proptest! {
    #![proptest_config(cases(64))]
    #[test]
    fn dupes_directories_are_told_once_and_nothing_is_lost(
        planted in proptest::collection::vec((0..4_usize, prop::option::of(0..2_usize), 0..2_usize, 0..3_usize, prop::bool::weighted(0.1)), 1..24),
    ) {
        let planted: Vec<Planted> = planted;
        let place = tempfile::tempdir().unwrap();
        for (directory, below, name, content, is_link) in planted {
            let mut path = place.path().join(["a", "b", "c", "d"][directory]);
            path.extend(below.map(|below| ["x", "y"][below]));
            fs::create_dir_all(&path).unwrap();
            path.push(["1", "2"][name]);
            let content = ["", "one", "two"][content];
            if path.symlink_metadata().is_err() && is_link {
                std::os::unix::fs::symlink(format!("to {content}"), path).unwrap();
            } else if path.symlink_metadata().is_err() {
                fs::write(path, content).unwrap();
            }
        }
        let options = SearchOptions { with_directories: true, ..SearchOptions::default() };
        let found = find_below(place.path(), 1, &options);
        let mut told: BTreeSet<&Path> = BTreeSet::new();
        for group in &found.directories {
            let paths: Vec<&Path> = group.names().map(|(_, name)| name.path.as_path()).collect();
            let first = snapshot(paths[0]);
            prop_assert!(first.values().flatten().any(|bytes| !bytes.is_empty()), "{:?}", group);
            for other in &paths[1..] {
                prop_assert_eq!(&first, &snapshot(other));
                told.insert(other);
            }
        }
        let is_told = |path: &Path| path.ancestors().any(|above| told.contains(above));
        // Of directories or files that are equal, all but one at most are told, or are in a group of files.
        let all = snapshot(place.path());
        let paths = |is_wanted: fn(&Option<Vec<u8>>) -> bool| {
            let wanted = all.iter().filter(move |(_, what)| is_wanted(what));
            wanted.map(|(path, _)| place.path().join(path)).collect::<Vec<_>>()
        };
        let mut left: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
        for path in paths(Option::is_none) {
            let content = snapshot(&path);
            let has_bytes = |(path, what): (&PathBuf, &Option<Vec<u8>>)| {
                !path.is_symlink() && what.as_ref().is_some_and(|bytes| !bytes.is_empty() && !bytes.starts_with(b"->"))
            };
            if content.iter().any(has_bytes) && !is_told(&path) {
                left.entry(content).or_default().push(path);
            }
        }
        for equal in left.values() {
            prop_assert_eq!(equal.len(), 1, "{:?}", equal);
        }
        let grouped: BTreeSet<PathBuf> = found.groups().flat_map(|group| group.files).flat_map(|file| file.names).map(|name| name.path).collect();
        let mut left: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
        for path in paths(Option::is_some) {
            let bytes = all[path.strip_prefix(place.path()).unwrap()].clone().unwrap();
            if !bytes.is_empty() && !path.is_symlink() && !is_told(&path) {
                left.entry(bytes).or_default().push(path);
            }
        }
        for equal in left.values() {
            let is_grouped = equal.iter().all(|path| grouped.contains(path));
            prop_assert!(equal.len() == 1 || is_grouped, "{:?}", equal);
        }
        prop_assert!(grouped.iter().all(|path| !is_told(path)));
    }
}

/// The content of each file that is not empty below a directory.
fn contents_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = snapshot(directory).into_iter();
    let files = files.filter_map(|(path, bytes)| Some((directory.join(path), bytes?)));
    files.filter(|(_, bytes)| !bytes.is_empty()).collect()
}

proptest! {
    #![proptest_config(cases(256))]
    #[test]
    fn dupes_contained_directories_lose_nothing_without_them(
        planted in proptest::collection::vec((0..2_usize, prop::collection::vec(0..3_usize, 0..4), 0..3_usize, 0..6_usize), 1..20),
        across in prop::sample::select(vec![Across::Files, Across::Roots, Across::References(1)]),
    ) {
        let place = tempfile::tempdir().unwrap();
        let roots = ["a", "b"].map(|root| place.path().join(root));
        for root in &roots {
            fs::create_dir(root).unwrap();
        }
        for (root, below, name, content) in planted {
            let mut path = roots[root].clone();
            path.extend(below.iter().map(|below| ["x", "y", "z"][*below]));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(["1", "2", "3"][name]), ["", "one", "two", "three", "four", "five"][content]).unwrap();
        }
        let options = SearchOptions { with_directories: true, across, ..SearchOptions::default() };
        let selection = if across == Across::References(1) {
            Selection::new([&roots[0]], true).against([&roots[1]])
        } else {
            Selection::new(&roots, true)
        };
        let filter = Filter { bytes: 1..=u64::MAX, ..Filter::default() };
        let found = find(&selection, &filter, &options, &Stop::default());
        let all = contents_below(place.path());
        let of = |directory: &Path| {
            let below = all.iter().filter(|(path, _)| path.starts_with(directory));
            below.map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect::<Vec<_>>()
        };
        let grouped: BTreeSet<&Path> = found.directories.iter().flat_map(EqualFiles::names).map(|(_, name)| name.path.as_path()).collect();
        let contained: BTreeSet<&Path> = found.contained.iter().map(|one| one.directory.path.as_path()).collect();
        let is_in = |path: &Path, directories: &BTreeSet<&Path>| path.ancestors().any(|above| directories.contains(above));
        let mut gone = contained.clone();
        for group in &found.directories {
            gone.extend(group.names().skip(1).map(|(_, name)| name.path.as_path()));
        }
        let root_of = |path: &Path| roots.iter().position(|root| path.starts_with(root)).unwrap();
        let may_hold = |one: &Path, other: &Path| {
            let are_wanted = match across {
                Across::Files => true,
                Across::Roots => root_of(one) != root_of(other),
                Across::References(_) => root_of(one) < root_of(other),
            };
            are_wanted && !one.starts_with(other) && !other.starts_with(one)
        };
        for one in &found.contained {
            let (path, within) = (one.directory.path.as_path(), one.within.path.as_path());
            prop_assert!(may_hold(path, within), "{:?}", one);
            let [inside, outside] = [of(path), of(within)];
            let contents: BTreeSet<&[u8]> = inside.iter().map(|(_, bytes)| *bytes).collect();
            let more: Vec<&[u8]> = outside.iter().map(|(_, bytes)| *bytes).filter(|bytes| !contents.contains(bytes)).collect();
            prop_assert!(contents.iter().all(|bytes| outside.iter().any(|(_, other)| bytes == other)), "{:?}", one);
            let bytes = |all: &[&[u8]]| all.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            prop_assert_eq!((one.more_files, one.more_bytes), (more.len() as u64, bytes(&more)));
            let inside: Vec<&[u8]> = inside.into_iter().map(|(_, bytes)| bytes).collect();
            prop_assert_eq!((one.files, one.bytes), (inside.len() as u64, bytes(&inside)));
            prop_assert!(!is_in(path.parent().unwrap(), &contained) && !is_in(path, &grouped), "{:?}", one);
        }
        // What is left of each directory, without those that need not stay.
        let left = |directory: &Path| {
            let left = of(directory).into_iter().filter(|(path, _)| !is_in(path, &gone));
            left.map(|(_, bytes)| bytes).collect::<BTreeSet<&[u8]>>()
        };
        prop_assert_eq!(left(place.path()), all.iter().map(|(_, bytes)| bytes.as_slice()).collect::<BTreeSet<_>>());
        let directories: Vec<PathBuf> = snapshot(place.path()).into_iter()
            .filter(|(_, what)| what.is_none()).map(|(path, _)| place.path().join(path)).collect();
        for one in &directories {
            let contents: BTreeSet<&[u8]> = of(one).into_iter().map(|(_, bytes)| bytes).collect();
            let holds = |other: &Path| may_hold(one, other) && contents.is_subset(&left(other));
            if let Some(told) = found.contained.iter().find(|told| told.directory.path == *one) {
                let smaller = |other: &&PathBuf| **other != told.within.path && other.starts_with(&told.within.path);
                prop_assert!(!directories.iter().filter(smaller).any(|other| holds(other)), "{:?}", told);
            } else if !contents.is_empty() && !is_in(one, &contained) && !is_in(one, &grouped) {
                prop_assert!(!directories.iter().any(|other| holds(other)), "{:?} {:?}", one, found.contained);
            }
        }
        for (root, tree) in found.overlap.iter().flatten().enumerate() {
            let [own, other] = [root, 1 - root].map(|root| of(&roots[root]));
            let shared: Vec<_> = own.iter().filter(|(_, bytes)| other.iter().any(|(_, other)| bytes == other)).collect();
            let bytes = |bytes: &[u8]| bytes.len() as u64;
            let expected = TreeOverlap {
                files: own.len() as u64,
                bytes: own.iter().map(|(_, content)| bytes(content)).sum(),
                shared_files: shared.len() as u64,
                shared_bytes: shared.iter().map(|(_, content)| bytes(content)).sum(),
            };
            prop_assert_eq!(*tree, expected);
        }
    }
}

#[test]
fn dupes_directory_is_looked_for_by_its_rarest_file() {
    let place = planted(&[
        ("one/a/licence", b"licence"),
        ("one/own", b"own 7"),
        ("two/copy", b"licence"),
    ]);
    // More copies than are looked at, alone and beside a file of its own.
    for number in 0..150 {
        let all = place.path().join(format!("all/{number}"));
        fs::create_dir_all(&all).unwrap();
        fs::write(all.join("licence"), "licence").unwrap();
        fs::write(all.join("own"), format!("own {number}")).unwrap();
    }
    let found = find_directories(place.path(), true, &Filter::default());
    let contained = found.contained.iter();
    let contained =
        contained.map(|one| [&one.directory, &one.within].map(|name| name.path.strip_prefix(place.path()).unwrap()));
    assert_eq!(contained.collect::<Vec<_>>(), [[Path::new("one"), Path::new("all/7")]]);
}

#[test]
fn dupes_nested_directories_give_way_by_gain_then_order() {
    for [card, photos] in [["card", "photos"], ["zcard", "photos"]] {
        let place = tempfile::tempdir().unwrap();
        let write = |name: String, number: u8| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![number; 5000]).unwrap();
        };
        for number in 0..10 {
            write(format!("{card}/{number}"), number);
            write(
                format!("{photos}/{}/n{number}", if number < 6 { 2019 } else { 2020 }),
                number,
            );
        }
        write(format!("{photos}/own"), 10);
        let found = find_directories(place.path(), true, &Filter::default());
        let [told] = &found.contained[..] else {
            panic!("{:?}", found.contained)
        };
        assert_eq!(
            [&told.directory.path, &told.within.path],
            [card, photos].map(|name| place.path().join(name)).each_ref()
        );
        // Both hold the other, and free as much.
        fs::remove_file(place.path().join(photos).join("own")).unwrap();
        for roots in [[card, photos], [photos, card]] {
            let roots = roots.map(|root| place.path().join(root));
            let options = options(|options| options.with_directories = true);
            let selection = Selection::new(&roots, true);
            let found = find(&selection, &Filter::default(), &options, &Stop::default());
            assert_eq!(found.contained[0].directory.path, roots[1]);
        }
    }
}

#[test]
fn dupes_of_a_named_path_that_leads_elsewhere_is_a_failure() {
    for is_file in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["named", "theirs"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("a"), "same").unwrap();
            fs::write(path(name).join("b"), "same").unwrap();
        }
        let roots = if is_file {
            ["named/a", "named/b"].map(path).to_vec()
        } else {
            vec![path("named")]
        };
        let selection = Selection::new(&roots, true);
        fs::rename(path("named"), path("aside")).unwrap();
        std::os::unix::fs::symlink("theirs", path("named")).unwrap();
        let found = find(
            &selection,
            &Filter::default(),
            &SearchOptions::default(),
            &Stop::default(),
        );
        assert_eq!(
            (found.groups().count(), found.failures.len()),
            (0, roots.len()),
            "{:?}",
            found.failures
        );
        assert!(
            found.failures[0].1.contains("leads to something else"),
            "{:?}",
            found.failures
        );
    }
}

/// Searches below a directory, for equal directories, too.
fn find_directories(root: &Path, other_file_systems: bool, filter: &Filter) -> FoundDuplicates {
    let selection = Selection::new([root], other_file_systems);
    let options = options(|options| options.with_directories = true);
    find(&selection, filter, &options, &Stop::default())
}

#[test]
fn dupes_directory_with_an_omission_equals_no_other() {
    let place = planted(&[
        ("a/same", b"same"),
        ("b/same", b"same"),
        ("a/note.log", b"log"),
        ("b/note.log", b"log"),
    ]);
    let equal = |filter: &Filter| {
        let found = find_directories(place.path(), false, filter);
        (found.directories.len(), found.groups().count())
    };
    assert_eq!(equal(&Filter::default()), (1, 0));
    let without_logs = filter(|filter| filter.exclude = walk::Globs::new(&["*.log"], &[]).unwrap());
    assert_eq!(equal(&without_logs), (0, 1));
    // Also if that is behind a link.
    let with_links = filter(|filter| filter.follows_links = true);
    assert_eq!(equal(&with_links), (1, 0));
    std::os::unix::fs::symlink("/proc/self/status", place.path().join("b/link")).unwrap();
    assert_eq!(equal(&with_links).0, 0);
}

#[test]
fn dupes_follow_links_where_asked_and_nothing_twice() {
    let place = planted(&[
        ("tree/below/alone", b"alone"),
        ("tree/a", b"same"),
        ("elsewhere/b", b"same"),
        ("elsewhere/c", b"same"),
    ]);
    let tree = place.path().join("tree");
    for (target, link) in [
        ("../elsewhere", "0"),
        ("../elsewhere", "z"),
        ("..", "below/up"),
        ("a", "link to a"),
        ("nowhere", "broken"),
        ("loop", "loop"),
    ] {
        std::os::unix::fs::symlink(target, tree.join(link)).unwrap();
    }
    let names = |follows_links| {
        let filter = filter(|filter| filter.follows_links = follows_links);
        let found = searched_by(&Selection::new([&tree], true), &filter);
        assert_eq!(found.failures, []);
        names_below(&found, &tree)
    };
    assert_eq!(names(false), Vec::<String>::new());
    for _ in 0..20 {
        assert_eq!(names(true), ["0/b", "0/c", "a|link to a"]);
    }
}

#[test]
fn dupes_heed_ignore_files_where_asked() {
    let files = ["a", "b/a", "b/c/a", "built/a", "b/built/a"].map(|name| (name, &b"same"[..]));
    let place = planted(
        &[
            &files[..],
            &[(".gitignore", b"built/\n/b/c\n"), ("b/.ignore", b"!built/\n")],
        ]
        .concat(),
    );
    let files = |heeds_ignore_files| {
        let filter = filter(|filter| {
            filter.heeds_ignore_files = heeds_ignore_files;
            filter.bytes = 4..=4;
        });
        let found = searched_by(&Selection::new([place.path()], true), &filter);
        names_below(&found, place.path())
    };
    assert_eq!(files(false).len(), 5);
    assert_eq!(files(true), ["a", "b/a", "b/built/a"]);
}

/// Two pairs of equal files in a new directory `tree`, and another file of their size and beginning.
fn pairs(place: &Path) -> PathBuf {
    let tree = place.join("tree");
    fs::create_dir(&tree).unwrap();
    for (name, last) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3)] {
        let mut bytes = vec![0; 10_000];
        bytes[9_999] = last;
        fs::write(tree.join(name), bytes).unwrap();
    }
    tree
}

#[test]
fn dupes_cache_saves_reading_and_is_not_believed_of_changes() {
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("cache/dupes.redb");
    let tree = pairs(place.path());
    let options = options(|options| options.cache = Some(cache.clone()));
    let find = |is_later| {
        let found = if is_later {
            searched_later(&tree, &options)
        } else {
            find_below(&tree, 1, &options)
        };
        assert_eq!(found.cache_failure, None);
        let groups = found.groups().zip(file_names(&found));
        let groups: Vec<_> = groups.map(|(group, names)| (group.proof, names.concat())).collect();
        (groups, found.read_bytes, found.cached)
    };
    let groups = |proof| vec![(proof, "ab".to_owned()), (proof, "cd".to_owned())];
    // What was written a moment ago may be written again without a new time.
    assert_eq!(find(false).0, groups(Proof::Blake3));
    assert_eq!(find(false), (groups(Proof::Blake3), 5 * (4096 + 10_000), 0));
    assert_eq!(find(true).0, groups(Proof::Blake3));
    assert_eq!(find(true), (groups(Proof::Cached), 0, 5));
    let times = fs::metadata(tree.join("b")).unwrap().modified().unwrap();
    let changed = File::options().write(true).open(tree.join("b")).unwrap();
    changed.write_all_at(&[3], 9_999).unwrap();
    changed.set_modified(times).unwrap();
    let expected = vec![(Proof::Cached, "be".to_owned()), (Proof::Cached, "cd".to_owned())];
    assert_eq!(find(true), (expected, 4096 + 10_000, 4));
    // Another file by the same name, with the same time.
    fs::copy(tree.join("a"), place.path().join("new")).unwrap();
    let new = File::options().write(true).open(place.path().join("new")).unwrap();
    new.set_modified(times).unwrap();
    fs::rename(place.path().join("new"), tree.join("d")).unwrap();
    assert_eq!(
        find(true).0,
        [(Proof::Cached, "ad".to_owned()), (Proof::Cached, "be".to_owned())]
    );
}

#[test]
fn dupes_cache_that_is_damaged_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (tree, cache) = (pairs(place.path()), place.path().join("digests"));
    let options = options(|options| options.cache = Some(cache.clone()));
    let failure = |what: &str| {
        let found = searched_later(&tree, &options);
        assert_eq!(file_names(&found), [["a", "b"], ["c", "d"]], "{what}");
        found.cache_failure.clone()
    };
    assert_eq!(failure("new"), None);
    let good = fs::read(&cache).unwrap();
    // Where something is.
    let used: Vec<usize> = (0..good.len()).filter(|at| good[*at] != 0).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut told = 0;
    for trial in 0..long_or(60, 16) {
        let mut bad = good.clone();
        match trial % 4 {
            0 => bad.truncate(random.usize(..good.len())),
            1 => bad[used[random.usize(..used.len())]] ^= 1 << random.u32(..8),
            2 => {
                let at = random.usize(..good.len() - 4096);
                bad[at..at + 4096].fill(random.u8(..));
            }
            _ => bad[random.usize(..320)] = random.u8(..),
        }
        fs::write(&cache, &bad).unwrap();
        told += usize::from(failure(&format!("damage {trial}")).is_some());
        // What was told is no cache stays as it is; another works again.
        failure(&format!("damage {trial}, again"));
    }
    assert!(told > 0);
    for content in [b"no digests".to_vec(), vec![0; 1 << 20]] {
        fs::write(&cache, &content).unwrap();
        let why = failure("no digests").unwrap();
        assert!(why.contains("cannot open the cache of digests: "), "{why}");
        assert_eq!(fs::read(&cache).unwrap(), content);
    }
    fs::remove_file(&cache).unwrap();
    // Of another version: a table by the same name, with other columns.
    let table: redb::TableDefinition<'_, u64, &str> = redb::TableDefinition::new("xxh3-64 of 4096, blake3-256");
    let database = redb::Database::create(&cache).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(table).unwrap().insert(1, "a digest").unwrap();
    transaction.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let why = failure("another version").unwrap();
        assert!(why.contains("cannot open the cache of digests"), "{why}");
    }
    let database = redb::Database::create(&cache).unwrap();
    let kept = database.begin_read().unwrap().open_table(table).unwrap();
    assert_eq!(kept.get(1).unwrap().unwrap().value(), "a digest");
    drop((kept, database));
    fs::remove_file(&cache).unwrap();
    fs::create_dir(&cache).unwrap();
    assert!(failure("a directory").is_some());
}

#[test]
fn dupes_cache_without_space_lets_the_search_go_on() {
    let place = tempfile::tempdir().unwrap();
    let [tree, full] = ["tree", "full"].map(|name| place.path().join(name));
    fs::create_dir(&tree).unwrap();
    for number in 0..long_or(4_000, 1_000) {
        fs::write(tree.join(number.to_string()), (number / 2).to_string().repeat(3)).unwrap();
    }
    let options = options(|options| options.cache = Some(full.join("digests")));
    let expected = file_names(&find_below(&tree, 1, &SearchOptions::default()));
    let mut told = BTreeSet::new();
    for size in long_or(&["4k", "64k", "1m", "1200k", "1600k", "2m"][..], &["4k", "1m"]) {
        let Some(_mounted) = Mounted::tmpfs(full.clone(), &format!("size={size}")) else {
            return;
        };
        for _ in 0..2 {
            let found = searched_later(&tree, &options);
            assert_eq!(file_names(&found), expected, "{size}");
            told.extend(found.cache_failure.clone());
        }
    }
    let is_right = |why: &String| why.contains("full/digests: cannot ") && why.contains("No space left on device");
    assert!(!told.is_empty() && told.iter().all(is_right), "{told:?}");
}

#[test]
fn dupes_cache_omits_files_whose_changes_do_not_show() {
    let place = tempfile::tempdir().unwrap();
    let (tree, mounted) = (pairs(place.path()), place.path().join("mounted"));
    fs::create_dir(&mounted).unwrap();
    let options = options(|options| options.cache = Some(place.path().join("digests")));
    let find_twice = || {
        for _ in 0..2 {
            let found = searched_later(&mounted, &options);
            let proofs: Vec<Proof> = found.groups().map(|group| group.proof).collect();
            assert!(proofs.len() == 2 && !proofs.contains(&Proof::Cached), "{proofs:?}");
        }
    };
    if mounts("bindfs", &[tree.as_os_str(), mounted.as_os_str()]) {
        let _mounted = Mounted(mounted.clone());
        find_twice();
    }
    if let Some(_mounted) = Mounted::tmpfs(mounted.clone(), "size=1m") {
        for entry in fs::read_dir(tree).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), mounted.join(entry.file_name())).unwrap();
        }
        find_twice();
    }
}

#[test]
fn dupes_by_a_known_digest_leave_the_page_cache() {
    let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let path = |name: &str| tree.join(name);
    fs::write(path("a"), vec![1; 300_000]).unwrap();
    fs::write(path("other"), vec![2; 300_000]).unwrap();
    let options = options(|options| options.cache = Some(place.path().join("digests")));
    assert_eq!(searched_later(&tree, &options).sum().groups, 0);
    fs::write(path("new"), vec![1; 300_000]).unwrap();
    for name in ["a", "other", "new"] {
        File::open(path(name)).unwrap().sync_all().unwrap();
        if seekless_engine::cache::drop_file(path(name)).unwrap().part() != Some(0.0) {
            return println!("skipped: files cannot be dropped from the page cache here");
        }
    }
    // Somebody has read this one.
    fs::read(path("other")).unwrap();
    assert_eq!(file_names(&searched_later(&tree, &options)), [["a", "new"]]);
    let is_resident = |name: &str| seekless_engine::cache::resident(path(name)).unwrap().part() > Some(0.0);
    assert_eq!(["a", "other", "new"].map(is_resident), [false, true, false]);
}

/// A search of files that are listed, each with one name.
fn search_of<'a>(files: &'a Files, options: &'a SearchOptions, stop: &'a Stop) -> Search<'a> {
    let mut search = Search::new(files, planned(), options, stop, Vec::new(), None);
    search.threads = Threads::new(16);
    search.finds_twins = true;
    search
}

fn listed_below(root: &Path) -> Files {
    let selection = Selection::new([root], true);
    let plan = plan::batch(&ProcessFacts::here());
    Files::list(&selection, &Filter::default(), false, &plan, &Stop::default()).files
}

#[test]
fn dupes_that_begin_alike_are_read_a_few_times_at_most() {
    const FILES: u64 = 600;
    let place = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        let mut bytes = vec![7; 5_000];
        bytes[4_500..4_508].copy_from_slice(&(number / 2 * 2).max(number.min(500)).to_le_bytes());
        fs::write(place.path().join(number.to_string()), bytes).unwrap();
    }
    let options = options(|options| options.is_paranoid = true);
    let found = find_below(place.path(), 1, &options);
    let groups: Vec<_> = found.groups().collect();
    assert_eq!(groups.len(), 50);
    assert!(
        groups
            .iter()
            .all(|group| group.files.len() == 2 && group.proof == Proof::Bytes)
    );
    assert!(found.read_bytes < 3 * FILES * 5_000, "{}", found.read_bytes);
}

#[test]
fn dupes_by_bytes_end_when_stopped() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..3_000 {
        fs::write(place.path().join(number.to_string()), "same").unwrap();
    }
    let options = options(|options| options.is_paranoid = true);
    let files = listed_below(place.path());
    let group: Vec<u32> = (0..files.len()).collect();
    let ends_early = |stops_first| {
        let stop = Stop::default();
        let search = search_of(&files, &options, &stop);
        std::thread::scope(|scope| {
            if stops_first {
                stop.stop();
            } else {
                scope.spawn(|| {
                    while search.read_bytes.load(Ordering::Relaxed) < 4 * 3_500 {
                        std::thread::yield_now();
                    }
                    stop.stop();
                });
            }
            let started = Instant::now();
            let (classes, failed) = prove_all(&search, std::slice::from_ref(&group));
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
            classes.is_empty() && failed.is_empty()
        })
    };
    assert!(ends_early(true));
    // A busy machine may be too slow to stop it before its end.
    assert!((0..10).any(|_| ends_early(false)));
}

#[test]
fn dupes_name_met_twice_or_symbolic_is_no_hard_link() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    for directory in ["here", "elsewhere"] {
        fs::create_dir(path(directory)).unwrap();
    }
    for name in ["1", "2"] {
        fs::write(path("here").join(name), vec![7; 100_000]).unwrap();
        fs::hard_link(path("here").join(name), path("elsewhere").join(name)).unwrap();
        std::os::unix::fs::symlink(name, path("here").join(format!("link to {name}"))).unwrap();
    }
    let gain = |roots: &[&str], follows_links| {
        let filter = filter(|filter| filter.follows_links = follows_links);
        let selection = Selection::new(roots.iter().map(|root| path(root)), true);
        let sum = searched_by(&selection, &filter).sum();
        assert_eq!((sum.groups, sum.duplicates), (1, 1));
        sum.gain_bytes
    };
    assert_eq!(gain(&["here"], false), 0);
    assert_eq!(gain(&["here", "here/1", "here/2"], false), 0);
    assert_eq!(gain(&["here"], true), 0);
    let bytes = blocks_bytes(&path("here/1"));
    assert_eq!(gain(&["here", "elsewhere"], false), bytes);
    assert_eq!(gain(&["here", "here/1", "elsewhere/2", "elsewhere/1"], true), bytes);
}

#[test]
fn dupes_references_are_neither_duplicates_nor_gain() {
    let bytes = vec![7; 100_000];
    let found = |place: &Path, with_directories| {
        let options = options(|options| {
            options.across = Across::References(1);
            options.with_directories = with_directories;
        });
        let selection = Selection::new([place.join("photos")], true).against([place.join("backup")]);
        (searched(&selection, &options), blocks_bytes(&place.join("backup/a/1")))
    };
    let photos = ["photos/a/1", "photos/a/2", "photos/b/1", "photos/b/2"];
    let files = photos
        .iter()
        .flat_map(|name| [(*name).to_owned(), name.replace("photos", "backup")]);
    let more = ["backup/a/3", "backup/a/4", "backup/b/3", "backup/b/4"].map(str::to_owned);
    let files: Vec<String> = files.chain(more).collect();
    let place = planted(&files.iter().map(|name| (name.as_str(), &bytes[..])).collect::<Vec<_>>());
    // A name of a reference, too.
    fs::hard_link(place.path().join("backup/a/1"), place.path().join("photos/linked")).unwrap();
    for with_directories in [false, true] {
        let (found, bytes) = found(place.path(), with_directories);
        let sum = found.sum();
        assert_eq!((sum.groups, sum.duplicates, sum.gain_bytes), (1, 4, 4 * bytes));
    }
    let place = planted(&["photos/a/1", "backup/a/1", "backup/b/1"].map(|name| (name, &bytes[..])));
    let (found, bytes) = found(place.path(), true);
    let [equal] = &found.directories[..] else {
        panic!("{:?}", found.directories)
    };
    assert_eq!((equal.files.len(), equal.gain_bytes), (3, bytes));
}

#[test]
fn dupes_gain_of_directories_is_what_is_free_without_them() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..10 {
        let path = |name: &str| place.path().join(number.to_string()).join(name);
        for directory in ["a", "b", "c", "d"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path("a/x"), vec![number; 50_000]).unwrap();
        fs::hard_link(path("a/x"), path("b/x")).unwrap();
        fs::write(path("c/x"), vec![number; 50_000]).unwrap();
        fs::hard_link(path("c/x"), path("d/x")).unwrap();
    }
    let bytes = blocks_bytes(&place.path().join("0/a/x"));
    for _ in 0..10 {
        let options = options(|options| options.with_directories = true);
        let found = find_below(place.path(), 1, &options);
        assert_eq!(found.directories.len(), 10);
        for equal in found.directories {
            assert_eq!((equal.files.len(), equal.gain_bytes), (4, bytes));
        }
    }
}

#[test]
fn dupes_tell_what_a_file_became_since_it_was_listed() {
    let place =
        planted(&["gone", "link", "replaced", "socket", "truncated", "written"].map(|name| (name, &b"same"[..])));
    let path = |name: &str| place.path().join(name);
    let files = listed_below(place.path());
    let (options, stop) = (SearchOptions::default(), Stop::default());
    let search = search_of(&files, &options, &stop);
    let number = |name: &str| {
        let mut all = 0..files.len();
        all.find(|number| files.name(*number) == name.as_bytes()).unwrap()
    };
    let (open, _) = open_file(&search, number("truncated")).unwrap();
    fs::write(path("truncated"), "").unwrap();
    fs::write(path("written"), "SAME").unwrap();
    fs::rename(path("gone"), path("replaced")).unwrap();
    for name in ["link", "socket"] {
        fs::remove_file(path(name)).unwrap();
    }
    std::os::unix::fs::symlink("truncated", path("link")).unwrap();
    std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let told = |error: io::Error| (error.kind(), error.to_string());
    let (replaced, changed) = (
        "replaced by another file during the search",
        "changed during the search",
    );
    let gone = "No such file or directory (os error 2)";
    for (name, kind, why) in [
        ("gone", io::ErrorKind::NotFound, gone),
        ("link", CHANGED, replaced),
        ("replaced", CHANGED, replaced),
        ("socket", CHANGED, replaced),
        ("written", CHANGED, changed),
    ] {
        let error = open_file(&search, number(name)).unwrap_err();
        assert_eq!(told(error), (kind, why.to_owned()), "{name}");
    }
    let error = cause(&search, number("truncated"), &open, io::Error::other("a page is gone"));
    assert_eq!(told(error), (CHANGED, changed.to_owned()));
}

#[test]
#[cfg(target_os = "linux")]
fn dupes_digest_waits_for_writeback_so_that_times_change() {
    let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b"] {
        fs::write(tree.join(name), vec![7; 20_000]).unwrap();
    }
    let unwritten = |name: &str| {
        let found = seekless_sys::unwritten_bytes(&File::open(tree.join(name)).unwrap()).unwrap();
        found.available()
    };
    if unwritten("a").is_none_or(|bytes| bytes == 0) {
        println!("skipped: nothing stays unwritten here, or the system does not tell");
        return;
    }
    let options = options(|options| options.cache = Some(place.path().join("cache")));
    assert_eq!(searched_later(&tree, &options).sum().groups, 1);
    assert_eq!(["a", "b"].map(unwritten), [Some(0); 2]);
    assert_eq!(searched_later(&tree, &options).cached, 2);
}

/// Where the test of memory runs alone, as its child does.
const ALONE: &str = "SEEKLESS_TEST_MEMORY";

#[test]
#[cfg(target_os = "linux")]
fn dupes_of_ten_million_files_take_150_bytes_each_at_most() {
    if std::env::var_os(ALONE).is_none() {
        let name = "dupes::tests::dupes_of_ten_million_files_take_150_bytes_each_at_most";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    }
    // Two of each size; of half of the sizes the beginnings are equal, too.
    let files = Files::made(long_or(100_000, 1_000), 100, |number| u64::from(number / 2) + 1);
    let (mut numbers, names) = distinct(&files);
    let stop = Stop::default();
    let options = SearchOptions::default();
    let mut search = search_of(&files, &options, &stop);
    search.names = names;
    search.drop_single_sizes(&mut numbers);
    let count = numbers.len();
    assert_eq!(count, long_or(10_000_000, 100_000));
    let digest = |number: u32| if number % 4 < 2 { number / 2 } else { number };
    let parts = numbers.chunks(numbers.len() / 16).map(|part| {
        part.iter()
            .map(|number| (u64::from(digest(*number)), *number))
            .collect()
    });
    let groups = alike(&search, parts.collect());
    drop(numbers);
    assert!(groups.len() >= count / 4, "{}", groups.len());
    let class = |group: Vec<u32>| Class {
        proof: Proof::Bytes,
        files: group.into_iter().map(|number| member(&search, number, 4096)).collect(),
    };
    let mut classes: Vec<Class> = groups.into_iter().map(class).collect();
    search.sort(&mut classes);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = most.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    println!("{} bytes a file", kib * 1024 / count as u64);
    // The process itself takes some as well.
    assert!(kib * 1024 < 150 * count as u64 + (32 << 20), "{kib} KiB");
}

#[test]
fn dupes_compare_many_large_pairs_without_waiting() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..40_u64 {
        for name in ["a", "b"] {
            let path = place.path().join(format!("{number}{name}"));
            write(
                &path,
                &Content {
                    bytes: (8 << 20) + number,
                    is_sparse: number % 4 > 0,
                    at: 100_000,
                    byte: 1,
                },
            );
        }
    }
    let options = SearchOptions::default();
    for _ in 0..5 {
        assert_eq!(find_below(place.path(), 1, &options).sum().groups, 40);
    }
}
