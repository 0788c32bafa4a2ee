//! Bad input: a clear sentence on standard error, exit 2, and nothing touched.

use std::fmt::Debug;
use std::os::unix::net::UnixListener;

use crate::common::place::{Ended, Mount, Place, SMALL_BENCH, Words, assert_contains, is_long, prepared, words};

/// Checks that a command refuses and touches nothing. Returns its error.
#[track_caller]
fn refused(place: &Place, arguments: impl Words + Copy + Debug) -> String {
    let before = place.content();
    let sentence = place.call(arguments).refused();
    assert!(before == place.content(), "something was touched: {arguments:?}");
    assert!(place.saved().is_empty(), "a run was saved: {arguments:?}");
    sentence
}

/// Checks that a command refuses with all of these words.
#[track_caller]
fn refused_with(place: &Place, arguments: impl Words + Copy + Debug, words: &[&str]) {
    let sentence = refused(place, arguments);
    assert_contains(&sentence, words);
}

#[test]
fn errors_name_a_missing_file_and_the_reason_once() {
    let place = Place::new();
    for arguments in [
        "bench --file gone",
        "bench --dir gone",
        "bench gone.toml",
        "bench ./gone",
        "bench read --dir . --dir gone",
        "methods --dir gone",
        "bench --export-json gone/run.json",
    ] {
        let sentence = refused(&place, arguments);
        assert_contains(&sentence, &["gone"]);
        assert_eq!(sentence.matches("No such file or directory").count(), 1, "{sentence}");
    }
}

#[test]
fn errors_refuse_a_file_of_another_kind() {
    let place = Place::new();
    place.file("file", b"bytes");
    place.file("empty", b"");
    place.directories("directory");
    assert!(prepared("mkfifo", &[place.path("fifo").as_os_str()]));
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    for (line, words) in [
        ("bench --file directory", &["directory", "is a directory"][..]),
        ("bench ./directory", &["directory", "not a regular file"]),
        ("bench --dir file", &["file", "not a directory", "--file"]),
        ("methods --dir file", &["file", "not a directory"]),
        ("bench --export-csv directory", &["directory", "is a directory"]),
        ("bench --file empty", &["empty", "nothing to time"]),
        ("bench write --file file", &["only read experiments"]),
        ("bench --file fifo", &["fifo", "is a FIFO"]),
        ("bench --file socket", &["socket", "is a socket"]),
        ("bench ./fifo", &["fifo", "not a regular file"]),
        ("bench read --dir /proc", &["/proc", "not a storage file system"]),
        (
            "bench read --dir /sys/kernel",
            &["/sys/kernel", "not a storage file system"],
        ),
        ("methods --dir /proc", &["/proc", "not a storage file system"]),
        (
            "methods --dir /sys/kernel",
            &["/sys/kernel", "not a storage file system"],
        ),
    ] {
        refused_with(&place, line, words);
    }
    // A null device of our own, so that a failure does no harm.
    if place.device("device", "c 1 3") {
        refused_with(&place, "bench --file device", &["device", "is a device"]);
        refused_with(&place, "bench ./device", &["device", "not a regular file"]);
    }
}

