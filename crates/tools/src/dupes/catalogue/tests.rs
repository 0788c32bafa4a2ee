use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::SystemTime;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::testing::{Mounted, mounts};
use crate::{ClosureWatch, JobPhase};

fn catalogue(root: &Path, output: &Path, options: &CatalogueOptions) -> Result<Catalogued, CatalogueError> {
    catalogue_at(root, output, options, SystemTime::now())
}

/// Catalogues in an hour, when no file has changed a moment ago.
fn catalogue_later(root: &Path, output: &Path, options: &CatalogueOptions) -> Result<Catalogued, CatalogueError> {
    catalogue_at(root, output, options, SystemTime::now() + Duration::from_hours(1))
}

fn catalogue_at(
    root: &Path,
    output: &Path,
    options: &CatalogueOptions,
    now: SystemTime,
) -> Result<Catalogued, CatalogueError> {
    let filter = Filter {
        bytes: 0..=u64::MAX,
        ..Filter::default()
    };
    let selection = Selection::new([root], true);
    let written = (output, SearchOrigin::here(&[root.to_owned()], &[]).unwrap());
    write_at(&selection, &filter, options, written, &Stop::default(), now)
}

fn all_digests() -> CatalogueOptions {
    CatalogueOptions {
        digests: Digests::All,
        ..CatalogueOptions::default()
    }
}

fn all_columns() -> Vec<&'static str> {
    let all = "host storage device inode path size mtime_ns changed_ns settled links first blake3";
    all.split(' ').collect()
}

/// The rows by their paths.
fn rows(catalogue: &Path) -> BTreeMap<Vec<u8>, CatalogueRow> {
    let mut rows = BTreeMap::new();
    let reader = RowReader::open(catalogue).unwrap().expect("a catalogue");
    reader
        .rows(&all_columns(), &Stop::default(), |row| {
            assert!(rows.insert(row.path.clone(), row).is_none(), "a name occurs once");
        })
        .unwrap();
    rows
}

/// Files of all kinds: empty, small, of one page, large; some equal, some only alike at their beginnings, one with two names.
fn filled(root: &Path) {
    let long = |last: u8| [vec![7; 20_000], vec![last]].concat();
    let files: [(&str, Vec<u8>); 8] = [
        ("empty", Vec::new()),
        ("small", b"a".to_vec()),
        ("small again", b"a".to_vec()),
        ("page", vec![1; 4096]),
        ("long", long(1)),
        ("long again", long(1)),
        ("long other", long(2)),
        ("alone", vec![3; 5000]),
    ];
    for (name, bytes) in files {
        let path = root.join("deep").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let old = SystemTime::now() - Duration::from_hours(1);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    fs::hard_link(root.join("deep/alone"), root.join("second\n name")).unwrap();
    std::os::unix::fs::symlink("deep/alone", root.join("link")).unwrap();
}

#[test]
fn catalogue_has_each_name_with_what_reading_tells() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("files");
    filled(&root);
    for digests in [Digests::First, Digests::All] {
        let output = place.path().join(format!("{digests:?}"));
        let options = CatalogueOptions {
            host: "here".to_owned(),
            digests,
            ..CatalogueOptions::default()
        };
        let told = catalogue(&root, &output, &options).unwrap();
        assert_eq!(
            (told.files, told.names, told.failures, told.changed),
            (8, 9, vec![], vec![])
        );
        let rows = rows(&output);
        assert_eq!(rows.len(), 9);
        for row in rows.values() {
            let path = Path::new(std::str::from_utf8(&row.path).unwrap());
            assert!(path.is_absolute());
            let (bytes, facts) = (fs::read(path).unwrap(), fs::metadata(path).unwrap());
            let first = xxh3_64_with_seed(&bytes[..bytes.len().min(4096)], bytes.len() as u64);
            assert_eq!((row.host.as_str(), row.first), ("here", Some(first)));
            assert_eq!(
                (row.inode, row.bytes, u64::from(row.links)),
                (facts.ino(), facts.len(), facts.nlink())
            );
            assert_eq!(row.modified_ns, facts.mtime() * 1_000_000_000 + facts.mtime_nsec());
            assert_eq!(
                (row.device, row.changed_ns),
                (facts.dev(), facts.ctime() * 1_000_000_000 + facts.ctime_nsec())
            );
            let is_digested = bytes.len() <= 4096 || path.ends_with("long") || path.ends_with("long again");
            let expected = (digests == Digests::All || is_digested || path.ends_with("long other"))
                .then(|| *blake3::hash(&bytes).as_bytes());
            assert_eq!(row.blake3, expected, "{}", path.display());
        }
    }
}

