//! `seekless dupes`: what it prints in each form, and its exit codes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::common::place::{Mount, Place};
use crate::common::unprivileged::Common;

/// Three equal files, of which one has two names; two others that are equal; and one that is alone.
fn planted() -> Place {
    let place = Place::new();
    for directory in ["one", "other"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    for (name, content) in [
        ("one/a", "same"),
        ("one/b", "same"),
        ("other/a", "same"),
        ("one/long", "longer"),
        ("other/long, too", "longer"),
        ("other/alone", "SAME"),
        ("other/empty", ""),
    ] {
        place.file(name, content.as_bytes());
    }
    fs::hard_link(place.path("one/a"), place.path("one/link")).unwrap();
    place
}

#[test]
fn text_has_groups_by_the_space_to_gain_and_a_summary() {
    let place = planted();
    let ended = place.succeeds("dupes one other");
    let blocks = fs::metadata(place.path("one/a")).unwrap().blocks() * 512;
    let gain = seekless_results::bytes;
    let expected = format!(
        "3 files of 4 B: {} to gain\n  one/a\n  one/link  (same file)\n  one/b\n  other/a\n\n2 files of 6 B: {} to gain\n  \
         one/long\n  other/long, too\n\n6 files, 2 groups of equal files, 3 duplicates, {} to gain.\n",
        gain(2 * blocks),
        gain(blocks),
        gain(3 * blocks),
    );
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (expected.as_str(), ""));
    place.fails(1, "dupes --exit-code one");
    place.succeeds("dupes --exit-code other");
}

#[test]
fn csv_has_the_figures_of_every_name_and_ends_its_lines_alike() {
    let place = Place::new();
    let names: [&[u8]; 5] = [b"a", b"b,c", b"d \"e\"", b"x\ny \xff", b"\r"];
    for directory in ["one", "other"] {
        fs::create_dir(place.path(directory)).unwrap();
        for name in names {
            fs::write(place.path(directory).join(OsStr::from_bytes(name)), name).unwrap();
        }
    }
    place.file("alone", b"alone");
    let rows = |options: &[&str]| {
        let mut command = place.command();
        let output = command.args(["dupes", "--format", "csv"]).args(options).output();
        let output = output.unwrap();
        assert!(output.status.success());
        let ends = output.stdout.windows(2).filter(|pair| pair == b"\r\n").count();
        assert_eq!(ends, 0, "{}", String::from_utf8_lossy(&output.stdout));
        let mut reader = csv::Reader::from_reader(&output.stdout[..]);
        assert_eq!(
            reader.byte_headers().unwrap(),
            ["group", "bytes", "proof", "device", "inode", "path"].as_slice()
        );
        reader.byte_records().map(Result::unwrap).collect::<Vec<_>>()
    };
    let groups = rows(&["one", "other"]);
    assert_eq!(groups.len(), 2 * names.len());
    for pair in groups.chunks(2) {
        let path = |row: &csv::ByteRecord| place.path(OsStr::from_bytes(&row[5]));
        let found = fs::read(path(&pair[0])).unwrap();
        assert_eq!(fs::read(path(&pair[1])).unwrap(), found);
        for row in pair {
            assert_eq!(row[0], pair[0][0]);
            let metadata = fs::metadata(path(row)).unwrap();
            let figures = [metadata.len(), metadata.dev(), metadata.ino()].map(|figure| figure.to_string());
            assert_eq!([&row[1], &row[3], &row[4]], figures.each_ref().map(String::as_bytes));
            assert_eq!(&row[2], b"bytes");
        }
    }
    let numbers: Vec<&[u8]> = groups.iter().map(|row| &row[0]).collect();
    assert_eq!(numbers.concat(), b"1122334455");
    for (name, odd) in [("one", "copy\n1"), ("other", "copy,\"2\"")] {
        fs::rename(place.path(name), place.path(odd)).unwrap();
    }
    let directories = rows(&["--dirs", "."]);
    let paths: Vec<&[u8]> = directories.iter().map(|row| &row[5]).collect();
    assert_eq!(paths, [b"./copy\n1".as_slice(), b"./copy,\"2\""]);
    assert!(
        directories
            .iter()
            .all(|row| row[2] == *b"directories" && row[3].is_empty())
    );
    let single = rows(&["--unique", "."]);
    assert_eq!((single.len(), &single[0][5]), (1, b"./alone".as_slice()));
    assert!(rows(&["alone"]).is_empty());
}