#[test]
fn errors_refuse_unknown_or_unused_names_and_options() {
    let place = Place::new();
    for (line, words) in [
        // The answer is the nearest.
        ("bench raed", &["`raed`", "did you mean `read`"][..]),
        ("bench --methods read/mmpa", &["`read/mmpa`", "`read/mmap`"]),
        ("methods read/snyc", &["`read/snyc`", "`read/sync`"]),
        ("methods copi", &["`copi`", "read, write, copy"]),
        ("methods read/sync,dirct", &["`dirct`", "`direct`"]),
        (
            "methods read/mmap,hint=popluate",
            &["`hint=popluate`", "`hint=populate`"],
        ),
        ("bench --cache wram", &["wram", "warm"]),
        ("bench --bugdet 9s", &["--bugdet", "--budget"]),
        ("benhc", &["benhc", "bench"]),
        // Its mechanism does not have the option, or not this value.
        ("methods read/mmap,direct", &["read/mmap", "direct"]),
        ("methods read/sync,block=9Q", &["`9Q`", "as in 128K"]),
        // Nothing in the run takes it.
        (
            "bench read --other .",
            &["--other: nothing in this run compares two files"],
        ),
        (
            "bench write --cache cold",
            &["--cache: nothing in this run reads a file"],
        ),
        ("bench copy --work 5", &["--work: nothing in this run reads or writes"]),
        (
            "bench read --cache warm --drop file",
            &["--drop: nothing in this run starts with a cold cache"],
        ),
        (
            "bench write --drop file",
            &["--drop: nothing in this run starts with a cold cache"],
        ),
        (
            "bench read --export-columns x.tsv",
            &[
                "--export-columns: no experiment of this run",
                "names the columns of a document",
            ],
        ),
        ("bench --size 90000T --methods */sync*", &["free", "--size"]),
        ("bench read --depth 4", &["no method of this run makes such requests"]),
        ("bench random --mix 70", &["as in 70/30"]),
        ("bench random --mix 70/40", &["as in 70/30"]),
        ("bench random --mix 0/100", &["as in 70/30"]),
        ("bench random --mix 70:30", &["as in 70/30"]),
        ("bench read --to .", &["--to: nothing in this run copies"]),
        ("bench copy --to . --other .", &["cannot be used with"]),
        // Before it is left alone.
        ("bench --sittings 2 nonsense", &["nonsense"]),
        ("bench --sittings 0", &["0"]),
        ("bench --every 1h", &["--sittings"]),
        ("bench --sittings 2 --dir /nonexistent", &["/nonexistent"]),
        ("bench --sittings 2 --export-csv x.csv", &["cannot be used with"]),
    ] {
        refused_with(&place, line, words);
    }
}

#[test]
fn errors_refuse_impossible_sizes_budgets_and_rounds() {
    let place = Place::new();
    let sizes = ["0", "-1", "5X", "", "9000000T", "1.5", "1.5.5M"].map(|size| ("--size", size));
    let budgets = ["0", "-5s", "1x", "", "nan", "inf", "365000h", "1ns"].map(|budget| ("--budget", budget));
    for (option, value) in sizes.into_iter().chain(budgets).chain([("--rounds", "0")]) {
        refused_with(&place, &["bench", option, value], &[option, value]);
    }
    refused_with(&place, "bench --rounds 3 --budget 9s", &["--rounds", "--budget"]);
}

#[test]
fn sizes_may_have_decimals() {
    let place = Place::new();
    place.file("file", &[1; 2000]);
    let bench = "bench read --size 0.5M --methods read/sync,block=1.5K --rounds 1";
    // `--methods` takes globs of what there is, or a method.
    refused_with(&place, bench, &["read/sync,block=1.5K"]);
    place
        .call("bench read --size 0.5M --methods read/mmap --rounds 1")
        .succeeded();
    assert_eq!(place.only_run().contests[0].size_bytes, 1 << 19);
    let method = place.call("methods read/sync,block=1.5K").succeeded().stdout;
    assert_contains(&method, &["read/sync,block=1536"]);
    for line in [
        "dupes --min-size 1.5K .",
        "holes dig --dry-run --min 0.5K file",
        "update file --memory 16.5M",
    ] {
        place.call(&line.split(' ').collect::<Vec<_>>()).succeeded();
    }
}

#[test]
fn sizes_near_2_to_the_64_are_refused() {
    let place = Place::new();
    place.files("file other", b"bytes");
    for size in [
        "16E",
        "16777215T",
        "16777216T",
        "18446744073709551615",
        "18446744073709551616",
        "4611686018427387905",
    ] {
        let block = format!("read/sync,block={size}");
        for arguments in [
            &["bench", "--size", size][..],
            &["methods", &block],
            &["holes", "punch", "file", size, "1"],
            &["holes", "punch", "file", "0", size],
            &["holes", "dig", "--min", size, "file"],
            &["dupes", "--min-size", size, "."],
            &["dupes", "--max-size", size, "."],
            &["runs", "remove", "--down-to", size],
            &["update", "file", "--memory", size],
        ] {
            let sentence = refused(&place, arguments);
            let reason = if size == "16E" { "is not a size" } else { "is too large" };
            assert!(
                sentence.contains(&format!("`{size}` {reason}")),
                "{arguments:?}: {sentence}"
            );
        }
    }
    // The largest size that is understood. Ends and sums of it do not fit into 64 bits.
    let largest = "4194304T";
    refused_with(
        &place,
        &["holes", "punch", "file", largest, largest],
        &["cannot punch", "of 5"],
    );
    for line in [
        "cmp --quiet -i 4194304T:4194304T file other",
        "cmp --quiet -n 4194304T file other",
        "holes dig --dry-run --min 4194304T file",
        "dupes --min-size 4194304T .",
        "runs remove --down-to 4194304T",
        "update --dry-run --memory 4194304T --from empty file",
    ] {
        place.file("empty", b"");
        place.call(&line.split_whitespace().collect::<Vec<_>>()).succeeded();
    }
}

