//! `seekless dupes`: what it prints in each form, and its exit codes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::disks::set_modified;
use crate::common::place::{Mount, Place, set_mode, words};
use crate::common::unprivileged::Common;

/// Three equal files, of which one has two names; two others that are equal; and one that is alone.
fn planted() -> Place {
    let place = Place::new();
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
    place.hard_link("one/a", "one/link");
    place
}

#[test]
fn dupes_text_has_groups_by_gain_and_a_summary() {
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
fn dupes_csv_has_the_figures_of_every_name() {
    let place = Place::new();
    let names: [&[u8]; 5] = [b"a", b"b,c", b"d \"e\"", b"x\ny \xff", b"\r"];
    for directory in ["one", "other"] {
        for name in names {
            place.file(Path::new(directory).join(OsStr::from_bytes(name)), name);
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
    let is_directory = |row: &csv::ByteRecord| row[2] == *b"directories" && row[3].is_empty();
    assert!(directories.iter().all(is_directory));
    let single = rows(&["--unique", "."]);
    assert_eq!((single.len(), &single[0][5]), (1, b"./alone".as_slice()));
    assert!(rows(&["alone"]).is_empty());
}

#[test]
fn dupes_unique_is_sorted_by_first_names() {
    let place = Place::new();
    for (number, directory) in ["z", "m", "a"].into_iter().enumerate() {
        place.file(format!("{directory}/{number}"), &vec![1; number + 1]);
    }
    place.hard_link("z/0", "a/link");
    place.hard_link("a/2", "z/link");
    for _ in 0..20 {
        let found = place.run("dupes --unique --format fdupes .");
        let expected = "./a/2\n./z/link\n./a/link\n./z/0\n./m/1\n";
        assert_eq!(found.stdout, expected, "{}", found.stderr);
    }
}

#[test]
fn dupes_files_from_a_list_without_paths_is_an_error() {
    let place = planted();
    place.file("list", b"\n\n");
    place.file("list0", b"\0");
    for (options, name) in [
        ("list", "list"),
        ("list --explain", "list"),
        ("list0 -0", "list0"),
        ("list --against one", "list"),
        ("-", "standard input"),
        ("- --json --explain", "standard input"),
    ] {
        let refusal = place.run(("dupes --files-from", options)).refused();
        assert_eq!(refusal, format!("seekless: no paths in {name}\n"), "{options}");
    }
    // Others may be named.
    place.succeeds("dupes --files-from list one");
    for (name, shown) in [("gone", "gone"), ("go\nne", "go\\nne")] {
        let told = format!("seekless: {shown}: cannot read: No such");
        place.run(&["dupes", "--files-from", name]).refused_with(&[&told]);
    }
}

#[test]
fn dupes_files_from_takes_lines_and_zeros() {
    let place = planted();
    place.file("list", b"one/a\none/b\ngone\n");
    place.file("list0", b"one/long\0other/long, too\0");
    let ended = place.fails(2, "dupes --files-from list");
    ended.warns("gone: cannot stat");
    assert!(ended.stdout.starts_with("2 files of 4 B"), "{}", ended.stdout);
    let ended = place.succeeds("dupes --files-from list0 -0");
    assert!(ended.stdout.starts_with("2 files of 6 B"), "{}", ended.stdout);
    assert!(place.run("dupes").refused().contains("PATH"));
}

#[test]
fn dupes_filters_leave_what_they_name() {
    let place = Place::new();
    for (name, bytes) in [
        ("a/x.jpg", 10),
        ("a/b/x.jpg", 10),
        ("a/b/c/x.png", 10),
        (".hidden/x.jpg", 10),
        ("y.jpg", 20),
        ("z.jpg", 20),
    ] {
        place.file(name, &vec![1; bytes]);
    }
    set_modified(&place.path("a/x.jpg"), 0);
    let found = |options: &str| {
        let ended = place.succeeds(("dupes . --format fdupes", options));
        assert_eq!(ended.stderr, "", "{options}");
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
        place.run(("dupes .", wrong)).refused();
    }
}

#[test]
fn dupes_links_counts_hard_links_as_find() {
    let place = Place::new();
    place.files("in/one in/uno in/two in/three", b"same");
    for (name, link) in [("two", "outside"), ("three", "in/drei"), ("three", "in/tres")] {
        place.hard_link(format!("in/{name}"), link);
    }
    let found = |links: &[&str]| {
        let ended = place.succeeds(("dupes --format fdupes in", links));
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
    let wrong = words("+ - ++1 +-1 -+1 --1 -0 +18446744073709551615 x 1x");
    for wrong in wrong.into_iter().chain([""]) {
        place.refuses(&["dupes", "in", "--links", wrong], &["+3 for more"]);
    }
}

#[test]
fn dupes_match_adds_a_condition_to_every_search() {
    let place = Place::new();
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
        let ended = place.succeeds(("dupes --format fdupes", options));
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
fn dupes_name_an_unreadable_file_and_compare_the_others() {
    let place = Common::new();
    for (name, mode) in [("a", 0o644), ("b", 0o644), ("c", 0)] {
        let path = place.directory().join("open").join(name);
        fs::write(&path, "same").unwrap();
        set_mode(path, mode);
    }
    let ended = place.run(&["dupes", "open"]).ended_with(2);
    let told = "seekless dupes: open/c: cannot open: Permission denied (os error 13)\n";
    assert_eq!(ended.stderr, told);
    assert!(ended.stdout.starts_with("2 files of 4 B"), "{}", ended.stdout);
}

#[test]
fn dupes_against_makes_references_whatever_else_names_them() {
    let place = Place::new();
    place.files("p/1 b/1 b/below/2", b"same");
    place.hard_link("b/1", "link");
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
        let ended = place.succeeds(("dupes", arguments));
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
    let json = place.succeeds("dupes --json link p --against b/1").json();
    let roots = json["groups"][0]["paths"].as_array().unwrap().iter();
    let roots: Vec<_> = roots
        .map(|path| (path["path"].as_str().unwrap(), path["root"].as_u64().unwrap()))
        .collect();
    assert_eq!(roots, [("b/1", 2), ("link", 2), ("p/1", 1)]);
}

#[test]
fn dupes_of_hard_links_named_one_by_one_are_one_file() {
    let place = planted();
    let lines = |stdout: &str| {
        let lines = stdout.lines().take_while(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    place.file("list", b"one/link\none/a\none/../one/a\nother/a\n");
    for arguments in [
        &["one/link", "one/a", "other/a", "./one/link"][..],
        &["--files-from", "list"],
    ] {
        let ended = place.succeeds(("dupes", arguments));
        let names = ["  one/a", "  one/link  (same file)", "  other/a"];
        assert_eq!(lines(&ended.stdout)[1..], names);
        ended.says("\n2 files, 1 group");
        let json = place.succeeds(("dupes --json", arguments)).json();
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
fn dupes_of_a_bind_mount_have_one_name_every_time() {
    let place = Place::new();
    let mut mounts = Vec::new();
    for name in ["a", "b"] {
        let Some(mount) = Mount::tmpfs(&place.path(name), "size=4m") else {
            return;
        };
        mounts.push(mount);
    }
    // The first directory of each tmpfs has one inode number.
    place.directories("a/mounted b/own");
    let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("a/mounted"), inode("b/own"));
    let Some(mount) = Mount::bind(&place.path("b/own"), &place.path("a/mounted")) else {
        return;
    };
    mounts.push(mount);
    place.files("b/own/file b/file", b"same");
    for number in 0..100 {
        place.directories(&format!("a/{number} b/{number}"));
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
fn dupes_explain_says_how_files_were_read() {
    let place = planted();
    let ended = place.succeeds("dupes --explain .");
    let first = ended.stderr.lines().next().unwrap();
    assert!(first.starts_with("seekless dupes: "), "{first}");
    assert!(first.contains("in the order of their"), "{first}");
    ended.warns("  predicted ");
}