#[test]
fn catalogue_reads_again_what_changed_and_trusts_no_new_change() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("files");
    filled(&root);
    let output = place.path().join("catalogue");
    let mut options = all_digests();
    options.older = Some(output.clone());
    catalogue(&root, &output, &all_digests()).unwrap();
    if rows(&output).values().all(|row| row.storage.starts_with("device")) {
        println!(
            "skipped: {} has no identity by which digests are kept",
            place.path().display()
        );
        return;
    }
    assert!(rows(&output).values().all(|row| !row.is_settled), "their ctime is now");
    assert_ne!(catalogue(&root, &output, &options).unwrap().read_bytes, 0);
    catalogue_later(&root, &output, &options).unwrap();
    let before = rows(&output);
    assert!(before.values().all(|row| row.is_settled));
    let told = catalogue_later(&root, &output, &options).unwrap();
    assert_eq!((told.read_bytes, told.known), (0, 8));
    assert_eq!(rows(&output), before);
    fs::write(root.join("deep/long"), vec![9; 20_001]).unwrap();
    let told = catalogue_later(&root, &output, &options).unwrap();
    assert_eq!(told.known, 7);
    assert!(told.read_bytes > 0);
    let now = rows(&output);
    let path = root.join("deep/long");
    let changed = &now[path.as_os_str().as_bytes()];
    assert_eq!(changed.blake3, Some(*blake3::hash(&vec![9; 20_001]).as_bytes()));
}

#[test]
fn catalogue_of_a_stopped_run_stays_and_the_next_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("files");
    filled(&root);
    let output = place.path().join("catalogue");
    let options = all_digests();
    catalogue_later(&root, &output, &options).unwrap();
    let rows_before = rows(&output);
    let (before, journal) = (fs::read(&output).unwrap(), beside(&output, ".journal"));
    assert!(!journal.exists());
    let stop = Stop::default();
    let selection = Selection::new([&root], true);
    let progress = |now: &JobProgress| {
        if now.phase == JobPhase::Work {
            stop.stop();
        }
    };
    let watch = ClosureWatch::new(&stop, progress, |never: Infallible| match never {});
    let origin = SearchOrigin::here(std::slice::from_ref(&root), &[]).unwrap();
    let later = SystemTime::now() + Duration::from_hours(1);
    let written = (output.as_path(), origin);
    let stopped = write_at(&selection, &Filter::default(), &options, written, &watch, later).unwrap();
    assert!(stopped.is_stopped && journal.exists());
    assert!(fs::read(&output).unwrap() == before);
    let left = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 3, "the files, the catalogue and the journal");
    let told = catalogue_later(&root, &output, &options).unwrap();
    assert!(!journal.exists());
    if !rows(&output).values().any(|row| row.storage.starts_with("device")) {
        assert_eq!((told.known, told.read_bytes), (8, 0));
    }
    assert!(rows(&output) == rows_before);
}

#[test]
fn catalogue_that_is_none_is_neither_written_nor_read() {
    let place = tempfile::tempdir().unwrap();
    filled(&place.path().join("files"));
    let catalogue_of = |output: &Path| catalogue(&place.path().join("files"), output, &CatalogueOptions::default());
    let output = place.path().join("notes");
    fs::write(&output, "mine").unwrap();
    assert!(
        catalogue_of(&output)
            .unwrap_err()
            .to_string()
            .contains("not a catalogue")
    );
    assert_eq!(fs::read(&output).unwrap(), b"mine");
    let part = place.path().join("free.part");
    fs::write(&part, "mine").unwrap();
    catalogue_of(&place.path().join("free")).unwrap_err();
    assert_eq!(fs::read(&part).unwrap(), b"mine");
    let dangling = place.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    catalogue_of(&dangling).unwrap_err();
    let good = place.path().join("good");
    catalogue_of(&good).unwrap();
    let bytes = fs::read(&good).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for damage in 0..300 {
        let mut damaged = bytes.clone();
        if damage % 3 == 0 {
            damaged.truncate(random.usize(..bytes.len()));
        } else {
            for _ in 0..=(damage % 5) {
                let at = random.usize(..damaged.len());
                damaged[at] = random.u8(..);
            }
        }
        let path = place.path().join("damaged");
        fs::write(&path, &damaged).unwrap();
        if let Ok(Some(reader)) = RowReader::open(&path) {
            let _ = reader.rows(&all_columns(), &Stop::default(), |_| ());
        }
    }
}

fn found_elsewhere(root: &Path, catalogue: PathBuf) -> CatalogueMatches {
    let (selection, filter) = (Selection::new([root], true), Filter::default());
    elsewhere(&selection, &filter, &[catalogue], false, &Stop::default()).unwrap()
}