#[test]
fn update_offsets_near_2_to_the_64_are_refused() {
    let place = Place::new();
    place.file("file", b"bytes");
    for (offset, told) in [
        ("9223372036854775806", "ends past 2^63 - 1"),
        ("18446744073709551614", "ends past 2^63 - 1"),
        ("18446744073709551615", "ends past 2^63 - 1"),
        ("18446744073709551616", "line 1 of the updates"),
    ] {
        place.file(
            "updates",
            format!("{{\"offset\": {offset}, \"text\": \"xx\"}}\n").as_bytes(),
        );
        for option in ["--grow", "--dry-run", "--safety=replace", "--safety=journal"] {
            refused_with(&place, &["update", "file", "--from", "updates", option], &[told]);
        }
    }
}

#[test]
fn bench_refuses_files_that_no_storage_holds() {
    let place = Place::new();
    let experiment = |operation: &str, rest: &str| {
        format!(
            "name = \"x\"\nabout = \"\"\n[[contest]]\noperation = \"{operation}\"\nmethods = [\"{operation}/sync*\"]\n\
             sizes = [\"4194304T\"]\nfiles = 1000000\n{rest}"
        )
    };
    place.file(
        "read.toml",
        experiment("read", "layout = [\"fragmented\"]\n").as_bytes(),
    );
    for operation in ["write", "copy", "compare", "update"] {
        place.file(format!("{operation}.toml"), experiment(operation, "").as_bytes());
    }
    let sizes = ["--size", "4194304T", "--size", "4194303T", "--size", "4194302T"];
    let sizes = [&sizes[..], &["--size", "4194301T", "--size", "4194300T"]].concat();
    for experiments in [
        &["read.toml", "write.toml", "copy.toml", "compare.toml", "update.toml"][..],
        &[&["read", "write", "copy", "compare", "update"], &sizes[..]].concat(),
        &["sustained", "--size", "4194304T"],
        &["random", "--size", "4194304T"],
    ] {
        for time in [["--rounds", "10000"], ["--budget", "168h"]]
            .into_iter()
            .take(if is_long() { 2 } else { 1 })
        {
            refused_with(
                &place,
                &[&["bench"], experiments, &time].concat(),
                &[" free ", "--size"],
            );
        }
    }
}

#[test]
fn bench_on_a_full_file_system_is_refused() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("full"), "size=4M") else {
        return;
    };
    refused_with(
        &place,
        &["bench", "read", "--size", "8M", "--dir", "full"],
        &["full", "free"],
    );
    place.file("full/filler", &vec![1; 4 << 20]);
    refused_with(&place, "bench read --dir full", &["full", "free"]);
    refused_with(&place, "methods --dir full", &["full", "No space left"]);
}

#[test]
fn bench_on_a_read_only_file_system_reads_its_files_only() {
    let place = Place::new();
    let Some(mount) = Mount::tmpfs(&place.path("fixed"), "size=4M") else {
        return;
    };
    place.file("fixed/file", &vec![7; 1 << 20]);
    mount.read_only();
    refused_with(&place, "bench --dir fixed", &["fixed", "read-only", "--file"]);
    refused_with(&place, "methods --dir fixed", &["fixed", "Read-only"]);
    refused_with(
        &place,
        &["bench", "--export-json", "fixed/run.json"],
        &["fixed", "Read-only"],
    );
    let before = place.content();
    let read: Ended = place.call("bench --rounds 1 --methods */sync* --file fixed/file");
    assert!(read.succeeded().stdout.contains("Saved"));
    assert!(before == place.content());
}

