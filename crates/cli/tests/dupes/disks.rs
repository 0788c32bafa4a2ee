//! `seekless dupes` on file systems that share blocks, number files in their own way, or show a file in several places.
//!
//! Every search runs with several numbers of threads and of open files, and must print the same.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::disks::{blocks_bytes, btrfs, bytes, disk, reflink, resident_bytes, sync};
use crate::common::groups::{Groups, Seen, groups};
use crate::common::place::{Ended, Mount, Place, long_or, prepared, resize, words};

/// Searches with many and with few threads, one processor and several, and checks that all print the same but for the proof.
pub fn search(place: &Place, arguments: &[&str]) -> Seen {
    let arguments = [&["dupes", "--json"], arguments].concat();
    let first = place.run(&arguments);
    let mut others = vec![
        place.run(&arguments),
        place.run_with_few_files(200, &arguments),
        place.run_with_few_files(20, &arguments),
    ];
    let mut single = place.command_of("taskset");
    single
        .args(["-c", "0", env!("CARGO_BIN_EXE_seekless")])
        .args(&arguments);
    others.extend(single.spawn().ok().map(Ended::of));
    // With few open files, digests are compared earlier; with a cache, the first search keeps them.
    let printed = |ended: &Ended| {
        ["\"blake3\"", "\"cached blake3\""]
            .iter()
            .fold(ended.stdout.clone(), |text, proof| text.replace(proof, "\"bytes\""))
    };
    // Blocks begin elsewhere with other threads.
    let told = |ended: &Ended| {
        let said = said(ended);
        let words = said.split("at byte ");
        words
            .map(|part| part.trim_start_matches(|letter: char| letter.is_ascii_digit()))
            .collect::<String>()
            .replace(THROUGH_MAP, OF_SYSTEM)
    };
    for other in others {
        assert_eq!((other.code, told(&other)), (first.code, told(&first)));
        let (here, there) = (printed(&first), printed(&other));
        let difference = here.lines().zip(there.lines()).find(|(here, there)| here != there);
        assert!(here == there, "{difference:?}");
    }
    Seen::of(&first)
}

/// How an error of the device is named where a pair is compared through a map, and elsewhere.
const THROUGH_MAP: &str = "cannot read through the map : input/output error, or the file was shorter for a moment";
const OF_SYSTEM: &str = "cannot read : Input/output error (os error 5)";