#[test]
fn files_without_a_duplicate_are_in_the_order_of_their_first_names_whatever_is_listed_first() {
    let place = Place::new();
    for (number, directory) in ["z", "m", "a"].into_iter().enumerate() {
        fs::create_dir(place.path(directory)).unwrap();
        place.file(format!("{directory}/{number}"), &vec![1; number + 1]);
    }
    fs::hard_link(place.path("z/0"), place.path("a/link")).unwrap();
    fs::hard_link(place.path("a/2"), place.path("z/link")).unwrap();
    for _ in 0..20 {
        let found = place.run("dupes --unique --format fdupes .");
        assert_eq!(
            found.stdout, "./a/2\n./z/link\n./a/link\n./z/0\n./m/1\n",
            "{}",
            found.stderr
        );
    }
}

#[test]
fn a_list_without_paths_is_an_error_that_names_it() {
    let place = planted();
    place.file("list", b"\n\n");
    place.file("list0", b"\0");
    for (options, name) in [
        (&["list"][..], "list"),
        (&["list", "--explain"], "list"),
        (&["list0", "-0"], "list0"),
        (&["list", "--against", "one"], "list"),
        (&["-"], "standard input"),
        (&["-", "--json", "--explain"], "standard input"),
    ] {
        let refusal = place.run(&[&["dupes", "--files-from"], options].concat()).refused();
        assert_eq!(refusal, format!("seekless: no paths in {name}\n"), "{options:?}");
    }
    // Others may be named.
    place.succeeds("dupes --files-from list one");
    let refusal = place.run("dupes --files-from gone").refused();
    assert!(refusal.starts_with("seekless: gone: cannot read: No such"), "{refusal}");
    let refusal = place.run(&["dupes", "--files-from", "go\nne"]).refused();
    assert!(
        refusal.starts_with("seekless: go\\nne: cannot read: No such"),
        "{refusal}"
    );
}

#[test]
fn paths_come_from_a_file_too() {
    let place = planted();
    place.file("list", b"one/a\none/b\ngone\n");
    place.file("list0", b"one/long\0other/long, too\0");
    let ended = place.run("dupes --files-from list");
    assert_eq!(
        (ended.code, ended.stderr.contains("gone: cannot stat")),
        (Some(2), true)
    );
    assert!(ended.stdout.starts_with("2 files of 4 B"), "{}", ended.stdout);
    let ended = place.succeeds("dupes --files-from list0 -0");
    assert!(ended.stdout.starts_with("2 files of 6 B"), "{}", ended.stdout);
    assert!(place.run("dupes").refused().contains("PATH"));
}

#[test]
fn filters_leave_only_what_they_name() {
    let place = Place::new();
    for (name, bytes) in [
        ("a/x.jpg", 10),
        ("a/b/x.jpg", 10),
        ("a/b/c/x.png", 10),
        (".hidden/x.jpg", 10),
        ("y.jpg", 20),
        ("z.jpg", 20),
    ] {
        let path = place.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; bytes]).unwrap();
    }
    let old = SystemTime::now() - Duration::from_hours(72);
    let file = fs::File::options().write(true).open(place.path("a/x.jpg")).unwrap();
    file.set_modified(old).unwrap();
    let found = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        let ended = place.run(&[&["dupes", ".", "--format", "fdupes"], &words[..]].concat());
        assert!(
            ended.code == Some(0) && ended.stderr.is_empty(),
            "{options}: {}",
            ended.stderr
        );
        let mut names: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
        names.sort_unstable();
        names.join(" ").replace("./", "")
    };
    let all = ".hidden/x.jpg a/b/c/x.png a/b/x.jpg a/x.jpg y.jpg z.jpg";
    for (options, expected) in [
        ("", all),
        ("--include *.jpg", ".hidden/x.jpg a/b/x.jpg a/x.jpg y.jpg z.jpg"),
        ("--include a/**", "a/b/c/x.png a/b/x.jpg a/x.jpg"),
        ("--exclude .hidden --exclude *.png", "a/b/x.jpg a/x.jpg y.jpg z.jpg"),
        ("--regex ^a/b/", "a/b/c/x.png a/b/x.jpg"),
        ("--min-size 11", "y.jpg z.jpg"),
        ("--max-size 19", ".hidden/x.jpg a/b/c/x.png a/b/x.jpg a/x.jpg"),
        ("--max-depth 0", "y.jpg z.jpg"),
        ("--max-depth 1", ".hidden/x.jpg a/x.jpg y.jpg z.jpg"),
        ("--newer 1d", ".hidden/x.jpg a/b/c/x.png a/b/x.jpg y.jpg z.jpg"),
        ("--older 1d", ""),
        ("--owner 4294967294", ""),
    ] {
        assert_eq!(found(options), expected, "{options}");
    }
    for wrong in ["--exclude [", "--regex (", "--newer soon", "--min-size many"] {
        let words: Vec<&str> = wrong.split_whitespace().collect();
        place.run(&[&["dupes", "."], &words[..]].concat()).refused();
    }
}