#[test]
fn names_from_outside_reach_no_terminal_and_begin_no_line() {
    // CSI in one character and in two, an override of the direction of text, a letter that is harmless, and a line.
    const NAME: &str = "a\u{9b}31m\u{202e}z\u{e9}\nseekless: evil\x1b[2J";
    let place = Place::new();
    for directory in ["d", "e"] {
        place.file(format!("{directory}/{NAME}"), directory.as_bytes());
    }
    let [directory, below] = ["directory", "below/"].map(|name| format!("{name}{NAME}"));
    place.directories("below");
    for name in [&directory, &below] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let [option, absent, document, fifo] = [("--", ""), ("absent/", ""), ("./", ".json"), ("fifo", "")]
        .map(|(before, behind)| format!("{before}{NAME}{behind}"));
    place.file(NAME, b"one");
    place.file(&document, b"{");
    place.file("updates", b"{\"offset\": 0, \"text\": \"O\"}\n");
    assert!(prepared("mkfifo", &[place.path(&fifo).as_os_str()]));
    for arguments in [
        &["cmp", NAME, "updates"][..],
        &["cmp", "-b", NAME, "updates"],
        &["cmp", "--explain", "--method", "compare/sync", NAME, "updates"],
        &["cmp", NAME, &absent],
        &["cmp", "-i", NAME, "updates", "updates"],
        &["cmp", "--method", NAME, "updates", "updates"],
        &["cmp", &option, "updates", "updates"],
        &["cmp", "--json", NAME, "updates"],
        &["cmp", "-r", "--json", "d", "e"],
        &["cmp", "-r", "d", "e"],
        &["cmp", "-r", &option, "d", "e"],
        &["cmp", "--same-size", NAME],
        &["cache", "show", "--json", NAME],
        &["cache", "show", NAME, &absent],
        &["cache", "show", "--all", "--json", "d"],
        &["cache", "show", &option],
        &["dupes", &absent],
        &["holes", "show", "--json", NAME],
        &["holes", "show", &absent],
        &["holes", "show", &below],
        &["holes", "show", &fifo],
        &["holes", "dig", "--json", "--dry-run", NAME],
        &["holes", "dig", &fifo],
        &["holes", "fill", &fifo],
        &["holes", "punch", &fifo, "0", "1"],
        &["holes", "punch", &document, "9", "1"],
        &["storage", "--json", NAME],
        &["storage", NAME],
        &["storage", &absent],
        &["storage", &fifo],
        &["update", "--json", "--dry-run", NAME, "--from", "updates"],
        &["update", "--json", NAME, "--from", "updates"],
        &["update", &fifo, "--from", "updates"],
        &["bench", NAME],
        &["bench", &option],
        &["bench", &document],
        &["bench", "--dir", &absent],
        &["bench", "--dir", &document],
        &["bench", "--file", &below],
        &["bench", "--like", NAME],
        &[&words(SMALL_BENCH)[..], &["read/mmap", "--dir", &directory]].concat(),
        &["methods", "--dir", &document],
        &["report", NAME],
        &["report", &document],
        &["runs", "show", NAME],
        &["runs", "show", &document],
        &["runs", "show", &absent],
        &["runs", "remove", NAME],
        &["runs", "remove", &document],
        &["runs", "compare", NAME, NAME],
        &["runs", "import", &document],
        &["runs", "import", &absent],
        &["runs", "export", NAME],
        &[NAME],
        &[&option],
    ] {
        let ended = place.call(arguments);
        let said = ended.stdout + &ended.stderr;
        let raw: String = said
            .chars()
            .filter(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}')
            .collect();
        assert_eq!(raw, "", "{arguments:?}: {said:?}");
        // `cmp` names files as cmp(1) does, for scripts that read that; and clap repeats an unknown word as it was written.
        let begins_line = said.lines().any(|line| line.starts_with("seekless: evil"));
        let may_begin = arguments[0] == "cmp" || said.starts_with("error: un");
        assert!(!begins_line || may_begin, "{said}");
        let written_out = ["a\\u{9b}31m\\u{202e}z", "a\\u009b31m\\u202ez"];
        let is_written_out = written_out.iter().any(|name| said.contains(name));
        assert!(
            is_written_out || arguments.contains(&"--same-size"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn bench_counts_the_room_of_two_subvolumes_once() {
    let place = Place::new();
    let (directory, image) = (place.path("btrfs"), place.path("image"));
    let Some(_mount) = Mount::image("btrfs", 1 << 30, &image, &directory) else {
        return;
    };
    let made = ["one", "other"].map(|name| {
        let path = directory.join(name);
        prepared("btrfs", &["subvolume".as_ref(), "create".as_ref(), path.as_os_str()])
    });
    if made != [true; 2] {
        return;
    }
    // One of them has room for it.
    let sized = "bench read --size 500M --rounds 1";
    let both = "--dir btrfs/one --dir btrfs/other";
    place.refuses(&format!("{sized} {both}"), &["btrfs/other", "free"]);
}
