//! `seekless holes`: showing, digging, punching and filling.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Child;

use common::disks::blocks_bytes;
use common::place::{Ended, Mount, Place, assert_contains, prepared, wait_for};
use common::terminal::Terminal;
use common::unprivileged::{Common, NOBODY};

/// A place where holes can be made; prints why and returns `None` if they cannot.
fn with_holes() -> Option<Place> {
    let place = Place::new();
    place.file("trial", &vec![0; 100_000]);
    let ended = place.run("holes dig trial");
    fs::remove_file(place.path("trial")).unwrap();
    if ended.code != Some(0) {
        println!("skipped: {}", ended.stderr);
    }
    (ended.code == Some(0)).then_some(place)
}

#[test]
fn holes_show_dig_fill_and_punch_a_file() {
    let Some(place) = with_holes() else { return };
    let mut bytes = vec![7; 1 << 20];
    bytes[200_000..900_000].fill(0);
    let path = place.file("file", &bytes);
    let shown = place.succeeds("holes show --scan file").stdout;
    assert_contains(&shown, &["no holes", "zeros that could be holes 680 KiB", "████"]);
    let look = place.succeeds("holes dig --dry-run file").stdout;
    assert_contains(&look, &["would make 1 hole of 680 KiB"]);
    let before = blocks_bytes(&path);
    let dug = &place.succeeds("holes dig --verify --jsonl file").json_lines()[0];
    assert_eq!((&dug["kind"], &dug["holes"]), (&"dug".into(), &1.into()));
    assert_eq!(dug["allocated_bytes"], blocks_bytes(&path));
    assert!(before - blocks_bytes(&path) >= 696_320, "{dug}");
    assert_eq!(fs::read(&path).unwrap(), bytes);

    let shown = &place.succeeds("holes show --jsonl --map file").json_lines()[0];
    let kinds: Vec<&str> = shown["stretches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stretch| stretch["kind"].as_str().unwrap())
        .collect();
    assert_eq!((kinds, &shown["holes"]), (vec!["data", "hole", "data"], &1.into()));

    let filled = place.succeeds("holes fill file").stdout;
    assert_contains(&filled, &["allocated"]);
    assert!(blocks_bytes(&path) >= 1 << 20);
    let words = "holes punch --yes file 64K 64K";
    let told = "64.0 KiB from byte 65536 read as zeros now; 64.0 KiB of data lost, 64.0 KiB freed";
    place.succeeds(words).says(told);
    bytes[64 << 10..128 << 10].fill(0);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn holes_punch_of_data_needs_consent() {
    let Some(place) = with_holes() else { return };
    let bytes = vec![7; 100_000];
    let path = place.file("file", &bytes);
    let words = "holes punch file 4K 8K";
    place.refuses(words, &["8.00 KiB of data from byte 4096 would be lost; use --yes"]);
    for answer in ["n\n", "\n", "yy\n", "\u{4}"] {
        let (printed, code) = Terminal::answered(&place, words, answer);
        let asked = "file: 8.00 KiB of data from byte 4096 will be lost. Punch it? [y/N]";
        assert_contains(&printed, &[asked, "nothing was done"]);
        assert_eq!(code, Some(2), "{answer:?} {printed}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let (printed, code) = Terminal::answered(&place, words, "y\n");
    assert_eq!(code, Some(0), "{printed}");
    let mut expected = bytes;
    expected[4096..12288].fill(0);
    assert_eq!(fs::read(&path).unwrap(), expected);
    // What is a hole already is punched without a question.
    let again = place.succeeds(words).stdout;
    assert_contains(&again, &["read as zeros now; 0 B freed"]);
}

/// As many holes as possible, so that digging takes a while.
fn every_other_block() -> Vec<u8> {
    let mut bytes = vec![0; 96 << 20];
    bytes.iter_mut().step_by(8192).for_each(|byte| *byte = 1);
    bytes
}

/// Starts digging in a file, and waits until something is dug.
fn begin_digging(place: &Place, path: &Path) -> Child {
    File::open(path).unwrap().sync_all().unwrap();
    let before = blocks_bytes(path);
    let name = path.file_name().unwrap();
    let child = place.command().args(["holes", "dig"]).arg(name).spawn().unwrap();
    wait_for("something is dug", || blocks_bytes(path) < before - (1 << 20));
    child
}

#[test]
fn holes_dig_ends_when_another_process_opens_the_file() {
    let Some(place) = with_holes() else { return };
    let bytes = every_other_block();
    let path = place.file("file", &bytes);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let child = begin_digging(&place, &path);
    let read = fs::read(&path).unwrap();
    let ended = Ended::of(child);
    assert!(read == bytes, "the bytes are what they were");
    // A fast machine may be done by then.
    if ended.code != Some(0) {
        ended.failed_with(2, &["another process opened it"]);
    }
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
}

#[test]
fn holes_dig_refuses_a_file_that_another_dig_holds() {
    let Some(place) = with_holes() else { return };
    let bytes = every_other_block();
    let path = place.file("file", &bytes);
    let mut child = begin_digging(&place, &path);
    let second = place.run("holes dig file");
    let is_over = child.try_wait().unwrap().is_some();
    Ended::of(child).succeeded();
    // A fast machine may be done by then.
    if !is_over {
        assert_contains(&second.stderr, &["in use by seekless"]);
    }
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn holes_dig_names_the_flag_that_protects_a_file() {
    let place = Place::new();
    place.file("file", &vec![0; 100_000]);
    let set = |flag: &str| prepared("chattr", &[flag.as_ref(), place.path("file").as_os_str()]);
    for (flag, back, words) in [("+a", "-a", "append-only"), ("+i", "-i", "immutable")] {
        if !set(flag) {
            println!("skipped: no flags can be set here");
            continue;
        }
        let sentence = place.run("holes dig file").refused();
        assert!(set(back));
        assert_contains(&sentence, &[words, back]);
    }
}

#[test]
fn holes_dig_min_counts_runs_of_zeros_that_are_too_short() {
    let place = Place::new();
    let mut bytes = vec![0; 800_000];
    bytes.iter_mut().step_by(12 << 10).for_each(|byte| *byte = 1);
    place.file("file", &bytes);
    for (words, expected) in [
        ("--min 16K", "no zeros that take space are as long as --min"),
        ("", "in total"),
    ] {
        place.succeeds(("holes dig --dry-run file", words)).says(expected);
    }
}

#[test]
fn holes_with_a_full_output_say_what_was_done() {
    let Some(place) = with_holes() else { return };
    place.file("file", &vec![0; 100_000]);
    for (words, done) in [
        ("show file", ""),
        ("dig --dry-run file", ""),
        ("dig file", "the files were dug, but "),
        ("fill file", "the files were filled, but "),
        ("punch --yes file 0 4K", "file: the hole is punched, but "),
    ] {
        let Some(ended) = place.run_full(("holes", words)) else {
            return;
        };
        let expected = format!("seekless: {done}cannot write the output: No space left on device (os error 28)\n");
        assert_eq!((ended.code, ended.stderr), (Some(2), expected), "{words:?}");
    }
}

#[test]
fn holes_of_directories_need_recursive_and_are_summed() {
    let Some(place) = with_holes() else { return };
    place.files("one inner/two", &vec![0; 100_000]);
    place.hard_link("one", "again");
    place.refuses("holes dig .", &["seekless: .: is a directory; use -r"]);
    let dug = place.succeeds("holes dig -r .");
    dug.says("Together  2 files: 2 holes, 195 KiB in total");
    dug.says("1 additional hard link");
    place.succeeds("holes show -r .").says("2 holes of 195 KiB");
}

#[test]
fn holes_take_paths_longer_than_the_system_does() {
    let Some(place) = with_holes() else { return };
    place.deep_file(&vec![0; 100_000]);
    for words in ["holes dig --verify -r .", "holes show --scan -r ."] {
        place.succeeds(words).says("1 hole of 97.7 KiB");
    }
    let filled = place.succeeds("holes fill -r .");
    assert!(filled.stderr.is_empty(), "{}", filled.stderr);
}

#[test]
fn holes_name_paths_that_fail_and_do_the_rest() {
    let Some(place) = with_holes() else { return };
    place.directories("directory");
    for (path, reason) in [
        ("gone", "cannot stat: No such file or directory"),
        ("directory", "is a directory; use -r"),
        ("/dev/null", "is a device"),
        ("/proc/version", "not a storage file system (proc)"),
    ] {
        place.file("file", &vec![0; 100_000]);
        for action in ["holes show", "holes dig", "holes fill"] {
            place.goes_on_after(action, path, reason);
        }
    }
}

#[test]
fn holes_summary_has_the_sums_of_its_files() {
    let Some(place) = with_holes() else { return };
    let sum = |words: &str| place.run(("holes", words, "--jsonl")).json_lines().pop().unwrap();
    for (name, blocks) in [("one", 10), ("other", 20)] {
        place.file(name, &vec![0; blocks * 65536]);
    }
    let dug = sum("dig one other");
    assert_eq!(
        (&dug["holes"], &dug["zero_bytes"], &dug["stopped"]),
        (&2.into(), &1_966_080.into(), &false.into())
    );
    let shown = sum("show --scan -r .");
    assert_eq!(
        (&shown["hole_bytes"], &shown["holes"], &shown["files"]),
        (&1_966_080.into(), &2.into(), &2.into())
    );
    assert_eq!(shown["zero_bytes"], 0);
    let filled = sum("fill one other");
    assert_eq!(
        (&filled["allocated_before_bytes"], &filled["bytes"]),
        (&0.into(), &1_966_080.into())
    );
}

#[test]
fn holes_punch_refuses_impossible_ranges_and_kinds() {
    let place = Place::new();
    place.file("file", b"bytes");
    for (words, expected) in [
        ("punch file 5 1", "cannot punch 1 B at byte 5 of 5"),
        ("punch --yes file 3 3", "must end within the file"),
        ("punch file 0 0", "not be empty"),
        ("punch file -1 1", "unexpected argument"),
        ("punch file x 1", "invalid value 'x'"),
        ("punch missing 0 1", "missing: cannot stat"),
        ("punch . 0 1", "is a directory"),
        ("dig /dev/null", "is a device"),
        ("show missing", "missing: cannot stat"),
        ("fill", "required"),
    ] {
        place.run(("holes", words)).refused_with(&[expected]);
    }
    assert_eq!(place.read("file"), b"bytes");
}

#[test]
fn holes_dig_of_a_file_that_cannot_be_written_names_its_owner() {
    let common = Common::new();
    let path = common.directory().join("open/file");
    fs::write(&path, vec![0; 100_000]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    common
        .run("holes dig open/file")
        .refused_with(&["cannot open for writing", "owner"]);
}

#[test]
fn holes_leave_set_user_id_files_alone() {
    let common = Common::new();
    let path = common.directory().join("open/file");
    fs::write(&path, vec![0; 100_000]).unwrap();
    if std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: a file of another needs root");
        return;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    for words in ["dig open/file", "fill open/file", "punch --yes open/file 0 4K"] {
        let sentence = common.run(&format!("holes {words}")).refused();
        assert!(
            sentence.contains("set-user-ID") && sentence.contains("nothing was changed"),
            "{words:?}: {sentence}"
        );
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4755, "{words:?}");
    }
}

#[test]
fn holes_dig_on_ramfs_says_that_there_are_no_holes() {
    let place = Place::new();
    let Some(_mount) = Mount::ramfs(&place.path("mount")) else {
        return;
    };
    place.file("mount/file", &vec![0; 100_000]);
    place.refuses("holes dig mount/file", &["cannot punch holes", "nothing was changed"]);
}

#[test]
fn holes_fill_without_room_leaves_the_holes() {
    let place = Place::new();
    let directory = place.path("small");
    fs::create_dir(&directory).unwrap();
    // XFS needs blocks of its own for the last free space, so the call fails there, too.
    let Some(_mount) = Mount::image("xfs", 320 << 20, &place.path("image"), &directory) else {
        return;
    };
    let facts = place.succeeds("storage --json small").json();
    let free_bytes = facts[0]["free_bytes"].as_u64().unwrap_or_else(|| panic!("{facts}"));
    let resize = |bytes| File::create(directory.join("file")).unwrap().set_len(bytes).unwrap();
    for (bytes, word) in [
        (2 * free_bytes, "nothing was allocated"),
        (free_bytes, "the holes are unchanged"),
    ] {
        resize(bytes);
        let error = place.run("holes fill small/file").refused();
        assert!(error.contains(word), "{bytes}: {error}");
        assert_eq!(blocks_bytes(&directory.join("file")), 0, "{bytes}");
    }
    resize(free_bytes / 2);
    place.succeeds("holes fill small/file");
    assert!(blocks_bytes(&directory.join("file")) >= free_bytes / 2);
}