#[test]
fn files_are_chosen_by_their_numbers_of_hard_links_as_find_chooses_them() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for name in ["one", "uno", "two", "three"] {
        place.file(format!("in/{name}"), b"same");
    }
    for (name, link) in [("two", "outside"), ("three", "in/drei"), ("three", "in/tres")] {
        fs::hard_link(place.path(format!("in/{name}")), place.path(link)).unwrap();
    }
    let found = |links: &[&str]| {
        let ended = place
            .run(&[&["dupes", "--format", "fdupes", "in"], links].concat())
            .succeeded();
        ended.stdout.trim_end().replace("in/", "").replace('\n', " ")
    };
    for (links, expected) in [
        ("1", "one uno"),
        ("-2", "one uno"),
        ("2", ""),
        ("+1", "drei three tres two"),
        ("+2", ""),
        ("-3", "one two uno"),
        ("-4", "drei three tres one two uno"),
        ("+0", "drei three tres one two uno"),
    ] {
        assert_eq!(found(&["--links", links]), expected, "{links}");
    }
    for wrong in [
        "",
        "+",
        "-",
        "++1",
        "+-1",
        "-+1",
        "--1",
        "-0",
        "+18446744073709551615",
        "x",
        "1x",
    ] {
        let said = place.run(&["dupes", "in", "--links", wrong]).refused();
        assert!(said.contains("+3 for more"), "{wrong}: {said}");
    }
}