#[test]
fn catalogue_finds_files_by_digests() {
    let place = tempfile::tempdir().unwrap();
    let [there, here] = ["there", "here"].map(|name| place.path().join(name));
    filled(&there);
    fs::create_dir(&here).unwrap();
    for (name, bytes) in [
        ("small", b"a".to_vec()),
        ("long", [vec![7; 20_000], vec![1]].concat()),
        ("like long", [vec![7; 20_000], vec![9]].concat()),
        ("perhaps", vec![3; 5000]),
        ("other", b"b".to_vec()),
    ] {
        fs::write(here.join(name), bytes).unwrap();
    }
    fs::copy(here.join("long"), here.join("long twin")).unwrap();
    let output = place.path().join("catalogue");
    let options = CatalogueOptions {
        host: "drive".to_owned(),
        ..CatalogueOptions::default()
    };
    catalogue(&there, &output, &options).unwrap();
    let found = found_elsewhere(&here, output);
    let names = |places: &[CatalogueName]| {
        let mut names: Vec<_> = places
            .iter()
            .map(|place| place.path.strip_prefix(&there).unwrap().to_owned())
            .collect();
        names.sort();
        names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>()
    };
    let found: Vec<_> = (found.matches.iter())
        .map(|found| {
            let name = found.paths[0].file_name().unwrap().to_str().unwrap().to_owned();
            (name, names(&found.same), names(&found.perhaps))
        })
        .collect();
    let expected: [(&str, &[&str], &[&str]); 4] = [
        ("long", &["deep/long", "deep/long again"], &[]),
        ("long twin", &["deep/long", "deep/long again"], &[]),
        ("perhaps", &[], &["deep/alone", "second\n name"]),
        ("small", &["deep/small", "deep/small again"], &[]),
    ];
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = expected.map(|(name, same, perhaps)| (name.to_owned(), owned(same), owned(perhaps)));
    assert_eq!(found, expected);
}

/// A file here that has many names may not hide that another one is there, too.
#[test]
fn catalogue_tells_ten_of_many_names_and_counts_others() {
    let place = tempfile::tempdir().unwrap();
    let [there, here] = ["there", "here"].map(|name| place.path().join(name));
    for directory in [&there, &here] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("a"), "same").unwrap();
    }
    for number in 0..40 {
        fs::hard_link(there.join("a"), there.join(format!("name {number}"))).unwrap();
    }
    fs::write(there.join("twin"), "same").unwrap();
    let output = place.path().join("catalogue");
    catalogue(&there, &output, &CatalogueOptions::default()).unwrap();
    let told = |root: &Path| {
        let found = found_elsewhere(root, output.clone());
        let told = |found: &Match| {
            let itself = found.same.iter().filter(|place| place.is_itself).count();
            (found.paths.len(), itself, found.same.len() - itself, found.more_same)
        };
        found.matches.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(told(&here), [(1, 0, 10, 32)]);
    assert_eq!(told(&there), [(41, 1, 1, 40), (1, 1, 1, 40)]);
}

/// On btrfs, files of two subvolumes have the same inode numbers.
#[test]
fn catalogue_digests_outlive_the_device_number() {
    for kind in ["ext4", "btrfs"] {
        let place = tempfile::tempdir().unwrap();
        let [image, disk, output] = ["image", "disk", "catalogue"].map(|name| place.path().join(name));
        fs::create_dir(&disk).unwrap();
        File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let mount = |options: &str, device: &OsStr| {
            let words = ["-o".as_ref(), options.as_ref(), device, disk.as_os_str()];
            mounts("mount", &words).then(|| Mounted(disk.clone()))
        };
        let is_made = mounts(&format!("mkfs.{kind}"), &["-q".as_ref(), image.as_os_str()]);
        let Some(mounted) = is_made.then(|| mount("loop", image.as_ref())).flatten() else {
            return;
        };
        for (number, name) in ["one", "two"].into_iter().enumerate() {
            let path = disk.join(name);
            if kind == "btrfs" {
                let words = ["-q", "subvolume", "create"].map(OsStr::new);
                assert!(mounts("btrfs", &[&words[..], &[path.as_os_str()]].concat()));
            } else {
                fs::create_dir(&path).unwrap();
            }
            fs::write(path.join("a"), vec![number as u8; 5000]).unwrap();
        }
        let is_read = || {
            let mut options = all_digests();
            options.older = output.exists().then(|| output.clone());
            catalogue_later(&disk, &output, &options).unwrap().read_bytes > 0
        };
        assert_eq!([is_read(), is_read()], [true, false], "{kind}");
        let device = || fs::metadata(&disk).unwrap().dev();
        let before = device();
        // Its number is taken until here, so the drive gets another one.
        let attached = Command::new("losetup")
            .args(["-f", "-r", "--show"])
            .arg(&image)
            .output()
            .unwrap();
        let other = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
        drop(mounted);
        let again = mount("ro,noatime", other.as_ref());
        // Numbers of btrfs are made up.
        let is_right = again.is_some() && (kind == "btrfs" || device() != before) && !is_read();
        drop(again);
        assert!(
            mounts("losetup", &["-d".as_ref(), other.as_ref()]) && is_right,
            "{kind}"
        );
    }
}