/// What is on standard error, without the method by which a pair was compared.
fn said(ended: &Ended) -> String {
    let lines = ended
        .stderr
        .lines()
        .map(|line| match (line.find(" (compare/"), line.find("): ")) {
            (Some(start), Some(end)) => format!("{}{}", &line[..start], &line[end + 1..]),
            _ => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The overlay of a test: two directories below it, one above.
fn layered(place: &Place) -> Option<Mount> {
    for (name, content) in [
        ("lower1/a", "same"),
        ("lower1/b", "same"),
        ("lower1/shadowed", "SAME"),
        ("lower2/c", "same"),
        ("lower2/shadowed", "same"),
        ("lower1/x1", "linked"),
        ("lower1/y1", "linked, too"),
        ("upper/u", "same"),
    ] {
        place.file(name, content.repeat(2000).as_bytes());
    }
    for name in ["x", "y"] {
        let path = |number: u32| place.path(format!("lower1/{name}{number}"));
        fs::hard_link(path(1), path(2)).unwrap();
    }
    place.directories("work merged");
    let lower = [place.path("lower1"), place.path("lower2")].map(|path| path.display().to_string());
    let [upper, work, merged] = ["upper", "work", "merged"].map(|name| place.path(name));
    let mount = Mount::overlay([Path::new(&lower.join(":")), &upper, &work], &merged)?;
    // Each is copied up by that; it breaks the hard link.
    for name in ["b", "x1"] {
        fs::set_permissions(merged.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    Some(mount)
}

#[test]
fn dupes_of_an_overlay_have_each_file_once() {
    for file_systems in [1, 3] {
        let place = Place::new();
        let mut mounts = Vec::new();
        for name in &["lower1", "lower2"][..file_systems - 1] {
            let Some(mount) = Mount::tmpfs(&place.path(name), "size=4m") else {
                return;
            };
            mounts.push(mount);
        }
        let Some(overlay) = layered(&place) else { return };
        mounts.push(overlay);
        // The overlay is unmounted before what is below it.
        mounts.reverse();
        let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
        let are_one_number = inode("lower1/a") == inode("lower2/c");
        assert_eq!(are_one_number, file_systems > 1, "files of both have the same numbers");
        let seen = search(&place, &["merged"]);
        let expected = groups(&["merged/a merged/b merged/c merged/u", "merged/x1 merged/x2"]);
        assert_eq!(seen.groups, expected);
        // It has another name, which is not in the overlay any more.
        assert_eq!(seen.own_bytes["merged/x2"], 0);
    }
}

#[test]
fn dupes_of_an_overlay_and_its_layers_have_each_file_once() {
    let place = Place::new();
    let Some(_mount) = layered(&place) else { return };
    let seen = search(&place, &["merged", "lower1"]);
    let expected = groups(&[
        "merged/a|lower1/a merged/b lower1/b merged/c merged/u",
        "merged/x1 merged/x2|lower1/x1|lower1/x2",
    ]);
    assert_eq!(seen.groups, expected);
    assert_eq!(seen.summary["files"], 9);
    // With all that the overlay is made of.
    let seen = search(&place, &["merged", "lower1", "lower2", "upper"]);
    let expected = groups(&[
        "merged/a|lower1/a merged/b|upper/b lower1/b merged/c|lower2/c merged/u|upper/u lower2/shadowed",
        "merged/x1|upper/x1 merged/x2|lower1/x1|lower1/x2",
    ]);
    assert_eq!(seen.groups, expected);
}

#[test]
fn dupes_gain_omits_blocks_shared_below_an_overlay() {
    let place = Place::new();
    let Some(_disk) = disk(&place, "xfs") else { return };
    let names = ["lower", "upper", "work", "merged"].map(|name| place.path("disk").join(name));
    let [lower, upper, work, merged] = &names;
    place.directories("disk/upper disk/work");
    place.file("disk/lower/a", &bytes(1, 1 << 20));
    let Some(_overlay) = Mount::overlay([lower, upper, work], merged) else {
        return;
    };
    fs::write(merged.join("b"), bytes(1, 1 << 20)).unwrap();
    reflink(&merged.join("b"), &merged.join("twin"));
    sync(&merged.join("b"));
    let seen = search(&place, &["disk/merged"]);
    assert_eq!(seen.groups, groups(&["disk/merged/a disk/merged/b disk/merged/twin"]));
    let own = ["a", "b", "twin"].map(|name| seen.own_bytes[&format!("disk/merged/{name}")]);
    assert_eq!(own, [1 << 20, 0, 0]);
}

#[test]
fn dupes_without_inode_numbers_list_no_file_twice() {
    for options in &[&[][..], &["-o", "use_ino"]][..long_or(2, 1)] {
        let place = Place::new();
        place.files("source/d/x source/d/y source/copy", &bytes(1, 9000));
        place.file("source/h1", &bytes(2, 9000));
        place.hard_link("source/h1", "source/h2");
        let Some(fuse) = Mount::bindfs(&place.path("source"), &place.path("m"), options) else {
            return;
        };
        std::os::unix::fs::symlink("m/d", place.path("to_d")).unwrap();
        let all = ["m/copy m/d/x m/d/y"];
        let named_twice = [
            &["m"][..],
            &["m", "m"],
            &["m", "m/d"],
            &["m/d", "m"],
            &["m", "m/d/x", "m/d/../d/x"],
            &["m", "m/copy", "m/d/y"],
            &["."],
            &[".", "m/d"],
            &[".", "m/d/x"],
        ];
        for arguments in named_twice.into_iter().step_by(long_or(1, 4)) {
            let mut arguments = arguments.to_vec();
            arguments.extend(["--exclude", "source"]);
            assert_eq!(search(&place, &arguments).groups, groups(&all), "{arguments:?}");
        }
        let other_searches = [
            (&["m/d", "m/d"][..], &["m/d/x m/d/y"][..]),
            (&["m/d/x", "m/d/x", "m/d/../d/x"], &[]),
            (&["to_d", "m/d"], &["to_d/x to_d/y"]),
            (&["--isolate", "m", "m"], &[]),
            (&["--isolate", "m/d", "m/d/x"], &["m/d/x m/d/y"]),
            (&["m/copy", "--against", "m/copy"], &[]),
            (&["m/copy", "--against", "m"], &[]),
            (&["m/d", "--against", "m"], &[]),
            (&["m", "--against", "m"], &[]),
            (&["m", "--against", "m/d"], &["m/copy m/d/x m/d/y"]),
            (&["m/d", "m/copy", "--against", "m/d/x"], &["m/copy m/d/x m/d/y"]),
        ];
        for (arguments, expected) in other_searches.into_iter().step_by(long_or(1, 3)) {
            assert_eq!(search(&place, arguments).groups, groups(expected), "{arguments:?}");
        }
        // The same file by two mounts.
        let Some(bound) = Mount::bind(&place.path("m"), &place.path("bound")) else {
            return;
        };
        for arguments in [&["m/copy", "bound/copy"][..], &["m/copy", "--against", "bound"]] {
            assert_eq!(search(&place, arguments).groups, Groups::new());
        }
        // So is a directory.
        for (arguments, expected) in [
            (&["m", "bound"][..], &["m/copy m/d/x m/d/y"][..]),
            (&["m", "bound/d"], &["bound/d/x bound/d/y m/copy"]),
            (&["bound/d", "m"], &["bound/d/x bound/d/y m/copy"]),
            (&["--exclude", "source", "."], &["bound/copy bound/d/x bound/d/y"]),
            (&["bound", "--against", "m"], &[]),
            (&["m", "--against", "bound/d"], &["bound/d/x bound/d/y m/copy"]),
        ] {
            for option in [&[][..], &["--dirs"]] {
                let seen = place.succeeds(("dupes --json", option, arguments));
                // A directory among them has no device, which fails here.
                assert_eq!(Seen::of(&seen).groups, groups(expected), "{arguments:?}");
            }
            assert_eq!(search(&place, arguments).groups, groups(expected), "{arguments:?}");
        }
        drop(bound);
        drop(fuse);
    }
}

#[test]
fn dupes_of_a_snapshot_are_equal_and_free_nothing() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "btrfs") else { return };
    assert!(btrfs(&place, &["create", "disk/one"]));
    for (name, seed) in [("kept", 1), ("changed", 2), ("twice", 3), ("twice_too", 3), ("gone", 4)] {
        fs::write(place.path("disk/one").join(name), bytes(seed, 300_000)).unwrap();
    }
    assert!(btrfs(&place, &["snapshot", "disk/one", "disk/writable"]));
    // A block in the middle changes, and a file is written again with the same bytes.
    let changed = place.path("disk/writable/changed");
    let changed = File::options().write(true).open(changed).unwrap();
    changed.write_all_at(b"changed", 100_000).unwrap();
    fs::write(place.path("disk/writable/new"), bytes(3, 300_000)).unwrap();
    sync(&place.path("disk"));
    let seen = search(&place, &["disk"]);
    let expected = groups(&[
        "disk/one/kept disk/writable/kept",
        "disk/one/gone disk/writable/gone",
        "disk/one/twice disk/one/twice_too disk/writable/twice disk/writable/twice_too disk/writable/new",
    ]);
    assert_eq!(seen.groups, expected);
    let new_bytes = blocks_bytes(&place.path("disk/writable/new"));
    for (name, own_bytes) in &seen.own_bytes {
        let expected = if name == "disk/writable/new" { new_bytes } else { 0 };
        assert_eq!(*own_bytes, expected, "{name}");
    }
    assert_eq!(seen.gain_bytes["disk/one/kept"], 0);
    assert_eq!(seen.summary["gain_bytes"], new_bytes);
}

#[test]
fn dupes_omit_read_only_snapshots_unless_all() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "btrfs") else { return };
    assert!(btrfs(&place, &["create", "disk/one"]));
    place.files("disk/one/a disk/one/b", &bytes(1, 300_000));
    assert!(btrfs(&place, &["snapshot", "-r", "disk/one", "disk/frozen"]));
    fs::write(place.path("disk/one/c"), bytes(1, 300_000)).unwrap();
    sync(&place.path("disk"));
    let seen = search(&place, &["disk"]);
    let here = "disk/one/a disk/one/b disk/one/c";
    assert_eq!(seen.groups, groups(&[here]));
    // The snapshot holds the blocks of the first two.
    assert_eq!(seen.gain_bytes["disk/one/a"], blocks_bytes(&place.path("disk/one/c")));
    assert_eq!(seen.summary["left_out"]["directories"], 1);
    place
        .succeeds("dupes disk")
        .says("1 trash directory or snapshot (--all)");
    let with_all = groups(&[&format!("{here} disk/frozen/a disk/frozen/b")]);
    assert_eq!(search(&place, &["--all", "disk"]).groups, with_all);
    // What is named is searched.
    let named = groups(&["disk/frozen/a disk/frozen/b"]);
    assert_eq!(search(&place, &["disk/frozen"]).groups, named);
}

#[test]
fn dupes_omit_sysfs() {
    let place = Place::new();
    place.files("tree/a tree/b", b"same");
    let Some(_mount) = Mount::bind(Path::new("/sys/module"), &place.path("tree/sys")) else {
        return;
    };
    for arguments in [&["tree"][..], &["--all", "tree"]] {
        let seen = search(&place, arguments);
        assert_eq!((seen.groups, &*seen.stderr), (groups(&["tree/a tree/b"]), ""));
        assert_eq!(seen.summary["left_out"]["other_file_systems"], 1);
    }
}

/// Bytes of files in the page cache, after all were dropped from it and searched with `--keep-cached`.
fn read_into_memory(place: &Place, names: &[&str]) -> BTreeMap<String, u64> {
    for name in names {
        seekless_engine::cache::drop_file(place.path(name)).unwrap();
    }
    let resident = |name: &&str| resident_bytes(&place.path(name));
    assert!(names.iter().all(|name| resident(name) == 0));
    place.succeeds("dupes --keep-cached disk");
    names.iter().map(|name| ((*name).to_owned(), resident(name))).collect()
}

fn reflinks_on(kind: &str) {
    const LENGTH: usize = 4 << 20;
    let place = Place::new();
    let Some(_mount) = disk(&place, kind) else { return };
    let path = |name: &str| place.path("disk").join(name);
    fs::write(path("a"), bytes(1, LENGTH)).unwrap();
    reflink(&path("a"), &path("twin"));
    fs::write(path("copy"), bytes(1, LENGTH)).unwrap();
    fs::write(path("p"), bytes(2, LENGTH)).unwrap();
    reflink(&path("p"), &path("p_twin"));
    // Of one size with the others, and different.
    fs::write(path("other"), bytes(3, LENGTH)).unwrap();
    // Shared in part: the last MiB is written again with the same bytes.
    for (name, seed) in [("part", 4), ("different", 5)] {
        let whole = bytes(seed, LENGTH);
        fs::write(path(name), &whole).unwrap();
        let other = format!("{name}_other");
        reflink(&path(name), &path(&other));
        let mut end = whole[3 << 20..].to_vec();
        end[500_000] ^= u8::from(name == "different");
        let file = File::options().write(true).open(path(&other)).unwrap();
        file.write_all_at(&end, 3 << 20).unwrap();
    }
    sync(&place.path("disk"));
    let seen = search(&place, &["disk"]);
    let expected = groups(&[
        "disk/a disk/twin disk/copy",
        "disk/p disk/p_twin",
        "disk/part disk/part_other",
    ]);
    assert_eq!(seen.groups, expected, "{kind}");
    let own = |name: &str| seen.own_bytes[&format!("disk/{name}")];
    let owned = ["a", "twin", "copy", "p", "p_twin"].map(own);
    assert_eq!(owned, [0, 0, blocks_bytes(&path("copy")), 0, 0], "{kind}");
    // btrfs keeps all of an extent of which a part is used.
    let end = if kind == "xfs" { 1 << 20 } else { 0 };
    assert_eq!([own("part"), own("part_other")], [end, 1 << 20], "{kind}");
    assert_eq!(seen.gain_bytes["disk/p"], 0, "{kind}");
    let read = read_into_memory(&place, &["disk/p", "disk/p_twin", "disk/copy", "disk/part"]);
    let few = 512 << 10;
    assert!(read["disk/p"] < few && read["disk/p_twin"] < few, "{kind}: {read:?}");
    for name in ["disk/copy", "disk/part"] {
        assert_eq!(read[name], LENGTH as u64, "{kind}: {read:?}");
    }
}

#[test]
fn dupes_of_reflinks_are_equal_unread_and_free_nothing() {
    ["xfs", "btrfs"].into_iter().for_each(reflinks_on);
}

#[test]
fn dupes_of_a_reflink_cut_in_its_last_block_differ() {
    let place = Place::new();
    let Some(_mount) = disk(&place, "btrfs") else { return };
    let content = bytes(1, 99_000);
    let path = |name: &str| place.path("disk").join(name);
    fs::write(path("long"), &content).unwrap();
    sync(&path("long"));
    let mut longer = vec!["disk/long".to_owned()];
    let mut shorter = Vec::new();
    // More than are open side by side.
    for number in 0..70 {
        let [long, short, copy] = ["long", "short", "copy"].map(|name| format!("{name}{number}"));
        reflink(&path("long"), &path(&long));
        reflink(&path("long"), &path(&short));
        resize(&path(&short), 98_700);
        fs::write(path(&copy), &content[..98_700]).unwrap();
        longer.push(format!("disk/{long}"));
        shorter.extend([format!("disk/{short}"), format!("disk/{copy}")]);
    }
    sync(&path("long"));
    let expected = groups(&[&longer.join(" "), &shorter.join(" ")]);
    for _ in 0..4 {
        assert_eq!(search(&place, &["disk"]).groups, expected);
    }
}

fn content_decides_on(kind: &str) {
    const LENGTH: usize = 1 << 20;
    let place = Place::new();
    let Some(_mount) = disk(&place, kind) else { return };
    let path = |name: &str| place.path("disk").join(name);
    // Zeros that were written, that were not, and that have no place.
    fs::write(path("zeros"), vec![0; LENGTH]).unwrap();
    let allocate = [OsStr::new("-l"), OsStr::new("1M")];
    for name in ["unwritten", "unwritten_and_data"] {
        let file = path(name);
        assert!(prepared("fallocate", &[&allocate[..], &[file.as_os_str()]].concat()));
    }
    place.sparse("disk/hole", LENGTH as u64);
    let ends = |name: &str| File::options().write(true).open(path(name)).unwrap();
    ends("unwritten_and_data").write_all_at(b"x", 700_000).unwrap();
    let mut data = vec![0; LENGTH];
    data[700_000] = b'x';
    fs::write(path("written_and_data"), data).unwrap();
    sync(&path(""));
    reflink(&path("unwritten"), &path("unwritten_twin"));
    reflink(&path("unwritten_and_data"), &path("twin_and_data"));
    // Where the last block of a file is shared, what is behind its end was zeroed in one of them.
    let mut last = bytes(9, 100_000);
    fs::write(path("end"), &last).unwrap();
    sync(&path(""));
    reflink(&path("end"), &path("end_zeroed"));
    resize(&path("end_zeroed"), 99_000);
    resize(&path("end_zeroed"), 100_000);
    last[99_000..].fill(0);
    fs::write(path("end_expected"), &last).unwrap();
    // Written a moment ago, and not yet elsewhere.
    fs::write(path("base"), bytes(8, LENGTH)).unwrap();
    sync(&path(""));
    for name in ["dirty", "dirty_too", "clean"] {
        reflink(&path("base"), &path(name));
    }
    for name in ["dirty", "dirty_too"] {
        ends(name).write_all_at(b"dirty", 500_000).unwrap();
    }
    // The first search meets what is dirty.
    let seen = Seen::of(&place.succeeds("dupes --json disk"));
    let expected = groups(&[
        "disk/zeros disk/unwritten disk/unwritten_twin disk/hole",
        "disk/unwritten_and_data disk/written_and_data disk/twin_and_data",
        "disk/end_zeroed disk/end_expected",
        "disk/base disk/clean",
        "disk/dirty disk/dirty_too",
    ]);
    assert_eq!(seen.groups, expected, "{kind}");
    for mode in ["disk", "disk --paranoid", "disk --cache --cache-file cache"] {
        assert_eq!(search(&place, &words(mode)).groups, expected, "{kind} {mode}");
    }
}

#[test]
fn dupes_of_unwritten_shared_and_dirty_data_go_by_bytes() {
    ["xfs", "btrfs"].into_iter().for_each(content_decides_on);
}

#[test]
fn dupes_of_a_hundred_thousand_hard_links_are_one_file() {
    let names_count = long_or(100_000, 10_000);
    let place = Place::new();
    let Some(_mount) = disk(&place, "xfs") else { return };
    let path = |name: &str| place.path("disk").join(name);
    fs::create_dir(path("links")).unwrap();
    fs::write(path("links/0"), bytes(1, 10_000)).unwrap();
    for number in 1..names_count {
        fs::hard_link(path("links/0"), path("links").join(number.to_string())).unwrap();
    }
    fs::write(path("other"), bytes(1, 10_000)).unwrap();
    sync(&path(""));
    let seen = Seen::of(&place.succeeds("dupes --json disk"));
    let [group] = &Vec::from_iter(&seen.groups)[..] else {
        panic!("{} groups", seen.groups.len());
    };
    let names: Vec<usize> = group.iter().map(BTreeSet::len).collect();
    assert_eq!((names, &seen.summary["files"]), (vec![names_count, 1], &Value::from(2)));
    // One of the two may go: with all of its names, each frees its space.
    assert_eq!(seen.gain_bytes["disk/links/0"], blocks_bytes(&path("other")));
    let below = Seen::of(&place.succeeds("dupes --json disk/links"));
    assert_eq!(below.groups, Groups::new());
    assert_eq!(below.summary["files"], 1);
}

#[test]
fn dupes_of_bind_mounts_in_each_other_end() {
    let place = Place::new();
    place.directories("a/x b/y itself/again");
    place.files("a/file b/file itself/file", b"same");
    let plain = search(&place, &["."]).groups;
    assert_eq!(plain, groups(&["a/file b/file itself/file"]));
    let path = |name: &str| place.path(name);
    let mut mounts = Vec::new();
    for (source, target) in [("itself", "itself/again"), ("a", "b/y"), ("b", "a/x")] {
        let Some(mount) = Mount::bind(&path(source), &path(target)) else {
            return;
        };
        mounts.push(mount);
    }
    // Bound once more where the first is seen.
    mounts.extend(Mount::bind(&path("itself"), &path("itself/again/again")));
    for roots in [&["."][..], &["a", "b", "itself"], &["b", "itself", "a"]] {
        let found = search(&place, roots).groups;
        assert_eq!(found, plain, "{roots:?}");
    }
    assert_eq!(search(&place, &["a"]).groups, groups(&["a/file a/x/file"]));
    while let Some(mount) = mounts.pop() {
        drop(mount);
    }
}

#[test]
fn dupes_of_deep_trees_are_found_with_little_memory() {
    const KIB: u64 = 300_000;
    let place = Place::new();
    let name = "d".repeat(255);
    for tree in ["a", "b"] {
        fs::create_dir(place.path(tree)).unwrap();
        let mut at = seekless_sys::Directory::open(&place.path(tree)).unwrap();
        for _ in 0..long_or(2000, 1000) {
            at = at.create_directory(name.as_ref(), 0o755).unwrap();
        }
        let mut file = at.create_file("file".as_ref(), 0o644).unwrap();
        std::io::Write::write_all(&mut file, b"same").unwrap();
    }
    let mut limited = place.command_after(&format!("ulimit -d {KIB}"));
    let ended = Ended::by(limited.args(words("dupes --dirs --format fdupes ."))).succeeded();
    assert_eq!(ended.stdout, "./a\n./b\n\n");
    let few = place.run_with_few_files(20, "dupes --dirs --format fdupes .");
    assert_eq!(few.stdout, "./a\n./b\n\n", "{}", few.stderr);
    for options in [&["."][..], &["--paranoid", "."]] {
        let found = search(&place, options).groups;
        assert_eq!(found.first().map(BTreeSet::len), Some(2), "{options:?}");
    }
    Ended::by(place.command_of("rm").args(["-r", "a", "b"])).succeeded();
}

/// A path as it is in the output of `--json`.
fn path_in(value: &Value) -> PathBuf {
    let Some(digits) = value["path_bytes"].as_str() else {
        return value["path"].as_str().unwrap().into();
    };
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    OsStr::from_bytes(&bytes).into()
}

#[test]
fn dupes_formats_tell_odd_names_that_read_back() {
    let place = Place::new();
    let odd: [&[u8]; 15] = [
        b"new\nline",
        b"\n",
        b"a\n\nb",
        b"\x1b[31mred\x1b]0;title\x07",
        b"\xff\xfe",
        b"caf\xc3\xa9",
        b"half\xc3",
        b"a,b",
        b"\"quoted\"",
        b"\"",
        b"carriage\r\nreturn\r",
        b" space ",
        b"-n",
        b"\\x1b \\u{1b}",
        "\u{202e}gpj.exe".as_bytes(),
    ];
    let mut expected = BTreeSet::new();
    for (number, name) in odd.into_iter().enumerate() {
        for directory in [&b"d"[..], name] {
            let path = Path::new("tree")
                .join(OsStr::from_bytes(directory))
                .join(OsStr::from_bytes(name));
            let made = fs::create_dir_all(place.path(path.parent().unwrap()));
            let made = made.and_then(|()| fs::write(place.path(&path), format!("{:>1$}", "same", 10 + number)));
            if made.is_err() && std::str::from_utf8(name).is_err() {
                println!("skipped: this file system refuses {name:?}");
                continue;
            }
            made.unwrap();
            expected.insert(path);
        }
    }
    let stdout = |arguments: &[&str]| {
        let mut command = place.command();
        let output = command.args(["dupes", "tree"]).args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        output.stdout
    };
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    for mode in [None, Some("--unique")] {
        let with = |arguments: &[&'static str]| stdout(&[arguments, &Vec::from_iter(mode)[..]].concat());
        let wanted = mode.map_or_else(|| expected.clone(), |_| BTreeSet::new());
        let document: Value = serde_json::from_slice(&with(&["--json"])).unwrap();
        let paths = |group: &Value| {
            let paths = group["paths"].as_array().unwrap().iter();
            paths.map(path_in).collect::<Vec<_>>()
        };
        let found: BTreeSet<_> = document["groups"].as_array().unwrap().iter().flat_map(paths).collect();
        assert_eq!(found, wanted);
        let lines = with(&["--jsonl"]);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
        let of_groups = lines.filter(|line| line["kind"] == "group");
        let found: BTreeSet<_> = of_groups.flat_map(|line| paths(&line)).collect();
        assert_eq!(found, wanted);
        let text = with(&["--format", "csv"]);
        let mut reader = csv::Reader::from_reader(&text[..]);
        let found: BTreeSet<_> = reader.byte_records().map(|row| path(&row.unwrap()[5])).collect();
        assert_eq!(found, wanted);
        let names = with(&["--format", "paths0"]);
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let found: BTreeSet<_> = names.map(path).collect();
        assert_eq!(found, wanted);
        let text = String::from_utf8(with(&[])).unwrap();
        let is_plain = |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{202e}');
        assert!(text.chars().all(is_plain), "{text:?}");
        let lines = text.lines().filter(|line| line.starts_with("  "));
        assert_eq!(lines.collect::<BTreeSet<_>>().len(), wanted.len());
    }
    // Groups of two with an empty name behind each, and the names as they are.
    for (format, end) in [("fdupes", b"\n"), ("paths0", b"\0")] {
        let raw = stdout(&["--format", format]);
        let parts = expected.iter().map(|path| path.as_os_str().as_bytes());
        for path in parts.clone() {
            let line = [path, end].concat();
            assert!(raw.windows(line.len()).any(|part| part == line), "{path:?}");
        }
        let bytes: usize = parts.map(|path| path.len() + 1).sum();
        assert_eq!(raw.len(), bytes + expected.len() / 2);
        assert!(raw.ends_with(&[*end, *end].concat()));
    }
}