#[test]
fn names_that_must_be_alike_are_one_condition_more_of_every_search() {
    let place = Place::new();
    for directory in ["one/d", "two/d"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    for (name, content) in [
        ("one/a.c", "same"),
        ("one/a.bak", "same"),
        ("two/a.c", "same"),
        ("two/b.bak", "same"),
        ("two/c.C", "same"),
        ("one/d/e", "in a directory"),
        ("two/d/e", "in a directory"),
    ] {
        place.file(name, content.as_bytes());
    }
    let found = |options: &str| {
        let words: Vec<&str> = options.split(' ').collect();
        let ended = place
            .run(&[&["dupes", "--format", "fdupes"], &words[..]].concat())
            .succeeded();
        ended.stdout.trim_end().replace("\n\n", " | ").replace('\n', " ")
    };
    for (options, expected) in [
        ("--match name --max-depth 0 one two", "one/a.c two/a.c"),
        (
            "--match extension --max-depth 0 one two",
            "one/a.bak two/b.bak | one/a.c two/a.c",
        ),
        ("--match stem --max-depth 0 one two", "one/a.bak one/a.c two/a.c"),
        (
            "--match stem --isolate --max-depth 0 one two",
            "one/a.bak one/a.c two/a.c",
        ),
        (
            "--match extension --max-depth 0 --against one two",
            "one/a.bak two/b.bak | one/a.c two/a.c",
        ),
        ("--match stem --max-depth 0 one", "one/a.bak one/a.c"),
        (
            "--match stem --isolate --max-depth 0 --include b* --include a.bak one two",
            "",
        ),
        ("--match name --unique one two", "one/a.bak two/b.bak two/c.C"),
        ("--match name --dirs one two", "one/d two/d | one/a.c two/a.c"),
    ] {
        let mut groups: Vec<String> = found(options).split(" | ").map(str::to_owned).collect();
        if !options.contains("--dirs") {
            groups.sort_unstable();
        }
        assert_eq!(groups.join(" | "), expected, "{options}");
    }
}

#[test]
fn a_file_that_nobody_may_read_is_named_and_the_others_are_compared() {
    let place = Common::new();
    for (name, mode) in [("a", 0o644), ("b", 0o644), ("c", 0)] {
        let path = place.directory().join("open").join(name);
        fs::write(&path, "same").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let ended = place.run(&["dupes", "open"]).ended_with(2);
    assert_eq!(
        ended.stderr,
        "seekless dupes: open/c: cannot open: Permission denied (os error 13)\n"
    );
    assert!(ended.stdout.starts_with("2 files of 4 B"), "{}", ended.stdout);
}

#[test]
fn what_is_in_a_reference_is_a_reference_whatever_else_names_it() {
    let place = Place::new();
    for name in ["p/1", "b/1", "b/below/2"] {
        fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        place.file(name, b"same");
    }
    fs::hard_link(place.path("b/1"), place.path("link")).unwrap();
    std::os::unix::fs::symlink("b/below", place.path("to below")).unwrap();
    let all = "3 files  b/1 (reference)  b/below/2 (reference)  p/1";
    for (arguments, expected) in [
        (&["p", "--against", "b"][..], all),
        (&["p", "b", "--against", "b"], all),
        (&["b", "p", "--against", "b"], all),
        (&["p", "b/below", "--against", "b"], all),
        (&["p", "b/below/2", "to below", "--against", "b"], all),
        (&["b", "--against", "b"], ""),
        (&["b/below", "--against", "b"], ""),
        (&["b/1", "--against", "b"], ""),
        (&["b/1", "b/below/2", "--against", "b/../b"], ""),
        (&["b", "--against", "b/1"], "2 files  b/1 (reference)  b/below/2"),
        (&["b", "--against", "b/below"], "2 files  b/1  b/below/2 (reference)"),
        (&["b", "--against", "to below"], "2 files  b/1  to below/2 (reference)"),
        // Another name of a file in a reference.
        (
            &["link", "p", "--against", "b/1"],
            "2 files  b/1 (reference)  link (reference, same file)  p/1",
        ),
        (&["link", "--against", "b/1"], ""),
        (&["link", "--against", "b"], ""),
    ] {
        let ended = place.run(&[&["dupes"], arguments].concat()).succeeded();
        let lines = ended.stdout.lines().take_while(|line| !line.is_empty());
        let outside = [", 1 hard link outside the search", " (1 hard link outside the search)"];
        let plain = |line: String| outside.iter().fold(line, |line, words| line.replace(words, ""));
        let lines = lines.map(|line| plain(line.split(" of ").next().unwrap().replace("  (", " (")));
        let found = lines.collect::<String>();
        let found = if ended.stdout.contains("0 groups") { "" } else { &found };
        let mut expected: Vec<&str> = expected.split("  ").collect();
        let mut found: Vec<&str> = found.split("  ").collect();
        for names in [&mut expected, &mut found] {
            names.sort_unstable();
        }
        assert_eq!(found, expected, "{arguments:?}: {}", ended.stdout);
    }
    let ended = place.succeeds("dupes --json link p --against b/1");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    let roots = json["groups"][0]["paths"].as_array().unwrap().iter();
    let roots: Vec<_> = roots
        .map(|path| (path["path"].as_str().unwrap(), path["root"].as_u64().unwrap()))
        .collect();
    assert_eq!(roots, [("b/1", 2), ("link", 2), ("p/1", 1)]);
}

#[test]
fn hard_links_that_are_named_one_by_one_are_one_file() {
    let place = planted();
    let lines = |stdout: &str| {
        stdout
            .lines()
            .take_while(|line| !line.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    place.file("list", b"one/link\none/a\none/../one/a\nother/a\n");
    for arguments in [
        &["one/link", "one/a", "other/a", "./one/link"][..],
        &["--files-from", "list"],
    ] {
        let ended = place.run(&[&["dupes"], arguments].concat()).succeeded();
        assert_eq!(
            lines(&ended.stdout)[1..],
            ["  one/a", "  one/link  (same file)", "  other/a"]
        );
        ended.says("\n2 files, 1 group");
        let json = place
            .run(&[&["dupes", "--json"], arguments].concat())
            .succeeded()
            .stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        let blocks = fs::metadata(place.path("one/a")).unwrap().blocks() * 512;
        for path in json["groups"][0]["paths"].as_array().unwrap() {
            assert_eq!(path["own_bytes"], blocks, "{path}");
        }
    }
    // A file that is named, and in a directory that is named, has one name.
    let ended = place.succeeds("dupes . one/b ./one/../one/b");
    let names = ["  ./one/a", "  ./one/link  (same file)", "  ./other/a", "  one/b"];
    assert_eq!(lines(&ended.stdout)[1..], names);
}

#[test]
fn a_bind_mount_of_the_same_inode_number_is_told_by_one_name_every_time() {
    let place = Place::new();
    let mut mounts = Vec::new();
    for name in ["a", "b"] {
        fs::create_dir(place.path(name)).unwrap();
        let Some(mount) = Mount::tmpfs(&place.path(name), "size=4m") else {
            return;
        };
        mounts.push(mount);
    }
    // The first directory of each tmpfs has one inode number.
    for name in ["a/mounted", "b/own"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("a/mounted"), inode("b/own"));
    let Some(mount) = Mount::bind(&place.path("b/own"), &place.path("a/mounted")) else {
        return;
    };
    mounts.push(mount);
    for name in ["b/own/file", "b/file"] {
        place.file(name, b"same");
    }
    for number in 0..100 {
        for name in ["a", "b"] {
            fs::create_dir(place.path(format!("{name}/{number}"))).unwrap();
        }
    }
    for _ in 0..20 {
        let ended = place.succeeds("dupes --format fdupes a b");
        assert_eq!(ended.stdout, "b/file\nb/own/file\n\n");
    }
    while let Some(mount) = mounts.pop() {
        drop(mount);
    }
}

#[test]
fn explaining_says_how_files_were_read() {
    let place = planted();
    let ended = place.succeeds("dupes --explain .");
    let first = ended.stderr.lines().next().unwrap();
    assert!(
        first.starts_with("seekless dupes: ") && first.contains("in the order of their"),
        "{first}"
    );
    ended.warns("  predicted ");
}
