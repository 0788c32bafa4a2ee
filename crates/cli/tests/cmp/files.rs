//! `seekless cmp` beyond GNU cmp: own options, options of FreeBSD, large files, files that change.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;

use serde_json::json;

use crate::common::place::{Ended, Place, Words, assert_contains, assert_fields};

const MIB: usize = 1 << 20;

fn place() -> Place {
    let place = Place::new();
    place.file("one", b"abc\ndef\n");
    place.file("other", b"abc\ndeX\n");
    place
}

fn run(place: &Place, words: &str) -> (Option<i32>, String, String) {
    let ended = Ended::by(place.command().env("LC_ALL", "C").args(("cmp", words).list()));
    (ended.code, ended.stdout, ended.stderr)
}

#[test]
fn cmp_prints_and_exits_as_cmp_with_options_of_freebsd() {
    let place = place();
    place.file("longer", b"abc\ndef\nghi\n");
    symlink("one", place.path("link")).unwrap();
    symlink("onf", place.path("dangling")).unwrap();
    let differ = "one other differ: char 7, line 2\n";
    let misused = "seekless cmp: options -x and -s are incompatible\n\
        seekless cmp: Try 'seekless cmp --help' for more information.\n";
    let no_link = "seekless cmp: one: Not a symbolic link\n";
    for (words, code, stdout, stderr) in [
        ("one other", 1, differ, ""),
        ("one one", 0, "", ""),
        ("one none", 2, "", "seekless cmp: none: No such file or directory\n"),
        ("-sx one other", 2, "", misused),
        // Offsets from zero, in hexadecimal.
        ("-x one other", 1, "00000006 66 58\n", ""),
        ("-xl -i6 one other", 1, "00000000 66 58\n", ""),
        // Sizes first.
        ("-z one longer", 1, "one longer differ: size\n", ""),
        ("-sz one longer", 1, "", ""),
        ("-z one other", 1, differ, ""),
        // The texts of links.
        ("-h link dangling", 1, "link dangling differ: char 3, line 1\n", ""),
        ("-h link link", 0, "", ""),
        ("link one", 0, "", ""),
        ("-h link one", 2, "", no_link),
        ("-h one link", 2, "", no_link),
        ("-h one other", 1, differ, ""),
    ] {
        let expected = (Some(code), stdout.to_owned(), stderr.to_owned());
        assert_eq!(run(&place, words), expected, "{words}");
    }
    assert_eq!(run(&place, "-h"), run(&place, "--help"), "without a file, it helps");
    assert_eq!(run(&place, "-hs").0, Some(2));
    let mut command = place.command();
    command.env("LC_ALL", "C.UTF-8").args(["cmp", "one", "other"]);
    let elsewhere = "one other differ: byte 7, line 2\n";
    assert_eq!(Ended::by(&mut command).stdout, elsewhere, "not the locale of POSIX");
}

#[test]
fn cmp_json_is_one_object() {
    let place = place();
    for (words, code, verdict) in [
        ("--json one other", 1, "differ"),
        ("--json -s one one", 0, "equal"),
        ("--json one none", 2, "failed"),
    ] {
        let object = place.fails(code, ("cmp", words)).json();
        assert_fields(&object, &json!({"verdict": verdict, "exit_code": code}));
    }
    let object = place.fails(1, "cmp --json one other").json();
    assert_fields(&object, &json!({"offset": 6, "line": 2}));
    assert_eq!(run(&place, "--json -l one other").0, Some(2));
}

#[test]
fn cmp_explain_names_method_and_time() {
    let place = place();
    for (words, word) in [
        ("--explain one one", ": identity: "),
        ("--explain one other", ": stream: "),
        ("--explain --method compare/sync one other", ": compare/sync,"),
        (
            "--explain --method compare/sync,identity=ignore one one",
            "identity=ignore: ",
        ),
    ] {
        let (_, _, stderr) = run(&place, words);
        assert!(
            stderr.starts_with("seekless cmp: ") && stderr.contains(word),
            "{words}: {stderr}"
        );
    }
    place.file("large", &vec![1; 2 * MIB]);
    place.file("same", &vec![1; 2 * MIB]);
    let (_, _, stderr) = run(&place, "--explain large same");
    assert_contains(
        &stderr,
        &[
            "  predicted ",
            ", took ",
            ": 100 %, from the system",
            " ns per byte, measured ",
        ],
    );
    assert_eq!(run(&place, "--method compare/sync /dev/null one").0, Some(2));
    assert_eq!(run(&place, "--method read/sync one other").0, Some(2));
    assert_eq!(run(&place, "--method nonsense one other").0, Some(2));
}

#[test]
fn cmp_counts_lines_of_large_files_by_every_method() {
    let place = Place::new();
    let mut content: Vec<u8> = (0..9 * MIB)
        .map(|n| if n % 61 == 0 { b'\n' } else { n as u8 | 128 })
        .collect();
    place.file("one", &content);
    place.file("shorter", &content[..8 * MIB + 5]);
    let at = 8 * MIB + 77;
    content[at] ^= 1;
    place.file("other", &content);
    let line = content[..at]
        .iter()
        .fold(1, |line, &byte| line + u32::from(byte == b'\n'));
    let lines = content[..8 * MIB + 5]
        .iter()
        .fold(0, |lines, &byte| lines + u32::from(byte == b'\n'));
    for method in [
        "",
        "--method compare/sync",
        "--method compare/mmap,block=1M",
        "--method compare/io_uring,depth=2",
    ] {
        let (code, stdout, stderr) = run(&place, &format!("{method} one other"));
        if stderr.contains("not available here") {
            println!("skipped: {stderr}");
            continue;
        }
        let expected = format!("one other differ: char {}, line {line}\n", at + 1);
        assert_eq!((code, stdout), (Some(1), expected), "{method}: {stderr}");
        let (code, _, stderr) = run(&place, &format!("{method} shorter one"));
        let bytes = 8 * MIB + 5;
        let expected = format!(
            "seekless cmp: EOF on shorter after byte {bytes}, in line {}\n",
            lines + 1
        );
        assert_eq!((code, stderr), (Some(1), expected), "{method}");
    }
}

#[test]
fn cmp_ends_by_sigpipe_without_a_reader() {
    let place = Place::new();
    place.file("one", &vec![1; MIB]);
    place.file("other", &vec![2; MIB]);
    let mut child = place.start("cmp -l one other");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(13), &b""[..]));
}

#[test]
fn cmp_of_changing_files_does_not_crash() {
    let place = Place::new();
    let len = 24 * MIB;
    let (one, other) = (place.path("one"), place.path("other"));
    for round in 0..6 {
        fs::write(&one, vec![7; len]).unwrap();
        fs::write(&other, vec![7; len]).unwrap();
        let child = place.start("cmp one other");
        let file = OpenOptions::new().write(true).open(&other).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round));
        // After a truncation, a map shows zeros; a longer file has its end elsewhere.
        file.set_len(if round % 2 == 0 { 3 * MIB as u64 } else { 2 * len as u64 })
            .unwrap();
        let ended = Ended::of(child);
        let complaint = &ended.stderr;
        match ended.code {
            Some(0) => assert_eq!(complaint, ""),
            Some(1) => assert!(complaint.contains("EOF on o") && ended.stdout.is_empty(), "{complaint}"),
            Some(2) => assert!(complaint.contains("other: "), "{complaint}"),
            code => panic!("{code:?} {complaint}"),
        }
    }
}
